"""Inputs of random graphs."""

from __future__ import annotations

import numpy as np

from graph_writer import Writer
from random_graphs import BATCH, SEQUENCE


def fill(
    r: np.random.Generator, symbols: dict[str, int], kind: str, atoms: list, bounds: list
) -> np.ndarray:
    """Returns an input of a chain. Symbols without a value are random: they are separate
    batches."""

    def number(atom):
        return symbols.setdefault(atom, int(r.integers(1, 5))) if isinstance(atom, str) else atom

    shape = [number(atom) for atom in atoms]
    if kind == "bits":
        return r.integers(0, 2, shape)
    if kind == "indices":
        limits = [
            int(np.prod([number(atom) for atom in bound], dtype=np.int64)) for bound in bounds
        ]
        if len(limits) == 1:
            return r.integers(-limits[0] if limits[0] < 1000 else 0, limits[0], shape)
        return np.stack([r.integers(-n if n < 1000 else 0, n, shape[:-1]) for n in limits], -1)
    values = r.integers(-8, 9, shape) / 4
    if kind == "special":
        odd = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0])[r.integers(0, 5, shape)]
        values = np.where(r.random(shape) < 0.4, odd, values)
    return values.astype(np.float32)


def make_inputs(w: Writer, batch: int, sequence: int) -> dict[str, np.ndarray]:
    spec = w.spec
    r = np.random.default_rng([spec.seed, batch, sequence])
    ids = r.integers(0, spec.vocab, (batch, sequence))
    past = (batch + sequence) % 4 if spec.cache else 0
    mask = np.ones((batch, past + sequence), np.int64)
    for row in range(batch):
        # A sequence has padding on the left, on the right, or none. (If attention is one op,
        # results of rows without keys are defined.)
        count = int(r.integers(0, sequence))
        if row % 3 == 0 and spec.opset < 23:
            mask[row, :count] = 0
        elif row % 3 == 1:
            mask[row, past + sequence - count :] = 0
    given = {
        "input_ids": ids,
        "hidden_states": (
            r.standard_normal((batch, sequence, spec.hidden), dtype=np.float32)
            if spec.depth
            else (r.integers(-8, 9, (batch, sequence, spec.hidden)) / 4).astype(np.float32)
        ),
        "position_ids": np.maximum(np.cumsum(mask, axis=1) - 1, 0)[:, past:],
        "attention_mask": mask,
        "labels": r.integers(0, spec.vocab, (batch, sequence)),
    }
    inputs = {}
    symbols = {BATCH: batch, SEQUENCE: sequence}
    for value in w.inputs:
        if value.name in w.fills:
            inputs[value.name] = fill(r, symbols, *w.fills[value.name])
            continue
        if value.name.startswith("past."):
            sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            given[value.name] = r.standard_normal(
                (batch, sizes[1], past, sizes[3]), dtype=np.float32
            )
        inputs[value.name] = given[value.name]
    return inputs

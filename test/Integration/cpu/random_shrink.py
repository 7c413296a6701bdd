"""Reduction of a failing pair to a smaller one that fails in the same way."""

from __future__ import annotations

import dataclasses
import re

from harness import Grid
from random_chains import Chain
from random_graphs import Layer, Spec
from random_pairs import Outcome, Pair, attempt


def smaller(pair: Pair):
    """Yields pairs that are smaller in one respect, the most promising first."""
    spec, grid = pair.spec, pair.grid
    for shape in pair.shapes if len(pair.shapes) > 1 else ():
        yield dataclasses.replace(pair, shapes=(shape,))
    yield from smaller_chains(pair) if spec.chains else ()
    if pair.level:
        yield dataclasses.replace(pair, level=0)
    for depth in range(0 if spec.chains else 1, spec.depth):
        yield dataclasses.replace(pair, spec=dataclasses.replace(spec, depth=depth))
    if spec.depth == 0 and spec.layers != (Layer(),):
        yield dataclasses.replace(pair, spec=dataclasses.replace(spec, layers=(Layer(),)))
    for layer in spec.layers if len(spec.layers) > 1 else ():
        yield dataclasses.replace(pair, spec=dataclasses.replace(spec, layers=(layer,)))
    plain = Grid()
    if grid.xy:
        for x, y in (
            (1, grid.xy[1]),
            (grid.xy[0], 1),
            (grid.xy[0] - 1, grid.xy[1]),
            (grid.xy[0], grid.xy[1] - 1),
        ):
            if 1 < x * y < grid.tp:
                yield dataclasses.replace(pair, grid=dataclasses.replace(grid, tp=x * y, xy=(x, y)))
        yield dataclasses.replace(pair, grid=dataclasses.replace(grid, xy=None))
    for name in ("pp", "dp", "mb", "sp", "order", "allow_reshard", "tp"):
        values = {getattr(plain, name)}
        if name in ("pp", "dp", "mb", "tp"):
            values |= set(range(1, getattr(grid, name)))
        for value in sorted(values):
            if value != getattr(grid, name) and not (
                name == "tp" and (grid.xy or (value == 1 and grid.sp))
            ):
                yield dataclasses.replace(pair, grid=dataclasses.replace(grid, **{name: value}))
    for shape in {(1, 1), (1, pair.shapes[0][1]), (pair.shapes[0][0], 1), (2, 3)} - set(
        pair.shapes
    ):
        if len(pair.shapes) == 1 and shape[0] * shape[1] < pair.shapes[0][0] * pair.shapes[0][1]:
            yield dataclasses.replace(pair, shapes=(shape,))
    for field in dataclasses.fields(Spec):
        if (
            field.name in ("layers", "depth", "seed", "chains")
            or getattr(spec, field.name) == field.default
        ):
            continue
        yield dataclasses.replace(
            pair, spec=dataclasses.replace(spec, **{field.name: field.default})
        )
    for i, layer in enumerate(spec.layers):
        for field in dataclasses.fields(Layer):
            values = [field.default] if getattr(layer, field.name) != field.default else []
            if field.name in ("attention", "mlp") and "none" not in (layer.attention, layer.mlp):
                values.insert(0, "none")
            if field.name == "heads":
                values = [n for n in (layer.kv, 2 * layer.kv) if n < layer.heads]
            if field.name == "kv":
                values = [n for n in (1, 2) if n < layer.kv]
            for value in values:
                changed = {field.name: value}
                if field.name == "kv":
                    changed["heads"] = layer.heads // layer.kv * value
                layers = list(spec.layers)
                layers[i] = dataclasses.replace(layer, **changed)
                yield dataclasses.replace(
                    pair, spec=dataclasses.replace(spec, layers=tuple(layers))
                )


def smaller_chains(pair: Pair):
    spec = pair.spec

    def with_chains(*chains: Chain) -> Pair:
        return dataclasses.replace(pair, spec=dataclasses.replace(spec, chains=chains))

    for i, chain in enumerate(spec.chains):
        before, after = spec.chains[:i], spec.chains[i + 1 :]
        yield with_chains(*before, *after)
        for j in range(len(chain.steps)):
            yield with_chains(
                *before,
                dataclasses.replace(chain, steps=chain.steps[:j] + chain.steps[j + 1 :]),
                *after,
            )
    for i, chain in enumerate(spec.chains):
        before, after = spec.chains[:i], spec.chains[i + 1 :]
        changes = [{"end": "output"}, {"product": False}, {"store": "initializer"}, {"at": 0}]
        changes += [{"width": width} for width in (4, 6, 8, 12) if width < chain.width]
        for j, (name, *numbers) in enumerate(chain.steps):
            changes += [
                {
                    "steps": (
                        *chain.steps[:j],
                        (name, *numbers[:n], 0, *numbers[n + 1 :]),
                        *chain.steps[j + 1 :],
                    )
                }
                for n in range(len(numbers))
                if numbers[n]
            ]
        for change in changes:
            small = dataclasses.replace(chain, **change)
            if small != chain:
                yield with_chains(*before, small, *after)


def is_sensible(spec: Spec) -> bool:
    return all(
        layer.rotary == "none"
        or (layer.size % 2 == 0 and (layer.rotary != "partial" or layer.size >= 4))
        for layer in spec.layers
    ) and (not spec.tied or (spec.ids and spec.head != "none"))


def shrink(pair: Pair, failure: Outcome, tries: int = 80) -> tuple[Pair, Outcome]:
    """Reduces a failing pair while it fails in the same way. Each step makes the pair smaller."""
    progress = True
    while progress and tries > 0:
        progress = False
        for other in smaller(pair):
            if not is_sensible(other.spec):
                continue
            tries -= 1
            found = attempt(other)
            if found.kind == failure.kind and signature(found) == signature(failure):
                pair, failure, progress = other, found, True
                break
            if tries <= 0:
                break
    return pair, failure


def signature(outcome: Outcome) -> str:
    """Returns the kind of failure and its message without names and numbers. For one bug, these are
    equal.
    """
    if outcome.kind in ("ok", "wrong"):
        return outcome.kind
    lines = [
        line for line in outcome.text.splitlines() if "error:" in line
    ] or outcome.text.splitlines()[-1:]
    words = (
        re.sub(r"'[^']*'|\"[^\"]*\"|\S*\d\S*|/\S+", "…", lines[0].split("error:")[-1])
        if lines
        else ""
    )
    return f"{outcome.kind}: {' '.join(words.split())[:110]}"

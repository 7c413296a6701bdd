"""A generation step as a separate program takes and returns caches as arrays.

Given ids may therefore be split anywhere. Logits of each position equal those of the whole
sequence, and a sequence in a batch gets the same results as alone.
"""

import functools
import re

import numpy as np
import pytest

import harness
from generation import CAUSAL, full_logits
from harness import Grid
from tpc.reference import TOLERANCE, difference

GRIDS = ["tp1", "tp2", "pp2", "tp2,pp2,mb2", "dp2"]
CASES = [
    pytest.param(
        name,
        grid,
        id=f"{name}-{grid}",
        marks=(
            []
            if index % 3 == 0 and grid == GRIDS[(index // 3 + 1) % len(GRIDS)]
            else pytest.mark.long
        ),
    )
    for index, name in enumerate(CAUSAL)
    for grid in GRIDS
]
TOKENS, BATCH = 22, 2


@pytest.fixture(scope="session")
def step_of(tpcc, tmp_path_factory):
    """Returns the compiled file, with caches as ordinary inputs and outputs."""
    folder = tmp_path_factory.mktemp("steps")

    @functools.cache
    def make(name):
        imported, step, plain = (
            folder / f"{name}.{end}.mlir" for end in ("imported", "step", "plain")
        )
        harness.run(
            [harness.tool("tpc-translate"), "--import-onnx", CAUSAL[name].path, "-o", imported]
        ).check()
        harness.run([harness.tool("tpc-opt"), imported, "--tpc-step-pipeline", "-o", step]).check()
        text = re.sub(r"^ *tpc\.cache @.*\n", "", step.read_text(), flags=re.M)
        text, marks = re.subn(r"tpc\.cache = @\w+, |, tpc\.step = #tpc\.step<[^>]*>", "", text)
        assert marks == 2 * 2 * CAUSAL[name].layers + 1  # keys and values, in and out
        plain.write_text(text)
        return plain

    return lambda name, grid, *flags: tpcc.compile(make(name), grid, *flags)


class StepSequence:
    """A sequence of steps, each of which continues from the caches of the previous ones."""

    def __init__(self, program, rows):
        self.program, self.rows = program, rows
        self.described = program.describe()
        self.names = [
            port["name"] for port in self.described["inputs"] if port["name"] != "input_ids"
        ]
        self.caches = {
            port["name"]: np.zeros([rows, port["shape"][1], 0, port["shape"][3]], np.float32)
            for port in self.described["inputs"]
            if port["name"] in self.names
        }

    def step(self, ids):
        found = self.program.run({"input_ids": ids, **self.caches}, ["logits", *self.names])
        self.caches = {name: found[name] for name in self.names}
        return found["logits"]

    def all(self, ids, split_points):
        pieces = np.split(ids, split_points, axis=1)
        return np.concatenate([self.step(piece) for piece in pieces], axis=1)


def split_points(random):
    """Yields positions at which ids are split: after one token; at 5 twice, for a step without
    tokens (not the first step, because some files slice after it); before the last token; random.
    """
    yield [1]
    yield [5, 5]
    yield [TOKENS - 1]
    for _ in range(2):
        yield sorted(
            random.choice(np.arange(1, TOKENS), int(random.integers(2, 6)), replace=False).tolist()
        )


@pytest.mark.parametrize("name,grid", CASES)
def test_steps_of_any_length(step_of, name, grid):
    model, program = CAUSAL[name], step_of(name, grid)
    random = np.random.default_rng([model.layers, model.hidden, Grid.parse(grid).ranks])
    ids = random.integers(0, model.vocab, (BATCH, TOKENS))
    wanted = full_logits(model, ids)
    first_caches = None
    for cut in split_points(random):
        steps = StepSequence(program, BATCH)
        distance = difference(steps.all(ids, cut), wanted)
        assert distance.relative <= TOLERANCE, f"cut at {cut}: {distance}"
        first_caches = first_caches or steps.caches
        for cache, values in steps.caches.items():
            assert values.shape[2] == TOKENS, f"{cache}, cut at {cut}"
            distance = difference(values, first_caches[cache])
            assert distance.relative <= TOLERANCE, f"{cache}, cut at {cut}: {distance}"
    row = int(random.integers(BATCH))
    alone = StepSequence(program, 1).all(ids[row : row + 1], [5])
    assert difference(alone, wanted[row : row + 1]).relative <= TOLERANCE

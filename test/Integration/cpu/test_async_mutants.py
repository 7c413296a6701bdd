"""Seeded faults in asynchronous collectives: a verifier rejects each."""

import functools

import pytest

import harness
import mutants
from models import COMMITTED

MODEL = COMMITTED["gpt2-odd-opset20"].path
GRIDS = ["tp2", "tp2,pp2,mb2", "tp3,dp2"]


def kinds() -> list[str]:
    return mutants.kinds("async-")


def level_of(kind):
    return "buffers" if kind.startswith("async-buffer-") else "staged"


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Returns a folder with the program at each level."""

    @functools.cache
    def make(grid):
        folder = tmp_path_factory.mktemp("overlapped")
        for level in ("model", "staged", "buffers"):
            flags = [f"--megatron-shard={grid}", "--overlap=4", f"--emit={level}"]
            harness.run(
                [harness.tool("tpcc"), MODEL, *flags, "-o", folder / f"{level}.mlir"]
            ).check()
        for level in ("staged", "buffers"):
            mutants.remove_hash(folder / f"{level}.mlir")
        mutants.check_unchanged(folder, "staged", "buffers")
        return folder

    return make


def run(programs, cases, name):
    folders = {grid: programs(grid) for grid, *_ in cases}
    table = mutants.Table(kinds())
    table.judge(
        lambda case: mutants.judge(folders[case[0]], level_of(case[1]), *case[1:]),
        cases,
        lambda case: (level_of(case[1]), case[1], case),
    )
    return table.report(name)


def test_sample(programs):
    """One mutant of each kind."""
    table = run(programs, [("tp2", kind, 7) for kind in kinds()], "sample_of_async")
    assert len(kinds()) >= 16 and table.refused() == len(kinds())


@pytest.mark.long
def test_all(programs):
    cases = [(grid, kind, seed * 37) for grid in GRIDS for kind in kinds() for seed in range(8)]
    table = run(programs, cases, "async")
    assert table.refused() == len(cases) >= 300

"""Seeded faults in schedules of pipelines: a verifier rejects each, or the results are the same."""

import functools

import pytest

import harness
import mutants
from models import COMMITTED, FAMILIES

GPT2, DEEP = COMMITTED["gpt2-tiny"].path, FAMILIES["llama-deep"].path
SAMPLE = (GPT2, "tp2,pp2,vpp2,mb4")
PROGRAMS = [SAMPLE, (DEEP, "pp2,vpp3,mb2"), (DEEP, "pp4,vpp2,mb4"), (DEEP, "pp3,vpp2,dp2,mb3")]


def kinds() -> list[str]:
    return mutants.kinds("schedule-")


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Returns a folder with the program at each level."""

    @functools.cache
    def make(path, grid):
        folder = tmp_path_factory.mktemp("schedules")
        for level in ("model", "staged"):
            command = [harness.tool("tpcc"), path, f"--megatron-shard={grid}", f"--emit={level}"]
            harness.run([*command, "-o", folder / f"{level}.mlir"]).check()
        mutants.remove_hash(folder / "staged.mlir")
        mutants.check_unchanged(folder, "staged")
        return folder

    return make


def run(programs, cases, name):
    folders = {case[:2]: programs(*case[:2]) for case in cases}
    table = mutants.Table(kinds())
    table.judge(
        lambda case: mutants.judge(folders[case[:2]], "staged", *case[2:]),
        cases,
        lambda case: ("staged", case[2], case),
    )
    return table.report(name)


def test_sample(programs):
    """One mutant of each kind."""
    table = run(programs, [(*SAMPLE, kind, 5) for kind in kinds()], "sample_of_schedules")
    assert len(kinds()) >= 12 and table.mutants() >= 11


@pytest.mark.long
def test_all(programs):
    cases = [
        (*program, kind, seed) for program in PROGRAMS for kind in kinds() for seed in range(6)
    ]
    table = run(programs, cases, "schedules")
    assert table.mutants() >= 270 and table.unrefused() == []

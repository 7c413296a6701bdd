"""A rank on a GPU that is killed or frozen in the middle of a step: as on processors, one of the others names it, and what it
was at, and no process is left behind, also of those whose GPUs wait for it."""

import os

import pytest

from harness import Grid
from liveness import FATES, PROMISED, Steps, check, check_times, say_times
from models import MODELS
from simulator import FLAGS, environment

took = {fate: [] for fate in PROMISED}


@pytest.mark.parametrize("transport,fate", [("tcp", "kill"), pytest.param("mpi", "kill", marks=pytest.mark.long),
                                            pytest.param("tcp", "freeze", marks=pytest.mark.long), ("mpi", "freeze")])
def test_who_dies_is_named(tpcc, mpi, tmp_path, transport, fate):
    program = tpcc.compile(MODELS / "gpt2-tiny.onnx", Grid(tp=2), *FLAGS)
    check(program, transport, fate, 1, tmp_path / "log", environment())


@pytest.mark.long
@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("transport", ["tcp", "mpi"])
def test_who_dies_is_named_always(tpcc, mpi, tmp_path, transport, fate, seed):
    grid = [Grid(tp=2), Grid(tp=2, pp=2), Grid(tp=3), Grid(tp=2, dp=2)][seed % 4]
    program = tpcc.compile(MODELS / "gpt2-tiny.onnx", grid, *FLAGS)
    took[transport, fate] += check_times(program, transport, fate, seed, tmp_path, environment(TPC_SIM_SEED=seed))
    if seed == 49:
        say_times(transport, fate, took[transport, fate])


def test_files_have_no_names(tpcc, tmp_path):
    """Whatever ends a process, nothing of it stays in a folder: what ranks share has no name, or is memory."""
    program = tpcc.compile(MODELS / "gpt2-tiny.onnx", Grid(tp=2), *FLAGS)
    with Steps(program, "tcp", tmp_path / "log", environment()) as steps:
        for pid in steps.ranks.values():
            opened = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
            named = [name for name in opened if name.startswith("/") and not name.endswith(" (deleted)")
                     and not name.startswith(("/dev/null", "/memfd:", "/proc/", "/sys/")) and name != str(steps.log)]
            assert not named, named

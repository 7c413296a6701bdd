"""A rank that is killed or frozen in the middle of a step: one of the others names it, and what it was at, and no process
is left behind. How it goes at the start and the end is in runtime/conformance/ProcessTest.cpp."""

import os
import signal
import time

import pytest

from harness import Grid
from liveness import FATES, PROMISED, Steps, check, check_times, say_times
from models import MODELS

took = {fate: [] for fate in PROMISED}


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("transport", ["tcp", "mpi"])
def test_who_dies_is_named(tpcc, mpi, tmp_path, transport, fate):
    program = tpcc.compile(MODELS / "gpt2-tiny.onnx", Grid(tp=2, pp=2) if transport == "tcp" else Grid(tp=2))
    check(program, transport, fate, 1, tmp_path / "log")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("transport", ["tcp", "mpi"])
def test_who_dies_is_named_always(tpcc, mpi, tmp_path, transport, fate, seed):
    grid = [Grid(tp=2), Grid(tp=2, pp=2), Grid(tp=3), Grid(tp=2, dp=2)][seed % 4]
    program = tpcc.compile(MODELS / "gpt2-tiny.onnx", grid)
    took[transport, fate] += check_times(program, transport, fate, seed, tmp_path)
    if seed == 49:
        say_times(transport, fate, took[transport, fate])


def test_a_job_that_is_suspended_goes_on(tpcc, tmp_path):
    """Ctrl-Z, and fg: no process could run, and none is at fault."""
    program = tpcc.compile(MODELS / "gpt2-tiny.onnx", Grid(tp=2, pp=2))
    with Steps(program, "tcp", tmp_path / "log") as steps:
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in steps.ranks.values():
                os.kill(pid, number)
            time.sleep(7)
        assert steps.run.poll() is None and "error" not in steps.said(), steps.said()

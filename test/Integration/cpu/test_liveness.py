"""Ranks killed or frozen during a step or in the first second of start-up, and cut links.

Another rank names the failed rank and its operation, and no process is left. test_starts.py and
runtime/conformance/ProcessTest.cpp cover chosen moments of start and exit.
"""

import os
import signal
import time

import pytest

from harness import Grid
from liveness import (
    BENCH,
    FATES,
    PROMISED,
    PROMISED_AT_START,
    PROMISED_OF_CUTS,
    PROMISED_OF_GROUPS,
    Steps,
    check,
    check_cut,
    check_group,
    check_start,
    check_times,
    repeat,
    say_times,
)
from models import MODELS

took = {fate: [] for fate in PROMISED}


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("transport", ["tcp", "mpi"])
def test_failed_rank_is_named(tpcc, mpi, tmp_path, transport, fate):
    program = tpcc.compile(
        MODELS / "gpt2-tiny.onnx", Grid(tp=2, pp=2) if transport == "tcp" else Grid(tp=2)
    )
    check(program, transport, fate, 1, tmp_path / "log")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("transport", ["tcp", "mpi"])
def test_failed_rank_is_named_at_length(tpcc, mpi, tmp_path, transport, fate, seed):
    grid = [Grid(tp=2), Grid(tp=2, pp=2), Grid(tp=3), Grid(tp=2, dp=2)][seed % 4]
    program = tpcc.compile(MODELS / "gpt2-tiny.onnx", grid)
    took[transport, fate] += check_times(program, transport, fate, seed, tmp_path)
    if seed == 49:
        say_times(transport, fate, took[transport, fate])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("transport", ["tcp", "mpi"])
def test_failed_rank_is_named_with_operations_in_flight(tpcc, mpi, tmp_path, transport, fate, seed):
    """Asynchronous all-reduces of four chunks take most of a step, because links are slow."""
    grid = [Grid(tp=2), Grid(tp=2, pp=2)][seed % 2]
    program = tpcc.compile(MODELS / "gpt2-tiny.onnx", grid, "--overlap=4")
    arguments = [text.replace("batch=1,sequence=8", "batch=4,sequence=32") for text in BENCH]
    slow = {"TPC_LINK_BYTES_PER_SECOND": "1000000"}  # a chunk takes 4 ms
    repeat(
        PROMISED[transport, fate],
        lambda log: check(program, transport, fate, seed, log, slow, arguments),
        tmp_path,
    )


def test_suspended_jobs_continue(tpcc, tmp_path):
    """After Ctrl-Z and fg, the job continues. No process ran meanwhile, so none is reported."""
    program = tpcc.compile(MODELS / "gpt2-tiny.onnx", Grid(tp=2, pp=2))
    with Steps(program, "tcp", tmp_path / "log") as steps:
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in steps.ranks.values():
                os.kill(pid, number)
            time.sleep(7)
        assert steps.run.poll() is None and "error" not in steps.printed(), steps.printed()


@pytest.fixture(scope="module")
def program(tpcc):
    return tpcc.compile(MODELS / "gpt2-tiny.onnx", Grid(tp=2, pp=2))


@pytest.mark.parametrize("transport,fate,seed", [("mpi", "freeze", 3), ("torch", "kill", 5)])
def test_rank_that_fails_at_the_start_is_named(program, mpi, tmp_path, transport, fate, seed):
    check_start(program, transport, fate, seed, tmp_path / "log")


@pytest.mark.parametrize("version", [2, pytest.param(1, marks=pytest.mark.long)])
def test_frozen_control_group(program, tmp_path, version):
    check_group(program, "tcp", version, 1, tmp_path / "log")


@pytest.mark.parametrize("what", [pytest.param("link", marks=pytest.mark.long), "link, one name"])
def test_cut_link_is_named(program, tmp_path, what):
    check_cut(program, what, 1, tmp_path / "log")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("transport", ["tcp", "torch", "mpi"])
def test_rank_that_fails_at_the_start_is_named_at_length(
    program, mpi, tmp_path, transport, fate, seed
):
    repeat(
        PROMISED_AT_START, lambda log: check_start(program, transport, fate, seed, log), tmp_path
    )


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("transport", ["tcp", "mpi"])
def test_frozen_control_group_at_length(program, mpi, tmp_path, transport, version, seed):
    repeat(
        PROMISED_OF_GROUPS,
        lambda log: check_group(program, transport, version, seed, log),
        tmp_path,
    )


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("what", ["link", "link, one name", "host", "stop"])
def test_cut_link_is_named_at_length(program, tmp_path, what, seed):
    repeat(PROMISED_OF_CUTS, lambda log: check_cut(program, what, seed, log), tmp_path)

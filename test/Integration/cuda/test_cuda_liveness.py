"""GPU ranks that are killed or frozen before, during and after a step.

As on CPUs, another rank names the failed rank and its operation, and no process is left, including
processes whose GPUs wait for it.
"""

import os
import re
import time

import numpy as np
import pytest

from harness import Grid
from liveness import FATES, PROMISED, Steps, check, check_times, processes_of, say_times, until
from models import MODELS
from simulator import UNOPTIMIZED
from simulator import environment as simulated

times_of = {fate: [] for fate in PROMISED}
long = pytest.mark.long


def environment(**more):
    """Returns an environment without the simulator's findings, because operations read unwritten
    memory after communicators are aborted.
    """
    return simulated(TPC_SIM_FINDINGS=os.devnull, **more)


@pytest.mark.parametrize(
    "transport,fate",
    [
        ("tcp", "kill"),
        pytest.param("mpi", "kill", marks=long),
        pytest.param("tcp", "freeze", marks=long),
        ("mpi", "freeze"),
    ],
)
def test_failed_rank_is_named(tpcc, mpi, tmp_path, transport, fate):
    program = tpcc.compile(MODELS / "gpt2-tiny.onnx", Grid(tp=2), *UNOPTIMIZED)
    trace = tmp_path / "trace"
    check(program, transport, fate, 1, tmp_path / "log", environment(TPC_SIM_TRACE=trace))
    # Ranks that wait for it on a GPU are released.
    assert "ncclCommAbort" in trace.read_text()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("transport", ["tcp", "mpi"])
def test_failed_rank_is_named_at_length(tpcc, mpi, tmp_path, transport, fate, seed):
    grid = [Grid(tp=2), Grid(tp=2, pp=2), Grid(tp=3), Grid(tp=2, dp=2)][seed % 4]
    program = tpcc.compile(MODELS / "gpt2-tiny.onnx", grid, *UNOPTIMIZED)
    times_of[transport, fate] += check_times(
        program, transport, fate, seed, tmp_path, environment(TPC_SIM_SEED=seed)
    )
    if seed == 49:
        say_times(transport, fate, times_of[transport, fate])


# Operations of the second GPU during weight loading, in the first use of communicators, and in the
# first, the recorded and a replayed step. NCCL reports the end of a peer with only one of the
# seeds.
@pytest.mark.parametrize(
    "number,fate,transport,seed",
    [
        pytest.param(
            number,
            fate,
            transport,
            seed,
            marks=[] if (number, fate, transport, seed) == (2, "kill", "tcp", 0) else long,
        )
        for number in (1, 2, 20, 60, 130, 400, 901)
        for fate in FATES
        for transport in ("tcp", "mpi")
        for seed in (0, 1)
    ],
)
def test_failed_rank_is_named_in_each_phase(tpcc, mpi, number, fate, transport, seed):
    program = tpcc.compile(MODELS / "gpt2-tiny.onnx", Grid(tp=2), *UNOPTIMIZED)
    result = program.call(
        ["--bench", "--shape", "batch=1,sequence=8", "--warmup", "1000000", "--weights=random:1"],
        transport,
        env=environment(TPC_SIM_INJECT=f"{fate}@{number}:1", TPC_SIM_SEED=seed),
        timeout=60,
    )
    assert (
        not result.timed_out and result.returncode != 0 and not processes_of(program.path)
    ), result
    (output,) = re.findall(r"^error: (.*)$", result.stderr, re.M)
    assert re.match(rf"rank 1 \(tp 1\) {FATES[fate][1]}", output), result


@pytest.mark.parametrize(
    "victim,fate",
    [(1, "kill"), pytest.param(1, "freeze", marks=long), pytest.param(0, "kill", marks=long)],
)
def test_rank_that_fails_at_the_outputs_is_named(tpcc, tmp_path, victim, fate):
    """Rank 0 waits for a reader of its output, and the other rank waits for rank 0."""
    program = tpcc.compile(MODELS / "gpt2-tiny.onnx", Grid(tp=2), *UNOPTIMIZED)
    np.save(tmp_path / "ids.npy", np.arange(8).reshape(1, 8))
    os.mkfifo(tmp_path / "logits")
    with Steps(
        program,
        "tcp",
        tmp_path / "log",
        environment(),
        ["--input", f"input_ids={tmp_path}/ids.npy", "--output", f"logits={tmp_path}/logits"],
    ) as steps:
        time.sleep(1)
        os.kill(steps.ranks[victim], FATES[fate][0])
        until(lambda: steps.run.poll() is not None and not processes_of(program.path), 20)
        output = steps.printed()
    assert steps.run.wait() != 0
    assert re.findall(r"^error: (rank \d) \(.*\) (.*?):", output, re.M) == [
        (f"rank {victim}", FATES[fate][1])
    ], output


def test_processes_leave_no_files(tpcc, tmp_path):
    """Processes leave no files, however they end: shared files are unlinked or in memory."""
    program = tpcc.compile(MODELS / "gpt2-tiny.onnx", Grid(tp=2), *UNOPTIMIZED)
    with Steps(program, "tcp", tmp_path / "log", environment()) as steps:
        for pid in steps.ranks.values():
            opened = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
            named = [
                name
                for name in opened
                if name.startswith("/")
                and not name.endswith(" (deleted)")
                and not name.startswith(("/dev/null", "/memfd:", "/proc/", "/sys/"))
                and name != str(steps.log)
            ]
            assert not named, named

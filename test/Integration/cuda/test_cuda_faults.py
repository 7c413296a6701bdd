"""Injected errors of a GPU, its driver or NCCL during a step (docs/design/gpu-simulator.md).

One line reports the operation and the rank. Every process exits with status 1 within the limit.
"""

import os
import re

import pytest

from harness import Grid
from liveness import processes_of
from models import MODELS
from simulator import UNOPTIMIZED, environment

SHAPE = ["--bench", "--shape", "batch=1,sequence=8", "--warmup", "1000000", "--weights=random:1"]
NCCL = r"NCCL 2\.28\.9"
OPERATION = r"\w+ \d+ of '/?\w[^']*' over 'tp'"
CALL = (
    r"(kernel '\w+'|a (?:measured )?matmul of \d+ x \d+ x \d+|communication over NCCL|a copy(?: to"
    r" the host)?)"
)
CALLS = rf"(one of \d+ calls, from {CALL} to {CALL} \(CUDA_LAUNCH_BLOCKING=1 names it\)|{CALL})"
IN_CALLS = rf", in {CALLS}"
# Faults of the second GPU, late enough for steps to be replayed, and their messages. Another call
# may be the first to return a GPU's error; then the message names that call.
FAULTS = {
    "ecc@900:1": (
        r"rank 1: (\w.* failed: )?the GPU failed while it worked:"
        rf" .*\(CUDA_ERROR_ECC_UNCORRECTABLE\){IN_CALLS}"
    ),
    "address@900:1": (
        r"rank 1: (\w.* failed: )?the GPU failed while it worked:"
        rf" .*\(CUDA_ERROR_ILLEGAL_ADDRESS\){IN_CALLS}"
    ),
    "fail@900:1": (
        r"rank 1: (\w.* failed: )?the GPU failed while it worked:"
        rf" .*\(CUDA_ERROR_LAUNCH_FAILED\){IN_CALLS}"
    ),
    "launch@150:1": (
        r"rank 1: the GPU failed to launch kernel '\w+': .*\(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES\)|"
        rf"rank 1: (cuBLASLt failed to compute a matmul of \d+ x \d+ x \d+|{OPERATION} failed).*"
    ),
    "nccl@20:1": rf"rank 1: {OPERATION} failed: {NCCL}: unhandled system error .*",
    "async@100:1": (
        rf"rank 1: ({OPERATION} failed: {NCCL}: remote process exited or there was a network"
        r" error.*|"
        rf"{NCCL} over 'tp' \(ranks 0, 1\): remote process exited or there was a network error.*,"
        rf" at or after {OPERATION})"
    ),
}
DEFAULT = [
    ("ecc@900:1", "threads"),
    ("address@900:1", "tcp"),
    ("nccl@20:1", "threads"),
    ("async@100:1", "tcp"),
]
long = pytest.mark.long


def program_of(tpcc, **axes):
    return tpcc.compile(MODELS / "gpt2-tiny.onnx", Grid(**axes or {"tp": 2}), *UNOPTIMIZED)


def injected(program, transport, fault, arguments=(), **more):
    # After communicators are aborted, later operations read unwritten memory, so findings are
    # ignored.
    env = environment(TPC_SIM_INJECT=fault, TPC_SIM_FINDINGS=os.devnull, **more)
    result = program.call([*SHAPE, *arguments], transport, env=env, timeout=120)
    assert not result.timed_out and result.returncode not in (0, -11, -6), result
    assert not processes_of(program.path), result
    return result


def errors(result):
    return re.findall(r"^error: (.*)$", result.stderr, re.M)


def the_error(result):
    (output,) = errors(result)
    return output.rstrip()


@pytest.mark.parametrize(
    "fault,transport",
    [
        pytest.param(fault, transport, marks=[] if (fault, transport) in DEFAULT else long)
        for fault in FAULTS
        for transport in ("threads", "tcp", "mpi")
    ],
)
def test_faults_in_steps(tpcc, mpi, fault, transport):
    result = injected(program_of(tpcc), transport, fault)
    assert re.fullmatch(FAULTS[fault], the_error(result)), result


def victim_of(what, trace):
    """Returns the operation at which the simulator injected the error: a kernel's name, or a
    kind."""
    return re.search(rf"injected {what} into (.*)$", trace.read_text(), re.M).group(1)


def names(output, victim):
    """Returns whether the range of calls in a message may contain the failed call.

    Copies to the GPU and memsets are not recorded as calls. Their errors are reported with the next
    recorded call, or with none.
    """
    kernel = re.search(r"\bkernel_\w+|\battention_\w+", victim)
    name = (
        f"kernel '{kernel.group()}'"
        if kernel
        else "communication over NCCL" if "NCCL" in victim else None
    )
    found = re.search(rf"in {CALLS}$", output)
    calls = re.findall(CALL, found.group(1)) if found else []
    return name is None or len(calls) > 1 or calls == [name]


@pytest.mark.parametrize(
    "number",
    [pytest.param(number, marks=[] if number == 901 else long) for number in range(900, 912)],
)
def test_failed_call_is_named_with_launch_blocking(tpcc, tmp_path, number):
    """The message names the kernel at which the simulator injected the error."""
    trace = tmp_path / "trace"
    output = the_error(
        injected(
            program_of(tpcc),
            "threads",
            f"ecc@{number}:1",
            CUDA_LAUNCH_BLOCKING=1,
            TPC_SIM_TRACE=trace,
        )
    )
    # Errors of copies and fills are reported with the next recorded call.
    assert "one of" not in output and names(output, victim_of("ecc", trace)), output


@pytest.mark.parametrize(
    "number",
    [pytest.param(number, marks=[] if number == 905 else long) for number in range(900, 930)],
)
def test_failed_call_of_a_replayed_step(tpcc, tmp_path, number):
    """The communication state narrows 60 calls to a handful, including the right one."""
    trace = tmp_path / "trace"
    output = the_error(
        injected(program_of(tpcc), "threads", f"ecc@{number}:1", TPC_SIM_TRACE=trace)
    )
    if count := re.search(r"one of (\d+) calls", output):
        assert int(count.group(1)) <= 12, output
    assert names(output, victim_of("ecc", trace)), (output, victim_of("ecc", trace))


@pytest.mark.parametrize(
    "fault,words",
    [("oom@3:1", "rank 1: out of memory"), ("pinned@1", "to pin host memory: out of memory")],
)
def test_out_of_memory(tpcc, fault, words):
    assert words in the_error(injected(program_of(tpcc), "threads", fault))


@pytest.mark.parametrize(
    "transport", ["tcp", pytest.param("threads", marks=long), pytest.param("mpi", marks=long)]
)
@pytest.mark.parametrize("number", [1, 2, pytest.param(5, marks=long)])
def test_a_rank_that_fails_while_others_connect(tpcc, mpi, transport, number):
    """The other ranks wait in NCCL on the host when one fails."""
    output = the_error(injected(program_of(tpcc), transport, f"nccl@{number}:1"))
    assert re.match(
        rf"rank 1: first use {number} over 'tp' failed: {NCCL}: unhandled system error", output
    ), output


def test_rank_that_fails_before_connecting(tpcc):
    """If ranks are threads, the others wait in NCCL, where they cannot be aborted."""
    injected(program_of(tpcc), "threads", "oom@1:1")


# Hangs and their programs. One or several GPUs hang during weight loading, in a first step, or in a
# replayed step; a rank hangs when it connects or shuts down.
HANGS = [
    ("hang@10", {"tp": 1}, "threads"),
    ("hang@100", {"tp": 1}, "threads"),
    ("hang@900", {"tp": 1}, "threads"),
    ("hang@905:1", {"tp": 2}, "threads"),
    ("hang@906:1", {"tp": 2}, "tcp"),
    ("hang@907:1", {"tp": 2}, "mpi"),
    ("hang@905", {"tp": 2}, "tcp"),
    ("hang@700:2", {"tp": 2, "pp": 2}, "tcp"),
    ("connect@1:1", {"tp": 2}, "threads"),
    ("connect@1:1", {"tp": 2}, "tcp"),
    ("hang@905:1,abort@1", {"tp": 2}, "threads"),
    ("hang@905:1,abort@1", {"tp": 2}, "tcp"),
]
RANK = r"rank \d(?: \([^)]*\))?"
STATE = (
    rf"{RANK} (in connecting devices over 'tp'|in \w+ \d+ of '[^']*' over '[tp]p'|in (the"
    r" assembling of outputs|a barrier of all ranks)|"
    rf"computing on its device, in {CALLS}|computing, after .*|waiting for its device)( for"
    rf" {RANK}(, {RANK})*)?"
)


@pytest.mark.parametrize(
    "fault,axes,transport",
    [
        pytest.param(
            *hang,
            marks=[] if number in (2, 4, 9) else long,
            id=f"{hang[0]}-{'x'.join(hang[1])}-{hang[2]}",
        )
        for number, hang in enumerate(HANGS)
    ],
)
def test_hanging_calls_are_named(tpcc, mpi, tmp_path, fault, axes, transport):
    trace = tmp_path / "trace"
    result = injected(
        program_of(tpcc, **axes), transport, fault, ["--timeout=2"], TPC_SIM_TRACE=trace
    )
    output = the_error(result)
    states = (
        re.fullmatch(r"(?:rank \d: )?has waited for 2 s \(--timeout=2\): (.*)", output)
        .group(1)
        .split("; ")
    )
    states += [note.rstrip() for note in re.findall(r"^note: waits: (.*)$", result.stderr, re.M)]
    assert all(re.fullmatch(STATE, state) for state in states), states
    if "connect" in fault:
        assert all("connecting devices" in state for state in states), states
        return
    # A rank in a kernel or matmul is reported with its name, after the rank that waits for it.
    victim, hung = victim_of("hang", trace), fault.split(",")[0].partition(":")[2]
    if "kernel" in victim or "matmul" in victim:
        at = [state for state in states if "computing on its device" in state]
        assert all(names(state, victim) for state in at) and at, (victim, states)
        assert (
            not hung or f"for rank {hung} " in states[0] and at[0].startswith(f"rank {hung} ")
        ), states
    # Ranks that wait for others are released.
    assert len(axes) == 1 and axes["tp"] == 1 or "ncclCommAbort" in trace.read_text()

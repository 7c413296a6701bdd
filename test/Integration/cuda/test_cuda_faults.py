"""What goes wrong with a GPU, its driver or NCCL in the middle of a step, by injection (docs/gpu-simulator.md): one line says
what and where, once, every process ends with status 1, and soon."""

import re

import pytest

from harness import Grid
from liveness import processes_of
from models import MODELS
from simulator import FLAGS, environment

SHAPE = ["--bench", "--shape", "batch=1,sequence=8", "--warmup", "1000000", "--weights=random:1"]
NCCL = r"NCCL 2\.28\.9"
OPERATION = r"\w+ \d+ of '/?\w[^']*' over 'tp'"
CALL = r"(kernel '\w+'|a product of \d+ x \d+ x \d+|communication over NCCL|the graph of a step)"
IN_ONE = rf", in (one of \d+ calls, from {CALL} to {CALL} \(CUDA_LAUNCH_BLOCKING=1 tells which\)|{CALL})"
# What is injected into the second GPU, far enough for steps to be under way, and what is said. Another call may be the first to
# be told of what has happened to a GPU: then it is said of which.
FAULTS = {
    "ecc@900:1": rf"rank 1: (\w.* failed: )?the GPU failed while it worked: .*\(CUDA_ERROR_ECC_UNCORRECTABLE\){IN_ONE}",
    "address@900:1": rf"rank 1: (\w.* failed: )?the GPU failed while it worked: .*\(CUDA_ERROR_ILLEGAL_ADDRESS\){IN_ONE}",
    "fail@900:1": rf"rank 1: (\w.* failed: )?the GPU failed while it worked: .*\(CUDA_ERROR_LAUNCH_FAILED\){IN_ONE}",
    "launch@50:1": r"rank 1: the GPU failed to launch kernel '\w+': .*\(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES\)|"
                    rf"rank 1: (to compute a product|{OPERATION} failed).*",
    "nccl@20:1": rf"rank 1: {OPERATION} failed: {NCCL}: unhandled system error .*",
    "async@100:1": rf"rank 1: {NCCL} over 'tp' \(ranks 0, 1\): remote process exited or there was a network error.*, at or behind {OPERATION}",
    "hang@900:1": rf"rank [01]: has waited for 3 s \(--timeout=3\): rank [01] \(tp [01]\) in {OPERATION}.*",
}
DEFAULT = [("ecc@900:1", "threads"), ("address@900:1", "tcp"), ("nccl@20:1", "threads"), ("async@100:1", "tcp"),
           ("hang@900:1", "threads")]


def program_of(tpcc):
    return tpcc.compile(MODELS / "gpt2-tiny.onnx", Grid(tp=2), *FLAGS)


def injected(program, transport, fault, arguments=(), **more):
    result = program.call([*SHAPE, *arguments], transport, env=environment(TPC_SIM_INJECT=fault, **more), timeout=60)
    assert not result.timed_out, result
    assert not processes_of(program.path), result
    return result


def errors(result):
    return re.findall(r"^error: (.*)$", result.stderr, re.M)


@pytest.mark.parametrize("fault,transport", [
    pytest.param(fault, transport, marks=[] if (fault, transport) in DEFAULT else pytest.mark.long)
    for fault in FAULTS for transport in ("threads", "tcp", "mpi")])
def test_faults_in_steps(tpcc, mpi, fault, transport):
    result = injected(program_of(tpcc), transport, fault, ["--timeout=3"])
    said = errors(result)
    assert result.returncode != 0 and len(said) == 1, result
    assert re.fullmatch(FAULTS[fault], said[0].rstrip()), (said, result)


@pytest.mark.parametrize("number", [pytest.param(number, marks=[] if number == 901 else pytest.mark.long) for number in range(900, 912)])
def test_a_call_is_named_where_calls_are_waited_for(tpcc, tmp_path, number):
    """By the kernel that the simulator has let fail."""
    trace = tmp_path / "trace"
    result = injected(program_of(tpcc), "threads", f"ecc@{number}:1", CUDA_LAUNCH_BLOCKING=1, TPC_SIM_TRACE=trace)
    said = errors(result)
    assert len(said) == 1, result
    what = re.search(r"injected ecc into (.*)$", trace.read_text(), re.M).group(1)
    named = re.search(rf", in ({CALL})$", said[0])
    # Copies and what fills memory are told of with what comes next.
    assert named and "graph" not in said[0], (what, said)
    if kernel := re.search(r"\bkernel_\w+|\battention_\w+", what):
        assert f"kernel '{kernel.group()}'" in said[0], (what, said)
    if "NCCL" in what:
        assert "communication over NCCL" in said[0], (what, said)


@pytest.mark.parametrize("fault,words", [("oom@3:1", "rank 1: out of memory"), ("pinned@1", "to pin host memory: out of memory")])
def test_memory_that_is_not_there(tpcc, fault, words):
    result = injected(program_of(tpcc), "threads", fault)
    assert result.returncode == 1 and len(errors(result)) == 1 and words in errors(result)[0], result


@pytest.mark.parametrize("transport", ["tcp", pytest.param("threads", marks=pytest.mark.long), pytest.param("mpi", marks=pytest.mark.long)])
@pytest.mark.parametrize("number", [1, 2, pytest.param(5, marks=pytest.mark.long)])
def test_a_rank_that_fails_while_others_connect(tpcc, mpi, transport, number):
    """They wait in NCCL, on the host."""
    result = injected(program_of(tpcc), transport, f"nccl@{number}:1")
    assert result.returncode != 0 and len(errors(result)) == 1, result
    assert re.match(rf"rank 1: first use {number} over 'tp' failed: {NCCL}: unhandled system error", errors(result)[0]), result


def test_a_rank_that_cannot_begin_to_connect(tpcc):
    """Ranks as threads: the others wait for it in NCCL, where nobody can abort them."""
    result = injected(program_of(tpcc), "threads", "oom@1:1")
    assert result.returncode == 1 and len(errors(result)) == 1, result

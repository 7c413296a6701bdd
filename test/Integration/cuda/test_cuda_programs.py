"""GPU programs without a driver or the runtime's library, failures of GPUs, and released resources.

test_cuda_families.py checks results.
"""

import re
import shutil

import pytest

from harness import BUILD
from fault_checks import left_behind
from models import COMMITTED
from simulator import environment


@pytest.mark.parametrize(
    "env,words",
    [
        (
            {},
            [
                "this program computes on GPUs, but libcuda.so.1",
                "is NVIDIA's driver installed on this machine?",
            ],
        ),
        (
            {"TPC_RUNTIME_DIR": "/nonexistent", "TPC_CUDA_LIBS": "/nonexistent"},
            ["libcuda.so.1 was not found"],
        ),
    ],
)
def test_a_machine_without_a_driver_gets_one_line(tpcc, env, words):
    model = COMMITTED["gpt2-mlp"]
    executable = tpcc.compile(model.path, "tp1", "--target=cuda")
    result = executable.call(
        ["--bench", "--shape", ",".join(f"{name}=1" for name in model.shape(1, 1))], env=env
    ).refused(*words)
    assert result.stderr.count("\n") == 1
    # Options without GPU work run without a GPU.
    assert executable.describe()["outputs"]


def test_gpu_library_of_another_runtime(tpcc, tmp_path):
    executable = tpcc.compile(COMMITTED["gpt2-mlp"].path, "tp1", "--target=cuda")
    (tmp_path / "libtpc_cuda.so").write_text("no library")
    executable.call(
        ["--bench", "--shape", "batch=1,sequence=1"], env={"TPC_RUNTIME_DIR": str(tmp_path)}
    ).refused("libtpc_cuda.so cannot be loaded")
    shutil.copy(BUILD / "lib" / "libtpc_mpi.so", tmp_path / "libtpc_cuda.so")
    executable.call(
        ["--bench", "--shape", "batch=1,sequence=1"], env={"TPC_RUNTIME_DIR": str(tmp_path)}
    ).refused("is not a library of this runtime")


@pytest.mark.parametrize(
    "injection,words",
    [
        ("fail@60", "launch failure"),
        ("ecc@40", "uncorrectable ECC error"),
        ("address@80", "illegal memory access"),
    ],
)
def test_gpu_failures_are_reported(tpcc, injection, words):
    """A failed device also rejects calls that release memory; the message has the first error."""
    executable = tpcc.compile(COMMITTED["gpt2-tiny"].path, "tp1", "--target=cuda")
    executable.call(
        ["--bench", "--shape", "batch=1,sequence=3", "--weights=random:1"],
        env=environment(TPC_SIM_INJECT=injection),
    ).refused("the GPU failed", words)


def test_all_resources_are_released(tpcc, tmp_path):
    """Threads end before the process destroys the ranks' state. A shape's second step has a graph
    and its resources.
    """
    executable = tpcc.compile(COMMITTED["gpt2-tiny"].path, "tp2", "--target=cuda")
    executable.call(
        ["--bench", "--shape", "batch=1,sequence=3", "--weights=random:1", "--repeat", "2"],
        env=environment(TPC_SIM_TRACE=tmp_path / "trace"),
    ).check()
    trace = (tmp_path / "trace").read_text()
    assert "cuMemAlloc_v2 = 0" in trace and left_behind(trace) == ""


def test_gpu_flags_need_a_gpu_program(tpcc):
    tpcc.compile(COMMITTED["gpt2-mlp"].path, "tp1").call(
        ["--bench", "--shape", "batch=1,sequence=1", "--share-gpus"]
    ).refused("this program computes on processors")

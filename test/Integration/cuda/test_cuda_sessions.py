"""tpc.compile and Session for GPUs, over the simulator (gpu_sessions.py has the checks)."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness import TOP, run, sanitized
from fault_programs import left_behind
from simulator import environment
from vendor_stubs import driver, put

pytestmark = pytest.mark.skipif(
    sanitized(), reason="sanitizers: the Python process needs them too"
)
long = pytest.mark.long
NOWHERE = {"CUDA_HOME": "/nonexistent", "VIRTUAL_ENV": "", "CONDA_PREFIX": ""}
# Discards findings: after a failure, steps read uninitialized memory.
FAULTY = {"TPC_SIM_FINDINGS": "/dev/null"}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The cache of all tests, so that each program is compiled once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def start(programs):
    def start(check, *arguments, **env):
        settings = {
            "PYTHONPATH": f"{TOP / 'python'}:{TOP / 'test' / 'Integration'}",
            "TPC_CACHE": str(programs),
            "CUDA_HOME": "/nonexistent",
        }
        return run(
            [sys.executable, Path(__file__).with_name("gpu_sessions.py"), check, *arguments],
            env=environment(**settings) | env,
            timeout=240,
        )

    return start


@pytest.fixture
def passes(start):
    """Checks that pass, and print nothing."""

    def passes(check, *arguments, **env):
        result = start(check, *arguments, **env).check()
        assert result.stdout == result.stderr == "", result

    return passes


# ---- results ----


@pytest.mark.parametrize(
    "shard", ["tp2,pp2", *(pytest.param(s, marks=long) for s in ("tp2", "pp2", "dp2", "tp3"))]
)
def test_tokens_equal_those_of_the_cpu(passes, shard):
    passes("same_tokens", shard)


@pytest.mark.parametrize("shard", ["pp2", pytest.param("tp2,sp", marks=long)])
def test_outputs_equal_onnx_runtime(passes, shard):
    passes("same_outputs", shard)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=long) for seed in range(2, 12))])
def test_results_in_any_order_of_events(passes, seed):
    passes("same_outputs", "tp2", TPC_SIM_SEED=str(seed))


@pytest.mark.parametrize("shard", ["tp1", pytest.param("tp2", marks=long)])
def test_large_results_are_copied_into_their_arrays(passes, tmp_path, shard):
    """The first array is not pinned, the next four are, and are reused once the caller has freed
    them. Nothing stays pinned. Parts of several ranks are not copied directly.
    """
    trace = tmp_path / "trace"
    passes("large_results", shard, TPC_SIM_TRACE=str(trace))
    calls = [line.split()[2] for line in trace.read_text().splitlines()]
    assert calls.count("cuMemHostRegister_v2") == calls.count("cuMemHostUnregister") == 4
    assert left_behind(trace.read_text()) == ""


@long  # the CPU form is a default test
def test_every_option_has_an_effect(passes, tmp_path):
    passes("every_option", tmp_path, TPC_CACHE=str(tmp_path / "cache"))


# ---- several sessions ----


def test_two_threads(passes):
    passes("two_threads")


def test_two_processes(start, tmp_path):
    """Two processes compile the same program at the same time, and share the memory of the GPUs."""
    (tmp_path / "gpus").mkdir()
    env = {"TPC_SIM_SESSION": str(tmp_path / "gpus"), "TPC_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, Path(__file__).with_name("gpu_sessions.py"), "one_process", "tp2"]
    settings = environment(PYTHONPATH=f"{TOP / 'python'}:{TOP / 'test' / 'Integration'}", **env)
    first = subprocess.Popen(
        [str(word) for word in command],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    start("one_process", "tp2", **env).check()
    assert first.communicate(timeout=120)[0] == b"" and first.returncode == 0
    assert len(list((tmp_path / "cache" / "programs").iterdir())) == 1


def test_closed_sessions_free_their_gpus(passes, tmp_path):
    trace = tmp_path / "trace"
    passes("open_and_close", TPC_SIM_MEMORY="60MiB", TPC_SIM_TRACE=str(trace))
    assert left_behind(trace.read_text()) == ""


# ---- errors ----


def no_gpu(folder):
    return driver(folder, cuInit=100)


def broken_library(folder):
    (put(folder, "libcuda.so.1") / "libcublasLt.so.13").write_bytes(b"no library")
    return folder


@pytest.mark.parametrize(
    "make,env,words",
    [
        (lambda folder: put(folder), {}, ["libcuda.so.1 was not found"]),
        pytest.param(no_gpu, {}, ["libcuda.so.1 finds no GPU"], marks=long),
        (broken_library, {}, ["libcublasLt.so.13 cannot be loaded"]),
        pytest.param(
            None,
            {"CUDA_VISIBLE_DEVICES": ""},
            ["finds no GPU", "CUDA_VISIBLE_DEVICES"],
            marks=long,
        ),
        (None, {"TPC_SIM_CAPABILITY": "7.5"}, ["sm_75", "older than", "--gpu-arch"]),
        (None, {"TPC_SIM_MEMORY": "1MiB"}, ["are free, but needs", "weights", "more ranks"]),
        pytest.param(None, {"TPC_TIMEOUT": "x"}, ["TPC_TIMEOUT"], marks=long),
    ],
    ids=["no driver", "no GPU", "library", "hidden", "old", "memory", "variable"],
)
def test_errors_when_opening(passes, tmp_path, make, env, words):
    libraries = {"TPC_CUDA_LIBS": str(make(tmp_path / "libraries"))} if make else {}
    passes("not_opened", *words, **NOWHERE, **libraries, **env)


def test_ranks_on_one_gpu(passes):
    passes("shared_gpus", TPC_SIM_DEVICES="1")


@pytest.mark.parametrize(
    "fault,words",
    [
        ("oom@8:1", ["rank 1", "out of memory"]),
        ("ecc@400:1", ["rank 1", "CUDA_ERROR_ECC_UNCORRECTABLE", "in "]),
        ("nccl@20:1", ["rank 1", "over 'tp' failed: NCCL", "unhandled system error"]),
        pytest.param("address@400:1", ["rank 1", "CUDA_ERROR_ILLEGAL_ADDRESS"], marks=long),
        pytest.param("launch@150:1", ["rank 1", "failed"], marks=long),
        pytest.param("async@100:1", ["over 'tp'", "NCCL"], marks=long),
    ],
)
def test_failures_in_a_step(passes, fault, words):
    passes("fails_in_a_step", *words, TPC_SIM_INJECT=fault, **FAULTY)


def test_a_gpu_that_hangs_ends_the_process(start):
    """The only line names the rank whose driver call does not return."""
    result = start("hangs", TPC_SIM_INJECT="hang@400:1", **FAULTY)
    assert result.returncode == 1 and result.stdout == "", result
    (line,) = result.stderr.splitlines()
    assert " has waited for 2 s (--timeout=2): " in line, line
    assert re.search(r"rank 1 \(tp 1\) (computing on|waiting for) its device", line), line


def test_rejected_requests(passes):
    passes("wrong_requests")


# ---- notebooks ----


@pytest.mark.parametrize(
    "check,env",
    [
        ("in_a_loop", {}),
        ("without_descriptors", {}),
        ("interrupted", {}),
        ("interrupted_hang", {"TPC_SIM_INJECT": "hang@400:1", **FAULTY}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_notebooks(passes, check, env):
    passes(check, **env)


def test_notes_of_the_gpu_are_kept(passes):
    """A note of the GPU library, that NCCL cannot register memory, is in session.notes."""
    passes("kept_notes", TPC_SIM_INJECT="register@1")

"""Errors of GPU programs: unsuitable libraries and devices, little memory, bad inputs and files.

Ranks report unsuitable libraries and devices before they load weights, or use a fallback.
"""

import os
import re
import signal
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from halves import as_float, halve, rounded_weights
from harness import Executable, Grid, by_rank, find_cuda_tool, run, scaled
from liveness import until
from fault_checks import HALF_TOLERANCE
from models import COMMITTED
from simulator import UNOPTIMIZED, environment
from test_cuda_loading import products
from tpc.reference import TOLERANCE, Session, difference
from vendor_stubs import cublaslt, cudnn, driver, nccl, put

MODEL = COMMITTED["gpt2-tiny"]
ASSEMBLER = find_cuda_tool("ptxas")
SHAPE = "--bench --repeat 1 --warmup 0 --shape batch=1,sequence=3 --weights=random:1".split()
NOWHERE = {"CUDA_HOME": "", "VIRTUAL_ENV": "", "CONDA_PREFIX": ""}
long = pytest.mark.long


@pytest.fixture(scope="module", autouse=True)
def no_assembler():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_HOME", "/nonexistent")
        yield


def the_error(result):
    (output,) = re.findall(r"^error: (.*)$", result.refused().stderr, re.M)
    return output


# Libraries


OTHERS = {
    "cuBLASLt": (
        lambda folder: cublaslt(
            put(folder, "libcuda.so.1", "libnccl.so.2"), "libcublasLt.so.12", 120803
        ),
        [
            "rank 1 does not run the same as rank 0: another library for products (rank 0 has"
            " cuBLASLt 13."
        ],
    ),
    "NCCL": (
        lambda folder: nccl(put(folder, "libcuda.so.1", "libcublasLt.so.13"), 22000),
        [
            "rank 1 does not run the same as rank 0: another library for communication (rank 0 has"
            " NCCL 2.28.9, rank 1 has "
        ],
    ),
    "no NCCL": (
        lambda folder: nccl(put(folder, "libcuda.so.1", "libcublasLt.so.13"), 21705),
        [
            "rank 1 does not run the same as rank 0: another library for communication (rank 0 has"
            " NCCL 2.28.9, rank 1 has "
        ],
    ),
    "no driver": (
        lambda folder: cublaslt(folder, "libcublasLt.so.13", 130100),
        ["rank 1: this program computes on GPUs, but libcuda.so.1 was not found"],
    ),
    "an old driver": (
        lambda folder: driver(folder, leave=["cuGraphLaunch"]),
        [
            "rank 1: this program computes on GPUs, but",
            "has no function cuGraphLaunch: a driver for CUDA 12.0 or later",
        ],
    ),
    "a driver that does not begin": (
        lambda folder: driver(folder, cuInit=999),
        ["rank 1: this program computes on GPUs, but", "libcuda.so.1 cannot be used: error 999"],
    ),
    "no GPU": (
        lambda folder: driver(folder, cuInit=100),
        ["rank 1: this program computes on GPUs, but", "libcuda.so.1 finds no GPU"],
    ),
}


@pytest.mark.parametrize(
    "other,transport",
    [
        pytest.param(
            other, transport, marks=[] if (index + (transport == "mpi")) % 2 == 0 else long
        )
        for index, other in enumerate(OTHERS)
        for transport in ("tcp", "mpi")
    ],
)
def test_ranks_with_other_libraries(tpcc, mpi, tmp_path, other, transport):
    """All ranks end, with one message, if one node has another installation of the libraries."""
    make, words = OTHERS[other]
    there = make(tmp_path / "there")
    program = by_rank(
        tpcc.compile(MODEL.path, "tp2", *UNOPTIMIZED),
        tmp_path,
        f'if [ "${{RANK:-$OMPI_COMM_WORLD_RANK}}" = 1 ]; then export TPC_CUDA_LIBS={there}; fi',
    )
    output = the_error(program.call(SHAPE, transport, env={**environment(), **NOWHERE}, timeout=60))
    assert all(word in output for word in words), output


@pytest.mark.parametrize(
    "transport", ["threads", pytest.param("tcp", marks=long), pytest.param("mpi", marks=long)]
)
def test_without_nccl(tpcc, mpi, tmp_path, transport):
    """Ranks communicate through host memory, with a note and the same results."""
    folder = nccl(put(tmp_path / "there", "libcuda.so.1", "libcublasLt.so.13"), 21705)
    program, given = tpcc.compile(MODEL.path, "tp2", *UNOPTIMIZED), MODEL.inputs(2, 5)
    found = program.run(given, transport=transport, env={"TPC_CUDA_LIBS": str(folder), **NOWHERE})[
        "logits"
    ]
    assert difference(found, MODEL.expected(given)).relative <= TOLERANCE
    output = (
        program.call(SHAPE, transport, env={"TPC_CUDA_LIBS": str(folder), **NOWHERE}).check().stderr
    )
    assert (
        output.count(
            "is version 2.17.5: 2.18.0 or later is needed: ranks communicate through the host's"
            " memory, which is slow"
        )
        == 1
    )


@pytest.mark.parametrize(
    "version,create,noted",
    [
        (8907, 0, None),
        (
            91900,
            1002,
            "note: cuDNN 9.19.0 cannot be used (to start: not started): generated kernels",
        ),
    ],
)
def test_without_cudnn(tpcc, tmp_path, version, create, noted):
    """Without a usable cuDNN, generated kernels compute 16-bit attention."""
    path, inputs = tmp_path / "half.onnx", {
        "input_ids": np.random.default_rng(5).integers(0, 60, (1, 64))
    }
    onnx.save(halve(onnx.load(MODEL.path), "f16"), path)
    exact = Session(
        rounded_weights(onnx.load(MODEL.path), "f16").SerializeToString(), optimize=False
    ).run(inputs)["logits"]
    program = tpcc.compile(path, "tp1", *UNOPTIMIZED)
    folder = cudnn(
        put(tmp_path / "there", "libcuda.so.1", "libcublasLt.so.13", "libnccl.so.2"),
        version,
        create,
    )
    env = {"TPC_CUDA_LIBS": str(folder), **NOWHERE}
    if version < 90000:
        assert (
            f"{folder}/libcudnn.so.9 is version 8: 9 is needed; generated kernels compute attention"
            in program.call(["--describe-device"], env=env).check().stdout
        )
    found = program.run(inputs, env=env)["logits"]
    assert difference(as_float(found), exact).relative <= HALF_TOLERANCE["f16"]
    np.save(tmp_path / "ids.npy", inputs["input_ids"])
    output = (
        program.call(
            [
                "--input",
                f"input_ids={tmp_path}/ids.npy",
                "--output",
                f"logits={tmp_path}/logits.npy",
            ],
            env=env,
        )
        .check()
        .stderr
    )
    assert noted in output if noted else "cuDNN" not in output, output


# Kernels


def assembled(tpcc, path):
    """Returns a program with machine code for sm_80."""
    command = [MODEL.path, *UNOPTIMIZED, "-o", path]
    tpcc.call(command, env={"CUDA_HOME": ASSEMBLER.parents[1]}).check()
    return Executable(path, Grid(), path.parent)


@pytest.mark.skipif(not ASSEMBLER, reason="ptxas: there is none")
def test_rejected_machine_code(tpcc, tmp_path):
    """A driver that is older than the assembler uses the PTX."""
    path, trace = tmp_path / "program", tmp_path / "trace"
    program, given = assembled(tpcc, path), MODEL.inputs(2, 5)
    found = program.run(given, env=environment(TPC_SIM_TRACE=trace, TPC_SIM_CAPABILITY="8.0"))[
        "logits"
    ]
    assert difference(found, MODEL.expected(given)).relative <= TOLERANCE
    loads = re.findall(r"cuModuleLoadDataEx = (\d+)", trace.read_text())
    # Kernels that upload weights may be loaded before. The driver returns error 209 for code of
    # another GPU, and 200 for invalid code.
    refused = next(i for i, load in enumerate(loads) if load != "0")
    assert loads[refused] in ("200", "209") and loads[refused + 1 :] == ["0"], loads


@pytest.mark.skipif(not ASSEMBLER, reason="ptxas: there is none")
def test_ptx_by_request(tpcc, tmp_path):
    """TPC_CUDA_CODE=ptx loads no machine code; other values are errors."""
    path, trace = tmp_path / "program", tmp_path / "trace"
    program, given = assembled(tpcc, path), MODEL.inputs(2, 5)
    env = environment(TPC_SIM_TRACE=trace, TPC_SIM_CAPABILITY="8.0", TPC_CUDA_CODE="ptx")
    found = program.run(given, env=env)["logits"]
    assert difference(found, MODEL.expected(given)).relative <= TOLERANCE
    loads = re.findall(r"cuModuleLoadDataEx = (\d+)", trace.read_text())
    assert loads and set(loads) == {"0"}, loads
    wrong = environment(TPC_CUDA_CODE="cubin")
    program.call(SHAPE, "threads", env=wrong, timeout=60).refused("TPC_CUDA_CODE=cubin", "ptx")


@pytest.mark.parametrize(
    "architecture,env,words",
    [
        (
            "sm_90",
            {"TPC_SIM_CAPABILITY": "8.0"},
            [
                (
                    "this GPU (Simulated GPU sm_80, sm_80) is older than what the program was"
                    " compiled for"
                ),
                "tpcc --gpu-arch",
            ],
        ),
        (
            "sm_100",
            {"TPC_SIM_CAPABILITY": "10.0", "TPC_SIM_DRIVER": "12000"},
            [
                "this GPU (Simulated GPU sm_100, sm_100) does not take the program's kernels",
                "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
                "the driver is older than the program's kernels",
                "install a newer driver",
            ],
        ),
    ],
)
@pytest.mark.parametrize("transport", ["threads", pytest.param("tcp", marks=long)])
def test_unsupported_kernels(tpcc, architecture, env, words, transport):
    program = tpcc.compile(MODEL.path, "tp2", "--target=cuda", f"--gpu-arch={architecture}")
    program.call(SHAPE, transport, env=environment(**env), timeout=60).refused(*words)


# Memory


def test_little_free_memory_is_noted(tpcc, tmp_path):
    """A note says that less than 256 MiB beyond the estimate may not suffice: it is not known what
    libraries and the driver use themselves.
    """
    program, usage = tpcc.compile(MODEL.path, "tp1", *UNOPTIMIZED), tmp_path / "usage"
    assert "suffice" not in program.call(SHAPE, env=environment(TPC_SIM_USAGE=usage)).check().stderr
    most = max(int(line.split()[1]) for line in usage.read_text().splitlines())
    for rest, noted in ((255, True), (257, False)):
        output = (
            program.call(SHAPE, env=environment(TPC_SIM_MEMORY=most + (rest << 20))).check().stderr
        )
        found = "leaves 255.0 MiB of Simulated GPU" in output and "may not suffice" in output
        assert found == noted, output


ALWAYS_FAIL = {"oom": (2, 7), "pinned": (2, 6)}  # allocations without an alternative


@pytest.mark.parametrize(
    "what,number",
    [
        pytest.param(what, number, marks=[] if number in ALWAYS_FAIL[what] else long)
        for what in ("oom", "pinned")
        for number in range(1, 21)
    ],
)
def test_memory_used_by_others(tpcc, tmp_path, what, number):
    """Makes one allocation after the estimate fail in each run (a program makes about ten). If NCCL
    cannot allocate, buffers are allocated elsewhere, with the same results.
    """
    program, given = tpcc.compile(
        MODEL.path, "tp1" if what == "pinned" else "tp2", *UNOPTIMIZED
    ), MODEL.inputs(2, 5)
    np.save(tmp_path / "ids.npy", given["input_ids"])
    rank = program.grid.ranks - 1
    result = program.call(
        [
            "--input",
            f"input_ids={tmp_path}/ids.npy",
            "--output",
            f"logits={tmp_path}/logits.npy",
            "--timeout=10",
        ],
        env=environment(TPC_SIM_INJECT=f"{what}@{number}:{rank}", TPC_SIM_FINDINGS=os.devnull),
        timeout=60,
    )
    if result.returncode == 0:
        assert number > (4 if what == "oom" else 2) and number not in ALWAYS_FAIL[what]
        assert (
            difference(np.load(tmp_path / "logits.npy"), MODEL.expected(given)).relative
            <= TOLERANCE
        )
        return
    output = the_error(result)
    words = (
        r"rank 1: out of memory: (the GPU cannot allocate \d+ bytes; other processes may use"
        r"|weights take \d+ bytes, more than is available;"
        r"|a step requested \d+ bytes)"
        if rank
        else r"the GPU failed to pin host memory: out of memory"
    )
    assert re.match(words, output), output


def test_matmuls_without_an_algorithm(tpcc, tmp_path):
    """Makes one search for algorithms fail in each run. A bias is then added separately, with the
    same results. Other matmuls are rejected with their sizes.
    """
    program, given = tpcc.compile(MODEL.path, "tp1", *UNOPTIMIZED), MODEL.inputs(2, 5)
    np.save(tmp_path / "ids.npy", given["input_ids"])
    succeeded = []
    for number in range(1, 7):
        result = program.call(
            [
                "--input",
                f"input_ids={tmp_path}/ids.npy",
                "--output",
                f"logits={tmp_path}/logits.npy",
            ],
            env=environment(TPC_SIM_INJECT=f"heuristic@{number}"),
            timeout=60,
        )
        succeeded.append(result.returncode == 0)
        if succeeded[-1]:
            assert (
                difference(np.load(tmp_path / "logits.npy"), MODEL.expected(given)).relative
                <= TOLERANCE
            )
        else:
            assert re.match(
                r"cuBLASLt 13[.0-9]+ does not support a matmul of 10 x \d+ x \d+ in f32",
                the_error(result),
            )
    assert {True, False} == set(succeeded)


# Device assignment


def test_local_rank_selects_the_device(tpcc, tmp_path):
    program, usage = tpcc.compile(MODEL.path, "tp2", *UNOPTIMIZED), tmp_path / "usage"
    chosen = by_rank(program, tmp_path, "export LOCAL_RANK=$((3 - 2 * RANK))")
    chosen.call(SHAPE, "tcp", env=environment(TPC_SIM_USAGE=usage)).check()
    assert {int(line.split()[0]) for line in usage.read_text().splitlines()} == {1, 3}
    same = by_rank(program, tmp_path, "export LOCAL_RANK=2")
    same.call(SHAPE, "tcp", env=environment(), timeout=60).refused(
        "ranks 0 and 1 have the same GPU", "LOCAL_RANK", "--share-gpus"
    )


# Inputs, weights, outputs


def lookup(path):
    """Rows of a table at a computed index, which no check before the step can find."""
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["ids", "more"], ["index"], name="add"),
            helper.make_node("Gather", ["table", "index"], ["rows"], name="/wpe/Gather"),
            helper.make_node("MatMul", ["rows", "w"], ["y"], name="head"),
        ],
        "lookup",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"]),
            helper.make_tensor_value_info("more", TensorProto.INT64, ["batch", "sequence"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence", 16])],
        [
            helper.make_tensor(
                "table", TensorProto.FLOAT, [10, 8], np.random.default_rng(1).normal(size=80)
            ),
            helper.make_tensor(
                "w", TensorProto.FLOAT, [8, 16], np.random.default_rng(2).normal(size=128)
            ),
        ],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path
    )
    return path


@pytest.mark.parametrize("before", [0, 1, 3])
def test_computed_index_out_of_bounds(tpcc, tmp_path, before):
    """As on CPUs, the message names the node, in a shape's first step, in the recorded step, and in
    a replayed step.
    """
    path = lookup(tmp_path / "lookup.onnx")
    good = {"ids": np.array([[1, 2]]), "more": np.array([[3, 7]])}
    bad = {"ids": np.array([[1, 2]]), "more": np.array([[3, 8]])}
    output = []
    for program, env in (
        (tpcc.compile(path, "tp1", *UNOPTIMIZED), environment()),
        (tpcc.compile(path, "tp1"), {}),
    ):
        folder = tmp_path / str(len(output))
        for index, given in enumerate([good] * before + [bad]):
            (folder / f"{index:03}").mkdir(parents=True)
            for name, value in given.items():
                np.save(folder / f"{index:03}" / f"{name}.npy", value)
        output.append(
            the_error(
                program.call(["--batch-of", folder, "--output", f"y={folder}-y"], env=env)
            ).replace(str(folder), "FOLDER")
        )
        wanted = Session(path.read_bytes()).run(good)["y"]
        for index in range(before):
            assert (
                difference(np.load(tmp_path / f"{folder}-y" / f"{index:03}.npy"), wanted).relative
                <= TOLERANCE
            )
    assert (
        output[0] == output[1]
        and "node '/wpe/Gather' looks up index 10 of 10; valid are -10 to 9" in output[0]
    ), output


def test_weights_truncated_during_loading(tpcc, tmp_path):
    """The process is stopped at its GPU's third operation, and finds a shorter file when it
    continues.
    """
    program = tpcc.compile(products(tmp_path, 2, 4096), "tp1", *UNOPTIMIZED)
    command = [
        program.path,
        "--bench",
        "--repeat",
        "1",
        "--warmup",
        "0",
        "--shape",
        "batch=1,sequence=1",
    ]
    process = subprocess.Popen(
        [str(part) for part in command],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment(TPC_SIM_INJECT="freeze@3", TPC_SIM_FINDINGS=os.devnull)},
    )
    try:
        until(lambda: open(f"/proc/{process.pid}/stat").read().rsplit(")", 1)[1].split()[0] == "T")
        os.truncate(tmp_path / "products.onnx.data", 1000)
        process.send_signal(signal.SIGCONT)
        _, output = process.communicate(timeout=scaled(60))
    finally:
        process.kill()
    assert (
        process.returncode == 1 and output.count("\n") == 1 and "products.onnx.data" in output
    ), output


@pytest.mark.parametrize(
    "transport", ["threads", pytest.param("tcp", marks=long), pytest.param("mpi", marks=long)]
)
@pytest.mark.parametrize(
    "place,words",
    [("/dev/full", "No space left"), ("/nonexistent/logits.npy", "No such file or directory")],
)
def test_unwritable_outputs(tpcc, mpi, tmp_path, transport, place, words):
    program = tpcc.compile(MODEL.path, "tp2", *UNOPTIMIZED)
    np.save(tmp_path / "ids.npy", np.arange(8).reshape(1, 8))
    output = the_error(
        program.call(
            ["--input", f"input_ids={tmp_path}/ids.npy", "--output", f"logits={place}"],
            transport,
            env=environment(),
            timeout=60,
        )
    )
    assert f"cannot write '{place}': {words}" in output, output

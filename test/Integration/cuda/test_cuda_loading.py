"""Host memory during weight loading, and the search for vendor libraries (docs/gpu.md)."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import preload
from harness import BUILD, sanitized
from models import COMMITTED, FAMILIES
from simulator import UNOPTIMIZED
from tpc.reference import TOLERANCE, difference
from vendor_stubs import cublaslt, nccl, put

LIBRARIES = BUILD / "lib" / "simulator"
MODELS = Path(__file__).parents[2] / "Models"
MODEL_OF = {**COMMITTED, **FAMILIES}


def max_anonymous_bytes(folder, command, **env):
    """Returns the maximum anonymous memory until --verbose reports loaded weights. It includes
    memory that the simulated driver pins, but not device memory. Later memory use of matmuls is the
    simulator's own.
    """
    output = folder / "stderr"
    with open(output, "w") as stderr:
        process = subprocess.Popen(
            [*map(str, command), "--verbose"],
            env={**os.environ, "TPC_CUDA_LIBS": str(LIBRARIES), **env},
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    most = 0
    while process.poll() is None and "bytes of weights in" not in output.read_text():
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                most = max(most, int(line.split()[1]) * 1024)
        time.sleep(0.002)
    assert process.poll() in (None, 0) and "bytes of weights in" in output.read_text()
    process.kill()  # the step takes half a minute
    process.wait()
    return most


def products(folder, count, size):
    """Writes a chain of square matmuls. Its weights are zeros in a sparse file."""
    path, data = folder / "products.onnx", folder / "products.onnx.data"
    each = size * size * 4
    weights, nodes, last = [], [], "x"
    for i in range(count):
        weight = TensorProto(
            name=f"w{i}",
            data_type=TensorProto.FLOAT,
            dims=[size, size],
            data_location=TensorProto.EXTERNAL,
        )
        for key, value in (("location", data.name), ("offset", i * each), ("length", each)):
            weight.external_data.add(key=key, value=str(value))
        weights.append(weight)
        nodes.append(
            helper.make_node("MatMul", [last, f"w{i}"], [last := f"y{i}"], name=f"product{i}")
        )
    shape = ["batch", "sequence", size]
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, shape)],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    with open(data, "wb") as file:
        file.truncate(count * each)
    return path


@pytest.mark.parametrize("weights", ["file", pytest.param("random:1", marks=pytest.mark.long)])
def test_host_memory_of_loading(tpcc, tmp_path, weights):
    """Loading uses two pinned buffers of 32 MiB instead of 128 MiB of weights, and less for weights
    generated on the GPU (here by the interpreter, which takes half a minute).
    """
    most = []
    for count, size in ((1, 64), (2, 4096)):
        folder = tmp_path / str(size)
        folder.mkdir()
        executable = tpcc.compile(products(folder, count, size), "tp1", *UNOPTIMIZED)
        most.append(
            max_anonymous_bytes(
                folder,
                [
                    executable.path,
                    "--bench",
                    "--repeat",
                    "1",
                    "--warmup",
                    "0",
                    "--shape",
                    "batch=1,sequence=1",
                    *([] if weights == "file" else [f"--weights={weights}"]),
                ],
            )
        )
    assert most[1] - most[0] <= 96 << 20, most


@pytest.mark.parametrize(
    "file,grid",
    [
        pytest.param(
            file, grid, marks=[] if (file, grid) == ("gpt2-tiny", "tp2,pp2") else pytest.mark.long
        )
        for file in ("gpt2-tiny", "gpt2-odd-nopast", "bloom-dynamo", "llama-past")
        for grid in ("tp1", "tp2", "tp3", "tp2,pp2")
    ],
)
def test_random_weights_equal_those_of_cpus(tpcc, tmp_path, file, grid):
    """The results of other weights differ by much more than the tolerance."""
    model = MODEL_OF[file]
    given = model.inputs(2, 5, past=3 if model.past_name else 0)
    cpu = tpcc.compile(model.path, "tp1")
    gpu = tpcc.compile(model.path, grid, *UNOPTIMIZED)
    expected = cpu.run(given, [model.output], arguments=["--weights=random:7"])[model.output]
    other = cpu.run(given, [model.output], arguments=["--weights=random:8"])[model.output]
    trace = tmp_path / "trace"
    actual = gpu.run(
        given,
        [model.output],
        arguments=["--weights=random:7"],
        env={"TPC_CUDA_LIBS": str(LIBRARIES), "TPC_SIM_TRACE": str(trace)},
    )[model.output]
    assert difference(actual, expected).relative <= TOLERANCE
    assert difference(other, expected).relative > 0.1
    # No rank has an allocation for each weight: one contains all. Inputs have one each. Attention
    # that splits keys has one for its counters.
    assert trace.read_text().count("cuMemAlloc_v2") <= (13 + len(given)) * gpu.grid.ranks


@pytest.mark.long
def test_loading_500_megabytes(tpcc, tmp_path):
    shutil.copy(MODELS / "gpt2-124m.onnx", tmp_path)
    with open(tmp_path / "gpt2-124m.onnx.data", "wb") as file:
        file.truncate(1 << 30)
    executable = tpcc.compile(tmp_path / "gpt2-124m.onnx", "tp1", *UNOPTIMIZED)
    command = [
        executable.path,
        "--bench",
        "--repeat",
        "1",
        "--warmup",
        "0",
        "--shape",
        "batch=1,sequence=1",
    ]
    assert executable.describe()["ranks"][0]["weight_bytes"] > 490e6
    assert max_anonymous_bytes(tmp_path, command) <= 200 << 20


@pytest.mark.skipif(
    sanitized(), reason="sanitizers: their libraries come before any other that is preloaded"
)
@pytest.mark.parametrize(
    "action, words",
    [("rewrite", "was changed while it was loaded"), ("cut", "became shorter"), ("replace", "")],
)
def test_weights_that_change_while_they_load(tpcc, tmp_path, action, words):
    """Weights for GPUs are checked in the same way as weights on the host
    (test_changed_weights.py).
    """
    path = products(tmp_path, 2, 64)
    executable = tpcc.compile(path, "tp2", *UNOPTIMIZED)
    (tmp_path / "other").write_bytes(b"\1" * (2 * 64 * 64 * 4))
    np.save(tmp_path / "x.npy", np.ones((1, 1, 64), np.float32))
    data = tmp_path / "products.onnx.data"
    environment = preload.meddle(
        preload.build("meddle", tmp_path), data, action, tmp_path / "other", turn=2
    )
    result = executable.call(
        ["--input", f"x={tmp_path / 'x.npy'}", "--output", f"y1={tmp_path / 'y.npy'}"],
        env={"TPC_CUDA_LIBS": str(LIBRARIES), **environment},
    )
    if words:
        result.refused(words, str(data))
        assert not (tmp_path / "y.npy").exists()
    else:
        result.check()
        assert not np.load(tmp_path / "y.npy").any()


# Search path of libraries


def describe(executable, **env):
    return executable.call(
        ["--describe-device"],
        env={"TPC_CUDA_LIBS": "", "CUDA_HOME": "", "VIRTUAL_ENV": "", "CONDA_PREFIX": "", **env},
    )


@pytest.fixture(scope="module")
def program(tpcc):
    return tpcc.compile(COMMITTED["gpt2-mlp"].path, "tp1", *UNOPTIMIZED)


@pytest.mark.parametrize("order", range(4))
def test_search_order_of_folders(program, tmp_path, order):
    """If libcuda.so.1 is in the folders from `order` on, the first of them is used."""
    driver = "libcuda.so.1"
    places = [
        ("TPC_CUDA_LIBS", tmp_path / "own", tmp_path / "own"),
        ("LD_LIBRARY_PATH", tmp_path / "path", tmp_path / "path"),
        ("CUDA_HOME", tmp_path / "home", tmp_path / "home/lib64"),
        (
            "VIRTUAL_ENV",
            tmp_path / "venv",
            tmp_path / "venv/lib/python3.12/site-packages/nvidia/driver/lib",
        ),
    ]
    env = {}
    for name, value, folder in places[order:]:
        put(folder, driver)
        env[name] = str(value)
    result = describe(program, **env)
    assert f"for CUDA 13.0, {places[order][2] / driver}" in result.stdout, result


def test_unloadable_libraries_are_errors(program, tmp_path):
    put(tmp_path / "later", "libcuda.so.1")
    (tmp_path / "libcuda.so.1").write_text("no library")
    describe(program, TPC_CUDA_LIBS=f"{tmp_path}:{tmp_path / 'later'}").refused(
        f"{tmp_path}/libcuda.so.1 cannot be loaded"
    )


@pytest.mark.parametrize(
    "file,version,words",
    [
        ("libcublasLt.so.13", 130100, "cuBLASLt 13.1.0"),
        ("libcublasLt.so.12", 120803, "cuBLASLt 12.8.3"),
        ("libcublasLt.so.12", 110000, "is version 11: 12 or 13 is needed"),
        ("libcublasLt.so.13", 140000, "is version 14: 12 or 13 is needed"),
    ],
)
def test_versions_of_cublaslt(program, tmp_path, file, version, words):
    put(tmp_path, "libcuda.so.1")
    result = describe(program, TPC_CUDA_LIBS=str(cublaslt(tmp_path, file, version)))
    assert words in result.stdout and str(tmp_path / file) in result.stdout, result
    if "needed" in words:
        result.refused("this program cannot run here", words)


def test_library_without_a_function_is_rejected(program, tmp_path):
    put(tmp_path, "libcuda.so.1")
    describe(
        program,
        TPC_CUDA_LIBS=str(
            cublaslt(tmp_path, "libcublasLt.so.13", 130100, leave=["cublasLtMatmul"])
        ),
    ).refused("has no function cublasLtMatmul")


def test_old_drivers_and_old_nccl_are_rejected(program, tmp_path):
    describe(program, TPC_CUDA_LIBS=str(LIBRARIES), TPC_SIM_DRIVER="11080").refused(
        "of a driver for CUDA 11.8: one for 12.0 or later is needed"
    )
    nccl(tmp_path, 21705)
    put(tmp_path, "libcuda.so.1", "libcublasLt.so.13")
    result = describe(program, TPC_CUDA_LIBS=str(tmp_path)).check()
    assert (
        "is version 2.17.5: 2.18.0 or later is needed; ranks communicate through the host's memory"
        in result.stdout
    ), result

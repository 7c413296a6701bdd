"""Programs for GPUs, over libraries that simulate the vendor's (test/Simulator): the executables that users have, and what they
compute is what ONNX Runtime does."""

import shutil

import pytest

from harness import BUILD, Grid
from models import COMMITTED, FAMILIES
from tpc.reference import TOLERANCE, difference

ALL = {**COMMITTED, **FAMILIES}
LIBRARIES = BUILD / "lib" / "simulator"
GRIDS = ["tp1", "tp2", "pp2"]
# One of each kind; the others are part of the long run.
CHOSEN = [("gpt2-mlp", "tp2"), ("gpt2-tiny", "tp1"), ("gpt2-tiny", "tp2"), ("gpt2-tiny", "pp2")]
# batch, sequence, past, padding
SHAPES = [(2, 5, 3, "left"), (1, 1, 0, "none")]


def environment(**more):
    """Kernels as PTX: the simulated driver has no machine code."""
    return {"TPC_CUDA_LIBS": str(LIBRARIES), **more}


def cases():
    return [pytest.param(model, Grid.parse(grid), id=f"{model.name}-{grid}",
                         marks=[] if (model.name, grid) in CHOSEN else pytest.mark.long)
            for model in ALL.values() for grid in GRIDS]


@pytest.mark.parametrize("model,grid", cases())
def test_numbers(tpcc, model, grid):
    executable = tpcc.compile(model.path, grid, "--target=cuda")
    for seed, (batch, sequence, past, padding) in enumerate(SHAPES):
        given = model.inputs(batch, sequence, padding if model.padded else "none", past=past if model.past_name else 0)
        expected = model.reference.run(given)
        actual = executable.run(given, list(expected), env=environment(TPC_SIM_SEED=str(seed)))
        for name, wanted in expected.items():
            distance = difference(actual[name], wanted)
            assert distance.relative <= TOLERANCE, (name, batch, sequence, past, padding, distance)


def test_ranks_as_processes(tpcc):
    model = COMMITTED["gpt2-mlp"]
    executable = tpcc.compile(model.path, "tp2", "--target=cuda")
    given = model.inputs(2, 5)
    expected = model.reference.run(given)
    actual = executable.run(given, list(expected), transport="tcp", env=environment())
    for name, wanted in expected.items():
        assert difference(actual[name], wanted).relative <= TOLERANCE


@pytest.mark.parametrize("env,words", [
    ({}, ["this program computes on GPUs, but libcuda.so.1", "is NVIDIA's driver installed on this machine?"]),
    ({"TPC_RUNTIME_DIR": "/nonexistent", "TPC_CUDA_LIBS": "/nonexistent"}, ["libcuda.so.1 was not found"]),
])
def test_a_machine_without_a_driver_gets_one_line(tpcc, env, words):
    model = COMMITTED["gpt2-mlp"]
    executable = tpcc.compile(model.path, "tp1", "--target=cuda")
    said = executable.call(["--bench", "--shape", ",".join(f"{name}=1" for name in model.shape(1, 1))], env=env).refused(*words)
    assert said.stderr.count("\n") == 1
    # What needs no GPU needs none.
    assert executable.describe()["outputs"]


def test_what_comes_with_the_runtime_is_of_it(tpcc, tmp_path):
    executable = tpcc.compile(COMMITTED["gpt2-mlp"].path, "tp1", "--target=cuda")
    (tmp_path / "libtpc_cuda.so").write_text("no library")
    executable.call(["--bench", "--shape", "batch=1,sequence=1"], env={"TPC_RUNTIME_DIR": str(tmp_path)}).refused(
        "libtpc_cuda.so cannot be loaded")
    shutil.copy(BUILD / "lib" / "libtpc_mpi.so", tmp_path / "libtpc_cuda.so")
    executable.call(["--bench", "--shape", "batch=1,sequence=1"], env={"TPC_RUNTIME_DIR": str(tmp_path)}).refused(
        "is no library of this runtime")


def test_flags_of_gpus_belong_to_programs_for_them(tpcc):
    tpcc.compile(COMMITTED["gpt2-mlp"].path, "tp1").call(["--bench", "--shape", "batch=1,sequence=1", "--share-gpus"]).refused(
        "this program computes on processors")

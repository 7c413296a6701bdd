"""Training on GPU ranks: losses, weights, checkpoints and errors are those of CPU ranks."""

import numpy as np
import pytest

import step_trace
from simulator import FLAGS, UNOPTIMIZED, environment
from tpc import checkpoint
from training_programs import Training, check_gpt2, compare, fail, train_gpt2, without_speed

ADAMW = "adamw:decay=0.1,clip=0.5"
long = pytest.mark.long


@pytest.fixture(scope="module")
def training(tpcc, tmp_path_factory):
    return Training(tpcc, tmp_path_factory.mktemp("training"))


@long
@pytest.mark.parametrize("grid", ["tp1", "tp2", "mb3"])
def test_sgd(training, grid, tmp_path):
    program = training.compile("sgd:momentum=0.9", grid, *UNOPTIMIZED)
    flags = {"rate": 0.02, "env": environment(), "save": tmp_path}
    reference = compare(
        training, training.run(program, 8, **flags), "sgd", [0.02] * 8, momentum=0.9
    )
    for name, values in checkpoint.read_tensors(tmp_path).items():
        np.testing.assert_allclose(values, reference.weights[name], atol=1e-5)


@pytest.mark.parametrize("grid", ["dp2,mb3", pytest.param("tp2,dp2", marks=long)])
def test_adamw_and_resume(training, grid, tmp_path):
    """Steps after the second launch one graph, with another learning rate each time. A run that is
    saved and resumed has the bits of one that is not.
    """
    program, trace = training.compile(ADAMW, grid, *UNOPTIMIZED), tmp_path / "trace"
    flags = {"rate": 0.05, "warmup": 4}
    uninterrupted = training.run(
        program, 6, save=tmp_path / "uninterrupted", env=environment(TPC_SIM_TRACE=trace), **flags
    )
    rates = [0.0125, 0.025, 0.0375] + [0.05] * 3
    reference = compare(training, uninterrupted, "adamw", rates, decay=0.1, clip=0.5)
    for name, values in checkpoint.read_tensors(tmp_path / "uninterrupted").items():
        np.testing.assert_allclose(values, reference.weights[name], atol=1e-4)
    assert not step_trace.wrong(trace.read_text(), ["step"] * 6, program.grid.ranks)
    parts, flags = tmp_path / "parts", {**flags, "env": environment()}
    lines = training.run(program, 4, save=parts, **flags)
    lines += training.run(program, 6, save=parts, resume=parts, **flags)
    assert without_speed(lines) == without_speed(uninterrupted)
    for rank in range(program.grid.ranks):
        name = f"step-6/rank-{rank}.safetensors"
        assert (tmp_path / "uninterrupted" / name).read_bytes() == (parts / name).read_bytes()


def test_nan_stops(training, tmp_path):
    """If a step after recorded ones has a result that is not finite, it is repeated op by op."""
    program = training.compile(ADAMW, "dp2,mb3", *UNOPTIMIZED)
    fail(
        training,
        program,
        "the run stops, and this step is neither applied nor saved",
        "is the first op whose result is not finite",
        steps=50,
        rate=300,
        save=tmp_path,
        save_every=1,
        env=environment(),
    )
    steps = list(tmp_path.glob("step-*"))
    assert len(steps) > 2
    last = checkpoint.read_tensors(tmp_path)
    assert all(np.isfinite(values).all() for values in last.values())


@long
@pytest.mark.parametrize(
    "grid, optimizer",
    [
        ("tp1", "sgd:momentum=0.9"),
        ("tp1", "adamw:decay=0.1,clip=1"),
        ("tp2", "adamw:decay=0.1,clip=1"),
        ("dp2", "sgd:momentum=0.9"),
        ("tp2,sp", "sgd:momentum=0.9"),
        ("tp2,sp,dp2,mb2", "adamw:decay=0.1,clip=1"),
    ],
)
def test_gpt2(tpcc, grid, optimizer, tmp_path):
    check_gpt2(tpcc, grid, optimizer, tmp_path, *FLAGS, env=environment())


@long
@pytest.mark.parametrize("precision", ["bf16", "f16"])
def test_16_bits(tpcc, precision, tmp_path):
    """With matmuls in 16 bits, losses are within 1% of PyTorch's in f32, and the state is f32."""
    arguments = (f"--precision={precision}", *FLAGS)
    lines, expected = train_gpt2(
        tpcc, "tp2,sp", "adamw:decay=0.1,clip=1", tmp_path, *arguments, env=environment()
    )
    assert not any(line.get("skipped") for line in lines)
    losses = [line["loss"] for line in lines]
    np.testing.assert_allclose(losses, expected["losses"], rtol=0.01)
    saved = checkpoint.read_tensors(tmp_path / "saved", moments=True)
    assert {values.dtype for values in saved.values()} == {np.dtype(np.float32)}

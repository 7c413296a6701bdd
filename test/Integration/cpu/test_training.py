"""Training executables: optimizers, schedules, checkpoints, and errors, on a small program whose
gradients are written by hand; and training of GPT-2 against PyTorch (test/Models/training.py).
"""

import json
import os
import shutil
import signal
import subprocess

import numpy as np
import onnx
import pytest

import harness
import training_data
from tpc import checkpoint
from training_programs import (
    DATA,
    MODELS,
    Training,
    check_gpt2,
    compare,
    fail,
    train_gpt2,
    without_speed,
)


@pytest.fixture(scope="module")
def training(tpcc, tmp_path_factory):
    return Training(tpcc, tmp_path_factory.mktemp("training"))


@pytest.mark.parametrize("grid", ["tp1", "tp2", "tp2,dp2", "dp3", "dp2,mb3"])
def test_sgd(training, grid, tmp_path):
    program = training.compile("sgd:momentum=0.9", grid)
    lines = training.run(program, 25, rate=0.02, save=tmp_path)
    reference = compare(training, lines, "sgd", [0.02] * 25, momentum=0.9)
    assert np.mean([line["loss"] for line in lines[-5:]]) < lines[0]["loss"] / 2
    weights = checkpoint.read_tensors(tmp_path)
    assert set(weights) == {"up", "down", "shift"}
    for name, values in weights.items():
        np.testing.assert_allclose(values, reference.weights[name], atol=1e-5)


@pytest.mark.parametrize("grid", ["tp2", "tp2,dp2"])
def test_adamw(training, grid, tmp_path):
    program = training.compile("adamw:decay=0.1,clip=0.5", grid)
    lines = training.run(
        program, 20, rate=0.05, warmup=5, schedule="cosine", last_lr=0.01, save=tmp_path
    )
    rates = [0.05 * s / 5 for s in range(1, 6)]
    rates += [0.01 + 0.04 * (1 + np.cos(np.pi * s / 15)) / 2 for s in range(1, 16)]
    reference = compare(training, lines, "adamw", rates, decay=0.1, clip=0.5)
    for name, values in checkpoint.read_tensors(tmp_path).items():
        np.testing.assert_allclose(values, reference.weights[name], atol=1e-4)


@pytest.mark.parametrize("transport", ["threads", "mpi", "tcp"])
def test_resume_is_equal(training, transport, tmp_path):
    """A run that is saved and resumed has the bits of one that is not."""
    program = training.compile("adamw:decay=0.1,clip=0.5", "tp2,dp2")
    whole = training.run(program, 10, save=tmp_path / "whole")
    first = training.run(program, 5, transport, save=tmp_path / "parts")
    last = training.run(program, 10, transport, save=tmp_path / "parts", resume=tmp_path / "parts")
    assert without_speed(first + last) == without_speed(whole)
    for rank in range(4):
        name = f"step-10/rank-{rank}.safetensors"
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("grid", ["tp2,sp", "dp2", "tp2,sp,dp2,mb2", "mb4"])
def test_gpt2_on_all_transports(tpcc, grid, tmp_path):
    """Threads, MPI and TCP give the same bits, and so does a run that is saved and resumed."""
    program = tpcc.compile(MODELS / "gpt2-tiny-nopast.onnx", grid, "--train")
    training_data.make_data(1000).tofile(tmp_path / "data.u16")

    def train(steps, folder, transport):
        flags = ["--data", tmp_path / "data.u16", "--batch", "5", "--sequence", "7"]
        flags += ["--lr", "1e-2", "--steps", str(steps), "--save", tmp_path / folder]
        if (tmp_path / folder).exists():
            flags += ["--resume", tmp_path / folder]
        lines = program.call(flags, transport).check().stdout.splitlines()
        return without_speed(json.loads(line) for line in lines)

    runs = {transport: train(10, transport, transport) for transport in ("threads", "mpi", "tcp")}
    runs["parts"] = train(5, "parts", "tcp") + train(10, "parts", "threads")
    for name, lines in runs.items():
        assert lines == runs["threads"], name
        for rank in range(program.grid.ranks):
            file = f"step-10/rank-{rank}.safetensors"
            same = (tmp_path / "threads" / file).read_bytes()
            assert (tmp_path / name / file).read_bytes() == same, (name, rank)


def test_sigterm_saves(training, tmp_path):
    program = training.compile("sgd", "tp2")
    command = [*program.command(), *training.flags(10**9, save=tmp_path / "saved")]
    process = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    out = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    # communicate() loses lines that readline() has buffered.
    out += process.stdout.read()
    error = process.stderr.read()
    assert process.wait(timeout=60) == 0 and "stopped by SIGTERM" in error, error
    last = json.loads(out.splitlines()[-1])["step"]
    assert checkpoint.find_step(tmp_path / "saved").name == f"step-{last}"


@pytest.mark.parametrize("change", ["shorter", "written"])
def test_data_that_changes(training, tmp_path, change):
    """Data that changes during a run is an error, not other samples or a bus error."""
    data = tmp_path / "data.bin"
    np.tile(DATA, 1000).tofile(data)  # more than a block
    program = training.compile("sgd", "tp2")
    command = [*program.command(), *training.flags(10**9, rate=1e-4, data=data)]
    process = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    with open(data, "r+b") as file:
        file.truncate(6) if change == "shorter" else file.write(b"\1\0")
    process.stdout.read()
    error = process.stderr.read()
    assert process.wait(timeout=60) == 1 and "the file was changed: it" in error, error


def test_data_that_differs_between_hosts(training, tmp_path):
    program = training.compile("sgd", "tp2")
    for rank in (0, 1):
        (tmp_path / str(rank)).mkdir()
        np.roll(DATA, rank).tofile(tmp_path / str(rank) / "data.bin")
    flags = training.flags(2)
    flags[flags.index("--data") + 1] = "data.bin"
    apart = harness.by_rank(program, tmp_path, f"cd {tmp_path}/$RANK")
    result = apart.call(flags, "tcp")
    assert result.returncode == 1, result
    assert "rank 1 read other tokens than rank 0" in result.stderr, result


def test_data_errors(training):
    program = training.compile("sgd", "tp2")

    def write(name, values, dtype):
        np.array(values, dtype).tofile(training.folder / name)
        return name

    np.save(training.folder / "float.npy", np.zeros(40, np.float32))
    (training.folder / "odd.bin").write_bytes(b"123")
    np.save(training.folder / "cut.npy", np.zeros(99, np.uint16))
    os.truncate(training.folder / "cut.npy", 128 + 2 * 60)
    fail(training, program, "states 99 tokens, but the file has 60", data="cut.npy")
    short = write("short.bin", [1, 2, 3], np.uint16)
    fail(training, program, "the file has 3 tokens", "--sequence 3 needs 4", data=short)
    few = write("few.bin", [1] * 10, np.uint16)
    fail(training, program, "the file has 3 samples", "--batch 4", data=few)
    fail(training, program, "the elements are '<f4'", data="float.npy")
    fail(training, program, "no multiple of the 2 bytes of u16", data="odd.bin")
    large = write("large.bin", [1] * 20 + [16] + [1] * 40, np.uint16)
    fail(training, program, "token 20 is 16", "ids from 0 to 15", data=large, steps=10)
    negative = write("negative.i64", [1] * 20 + [-1] + [1] * 40, np.int64)
    fail(training, program, "token 20 is -1", data=negative, steps=10)
    ignored = write("ignored.i64", [3] + [-100] * 60, np.int64)
    fail(training, program, "all labels of the batch are ignored", data=ignored)
    fail(training, program, "absent.bin", data="absent.bin")
    result = program.call(["--data", training.folder / "data.bin", "--steps", "2", "--lr", "1"])
    assert "training needs --sequence N" in result.stderr


def test_errors_before_the_first_step(training, tmp_path):
    """A checkpoint folder that cannot be made is reported at the start, not after the run."""
    program = training.compile("sgd", "tp2")
    (tmp_path / "file").write_text("")
    for message, flags in (
        ("cannot make directory", {"save": tmp_path / "file"}),
        ("cannot make directory", {"save": "/proc/saved"}),
        ("--lr: the number exceeds the range of f32", {"rate": 1e39}),
        ("--loss-scale is for programs of tpcc --train --precision=f16", {"loss_scale": 8}),
        ("--loss-scale: expected a power of two", {"loss_scale": 3}),
        ("--last-lr: the number exceeds the range of f32", {"last_lr": 1e39}),
    ):
        result = program.call(training.flags(2, **flags))
        assert result.returncode == 1 and message in result.stderr and not result.stdout, result


@pytest.mark.parametrize("flag", ["--megatron-shard=pp2", "--quantize=int8"])
def test_refused_flags(flag, tmp_path):
    model = MODELS / "gpt2-tiny-nopast.onnx"
    result = harness.run([harness.tool("tpcc"), model, "--train", flag, "-o", tmp_path / "train"])
    assert result.returncode == 1 and "--train: does not support" in result.stderr, result


def test_nan_stops(training, tmp_path):
    program = training.compile("sgd", "tp2")
    fail(
        training,
        program,
        "the run stops, and this step is neither applied nor saved",
        "is the first op whose result is not finite",
        steps=200,
        rate=1e9,
        save=tmp_path,
        save_every=1,
    )
    last = checkpoint.read_tensors(tmp_path)
    assert all(np.isfinite(values).all() for values in last.values())


def test_overflowed_weights_are_not_saved(training, tmp_path):
    """The loss and the gradients of the step are finite, and its new weights are not."""
    program = training.compile("adamw:decay=1", "tp2")
    message = "has NaN or infinity after its update, so the step is not saved"
    fail(training, program, message, steps=1, rate=3.4e38, save=tmp_path)
    assert not list(tmp_path.glob("step-*"))


def test_checkpoint_errors(training, tmp_path):
    program = training.compile("sgd:momentum=0.9", "tp2")
    training.run(program, 4, save=tmp_path / "a", save_every=2)
    flags = {"steps": 6, "resume": tmp_path / "a"}
    fail(training, program, "there is no checkpoint", steps=6, resume=training.folder)
    fail(training, program, "--batch 4, not 3", **{**flags, "batch": 3})
    fail(training, program, "--seed 0, not 1", seed=1, **flags)
    fail(training, program, "--sequence 3, not 4", **{**flags, "sequence": 4})
    DATA[:50].tofile(training.folder / "fewer.bin")
    fail(training, program, "a data file with tokens: 60, not 50", data="fewer.bin", **flags)
    other = training.compile("sgd", "tp2")
    fail(training, other, "is of another model or optimizer", **flags)
    dp = training.compile("sgd:momentum=0.9", "tp2,dp2")
    fail(training, dp, "is of the grid", **flags)
    file = tmp_path / "a" / "step-4" / "rank-1.safetensors"
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    fail(training, program, "rank-1.safetensors' is damaged", **flags)
    (tmp_path / "a" / "step-4" / "index.json").write_text("{")
    fail(training, program, "index.json is missing or not an index", **flags)
    shutil.rmtree(tmp_path / "a" / "step-4")
    lines = training.run(program, **flags)
    assert [line["step"] for line in lines] == [3, 4, 5, 6]


def test_full_disk_keeps_checkpoints(training, tmp_path):
    """A limit on file sizes makes a save fail, as a full disk does."""
    program = training.compile("sgd:momentum=0.9", "tp2")
    training.run(program, 2, save=tmp_path)
    limited = harness.by_rank(program, tmp_path, "trap '' XFSZ; ulimit -f 1")
    flags = training.flags(4, save=tmp_path, resume=tmp_path)
    result = limited.call(flags)
    assert result.returncode == 1 and "cannot write checkpoint file" in result.stderr, result
    names = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert names == ["step-2"]
    assert [line["step"] for line in training.run(program, 3, resume=tmp_path)] == [3]


def test_export(training, tmp_path):
    program = training.compile("adamw:decay=0.1,clip=0.5", "tp2,dp2")
    training.run(program, 2, save=tmp_path)
    file = tmp_path / "weights.safetensors"
    checkpoint.main(["export", str(tmp_path), "-o", str(file)])
    tensors = checkpoint.read_safetensors(file)
    weights = checkpoint.read_tensors(tmp_path)
    assert {name: values.tobytes() for name, values in weights.items()} == tensors
    moments = checkpoint.read_tensors(tmp_path, moments=True)
    assert set(moments) - set(weights) == {
        f"adamw.{kind}.{name}" for kind in ("mean", "variance") for name in weights
    }


@pytest.mark.parametrize(
    "grid", ["tp2", *(pytest.param(g, marks=pytest.mark.long) for g in ("dp2", "tp2,sp,dp2,mb2"))]
)
def test_first_op_that_is_not_finite(tpcc, grid, tmp_path):
    """A weight of layer 1 is so large that a matmul overflows."""
    model = onnx.load(MODELS / "gpt2-tiny-nopast.onnx")
    (weight,) = (
        one for one in model.graph.initializer if one.name == "transformer.h.1.mlp.c_fc.weight"
    )
    (node,) = (one for one in model.graph.node if weight.name in one.input)
    large = np.full(onnx.numpy_helper.to_array(weight).shape, 3e38, np.float32)
    weight.CopyFrom(onnx.numpy_helper.from_array(large, weight.name))
    onnx.save(model, tmp_path / "model.onnx")
    program = tpcc.compile(tmp_path / "model.onnx", grid, "--train", "--no-verify")
    training_data.make_data(1000).tofile(tmp_path / "data.u16")
    flags = ["--data", tmp_path / "data.u16", "--batch", "4", "--sequence", "8", "--steps", "2"]
    flags += ["--lr", "1e-3", "--save", tmp_path / "saved", "--save-every", "1"]
    for transport in ("threads", "mpi") if grid == "tp2" else ("threads",):
        result = program.call(flags, transport)
        result.refused(
            "step 1: the loss is nan; ",
            f"'{node.name}' in layer 1 is the first op whose result is not finite",
        )
        assert not result.stdout and not list((tmp_path / "saved").glob("step-*"))


@pytest.mark.parametrize(
    "grid", ["tp2", *(pytest.param(g, marks=pytest.mark.long) for g in ("dp2", "tp2,sp,dp2,mb2"))]
)
def test_loss_scale(tpcc, grid, tmp_path):
    """Steps whose gradients overflow in f16 are skipped, and halve the scale of the loss. A run
    that is resumed has the same scales and bits.
    """
    arguments = ("--train", "--precision=f16", "--no-verify")
    program = tpcc.compile(MODELS / "gpt2-tiny-nopast.onnx", grid, *arguments)
    training_data.make_data(1000).tofile(tmp_path / "data.u16")

    def train(steps, folder, transport="threads"):
        flags = ["--data", tmp_path / "data.u16", "--batch", "4", "--sequence", "8"]
        flags += ["--loss-scale", str(2**25), "--loss-scale-interval", "4", "--lr", "1e-3"]
        flags += ["--steps", str(steps), "--save", tmp_path / folder]
        if (tmp_path / folder).exists():
            flags += ["--resume", tmp_path / folder]
        result = program.call(flags, transport).check()
        return [json.loads(line) for line in result.stdout.splitlines()]

    lines = train(20, "whole")
    scale, good, skipped = 2**25, 0, 0
    for line in lines:
        assert line["loss_scale"] == scale and np.isfinite(line["loss"])
        assert (line["grad_norm"] is None) == line.get("skipped", False)
        good = 0 if line.get("skipped") else good + 1
        skipped += line.get("skipped", False)
        scale = scale / 2 if good == 0 else scale * 2 if good % 4 == 0 else scale
    assert lines[0]["skipped"] and 2 <= skipped <= 15
    parts = train(6, "parts") + train(20, "parts", "mpi")
    assert without_speed(parts) == without_speed(lines)
    for file in sorted((tmp_path / "whole" / "step-20").glob("rank-*")):
        assert file.read_bytes() == (tmp_path / "parts" / "step-20" / file.name).read_bytes()


@pytest.mark.parametrize(
    "grid", ["tp2", *(pytest.param(g, marks=pytest.mark.long) for g in ("dp2", "tp2,sp,dp2,mb2"))]
)
def test_smallest_loss_scale(tpcc, grid, tmp_path):
    """A step whose gradients overflow also with the scale 1 ends the run. The z-loss is finite, but
    not its gradients.
    """
    arguments = ("--train", "--precision=f16", "--z-loss=1e9", "--no-verify")
    program = tpcc.compile(MODELS / "gpt2-tiny-nopast.onnx", grid, *arguments)
    training_data.make_data(1000).tofile(tmp_path / "data.u16")
    flags = ["--data", tmp_path / "data.u16", "--batch", "4", "--sequence", "8", "--lr", "1e-3"]
    flags += ["--loss-scale", "4", "--steps", "9", "--save", tmp_path / "saved", "--save-every=1"]
    result = program.call(flags)
    result.refused("step 3: the norm of the gradients is", "also with the smallest loss scale")
    assert "is the first op whose result is not finite" in result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(line["loss_scale"], line["skipped"]) for line in lines] == [(4, True), (2, True)]
    assert all(np.isfinite(line["loss"]) for line in lines)
    # The skipped steps are saved, and have changed no weight.
    assert checkpoint.find_step(tmp_path / "saved").name == "step-2"
    one, two = (checkpoint.read_tensors(tmp_path / "saved" / f"step-{step}") for step in (1, 2))
    for name, values in one.items():
        np.testing.assert_array_equal(values, two[name])


@pytest.mark.long
@pytest.mark.parametrize("grid", ["tp1", "tp2,sp,dp2"])
@pytest.mark.parametrize("precision", ["bf16", "f16"])
def test_16_bits(tpcc, grid, precision, tmp_path):
    """With matmuls in 16 bits, losses are PyTorch's of f32 to 1%, and the state is f32."""
    lines, expected = train_gpt2(
        tpcc, grid, "adamw:decay=0.1,clip=1", tmp_path, f"--precision={precision}"
    )
    assert not any(line.get("skipped") for line in lines)
    losses = [line["loss"] for line in lines]
    np.testing.assert_allclose(losses, expected["losses"], rtol=0.01)
    saved = checkpoint.read_tensors(tmp_path / "saved", moments=True)
    assert {values.dtype for values in saved.values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    "grid, optimizer",
    [
        pytest.param("tp1", "sgd:momentum=0.9", marks=pytest.mark.long),
        ("tp2", "adamw:decay=0.1,clip=1"),
        pytest.param("tp2", "sgd:momentum=0.9", marks=pytest.mark.long),
        pytest.param("dp2", "sgd:momentum=0.9", marks=pytest.mark.long),
        pytest.param("tp2,sp,dp2", "sgd:momentum=0.9", marks=pytest.mark.long),
        ("mb4", "sgd:momentum=0.9"),
        pytest.param("tp2,sp,dp2,mb2", "adamw:decay=0.1,clip=1", marks=pytest.mark.long),
        pytest.param("tp1", "adamw:decay=0.1,clip=1", marks=pytest.mark.long),
        pytest.param("dp2", "adamw:decay=0.1,clip=1", marks=pytest.mark.long),
    ],
)
def test_gpt2(tpcc, grid, optimizer, tmp_path):
    check_gpt2(tpcc, grid, optimizer, tmp_path)

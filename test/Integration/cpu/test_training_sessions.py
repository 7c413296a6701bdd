"""Training from Python: `tpc.compile(train=…)`, and steps and checkpoints of its session."""

import json
import subprocess
import sys

import numpy as np
import pytest

import tpc
import training_data
from harness import TOP, run, sanitized, tool
from tpc import checkpoint, compiler

pytestmark = pytest.mark.skipif(
    sanitized(), reason="sanitizers: the Python process needs them too"
)
NAME = "gpt2-tiny-nopast"
MODEL = TOP / "test" / "Models" / f"{NAME}.onnx"
SGD = "sgd:momentum=0.9"
EXPECTED = json.loads((TOP / "test" / "Models" / "training" / f"{NAME}.json").read_text())
DATA = training_data.make_data(1000)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(compiler, "find_tpcc", lambda: tool("tpcc"))
    folder = tmp_path_factory.getbasetemp() / "programs"  # tests share programs
    monkeypatch.setenv("TPC_CACHE", str(folder))


def batch_of(step):
    return training_data.batch_of(DATA, step, training_data.BATCH, training_data.SEQUENCE)


def run_steps(session, steps, rate):
    return [session.step(*batch_of(step), lr=rate).loss for step in steps]


@pytest.mark.parametrize(
    "shard, optimizer", [("tp2", "adamw:decay=0.1,clip=1"), ("dp2,mb2", SGD)]
)
def test_equals_pytorch(shard, optimizer):
    expected = EXPECTED[optimizer]
    with tpc.compile(MODEL, train=dict(optimizer=optimizer), shard=shard) as session:
        losses = run_steps(session, range(1, 11), expected["rate"])
        assert session.steps == 10
    np.testing.assert_allclose(losses, expected["losses"][:10], rtol=1e-4)


def test_labels_are_the_next_tokens():
    with tpc.compile(MODEL, train=True) as session:
        ids, labels = batch_of(1)
        rows = np.concatenate([ids, labels[:, -1:]], axis=1)
        assert session.step(rows, lr=0) == session.step(ids, labels, lr=0)
        loss, norm = session.step(rows.tolist(), lr=0)
        assert 6 < loss < 8 and norm > 0
        # With ignored samples, the loss is that of a batch without them.
        labels[1:] = -100
        found = session.step(ids, labels, lr=0)
        assert found == pytest.approx(session.step(ids[:1], labels[:1], lr=0), rel=1e-5)
        assert session.steps == 5


def test_resume_is_equal(tmp_path):
    options = dict(train=dict(loss="next-token", optimizer=SGD), shard="tp2")
    with tpc.compile(MODEL, **options) as session:
        whole = run_steps(session, range(1, 7), 0.05)
        last = session.save(tmp_path / "whole")
    with tpc.compile(MODEL, **options) as session:
        first = run_steps(session, range(1, 4), 0.05)
        assert session.save(tmp_path / "parts") == str(tmp_path / "parts" / "step-3")
    # Executables and sessions resume each other's checkpoints.
    data = tmp_path / "data.u16"
    DATA.tofile(data)
    flags = ["--data", data, "--batch", str(training_data.BATCH), "--lr", "0.05", "--sequence"]
    flags += [str(training_data.SEQUENCE), "--save", tmp_path / "run", "--steps"]
    for steps, folder in (("5", tmp_path / "parts"), ("6", tmp_path / "run")):
        lines = run([session.path, *flags, steps, "--resume", folder]).check().stdout
    assert json.loads(lines)["loss"] == pytest.approx(whole[5], rel=1e-8)
    with tpc.compile(MODEL, **options) as session:
        assert session.resume(tmp_path / "parts") == session.steps == 3
        assert first + run_steps(session, range(4, 7), 0.05) == whole
        session.save(tmp_path / "parts")
    with tpc.compile(MODEL, **options) as other:
        assert other.resume(tmp_path / "run") == 6
    for rank in range(2):
        name = f"rank-{rank}.safetensors"
        file = tmp_path / "run" / "step-6" / name
        assert file.read_bytes() == (tmp_path / "whole" / "step-6" / name).read_bytes()
        parts = tmp_path / "parts" / "step-6" / name
        assert parts.read_bytes() == (tmp_path / "whole" / "step-6" / name).read_bytes()
    assert last == str(tmp_path / "whole" / "step-6")
    exported = checkpoint.read_tensors(tmp_path / "parts")
    assert exported["transformer.wte.weight"].shape == (1000, 32)


def refused(function, *words, error=tpc.TpcError):
    with pytest.raises(error) as found:
        function()
    for word in words:
        assert word in str(found.value), found.value
    return found.value


def test_errors_of_steps(tmp_path):
    ids, labels = batch_of(1)
    with tpc.compile(MODEL, train=dict(optimizer=SGD), shard="mb2") as session:
        before = session.step(ids, labels, lr=0)
        wrong = labels.copy()
        wrong[1, 2] = 1000
        refused(lambda: session.step(ids, wrong), "labels[1, 2] is 1000", "from 0 to 999")
        wrong[1, 2] = -1
        refused(lambda: session.step(ids, wrong), "labels[1, 2] is -1")
        refused(lambda: session.step(ids, np.full_like(labels, -100)), "all labels are ignored")
        refused(lambda: session.step(ids, labels[:2]), "labels have the shape [2, 8]")
        refused(lambda: session.step(ids[:, :1]), "at least two tokens")
        refused(lambda: session.step(ids[0]), "integers [batch, tokens]")
        refused(lambda: session.step(ids * 0.5), "integers [batch, tokens]")
        refused(lambda: session.step(ids, lr=float("nan")), "lr nan")
        refused(lambda: session.step(ids + 1000, labels), "input_ids", "999")
        refused(lambda: session.resume(tmp_path), "there is no checkpoint")
        refused(lambda: session.save("/proc/none"), "cannot make checkpoint folder")
        assert session.step(ids, labels, lr=0) == before and session.steps == 2
        session.save(tmp_path)
        session.step(ids, labels, lr=1e30)
        for _ in range(2):
            refused(lambda: session.step(ids, labels), "step 4: the loss is", "is not applied")
        assert session.resume(tmp_path) == 2
        assert session.step(ids, labels, lr=0) == before
    refused(lambda: tpc.load(session.path, data="x"), "--data is a flag of executables")


@pytest.mark.long
def test_f16_is_refused():
    with tpc.compile(MODEL, train=True, precision="f16") as session:
        refused(lambda: session.step(*batch_of(1)), "do not train with precision='f16'")


def test_errors_of_resume(tmp_path):
    """A damaged file of one rank changes no rank."""
    ids, labels = batch_of(1)
    with tpc.compile(MODEL, train=True, shard="tp2") as session:
        session.step(ids, labels)
        session.save(tmp_path)
        session.step(ids, labels)
        before = session.step(ids, labels, lr=0)
        file = tmp_path / "step-1" / "rank-1.safetensors"
        content = bytearray(file.read_bytes())
        content[-5] ^= 1
        file.write_bytes(content)
        refused(lambda: session.resume(tmp_path), "rank-1.safetensors' is damaged")
        assert session.steps == 3 and session.step(ids, labels, lr=0).loss == before.loss
        content[-5] ^= 1
        file.write_bytes(content)
        assert session.resume(tmp_path) == 1
    with tpc.compile(MODEL, train=dict(optimizer=SGD), shard="tp2") as session:
        refused(lambda: session.resume(tmp_path), "of another model or optimizer")
    with tpc.compile(MODEL, train=True) as session:
        refused(lambda: session.resume(tmp_path), "is of the grid")


def test_errors_of_options():
    def compiled(**options):
        return lambda: tpc.compile(MODEL, **options)

    error = refused(
        compiled(train=dict(optimizer="adam")), "expected adamw or sgd", error=tpc.CompileError
    )
    assert error.messages
    refused(compiled(train=dict(loss="mse")), "next-token", error=tpc.CompileError)
    refused(compiled(train=True, generate=True), "--generate", error=tpc.CompileError)
    refused(compiled(train=True, shard="pp2"), "pipeline stages", error=tpc.CompileError)
    refused(compiled(optimizer="sgd"), "only --train", error=tpc.CompileError)
    refused(compiled(train=dict(optimiser="sgd")), "did you mean 'optimizer'?")
    refused(compiled(train="adamw"), "True or options by name")
    refused(compiled(train=dict(loss="next-token"), loss="next-token"), "given twice")
    with tpc.compile(MODEL) as session:
        refused(lambda: session.step([[1, 2]]), "needs a program that trains")


INTERRUPTED = """
import os, signal, sys, threading
import numpy as np
import tpc
signal.signal(signal.SIGINT, signal.default_int_handler)
session = tpc.load(sys.argv[1])
ids = np.zeros((256, 129), np.int64)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    session.step(ids)
    print("not interrupted")
except KeyboardInterrupt:
    session.step(ids)
    print(session.steps)
"""


def test_an_interrupted_step_counts():
    """The step ends in the background, so the next step is the second."""
    with tpc.compile(MODEL, train=True) as session:
        program = session.path
    result = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, program],
        env={"PYTHONPATH": str(TOP / "python")},
        capture_output=True,
        text=True,
    )
    assert result.stdout.strip() == "2", result

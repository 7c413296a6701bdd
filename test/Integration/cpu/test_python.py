"""The command-line tools of the `tpc` package. What needs torch is not run here, only what is said without it."""

import importlib.util
import sys

import numpy as np
import pytest

from conftest import TOP
from harness import run
from models import COMMITTED
from tpc import reference

MLP = COMMITTED["gpt2-mlp"]


def python(module, *arguments, **options):
    return run([sys.executable, "-m", module, *arguments], env={"PYTHONPATH": str(TOP / "python")}, **options)


@pytest.mark.parametrize("module", ["tpc.export", "tpc.weights", "tpc.compare"])
def test_help_teaches(module):
    text = python(module, "--help").check().stdout
    assert f"python -m {module}" in text and "seed" in text or module == "tpc.compare" and "tolerance" in text


@pytest.mark.parametrize("arguments,words", [
    (["--hidden", "30"], ["30", "12"]), (["--opset", "17"], ["17", "18"]), (["--opset", "99"], ["99"]),
    (["--layers", "0"], ["layers"]), (["--ffn", "1,2", "--layers", "3"], ["ffn", "3"]), (["--ffn", "x"], ["ffn"]),
    (["--weights", "nowhere"], ["nowhere", "config.json"]), (["--weights", "nowhere", "--layers", "2"], ["--layers"]),
    (["--part", "mlp", "--flavor", "optimum-nopast"], ["mlp", "dynamo"]), (["-o", "no/such/dir.onnx"], ["no/such"])],
    ids=lambda value: " ".join(value))
def test_export_refuses(tmp_path, arguments, words):
    python("tpc.export", "gpt2", "-o", "m.onnx", *arguments, cwd=tmp_path).refused(*words)
    assert not list(tmp_path.iterdir())


def test_export_says_what_to_install(tmp_path):
    if all(importlib.util.find_spec(name) for name in ("torch", "transformers", "onnxscript")):
        pytest.skip("torch and transformers are installed here")
    python("tpc.export", "gpt2", "-o", "m.onnx", cwd=tmp_path).refused("pip install", "torch")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def arrays(tmp_path):
    inputs = MLP.inputs(2, 3)
    np.save(tmp_path / "in.npy", inputs["hidden_states"])
    np.save(tmp_path / "out.npy", MLP.expected(inputs))
    return tmp_path


def compare(directory, *arguments):
    return python("tpc.compare", MLP.path, *arguments, cwd=directory)


def test_compare(arrays):
    good = compare(arrays, "--input", "hidden_states=in.npy", "--output", "output=out.npy").check()
    assert "output [2, 3, 40]" in good.stdout and "ok" in good.stdout
    wrong = np.load(arrays / "out.npy")
    wrong[1, 2, 3] += 1e-3
    np.save(arrays / "out.npy", wrong)
    bad = compare(arrays, "--input", "hidden_states=in.npy", "--output", "output=out.npy")
    assert bad.returncode == 1 and "[1, 2, 3]" in bad.stdout and "MORE THAN" in bad.stdout


def test_compare_alone_shows_the_noise(arrays):
    assert "ok" in compare(arrays, "--input", "hidden_states=in.npy").check().stdout


@pytest.mark.parametrize("arguments,words", [
    ([], ["hidden_states"]), (["--input", "in.npy"], ["NAME=FILE"]), (["--input", "hidden_states=no.npy"], ["no.npy"]),
    (["--input", "hidden_states=in.npy", "--output", "logits=out.npy"], ["logits", "output"]),
    (["--input", "hidden_states=in.npy", "--output", "output=in.npy", "--tolerance", "x"], ["tolerance"])],
    ids=lambda value: " ".join(value))
def test_compare_refuses(arrays, arguments, words):
    compare(arrays, *arguments).refused(*words)


def test_difference():
    expected = np.array([[1.0, -4.0], [np.inf, 2.0]], np.float32)
    assert reference.difference(expected, expected).relative == 0
    actual = expected.copy()
    actual[1, 1] = 2.5
    found = reference.difference(actual, expected)
    assert (found.absolute, found.index, found.scale, found.relative) == (0.5, (1, 1), 4.0, 0.125)
    for bad in (np.nan, np.inf):
        actual[0, 0] = bad
        assert reference.difference(actual, expected).relative == np.inf
    with pytest.raises(ValueError):
        reference.difference(actual[:1], expected)
    assert reference.difference(np.zeros((0, 3)), np.zeros((0, 3))).relative == 0

"""Story model: readable text on every grid, the demonstration, README's recording, and make.py."""

import importlib.util
import sys

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import tpc
from harness import BUILD, TOP, load_script, run, sanitized, tool
from tpc import compiler, reference
from tpc.text import ids_of, load_tokenizer

if not importlib.util.find_spec("tokenizers"):
    pytest.skip("tokenizers: the package is not installed", allow_module_level=True)
needs_loading = pytest.mark.skipif(
    sanitized(), reason="sanitizers: a process that loads a program needs them itself"
)

FOLDER = TOP / "test" / "Models" / "stories"
MODEL = FOLDER / "stories.onnx"
PROMPT = "Once upon a time"
TEXT = " there was a little fox that lived in a quiet forest. The fox was called Lily."

make = load_script(FOLDER / "make.py")


@pytest.fixture
def text_of(tmp_path, monkeypatch):
    """Returns the text that a grid writes after the prompt."""
    monkeypatch.setattr(compiler, "find_tpcc", lambda: tool("tpcc"))

    def generate(shard):
        with tpc.compile(MODEL, shard=shard, generate=True, out=tmp_path / "stories") as session:
            return session.generate(PROMPT)

    return generate


def test_files_are_small():
    names = ("stories.onnx", "tokenizer.json", "generation_config.json")
    assert sum((FOLDER / name).stat().st_size for name in names) <= 300_000


@needs_loading
@pytest.mark.parametrize("shard", ["tp1", "tp2,pp2", "tp3,dp2"])
def test_text_is_readable_and_the_same_on_every_grid(text_of, shard):
    text = text_of(shard)
    assert text.startswith(TEXT)
    assert text.endswith(" were the best of friends.")
    sentences = text.strip(". ").split(". ")
    # The animal, its name and the object are consistent within the story.
    assert len(sentences) == 6 and "fox" in sentences[-1] and "Lily" in sentences[-1]


def test_text_does_not_depend_on_rounding():
    """The margin of each greedy token is far above the differences between grids."""
    tokenizer, session = load_tokenizer(FOLDER), reference.Session(MODEL)
    ids = ids_of(tokenizer, PROMPT)
    while ids[-1] != tokenizer.token_to_id(make.END):
        logits = np.sort(session.run({"input_ids": np.array([ids])})["logits"][0, -1])
        assert logits[-1] - logits[-2] > 0.01, tokenizer.decode(ids)
        ids.append(int(session.run({"input_ids": np.array([ids])})["logits"][0, -1].argmax()))
        assert len(ids) < make.POSITIONS


def committed_parameters():
    names = make.make_parameters(np.random.default_rng(0)).keys()
    tensors = {tensor.name: tensor for tensor in onnx.load(MODEL).graph.initializer}
    return {name: numpy_helper.to_array(tensors[name]) for name in names}


def test_make_writes_this_file(tmp_path):
    make.write_model(committed_parameters(), tmp_path / "stories.onnx")
    assert onnx.load(tmp_path / "stories.onnx") == onnx.load(MODEL)
    random = np.random.default_rng(0)
    tokenizer = make.train_tokenizer([make.story(random) for _ in range(1000)])
    assert tokenizer.to_str() == load_tokenizer(FOLDER).to_str()


def test_forward_equals_onnx_runtime():
    ids = np.random.default_rng(3).integers(0, make.VOCAB, (2, 9))
    found = make.Gpt(committed_parameters()).forward(ids)
    expected = reference.Session(MODEL).run({"input_ids": ids})["logits"]
    assert reference.difference(found, expected).relative <= reference.TOLERANCE


def test_gradients_equal_differences():
    """Compares one element of each parameter's gradient, in f64, with a central difference."""
    random = np.random.default_rng(4)
    parameters = make.make_parameters(random)
    model = make.Gpt({name: value.astype(np.float64) for name, value in parameters.items()})
    ids, targets = random.integers(0, make.VOCAB, (2, 2, 9))
    targets[0, 3] = -1
    model.loss(ids, targets)
    gradients = {name: value.copy() for name, value in model.gradients.items()}
    for name, value in model.p.items():
        rows = {"wte": ids[1, 2], "wpe": 3}
        column = random.integers(value.shape[-1])
        index = (rows.get(name, 1), column) if value.ndim == 2 else (column,)
        losses, old = [], value[index]
        for step in (1e-5, -1e-5):
            value[index] = old + step
            losses.append(model.loss(ids, targets))
        value[index] = old
        expected = (losses[0] - losses[1]) / 2e-5
        assert abs(gradients[name][index] - expected) <= 1e-7 + 1e-4 * abs(expected), name


@needs_loading
def test_demonstration():
    result = run([sys.executable, TOP / "tools" / "demo.py", "--build", BUILD]).check()
    assert f"prompt: {PROMPT}" in result.stdout and f"text:  {TEXT[:20]}" in result.stdout
    assert result.stdout.count(": equal") == 2


@needs_loading
def test_recording_is_current():
    run([sys.executable, TOP / "tools" / "recording.py", "--check", "--build", BUILD]).check()

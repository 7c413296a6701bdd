"""Command-line tools of the `tpc` package where torch is not installed."""

import importlib.util
import os
import sys

import numpy as np
import pytest

from conftest import TOP
from harness import run
from models import COMMITTED, FAMILIES
from tpc import defaults, families, reference

MLP = COMMITTED["gpt2-mlp"]


def python(module, *arguments, **options):
    return run(
        [sys.executable, "-m", module, *arguments],
        env={"PYTHONPATH": str(TOP / "python")},
        **options,
    )


@pytest.mark.parametrize("module", ["tpc.export", "tpc.weights", "tpc.compare"])
def test_help_has_examples(module):
    text = python(module, "--help").check().stdout
    assert (
        f"python -m {module}" in text
        and "seed" in text
        or module == "tpc.compare"
        and "tolerance" in text
    )


@pytest.mark.parametrize(
    "arguments,words",
    [
        (["gpt2", "--opset", "17"], ["17", "18"]),
        (["gpt2", "--opset", "99"], ["99"]),
        (["gpt2", "--layers", "0"], ["layers"]),
        (["gpt2", "--kv-heads", "-1"], ["kv-heads"]),
        (["gpt2", "--ffn", "1,2", "--layers", "3"], ["ffn", "3"]),
        (["gpt2", "--ffn", "x"], ["ffn"]),
        (["gpt2", "--set", "sliding_window"], ["NAME=VALUE"]),
        (["./nowhere"], ["nowhere", "config.json"]),
        ([], ["family", "--list"]),
        (["gpt2", "--part", "mlp", "--flavor", "optimum-nopast"], ["mlp", "dynamo"]),
        (["gpt2", "-o", "no/such/dir.onnx"], ["no/such"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_export_rejects(tmp_path, arguments, words):
    python("tpc.export", "-o", "m.onnx", *arguments, cwd=tmp_path).refused(*words)
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_has_its_own_sizes(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    arguments = ["tpc.export", tmp_path, "-o", "m.onnx", "--layers", "2", "--set", "bias=true"]
    python(*arguments, cwd=tmp_path).refused("--layers", "--set bias", "checkpoint")


class Configuration:
    """A configuration in transformers' style, with renamed standard names and with proportions in
    its defaults.
    """

    attribute_map = {"num_hidden_layers": "n_layer"}

    def __init__(
        self,
        n_layer=32,
        hidden_size=64,
        num_attention_heads=16,
        num_kv_heads=4,
        ffn_dim=160,
        vocab_size=1000,
        head_dim=8,
        pad_token_id=999,
        rotary_dim=8,
        tie_word_embeddings=True,
        **kwargs,
    ):
        if rotary_dim > head_dim:
            raise ValueError("rotary_dim")
        self.__dict__.update(
            {name: value for name, value in locals().items() if name not in ("self", "kwargs")}
        )


class Plain:
    def __init__(
        self,
        hidden_size=8,
        num_attention_heads=4,
        num_hidden_layers=2,
        vocab_size=16,
        max_position_embeddings=32,
    ):
        self.__dict__.update({name: value for name, value in locals().items() if name != "self"})


def configured(config_class, settings=(), **given):
    given = {name.replace("_", "-"): value for name, value in given.items()}
    return families.configure("test", config_class, families.Sizes(given, dict(settings)))


def test_sizes_find_their_names_and_keep_proportions():
    assert vars(configured(Configuration)) == vars(Configuration())
    config = configured(Configuration, layers=3, hidden=128, heads=8)
    assert (config.n_layer, config.hidden_size, config.num_attention_heads) == (3, 128, 8)
    assert (config.num_kv_heads, config.ffn_dim, config.head_dim) == (2, 320, 16)
    config = configured(Configuration, heads=6, kv_heads=3, head_size=10, ffn=[7, 8], vocab=50)
    assert (config.num_kv_heads, config.ffn_dim, config.head_dim, config.pad_token_id) == (
        3,
        7,
        10,
        49,
    )
    assert (
        configured(Configuration, {"rotary_dim": 2, "tie_word_embeddings": False}).rotary_dim == 2
    )


@pytest.mark.parametrize(
    "config_class,given,settings,words",
    [
        (
            Configuration,
            {"positions": 64},
            {},
            ["--positions", "Configuration", "--layers", "--set"],
        ),
        (Configuration, {}, {"rotary_dims": 4}, ["rotary_dims", "rotary_dim"]),
        (Configuration, {"heads": 4, "kv_heads": 3}, {}, ["--heads 4", "--kv-heads 3"]),
        (Configuration, {"hidden": 30, "heads": 4}, {}, ["30", "4", "--head-size"]),
        (Configuration, {"hidden": 32}, {}, ["Configuration", "rotary_dim"]),
        (Plain, {"hidden": 30}, {}, ["30", "4"]),
        (Plain, {"kv_heads": 2}, {}, ["--kv-heads"]),
    ],
)
def test_invalid_sizes_are_rejected(config_class, given, settings, words):
    with pytest.raises(families.ConfigurationError) as error:
        configured(config_class, settings, **given)
    assert all(word in str(error.value) for word in words)


def test_missing_sizes_are_named():
    assert (
        families.untouched_sizes(Configuration, configured(Configuration, hidden=128))
        == "rotary_dim=8"
    )


def test_unknown_families_have_suggestions():
    message = str(families.unknown_family("LLama-2", ["llama", "mistral", "gpt2"]))
    assert "similar names: llama" in message
    assert "--list" in str(families.unknown_family("zzz", ["llama"]))


def test_export_names_missing_packages(tmp_path):
    if all(importlib.util.find_spec(name) for name in ("torch", "transformers", "onnxscript")):
        pytest.skip("torch: it is installed, with transformers")
    python("tpc.export", "gpt2", "-o", "m.onnx", cwd=tmp_path).refused(
        "pip install transformers==", " torch "
    )
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


def test_compare_with_one_argument_shows_the_noise(arrays):
    assert "ok" in compare(arrays, "--input", "hidden_states=in.npy").check().stdout


def test_compare_reads_files(arrays):
    os.mkfifo(arrays / "pipe")
    (arrays / "empty").touch()
    np.savez(arrays / "several.npz", a=np.zeros(1))
    for name, words in (
        ("pipe", "regular file"),
        ("/dev/zero", "regular file"),
        ("empty", "not a .npy file"),
        ("several.npz", "several arrays"),
        (".", "regular file"),
    ):
        compare(arrays, "--input", f"hidden_states={name}").refused("--input", words)
    for name in ("pipe", "/dev/zero", ".", "absent.onnx"):
        python("tpc.compare", name, "--input", "hidden_states=in.npy", cwd=arrays).refused(
            "file", name
        )


@pytest.mark.parametrize(
    "arguments,words",
    [
        ([], ["hidden_states"]),
        (["--input", "in.npy"], ["NAME=FILE"]),
        (["--input", "hidden_states=no.npy"], ["no.npy"]),
        (["--input", "hidden_states=in.npy", "--output", "logits=out.npy"], ["logits", "output"]),
        (
            ["--input", "hidden_states=in.npy", "--output", "output=in.npy", "--tolerance", "x"],
            ["tolerance"],
        ),
        (["--input", "hidden_states=in.npy", "--program", "./no-program"], ["no-program"]),
        (["--input", "hidden_states=in.npy", "--program", sys.executable], ["--describe"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_compare_rejects(arrays, arguments, words):
    compare(arrays, *arguments).refused(*words)


PAST = {
    "input_ids": ["b", "s"],
    "attention_mask": ["b", "p + s"],
    "position_ids": ["b", "s"],
    "past_key_values.0.key": ["b", 2, "p", 4],
}
CACHE = np.zeros((2, 2, 3, 4), np.float32)


def filled(shapes, **given):
    given = {"input_ids": np.zeros((2, 4), np.int64), "past_key_values.0.key": CACHE, **given}
    result = defaults.fill(
        shapes, {"attention_mask": np.dtype("int32")}, given, defaults.conventional(shapes)
    )
    return result.get("attention_mask"), result.get("position_ids")


def test_defaults():
    mask, positions = filled(PAST)
    assert mask.dtype == np.int32 and mask.shape == (2, 7) and mask.all()
    np.testing.assert_array_equal(positions, [[3, 4, 5, 6]] * 2)
    padded = np.array([[0, 0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 0, 1]])
    np.testing.assert_array_equal(
        filled(PAST, attention_mask=padded)[1], [[1, 0, 1, 2], [3, 4, 1, 5]]
    )
    # Without a mask, positions begin after the past. One row of positions is shared by all
    # sequences if their masks are equal.
    unmasked = {name: shape for name, shape in PAST.items() if name != "attention_mask"}
    np.testing.assert_array_equal(filled(unmasked)[1], [[3, 4, 5, 6]] * 2)
    one_row = PAST | {"position_ids": [1, "s"]}
    np.testing.assert_array_equal(filled(one_row)[1], [[3, 4, 5, 6]])
    assert filled(one_row, attention_mask=padded)[1] is None
    np.testing.assert_array_equal(filled(PAST | {"position_ids": ["s"]})[1], [3, 4, 5, 6])
    # Unknown sizes have no defaults.
    assert filled(PAST | {"attention_mask": ["b", "total"]}) == (None, None)


@pytest.mark.parametrize(
    "model",
    [
        COMMITTED["gpt2-odd-nopast"],
        FAMILIES["llama-past"],
        *(
            pytest.param(model, marks=pytest.mark.long)
            for model in FAMILIES.values()
            if model.name != "llama-past"
        ),
    ],
    ids=lambda model: model.name,
)
def test_compare_has_the_defaults_of_executables(tpcc, tmp_path, model):
    """Input names have the same meaning in tpc.compare as in the compiler, and the defaults are
    equal.
    """
    executable = tpcc.compile(model.path, "tp2")
    keys = ("name", "default", "mask", "past")
    asked = [
        {key: port[key] for key in keys if key in port}
        for port in defaults.described(executable.path)
    ]
    known = model.reference.inputs
    assert sorted(asked, key=str) == sorted(defaults.conventional(known), key=str)
    given = {
        name: array
        for name, array in model.inputs(2, 5, past=3).items()
        if name not in ("attention_mask", "position_ids")
    }
    np.save(tmp_path / "logits.npy", executable.run(given)["logits"])
    arguments = ["--output", "logits=logits.npy"]
    for name, array in given.items():
        np.save(tmp_path / f"{name}.npy", array)
        arguments += ["--input", f"{name}={name}.npy"]
    for program in ([], ["--program", executable.path]):
        result = python("tpc.compare", model.path, *arguments, *program, cwd=tmp_path).check()
        assert "ok" in result.stdout and result.stderr.count("omitted") == len(asked)


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


def test_loading_needs_only_numpy():
    """`pip install ./python` installs only the package; each tool reports its missing
    dependencies."""
    text = """
import sys
for name in ("onnx", "onnxruntime", "tokenizers", "ml_dtypes", "torch", "transformers"):
    sys.modules[name] = None
import tpc, tpc.generate, tpc.compare
from tpc.text import TextError, load_tokenizer
try:
    load_tokenizer(sys.executable)
except TextError as error:
    assert "pip install tokenizers" in str(error), error
try:
    import tpc.weights
except ImportError as error:
    assert "-m pip install onnx" in str(error), error
else:
    raise AssertionError("onnx is there")
"""
    run([sys.executable, "-c", text], env={"PYTHONPATH": str(TOP / "python")}).check()

"""`python -m tpc.export` where torch and transformers are installed.

test_python.py has its messages without them.
"""

import importlib.util

import onnx
import pytest

from test_python import python
from tpc.reference import Session

MISSING = [
    name for name in ("torch", "transformers", "onnxscript") if not importlib.util.find_spec(name)
]
OPTIMUM = [name for name in ("optimum", "accelerate") if not importlib.util.find_spec(name)]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(MISSING), reason=f"torch: not installed: {', '.join(MISSING)}"),
]
TINY = ["--layers", "2", "--hidden", "16", "--heads", "4", "--vocab", "50"]


def export(directory, *arguments):
    return python("tpc.export", "-o", "m.onnx", *arguments, cwd=directory)


@pytest.mark.parametrize("family", ["gpt2", "llama", "opt", "stablelm"])
@pytest.mark.parametrize("flavor", ["dynamo", "dynamo-past", "optimum-nopast", "optimum-past"])
def test_flavors(tmp_path, family, flavor):
    """tpc.export compares each file with the model; this test checks inputs and outputs."""
    if "optimum" in flavor and OPTIMUM:
        pytest.skip(f"torch: not installed: {', '.join(OPTIMUM)}")
    settings = {
        "opt": ["--set", "word_embed_proj_dim=16"],
        "stablelm": ["--set", "partial_rotary_factor=0.5"],
    }.get(family, [])
    export(tmp_path, family, *TINY, "--flavor", flavor, *settings).check()
    session = Session(tmp_path / "m.onnx")
    assert session.inputs["input_ids"] and session.outputs[0] == "logits"
    assert len([name for name in session.inputs if "past" in name]) == (
        4 if "-past" in flavor else 0
    )
    assert ("attention_mask" in session.inputs) == ("optimum" in flavor)


def test_sizes_reach_the_file(tmp_path):
    export(
        tmp_path,
        "llama",
        *TINY,
        "--kv-heads",
        "2",
        "--ffn",
        "24,20",
        "--set",
        "tie_word_embeddings=true",
    ).check()
    shapes = [tuple(tensor.dims) for tensor in onnx.load(tmp_path / "m.onnx").graph.initializer]
    assert (
        shapes.count((16, 8)) == 4 and shapes.count((16, 24)) == 2 and shapes.count((16, 20)) == 2
    )


def test_checkpoints(tmp_path):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=24,
        vocab_size=50,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path / "checkpoint")
    export(tmp_path, "./checkpoint").check()
    assert Session(tmp_path / "m.onnx").inputs == {"input_ids": ["batch", "sequence"]}


@pytest.mark.parametrize("part", ["layer", "mlp"])
def test_parts(tmp_path, part):
    export(tmp_path, "gpt2", *TINY, "--part", part).check()
    assert Session(tmp_path / "m.onnx").inputs == {"hidden_states": ["batch", "sequence", 16]}


@pytest.mark.parametrize(
    "arguments,words",
    [
        (["lama"], ["lama", "near", "llama"]),
        (["gpt2", *TINY, "--kv-heads", "2"], ["--kv-heads", "GPT2Config", "--positions"]),
        (["falcon", *TINY, "--kv-heads", "2"], ["--kv-heads 2", "has no effect", "--set"]),
        (["llama", *TINY, "--set", "attention_biass=true"], ["attention_biass", "attention_bias"]),
        (["llama", "--layers", "2000"], ["GiB", "--layers"]),
        (["gptj", *TINY], ["dynamo", "gptj", "rotary_dim=64", "--set"]),
        (["llama", *TINY, "--part", "layer"], ["--part layer", "llama"]),
        (
            [
                "mamba",
                "--layers",
                "2",
                "--hidden",
                "16",
                "--vocab",
                "50",
                "--flavor",
                "dynamo-past",
            ],
            ["mamba", "cache"],
        ),
    ],
    ids=lambda value: " ".join(value),
)
def test_errors_name_a_remedy(tmp_path, arguments, words):
    export(tmp_path, *arguments).refused(*words)
    assert not list(tmp_path.iterdir())


def test_lists(tmp_path):
    assert {"llama", "gpt2", "bloom"} <= set(python("tpc.export", "--list").check().stdout.split())
    text = python("tpc.export", "falcon", "--list").check().stdout
    assert (
        "--kv-heads" in text
        and "num_kv_heads" in text
        and "new_decoder_architecture = false" in text
    )

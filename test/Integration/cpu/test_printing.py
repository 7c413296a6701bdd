"""Output of --emit: fits a screen, parses, and equals the output of upstream's printer."""

import re

import pytest

from harness import run, tool
from models import MODELS

WIDTH = 120
CASES = [
    ("gpt2-tiny", "tp2", "spmd"),
    ("llama-past", "tp2x2", "spmd"),
    ("gemma2-past", "tp2,pp2", "staged"),
    ("falcon-past", "pp2", "staged"),
    ("gpt2-124m", "tp2,pp2,sp", "model"),
    ("gpt2-tiny", "tp2,pp2,sp", "kernels"),
    ("llama-past", "tp2,pp2", "buffers"),
]
LONG = [
    (path.stem, grid, level)
    for path in sorted(MODELS.glob("*.onnx"))
    for grid in ("tp2", "pp2", "tp2x2")
    for level in ("spmd", "staged", "kernels", "buffers")
    if (path.stem, grid) != ("gpt2-mlp", "pp2")
]


@pytest.mark.parametrize(
    "model,grid,level",
    CASES + [pytest.param(*case, marks=pytest.mark.long) for case in LONG if case not in CASES],
)
def test_lines_fit_a_screen(tmp_path, model, grid, level):
    texts = {}
    for name, flags in (("plain", ["--plain"]), ("readable", [])):
        texts[name] = tmp_path / f"{name}.mlir"
        run(
            [
                tool("tpcc"),
                MODELS / f"{model}.onnx",
                f"--megatron-shard={grid}",
                f"--emit={level}",
                "--no-verify",
                *flags,
                "-o",
                texts[name],
            ]
        ).check()
    readable = texts["readable"].read_text()
    assert max(map(len, texts["plain"].read_text().splitlines())) > WIDTH
    # A long text, such as a reason, is not broken, and is alone on its line.
    functions = re.findall(
        r"^  (?:func\.func|tpc\.pipeline|module|tpc_buffer\.func) .*?^  }$", readable, re.M | re.S
    )
    assert functions
    for function in functions:
        assert not [
            line
            for line in function.splitlines()
            if len(line) > WIDTH and not re.fullmatch(r'\s*"[^"]*"\W*', line)
        ]
    again = {name: run([tool("tpc-opt"), path]).check().stdout for name, path in texts.items()}
    assert again["readable"] == again["plain"] == texts["plain"].read_text() + "\n"


@pytest.mark.parametrize(
    "level,layer",
    [("spmd", r"func\.func private @layer"), ("buffers", r"tpc_buffer\.func @\w+ of @layer")],
)
def test_calls_name_their_weights(level, layer):
    """Calls have a comment with the name of each weight, so that arguments need not be counted."""
    text = (
        run(
            [
                tool("tpcc"),
                MODELS / "gpt2-tiny.onnx",
                "--megatron-shard=tp2",
                f"--emit={level}",
                "--no-verify",
            ]
        )
        .check()
        .stdout
    )
    (arguments,) = re.findall(layer + r"\((.*?)\)\s*(?:->|to)", text, re.S)
    names = set(re.findall(r"%([\w.]+)(?::| =)", arguments))
    assert names >= {
        f"{part}.{kind}{suffix}"
        for part, suffixes in (
            ("ln_1", [""]),
            ("attn.c_attn", ["", ".at32", ".at64"]),
            ("attn.c_proj", [""]),
            ("ln_2", [""]),
            ("mlp.c_fc", [""]),
            ("mlp.c_proj", [""]),
        )
        for kind in ("weight", "bias")
        for suffix in suffixes
    }

"""What --emit prints fits a screen, is read back, and is the same program as upstream's printer writes."""

import re

import pytest

from harness import run, tool
from models import MODELS

WIDTH = 120
CASES = [("gpt2-tiny", "tp2", "spmd"), ("llama-past", "tp2x2", "spmd"), ("gemma2-past", "tp2,pp2", "staged"),
         ("falcon-past", "pp2", "staged"), ("gpt2-124m", "tp2,pp2,sp", "model")]
LONG = [(path.stem, grid, level) for path in sorted(MODELS.glob("*.onnx")) for grid in ("tp2", "pp2", "tp2x2")
        for level in ("spmd", "staged") if (path.stem, grid) != ("gpt2-mlp", "pp2")]


@pytest.mark.parametrize("model,grid,level",
                         CASES + [pytest.param(*case, marks=pytest.mark.long) for case in LONG if case not in CASES])
def test_lines_fit_a_screen(tmp_path, model, grid, level):
    texts = {}
    for name, flags in (("plain", ["--plain"]), ("readable", [])):
        texts[name] = tmp_path / f"{name}.mlir"
        run([tool("tpcc"), MODELS / f"{model}.onnx", f"--megatron-shard={grid}", f"--emit={level}", "--no-verify", *flags,
             "-o", texts[name]]).check()
    readable = texts["readable"].read_text()
    assert max(map(len, texts["plain"].read_text().splitlines())) > WIDTH
    # A text of the file, a reason, is not broken; no line of a function has one.
    functions = re.findall(r"^  (?:func\.func|tpc\.pipeline) .*?^  }$", readable, re.M | re.S)
    assert len(functions) > 1
    for function in functions:
        assert not [line for line in function.splitlines() if len(line) > WIDTH]
    again = {name: run([tool("tpc-opt"), path]).check().stdout for name, path in texts.items()}
    assert again["readable"] == again["plain"] == texts["plain"].read_text()


def test_weights_are_called_by_name(tmp_path):
    """Of each weight that a layer takes, and of parts of them, nobody needs to count arguments."""
    text = run([tool("tpcc"), MODELS / "llama-dynamo.onnx", "--megatron-shard=tp2", "--emit=spmd", "--no-verify"]).check().stdout
    layer, = re.findall(r"func\.func private @layer\((.*?)\)\s*->", text, re.S)
    names = re.findall(r"%([\w.]+):", layer)
    for weight in ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "input_layernorm"):
        assert [name for name in names if weight in name], (weight, names)

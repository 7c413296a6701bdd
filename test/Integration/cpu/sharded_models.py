"""Helpers of tests on ONNX multi-device fields."""

import re
import subprocess

import onnx

from conftest import BIN, TOP

MODELS = TOP / "test" / "Models"
TINY = MODELS / "gpt2-tiny-nopast.onnx"
TABLE, HEAD = "transformer.wte.weight", "onnx::MatMul_659"


def run(*arguments, fails=False):
    result = subprocess.run([BIN / "tpcc", *arguments], capture_output=True, text=True)
    assert (result.returncode != 0) == fails, result.stderr
    return result.stderr if fails else result.stdout


def program(path, spec, *options):
    """Returns the staged program without the record of tactics and without offsets in files."""
    text = run(path, f"--megatron-shard={spec}", "--emit=staged", "--plain", *options)
    lines = [line for line in text.splitlines() if not line.startswith("module")]
    assert any("tpc.pipeline" in line for line in lines)
    return [re.sub(r' in "[^"]*" at \d+', "", line) for line in lines]


def load():
    return onnx.load(TINY)

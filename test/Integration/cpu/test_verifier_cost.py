"""Cost of proofs: each stage and layer is visited once, for any number of ranks and layers.

Compares CPU time within one run, as the minimum of several compilations. Other tests run at the
same time, so the default run detects only growth with ranks or layers. The long run is alone and
checks the documented factors.
"""

import sys

import pytest

import harness
from models import MODELS

sys.path.append(str(harness.TOP / "test" / "Benchmark"))

pytestmark = pytest.mark.skipif(harness.sanitized(), reason="sanitizers: they take their time")


def compilation(model, grid, tmp_path, *arguments):
    return harness.run(
        [
            harness.tool("tpcc"),
            model,
            f"--megatron-shard={grid}",
            "--timing",
            "-o",
            tmp_path / "program",
            *arguments,
        ]
    ).check()


def cpu_seconds(model, grid, tmp_path, *arguments):
    return min(compilation(model, grid, tmp_path, *arguments).cpu_seconds for _ in range(3))


@pytest.mark.parametrize("limit", [3, pytest.param(1.5, marks=pytest.mark.long)])
def test_124m(tmp_path, limit):
    model = MODELS / "gpt2-124m.onnx"
    # Compilations alternate, because the machine's speed varies.
    both = [
        [
            compilation(model, "tp8,pp4", tmp_path, *flags).cpu_seconds
            for flags in ([], ["--no-verify"])
        ]
        for _ in range(5)
    ]
    checked, unchecked = map(min, zip(*both))
    assert checked <= limit * unchecked


@pytest.mark.parametrize("limit", [4, pytest.param(2, marks=pytest.mark.long)])
def test_32_ranks_cost_little_more_than_one(tmp_path, limit):
    model = MODELS / "gpt2-124m.onnx"
    assert cpu_seconds(model, "tp8,pp4", tmp_path) <= limit * cpu_seconds(model, "tp1", tmp_path)


@pytest.mark.long
def test_126_layers_on_8192_ranks(tmp_path):
    import llama

    model = llama.write(tmp_path / "llama.onnx")
    result = compilation(model, "tp8,pp16,dp64", tmp_path)
    assert result.peak_bytes <= 2 << 30
    assert result.cpu_seconds <= 3 * compilation(model, "tp1", tmp_path).cpu_seconds

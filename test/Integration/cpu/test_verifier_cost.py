"""Proofs are cheap: they look at a stage and a layer once, whatever the number of ranks and layers. (What many ranks cost
beside few is a ratio of times: test/Benchmark/bench_compile.py.)"""

import sys

import pytest

import harness
from models import MODELS

sys.path.append(str(harness.TOP / "test" / "Benchmark"))


def timed(model, grid, tmp_path):
    """The executable's compilation, and the seconds of all steps that verify."""
    result = harness.run([harness.tool("tpcc"), model, f"--megatron-shard={grid}", "--timing", "-o",
                          tmp_path / "program"]).check()
    verifying = [step.seconds for step in result.steps if step.what.startswith("verifying")]
    assert len(verifying) == 4, result.stderr
    return result, sum(verifying)


@pytest.mark.skipif(harness.sanitized(), reason="sanitizers take their time")
def test_124m(tmp_path):
    # The machine may be busy: one of three times.
    assert any(timed(MODELS / "gpt2-124m.onnx", "tp8,pp4", tmp_path)[1] <= 3 for _ in range(3))


@pytest.mark.long
@pytest.mark.skipif(harness.sanitized(), reason="sanitizers take their time")
def test_126_layers_on_8192_ranks(tmp_path):
    import llama

    result, verifying = timed(llama.write(tmp_path / "llama.onnx"), "tp8,pp16,dp64", tmp_path)
    assert verifying <= 60
    assert result.seconds <= 120 and result.peak_bytes <= 2 << 30

"""GPU ranks equal ONNX Runtime on two layers of GPT-2 124M, its full vocabulary, and 64 tokens."""

import sys
from pathlib import Path

import pytest

from models import Model
from simulator import FLAGS, environment
from tpc.reference import TOLERANCE, difference
from tpc.weights import write_weights

sys.path.append(str(Path(__file__).resolve().parents[2] / "Benchmark"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    import gpt

    folder = tmp_path_factory.mktemp("two-layers")
    path = gpt.write(folder / "gpt2-two-layers.onnx", layers=2)
    write_weights(path, folder)
    return Model(path, layers=2, hidden=768, heads=12, vocab=50257, positions=1024)


@pytest.mark.long
@pytest.mark.parametrize("grid", ["tp1", "tp2", "pp2", "tp2,sp"])
def test_numbers(tpcc, model, grid):
    executable, given = tpcc.compile(model.path, grid, *FLAGS), model.inputs(1, 64)
    found = executable.run(
        given, [model.output], timeout=300, env=environment(TPC_SIM_MEMORY="4GiB")
    )[model.output]
    assert (off := difference(found, model.expected(given))).relative <= TOLERANCE, off

"""Other families, as exporters write them: the optional corpus. Caches are plain inputs and outputs here: heads over tp."""

import numpy as np
import pytest

from harness import Grid
from models import CORPUS
from tpc.reference import TOLERANCE, Session, difference

# batch, sequence, past, first visible key of the last row (padding on the left)
SHAPES = [(1, 3, 0, 0), (2, 4, 3, 0), (3, 1, 5, 2), (2, 5, 0, 1), (1, 1, 7, 0)]
FAMILIES = ["gpt2-past", "llama-dynamo", "llama-past", "mistral-past", "qwen2-past", "phi-past", "gpt_neox-past"]


def make_inputs(session, batch, sequence, past, padded):
    r = np.random.default_rng([batch, sequence, past, padded])
    sizes = {"batch": batch, "batch_size": batch, "seq": sequence, "sequence_length": sequence,
             "past_sequence_length": past, "past_sequence_length + sequence_length": past + sequence}
    inputs = {}
    for name, shape in session.inputs.items():
        shape = [sizes.get(size, size) for size in shape]
        if name == "input_ids":
            inputs[name] = r.integers(0, 1000, shape)
        elif name == "attention_mask":
            inputs[name] = np.ones(shape, np.int64)
            inputs[name][-1, :padded] = 0
        elif name == "position_ids":
            inputs[name] = np.broadcast_to(np.arange(past, past + sequence), shape).copy()
        else:
            inputs[name] = r.standard_normal(shape, dtype=np.float32)
    return inputs


DEFAULT = [("llama-past", "tp4"), ("gpt_neox-past", "tp3,sp"), ("phi-past", "tp2,pp2,dp2,mb2")]
GRIDS = ["tp2", "tp4", "tp8", "tp16", "tp3,sp", "tp5,pp3", "tp2,pp2,dp2,mb2"]


@pytest.mark.parametrize("family,grid", [
    pytest.param(family, grid, marks=[] if (family, grid) in DEFAULT else pytest.mark.long)
    for family in FAMILIES for grid in GRIDS])
def test_family(tpcc, family, grid):
    path = CORPUS / f"exported-{family}.onnx"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    session = Session(path)
    executable = tpcc.compile(path, Grid.parse(grid))
    for batch, sequence, past, padded in SHAPES:
        if past and not any("past" in name for name in session.inputs):
            continue
        given = make_inputs(session, batch, sequence, past, padded)
        expected = session.run(given)
        actual = executable.run(given, list(expected))
        for name, wanted in expected.items():
            distance = difference(actual[name], wanted)
            assert distance.relative <= TOLERANCE, f"{name} at {batch}, {sequence}, {past}: {distance}"


def test_each_rank_has_the_kv_head_that_it_needs(tpcc):
    """LLaMA with two kv heads over four ranks: of the keys' and values' matrices [64, 2 * 8], one head on each."""
    path = CORPUS / "exported-llama-dynamo.onnx"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    held = [weight["bytes"] for weight in tpcc.compile(path, Grid(tp=4)).describe()["parameters"]]
    assert held.count([64 * 8 * 4] * 4) == 2 * 3

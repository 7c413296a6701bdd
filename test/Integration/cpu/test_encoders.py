"""Encoders and encoder-decoders are partitioned, and compute ONNX Runtime's results."""

import numpy as np
import pytest

from harness import Grid, load_script
from models import MODELS
from tpc.reference import Session, difference

encoders = load_script(MODELS / "encoders.py")
GRIDS = ("tp2,pp2", "tp3", "tp2,dp2,sp")


def feed_of(session):
    """Two samples: 9 tokens, of which the second has 3 of padding; 11 tokens of an encoder."""
    random = np.random.default_rng(3)
    given = {}
    for name, shape in session.inputs.items():
        tokens = 11 if name == "encoder_hidden_states" else 9
        sizes = [2, *(tokens if isinstance(size, str) else size for size in shape[1:])]
        if name == "input_ids":
            given[name] = random.integers(2, encoders.VOCABULARY, sizes)
        elif name == "attention_mask":
            given[name] = np.ones(sizes, np.int64)
            given[name][1, -3:] = 0
        else:
            given[name] = random.standard_normal(sizes).astype(np.float32)
    return given


# The proof of whisper-encoder takes seconds.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name == "whisper-encoder" else [])
        for name in encoders.NAMES
    ],
)
def test_grids(tpcc, name):
    path = MODELS / "families" / f"{name}.onnx"
    session = Session(path)
    given = feed_of(session)
    wanted = session.run(given)["logits"]
    grid = Grid.parse(GRIDS[encoders.NAMES.index(name) % len(GRIDS)])
    found = tpcc.compile(path, grid).run(given)["logits"]
    assert difference(found, wanted).relative <= 2e-5


@pytest.mark.long
@pytest.mark.parametrize("grid", ("tp1", "tp2", "tp4", *GRIDS))
@pytest.mark.parametrize("name", encoders.NAMES)
def test_all_grids(tpcc, name, grid):
    path = MODELS / "families" / f"{name}.onnx"
    session = Session(path)
    given = feed_of(session)
    found = tpcc.compile(path, grid).run(given)["logits"]
    assert difference(found, session.run(given)["logits"]).relative <= 2e-5

"""GPT-2 124M, 500 MB of weights, against ONNX Runtime."""

import dataclasses

import pytest

from harness import Grid
from models import Model
from test_numbers import check

SHAPE = Model(None, layers=12, hidden=768, heads=12, vocab=50257, positions=1024)
GRIDS = [Grid(tp=2), Grid(pp=2), Grid(tp=2, pp=2), Grid(tp=4), Grid(tp=2, dp=2), Grid(tp=8, pp=4)]


@pytest.mark.slow
def test_tp2_pp2(tpcc, model_124m):
    model = dataclasses.replace(SHAPE, path=model_124m)
    check(tpcc.compile(model.path, Grid(tp=2, pp=2)), model, [(1, 7), (2, 64)])


@pytest.mark.long
@pytest.mark.parametrize("transport", ["threads", "mpi"])
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_every_grid(tpcc, model_124m, request, grid, transport):
    if transport == "mpi":
        request.getfixturevalue("mpi")
    model = dataclasses.replace(SHAPE, path=model_124m)
    check(
        tpcc.compile(model.path, grid),
        model,
        [(1, 1), (1, 7), (1, 128), (4, 128)],
        transport=transport,
    )

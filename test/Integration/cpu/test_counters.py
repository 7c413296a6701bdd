"""What the runtime counts while it communicates is what the compiler said that it would."""

import pytest

from harness import Grid
from models import COMMITTED, FAMILIES

ODD = COMMITTED["gpt2-odd-opset20"]


def ordered(rows):
    return sorted((row["stage"], row["axis"], row["kind"], row["count"], row["bytes"]) for row in rows)


@pytest.mark.parametrize("shape", [(1, 1), (5, 7)], ids=str)
@pytest.mark.parametrize("grid", [Grid.parse(text) for text in ("tp1", "tp2", "tp3,pp2,sp", "tp2,pp2,dp2,sp,mb4", "pp2,dp2,mb4")],
                         ids=str)
def test_the_runtime_counts_what_the_report_says(tpcc, grid, shape):
    executable = tpcc.compile(ODD.path, grid)
    rows = tpcc.report(ODD.path, grid, ODD.shape(*shape))
    measured = executable.bench(ODD.shape(*shape), arguments=["--weights=random:1"])
    assert ordered(measured["collectives"]) == ordered(rows)


@pytest.mark.parametrize("name,grid", [("llama-past", "tp3,sp"), ("mistral-dynamo", "tp2,pp2,dp2,mb2"), ("falcon-past", "tp4"),
                                       ("gemma2-past", "tp2x2")])
def test_the_runtime_counts_what_the_report_says_of_families(tpcc, name, grid):
    model, grid = FAMILIES[name], Grid.parse(grid)
    shape = model.shape(3, 5, 2)
    measured = tpcc.compile(model.path, grid).bench(shape, arguments=["--weights=random:1"])
    assert ordered(measured["collectives"]) == ordered(tpcc.report(model.path, grid, shape))


def test_the_runtime_counts_the_same_on_mpi(tpcc, mpi):
    grid = Grid(tp=2, pp=2, sp=True, mb=4)
    executable = tpcc.compile(ODD.path, grid)
    rows = tpcc.report(ODD.path, grid, ODD.shape(5, 7))
    measured = executable.bench(ODD.shape(5, 7), transport=mpi, arguments=["--weights=random:1"])
    assert ordered(measured["collectives"]) == ordered(rows)

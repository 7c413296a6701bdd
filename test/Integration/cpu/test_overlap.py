"""Programs with `--overlap`: the same bits as without, and the same bytes."""

import json
import re

import numpy as np
import pytest

from harness import Grid
from models import COMMITTED, FAMILIES
from tpc.reference import TOLERANCE, difference

ODD = COMMITTED["gpt2-odd-opset20"]
# Rows of a step: one, less than a chunk, a few chunks of several sizes.
SHAPES = [(1, 1), (2, 11), (3, 35), (5, 64)]
TP2 = Grid(tp=2)


def check(model, tpcc, grid, transport="threads", shapes=SHAPES, chunks="on"):
    blocking = tpcc.compile(model.path, grid)
    overlapped = tpcc.compile(model.path, grid, f"--overlap={chunks}")
    many = [model.inputs(*shape) for shape in shapes]
    found = overlapped.run_many(many, model.output, transport)
    for inputs, a, b in zip(many, found, blocking.run_many(many, model.output, transport)):
        assert np.array_equal(a, b), "the results have other bits"
        assert difference(a, model.expected(inputs)).relative <= TOLERANCE


@pytest.mark.parametrize("transport", ["threads", "tcp"])
def test_same_bits(tpcc, transport):
    check(ODD, tpcc, TP2, transport)


@pytest.mark.long
@pytest.mark.parametrize("transport", ["threads", "tcp", "mpi"])
@pytest.mark.parametrize("chunks", ["2", "3", "8"])
@pytest.mark.parametrize("grid", ["tp2", "tp3", "tp2,pp2,dp2,mb2", "tp2x2"])
def test_same_bits_on_grids(tpcc, grid, chunks, transport, request):
    if transport == "mpi":
        request.getfixturevalue("mpi")
    check(ODD, tpcc, Grid.parse(grid), transport, chunks=chunks)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_same_bits_of_families(tpcc, name):
    check(FAMILIES[name], tpcc, TP2, shapes=[(3, 5), (9, 12)])


def rows(measured):
    return {
        (row["stage"], row["axis"], row["kind"]): (row["count"], row["bytes"]) for row in measured
    }


@pytest.mark.parametrize("shape", [(1, 1), (5, 64)], ids=str)
def test_counters(tpcc, shape):
    sizes = ODD.shape(*shape)
    weights = ["--weights=random:1"]
    blocking = rows(tpcc.compile(ODD.path, TP2).bench(sizes, arguments=weights)["collectives"])
    executable = tpcc.compile(ODD.path, TP2, "--overlap=on")
    measured = rows(executable.bench(sizes, arguments=weights)["collectives"])
    assert measured == rows(tpcc.plan(ODD.path, TP2, sizes, "--overlap=on")["collectives"])
    assert {key: row[1] for key, row in measured.items()} == {
        key: row[1] for key, row in blocking.items()
    }
    # Two all-reduces of each layer have four chunks; that of the embedding has one.
    chunks = 1 if shape == (1, 1) else 4
    assert measured[0, "tp", "all_reduce"][0] == chunks * 2 * ODD.layers + 1


def test_frames(tpcc, tmp_path):
    """Overlap needs no more memory: it does not change the lifetimes of operands and results."""
    frames = []
    for overlap in ("off", "on"):
        path = tmp_path / f"{overlap}.mlir"
        flags = ["--megatron-shard=tp2", f"--overlap={overlap}", "--no-verify", "--emit=buffers"]
        tpcc.call([ODD.path, *flags, "-o", path]).check()
        text = path.read_text()
        assert ("tpc_buffer.all_reduce_start" in text) == (overlap == "on")
        frames.append(re.findall(r"tpc_buffer\.push .*", text))
    assert frames[0] == frames[1] != []


@pytest.mark.parametrize("beta,chosen", [(1e-14, 0), (2e-12, 2)])
def test_auto(tpcc, tmp_path, beta, chosen):
    """Estimates choose: chunks gain nothing where the all-reduce takes no time."""
    links, path = tmp_path / "links.json", tmp_path / "staged.mlir"
    links.write_text(json.dumps({"intra_node": {"alpha": 0, "beta": beta}}))
    flags = ["--megatron-shard=tp2", "--overlap=auto", f"--links={links}", "--no-verify"]
    tpcc.call([ODD.path, *flags, "--emit=staged", "-o", path]).check()
    assert path.read_text().count("tpc.all_reduce_start") == chosen


def test_flag(tpcc):
    for value in ("1", "9", "yes"):
        tpcc.call([ODD.path, "--megatron-shard=tp2", f"--overlap={value}"]).refused(
            "--overlap", value
        )

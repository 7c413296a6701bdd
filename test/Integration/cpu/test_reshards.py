"""Reshards between all layouts of a matrix over two axes: communication at the lower bound.

A rank sends and receives at most as much as the rank with the most missing elements must receive.
The bound is counted on sets of elements; the traffic is counted by the running program.
"""

import itertools
import json
import re

import numpy as np
import pytest

from harness import BUILD_STAGED, run, tool
from test_annotated_layouts import LAYOUTS, SIZES, TYPE, sharding

GRIDS = {"tp2,dp2": {"tp": 2, "dp": 2}, "tp2,dp4": {"tp": 2, "dp": 4}}
PASSES = ["--tpc-insert-reshards", "--tpc-lower-reshards", "--tpc-localize"]
# Pairs of layouts above the bound, with their factors. There are none.
ABOVE = {"tp2,dp2": {}, "tp2,dp4": {}}


def ranks_of(grid):
    return [dict(zip(grid, at)) for at in itertools.product(*map(range, grid.values()))]


def elements_of(layout, grid, at):
    """Returns a mask of a rank's elements. Shards are in the order of coordinates."""
    sides = []
    for entry, size in zip(layout, SIZES):
        have = np.arange(size)
        for axis in () if entry == "-" else entry.split("+"):
            have = np.array_split(have, grid[axis])[at[axis]]
        sides.append(np.isin(np.arange(size), have))
    return np.outer(*sides)


def bound_of(first, second, grid):
    return (
        max(
            int((elements_of(second, grid, at) & ~elements_of(first, grid, at)).sum())
            for at in ranks_of(grid)
        )
        * 4
    )


def chain(i, first, second):
    """Returns two ops: relu of x in the first layout, and its negation in the second."""
    return (
        f"  %a{i} = tpc.relu %x {{tpc.sharding = {sharding(first)}}} : {TYPE} -> {TYPE}"
        f' loc("a{i}")\n  %y{i} = tpc.neg %a{i} {{tpc.sharding = {sharding(second)}}} : {TYPE} ->'
        f' {TYPE} loc("y{i}")\n'
    )


def program_of(pairs):
    body = "".join(chain(i, *pair) for i, pair in enumerate(pairs))
    results = ", ".join(f'{TYPE} {{tpc.name = "y{i}"}}' for i in range(len(pairs)))
    return (
        f'func.func @main(%x: {TYPE} {{tpc.name = "x"}}) -> ({results}) {{\n{body}'
        f"  return {', '.join(f'%y{i}' for i in range(len(pairs)))} :"
        f" {', '.join([TYPE] * len(pairs))}\n}}\n"
    )


def received_bytes(row, grid):
    """Returns the bytes that a rank receives in a collective. Reports have the bytes of whole
    buffers or, for exchanges and permutes, the maximum over ranks. All shards are even here.
    """
    members = np.prod([grid[axis] for axis in row["axis"].split("-")])
    whole = {"all_gather", "all_to_all"}
    assert row["kind"] in whole | {"collective_permute", "exchange"}, row
    return row["bytes"] * (members - 1) // members if row["kind"] in whole else row["bytes"]


def received_of(tmp_path, name, pairs):
    """Returns the bytes that all ranks receive in a program with these pairs, counted by the
    program, after checking its results.
    """
    grid = GRIDS[name]
    path, staged, executable = (tmp_path / file for file in ("pairs.mlir", "staged.mlir", "pairs"))
    path.write_text(program_of(pairs))
    passes = [
        f"--tpc-assign-shardings=shard={name},manual",
        *PASSES,
        "--tpc-split-stages",
        "--tpc-schedule-pipeline",
        "--tpc-verify-comms",
        f"--tpc-verify-equivalence=reference={path}",
    ]
    run([tool("tpc-opt"), path, *passes, "-o", staged]).check()
    run([BUILD_STAGED, staged, "-o", executable], cwd=tmp_path).check()
    x = np.random.default_rng(1).normal(size=SIZES).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    outputs = [
        argument
        for i in range(len(pairs))
        for argument in ("--output", f"y{i}={tmp_path}/y{i}.npy")
    ]
    run([executable, "--input", f"x={tmp_path}/x.npy", *outputs]).check()
    for i in range(len(pairs)):
        np.testing.assert_array_equal(
            np.load(tmp_path / f"y{i}.npy"), -np.maximum(x, 0), err_msg=str(pairs[i])
        )
    rows = json.loads(run([executable, "--bench"]).check().stdout)["collectives"]
    return sum(int(received_bytes(row, grid)) for row in rows if row["axis"] != "output")


@pytest.mark.parametrize("name", GRIDS)
def test_ranks_send_the_minimum(tmp_path, name):
    """All pairs at once: the sum equals the sum of the bounds, so no pair exceeds its bound."""
    pairs = list(itertools.permutations(LAYOUTS, 2))
    assert len(pairs) == 110
    bounds = [bound_of(*pair, GRIDS[name]) for pair in pairs]
    assert received_of(tmp_path, name, pairs) == sum(bounds)


@pytest.mark.long
@pytest.mark.parametrize("name", GRIDS)
def test_each_pair_alone(tmp_path, name):
    """Only the listed pairs exceed the bound."""
    above = {}
    for i, pair in enumerate(itertools.permutations(LAYOUTS, 2)):
        (directory := tmp_path / str(i)).mkdir()
        received, bound = received_of(directory, name, [pair]), bound_of(*pair, GRIDS[name])
        assert received >= bound, f"{pair}: {received} bytes cannot be enough, {bound} are needed"
        if received > bound:
            above[pair] = received / bound if bound else received
    assert above == ABOVE[name]

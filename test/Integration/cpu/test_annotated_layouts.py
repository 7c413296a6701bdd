"""Reshards between annotated layouts of a tensor: all layouts of a matrix over two axes.

A tensor is computed in one layout and consumed in another. The program has the requested layouts at
both ends and no further collective after them.
"""

import itertools
import re

import pytest

from harness import run, tool

TYPE = "tensor<48x32xf32>"
SIZES = (48, 32)
LAYOUTS = [
    (rows, columns)
    for rows, columns in itertools.product(("-", "tp", "dp", "tp+dp", "dp+tp"), repeat=2)
    if len(
        set(
            axes := [axis for entry in (rows, columns) if entry != "-" for axis in entry.split("+")]
        )
    )
    == len(axes)
]
COLLECTIVE = r"all_gather|all_to_all|all_reduce|reduce_scatter|collective_permute|exchange"


def sharding(layout):
    dims = (
        f"#tpc.dim<{size}>" if entry == "-" else f"#tpc.dim<{size}{{{entry.replace('+', ', ')}}}>"
        for size, entry in zip(SIZES, layout)
    )
    return f"[{', '.join(dims)}]"


def chain(first, second):
    """Returns a program with a = relu(x) in one layout, b = exp(a) in another, y = -b in any."""
    return (
        f'func.func @main(%x: {TYPE} {{tpc.name = "x"}}) -> {TYPE} {{\n'
        f'  %a = tpc.relu %x {{tpc.sharding = {sharding(first)}}} : {TYPE} -> {TYPE} loc("a")\n'
        f'  %b = tpc.exp %a {{tpc.sharding = {sharding(second)}}} : {TYPE} -> {TYPE} loc("b")\n'
        f'  %y = tpc.neg %b : {TYPE} -> {TYPE} loc("y")\n'
        f"  return %y : {TYPE}\n}}\n"
    )


def split(tmp_path, grid, programs):
    """Returns the partitioned programs, after checking that they compute the same as the given
    ones.
    """
    path = tmp_path / "programs.mlir"
    path.write_text("// -----\n".join(programs))
    passes = [
        "--tpc-evaluate",
        f"--tpc-assign-shardings=shard={grid},manual",
        "--tpc-insert-reshards",
        "--tpc-lower-reshards",
        "--tpc-localize",
        "--tpc-evaluate",
    ]
    printed = run([tool("tpc-opt"), path, "--split-input-file", *passes]).check().stdout
    assert printed.count("output 0 is the same") == len(programs)
    return printed.split("// -----")


@pytest.mark.parametrize("grid", ["tp2,dp2", "tp2,dp4"])
def test_layouts_need_no_further_collective(tmp_path, grid):
    assert len(LAYOUTS) == 11
    pairs = list(itertools.permutations(LAYOUTS, 2))
    programs = split(tmp_path, grid, [chain(*pair) for pair in pairs])
    assert len(programs) == len(pairs) == 110
    wrong = []
    for (first, second), program in zip(pairs, programs):
        before, after = re.split(r"tpc\.exp\b.*\n", program)
        # No communication is needed if each dimension was whole or only gets more axes.
        free = all(
            new == old or old == "-" or new.startswith(old + "+") for old, new in zip(first, second)
        )
        if re.search(COLLECTIVE, after) or bool(re.search(COLLECTIVE, before)) == free:
            wrong.append((first, second))
        # Each value has the layout of its annotation.
        for name, layout in (("relu", first), ("exp", second)):
            dist = re.search(
                rf"tpc\.{name}\b.* -> tensor<\S+f32(?:, #tpc\.dist<\[(.*)\], local>)?>", program
            )
            dims = re.findall(r"\d+(?:\{([^}]*)\})?", dist[1]) if dist[1] else ["", ""]
            if [axes.replace(", ", "+") or "-" for axes in dims] != list(layout):
                wrong.append((first, second, name, dims))
    assert not wrong

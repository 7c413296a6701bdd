"""Collectives in isolation: a value is preserved on every path through the distributions."""

import subprocess

import numpy as np
import pytest

from harness import BUILD_STAGED

SHAPES = [(5, 7), (1, 1), (8, 3), (0, 4), (2, 0)]


def local(*dims, partial=""):
    return f"tensor<?x?xf32, #tpc.dist<[{', '.join(dims)}]{partial}, local>>"


WHOLE = local("n", "m")
# Steps (op without its types, type of the result), starting from the whole value of an input.
PATHS = {
    "gather": [
        ('local_slice {} over ["tp"] dim 0', local("n{tp}", "m")),
        ('all_gather {} over ["tp"] dim 0', WHOLE),
    ],
    "gather_minor": [
        ('local_slice {} over ["tp"] dim 1', local("n", "m{tp}")),
        ('all_gather {} over ["tp"] dim 1', WHOLE),
    ],
    "gather_both": [
        ('local_slice {} over ["dp", "tp"] dim 0', local("n{dp, tp}", "m")),
        ('all_gather {} over ["dp", "tp"] dim 0', WHOLE),
    ],
    "output_parts": [('local_slice {} over ["dp", "tp"] dim 1', local("n", "m{dp, tp}"))],
    "all_to_all": [
        ('local_slice {} over ["tp"] dim 0', local("n{tp}", "m")),
        ('all_to_all {} over ["tp"] from 0 to 1', local("n", "m{tp}")),
    ],
    "all_to_all_back": [
        ('local_slice {} over ["tp"] dim 1', local("n", "m{tp}")),
        ('all_to_all {} over ["tp"] from 1 to 0', local("n{tp}", "m")),
    ],
    # Paths of tpc-lower-reshards: over one axis at a time, or with an axis that is in another
    # dimension temporarily.
    "move_two": [
        ('local_slice {} over ["dp", "tp"] dim 0', local("n{dp, tp}", "m")),
        ('all_to_all {} over ["tp"] from 0 to 1', local("n{dp}", "m{tp}")),
        ('all_to_all {} over ["dp"] from 0 to 1', local("n", "m{tp, dp}")),
        ('all_gather {} over ["tp", "dp"] dim 1', WHOLE),
    ],
    "wait": [
        ('local_slice {} over ["tp"] dim 0', local("n{tp}", "m")),
        ('local_slice {} over ["dp"] dim 1', local("n{tp}", "m{dp}")),
        ('all_gather {} over ["tp"] dim 0', local("n", "m{dp}")),
        ('all_to_all {} over ["dp"] from 1 to 0', local("n{dp}", "m")),
    ],
    "under_another": [
        ('local_slice {} over ["dp"] dim 0', local("n{dp}", "m")),
        ('local_slice {} over ["tp"] dim 1', local("n{dp}", "m{tp}")),
        ('all_to_all {} over ["tp"] from 1 to 0', local("n{dp, tp}", "m")),
    ],
    "broadcast": [('broadcast {} over ["tp"] root 1', WHOLE)],
}


def program(steps):
    lines, value, type_ = [], "%x", WHOLE
    for i, (op, result) in enumerate(steps):
        lines.append(f"%{i} = tpc.{op.format(value)} : {type_} -> {result}")
        value, type_ = f"%{i}", result
    body = "\n    ".join(lines)
    return f"""
module attributes {{tpc.mesh = #tpc.mesh<tp = 3, dp = 2, pp = 1, mb = 1>}} {{
tpc.pipeline @main(%x: {WHOLE}) inputs [{{tpc.name = "x"}}]
    outputs [{{name = "y", type = tensor<?x?xf32, #tpc.dist<[n, m]>>}}] {{
  tpc.stage 0 {{ tpc.micro_batches {{
    {body}
    tpc.output 0, {value} : {type_}
  }} }}
}}
}}
"""


def run(tmp_path, text, inputs):
    exe = tmp_path / "program"
    if not exe.exists():
        (tmp_path / "program.mlir").write_text(text)
        built = subprocess.run(
            [BUILD_STAGED, tmp_path / "program.mlir", "-o", exe], capture_output=True, text=True
        )
        assert built.returncode == 0, built.stderr + text
    args = []
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
        args += ["--input", f"{name}={tmp_path / name}.npy"]
    ran = subprocess.run(
        [exe, *args, "--output", f"y={tmp_path}/y.npy"], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return np.load(tmp_path / "y.npy")


@pytest.mark.parametrize("path", PATHS)
def test_collectives_preserve_values(tmp_path, path):
    for shape in SHAPES:
        x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        np.testing.assert_array_equal(run(tmp_path, program(PATHS[path]), {"x": x}), x)


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter"])
@pytest.mark.parametrize("function", ["sum", "max"])
def test_split_reduction(tmp_path, kind, function):
    """Each rank reduces its part of m, and the results are combined."""
    part = local("n", "m{tp}")
    partial = f"tensor<?xf32, #tpc.dist<[n], {function}{{tp}}, local>>"
    result = f"tensor<?xf32, #tpc.dist<[n{'{tp}' if kind == 'reduce_scatter' else ''}], local>>"
    dim = " dim 0" if kind == "reduce_scatter" else ""
    text = f"""
module attributes {{tpc.mesh = #tpc.mesh<tp = 3, dp = 2, pp = 1, mb = 1>}} {{
tpc.pipeline @main(%x: {WHOLE}) inputs [{{tpc.name = "x"}}]
    outputs [{{name = "y", type = tensor<?xf32, #tpc.dist<[n]>>}}] {{
  tpc.stage 0 {{ tpc.micro_batches {{
    %0 = tpc.local_slice %x over ["tp"] dim 1 : {WHOLE} -> {part}
    %1 = tpc.reduce {function} %0 [1] : {part} -> {partial}
    %2 = tpc.{kind} %1 over ["tp"]{dim} : {partial} -> {result}
    tpc.output 0, %2 : {result}
  }} }}
}}
}}
"""
    for shape in SHAPES[:3] + [(4, 2)]:
        x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        np.testing.assert_allclose(
            run(tmp_path, text, {"x": x}), getattr(x, function)(axis=1), rtol=1e-6, atol=1e-6
        )


def test_split_table(tmp_path):
    """A rank that has a part of the rows adds zero for other ids. Cases include fewer rows than
    ranks, and negative ids.
    """
    ids = "tensor<?x?xi64, #tpc.dist<[n, m], local>>"
    table = "tensor<?x?xf32, #tpc.dist<[v, h], local>>"
    split = "tensor<?x?xf32, #tpc.dist<[v{dp, tp}, h], local>>"
    sums = "tensor<?x?x?xf32, #tpc.dist<[n, m, h], sum{dp, tp}, local>>"
    whole = "tensor<?x?x?xf32, #tpc.dist<[n, m, h], local>>"
    text = f"""
module attributes {{tpc.mesh = #tpc.mesh<tp = 3, dp = 2, pp = 1, mb = 1>}} {{
tpc.pipeline @main(%t: {table}, %i: {ids}) inputs [{{tpc.name = "t"}}, {{tpc.name = "i"}}]
    outputs [{{name = "y", type = tensor<?x?x?xf32, #tpc.dist<[n, m, h]>>}}] {{
  tpc.stage 0 {{ tpc.micro_batches {{
    %0 = tpc.local_slice %t over ["dp", "tp"] dim 0 : {table} -> {split}
    %1 = tpc.embedding %0, %i : {split}, {ids} -> {sums}
    %2 = tpc.all_reduce %1 over ["dp", "tp"] : {sums} -> {whole}
    tpc.output 0, %2 : {whole}
  }} }}
}}
}}
"""
    random = np.random.default_rng(1)
    for rows in (1, 4, 13):
        table = random.normal(size=(rows, 5)).astype(np.float32)
        ids = random.integers(-rows, rows, (3, 4))
        np.testing.assert_array_equal(run(tmp_path, text, {"t": table, "i": ids}), table[ids])


def test_scattered_rows(tmp_path):
    """A rank adds the updates of its rows; ranks with parts of the updates have partial sums."""
    ids, part = (f"tensor<?xi64, #tpc.dist<[{dims}], local>>" for dims in ("n", "n{dp}"))
    rows = "tensor<?x5xf32, #tpc.dist<[n, 5], local>>"
    updates = "tensor<?x5xf32, #tpc.dist<[n{dp}, 5], local>>"
    sums = "tensor<?x5xf32, #tpc.dist<[13{tp}, 5], sum{dp}, local>>"
    split = "tensor<?x5xf32, #tpc.dist<[13{tp}, 5], local>>"
    whole = "tensor<13x5xf32>"
    text = f"""
module attributes {{tpc.mesh = #tpc.mesh<tp = 3, dp = 2, pp = 1, mb = 1>}} {{
tpc.pipeline @main(%d: {rows}, %i: {ids}) inputs [{{tpc.name = "d"}}, {{tpc.name = "i"}}]
    outputs [{{name = "y", type = {whole}}}] {{
  tpc.stage 0 {{ tpc.micro_batches {{
    %0 = tpc.local_slice %d over ["dp"] dim 0 : {rows} -> {updates}
    %1 = tpc.local_slice %i over ["dp"] dim 0 : {ids} -> {part}
    %2 = tpc.scatter_add %0, %1 : {updates}, {part} -> {sums}
    %3 = tpc.all_reduce %2 over ["dp"] : {sums} -> {split}
    %4 = tpc.all_gather %3 over ["tp"] dim 0 : {split} -> {whole}
    tpc.output 0, %4 : {whole}
  }} }}
}}
}}
"""
    random = np.random.default_rng(1)
    for count in (1, 4, 30):
        updates, ids = random.normal(size=(count, 5)), random.integers(-13, 13, count)
        expected = np.zeros((13, 5))
        np.add.at(expected, ids, updates)
        found = run(tmp_path, text, {"d": updates.astype(np.float32), "i": ids})
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_splits_move_to_factors(tmp_path):
    """A split of 40 rows becomes one of 5 heads of 8 rows, through the other dimension."""

    def rows(dims, size="?"):
        return f"tensor<{size}x?xf32, #tpc.dist<[{dims}], local>>"

    steps = [
        (rows("40, m", 40), 'local_slice {} over ["tp"] dim 0', rows("40{tp}, m")),
        (rows("40{tp}, m"), 'all_to_all {} over ["tp"] from 0 to 1', rows("40, m{tp}", 40)),
        (rows("40, m{tp}", 40), 'all_to_all {} over ["tp"] from 1 to 0', rows("5{tp} * 8, m")),
        (rows("5{tp} * 8, m"), 'all_to_all {} over ["tp"] from 0 to 1', rows("40, m{tp}", 40)),
        (rows("40, m{tp}", 40), 'all_gather {} over ["tp"] dim 1', rows("40, m", 40)),
    ]
    body = "\n    ".join(
        f"%{i + 1} = tpc.{op.format(f'%{i}')} : {a} -> {b}" for i, (a, op, b) in enumerate(steps)
    )
    text = f"""
module attributes {{tpc.mesh = #tpc.mesh<tp = 3, dp = 2, pp = 1, mb = 1>}} {{
tpc.pipeline @main(%0: {rows("40, m", 40)}) inputs [{{tpc.name = "x"}}]
    outputs [{{name = "y", type = tensor<40x?xf32, #tpc.dist<[40, m]>>}}] {{
  tpc.stage 0 {{ tpc.micro_batches {{
    {body}
    tpc.output 0, %{len(steps)} : {rows("40, m", 40)}
  }} }}
}}
}}
"""
    for columns in (7, 1, 0):
        x = np.random.default_rng(1).normal(size=(40, columns)).astype(np.float32)
        np.testing.assert_array_equal(run(tmp_path, text, {"x": x}), x)

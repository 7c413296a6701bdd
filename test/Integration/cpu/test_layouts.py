"""Lowered kernels on dimensions of several factors: ranks index their own elements.

Each program takes whole inputs, splits them into a layout one axis at a time, runs
single ops on the shards, and reassembles the results. These equal the results of one rank.
"""

import itertools
import math
import re
import subprocess

import numpy as np
import pytest

from harness import BUILD_STAGED

GRID = {"tp": 3, "dp": 2}
WIDTH = 6
# Layouts with even and uneven splits, and with more ranks than elements. They cover every subset of
# the factors, in every order of axes.
LAYOUTS = [
    "24{dp, tp}",
    "3*8{tp}",
    "7{dp}*3",
    "2{tp}*12",
    "2{dp}*3*4{tp}",
    "2*2{tp}*3*5{dp}*2",
    "(4*6{tp}){dp}",
    "(2{tp}*5){dp}",
    "b{tp}*s{dp}",
    "(b*s{dp}){tp}",
    "1{tp}*b{dp}",
    "b*1{tp}",
]
MORE = [
    "24{tp}",
    "3*7{tp}",
    "8{tp}*3",
    "12*2{tp}",
    "2{dp}*12{tp}",
    "2{tp}*5{dp}",
    "3*8{tp}*2",
    "3*8{dp, tp}",
    "4{tp}*2*3{dp}",
    "(4{dp}*6){tp}",
    "(5*3){tp, dp}",
    "b{dp}*s",
    "b*s{tp}",
    "b{dp}*4*s{tp}",
    "(b{dp}*s){tp}",
]
SIZES = [(5, 4), (1, 7), (2, 1), (3, 0)]


class Dim:
    """A dimension: factors, major to minor, with their axes, and axes that split their product."""

    def __init__(self, factors, product=()):
        self.factors, self.product = tuple((size, tuple(axes)) for size, axes in factors), tuple(
            product
        )

    @staticmethod
    def parse(text):
        inner, product = (
            re.fullmatch(r"\((.*)\)\{(.*)\}", text).groups() if text.startswith("(") else (text, "")
        )
        factors = [re.fullmatch(r"(\w+)(?:\{(.*)\})?", part).groups() for part in inner.split("*")]
        axes = lambda list: [axis.strip() for axis in (list or "").split(",") if axis.strip()]
        return Dim(
            [(int(size) if size.isdigit() else size, axes(names)) for size, names in factors],
            axes(product),
        )

    @property
    def axes(self):
        return [axis for _, axes in self.factors for axis in axes] + list(self.product)

    @property
    def static(self):
        return all(isinstance(size, int) for size, _ in self.factors)

    def canonical(self):
        """Returns the dimension with adjacent factors merged if they are not split."""
        merged = []
        for size, axes in self.factors:
            if not axes and size == 1:
                continue
            if merged and not merged[-1][1] and not axes:
                old = merged[-1][0]
                both = (
                    old * size
                    if isinstance(old, int) and isinstance(size, int)
                    else f"{old}*{size}"
                )
                merged[-1] = (both, ())
            else:
                merged.append((size, axes))
        return Dim(merged or [(1, ())], self.product)

    def __str__(self):
        dim = self.canonical()
        names = [
            str(size) + (f"{{{', '.join(axes)}}}" if axes else "") for size, axes in dim.factors
        ]
        return (
            f"({'*'.join(names)}){{{', '.join(dim.product)}}}" if dim.product else "*".join(names)
        )

    def size(self, symbols):
        return math.prod(
            size if isinstance(size, int) else symbols[size] for size, _ in self.factors
        )

    def local(self):
        """Returns the size of a shard if it is equal on all ranks, otherwise `?`."""
        if not self.static:
            return "?"

        def part(size, axes):
            for axis in axes:
                even = size % GRID[axis] == 0
                size = size // GRID[axis] if even else math.nan
            return size

        count = part(math.prod(part(size, axes) for size, axes in self.factors), self.product)
        return "?" if math.isnan(count) else count

    def whole(self):
        return Dim([(size, ()) for size, _ in self.factors])

    def stacks(self):
        """Returns the axes of each factor, then those of the product."""
        return [*(axes for _, axes in self.factors), self.product]

    def growing(self, order):
        """Yields (axis, dimension including it) for axis lists that grow in this order."""
        have = [()] * (len(self.factors) + 1)
        for stack in order:
            axis = self.stacks()[stack][len(have[stack])]
            have[stack] = (*have[stack], axis)
            yield axis, Dim([(size, axes) for (size, _), axes in zip(self.factors, have)], have[-1])

    def orders(self):
        """Returns all orders in which axes can be added; those of the product are last."""
        stacks = [i for i, axes in enumerate(self.stacks()[:-1]) for _ in axes]
        return [
            [*order, *(len(self.factors) for _ in self.product)]
            for order in sorted(set(itertools.permutations(stacks)))
        ]


def tensor(element, *dims, partial=()):
    dims = [dim if isinstance(dim, Dim) else Dim([(dim, ())]) for dim in dims]
    shape = "".join(f"{dim.local()}x" for dim in dims)
    if all(dim.static and not dim.axes for dim in dims) and not partial:
        return f"tensor<{shape}{element}>"
    sums = f", sum{{{', '.join(partial)}}}" if partial else ""
    return f"tensor<{shape}{element}, #tpc.dist<[{', '.join(map(str, dims))}]{sums}, local>>"


class Program:
    def __init__(self):
        self.lines, self.inputs, self.outputs, self.types, self.weight = [], [], [], {}, ""

    def input(self, element, *dims):
        name = f"%x{len(self.inputs)}"
        self.types[name] = (element, dims, ())
        self.inputs.append(name)
        return name

    def type(self, value):
        element, dims, partial = self.types[value]
        return tensor(element, *dims, partial=partial)

    def op(self, text, values, element, *dims, partial=(), attributes=""):
        name = f"%v{len(self.lines)}"
        self.types[name] = (element, dims, partial)
        operands = f"{', '.join(self.type(value) for value in values)} -> " if values else ""
        self.lines.append(f"{name} = tpc.{text.format(*values)} : {operands}{self.type(name)}")
        return name

    def parameter(self, dim, transposed):
        """Adds a weight, [dim, WIDTH] or [WIDTH, dim], of which each rank loads its shard."""
        count = dim.size({})
        name, view = f"%v{len(self.lines)}", (
            f"view <0 [[{WIDTH} x 1], [{count} x {WIDTH}]]> " if transposed else ""
        )
        self.types[name] = ("f32", (WIDTH, dim) if transposed else (dim, WIDTH), ())
        self.weight = f'tpc.weight @w in "w.bin" at 0 : {tensor("f32", count, WIDTH)}\n'
        self.lines.append(f"{name} = tpc.parameter @w {view}: {self.type(name)}")
        return name

    def constant(self, array):
        name = f"%v{len(self.lines)}"
        text = np.array2string(
            array, separator=", ", threshold=10**6, floatmode="unique"
        ).replace("\n", "")
        self.types[name] = ("f32", array.shape, ())
        self.lines.append(
            f"{name} = tpc.constant dense<{text}> : {self.type(name)} : {self.type(name)}"
        )
        return name

    def change(self, text, value, axis, at, dim, partial=None):
        """Adds a collective over one axis; dimension `at` of its result is `dim`."""
        element, dims, old = self.types[value]
        dims = [*dims[:at], dim, *dims[at + 1 :]]
        return self.op(
            f"{text.format(axis)} dim {at}",
            [value],
            element,
            *dims,
            partial=old if partial is None else partial,
        )

    def take_apart(self, value, at, dim, order=None):
        for axis, part in dim.growing(dim.orders()[0] if order is None else order):
            value = self.change('local_slice {{0}} over ["{}"]', value, axis, at, part)
        return value

    def put_together(self, value, at, dim, order=None):
        steps = list(dim.growing(dim.orders()[-1] if order is None else order))
        for (axis, _), part in zip(
            reversed(steps), [*(part for _, part in reversed(steps[:-1])), dim.whole()]
        ):
            value = self.change('all_gather {{0}} over ["{}"]', value, axis, at, part)
        return value

    def add_up(self, value):
        element, dims, partial = self.types[value]
        axes = ", ".join(f'"{axis}"' for axis in partial)
        return (
            self.op(f"all_reduce {{0}} over [{axes}]", [value], element, *dims)
            if partial
            else value
        )

    def output(self, value, reference):
        self.outputs.append((value, reference))

    def text(self):
        def whole(value):
            element, dims, _ = self.types[value]
            return tensor(
                element, *(dim.whole() if isinstance(dim, Dim) else dim for dim in dims)
            ).replace(", local", "")

        arguments = ", ".join(f"{name}: {self.type(name)}" for name in self.inputs)
        inputs = ", ".join(f'{{tpc.name = "{name[1:]}"}}' for name in self.inputs)
        outputs = ", ".join(
            f'{{name = "o{i}", type = {whole(value)}}}' for i, (value, _) in enumerate(self.outputs)
        )
        delivered = [
            f"tpc.output {i}, {value} : {self.type(value)}"
            for i, (value, _) in enumerate(self.outputs)
        ]
        body = "\n    ".join([*self.lines, *delivered])
        return f"""
module attributes {{tpc.mesh = #tpc.mesh<tp = {GRID["tp"]}, dp = {GRID["dp"]}, pp = 1, mb = 1>}} {{
{self.weight}tpc.pipeline @main({arguments}) inputs [{inputs}] outputs [{outputs}] {{
  tpc.stage 0 {{ tpc.micro_batches {{
    {body}
  }} }}
}}
}}
"""


def numbers_of(dim):
    return np.arange(1, 1 + WIDTH * dim.size({}), dtype=np.float32).reshape(-1, WIDTH)


def program_of(layout):
    p = Program()
    dim, whole = layout, layout.whole()
    axes = tuple(dim.axes)
    x = p.input("f32", whole, WIDTH)
    ids = p.input("i64", "k")
    pairs = p.input("i64", "k", 2)
    rows = p.input("i64", whole, 1, 1)
    w = p.input("f32", WIDTH, whole)
    terms = p.input("f32", whole, WIDTH, 5)

    # A value that is split and reassembled, in every order, is unchanged.
    parts = [p.take_apart(x, 0, dim, order) for order in dim.orders()]
    for part, order in itertools.zip_longest(parts, dim.orders()):
        p.output(p.put_together(part, 0, dim, order), lambda a: a.x)
    part = parts[-1]
    columns = p.take_apart(w, 1, dim)
    # Outputs accept only shards that are boxes of the factors.
    if not dim.product or not any(axes for _, axes in dim.factors[1:]):
        p.output(part, lambda a: a.x)
        p.output(columns, lambda a: a.w)

    # In lookups along the layout, elements of other ranks are zero.
    def looked_up(text, values, *dims):
        return p.add_up(p.op(text, values, "f32", *dims, partial=axes))

    p.output(looked_up("gather {0}, {1} dim 0", [part, ids], "k", WIDTH), lambda a: a.x[a.ids])
    p.output(
        looked_up("gather {0}, {1} dim 1", [columns, ids], WIDTH, "k"), lambda a: a.w[:, a.ids]
    )
    p.output(looked_up("embedding {0}, {1}", [part, ids], "k", WIDTH), lambda a: a.x[a.ids])
    p.output(
        looked_up("gather_nd {0}, {1}", [part, pairs], "k"),
        lambda a: a.x[a.pairs[:, 0], a.pairs[:, 1]],
    )
    each = p.take_apart(rows, 0, dim)
    picked = p.op("gather_nd {0}, {1} batch 1", [part, each], "f32", dim, 1)
    p.output(p.put_together(picked, 0, dim), lambda a: np.take_along_axis(a.x, a.rows[:, 0], 1))

    # Values that a rank computes locally, and constants of which it takes its shard.
    index = p.op("iota dim 0", [], "i64", dim)
    p.output(p.put_together(index, 0, dim), lambda a: np.arange(len(a.x)))
    if dim.static:
        numbers = numbers_of(dim)
        rows_of = p.take_apart(p.constant(numbers), 0, dim)
        p.output(
            p.put_together(p.op("mul {0}, {1}", [part, rows_of], "f32", dim, WIDTH), 0, dim),
            lambda a: a.x * numbers,
        )
        if not dim.product:  # shards of a product cannot be loaded
            loaded = p.op("mul {0}, {1}", [part, p.parameter(dim, False)], "f32", dim, WIDTH)
            p.output(p.put_together(loaded, 0, dim), lambda a: a.x * numbers)
            loaded = p.op("mul {0}, {1}", [columns, p.parameter(dim, True)], "f32", WIDTH, dim)
            p.output(p.put_together(loaded, 1, dim), lambda a: a.w * numbers.T)
        columns_of = p.take_apart(p.constant(numbers.T), 1, dim)
        p.output(
            p.put_together(p.op("add {0}, {1}", [columns, columns_of], "f32", WIDTH, dim), 1, dim),
            lambda a: a.w + numbers.T,
        )

    # Sums over the layout, and sums whose results have the layout.
    p.output(
        p.add_up(p.op("reduce sum {0} [0]", [part], "f32", WIDTH, partial=axes)),
        lambda a: a.x.sum(0),
    )
    product = p.op("matmul {0}, {1}", [columns, part], "f32", WIDTH, WIDTH, partial=axes)
    p.output(p.add_up(product), lambda a: a.w @ a.x)
    left, value = axes, p.op(
        "reduce sum {0} [2]",
        [p.take_apart(terms, 2, Dim([(5, axes)]))],
        "f32",
        whole,
        WIDTH,
        partial=axes,
    )
    for axis, next in dim.growing(dim.orders()[0]):
        left = tuple(other for other in left if other != axis)
        value = p.change('reduce_scatter {{0}} over ["{}"]', value, axis, 0, next, partial=left)
    p.output(p.put_together(value, 0, dim), lambda a: a.terms.sum(2))

    # A causal mask counts queries in the whole dimension.
    queries = p.take_apart(p.op("reshape {0}", [x], "f32", 1, whole, 2, 3), 1, dim)
    keys = p.op("reshape {0}", [x], "f32", 1, whole, 2, 3)
    seen = p.op(
        "attention causal {0}, {1}, {1} scale 1.0", [queries, keys, keys], "f32", 1, dim, 2, 3
    )
    p.output(p.put_together(seen, 1, dim), lambda a: causal_attention(a.x.reshape(1, -1, 2, 3)))

    # The split moves to another dimension and back.
    for order in dim.orders():
        steps = list(dim.growing(order))
        axis, before = steps[-1][0], steps[-2][1] if len(steps) > 1 else whole
        moved = p.op(
            f'all_to_all {{0}} over ["{axis}"] from 0 to 1',
            [part],
            "f32",
            before,
            Dim([(WIDTH, [axis])]),
        )
        back = p.op(f'all_to_all {{0}} over ["{axis}"] from 1 to 0', [moved], "f32", dim, WIDTH)
        p.output(p.put_together(back, 0, dim), lambda a: a.x)

    # Shifts along the layout, if they are one collective.
    groups = {tuple(axes) for axes in dim.stacks()[1:] if axes}
    if (dim.factors[0][1] and not groups) or (groups == {dim.product} and not dim.factors[0][1]):
        names, every = ", ".join(f'"{axis}"' for axis in axes), "*".join(
            str(size) for size, _ in whole.canonical().factors
        )
        shifted = p.op(
            f'collective_permute {{0}} over [{names}] dim 0 from "5" every "{every}"',
            [part],
            "f32",
            dim,
            WIDTH,
        )
        p.output(p.put_together(shifted, 0, dim), lambda a: np.roll(a.x, -5, 0))

    # A reshape of a rank's shard.
    if not dim.product and all(size != 1 for size, _ in dim.factors):
        factors = [Dim([factor]) for factor in dim.factors]
        p.output(
            p.op("reshape {0}", [part], "f32", *factors, WIDTH),
            lambda a: a.x.reshape(*(f.size(a.symbols) for f in factors), WIDTH),
        )
    return p


def causal_attention(x):
    scores = np.einsum("bqhd,bkhd->bhqk", x, x)
    scores = np.where(np.tri(x.shape[1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e30))
    return np.einsum("bhqk,bkhd->bqhd", weights / weights.sum(-1, keepdims=True), x)


class Inputs:
    def __init__(self, dim, symbols, random):
        count = dim.size(symbols)
        self.symbols = symbols
        self.x = random.normal(size=(count, WIDTH)).astype(np.float32)
        k = 3 * count
        self.ids = random.integers(-count, count, k) if count else np.zeros(0, np.int64)
        self.pairs = np.stack([self.ids, random.integers(-WIDTH, WIDTH, k)], 1)
        self.rows = random.integers(0, WIDTH, (count, 1, 1))
        self.w = random.normal(size=(WIDTH, count)).astype(np.float32)
        self.terms = random.normal(size=(count, WIDTH, 5)).astype(np.float32)


@pytest.mark.parametrize(
    "layout", [*LAYOUTS, *(pytest.param(layout, marks=pytest.mark.long) for layout in MORE)]
)
def test_layout(tmp_path, layout):
    dim = Dim.parse(layout)
    program = program_of(dim)
    (tmp_path / "program.mlir").write_text(program.text())
    if program.weight:
        numbers_of(dim).tofile(tmp_path / "w.bin")
    exe = tmp_path / "program"
    built = subprocess.run(
        [BUILD_STAGED, tmp_path / "program.mlir", "-o", exe],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert built.returncode == 0, built.stderr + program.text()
    names = [size for size, _ in dim.factors if isinstance(size, str)]
    for values in SIZES if names else [()]:
        symbols = dict(zip(names, values))
        inputs = Inputs(dim, symbols, np.random.default_rng(1))
        arguments = []
        for i, name in enumerate(("x", "ids", "pairs", "rows", "w", "terms")):
            np.save(tmp_path / f"{name}.npy", getattr(inputs, name))
            arguments += ["--input", f"x{i}={tmp_path}/{name}.npy"]
        if symbols:
            arguments += ["--shape", ",".join(f"{name}={size}" for name, size in symbols.items())]
        for i in range(len(program.outputs)):
            arguments += ["--output", f"o{i}={tmp_path}/o{i}.npy"]
        ran = subprocess.run([exe, *arguments], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        for i, (value, reference) in enumerate(program.outputs):
            line = next(line for line in program.lines if line.startswith(f"{value} "))
            np.testing.assert_allclose(
                np.load(tmp_path / f"o{i}.npy"),
                reference(inputs),
                rtol=1e-5,
                atol=1e-5,
                err_msg=f"{symbols} {line}",
            )

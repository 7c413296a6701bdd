"""Bits of IEEE 754: rounding of casts, signed zeros, x - x = 0.

The bits of an op depend on the op and its operands only, not on the ops fused with it.
"""

import itertools
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tpc.reference import Session

NUMBERS = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "i64": np.int64,
    "i32": np.int32,
    "i8": np.int8,
    "u8": np.uint8,
}
ONNX = {
    **{name: helper.np_dtype_to_tensor_dtype(np.dtype(t)) for name, t in NUMBERS.items()},
    "bf16": TensorProto.BFLOAT16,
}

# Zeros, the limits of f16 and of its subnormal numbers, ties between adjacent f16 and bf16 numbers,
# f32's minimum and maximum.
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    1.00390625 + 2**-40,
    70000.0,
    -70000.0,
    65504.0,
    65519.0,
    65520.0,
    2049.0,
    2051.0,
    257.0,
    259.0,
    -259.0,
    0.1,
    1 / 3,
    6e-8,
    2.98e-8,
    -2.9e-8,
    6.1e-5,
    1e-40,
    -1e-45,
    3.4e38,
    3.39e38,
    1e39,
    1e-30,
    16777217.0,
    np.inf,
    -np.inf,
    np.nan,
]
FLOATS = ("f64", "f32", "f16", "bf16")


def bfloat(x: np.ndarray) -> np.ndarray:
    """Returns the nearest bf16 as f32, ties to even."""
    single = x.astype(np.float32)
    cut = (single != x) & ~np.isnan(x)  # sticky bit: the lowest bit records inexactness
    single = np.where(cut & (abs(single) > abs(x)), np.nextafter(single, np.float32(0)), single)
    bits = single.view(np.uint32) | cut
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return np.where(np.isnan(x), single, rounded.astype(np.uint32).view(np.float32))


def cast(x: np.ndarray, to: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return bfloat(x) if to == "bf16" else x.astype(NUMBERS[to])


class Graph:
    """Writer of an ONNX graph: g("Add", x, y) adds a node and returns the name of its result."""

    def __init__(self):
        self.nodes, self.inputs, self.outputs, self.constants = [], [], [], []

    def input(self, name, element, dims):
        self.inputs.append(helper.make_tensor_value_info(name, ONNX[element], dims))
        return name

    def __call__(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], f"/{op}/{name}", **attributes))
        return name

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def output(self, name, element, dims):
        self.outputs.append(helper.make_tensor_value_info(name, ONNX[element], dims))

    def save(self, path):
        graph = helper.make_graph(self.nodes, "rounding", self.inputs, self.outputs, self.constants)
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
            path,
        )
        return path


def assert_same_bits(got, wanted, what):
    """Checks that bits are equal, except for those of NaN."""
    assert got.dtype == wanted.dtype and got.shape == wanted.shape, what
    same = (
        (got == wanted) & (np.signbit(got) == np.signbit(wanted))
        if got.dtype.kind == "f"
        else got == wanted
    )
    if got.dtype.kind == "f":
        same |= np.isnan(got) & np.isnan(wanted)
    assert same.all(), (what, got[~same], wanted[~same])


@pytest.mark.parametrize("kind", ["floats", "integers"])
def test_casts_round(tpcc, tmp_path, kind):
    """Casts x to a first, a second, and the first type, for every pair. No cast may be omitted."""
    if kind == "floats":
        values, types = np.array(SPECIAL + [-x for x in SPECIAL]), FLOATS
    else:  # the type must be able to represent the values
        values, types = np.array([0.0, 1.0, 0.4, 2.6, 77.9, 127.0, 3.0]), (
            *FLOATS,
            "i64",
            "i32",
            "i8",
            "u8",
        )
    graph, wanted = Graph(), {}
    x = graph.input("x", "f64", ["n"])
    for first, second in itertools.product(types, types):
        if first != second and (kind == "floats" or not {first, second} <= set(FLOATS)):
            value, result = x, values
            for to in (first, second, first):
                value, result = graph("Cast", value, to=ONNX[to]), cast(result, to)
            value = graph("Cast", value, to=TensorProto.DOUBLE)
            graph.output(value, "f64", ["n"])
            wanted[value] = (f"{first} {second}", result.astype(np.float64))
    program = tpcc.compile(graph.save(tmp_path / f"{kind}.onnx"))
    got = program.run({"x": values}, outputs=list(wanted))
    reference = Session(tmp_path / f"{kind}.onnx").run({"x": values})
    for name, (what, result) in wanted.items():
        assert_same_bits(got[name], result, what)
        # ONNX Runtime converts f64 to f32 first, so only numbers that f32 can represent are equal.
        in_f32 = np.isnan(values) | (values.astype(np.float32) == values) | (kind == "integers")
        assert_same_bits(got[name][in_f32], reference[name][in_f32], what)


def chains(element):
    """Returns name -> (nodes, numpy function). Each operation rounds separately."""
    t = NUMBERS[element]
    zero, one = np.zeros((), t), np.ones((), t)
    return {
        "zero's sign": (
            lambda g, x, y: g("Div", g.constant(one), g("Sub", g.constant(zero), x)),
            lambda x, y: one / (zero - x),
        ),
        "equal terms": (
            lambda g, x, y: g("Sqrt", g("Sub", g("Mul", x, y), g("Mul", y, x))),
            lambda x, y: np.sqrt(x * y - y * x),
        ),
        "no fused product": (lambda g, x, y: g("Add", g("Mul", x, y), y), lambda x, y: x * y + y),
        "difference": (lambda g, x, y: g("Sub", g("Add", x, y), y), lambda x, y: (x + y) - y),
        "quotients": (lambda g, x, y: g("Mul", g("Div", x, y), y), lambda x, y: x / y * y),
        "negation": (lambda g, x, y: g("Neg", g("Sub", x, y)), lambda x, y: -(x - y)),
        "reciprocal": (lambda g, x, y: g("Mul", g("Reciprocal", x), y), lambda x, y: one / x * y),
        "choice": (
            lambda g, x, y: g("Where", g("Less", x, y), g("Neg", x), y),
            lambda x, y: np.where(x < y, -x, y),
        ),
        "infinite": (
            lambda g, x, y: g("Sub", g("Mul", x, x), g("Mul", x, x)),
            lambda x, y: x * x - x * x,
        ),
        "square": (lambda g, x, y: g("Pow", x, g.constant(np.array(2, t))), lambda x, y: x * x),
        # For zeros of both signs, IEEE's maximum is 0 and its minimum is -0.
        "larger": (
            lambda g, x, y: g("Max", x, y),
            lambda x, y: np.where((x == 0) & (y == 0), x + y, np.maximum(x, y)),
        ),
        "smaller": (
            lambda g, x, y: g("Min", x, y),
            lambda x, y: np.where((x == 0) & (y == 0), -(-x - y), np.minimum(x, y)),
        ),
        "round trip": (
            lambda g, x, y: g("Sub", x, g("Cast", g("Cast", x, to=ONNX["f16"]), to=ONNX[element])),
            lambda x, y: x - x.astype(np.float16).astype(t),
        ),
    }


@pytest.mark.parametrize("element", ["f32", "f64", "f16"])
def test_chains_match_ieee(tpcc, tmp_path, element):
    x, y = (a.ravel() for a in np.meshgrid(np.array(SPECIAL), np.array(SPECIAL)))
    drawn = np.random.default_rng(1).normal(size=(2, 1000)) * 10
    with np.errstate(all="ignore"):
        x, y = (np.concatenate([a, b]).astype(NUMBERS[element]) for a, b in zip((x, y), drawn))
    graph, wanted = Graph(), {}
    a, b = graph.input("x", element, ["n"]), graph.input("y", element, ["n"])
    for name, (nodes, reference) in chains(element).items():
        value = nodes(graph, a, b)
        graph.output(value, element, ["n"])
        with np.errstate(all="ignore"):
            wanted[value] = (name, reference(x, y))
    program = tpcc.compile(graph.save(tmp_path / f"{element}.onnx"))
    got = program.run({"x": x, "y": y}, outputs=list(wanted))
    # ONNX Runtime computes chains of f16 ops in f32 and rounds at their end.
    reference = (
        Session(tmp_path / f"{element}.onnx").run({"x": x, "y": y}) if element != "f16" else {}
    )
    for name, (what, result) in wanted.items():
        assert_same_bits(got[name], result.astype(NUMBERS[element]), what)
        # ONNX Runtime's Where turns -0 into 0, and the sign of zeros from Max and Min depends on
        # the position.
        if reference and what not in ("choice", "larger", "smaller"):
            assert_same_bits(got[name], reference[name], what)


def test_bits_do_not_depend_on_fusion(tpcc, tmp_path):
    """A chain of ops has the same bits whether its ops are fused into kernels or computed
    separately.
    """
    rows, columns = 7, 77
    last = np.array([-1], np.int64)

    def chain(g, x, y, each):
        s = g.constant(np.linspace(0.5, 2, columns, dtype=np.float32))
        x = each(g("Add", x, y))
        x = each(g("Mul", x, s))
        x = each(g("LayerNormalization", x, s, s, axis=-1))
        x = each(g("Gelu", x))
        x = each(g("Sub", x, y))
        x = each(g("Softmax", x, axis=-1))
        x = each(g("Exp", x))
        x = each(g("Tanh", x))
        sums = each(g("ReduceSum", x, g.constant(last), keepdims=1), [rows, 1])
        x = each(g("Div", x, sums))
        x = each(g("Sigmoid", x))
        each(g("ReduceMean", x, g.constant(last), keepdims=1), [rows, 1])
        each(g("ReduceMax", x, g.constant(last), keepdims=1), [rows, 1])
        return x

    def build(name, apart):
        """Compiles the chain. With `apart`, each op reads an input instead of a computed value."""
        graph, dims_of = Graph(), {}
        x, y = (graph.input(n, "f32", [rows, columns]) for n in "xy")

        def each(value, dims=(rows, columns)):
            dims_of[value] = dims
            if apart or dims == [rows, 1]:
                graph.output(value, "f32", dims)
            return graph.input(f"in.{value}", "f32", dims) if apart else value

        last = chain(graph, x, y, each)
        if not apart:
            graph.output(last, "f32", [rows, columns])
        return tpcc.compile(graph.save(tmp_path / f"{name}.onnx")), dims_of

    random = np.random.default_rng(3)
    inputs = {n: random.normal(size=(rows, columns)).astype(np.float32) for n in "xy"}
    alone, dims_of = build("alone", apart=True)
    known = {f"in.{value}": np.ones(dims, np.float32) for value, dims in dims_of.items()}
    for value in dims_of:  # from the values before
        known[f"in.{value}"] = alone.run(inputs | known, outputs=[value])[value]
    fused, _ = build("fused", apart=False)
    ends = [port["name"] for port in fused.describe()["outputs"]]
    assert len(ends) == 4
    for value, array in fused.run(inputs, outputs=ends).items():
        assert_same_bits(array, known[f"in.{value}"], value)


# Epilogues of matmuls (tpc_epilogue) as ONNX nodes.
ACTIVATIONS = {
    "GELU_ERF": lambda g, x: g("Gelu", x),
    "GELU_TANH": lambda g, x: g("Gelu", x, approximate="tanh"),
    "SILU": lambda g, x: g("Mul", x, g("Sigmoid", x)),
    "RELU": lambda g, x: g("Relu", x),
}


def test_activations_are_the_same_after_matmuls(tpcc, tmp_path):
    """Compares act(x * w) with and without x * w as an output. If x * w is an output, a kernel
    computes the activation instead of the matmul. Bits are equal for every instruction set of the
    kernel. For special values, they equal ONNX Runtime's.
    """
    header = (
        Path(__file__).resolve().parents[3] / "runtime" / "include" / "tpc" / "runtime.h"
    ).read_text()
    known = {
        name: int(number)
        for name, number in re.findall(r"TPC_EPILOGUE_(\w+) = (\d+)", header)
        if name != "NONE"
    }
    assert set(known) == set(ACTIVATIONS)
    g = Graph()
    x = [
        v
        for v in SPECIAL + [86.97, 86.99, 88.0, 88.7228, 88.723, 90.0, 1e20, 5.5, 9.0, -4.0, 1e-5]
        for v in (v, -v)
    ]
    drawn = np.random.default_rng(5).normal(size=(3, 1000)) * np.array([[0.1], [2], [30]])
    x = cast(np.concatenate([x, drawn.ravel()]), "f32")[:, None]
    inputs = {}
    for name, activation in ACTIVATIONS.items():
        for alone in (False, True):
            # 1e-30 * 1e-30 is too small even for a subnormal number: -0 where one of them is
            # negative.
            w = g.constant(np.array([[1, -1, 1e-30, 0.5]], np.float32))
            given = g.input(f"x_{name}_{alone}", "f32", ["rows", 1])
            inputs[given] = x
            product = g("MatMul", given, w)
            result = g("Identity", activation(g, product))
            if alone:
                g.output(product, "f32", ["rows", 4])
            g.output(result, "f32", ["rows", 4])
    path = g.save(tmp_path / "activations.onnx")
    names = [output.name for output in g.outputs]
    calls = re.findall(
        r"tpc_buffer.product .*",
        tpcc.call([path, "--emit=buffers", "--plain", "-o", "-"]).check().stdout,
    )
    fused = [re.findall(r"epilogue (\w+)", call) for call in calls]
    assert sorted(fused) == [[]] * len(known) + sorted([name.lower()] for name in known)
    theirs, programs = Session(path).run(inputs), [
        tpcc.compile(path),
        tpcc.compile(path, "tp1", "--march=x86-64"),
    ]
    ours, baseline = (program.run(inputs, outputs=names) for program in programs)
    for index, name in enumerate(ACTIVATIONS):
        epilogue, product, kernel = names[3 * index : 3 * index + 3]
        p, fused, plain = ours[product], ours[epilogue], ours[kernel]
        special = (abs(p) < 1e-20) | (abs(p) >= 100) | np.isnan(p)
        assert special.sum() > 100 and (np.signbit(p) & (p == 0)).any()
        assert_same_bits(fused, plain, name)
        assert_same_bits(baseline[kernel], plain, name)
        assert_same_bits(theirs[kernel][special], plain[special], name)
        np.testing.assert_allclose(
            theirs[kernel][~special], plain[~special], rtol=2e-6, atol=2e-6, err_msg=name
        )

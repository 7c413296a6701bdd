"""Identities used by simplification, on -0, NaN and infinities.

Results equal ONNX Runtime's including signs, after each identity and after ops that make the sign
of a zero visible.
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness import Grid
from tpc.reference import Session

VALUES = [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30]
CONSTANTS = {
    "zero": 0.0,
    "minus_zero": -0.0,
    "one": 1.0,
    "two": 2.0,
    "minus_one": -1.0,
    "inf": np.inf,
    "nan": np.nan,
}


class Graph:
    """A graph of nodes on x. Each expression is an output."""

    def __init__(self):
        self.nodes, self.outputs = [], {}

    def node(self, op, *inputs, **attributes):
        out = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], f"/{op}/{out}", **attributes))
        return out

    def output(self, name, value):
        self.outputs[name] = self.node("Identity", value)

    def save(self, path, element, shape):
        tensor = helper.np_dtype_to_tensor_dtype(np.dtype(element))
        model = helper.make_model(
            helper.make_graph(
                self.nodes,
                "zeros",
                [helper.make_tensor_value_info("x", tensor, shape)],
                [
                    helper.make_tensor_value_info(value, tensor, shape)
                    for value in self.outputs.values()
                ],
                [
                    numpy_helper.from_array(np.array(number, element), name)
                    for name, number in CONSTANTS.items()
                ]
                + [
                    numpy_helper.from_array(np.array(True), "yes"),
                    numpy_helper.from_array(np.array(False), "no"),
                ],
            ),
            opset_imports=[helper.make_opsetid("", 18)],
            ir_version=9,
        )
        onnx.save(model, path)
        return path


# Expressions that are simplified to x, or to another op on x.
IDENTITIES = {
    "x + 0": lambda g: g.node("Add", "x", "zero"),
    "0 + x": lambda g: g.node("Add", "zero", "x"),
    "x + -0": lambda g: g.node("Add", "x", "minus_zero"),
    "x - 0": lambda g: g.node("Sub", "x", "zero"),
    "x - -0": lambda g: g.node("Sub", "x", "minus_zero"),
    "0 - x": lambda g: g.node("Sub", "zero", "x"),
    "-0 - x": lambda g: g.node("Sub", "minus_zero", "x"),
    "x * 1": lambda g: g.node("Mul", "x", "one"),
    "x * -1": lambda g: g.node("Mul", "x", "minus_one"),
    "x * 0": lambda g: g.node("Mul", "x", "zero"),
    "0 / x": lambda g: g.node("Div", "zero", "x"),
    "x / 1": lambda g: g.node("Div", "x", "one"),
    "x / x": lambda g: g.node("Div", "x", "x"),
    "x - x": lambda g: g.node("Sub", "x", "x"),
    "--x": lambda g: g.node("Neg", g.node("Neg", "x")),
    "x ^ 1": lambda g: g.node("Pow", "x", "one"),
    "x ^ 2": lambda g: g.node("Pow", "x", "two"),
    "x ^ -1": lambda g: g.node("Pow", "x", "minus_one"),
    "x ^ 0": lambda g: g.node("Pow", "x", "zero"),
    "1 / (1 / x)": lambda g: g.node("Reciprocal", g.node("Reciprocal", "x")),
    "|x|": lambda g: g.node("Abs", g.node("Abs", "x")),
    "cast": lambda g: g.node(
        "Cast", g.node("Cast", "x", to=TensorProto.DOUBLE), to=TensorProto.FLOAT
    ),
    "where yes": lambda g: g.node("Where", "yes", "x", "nan"),
    "where no": lambda g: g.node("Where", "no", "nan", "x"),
    "where same": lambda g: g.node("Where", g.node("IsNaN", "x"), "x", "x"),
    "x + (0 + -0)": lambda g: g.node("Add", "x", g.node("Add", "zero", "minus_zero")),
    "x + (-0 + -0)": lambda g: g.node("Add", "x", g.node("Add", "minus_zero", "minus_zero")),
    "(x + 0) + 0": lambda g: g.node("Add", g.node("Add", "x", "zero"), "zero"),
    "sum": lambda g: g.node("Sum", "x", "zero"),
    "x + min(0, -0)": lambda g: g.node("Add", "x", g.node("Mul", "zero", "minus_one")),
    "swish": lambda g: g.node("Mul", (z := g.node("Add", "x", "zero")), g.node("Sigmoid", z)),
    "moved": lambda g: g.node(
        "Transpose", g.node("Add", g.node("Transpose", "x", perm=[1, 0]), "zero"), perm=[1, 0]
    ),
}
# ONNX Runtime loses the sign of a zero that Where selects from its first operand:
# docs/design/onnx-differences.md.
SIGNS_OF_WHERE = {"where yes", "where same"}
# Users of an identity: ops that show the sign of a zero, and ops that hide it.
CONSUMERS = {
    "itself": lambda g, y: y,
    "reciprocal": lambda g, y: g.node("Reciprocal", y),
    "moved divisor": lambda g, y: g.node("Div", "one", g.node("Neg", g.node("Mul", y, "two"))),
    "root": lambda g, y: g.node("Reciprocal", g.node("Sqrt", y)),
    "exp": lambda g, y: g.node("Tanh", g.node("Abs", y)),
}


def assert_same(got, want, name):
    equal = (got == want) & (np.signbit(got) == np.signbit(want)) | (np.isnan(got) & np.isnan(want))
    # Results of functions may be rounded differently.
    close = np.isclose(got, want, rtol=1e-5, atol=0) & (want != 0)
    assert (equal | close).all(), (name, got, want)


@pytest.mark.parametrize("element", [np.float32, np.float64], ids=["f32", "f64"])
def test_identities(tpcc, tmp_path, element):
    graph = Graph()
    for identity, make in IDENTITIES.items():
        if element == np.float64 and identity == "cast":
            continue
        for consumer, use in CONSUMERS.items():
            if element == np.float32 or consumer in ("itself", "reciprocal"):
                graph.output((identity, consumer), use(graph, make(graph)))
    x = np.array([VALUES], element)
    path = graph.save(tmp_path / "zeros.onnx", element, x.shape)
    with np.errstate(all="ignore"):
        theirs = Session(path, optimize=False).run({"x": x})
    ours = tpcc.compile(path, Grid(), "-O0").run({"x": x}, outputs=list(graph.outputs.values()))
    for (identity, consumer), output in graph.outputs.items():
        keep = np.array([[identity not in SIGNS_OF_WHERE or value != 0 for value in VALUES]])
        assert_same(ours[output][keep], theirs[output][keep], (identity, consumer))


UNARY = [
    "Abs",
    "Neg",
    "Sqrt",
    "Reciprocal",
    "Floor",
    "Ceil",
    "Round",
    "Exp",
    "Log",
    "Sin",
    "Cos",
    "Tanh",
    "Erf",
    "Sigmoid",
    "Relu",
    "LeakyRelu",
    "Softplus",
    "Mish",
]


def test_functions(tpcc, tmp_path):
    """Unary functions, on zeros, infinities and NaN."""
    graph = Graph()
    for op in UNARY:
        graph.output(op, graph.node(op, "x"))
    x = np.array([VALUES], np.float32)
    path = graph.save(tmp_path / "functions.onnx", np.float32, x.shape)
    theirs = Session(path, optimize=False).run({"x": x})
    ours = tpcc.compile(path, Grid(), "-O0").run({"x": x}, outputs=list(graph.outputs.values()))
    for op, output in graph.outputs.items():
        assert_same(ours[output], theirs[output], op)


def test_extrema_of_constants(tmp_path, tpcc):
    """Max and Min of zeros are the same whether they are folded or computed."""
    graph = Graph()
    for op in ("Max", "Min"):
        for a in ("zero", "minus_zero"):
            for b in ("zero", "minus_zero", "nan"):
                graph.output((op, a, b), graph.node("Mul", graph.node(op, a, b), "x"))
                moved = graph.node(op, graph.node("Mul", "x", a), b)  # computed, as x is 1
                graph.output((op, a, b, "computed"), moved)
    path = graph.save(tmp_path / "extrema.onnx", np.float32, [1])
    ours = tpcc.compile(path, Grid(), "-O0").run(
        {"x": np.ones(1, np.float32)}, outputs=list(graph.outputs.values())
    )
    for key, output in graph.outputs.items():
        if len(key) == 3:
            assert_same(ours[output], ours[graph.outputs[(*key, "computed")]], key)

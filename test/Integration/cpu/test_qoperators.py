"""ONNX Runtime's static QOperator format: results as close to float32 as ONNX Runtime's own."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from harness import Grid
from models import COMMITTED
from tpc.reference import Session, difference

RANDOM = np.random.default_rng(4)


class Reader(CalibrationDataReader):
    def __init__(self, feeds):
        self.feeds = iter(feeds)

    def get_next(self):
        return next(self.feeds, None)


def quantize(model, path, weights, per_channel):
    feeds = [model.inputs(2, 7, seed=seed) for seed in range(4)]
    quantize_static(
        str(model.path),
        str(path),
        Reader(feeds),
        quant_format=QuantFormat.QOperator,
        weight_type=weights,
        activation_type=QuantType.QUInt8,
        per_channel=per_channel,
    )
    return {(node.domain, node.op_type) for node in onnx.load(path).graph.node}


@pytest.mark.parametrize(
    "name, weights, per_channel, grid",
    [
        ("gpt2-tiny", QuantType.QUInt8, False, Grid(tp=2, pp=2)),
        ("gpt2-odd-opset20", QuantType.QInt8, True, Grid(tp=3)),
    ],
)
def test_models(tpcc, tmp_path, name, weights, per_channel, grid):
    model = COMMITTED[name]
    path = tmp_path / f"{name}.onnx"
    kinds = quantize(model, path, weights, per_channel)
    assert {("com.microsoft", kind) for kind in ("QGemm", "QLinearAdd", "QLinearSoftmax")} <= kinds
    feeds = model.inputs(2, 9, seed=7)
    exact = Session(model.path).run(feeds)["logits"]
    theirs = difference(Session(path).run(feeds)["logits"], exact)
    found = tpcc.compile(path, grid).run(feeds)["logits"]
    assert difference(found, exact).relative <= 1.5 * theirs.relative, theirs


X, Y = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((3, 5, 8), (5, 8)))


def parameters(kind, *names):
    """Scales, and zero points of a type, as initializers."""
    zero = {np.uint8: 120, np.int8: 5}[kind]
    for index, name in enumerate(names):
        yield numpy_helper.from_array(np.float32(0.02 + 0.00523 * index), f"{name}s")
        yield numpy_helper.from_array(kind(zero + index), f"{name}z")


def make(node, kind, *tensors):
    """A model of one node on quantized x and y, whose output z is dequantized."""
    scales = list(parameters(kind, "x", "y", "z"))
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        helper.make_node("QuantizeLinear", ["y", "ys", "yz"], ["yq"]),
        node,
    ]
    if node.output[0] == "zq":
        nodes.append(helper.make_node("DequantizeLinear", ["zq", "zs", "zz"], ["z"]))
    return helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [
                helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "s", 8]),
                helper.make_tensor_value_info("y", TensorProto.FLOAT, ["s", 8]),
            ],
            [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
            [*scales, *tensors],
        ),
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)],
    )


def one(kind, *more, **attributes):
    inputs = ["xq", "xs", "xz", *more, "zs", "zz"]
    return helper.make_node(kind, inputs, ["zq"], domain="com.microsoft", **attributes)


TWO = ("yq", "ys", "yz")
MASK = numpy_helper.from_array(RANDOM.random((5, 8)) < 0.5, "mask")
MATRIX = numpy_helper.from_array(RANDOM.integers(0, 255, (8, 24), np.uint8), "w")
# On CPUs without VNNI, ONNX Runtime adds two products with uint8 in 16 bits, which saturate.
SIGNED = numpy_helper.from_array(RANDOM.integers(-64, 65, (24, 8), np.int8), "w")
PER_COLUMN = [
    numpy_helper.from_array(RANDOM.random(24, np.float32) / 50 + 0.01, "ws"),
    numpy_helper.from_array(np.zeros(24, np.int8), "wz"),
]
PER_TENSOR = list(parameters(np.uint8, "w"))
BIAS = numpy_helper.from_array(RANDOM.integers(-500, 500, 24, np.int32), "c")
FLOATS = numpy_helper.from_array(RANDOM.standard_normal(24).astype(np.float32), "c")


def gemm(output, *more, **attributes):
    inputs = ["yq", "ys", "yz", "w", "ws", "wz", *more]
    return helper.make_node("QGemm", inputs, [output], domain="com.microsoft", **attributes)


NODES = {
    "add": (one("QLinearAdd", *TWO), ()),
    "mul": (one("QLinearMul", *TWO), ()),
    "sigmoid": (one("QLinearSigmoid"), ()),
    "leaky": (one("QLinearLeakyRelu", alpha=0.2), ()),
    "softmax": (one("QLinearSoftmax", opset=13, axis=-1), ()),
    "softmax-merged": (one("QLinearSoftmax", opset=11, axis=1), ()),
    "mean": (one("QLinearReduceMean", axes=[-1], keepdims=0), ()),
    "concat": (
        helper.make_node(
            "QLinearConcat",
            ["zs", "zz", "xq", "xs", "xz", "xq", "xs", "xz"],
            ["zq"],
            domain="com.microsoft",
            axis=1,
        ),
        (),
    ),
    "where": (
        helper.make_node(
            "QLinearWhere", ["mask", "xq", "xs", "xz", *TWO, "zs", "zz"], ["zq"],
            domain="com.microsoft",
        ),
        (MASK,),
    ),
    "gemm": (gemm("zq", "c", "zs", "zz", alpha=1.5), (MATRIX, BIAS, *PER_TENSOR)),
    "gemm-floats": (gemm("z", "c", transB=1), (SIGNED, BIAS, *PER_COLUMN)),
    "dynamic": (
        helper.make_node(
            "DynamicQuantizeMatMul", ["x", "w", "ws", "wz", "c"], ["z"], domain="com.microsoft"
        ),
        (MATRIX, FLOATS, *PER_TENSOR),
    ),
    "attention": (
        helper.make_node(
            "QAttention", ["xq", "w", "c", "xs", "ws", "", "xz", "wz"], ["z"],
            domain="com.microsoft", num_heads=2, unidirectional=1,
        ),
        (MATRIX, FLOATS, *PER_TENSOR),
    ),
}  # fmt: skip


# ONNX Runtime has no kernel of QLinearReduceMean, and only uint8 kernels of gemm and attention.
WITHOUT_KERNEL = {(name, np.int8) for name in ("mean", "gemm", "attention")} | {("mean", np.uint8)}


@pytest.mark.parametrize(
    "name, kind",
    [
        pytest.param(name, kind, id=f"{name}-{kind.__name__}")
        for name in NODES
        for kind in (np.uint8, np.int8)
        if (name, kind) not in WITHOUT_KERNEL
    ],
)
def test_nodes(tpcc, tmp_path, name, kind):
    """Rounds at most one result in 10 in the other direction: ONNX Runtime multiplies and adds
    integers, and takes exponentials from a table.
    """
    node, tensors = NODES[name]
    path = tmp_path / f"{name}-{kind.__name__}.onnx"
    onnx.save(make(node, kind, *tensors), path)
    feeds = {"x": X, "y": Y}
    wanted = Session(path).run(feeds)["z"]
    for grid in (Grid(), Grid(tp=2)) if "w" in {tensor.name for tensor in tensors} else [Grid()]:
        found = tpcc.compile(path, grid).run(feeds, outputs=["z"])["z"]
        step = 0.031 if node.output[0] == "zq" else 2e-5 * np.abs(wanted).max()
        distance = np.abs(found - wanted)
        assert distance.max() <= step and (distance > step / 10).mean() <= 0.1, distance.max()


def test_errors(tpcc, tmp_path):
    bad = numpy_helper.from_array(np.float32([0.1, 0.2]), "zs")
    nan = numpy_helper.from_array(np.float32(np.nan), "zs")
    for tensor, words in ((bad, "one scale"), (nan, "finite")):
        model = make(one("QLinearSigmoid"), np.uint8)
        others = [one for one in model.graph.initializer if one.name != "zs"]
        del model.graph.initializer[:]
        model.graph.initializer.extend([*others, tensor])
        path = tmp_path / "m.onnx"
        onnx.save(model, path)
        tpcc.call([path, "-o", tmp_path / "program"]).refused(words)

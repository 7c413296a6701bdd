"""Rows of docs/design/onnx-differences.md: results of tpc and of ONNX Runtime."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tpc.reference import Session

F32, INF, NAN = np.float32, np.inf, np.nan
MASKED = np.array([[[[True, False, False], [False, False, False], [True, True, True]]]])
SCORES = np.random.default_rng(0).normal(size=(1, 2, 3, 4)).astype(F32)


def node(op, *inputs, out="y", **attributes):
    return helper.make_node(op, list(inputs), [out], f"/{op}/{out}", **attributes)


def attention(low):
    return (
        [
            node("Transpose", "k", out="kt", perm=[0, 1, 3, 2]),
            node("MatMul", "q", "kt", out="s"),
            node("Where", "keep", "zero", "low", out="bias"),
            node("Add", "s", "bias", out="t"),
            node("Softmax", "t", out="p", axis=-1),
            node("MatMul", "p", "v"),
        ],
        {"q": SCORES, "k": SCORES, "v": SCORES, "keep": MASKED},
        {"zero": F32(0), "low": F32(low)},
    )


def reduce(op, x):
    return [node(op, "x", "axes", keepdims=0)], {"x": x}, {"axes": np.array([1])}


def unary(op, *x, dtype=F32, constants={}, **attributes):
    return [node(op, "x", *constants, **attributes)], {"x": np.array(x, dtype)}, constants


def last_row(y):
    return y[0, :, 1]


# Name -> (nodes, inputs, constants), result of ONNX Runtime, result of tpc. None is not compared.
CASES = {
    "masked row": (attention(-INF), np.full((2, 4), NAN), np.zeros((2, 4)), last_row),
    "NaN first": (
        reduce("ReduceMax", np.array([[1, NAN, 3], [NAN, 2, 1]], F32)),
        [3, NAN],
        [NAN, NAN],
    ),
    "NaN least": (
        reduce("ReduceMin", np.array([[1, NAN, 3], [NAN, 2, 1]], F32)),
        [1, NAN],
        [NAN, NAN],
    ),
    "mean of nothing": (reduce("ReduceMean", np.zeros((2, 0), F32)), [0, 0], [NAN, NAN]),
    "overflow": (
        reduce("ReduceSum", np.array([[2**31 - 1, 5]], np.int32)),
        [2**31 - 1],
        [-(2**31) + 4],
    ),
    "sum of -0": (reduce("ReduceSum", np.array([[-0.0, -0.0]], F32)), [-0.0], [0.0]),
    "f64 to f16": (
        unary("Cast", 2049 + 1e-9, dtype=np.float64, to=TensorProto.FLOAT16),
        [2048],
        [2050],
    ),
    "chain of f16": (
        (
            [node("Add", "x", "one", out="z"), node("Add", "z", "one")],
            {"x": np.array([2048], np.float16)},
            {"one": np.float16(1)},
        ),
        [2050],
        [2048],
    ),
    "larger zero": (
        (
            [node("Max", "x", "z")],
            {"x": np.array([-0.0, 0.0], F32), "z": np.array([0.0, -0.0], F32)},
            {},
        ),
        None,
        [0.0, 0.0],
    ),
    "smaller zero": (
        (
            [node("Min", "x", "z")],
            {"x": np.array([-0.0, 0.0], F32), "z": np.array([0.0, -0.0], F32)},
            {},
        ),
        None,
        [-0.0, -0.0],
    ),
    "where": (
        (
            [node("Where", "c", "x", "z")],
            {
                "c": np.array([True, False]),
                "x": np.array([-0.0, 1], F32),
                "z": np.array([1, -0.0], F32),
            },
            {},
        ),
        [0.0, -0.0],
        [-0.0, -0.0],
    ),
    "root": (unary("Pow", -0.0, -INF, constants={"half": F32(0.5)}), [0.0, INF], [-0.0, NAN]),
    "inverse root": (
        unary("Pow", -0.0, -INF, constants={"half": F32(-0.5)}),
        [INF, 0.0],
        [-INF, NAN],
    ),
    "exp": (unary("Exp", -90.0), [8.19401e-40], [0.0]),
}


def assert_is(got, wanted, who):
    wanted = np.asarray(wanted, np.float64)
    got = got.astype(np.float64)
    assert got.shape == wanted.shape, who
    close = np.isclose(got, wanted, rtol=1e-5, atol=0, equal_nan=True) & (
        (np.signbit(got) == np.signbit(wanted)) | np.isnan(got)
    )
    assert close.all(), (who, got, wanted)


def test_page_of_differences(tpcc, tmp_path):
    """Compares all cases in one program and one session, with a result and inputs for each case."""
    nodes, ports, outputs, constants, values = [], [], [], [], {}
    for index, (build, *_) in enumerate(CASES.values()):

        def name(n, index=index):
            return f"{n}_{index}"

        for node_proto in build[0]:
            copy = onnx.NodeProto()
            copy.CopyFrom(node_proto)
            copy.name = name(node_proto.name)
            copy.input[:] = [name(n) for n in node_proto.input]
            copy.output[:] = [name(n) for n in node_proto.output]
            nodes.append(copy)
        for key, value in build[1].items():
            ports.append(
                helper.make_tensor_value_info(
                    name(key), helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
                )
            )
            values[name(key)] = value
        constants += [
            numpy_helper.from_array(np.asarray(value), name(key)) for key, value in build[2].items()
        ]
    inferred = onnx.shape_inference.infer_shapes(
        helper.make_model(
            helper.make_graph(
                nodes,
                "differences",
                ports,
                [helper.make_empty_tensor_value_info(f"y_{i}") for i in range(len(CASES))],
                constants,
            ),
            opset_imports=[helper.make_opsetid("", 20)],
            ir_version=9,
        ),
        strict_mode=True,
    )
    path = tmp_path / "differences.onnx"
    onnx.save(inferred, path)
    names = [port.name for port in inferred.graph.output]
    theirs = Session(path).run(values)
    ours = tpcc.compile(path).run(values, outputs=names)
    for output, (case, (_, their, our, *of)) in zip(names, CASES.items()):
        take = of[0] if of else lambda y: y
        if their is not None:
            assert_is(take(theirs[output]), their, f"ONNX Runtime, {case}")
        assert_is(take(ours[output]), our, f"tpc, {case}")


def test_mean_of_integers_is_rejected(tpcc, tmp_path):
    build = reduce("ReduceMean", np.zeros((2, 2), np.int64))
    graph = helper.make_graph(
        build[0],
        "mean",
        [helper.make_tensor_value_info("x", TensorProto.INT64, [2, 2])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [2])],
        [numpy_helper.from_array(build[2]["axes"], "axes")],
    )
    path = tmp_path / "mean.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path
    )
    tpcc.call([path, "-o", tmp_path / "mean"]).refused("/ReduceMean/y", "floating-point")

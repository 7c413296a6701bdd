"""Partial sums through linear ops, which rules allow, lemmas prove, and kernels compute."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness import Grid
from tpc.reference import TOLERANCE, Session, difference

WIDTH = 6
# Name -> ONNX node after a row-parallel matmul p [batch, sequence, 6]. The names are those of the
# ops in the program, except for OP_NAMES.
# Results are no larger than p.
OPS = {
    "gather": ("Gather", ["p", "first"], dict(axis=1)),
    "gather_nd": ("GatherND", ["p", "tuples"], dict(batch_dims=1)),
    "gather_elements": ("GatherElements", ["p", "elements"], dict(axis=1)),
    "slice": ("Slice", ["p", "one", "four", "one"], {}),
    "concat": ("Concat", ["p", "q"], dict(axis=2)),
    "transpose": ("Transpose", ["p"], dict(perm=[0, 2, 1])),
    "reshape": ("Reshape", ["p", "heads"], {}),
    "reduce": ("ReduceSum", ["p", "two"], {}),
    "mean": ("ReduceMean", ["p", "two"], {}),
    "cumsum": ("CumSum", ["p", "axis"], {}),
    "mul": ("Mul", ["scale", "p"], {}),
    "div": ("Div", ["p", "scale"], {}),
    "neg": ("Neg", ["p"], {}),
    "sub": ("Sub", ["p", "q"], {}),
    "select": ("Where", ["mask", "p", "q"], {}),
    "matmul": ("MatMul", ["p", "narrow"], {}),
    "trilu": ("Trilu", ["square"], {}),
}
OP_NAMES = {"gather_elements": "gather_nd", "mean": "reduce"}
CONSTANTS = {
    "one": [1],
    "two": [2],
    "four": [4],
    "heads": [0, 0, 2, 3],
    "axis": 1,
    "scale": np.float32([1, 2, 3, 4, 5, 6]),
}


def write(path, name):
    op, operands, attributes = OPS[name]
    random = np.random.default_rng(0)
    weights = {
        "w1": random.normal(0, 0.4, (WIDTH, 8)),
        "w2": random.normal(0, 0.4, (8, WIDTH)),
        "w3": random.normal(0, 0.4, (8, WIDTH)),
        "narrow": random.normal(0, 0.4, (WIDTH, 2)),
        "w4": random.normal(0, 0.4, (8, 4)),
    }
    constants = {key: np.asarray(value) for key, value in CONSTANTS.items()} | {
        k: v.astype(np.float32) for k, v in weights.items()
    }
    constants["mask"] = np.array([1, 0, 0, 1, 1, 0], bool)
    constants["square_of"] = np.array([0, 0, 2, 2])
    nodes = [
        ("MatMul", ["x", "w1"], "a", {}),
        ("Relu", ["a"], "r", {}),
        ("MatMul", ["r", "w2"], "p", {}),
        ("MatMul", ["r", "w3"], "q", {}),
        ("MatMul", ["r", "w4"], "flat", {}),
        ("Reshape", ["flat", "square_of"], "square", {}),
        (op, operands, "y", attributes),
    ]
    needed, used = {"y"}, []
    for node in reversed(nodes):
        if node[2] in needed:
            needed |= set(node[1])
            used.insert(0, node)
    ports = {
        "x": (TensorProto.FLOAT, ["batch", "sequence", WIDTH]),
        "first": (TensorProto.INT64, []),
        "tuples": (TensorProto.INT64, ["batch", 1, 1]),
        "elements": (TensorProto.INT64, ["batch", 1, WIDTH]),
    }
    graph = helper.make_graph(
        [helper.make_node(op, ins, [out], f"node_{out}", **more) for op, ins, out, more in used],
        name,
        [helper.make_tensor_value_info(key, *ports[key]) for key in ports if key in needed],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, key) for key, value in constants.items() if key in needed],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path
    )
    random = np.random.default_rng(1)
    inputs = {
        "x": random.normal(size=(3, 5, WIDTH)).astype(np.float32),
        "first": np.array(-2),
        "tuples": random.integers(-5, 5, (3, 1, 1)),
        "elements": random.integers(-5, 5, (3, 1, WIDTH)),
    }
    return {key: value for key, value in inputs.items() if key in needed}


@pytest.mark.parametrize("name", OPS)
def test_linear(tpcc, tmp_path, name):
    path = tmp_path / "model.onnx"
    inputs = write(path, name)
    annotations = tmp_path / "annotations.txt"
    annotations.write_text("w1: [-, tp]\n" + ("narrow: [-, -]\n" if name == "matmul" else ""))
    option = f"--annotations={annotations}"
    text = (
        tpcc.call([path, "--megatron-shard=tp2", "--emit=spmd", "--plain", option, "-o", "-"])
        .check()
        .stdout
    )
    assert re.search(rf"tpc\.{OP_NAMES.get(name, name)} .*sum{{tp}}.* -> .*sum{{tp}}", text), text
    actual = tpcc.compile(path, Grid(tp=2), option).run(inputs, ["y"])["y"]
    assert difference(actual, Session(path).run(inputs)["y"]).relative <= TOLERANCE


def save(path, nodes, weights, opset):
    """Saves a model with input x [batch, sequence, 6] and output y of any shape."""
    random = np.random.default_rng(0)
    tensors = [
        numpy_helper.from_array(random.normal(0, 0.5, shape).astype(np.float32), name)
        for name, shape in weights.items()
    ]
    graph = helper.make_graph(
        [helper.make_node(op, ins, [out], f"node_{out}", **more) for op, ins, out, more in nodes],
        "sums",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "sequence", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        tensors,
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10),
        path,
    )


def test_a_sum_is_rounded_once(tpcc, tmp_path):
    """A cast to a less precise type is not linear, because partial sums would be rounded
    separately.
    """
    path = tmp_path / "model.onnx"
    save(
        path,
        [
            ("MatMul", ["x", "w1"], "a", {}),
            ("Relu", ["a"], "r", {}),
            ("MatMul", ["r", "w2"], "p", {}),
            ("Cast", ["p"], "h", dict(to=TensorProto.FLOAT16)),
            ("Cast", ["h"], "y", dict(to=TensorProto.FLOAT)),
        ],
        dict(w1=(WIDTH, 8), w2=(8, WIDTH)),
        20,
    )
    text = (
        tpcc.call([path, "--megatron-shard=tp2", "--emit=spmd", "--plain", "-o", "-"])
        .check()
        .stdout
    )
    assert "sum{tp}" in text and not re.search(r"tpc\.cast .*sum{tp}", text), text
    inputs = {"x": np.random.default_rng(1).normal(size=(2, 5, WIDTH)).astype(np.float32)}
    actual = tpcc.compile(path, Grid(tp=2)).run(inputs, ["y"])["y"]
    assert difference(actual, Session(path).run(inputs)["y"]).relative <= 1e-3


@pytest.mark.parametrize("heads, kv_heads", [(4, 2), (8, 2)])
def test_sums_of_repeated_heads_are_joined(tpcc, tmp_path, heads, kv_heads):
    """Each kv head is replicated twice. Queries, keys and values are partial sums, which one
    collective adds.
    """
    path, size = tmp_path / "model.onnx", 3
    nodes = [
        ("MatMul", ["x", "w1"], "a", {}),
        ("Relu", ["a"], "r", {}),
        *(("MatMul", ["r", f"w{name}"], name, {}) for name in "qkv"),
        (
            "Attention",
            ["q", "k", "v"],
            "o",
            dict(q_num_heads=heads, kv_num_heads=kv_heads, is_causal=1),
        ),
        ("MatMul", ["o", "wo"], "y", {}),
    ]
    save(
        path,
        nodes,
        dict(
            w1=(WIDTH, 16),
            wq=(16, heads * size),
            wk=(16, kv_heads * size),
            wv=(16, kv_heads * size),
            wo=(heads * size, WIDTH),
        ),
        23,
    )
    annotations = tmp_path / "annotations.txt"
    annotations.write_text("w1: [-, tp]\n")
    executable = tpcc.compile(path, Grid(tp=4, allow_reshard=True), f"--annotations={annotations}")
    inputs = {"x": np.random.default_rng(1).normal(size=(2, 5, WIDTH)).astype(np.float32)}
    actual = executable.run(inputs, ["y"])["y"]
    assert difference(actual, Session(path).run(inputs)["y"]).relative <= TOLERANCE

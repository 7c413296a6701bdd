"""8-bit floats (E4M3): --quantize=fp8, and files with such weights, against ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from float8_files import in_float8, with_float8_weights
from harness import Grid
from models import COMMITTED, FAMILIES
from quantized_files import initializers
from test_quantize import expect
from test_quantized import SPEC, inputs
from tpc.reference import Session


@pytest.mark.parametrize(
    "grid", ["tp2,pp2", *(pytest.param(grid, marks=pytest.mark.long) for grid in ("tp1", "tp3"))]
)
def test_runs(tpcc, tmp_path, grid):
    """Rows and columns are rounded as ONNX Runtime rounds them."""
    path = SPEC.save(tmp_path / "model.onnx")
    session = Session(in_float8(onnx.load(path)).SerializeToString(), optimize=False)
    expect(tpcc.compile(path, grid, "--quantize=fp8"), session, [inputs(SPEC, 5, 3, 1)])


@pytest.mark.long
@pytest.mark.parametrize("name", ["llama-dynamo", "falcon-dynamo", "phi-dynamo"])
def test_models(tpcc, name):
    model = (COMMITTED | FAMILIES)[name]
    session = Session(in_float8(onnx.load(model.path)).SerializeToString(), optimize=False)
    expect(tpcc.compile(model.path, "tp2", "--quantize=fp8"), session, [model.inputs(2, 5)])


def test_report(tpcc, tmp_path):
    """Errors of matmuls: those of E4M3, about 2^-4 / sqrt(3) of each number in both operands."""
    path = SPEC.save(tmp_path / "model.onnx")
    shape = {"batch_size": 1, "sequence_length": 4, "past_sequence_length": 0}
    rows = tpcc.plan(path, Grid(tp=2), shape, "--quantize=fp8")["quantized"]
    weights = {k: v for k, v in initializers(onnx.load(path)).items() if v.ndim == 2}
    assert len(rows) == 1 + SPEC.layers * 5
    for row in rows:
        w = weights[row["weight"]]
        assert row["original_bytes"] == w.nbytes and row["bytes"] == w.size + 4 * w.shape[1]
        assert 0.02 < row["relative_error"] < 0.06


@pytest.mark.long
@pytest.mark.parametrize("activations", [False, True])
def test_files(tpcc, tmp_path, activations):
    path = SPEC.save(tmp_path / "model.onnx")
    onnx.save(with_float8_weights(onnx.load(path), activations), path)
    session = Session(path, optimize=False)
    expect(tpcc.compile(path, "tp2"), session, [inputs(SPEC, 5, 3, 1)])


def test_all_numbers(tpcc, tmp_path):
    """Each byte is decoded, and numbers at and between those of E4M3 are rounded."""
    bytes_ = np.array([b for b in range(256) if b & 0x7F != 0x7F], np.uint8)
    float8 = TensorProto.FLOAT8E4M3FN
    raw = bytes_.tobytes()
    numbers = TensorProto(name="w", dims=[1, len(raw)], data_type=float8, raw_data=raw)
    zero = TensorProto(name="zero", data_type=float8, raw_data=b"\0")
    one = numpy_helper.from_array(np.float32(1), "one")
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "one"], ["all"]),
        helper.make_node("QuantizeLinear", ["x", "one", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "one", "zero"], ["rounded"]),
        helper.make_node("MatMul", ["rounded", "all"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "numbers",
        [value("x", TensorProto.FLOAT, ["batch", 1])],
        [value(name, TensorProto.FLOAT, None) for name in ("y", "rounded")],
        [numbers, zero, one],
    )
    path = tmp_path / "numbers.onnx"
    opsets = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    session = Session(path, optimize=False)
    exact = session.run({"x": np.ones((1, 1), np.float32)})["y"][0]
    points = np.sort(np.abs(exact))
    points = np.concatenate([points, (points[1:] + points[:-1]) / 2, points * 1.01, [449, 1e9]])
    x = np.concatenate([points, -points]).astype(np.float32)[:, None]
    wanted = session.run({"x": x})
    (found,) = tpcc.compile(path, "tp1").run_all([{"x": x}], list(wanted))
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


def test_refused(tpcc, tmp_path):
    path = SPEC.save(tmp_path / "model.onnx")
    model = with_float8_weights(onnx.load(path), True)
    zero = next(t for t in model.graph.initializer if t.data_type == 17 and not t.dims)
    zero.raw_data = b"\x08"
    onnx.save(model, path)
    tpcc.call([path, "-o", tmp_path / "p"]).refused("zero points of 8-bit floats must be 0")
    zero.raw_data = b"\0"
    next(n for n in model.graph.node if n.op_type == "DequantizeLinear").op_type = "Relu"
    onnx.save(model, path)
    tpcc.call([path, "-o", tmp_path / "p"]).refused("8-bit floats, which only DequantizeLinear")

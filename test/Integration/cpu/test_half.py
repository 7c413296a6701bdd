"""Models in f16 and bf16: 16 bits in memory and between ranks, f32 inside of each op."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from models import MODELS
from tpc.reference import Session

FILES = ["gpt2-tiny-nopast", "llama-dynamo"]
GRIDS = ["tp1", "tp2,pp2,sp"]
HALVES = {"f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}


def to_half(array: np.ndarray, name: str, kind: str) -> onnx.TensorProto:
    """Numbers beyond the type (of masks) become its largest."""
    if kind == "f16":
        finite = np.isfinite(array)
        return numpy_helper.from_array(np.where(finite, np.clip(array, -65504, 65504), array).astype(np.float16), name)
    bits = array.astype(np.float32).reshape(-1).view(np.uint32)
    largest = np.abs(array).reshape(-1) >= np.float32(3.39e38)
    rounded = np.where(largest, bits >> 16, (bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return helper.make_tensor(name, TensorProto.BFLOAT16, array.shape, rounded.tobytes(), raw=True)


def halve(model: onnx.ModelProto, kind: str) -> onnx.ModelProto:
    """The model as if it had been exported after .half(): every f32 is of 16 bits."""
    half = HALVES[kind]

    def visit(graph):
        for tensor in graph.initializer:
            if tensor.data_type == TensorProto.FLOAT:
                tensor.CopyFrom(to_half(numpy_helper.to_array(tensor), tensor.name, kind))
        for value in [*graph.input, *graph.output, *graph.value_info]:
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = half
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.TENSOR and attribute.t.data_type == TensorProto.FLOAT:
                    attribute.t.CopyFrom(to_half(numpy_helper.to_array(attribute.t), attribute.t.name, kind))
                if attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT:
                    attribute.i = half
                if attribute.type == onnx.AttributeProto.GRAPH:
                    visit(attribute.g)

    visit(model.graph)
    for function in model.functions:
        visit_nodes = onnx.GraphProto(node=function.node)
        visit(visit_nodes)
        del function.node[:]
        function.node.extend(visit_nodes.node)
    return model


def as_float(array: np.ndarray) -> np.ndarray:
    """NumPy has no bf16."""
    if array.dtype.kind == "V":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("file", FILES)
def test_models(tpcc, tmp_path, file, kind):
    """f16 is compared with ONNX Runtime on the same file, bf16, which it cannot run, with the model in f32."""
    path = tmp_path / f"{file}-{kind}.onnx"
    onnx.save(halve(onnx.load(MODELS / f"{file}.onnx"), kind), path)
    single = onnx.load(MODELS / f"{file}.onnx")
    ids = np.random.default_rng(5).integers(0, 60, (2, 7))
    inputs = {port.name: ids if "ids" in port.name and "position" not in port.name else
              np.arange(7)[None].repeat(2, 0) if "position" in port.name else np.ones((2, 7), np.int64)
              for port in single.graph.input}
    wanted = as_float(Session(path if kind == "f16" else MODELS / f"{file}.onnx").run(inputs)["logits"])
    scale = np.abs(wanted).max()
    for grid in GRIDS:
        got = as_float(tpcc.compile(path, grid).run(inputs)["logits"])
        # A unit in the last place is 2^-11 of a number in f16, 2^-8 in bf16; a dozen ops follow each other.
        assert np.abs(got - wanted).max() < scale * (4e-3 if kind == "f16" else 4e-2), grid


def attention(element: int, with_bias: bool) -> onnx.ModelProto:
    ports = [helper.make_tensor_value_info(name, element, ["b", 4, "s", 8]) for name in "qkv"]
    if with_bias:
        ports.append(helper.make_tensor_value_info("bias", element, ["b", 1, "s", "s"]))
    node = helper.make_node("Attention", [p.name for p in ports], ["y"], "/layer.0/attention", is_causal=int(not with_bias))
    graph = helper.make_graph([node], "attention", ports, [helper.make_tensor_value_info("y", element, ["b", 4, "s", 8])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


@pytest.mark.parametrize("with_bias", [False, True])
def test_attention_is_rounded_once(tpcc, tmp_path, with_bias):
    """What attention in f32 gives of the same numbers, in f16: no score and no weight is rounded."""
    random = np.random.default_rng(2)
    inputs = {name: random.normal(size=(2, 4, 5, 8)).astype(np.float16) for name in "qkv"}
    if with_bias:
        inputs["bias"] = random.normal(size=(2, 1, 5, 5)).astype(np.float16)
    programs = {}
    for element in (TensorProto.FLOAT16, TensorProto.FLOAT):
        path = tmp_path / f"{element}.onnx"
        onnx.save(attention(element, with_bias), path)
        programs[element] = tpcc.compile(path)
    half = programs[TensorProto.FLOAT16].run(inputs, outputs=["y"])["y"]
    single = programs[TensorProto.FLOAT].run({n: a.astype(np.float32) for n, a in inputs.items()}, outputs=["y"])["y"]
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, single.astype(np.float16))


def test_attention_in_double_is_refused(tpcc, tmp_path):
    path = tmp_path / "double.onnx"
    onnx.save(attention(TensorProto.DOUBLE, False), path)
    tpcc.call([path, "-o", tmp_path / "double"]).refused("/layer.0/attention", "'f64'", "Cast")

"""Models as if they had been exported after .half()."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

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
    """Every f32 is of 16 bits; `model` is changed."""
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

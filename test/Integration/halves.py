"""Converts models to 16 bits, as if they were exported after .half(), and back to f32."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HALVES = {"f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}


def to_half(array: np.ndarray, name: str, kind: str) -> onnx.TensorProto:
    """Rounds an array. Finite numbers beyond the type's range (in masks) become its largest one."""
    if kind == "f16":
        finite = np.isfinite(array)
        return numpy_helper.from_array(
            np.where(finite, np.clip(array, -65504, 65504), array).astype(np.float16), name
        )
    bits = array.astype(np.float32).reshape(-1).view(np.uint32)
    largest = np.abs(array).reshape(-1) >= np.float32(3.39e38)
    rounded = np.where(largest, bits >> 16, (bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(
        np.uint16
    )
    return helper.make_tensor(name, TensorProto.BFLOAT16, array.shape, rounded.tobytes(), raw=True)


def halve(model: onnx.ModelProto, kind: str) -> onnx.ModelProto:
    """Converts every f32 to 16 bits, in place, except files of external data: the caller's task."""
    half = HALVES[kind]

    def visit(graph):
        for tensor in graph.initializer:
            if tensor.data_type != TensorProto.FLOAT:
                continue
            if tensor.data_location == TensorProto.EXTERNAL:
                tensor.data_type = half
                for entry in tensor.external_data:
                    if entry.key in ("offset", "length"):
                        entry.value = str(int(entry.value) // 2)
            else:
                tensor.CopyFrom(to_half(numpy_helper.to_array(tensor), tensor.name, kind))
        for value in [*graph.input, *graph.output, *graph.value_info]:
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = half
        for node in graph.node:
            for attribute in node.attribute:
                if (
                    attribute.type == onnx.AttributeProto.TENSOR
                    and attribute.t.data_type == TensorProto.FLOAT
                ):
                    attribute.t.CopyFrom(
                        to_half(numpy_helper.to_array(attribute.t), attribute.t.name, kind)
                    )
                if attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT:
                    attribute.i = half
                if attribute.type == onnx.AttributeProto.GRAPH:
                    visit(attribute.g)

    visit(model.graph)
    for function in model.functions:
        body = onnx.GraphProto(node=function.node)
        visit(body)
        del function.node[:]
        function.node.extend(body.node)
    return model


def widen(model: onnx.ModelProto) -> onnx.ModelProto:
    """Converts every f16 to f32, in place: the same numbers, computed in f32."""

    def visit(graph):
        for tensor in graph.initializer:
            if tensor.data_type == TensorProto.FLOAT16:
                wide = numpy_helper.to_array(tensor).astype(np.float32)
                tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
        for value in [*graph.input, *graph.output, *graph.value_info]:
            if value.type.tensor_type.elem_type == TensorProto.FLOAT16:
                value.type.tensor_type.elem_type = TensorProto.FLOAT
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t") and attribute.t.data_type == TensorProto.FLOAT16:
                    wide = numpy_helper.to_array(attribute.t).astype(np.float32)
                    attribute.t.CopyFrom(numpy_helper.from_array(wide, attribute.t.name))
                if attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT16:
                    attribute.i = TensorProto.FLOAT
                if attribute.HasField("g"):
                    visit(attribute.g)

    visit(model.graph)
    for function in model.functions:
        body = onnx.GraphProto(node=function.node)
        visit(body)
        del function.node[:]
        function.node.extend(body.node)
    return model


def rounded_weights(model: onnx.ModelProto, kind: str) -> onnx.ModelProto:
    """Returns the same model in f32, with weights rounded to the type."""
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            half = as_float(as_array(to_half(numpy_helper.to_array(tensor), tensor.name, kind)))
            tensor.CopyFrom(numpy_helper.from_array(half, tensor.name))
    return model


def rounded_nodes(model: onnx.ModelProto, kind: str) -> onnx.ModelProto:
    """Returns the model whose nodes compute in f32 and round results to the type, as ONNX specifies
    for a model of that type.
    """
    model = rounded_weights(model, kind)
    for node in model.graph.node:
        # onnx.shape_inference lacks these ops, so their results get types here.
        if node.domain == "com.microsoft" or node.op_type == "SimplifiedLayerNormalization":
            model.graph.value_info.extend(
                helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
                for name in node.output
                if name and name not in {value.name for value in model.graph.output}
            )
    known = onnx.shape_inference.infer_shapes(model).graph
    single = {
        value.name
        for value in [*known.value_info, *known.output]
        if value.type.tensor_type.elem_type == TensorProto.FLOAT
    }
    nodes = []
    for node in model.graph.node:
        nodes.append(node)
        for index, name in enumerate(node.output):
            if name not in single or node.op_type == "Constant":
                continue
            node.output[index] = f"{name}/exact"
            nodes.append(
                helper.make_node("Cast", [node.output[index]], [f"{name}/half"], to=HALVES[kind])
            )
            nodes.append(helper.make_node("Cast", [f"{name}/half"], [name], to=TensorProto.FLOAT))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def as_array(tensor: onnx.TensorProto) -> np.ndarray:
    """Returns a tensor as an array. Elements of bf16, which NumPy lacks, are two bytes (V2)."""
    if tensor.data_type == TensorProto.BFLOAT16:
        return np.frombuffer(tensor.raw_data, np.dtype("V2")).reshape(tuple(tensor.dims))
    return numpy_helper.to_array(tensor)


def as_float(array: np.ndarray) -> np.ndarray:
    """Returns the array of as_array in f32."""
    if array.dtype.kind == "V":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)

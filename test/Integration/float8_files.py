"""ONNX files with E4M3 operands of matmuls. ONNX Runtime rounds and widens them; it has no E4M3
matmul, so the matmuls are in f32.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from quantized_files import initializers

LARGEST = np.float32(448)  # largest finite value of E4M3


def rounded_columns(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numbers of E4M3, and a scale for each column."""
    largest = np.abs(matrix).max(0).astype(np.float32)
    scales = np.where(largest > 0, largest / LARGEST, 1).astype(np.float32)
    return np.clip(matrix / scales, -LARGEST, LARGEST).astype(ml_dtypes.float8_e4m3fn), scales


class Graph:
    """Nodes that replace one node. `name` is the prefix of their outputs and constants."""

    def __init__(self, model: onnx.ModelProto, name: str):
        self.graph, self.name, self.nodes = model.graph, name, []

    def constant(self, value: np.ndarray) -> str:
        name = f"{self.name}.c{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, op: str, *inputs: str, output: str = "", **attributes) -> str:
        output = output or f"{self.name}.{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output


def in_float8(model: onnx.ModelProto) -> onnx.ModelProto:
    """Rewrites MatMul nodes with weights as tpcc --quantize=fp8 does, and returns `model`. Columns
    of weights and rows of left operands are scaled, and rounded to E4M3.
    """
    weights = initializers(model)
    one = np.float32(1)
    zero = np.zeros((), ml_dtypes.float8_e4m3fn)
    nodes = []
    for node in model.graph.node:
        matrix = weights.get(node.input[1]) if node.op_type == "MatMul" else None
        if matrix is None or matrix.ndim != 2:
            nodes.append(node)
            continue
        g = Graph(model, f"float8.{len(nodes)}")
        numbers, scales = rounded_columns(matrix.astype(np.float32))
        axes = g.constant(np.array([-1]))
        scale = g.add("ReduceMax", g.add("Abs", node.input[0]), axes, keepdims=1)
        scale = g.add("Div", scale, g.constant(LARGEST))
        isZero = g.add("Equal", scale, g.constant(np.float32(0)))
        scale = g.add("Where", isZero, g.constant(one), scale)
        given = [g.constant(one), g.constant(zero)]
        x = g.add("QuantizeLinear", g.add("Div", node.input[0], scale), *given)
        y = g.add(
            "MatMul",
            g.add("DequantizeLinear", x, *given),
            g.constant(numbers.astype(np.float32)),
        )
        g.add("Mul", g.add("Mul", y, g.constant(scales)), scale, output=node.output[0])
        nodes += g.nodes
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def with_float8_weights(model: onnx.ModelProto, activations: bool) -> onnx.ModelProto:
    """Returns the model with weights of MatMul as float8e4m3fn, which DequantizeLinear scales by
    column. `activations`: left operands are rounded by QuantizeLinear, with a constant scale."""
    weights = initializers(model)
    nodes = []
    for node in model.graph.node:
        matrix = weights.get(node.input[1]) if node.op_type == "MatMul" else None
        if matrix is not None and matrix.ndim == 2:
            g = Graph(model, f"float8.{len(nodes)}")
            numbers, scales = rounded_columns(matrix)
            name = g.constant(numbers)
            node.input[1] = g.add("DequantizeLinear", name, g.constant(scales), axis=1)
            if activations:
                zero = np.zeros((), ml_dtypes.float8_e4m3fn)
                given = [g.constant(np.float32(0.01)), g.constant(zero)]
                x = g.add("QuantizeLinear", node.input[0], *given)
                node.input[0] = g.add("DequantizeLinear", x, *given)
            nodes += g.nodes
        nodes.append(node)
    for tensor in list(model.graph.initializer):
        used = any(tensor.name in node.input for node in nodes)
        if not used and tensor.name in weights:
            model.graph.initializer.remove(tensor)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model



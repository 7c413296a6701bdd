"""ONNX files with quantized weights: the forms that exporters and quantizers write.

Weights of MatMul nodes are quantized to the nearest number; ONNX Runtime computes the same files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = helper.make_opsetid("com.microsoft", 1)


@dataclass(frozen=True)
class Blocks:
    """A form of MatMulNBits."""

    bits: int = 4
    block: int = 16
    zeros: str = ""  # "packed", "float", or none
    bias: bool = False
    table: bool = False  # GatherBlockQuantized in place of the embedding's Gather

    @property
    def highest(self) -> int:
        return (1 << self.bits) - 1

    def quantize(self, rows: np.ndarray):
        """Returns bytes [rows, blocks, bytes], scales and zero points [rows, blocks] of a matrix
        whose rows consist of blocks. The last block may be partly used.
        """
        count = -(-rows.shape[1] // self.block)
        padding = count * self.block - rows.shape[1]
        x = np.pad(rows, ((0, 0), (0, padding))).reshape(len(rows), count, self.block)
        if self.zeros:
            low, high = np.minimum(x.min(-1), 0), np.maximum(x.max(-1), 0)
            scales = (high - low) / self.highest
            zeros = np.round(-low / scales)
        else:
            middle = 1 << (self.bits - 1)
            scales = np.abs(x).max(-1) / max(1, middle - 1)
            zeros = np.full(scales.shape, middle)
        q = np.clip(np.round(x / scales[..., None]) + zeros[..., None], 0, self.highest)
        return self.pack(q), scales.astype(rows.dtype), zeros.astype(np.uint8)

    def pack(self, numbers: np.ndarray) -> np.ndarray:
        per_byte = 8 // self.bits
        padding = -numbers.shape[-1] % per_byte
        numbers = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, padding)]).astype(np.uint8)
        parts = numbers.reshape(*numbers.shape[:-1], -1, per_byte)
        return np.bitwise_or.reduce(parts << (np.arange(per_byte) * self.bits), -1).astype(np.uint8)


def initializers(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


class Rewriter:
    """Replaces nodes, and removes the initializers that are not used any more."""

    def __init__(self, model: onnx.ModelProto):
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        self.weights = initializers(model)
        self.nodes: list[onnx.NodeProto] = []

    def tensor(self, name: str, value: np.ndarray, kind: int | None = None) -> str:
        tensor = numpy_helper.from_array(np.ascontiguousarray(value), name)
        if kind is not None:  # packed bytes of integers
            tensor.data_type = kind
        if name not in {t.name for t in self.model.graph.initializer}:
            self.model.graph.initializer.append(tensor)
        return name

    def node(self, op, inputs, outputs, name, domain="", **attributes) -> None:
        self.nodes.append(helper.make_node(op, inputs, outputs, name, domain=domain, **attributes))

    def run(self, replace) -> onnx.ModelProto:
        """`replace` returns whether it has replaced a node."""
        graph = self.model.graph
        for node in list(graph.node):
            if not replace(self, node):
                self.nodes.append(node)
        del graph.node[:]
        graph.node.extend(self.nodes)
        used = {name for node in graph.node for name in node.input}
        for tensor in [t for t in graph.initializer if t.name not in used]:
            graph.initializer.remove(tensor)
        if not any(entry.domain == "com.microsoft" for entry in self.model.opset_import):
            self.model.opset_import.append(MICROSOFT)
        return self.model


def is_projection(rewriter: Rewriter, node: onnx.NodeProto) -> bool:
    return (
        node.op_type == "MatMul"
        and node.input[1] in rewriter.weights
        and rewriter.weights[node.input[1]].ndim == 2
    )


def in_blocks(model: onnx.ModelProto, spec: Blocks) -> onnx.ModelProto:
    """Returns the model with every projection as MatMulNBits."""

    def replace(r: Rewriter, node: onnx.NodeProto) -> bool:
        if spec.table and node.op_type == "Gather" and node.input[0] in r.weights:
            return replace_table(r, node)
        if not is_projection(r, node):
            return False
        name, w = node.input[1], r.weights[node.input[1]]
        packed, scales, zeros = spec.quantize(w.T)
        inputs = [node.input[0], r.tensor(f"{name}_q", packed), r.tensor(f"{name}_s", scales)]
        if spec.zeros == "packed":
            inputs.append(r.tensor(f"{name}_z", spec.pack(zeros)))
        elif spec.zeros == "float":
            inputs.append(r.tensor(f"{name}_z", zeros.astype(w.dtype)))
        if spec.bias:
            inputs += [""] * (5 - len(inputs))
            bias = np.random.default_rng(w.shape[1]).standard_normal(w.shape[1]) * 0.1
            inputs.append(r.tensor(f"{name}_b", bias.astype(w.dtype)))
        k, n = w.shape
        attributes = {"K": k, "N": n, "bits": spec.bits, "block_size": spec.block}
        r.node("MatMulNBits", inputs, node.output, node.name, "com.microsoft", **attributes)
        return True

    def replace_table(r: Rewriter, node: onnx.NodeProto) -> bool:
        table = r.weights[node.input[0]]
        if table.ndim != 2 or table.dtype.kind != "f":
            return False
        name = node.input[0]
        packed, scales, zeros = spec.quantize(table)
        inputs = [r.tensor(f"{name}_q", packed.reshape(len(table), -1)), node.input[1]]
        inputs.append(r.tensor(f"{name}_s", scales))
        if spec.zeros:
            inputs.append(r.tensor(f"{name}_z", spec.pack(zeros)))
        attributes = {"bits": spec.bits, "block_size": spec.block}
        r.node(
            "GatherBlockQuantized", inputs, node.output, node.name, "com.microsoft", **attributes
        )
        return True

    return Rewriter(model).run(replace)


def count_bytes(path: Path) -> int:
    """Returns the bytes of all tensors of a file."""
    return sum(len(t.raw_data) for t in onnx.load(path).graph.initializer)


def linear(model: onnx.ModelProto, kind: str) -> onnx.ModelProto:
    """Returns the model with every projection as DequantizeLinear and MatMul, or for "dynamic" as
    ONNX Runtime's dynamic quantization writes it.

    `kind`: "tensor" or "column" (int8, each with a scale), "rows" (uint8 in blocks of 16 rows, with
    zero points), "int4" (columns, each with a scale), or "dynamic".
    """

    def replace(r: Rewriter, node: onnx.NodeProto) -> bool:
        if not is_projection(r, node):
            return False
        name, w = node.input[1], r.weights[node.input[1]]
        # On CPUs without VNNI, ONNX Runtime's dynamic matmul adds two products in 16 bits, and
        # 2 * 63 * 255 fits.
        largest = 63 if kind == "dynamic" else 127
        scale, zero, attributes = np.abs(w).max() / largest, None, {}
        if kind in ("column", "int4"):
            scale, attributes = np.abs(w).max(0) / (127 if kind == "column" else 7), {"axis": 1}
        elif kind == "rows":
            blocks = w.reshape(-1, 16, w.shape[1])
            low, high = np.minimum(blocks.min(1), 0), np.maximum(blocks.max(1), 0)
            scale, attributes = (high - low) / 255, {"axis": 0, "block_size": 16}
            zero = np.round(-low / scale).astype(np.uint8)
            q = np.round(blocks / scale[:, None]) + zero[:, None]
            q = np.clip(q, 0, 255).astype(np.uint8).reshape(w.shape)
        if kind == "int4":
            q = np.clip(np.round(w / scale), -7, 7).astype(np.int8).view(np.uint8) & 15
            tensor = TensorProto(name=f"{name}_q", data_type=TensorProto.INT4, dims=w.shape)
            tensor.raw_data = Blocks().pack(q).tobytes()
            r.model.graph.initializer.append(tensor)
        elif zero is None:
            q = np.clip(np.round(w / scale), -127, 127).astype(np.int8)
        if kind != "int4":
            r.tensor(f"{name}_q", q)
        r.tensor(f"{name}_s", np.asarray(scale, w.dtype))
        if kind == "dynamic":
            dynamic_matmul(r, node, name)
            return True
        inputs = [f"{name}_q", f"{name}_s"]
        if zero is not None:
            inputs.append(r.tensor(f"{name}_z", zero))
        r.node("DequantizeLinear", inputs, [f"{name}_f"], f"{name}_dequantize", **attributes)
        r.node("MatMul", [node.input[0], f"{name}_f"], node.output, node.name)
        return True

    def dynamic_matmul(r: Rewriter, node: onnx.NodeProto, name: str) -> None:
        x, y = node.input[0], node.output[0]
        parts = [f"{y}_x", f"{y}_scale", f"{y}_zero"]
        r.node("DynamicQuantizeLinear", [x], parts, f"{node.name}_quantize")
        r.node("MatMulInteger", [parts[0], f"{name}_q", parts[2]], [f"{y}_i"], node.name)
        r.node("Cast", [f"{y}_i"], [f"{y}_f"], f"{node.name}_cast", to=TensorProto.FLOAT)
        r.node("Mul", [parts[1], f"{name}_s"], [f"{y}_s"], f"{node.name}_scales")
        r.node("Mul", [f"{y}_f", f"{y}_s"], [y], f"{node.name}_scale")

    rewriter = Rewriter(model)
    for entry in rewriter.model.opset_import:
        if entry.domain == "":
            entry.version = max(entry.version, 21)
    return rewriter.run(replace)


# Formats of --quantize: bits and block size (0: a column is one block).
FORMATS = {"int8": (8, 0), "int4": (4, 32), "int4:16": (4, 16), "int8:64": (8, 64)}


def block_of(rows: int, block: int) -> int:
    """Returns the block, halved until it divides `rows`; a block below 16 becomes all rows."""
    while block >= 16:
        if rows % block == 0:
            return block
        block //= 2
    return rows


def quantized(matrix: np.ndarray, bits: int, block: int) -> np.ndarray:
    """Returns the matrix [rows, columns] after quantization of blocks of its columns."""
    rows, columns = matrix.shape
    blocks = matrix.astype(np.float32).T.reshape(columns, -1, block_of(rows, block))
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)
    scale = np.where(largest == 0, 1, largest / np.float32(-(2 ** (bits - 1))))
    scale = scale.astype(matrix.dtype).astype(np.float32)
    numbers = np.clip(np.rint(blocks / scale), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return (numbers * scale).astype(matrix.dtype).reshape(columns, rows).T


def by_numpy(model: onnx.ModelProto, bits: int, block: int) -> onnx.ModelProto:
    """Returns the model with weights of MatMul and Gemm that are quantized and widened again."""
    weights = initializers(model)
    moved = {
        node.output[0]: weights[node.input[0]].T
        for node in model.graph.node
        if node.op_type == "Transpose" and node.input[0] in weights
    }
    for i, node in enumerate(model.graph.node):
        if node.op_type not in ("MatMul", "Gemm"):
            continue
        matrix = moved.get(node.input[1], weights.get(node.input[1]))
        if matrix is None or matrix.ndim != 2:
            continue
        transposed = any(a.name == "transB" and a.i for a in node.attribute)
        matrix = quantized(matrix.T if transposed else matrix, bits, block)
        name = f"quantized.{i}"
        matrix = np.ascontiguousarray(matrix.T if transposed else matrix)
        model.graph.initializer.append(numpy_helper.from_array(matrix, name))
        node.input[1] = name
    return model


def with_quantized_experts(model: onnx.ModelProto, q: Blocks) -> onnx.ModelProto:
    """Replaces MoE by QMoE, in place. Without a block size, a row is a block."""
    tensors = initializers(model)
    for node in model.graph.node:
        if node.op_type != "MoE":
            continue
        inputs = [*node.input, *[""] * (8 - len(node.input))]
        matrices = {}
        for index in (2, 4, 6):
            name = inputs[index]
            if not name:
                continue
            w = tensors[name]
            blocks = replace(q, block=q.block or w.shape[-1])
            parts = blocks.quantize(w.reshape(-1, w.shape[-1]))
            packed, scales, zeros = (part.reshape(*w.shape[:2], -1) for part in parts)
            if not q.block:
                scales, zeros = scales[..., 0], zeros[..., 0]
            for part, value in (("q", packed), ("scales", scales), ("zeros", q.pack(zeros))):
                model.graph.initializer.append(numpy_helper.from_array(value, f"{name}.{part}"))
            matrices[index] = name
        made = []
        for index in (2, 4, 6):
            name = matrices.get(index)
            made += [f"{name}.q", f"{name}.scales"] if name else ["", ""]
            made.append(inputs[index + 1])
        zeros = [f"{matrices[i]}.zeros" if i in matrices and q.zeros else "" for i in (2, 4, 6)]
        node.op_type = "QMoE"
        del node.input[:]
        node.input.extend([*inputs[:2], *made, *zeros])
        node.attribute.append(helper.make_attribute("expert_weight_bits", q.bits))
        if q.block:
            node.attribute.append(helper.make_attribute("block_size", q.block))
    return model

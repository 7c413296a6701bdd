"""Writes ONNX graphs node by node: w("Add", a, b) adds a node and gives the name of its output."""

from __future__ import annotations

import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Writer:
    def __init__(self, spec, reference: bool):
        self.spec, self.reference = spec, reference
        self.nodes, self.inputs, self.outputs = [], [], []
        self.tensors: dict[str, onnx.TensorProto] = {}
        self.tables: dict[tuple, tuple[str, str]] = {}
        self.masks: dict[str, str] = {}
        self.source = self.keys = self.inner = ""
        self.position_row = self.past = ""
        self.layer = 0

    def __call__(self, op: str, *inputs: str, outputs: int = 1, **attributes):
        names = [f"v{len(self.nodes)}" if i == 0 else f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, f"node_{op}_{len(self.nodes)}", **attributes))
        return names[0] if outputs == 1 else names

    # Inputs, outputs ----------------------------------------------------------------------------------------------

    def input(self, name: str, shape, integers: bool = True) -> None:
        kind = TensorProto.INT64 if integers else TensorProto.FLOAT
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))

    def output(self, name: str, value: str, shape, integers: bool = False) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name], f"output_{name}"))
        kind = TensorProto.INT64 if integers else TensorProto.FLOAT
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def reference_only(self, name: str, value: str, shape) -> None:
        if self.reference:
            self.output(name, value, shape)

    # Weights: a tensor's values depend on its name and the seed alone ---------------------------------------------

    def tensor(self, name: str, array: np.ndarray) -> str:
        if name not in self.tensors:
            self.tensors[name] = numpy_helper.from_array(np.array(array, order="C"), name)
        return name

    def draw(self, name: str, shape) -> np.ndarray:
        return np.random.default_rng([self.spec.seed, zlib.crc32(name.encode())]).standard_normal(shape, dtype=np.float32)

    def matrix(self, name: str, inputs: int, outputs: int, transposed: bool = False, fan_in: int | None = None) -> str:
        """Such that a product keeps the size of its operand."""
        array = self.draw(name, (inputs, outputs)) / np.float32((fan_in or inputs) ** 0.5)
        return self.tensor(name, array.T if transposed else array)

    def vector(self, name: str, size: int, mean: float = 0.0) -> str:
        return self.tensor(name, np.float32(mean) + np.float32(0.2) * self.draw(name, (size,)))

    def zeros(self, name: str, size: int) -> str:
        return self.tensor(name, np.zeros(size, np.float32))

    def number(self, value: float) -> str:
        return self.tensor(f"number_{value!r}", np.array(value, np.float32))

    def scalar(self, value: int) -> str:
        return self.tensor(f"scalar_{value}", np.array(value, np.int64))

    def ints(self, values: list[int]) -> str:
        return self.tensor("ints_" + "_".join(map(str, values)), np.array(values, np.int64))

    # Shapes ---------------------------------------------------------------------------------------------------------

    def size(self, value: str, dim: int) -> str:
        """The size of a dimension as a vector of one element."""
        shape = self("Shape", value)
        return self("Unsqueeze", self("Gather", shape, self.scalar(dim), axis=0), self.ints([0]))

    def reshape(self, x: str, shape: list[int]) -> str:
        """0 copies a dimension, -1 is what is left."""
        if self.spec.sizes == "static" or 0 not in shape:
            return self("Reshape", x, self.ints(shape))
        parts = [self.size(x, i) if n == 0 else self.ints([n]) for i, n in enumerate(shape)]
        return self("Reshape", x, self("Concat", *parts, axis=0))

    def reshape_like_rows(self, rows: str, like: str, columns: int) -> str:
        """[b*s, columns] -> [b, s, columns] with the sizes of `like`."""
        sizes = self("Concat", self.size(like, 0), self.size(like, 1), self.ints([columns]), axis=0)
        return self("Reshape", rows, sizes)

    def split(self, x: str, sizes: list[int], axis: int) -> list[str]:
        return self("Split", x, self.ints(sizes), outputs=len(sizes), axis=axis)

    def slice(self, x: str, begin: int, end: int, axis: int, step: int = 1) -> str:
        steps = [self.ints([step])] if step != 1 else []
        return self("Slice", x, self.ints([begin]), self.ints([end]), self.ints([axis]), *steps)

    def repeat_heads(self, x: str, kv: int, group: int, size: int) -> str:
        """[b, kv, s, d] -> [b, kv * group, s, d], as Hugging Face's repeat_kv does."""
        x = self("Unsqueeze", x, self.ints([2]))
        sizes = [self.size(x, 0), self.ints([kv, group]), self.size(x, 3), self.ints([size])]
        return self.reshape(self("Expand", x, self("Concat", *sizes, axis=0)), [0, kv * group, -1, size])

    # Positions and masks, made once ---------------------------------------------------------------------------------

    def range(self, begin: str, end: str) -> str:
        return self("Unsqueeze", self("Range", begin, end, self.scalar(1)), self.ints([0]))

    def ends(self) -> tuple[str, str]:
        """The first position of these tokens, and the one behind the last."""
        count = self("Gather", self("Shape", self.source), self.scalar(1), axis=0)
        if not self.past:
            return self.scalar(0), count
        begin = self("Gather", self("Shape", self.past), self.scalar(2), axis=0)
        return begin, self("Add", begin, count)

    def positions(self) -> str:
        """[1, s]"""
        if not self.position_row:
            self.position_row = self.range(*self.ends())
        return self.position_row

    def with_past(self, x: str, part: str, kv: int, size: int) -> str:
        """[b, kv, s, size] behind what is kept of earlier tokens; the whole is an output."""
        whole = self("Concat", f"past.{self.layer}.{part}", x, axis=2)
        self.output(f"present.{self.layer}.{part}", whole, ["batch", kv, f"{part}s_of_{self.layer}", size])
        return whole

    def rotary_tables(self, size: int, interleaved: bool) -> tuple[str, str]:
        """cos and sin, [1 or b, 1, s, size] or, if interleaved, [.., size / 2]."""
        key = (size, interleaved)
        if key not in self.tables:
            frequencies = (10000.0 ** (-np.arange(0, size, 2) / size)).astype(np.float32)
            row = "position_ids" if self.spec.positions == "given" else self.positions()
            column = self("Unsqueeze", self("Cast", row, to=TensorProto.FLOAT), self.ints([-1]))
            angles = self("Mul", column, self.tensor(f"frequencies_{size}", frequencies[None, None]))
            if not interleaved:
                angles = self("Concat", angles, angles, axis=-1)
            self.tables[key] = tuple(self("Unsqueeze", self(f, angles), self.ints([1])) for f in ("Cos", "Sin"))
        return self.tables[key]

    def full_mask(self, spec) -> str:
        """The same with all of its queries, as Attention wants it."""
        keys = self("Unsqueeze", self.ends()[1], self.ints([0]))
        sizes = [self.size(self.source, 0), self.ints([1]), self.size(self.source, 1), keys]
        return self("Expand", self.mask(spec), self("Concat", *sizes, axis=0))

    def mask(self, spec) -> str:
        """Booleans [1 or b, 1, s or 1, s]: which keys a query sees."""
        if spec.mask not in self.masks:
            row = self.positions()
            parts = []
            if "causal" in spec.mask:
                past = self.range(self.scalar(0), self.ends()[1]) if self.past else row
                keys = self("Unsqueeze", past, self.ints([1]))
                queries = self("Unsqueeze", row, self.ints([2]))
                parts.append(self("Unsqueeze", self("LessOrEqual", keys, queries), self.ints([1])))
            if "padded" in spec.mask:
                some = self("Cast", "attention_mask", to=TensorProto.BOOL)
                parts.append(self("Unsqueeze", some, self.ints([1, 2])))
            self.masks[spec.mask] = self("And", *parts) if len(parts) == 2 else parts[0]
        return self.masks[spec.mask]

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "random", self.inputs, self.outputs, list(self.tensors.values()))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.spec.opset)], ir_version=10)

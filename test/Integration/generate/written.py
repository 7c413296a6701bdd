"""Writes a small GPT op by op, with or without a past. Tests override parts in subclasses."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NEVER = np.float32(-1e9)


class Gpt:
    """Each method writes a part of the graph and returns the name of its result."""

    LAYERS, HEADS, SIZE, VOCABULARY, POSITIONS = 2, 2, 8, 37, 64
    BATCH, SEQUENCE = "batch", "sequence"
    PAST = False
    OPSET = 17
    CACHE = TensorProto.FLOAT  # type of past and present keys and values

    def __init__(self):
        self.nodes, self.constants, self.random = [], [], np.random.default_rng(0)
        self.inputs, self.outputs, self.presents, self.names = [], [], [], set()
        self.hidden = self.HEADS * self.SIZE

    # Nodes of graphs.

    def op(self, kind: str, *inputs: str, name: str = "", **attributes) -> str:
        output = f"t{len(self.nodes)}"
        name = name or f"{kind}_{len(self.nodes)}"
        while name in self.names:  # ONNX Runtime requires each name once
            name += "_"
        self.names.add(name)
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=name, **attributes))
        return output

    def constant(self, value) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def weight(self, *shape: int, scale: float = 0.5) -> str:
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def input(self, name: str, shape, kind=TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, value: str, name: str, kind=TensorProto.FLOAT) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name], name=f"give_{name}"))
        self.outputs.append(helper.make_tensor_value_info(name, kind, None))

    def linear(self, value: str, rows: int, columns: int) -> str:
        return self.op(
            "Add",
            self.op("MatMul", value, self.weight(rows, columns)),
            self.weight(columns, scale=0.1),
        )

    def count(self, first: str, end: str) -> str:
        return self.op("Range", first, end, self.constant(np.int64(1)))

    def column(self, values: str) -> str:
        return self.op("Unsqueeze", values, self.integers(1))

    # The model.

    def embed(self) -> str:
        return self.op(
            "Gather", self.weight(self.VOCABULARY, self.hidden, scale=1), self.ids, name="embed"
        )

    def positions(self) -> str:
        """Returns the positions that are added to the embedding."""
        return self.op(
            "Gather",
            self.weight(self.POSITIONS, self.hidden, scale=1),
            self.count(self.start, self.end),
            name="positions",
        )

    def queries(self, value: str) -> str:
        return value

    def keys_and_values(self, keys: str, values: str) -> tuple[str, str]:
        return keys, values

    def pasts(self) -> list[tuple[str, str]]:
        """Returns the inputs with the keys and the values of each layer."""
        shape = [self.BATCH, self.HEADS, "past", self.SIZE]
        return [
            (
                self.input(f"past_k{layer}", shape, self.CACHE),
                self.input(f"past_v{layer}", shape, self.CACHE),
            )
            for layer in range(self.LAYERS)
        ]

    def join(self, past: str, new: str) -> str:
        return self.op("Concat", past, new, axis=2, name="join")

    def present(self, keys: str, values: str) -> tuple[str, str]:
        return keys, values

    def read(self, joined: str) -> str:
        """Returns attention's operand from a cache."""
        return joined

    def sees(self) -> str:
        """Returns the mask of visible keys."""
        keys, queries = self.count(self.zero, self.end), self.count(self.start, self.end)
        return self.op("LessOrEqual", keys, self.column(queries))

    def scores(self, scores: str) -> str:
        return self.op("Where", self.sees(), scores, self.constant(NEVER), name="mask")

    def weights(self, weights: str) -> str:
        """Transforms the weights of attention, after softmax."""
        return weights

    def mix(self, queries: str, keys: str, values: str) -> str:
        scores = self.op("MatMul", queries, self.op("Transpose", keys, perm=[0, 1, 3, 2]))
        scores = self.scores(self.op("Mul", scores, self.constant(np.float32(self.SIZE**-0.5))))
        return self.op(
            "MatMul", self.weights(self.op("Softmax", scores, axis=-1)), values, name="attention"
        )

    def attention(self, value: str) -> str:
        def split(part: str) -> str:
            return self.op(
                "Transpose",
                self.op("Reshape", part, self.integers(0, 0, self.HEADS, self.SIZE)),
                perm=[0, 2, 1, 3],
            )

        queries, keys, values = (
            split(self.linear(value, self.hidden, self.hidden)) for _ in range(3)
        )
        queries, (keys, values) = self.queries(queries), self.keys_and_values(keys, values)
        if self.PAST:
            before = self.past[self.layer]
            keys, values = self.join(before[0], keys), self.join(before[1], values)
            self.presents.append(self.present(keys, values))
            keys, values = self.read(keys), self.read(values)
        mixed = self.mix(queries, keys, values)
        mixed = self.op(
            "Reshape",
            self.op("Transpose", mixed, perm=[0, 2, 1, 3]),
            self.integers(0, 0, self.hidden),
        )
        return self.linear(mixed, self.hidden, self.hidden)

    def norm(self, value: str) -> str:
        return self.op(
            "LayerNormalization",
            value,
            self.weight(self.hidden),
            self.weight(self.hidden, scale=0.1),
            axis=-1,
        )

    def between(self, value: str) -> str:
        """Transforms a value after attention, in each layer."""
        return value

    def last(self, value: str) -> str:
        """Transforms the value before the head."""
        return value

    def head(self, value: str) -> None:
        self.output(
            self.op(
                "MatMul", value, self.weight(self.hidden, self.VOCABULARY, scale=1), name="head"
            ),
            "logits",
        )

    def write(self, path):
        self.ids = self.input("input_ids", [self.BATCH, self.SEQUENCE], TensorProto.INT64)
        self.zero = self.start = self.constant(np.int64(0))
        self.end = self.sequence = self.op(
            "Gather", self.op("Shape", self.ids), self.constant(np.int64(1)), axis=0
        )
        if self.PAST:
            self.past = self.pasts()
            self.start = self.op(
                "Gather", self.op("Shape", self.past[0][0]), self.constant(np.int64(2)), axis=0
            )
            self.end = self.op("Add", self.start, self.sequence)
        value = self.embed()
        if positions := self.positions():
            value = self.op("Add", value, positions)
        for self.layer in range(self.LAYERS):
            value = self.between(self.op("Add", value, self.attention(self.norm(value))))
            wide = self.op("Relu", self.linear(self.norm(value), self.hidden, 3 * self.hidden))
            value = self.op("Add", value, self.linear(wide, 3 * self.hidden, self.hidden))
        self.head(self.last(self.norm(value)))
        for layer, pair in enumerate(self.presents):
            for value, kind in zip(pair, "kv"):
                self.output(value, f"present_{kind}{layer}", self.CACHE)
        graph = helper.make_graph(self.nodes, "gpt", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", self.OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return path

"""Writes a LLaMA-shaped model (RMS norms, rotary embedding, grouped heads, gated MLP) as ONNX.

    python test/Benchmark/llama.py llama.onnx [--layers 126 --hidden 16384 …] [--past]

The file has no weights. It refers to external data that does not exist, which is enough to compile.
The default size is that of the largest LLaMA 3.1: 126 layers, 405 billion parameters.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """Nodes and initializers of one graph; every method returns a value's name."""

    def __init__(self, data_file: str):
        self.data_file = data_file
        self.nodes, self.initializers, self.offset = [], [], 0
        self.constants: dict[bytes, str] = {}

    def op(self, kind: str, *inputs: str, **attributes) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(kind, list(inputs), [name], name=f"node_{name}", **attributes)
        )
        return name

    def constant(self, value, dtype=np.int64) -> str:
        tensor = numpy_helper.from_array(np.array(value, dtype))
        key = tensor.SerializeToString()
        if key not in self.constants:
            tensor.name = self.constants[key] = f"constant_{len(self.constants)}"
            self.initializers.append(tensor)
        return self.constants[key]

    def weight(self, name: str, *shape: int) -> str:
        tensor = TensorProto(
            name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL
        )
        size = 4 * int(np.prod(shape))
        for key, value in (("location", self.data_file), ("offset", self.offset), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        self.offset += size
        self.initializers.append(tensor)
        return name

    def rms_norm(self, x: str, name: str, hidden: int) -> str:
        mean = self.op(
            "ReduceMean",
            self.op("Pow", x, self.constant(2, np.float32)),
            self.constant([-1]),
            keepdims=1,
        )
        root = self.op("Sqrt", self.op("Add", mean, self.constant(1e-5, np.float32)))
        return self.op(
            "Mul", self.weight(name, hidden), self.op("Mul", x, self.op("Reciprocal", root))
        )

    def rotate(self, x: str, cos: str, sin: str, half: int) -> str:
        def part(begin, end):
            return self.op(
                "Slice", x, self.constant([begin]), self.constant([end]), self.constant([3])
            )

        turned = self.op("Concat", self.op("Neg", part(half, 2 * half)), part(0, half), axis=-1)
        return self.op("Add", self.op("Mul", x, cos), self.op("Mul", turned, sin))


def build(
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    vocab: int,
    data_file: str,
    past: bool = False,
) -> onnx.ModelProto:
    """Returns the model. With `past` it has a KV cache under the names that exporters use:
    past_key_values.* and present.*.
    """
    b = Builder(data_file)
    size, group = hidden // heads, heads // kv_heads
    begin, end = b.constant(0), b.op("Squeeze", b.op("Shape", "input_ids", start=1, end=2))
    if past:
        begin = b.op("Squeeze", b.op("Shape", "past_key_values.0.key", start=2, end=3))
        end = b.op("Add", begin, end)
    keys = b.op("Range", b.constant(0), end, b.constant(1))
    positions = b.op("Range", begin, end, b.constant(1)) if past else keys

    # cos and sin of position · frequency, [1, 1, sequence, size].
    frequencies = b.constant(
        (5e5 ** -(np.arange(size // 2) / (size // 2))).reshape(1, size // 2), np.float32
    )
    column = b.op("Unsqueeze", b.op("Cast", positions, to=TensorProto.FLOAT), b.constant([1]))
    angles = b.op("Mul", column, frequencies)
    angles = b.op("Unsqueeze", b.op("Concat", angles, angles, axis=-1), b.constant([0, 1]))
    cos, sin = b.op("Cos", angles), b.op("Sin", angles)

    # Causal: 0 where key <= query.
    allowed = b.op(
        "LessOrEqual",
        b.op("Unsqueeze", keys, b.constant([0])),
        b.op("Unsqueeze", positions, b.constant([1])),
    )
    mask = b.op("Where", allowed, b.constant(0, np.float32), b.constant(-np.inf, np.float32))

    def project(x, name, columns):
        return b.op("MatMul", x, b.weight(name, hidden, columns))

    def by_heads(x, count):
        return b.op(
            "Transpose", b.op("Reshape", x, b.constant([0, 0, count, size])), perm=[0, 2, 1, 3]
        )

    def repeat(x):
        if group == 1:
            return x
        shape = b.op(
            "Concat",
            b.op("Shape", "input_ids", start=0, end=1),
            b.constant([kv_heads, group]),
            b.op("Reshape", end, b.constant([1])),
            b.constant([size]),
            axis=0,
        )
        return b.op(
            "Reshape",
            b.op("Expand", b.op("Unsqueeze", x, b.constant([2])), shape),
            b.constant([0, heads, -1, size]),
        )

    ports = {"past_key_values": [], "present": []}

    def append_to_cache(x, layer, which):
        if not past:
            return x
        names = {kind: f"{kind}.{layer}.{which}" for kind in ports}
        for kind, tokens in (("past_key_values", "past"), ("present", "past + sequence")):
            ports[kind].append(
                helper.make_tensor_value_info(
                    names[kind], TensorProto.FLOAT, ["batch", kv_heads, tokens, size]
                )
            )
        b.nodes.append(
            helper.make_node(
                "Concat",
                [names["past_key_values"], x],
                [names["present"]],
                name=f"cache_{layer}_{which}",
                axis=2,
            )
        )
        return names["present"]

    x = b.op("Gather", b.weight("embed_tokens.weight", vocab, hidden), "input_ids")
    for i in range(layers):
        p = f"layers.{i}."
        y = b.rms_norm(x, p + "input_layernorm.weight", hidden)
        q = b.rotate(by_heads(project(y, p + "q_proj.weight", hidden), heads), cos, sin, size // 2)
        k = b.rotate(
            by_heads(project(y, p + "k_proj.weight", kv_heads * size), kv_heads),
            cos,
            sin,
            size // 2,
        )
        v = by_heads(project(y, p + "v_proj.weight", kv_heads * size), kv_heads)
        k, v = repeat(append_to_cache(k, i, "key")), repeat(append_to_cache(v, i, "value"))
        scores = b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = b.op("Add", b.op("Mul", scores, b.constant(size**-0.5, np.float32)), mask)
        y = b.op(
            "Transpose", b.op("MatMul", b.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3]
        )
        y = b.op("Reshape", y, b.constant([0, 0, hidden]))
        x = b.op("Add", x, b.op("MatMul", y, b.weight(p + "o_proj.weight", hidden, hidden)))
        y = b.rms_norm(x, p + "post_attention_layernorm.weight", hidden)
        gate = project(y, p + "gate_proj.weight", ffn)
        y = b.op(
            "Mul", b.op("Mul", gate, b.op("Sigmoid", gate)), project(y, p + "up_proj.weight", ffn)
        )
        x = b.op("Add", x, b.op("MatMul", y, b.weight(p + "down_proj.weight", ffn, hidden)))
    x = b.rms_norm(x, "norm.weight", hidden)
    b.nodes.append(
        helper.make_node(
            "MatMul", [x, b.weight("lm_head.weight", hidden, vocab)], ["logits"], name="lm_head"
        )
    )

    sizes = ["batch", "sequence"]
    graph = helper.make_graph(
        b.nodes,
        "llama",
        [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, sizes),
            *ports["past_key_values"],
        ],
        [
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, [*sizes, vocab]),
            *ports["present"],
        ],
        b.initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


SHAPE = {"layers": 126, "hidden": 16384, "heads": 128, "kv_heads": 8, "ffn": 53248, "vocab": 128256}


def write(path: Path, past: bool = False, **shape: int) -> Path:
    onnx.save(build(**{**SHAPE, **shape}, past=past, data_file=path.name + ".data"), path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    for name, value in SHAPE.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    parser.add_argument("--past", action="store_true", help="with a KV cache")
    args = vars(parser.parse_args())
    write(args.pop("output"), **args)


if __name__ == "__main__":
    main()

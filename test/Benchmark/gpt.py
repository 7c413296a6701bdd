"""Writes a GPT-shaped model (layer norms, learned positions, GELU) as ONNX, without its weights.

    python test/Benchmark/gpt.py gpt.onnx [--layers 12 --hidden 768 --heads 12]
                                          [--residual serial|parallel|shared …]

Residuals: `serial` is GPT-2's, y = x + attention(norm1(x)), then y + mlp(norm2(y)); `parallel` is
GPT-NeoX's, x + attention(norm1(x)) + mlp(norm2(x)); `shared` is GPT-J's, the same with one norm for
both branches.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from llama import Builder
from onnx import TensorProto, helper

RESIDUALS = ("serial", "parallel", "shared")


def build(
    layers: int,
    hidden: int,
    heads: int,
    ffn: int,
    vocab: int,
    positions: int,
    residual: str,
    data_file: str,
) -> onnx.ModelProto:
    b = Builder(data_file)
    size = hidden // heads
    length = b.op("Squeeze", b.op("Shape", "input_ids", start=1, end=2))
    range_ = b.op("Range", b.constant(0), length, b.constant(1))
    allowed = b.op(
        "LessOrEqual",
        b.op("Unsqueeze", range_, b.constant([0])),
        b.op("Unsqueeze", range_, b.constant([1])),
    )
    mask = b.op("Where", allowed, b.constant(0, np.float32), b.constant(-np.inf, np.float32))

    def norm(x, name):
        return b.op(
            "LayerNormalization",
            x,
            b.weight(f"{name}.weight", hidden),
            b.weight(f"{name}.bias", hidden),
            axis=-1,
            epsilon=1e-5,
        )

    def linear(x, name, rows, columns):
        return b.op(
            "Add",
            b.op("MatMul", x, b.weight(f"{name}.weight", rows, columns)),
            b.weight(f"{name}.bias", columns),
        )

    def attention(x, name):
        def split(part):
            y = b.op(
                "Reshape",
                linear(x, f"{name}.{part}", hidden, hidden),
                b.constant([0, 0, heads, size]),
            )
            return b.op("Transpose", y, perm=[0, 2, 1, 3])

        q, k, v = split("q"), split("k"), split("v")
        scores = b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = b.op("Add", b.op("Div", scores, b.constant(size**0.5, np.float32)), mask)
        mixed = b.op("MatMul", b.op("Softmax", scores, axis=-1), v)
        joined = b.op(
            "Reshape", b.op("Transpose", mixed, perm=[0, 2, 1, 3]), b.constant([0, 0, hidden])
        )
        return linear(joined, f"{name}.proj", hidden, hidden)

    def mlp(x, name):
        return linear(
            b.op("Gelu", linear(x, f"{name}.fc1", hidden, ffn), approximate="tanh"),
            f"{name}.fc2",
            ffn,
            hidden,
        )

    x = b.op(
        "Add",
        b.op("Gather", b.weight("wte", vocab, hidden), "input_ids"),
        b.op("Gather", b.weight("wpe", positions, hidden), range_),
    )
    for i in range(layers):
        name = f"h.{i}"
        y = norm(x, f"{name}.ln_1")
        if residual == "serial":
            x = b.op("Add", x, attention(y, f"{name}.attn"))
            x = b.op("Add", x, mlp(norm(x, f"{name}.ln_2"), f"{name}.mlp"))
        else:
            z = y if residual == "shared" else norm(x, f"{name}.ln_2")
            x = b.op("Add", b.op("Add", mlp(z, f"{name}.mlp"), attention(y, f"{name}.attn")), x)
    b.nodes.append(
        helper.make_node(
            "MatMul", [norm(x, "ln_f"), b.weight("lm_head", hidden, vocab)], ["logits"], name="head"
        )
    )

    graph = helper.make_graph(
        b.nodes,
        "gpt",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence", vocab])],
        b.initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def write(
    path: Path,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    ffn: int = 0,
    vocab: int = 50257,
    positions: int = 1024,
    residual: str = "serial",
) -> Path:
    model = build(
        layers, hidden, heads, ffn or 4 * hidden, vocab, positions, residual, f"{path.name}.data"
    )
    path.write_bytes(model.SerializeToString())
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    for name, value in (
        ("layers", 12),
        ("hidden", 768),
        ("heads", 12),
        ("ffn", 0),
        ("vocab", 50257),
        ("positions", 1024),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--residual", choices=RESIDUALS, default="serial")
    write(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()

"""Small ONNX files of mixtures of experts with random weights.

The forms are com.microsoft.MoE, and torch exports of experts that gather their weights
(`batched_mm` of transformers).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from genai_files import Builder, GenAi


@dataclass(frozen=True)
class Experts(GenAi):
    inner: int = 24
    experts: int = 4
    selected: int = 2  # of each token
    form: str = "microsoft"  # or "mixtral", "gpt_oss"
    activation: str = "silu"
    fused: int = 0  # swiglu_fusion
    bias: bool = False
    normalized: bool = True
    moe: tuple[tuple[str, float], ...] = ()  # other attributes of MoE
    # Added to the router's logits: a large number selects an expert for all tokens.
    router_bias: tuple[float, ...] = field(default=())

    def save(self, path: Path) -> Path:
        onnx.save(ExpertBuilder(self).model(), path)
        return path


class ExpertBuilder(Builder):
    def stack(self, name, *shape):
        return self.tensor(name, shape[-1] ** -0.5 * self.random.standard_normal(shape))

    def vectors(self, name, *shape):
        return self.tensor(name, 0.2 * self.random.standard_normal(shape))

    def router(self, path, x):
        spec = self.spec
        weight = self.tensor(
            f"{path}.router.weight", 0.5 * self.random.standard_normal((spec.hidden, spec.experts))
        )
        logits = self.node("MatMul", f"{path}/router/MatMul", [x, weight])
        if spec.router_bias:
            bias = self.tensor(f"{path}.router.bias", spec.router_bias)
            logits = self.node("Add", f"{path}/router/Add", [logits, bias])
        rows = self.tensor(f"{path}.rows", [-1, spec.experts], np.int64)
        return self.node("Reshape", f"{path}/router/Reshape", [logits, rows])

    def mlp(self, layer, x):
        path = f"/model/layers.{layer}/moe"
        logits = self.router(path, x)
        if self.spec.form == "microsoft":
            return self.microsoft(path, x, logits)
        return self.batched(path, x, logits)

    def microsoft(self, path, x, logits):
        spec = self.spec
        count, hidden, inner = spec.experts, spec.hidden, spec.inner
        width = 2 * inner if spec.activation == "swiglu" else inner
        fc1 = self.stack(f"{path}.fc1", count, width, hidden)
        fc2 = self.stack(f"{path}.fc2", count, hidden, inner)
        inputs = [x, logits, fc1, "", fc2, ""]
        if spec.bias:
            inputs[3] = self.vectors(f"{path}.fc1_bias", count, width)
            inputs[5] = self.vectors(f"{path}.fc2_bias", count, hidden)
        return self.node(
            "MoE",
            f"{path}/MoE",
            inputs,
            "com.microsoft",
            activation_type=spec.activation,
            k=spec.selected,
            normalize_routing_weights=int(spec.normalized),
            **({"swiglu_fusion": spec.fused} if spec.fused else {}),
            **dict(spec.moe),
        )

    def batched(self, path, x, logits):
        """Writes TopK, then a matmul with the gathered weights of each token and expert."""
        spec, k = self.spec, self.spec.selected
        count, hidden, inner = spec.experts, spec.hidden, spec.inner
        is_oss = spec.form == "gpt_oss"
        ints = lambda name, value: self.tensor(f"{path}.{name}", value, np.int64)
        axes = {axis: ints(f"axis{axis}", [axis]) for axis in (-1, 1)}
        node = lambda op, name, inputs, **attributes: self.node(
            op, f"{path}/{name}", inputs, **attributes
        )
        scores = logits if is_oss else node("Softmax", "Softmax", [logits], axis=-1)
        values, ids = f"{path}/values", f"{path}/ids"
        self.node("TopK", f"{path}/TopK", [scores, ints("k", [k])], outputs=[values, ids], axis=-1)
        if is_oss:
            gates = node("Softmax", "gates", [values], axis=-1)
        else:
            total = node("ReduceSum", "total", [values, axes[-1]], keepdims=1)
            gates = node("Div", "gates", [values, total])
        tokens = node("Reshape", "tokens", [x, ints("flat", [-1, hidden])])
        rows = node("Unsqueeze", "rows", [tokens, axes[1]])
        rows = node("Expand", "expanded", [rows, ints("times", [1, k, 1])])
        rows = node("Reshape", "repeated", [rows, ints("flat2", [-1, hidden])])
        ids = node("Unsqueeze", "index", [node("Reshape", "all_ids", [ids, axes[-1]]), axes[-1]])

        def project(name, rows, n, width):
            shape = (count, width, n) if is_oss else (count, n, width)
            w = node("GatherND", f"{name}/weight", [self.stack(f"{path}.{name}", *shape), ids])
            axis = axes[1] if is_oss else axes[-1]
            vector = node("Unsqueeze", f"{name}/vector", [rows, axis])
            y = node("MatMul", name, [vector, w] if is_oss else [w, vector])
            y = node("Squeeze", f"{name}/squeezed", [y, axis])
            if spec.bias:
                bias = self.vectors(f"{path}.{name}_bias", count, n)
                bias = node("GatherND", f"{name}/bias", [bias, ids])
                y = node("Add", f"{name}/sum", [y, bias])
            return y

        both = project("up", rows, 2 * inner, hidden)
        limit = lambda name: self.tensor(f"{path}.{name}", 7.0 if name == "high" else -7.0)
        if is_oss:
            parts = [
                node(
                    "Slice",
                    name,
                    [both, ints(f"from{i}", [i]), ints("end", [2**62]), axes[1], ints("two", [2])]
                    if i == 0
                    else [both, ints(f"from{i}", [i]), f"{path}.end", axes[1], f"{path}.two"],
                )
                for i, name in enumerate(("gate", "linear"))
            ]
            high = limit("high")
            gate = node("Min", "clipped_gate", [parts[0], high])
            linear = node("Clip", "clipped", [parts[1], limit("low"), high])
            alpha = self.tensor(f"{path}.alpha", 1.702)
            scaled = node("Mul", "scaled", [gate, alpha])
            act = node("Mul", "act", [gate, node("Sigmoid", "sigmoid", [scaled])])
            linear = node("Add", "plus", [linear, self.tensor(f"{path}.one", 1.0)])
            h = node("Mul", "h", [linear, act])
        else:
            halves = [f"{path}/gate", f"{path}/linear"]
            self.node("Split", f"{path}/Split", [both], outputs=halves, axis=1, num_outputs=2)
            act = node("Mul", "act", [halves[0], node("Sigmoid", "sigmoid", [halves[0]])])
            h = node("Mul", "h", [act, halves[1]])
        y = project("down", h, hidden, inner)
        column = node("Unsqueeze", "column", [node("Reshape", "all", [gates, axes[-1]]), axes[-1]])
        y = node("Mul", "weighted", [y, column])
        y = node("Reshape", "by_token", [y, ints("tk", [-1, k, hidden])])
        y = node("ReduceSum", "result", [y, axes[1]], keepdims=0)
        shape = self.node("Shape", f"{path}/Shape", [x])
        return node("Reshape", "as_x", [y, shape])


def single(spec: Experts) -> onnx.ModelProto:
    """Returns one mixture of experts of x [tokens, hidden]. The router's logits are an input."""
    builder = ExpertBuilder(spec)
    layer = builder.microsoft if spec.form == "microsoft" else builder.batched
    y = builder.node("Identity", "y", [layer("moe", "x", "logits")], outputs=["y"])
    builder.node("Identity", "kept", ["x"], outputs=["z"])  # ONNX Runtime overwrites x otherwise
    info = helper.make_tensor_value_info
    ports = [
        info("x", builder.kind, ["tokens", spec.hidden]),
        info("logits", builder.kind, ["tokens", spec.experts]),
    ]
    results = [
        info(y, builder.kind, ["tokens", spec.hidden]),
        info("z", builder.kind, ["tokens", spec.hidden]),
    ]
    graph = helper.make_graph(builder.nodes, "experts", ports, results, builder.tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def inputs(spec, tokens, past, batch):
    random = np.random.default_rng(3)
    shape = (batch, spec.kv_heads, past, spec.size)
    return {
        f"past_key_values.{layer}.{part}": random.standard_normal(shape).astype(np.float32)
        for layer in range(spec.layers)
        for part in ("key", "value")
    } | {
        "input_ids": random.integers(0, spec.vocab, (batch, tokens)),
        "attention_mask": np.ones((batch, tokens + past), np.int64),
    }


def save_with_router(spec: Experts, path: Path) -> dict[str, np.ndarray]:
    """Writes one mixture of experts of x [batch, sequence, hidden], with its router. Returns its
    weights.
    """
    builder, info = ExpertBuilder(spec), helper.make_tensor_value_info
    y = builder.microsoft("moe", "x", builder.router("moe", "x"))
    builder.node("Identity", "y", [y], outputs=["y"])
    shape = ["batch", "sequence", spec.hidden]
    ports = [info("x", builder.kind, shape)], [info("y", builder.kind, shape)]
    graph = helper.make_graph(builder.nodes, "experts", *ports, builder.tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return {t.name: onnx.numpy_helper.to_array(t) for t in builder.tensors}

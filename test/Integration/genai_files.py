"""ONNX files with the nodes that onnxruntime-genai's model builder writes, small and random.

One GroupQueryAttention node per layer, whose numbers of past tokens follow from the mask, and norms
that are fused with residual sums (SkipSimplifiedLayerNormalization).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class GenAi:
    layers: int = 2
    hidden: int = 32
    heads: int = 4
    kv_heads: int = 2
    size: int = 16
    inner: int = 48
    vocab: int = 80
    positions: int = 64
    half: bool = False
    packed: bool = True
    embeds: bool = False
    head_norms: bool = False  # Qwen3: norms of each head of queries and keys
    rotary: int = 16
    windows: tuple[int, ...] = (-1,)  # windows of the layers, in turn; -1: none
    # Layers with windows: attribute sliding_window_cache; their caches have a size of their own.
    sliding: bool = False
    attributes: tuple[tuple[str, float], ...] = ()

    def save(self, path: Path) -> Path:
        onnx.save(Builder(self).model(), path)
        return path


class Builder:
    def __init__(self, spec: GenAi):
        self.spec, self.random = spec, np.random.default_rng(7)
        self.kind = TensorProto.FLOAT16 if spec.half else TensorProto.FLOAT
        self.element = np.float16 if spec.half else np.float32
        self.nodes, self.tensors = [], []

    def node(self, op, name, inputs, domain="", outputs=None, **attributes):
        outputs = outputs or [f"{name}/output_0"]
        self.nodes.append(helper.make_node(op, inputs, outputs, name, domain=domain, **attributes))
        return outputs[0]

    def tensor(self, name, value, element=None):
        self.tensors.append(
            numpy_helper.from_array(np.asarray(value, element or self.element), name)
        )
        return name

    def weight(self, name, *shape):
        scale = shape[0] ** -0.5 if len(shape) > 1 else 0.2
        shift = 0 if len(shape) > 1 else 1
        return self.tensor(name, shift + scale * self.random.standard_normal(shape))

    def matmul(self, name, x, *shape):
        return self.node("MatMul", f"{name}/MatMul", [x, self.weight(f"{name}.weight", *shape)])

    def lengths(self):
        """Returns seqlens_k and total_sequence_length of the mask."""
        path, spec = "/model/attn_mask_reformat", TensorProto.INT32
        axis = self.tensor("/model/constants/INT64/[1]", [1], np.int64)
        one = self.tensor("/model/constants/INT64/1", 1, np.int64)
        count = self.node("ReduceSum", f"{path}/ReduceSum", ["attention_mask", axis], keepdims=0)
        last = self.node("Sub", f"{path}/Sub", [count, axis])
        shape = self.node("Shape", f"{path}/Shape", ["attention_mask"])
        total = self.node("Gather", f"{path}/Gather", [shape, one], axis=0)
        return (
            self.node("Cast", f"{path}/Sub/Cast", [last], to=spec),
            self.node("Cast", f"{path}/Gather/Cast", [total], to=spec),
        )

    def head_norm(self, name, x, heads):
        size = self.spec.size
        split = self.tensor(f"{name}.split", [0, -1, size], np.int64)
        whole = self.tensor(f"{name}.whole", [0, -1, heads * size], np.int64)
        x = self.node("Reshape", f"{name}/Reshape_1", [x, split])
        scale = self.weight(f"{name}.weight", size)
        x = self.node("SimplifiedLayerNormalization", f"{name}/Norm", [x, scale], epsilon=1e-6)
        return self.node("Reshape", f"{name}/Reshape_2", [x, whole])

    def window(self, layer):
        return self.spec.windows[layer % len(self.spec.windows)]

    def slides(self, layer):
        return self.spec.sliding and self.window(layer) > 0

    def attention(self, layer, x):
        spec, path = self.spec, f"/model/layers.{layer}/attn"
        q, kv = spec.heads * spec.size, spec.kv_heads * spec.size
        if spec.packed:
            parts = [self.matmul(f"{path}/qkv_proj", x, spec.hidden, q + 2 * kv), "", ""]
        else:
            parts = [
                self.matmul(f"{path}/{part}_proj", x, spec.hidden, width)
                for part, width in (("q", q), ("k", kv), ("v", kv))
            ]
        if spec.head_norms:
            parts[0] = self.head_norm(f"{path}/q_norm", parts[0], spec.heads)
            parts[1] = self.head_norm(f"{path}/k_norm", parts[1], spec.kv_heads)
        caches = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        outputs = [f"{path}/y", f"present.{layer}.key", f"present.{layer}.value"]
        sliding = {"sliding_window_cache": 1} if self.slides(layer) else {}
        y = self.node(
            "GroupQueryAttention",
            f"{path}/GroupQueryAttention",
            [*parts, *caches, self.last, self.total, "cos_cache", "sin_cache"],
            "com.microsoft",
            outputs,
            num_heads=spec.heads,
            kv_num_heads=spec.kv_heads,
            do_rotary=1,
            local_window_size=self.window(layer),
            **dict(spec.attributes),
            **sliding,
        )
        return self.matmul(f"{path}/o_proj", y, q, spec.hidden)

    def mlp(self, layer, x):
        spec, path = self.spec, f"/model/layers.{layer}/mlp"
        gate = self.matmul(f"{path}/gate_proj", x, spec.hidden, spec.inner)
        up = self.matmul(f"{path}/up_proj", x, spec.hidden, spec.inner)
        act = self.node("Sigmoid", f"{path}/act_fn/Sigmoid", [gate])
        act = self.node("Mul", f"{path}/act_fn/Mul", [gate, act])
        y = self.node("Mul", f"{path}/Mul", [act, up])
        return self.matmul(f"{path}/down_proj", y, spec.inner, spec.hidden)

    def skip_norm(self, name, residual, x):
        """Returns the norm of residual + x, and the sum."""
        scale = self.weight(f"{name}.weight", self.spec.hidden)
        outputs = [f"{name}/output_0", "", "", f"{name}/output_3"]
        self.node(
            "SkipSimplifiedLayerNormalization",
            f"{name}/SkipLayerNorm",
            [residual, x, scale],
            "com.microsoft",
            outputs,
            epsilon=1e-6,
        )
        return outputs[0], outputs[3]

    def model(self):
        spec = self.spec
        angles = np.arange(spec.positions)[:, None] * 0.1 ** np.arange(spec.rotary // 2)
        self.tensor("cos_cache", np.cos(angles))
        self.tensor("sin_cache", np.sin(angles))
        self.last, self.total = self.lengths()
        residual = "inputs_embeds"
        if not spec.embeds:
            table = self.weight("model.embed_tokens.weight", spec.vocab, spec.hidden)
            residual = self.node("Gather", "/model/embed_tokens/Gather", [table, "input_ids"])
        scale = self.weight("model.layers.0.input_layernorm.weight", spec.hidden)
        x = self.node(
            "SimplifiedLayerNormalization",
            "/model/layers.0/input_layernorm/LayerNorm",
            [residual, scale],
            axis=-1,
            epsilon=1e-6,
            stash_type=1,
        )
        for layer in range(spec.layers):
            path = f"/model/layers.{layer}"
            y = self.attention(layer, x)
            x, residual = self.skip_norm(f"{path}/post_attention_layernorm", residual, y)
            y = self.mlp(layer, x)
            x, residual = self.skip_norm(f"{path}/next_layernorm", residual, y)
        weight = self.weight("lm_head.MatMul.weight", spec.hidden, spec.vocab)
        self.node("MatMul", "/lm_head/MatMul", [x, weight], outputs=["logits"])
        return self.finish()

    def finish(self):
        spec, info = self.spec, helper.make_tensor_value_info
        tokens = ["batch_size", "sequence_length"]
        inputs = [
            (
                info("inputs_embeds", self.kind, [*tokens, spec.hidden])
                if spec.embeds
                else info("input_ids", TensorProto.INT64, tokens)
            ),
            info("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"]),
        ]
        outputs = [info("logits", self.kind, [*tokens, spec.vocab])]
        for layer in range(spec.layers):
            size = "sliding_length" if self.slides(layer) else "sequence_length"
            for part in ("key", "value"):
                for ports, name, length in (
                    (inputs, "past_key_values", f"past_{size}"),
                    (outputs, "present", f"total_{size}"),
                ):
                    shape = ["batch_size", spec.kv_heads, length, spec.size]
                    ports.append(info(f"{name}.{layer}.{part}", self.kind, shape))
        graph = helper.make_graph(self.nodes, "genai", inputs, outputs, self.tensors)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

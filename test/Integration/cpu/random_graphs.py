"""Random transformer-like graphs, written with onnx's helper functions in the style of exporters.

A graph is a Spec of plain numbers and words. A failure prints it on one line, from which the graph
is rebuilt and reduced field by field. `draw` draws a Spec; `build` writes the ONNX file;
`make_inputs` makes its inputs.
"""

from __future__ import annotations

import dataclasses

import numpy as np

import random_chains
from graph_writer import Writer
from random_chains import Context, Value

from random_specs import (
    BATCH,
    Layer,
    PAST,
    POSITIONS,
    SEQUENCE,
    Spec,
    draw,
    draw_shapes,
)  # noqa: F401

# ------------------------------------------------------------------------------------------------
# Building
# ------------------------------------------------------------------------------------------------


def linear(
    w: Writer,
    spec: Spec,
    layer: Layer,
    x: str,
    inputs: int,
    outputs: int,
    name: str,
    bias: bool | None = None,
) -> str:
    bias = layer.bias if bias is None else bias
    vector = None
    if bias:
        vector = (
            w.zeros(f"zero_{outputs}", outputs)
            if spec.zero_bias
            else w.vector(f"{name}.bias", outputs)
        )
    matrix = w.matrix(f"{name}.weight", inputs, outputs, transposed=layer.linear != "matmul")
    if layer.linear == "gemm":
        rows = w.reshape(x, [-1, inputs])
        out = w("Gemm", rows, matrix, *([vector] if vector else []), transB=1)
        return w.reshape_like_rows(out, x, outputs)
    if layer.linear == "transpose":
        matrix = w("Transpose", matrix, perm=[1, 0])
    out = w("MatMul", x, matrix)
    if not vector:
        return out
    # Exporters write the bias as either operand.
    return w("Add", vector, out) if len(name) % 2 else w("Add", out, vector)


def norm(w: Writer, kind: str, x: str, size: int, name: str) -> str:
    if kind == "none":
        return x
    scale = w.vector(f"{name}.weight", size, mean=1.0)
    if kind == "layer":
        return w(
            "LayerNormalization", x, scale, w.vector(f"{name}.bias", size), axis=-1, epsilon=1e-5
        )
    if kind == "layer_spelled":
        center = w("Sub", x, w("ReduceMean", x, w.ints([-1]), keepdims=1))
        variance = w("ReduceMean", w("Pow", center, w.number(2.0)), w.ints([-1]), keepdims=1)
        x = w("Div", center, w("Sqrt", w("Add", variance, w.number(1e-5))))
        return w("Add", w("Mul", x, scale), w.vector(f"{name}.bias", size))
    square = w("Mul", x, x) if kind == "rms" else w("Pow", x, w.number(2.0))
    root = w("Sqrt", w("Add", w("ReduceMean", square, w.ints([-1]), keepdims=1), w.number(1e-6)))
    x = w("Div", x, root) if kind == "rms" else w("Mul", x, w("Reciprocal", root))
    return w("Mul", scale, x)


def activation(w: Writer, kind: str, x: str) -> str:
    if kind == "gelu_erf":
        return w(
            "Mul",
            w("Mul", x, w("Add", w("Erf", w("Div", x, w.number(2**0.5))), w.number(1.0))),
            w.number(0.5),
        )
    if kind in ("gelu_tanh", "gelu_cube"):
        cube = w("Pow", x, w.number(3.0)) if kind == "gelu_tanh" else w("Mul", w("Mul", x, x), x)
        inner = w(
            "Mul", w("Add", x, w("Mul", cube, w.number(0.044715))), w.number((2 / np.pi) ** 0.5)
        )
        return w("Mul", w("Mul", x, w.number(0.5)), w("Add", w("Tanh", inner), w.number(1.0)))
    if kind == "silu":
        return w("Mul", x, w("Sigmoid", x))
    return w("Relu", x) if kind == "relu" else w("Gelu", x)


def mlp(w: Writer, spec: Spec, layer: Layer, x: str, name: str) -> str:
    h, f = spec.hidden, layer.ffn
    if layer.mlp == "swiglu_fused":
        both = linear(w, spec, layer, x, h, 2 * f, f"{name}.gate_up")
        gate, up = w.split(both, [f, f], -1)
        y = w("Mul", activation(w, "silu", gate), up)
    elif layer.mlp in ("swiglu", "geglu"):
        gate = linear(w, spec, layer, x, h, f, f"{name}.gate")
        up = linear(w, spec, layer, x, h, f, f"{name}.up")
        y = w("Mul", activation(w, "silu" if layer.mlp == "swiglu" else "gelu", gate), up)
    else:
        y = activation(w, layer.mlp, linear(w, spec, layer, x, h, f, f"{name}.fc"))
    w.inner = y
    if layer.wide_norm == "sub" and f > 5:
        y = norm(w, layer.norm, y, f, f"{name}.sub")
    return linear(w, spec, layer, y, f, h, f"{name}.proj")


def project(w: Writer, spec: Spec, layer: Layer, x: str, name: str) -> tuple[str, str, str]:
    """Returns q [b, s, heads, d], k and v [b, s, kv, d], for every family's order of columns."""
    h, H, K, d = spec.hidden, layer.heads, layer.kv, layer.size
    if layer.attention == "separate":
        return tuple(
            w.reshape(linear(w, spec, layer, x, h, n * d, f"{name}.{part}"), [0, 0, n, d])
            for part, n in (("q", H), ("k", K), ("v", K))
        )
    fused = linear(w, spec, layer, x, h, (H + 2 * K) * d, f"{name}.qkv")
    if layer.clip:
        fused = w("Min", w("Max", fused, w.number(-1.5)), w.number(1.5))
    if layer.attention in ("gpt2", "phi3"):  # all q, all k, all v
        parts = (
            w.split(fused, [H * d, K * d, K * d], -1)
            if layer.attention == "gpt2"
            else [
                w.slice(fused, a * d, b * d, -1)
                for a, b in ((0, H), (H, H + K), (H + K, H + 2 * K))
            ]
        )
        return tuple(w.reshape(part, [0, 0, n, d]) for part, n in zip(parts, (H, K, K)))
    if layer.attention == "neox":  # per head: its q, k and v
        heads = w.reshape(fused, [0, 0, H, 3 * d])
        return tuple(w.slice(heads, i * d, (i + 1) * d, -1) for i in range(3))
    if layer.attention == "bloom":  # [h, 3, d]
        heads = w.reshape(fused, [0, 0, H, 3, d])
        return tuple(w("Gather", heads, w.scalar(i), axis=3) for i in range(3))
    if layer.attention == "codegen":  # blocks of heads, in each: q, v, k
        blocks = next(n for n in (2, 3, 1) if H % n == 0 and (H > n or n == 1))
        parts = w.split(
            w.reshape(fused, [0, 0, blocks, 3 * (H // blocks) * d]), [H // blocks * d] * 3, -1
        )
        q, v, k = (
            w.reshape(w.reshape(part, [0, 0, blocks, H // blocks, d]), [0, 0, H, d])
            for part in parts
        )
        return q, k, v
    assert layer.attention == "falcon", layer.attention  # per kv head: its q heads, k, v
    G = H // K
    groups = w.reshape(fused, [0, 0, K, G + 2, d])
    q = w.reshape(w.slice(groups, 0, G, 3), [0, 0, H, d])
    k, v = (w.reshape(w.slice(groups, G + i, G + i + 1, 3), [0, 0, K, d]) for i in range(2))
    return q, k, v


def rotate(w: Writer, layer: Layer, x: str) -> str:
    """Rotates x [b, heads, s, d]."""
    d = layer.size
    r = d // 4 * 2 if layer.rotary == "partial" else d
    part, rest = (w.slice(x, 0, r, -1), w.slice(x, r, d, -1)) if r < d else (x, None)
    cos, sin = w.rotary_tables(r, interleaved=layer.rotary == "interleaved")
    if layer.rotary == "interleaved":
        even, odd = w.slice(part, 0, r, -1, step=2), w.slice(part, 1, r, -1, step=2)
        pairs = [
            w("Unsqueeze", v, w.ints([-1]))
            for v in (
                w("Sub", w("Mul", even, cos), w("Mul", odd, sin)),
                w("Add", w("Mul", odd, cos), w("Mul", even, sin)),
            )
        ]
        turned = w.reshape(w("Concat", *pairs, axis=-1), [0, 0, 0, r])
    else:
        turned = w(
            "Concat", w("Neg", w.slice(part, r // 2, r, -1)), w.slice(part, 0, r // 2, -1), axis=-1
        )
        turned = w("Add", w("Mul", part, cos), w("Mul", turned, sin))
    return w("Concat", turned, rest, axis=-1) if rest else turned


def attend(w: Writer, spec: Spec, layer: Layer, q: str, k: str, v: str) -> str:
    """Returns attention of q [b, heads, s, d], k and v [b, kv, s, d], with the shape of q."""
    H, K, d = layer.heads, layer.kv, layer.size
    if layer.core == "op":
        # is_causal does not support earlier tokens.
        causal = spec.mask == "causal" and not spec.cache and not layer.window
        mask = [w.full_mask(spec, layer.window)] if spec.mask != "none" and not causal else []
        return w("Attention", q, k, v, *mask, is_causal=int(causal))
    G = H // K
    product = G > 1 and layer.repeat == "product"
    if product:
        q = w.reshape(q, [0, K, G, -1, d])
        k, v = w("Unsqueeze", k, w.ints([2])), w("Unsqueeze", v, w.ints([2]))
    elif G > 1:
        k, v = w.repeat_heads(k, K, G, d), w.repeat_heads(v, K, G, d)
    last = [0, 1, 2, 4, 3] if product else [0, 1, 3, 2]
    root = d**0.5
    if layer.scale == "query":
        q = w("Mul", q, w.number(1 / root))
    elif layer.scale == "both":
        q, k = w("Mul", q, w.number(root**-0.5)), w("Mul", k, w.number(root**-0.5))
    scores = w("MatMul", q, w("Transpose", k, perm=last))
    if layer.scale == "after":
        scores = w("Mul", scores, w.number(1 / root))
    elif layer.scale == "divide":
        scores = w("Div", scores, w.number(root))
    if layer.slopes != "none":
        slopes = (
            (2.0 ** (-8 * (np.arange(H) + 1) / H))
            .astype(np.float32)
            .reshape([K, G, 1, 1] if product else [H, 1, 1])
        )
        scores = w(
            "Add",
            scores,
            w("Mul", w.tensor(f"slopes_{H}_{product}", slopes), w.distances(layer.slopes == "key")),
        )
    if spec.mask != "none":
        mask = w.mask(spec, layer.window)
        if product:
            mask = w("Unsqueeze", mask, w.ints([1]))
        if spec.masking == "where":
            # Without norms, scores may be below -1e9. A mask of -1e9 then hides a key only in tpc
            # (docs/design/onnx-differences.md).
            low = -1e9 if layer.norm != "none" else float(np.finfo(np.float32).min)
            scores = w("Where", mask, scores, w.number(low if "padded" in spec.mask else -np.inf))
        else:
            low = float(np.finfo(np.float32).min)
            scores = w("Add", scores, w("Where", mask, w.number(0.0), w.number(low)))
    out = w("MatMul", w("Softmax", scores, axis=-1), v)
    return w.reshape(out, [0, H, -1, d]) if product else out


def attention(w: Writer, spec: Spec, layer: Layer, x: str, name: str) -> str:
    H, K, d = layer.heads, layer.kv, layer.size
    q, k, v = project(w, spec, layer, x, name)
    if layer.qk_norm:
        q, k = norm(w, "rms", q, d, f"{name}.q_norm"), norm(w, "rms", k, d, f"{name}.k_norm")
    if layer.wide_norm == "qk":
        q, k = (
            w.reshape(
                norm(w, "rms", w.reshape(part, [0, 0, n * d]), n * d, f"{name}.{label}_norm"),
                [0, 0, n, d],
            )
            for part, n, label in ((q, H, "q_all"), (k, K, "k_all"))
        )
    q, k, v = (w("Transpose", part, perm=[0, 2, 1, 3]) for part in (q, k, v))
    if layer.repeat == "early" and H > K and not spec.cache and spec.extra != "keys":
        k, v = w.repeat_heads(k, K, H // K, d), w.repeat_heads(v, K, H // K, d)
        layer = dataclasses.replace(layer, kv=H)
    if layer.rotary != "none":
        q, k = rotate(w, layer, q), rotate(w, layer, k)
    if spec.cache:
        k, v = w.with_past(k, "key", K, d), w.with_past(v, "value", K, d)
    w.keys = k
    y = w("Transpose", attend(w, spec, layer, q, k, v), perm=[0, 2, 1, 3])
    y = w.reshape(y, [0, 0, H * d])
    if layer.wide_norm == "sub":
        y = norm(w, "rms_spelled", y, H * d, f"{name}.sub")
    return linear(w, spec, layer, y, H * d, spec.hidden, f"{name}.o")


def block(w: Writer, spec: Spec, layer: Layer, x: str, name: str) -> str:
    parts = [
        part for part, kind in ((attention, layer.attention), (mlp, layer.mlp)) if kind != "none"
    ]

    def normalized(v: str, where: str, label: str) -> str:
        return (
            norm(w, layer.norm, v, spec.hidden, f"{name}.{label}")
            if layer.place in (where, "both")
            else v
        )

    if layer.parallel and len(parts) == 2 and layer.place == "pre":
        n = normalized(x, "pre", "ln")
        return w(
            "Add",
            w(
                "Add",
                mlp(w, spec, layer, n, f"{name}.mlp"),
                attention(w, spec, layer, n, f"{name}.attn"),
            ),
            x,
        )
    for part in parts:
        label = part.__name__
        y = part(w, spec, layer, normalized(x, "pre", f"{label}.ln"), f"{name}.{label}")
        if layer.place == "both":
            y = normalized(y, "both", f"{label}.ln_out")
        x = w("Add", x, y)
        if layer.place == "post":
            x = normalized(x, "post", f"{label}.ln")
    return x


def head(w: Writer, spec: Spec, x: str, table: str | None) -> None:
    if spec.head == "none":
        w.output("last", w("Identity", x), [BATCH, SEQUENCE, spec.hidden])
        return
    matrix = (
        w("Transpose", table, perm=[1, 0])
        if spec.tied
        else w.matrix("head.weight", spec.hidden, spec.vocab)
    )
    logits = w("MatMul", x, matrix)
    full = [BATCH, SEQUENCE, spec.vocab]
    if spec.head == "logits":
        w.output("logits", logits, full)
    elif spec.head == "argmax":
        w.output("best", w("ArgMax", logits, axis=-1, keepdims=0), [BATCH, SEQUENCE], integers=True)
        w.reference_only("logits", logits, full)
    elif spec.head == "softmax":
        w.output("probabilities", w("Softmax", logits, axis=-1), full)
    else:
        logs = w("LogSoftmax", logits, axis=-1)
        if spec.head == "log_softmax":
            w.output("log_probabilities", logs, full)
        else:
            w.input("labels", [BATCH, SEQUENCE])
            picked = w("GatherElements", logs, w("Unsqueeze", "labels", w.ints([-1])), axis=-1)
            w.output("losses", w("Neg", w("Squeeze", picked, w.ints([-1]))), [BATCH, SEQUENCE])


def add_chains(w: Writer, spec: Spec, after: int, stream: Value) -> Value:
    for index, chain in enumerate(spec.chains):
        if min(chain.at, spec.depth) == after:
            stream = random_chains.run(Context(w, chain, index), stream)
    return stream


def build(spec: Spec) -> Writer:
    """Returns the writer of the graph. Writer.model creates the model, with or without the outputs
    that only the comparison of other outputs needs.
    """
    w = Writer(spec)
    table = None
    if spec.ids:
        w.input("input_ids", [BATCH, SEQUENCE])
        table = w.matrix("embed.weight", spec.vocab, spec.hidden, fan_in=1)
        x = w("Gather", table, "input_ids", axis=0)
    else:
        w.input("hidden_states", [BATCH, SEQUENCE, spec.hidden], integers=False)
        x = "hidden_states"
    w.source = "input_ids" if spec.ids else "hidden_states"
    w.sources |= {BATCH: (w.source, 0), SEQUENCE: (w.source, 1)}
    caches = spec.cache and any(layer.attention != "none" for layer in spec.used)
    if caches:
        for i, layer in enumerate(spec.used):
            for part in ("key", "value") if layer.attention != "none" else ():
                w.input(f"past.{i}.{part}", [BATCH, layer.kv, PAST, layer.size], integers=False)
                w.past = f"past.{i}.{part}"
    if spec.positions != "none":
        rows = w.matrix("positions.weight", POSITIONS, spec.hidden, fan_in=1)
        if spec.positions == "given":
            w.input("position_ids", [BATCH, SEQUENCE])
            x = w("Add", x, w("Gather", rows, "position_ids", axis=0))
        else:
            x = w("Add", x, w("Gather", rows, w.positions(), axis=0))
    if "padded" in spec.mask and any(layer.attention != "none" for layer in spec.used):
        w.input("attention_mask", [BATCH, f"{PAST} + {SEQUENCE}" if caches else SEQUENCE])
    # Without layers, the hidden states are small multiples of 1/4, like all values of chains.
    start = Value(
        x,
        ((BATCH,), (SEQUENCE,), (spec.hidden,)),
        "float32",
        *((4.0, 0.25) if spec.depth == 0 else ()),
    )
    stream = add_chains(w, spec, 0, start)
    x = stream.name
    for i in range(spec.depth):
        layer = spec.layer(i)
        name = f"h.{i % len(spec.layers) if spec.shared else i}"
        w.layer = i
        x = block(w, spec, layer, x, name)
        if (
            spec.extra == "hidden"
            or (spec.extra == "keys" and layer.attention == "none")
            or (spec.extra == "inner" and layer.mlp == "none")
        ):
            w.output(f"hidden.{i}", w("Identity", x), [BATCH, SEQUENCE, spec.hidden])
        elif spec.extra == "keys":
            w.output(
                f"keys.{i}", w("Identity", w.keys), [BATCH, layer.kv, f"keys_of_{i}", layer.size]
            )
        elif spec.extra == "inner":
            w.output(f"inner.{i}", w("Identity", w.inner), [BATCH, SEQUENCE, layer.ffn])
        stream = add_chains(w, spec, i + 1, stream.rounded(x))
        x = stream.name
    w.loose = stream.loose
    if spec.final_norm:
        x = norm(w, spec.layer(0).norm, x, spec.hidden, "ln_f")
    head(w, spec, x, table)
    return w

"""Specifications of random graphs, and their random choice."""

from __future__ import annotations

import dataclasses
import json
import random
from dataclasses import dataclass


import random_chains
from random_chains import Chain

BATCH, SEQUENCE, PAST = "batch", "sequence", "past"
# Rows of a table of learned positions; sequences are shorter.
POSITIONS = 16


@dataclass(frozen=True)
class Layer:
    """One kind of layer. `attention` and `mlp` may be "none", but not both."""

    attention: str = "separate"  # form of the projections to q, k and v: see draw_layer()
    heads: int = 2
    kv: int = 2
    size: int = 4  # size of a head
    rotary: str = "none"  # none, half, partial, interleaved
    # Repetition of kv heads: expand, product, early (expand before a rotary embedding).
    repeat: str = "expand"
    qk_norm: bool = False
    core: str = "matmul"  # matmul, or op: one Attention op (opset 23)
    scale: str = "after"  # position of the factor 1/sqrt(size): after, divide, query, both, none
    mlp: str = "gelu_erf"
    ffn: int = 8
    norm: str = "layer"  # layer, layer_spelled, rms, rms_spelled, none
    place: str = "pre"  # position of the norms: pre, post, both
    parallel: bool = False  # attention and MLP read the same hidden states and are added together
    bias: bool = True
    linear: str = "matmul"  # form of a matmul: matmul, transpose, gemm
    wide_norm: str = (
        "none"  # norms over what tp splits: none, qk (all heads), sub (operands of o and proj)
    )
    clip: bool = False  # q, k and v are clipped before they are separated
    window: int = 0  # number of visible keys if causal; 0 for all
    slopes: str = "none"  # ALiBi slopes times the key's position or distance: none, key, distance


@dataclass(frozen=True)
class Spec:
    layers: tuple[Layer, ...] = (Layer(),)  # kinds of layers, in turn
    depth: int = 1
    seed: int = 0  # seed of the weights
    hidden: int = 8
    vocab: int = 11
    ids: bool = True  # whether the input is ids; otherwise it is hidden states
    tied: bool = False
    head: str = "logits"  # none, logits, softmax, log_softmax, argmax, loss
    positions: str = "none"  # none, learned, given (position_ids)
    mask: str = "causal"  # none, causal, padded (attention_mask), causal_padded
    masking: str = "add"  # add, where
    extra: str = "none"  # additional outputs of layers: none, hidden, keys, inner (of MLPs)
    cache: bool = False  # caches: past keys and values are inputs, and all are outputs
    final_norm: bool = True
    zero_bias: bool = False  # one zero vector is the bias of all matmuls with results of its size
    shared: bool = False  # all layers share their weights
    sizes: str = "static"  # reshapes by constants with 0 and -1, or by computed sizes
    store: str = "initializer"  # storage of constants and weights: initializer, node, mixed
    outputs: str = "plain"  # plain, shuffled, direct (named by the node that makes them), twice
    chains: tuple[Chain, ...] = ()

    @property
    def opset(self) -> int:
        return 23 if any(layer.core == "op" for layer in self.layers) else 20

    def layer(self, index: int) -> Layer:
        return self.layers[index % len(self.layers)]

    @property
    def used(self) -> list[Layer]:
        return [self.layer(i) for i in range(self.depth)]

    def json(self) -> dict:
        """Returns the fields that differ from the defaults."""

        def plain(value, base):
            return {
                f.name: getattr(value, f.name)
                for f in dataclasses.fields(value)
                if getattr(value, f.name) != getattr(base, f.name)
            }

        fields = plain(self, Spec())
        if "layers" in fields:
            fields["layers"] = [plain(layer, Layer()) for layer in self.layers]
        if "chains" in fields:
            fields["chains"] = [chain.json() for chain in self.chains]
        return fields

    @staticmethod
    def parse(fields: dict) -> Spec:
        fields = dict(fields)
        if "layers" in fields:
            fields["layers"] = tuple(Layer(**layer) for layer in fields["layers"])
        fields["chains"] = tuple(Chain.parse(chain) for chain in fields.get("chains", ()))
        return Spec(**fields)

    def __str__(self) -> str:
        return json.dumps(self.json(), separators=(",", ":"))


# ------------------------------------------------------------------------------------------------
# Drawing
# ------------------------------------------------------------------------------------------------

FUSED_EVEN = ("gpt2", "neox", "bloom", "codegen")  # equally many kv heads and query heads
FUSED_GROUPED = ("falcon", "phi3")


def draw_layer(r: random.Random) -> Layer:
    attention = r.choice(
        ("separate", "separate", "separate", *FUSED_EVEN, *FUSED_GROUPED, *FUSED_GROUPED, "none")
    )
    kv = r.choice((1, 1, 2, 2, 3, 4, 5, 6))
    group = 1 if attention in FUSED_EVEN else r.choice((1, 1, 2, 2, 3, 4))
    size = r.choice((1, 2, 3, 4, 4, 6, 8))
    rotary = r.choice(("none", "none", "half", "interleaved", "partial"))
    if size % 2 or (rotary == "partial" and size < 4):
        rotary = "none"
    core = r.choice(("matmul",) * 5 + ("op",))
    repeat = r.choice(("expand", "expand", "product"))
    mlp = r.choice(
        (
            "gelu_erf",
            "gelu_tanh",
            "gelu_cube",
            "gelu",
            "relu",
            "silu",
            "swiglu",
            "swiglu_fused",
            "geglu",
            "none",
        )
    )
    if mlp == "none" and attention == "none":
        mlp = "gelu_erf"
    norm = r.choice(("layer", "layer", "layer_spelled", "rms", "rms_spelled", "none"))
    # A norm over one element is the element's sign, which rounding may flip.
    qk_norm = r.random() < 0.1 and size > 2
    return Layer(
        attention,
        kv * group,
        kv,
        size,
        rotary,
        repeat,
        qk_norm,
        core,
        r.choice(("after", "divide", "query", "both", "none")),
        mlp,
        r.choice((1, 2, 3, 5, 8, 12, 17)),
        norm,
        r.choice(("pre", "pre", "pre", "post", "both")),
        r.random() < 0.25,
        r.random() < 0.7,
        r.choice(("matmul", "matmul", "transpose", "gemm")),
    )


def draw(seed: int) -> Spec:
    return draw_chains(random.Random(seed ^ 0xC4A1), draw_transformer(seed))


def draw_chains(r: random.Random, spec: Spec) -> Spec:
    """Adds chains to three of five graphs, which then have few or no layers."""
    changes = {
        "store": r.choice(("initializer", "initializer", "node", "mixed")),
        "outputs": r.choice(("plain", "shuffled", "direct", "twice")),
    }
    if r.random() < 0.6:
        depth = r.choice((0, 0, 0, 0, 1, 1, 2)) if spec.depth < 4 else spec.depth
        chains = tuple(
            random_chains.draw_chain(r, depth) for _ in range(r.choice((1, 1, 1, 2, 2, 3)))
        )
        changes |= {"depth": depth, "chains": chains, "final_norm": spec.final_norm and depth > 0}
    return dataclasses.replace(spec, **changes)


def draw_transformer(seed: int) -> Spec:
    r = random.Random(seed)
    kinds = r.choice((1, 1, 1, 2))
    depth = r.choice((1, 1, 2, 2, 3, 4))
    layers = tuple(draw_layer(r) for _ in range(kinds))
    more = random.Random(f"more {seed}")  # separate, so that draws from `r` stay the same
    layers = tuple(
        dataclasses.replace(
            layer,
            wide_norm=more.choice(("none",) * 8 + ("qk", "sub")) if layer.size > 2 else "none",
            clip=more.random() < 0.1,
            repeat="early" if more.random() < 0.15 and layer.core == "matmul" else layer.repeat,
        )
        for layer in layers
    )
    later = random.Random(f"windows {seed}")
    layers = tuple(
        dataclasses.replace(
            layer,
            window=later.choice((0,) * 4 + (1, 2, 3, 7)),
            slopes=(
                later.choice(("none",) * 5 + ("key", "distance"))
                if layer.core == "matmul"
                else "none"
            ),
        )
        for layer in layers
    )
    ids = r.random() < 0.75
    tied = ids and r.random() < 0.4
    head = r.choice(("logits",) * 6 + ("none", "softmax", "log_softmax", "argmax", "loss"))
    mask = r.choice(
        ("none", "causal", "causal", "causal", "padded", "causal_padded", "causal_padded")
    )
    hidden = r.choice((1, 3, 4, 5, 6, 8, 8, 12, 15))
    if hidden == 1:
        layers = tuple(
            dataclasses.replace(layer, norm=layer.norm.replace("rms", "layer")) for layer in layers
        )
    return Spec(
        layers,
        depth,
        seed,
        hidden,
        r.choice((1, 2, 5, 7, 11, 16, 31)),
        ids,
        tied,
        head,
        r.choice(("none", "learned", "learned", "given")),
        mask,
        r.choice(("add", "where")),
        r.choice(("none", "none", "hidden", "keys", "inner")),
        r.random() < 0.15,
        r.random() < 0.8,
        r.random() < 0.2,
        r.random() < 0.15,
        r.choice(("static", "computed")),
    )


def draw_shapes(r: random.Random) -> list[tuple[int, int]]:
    """Returns two pairs (batch, sequence), often with a single token or sample."""
    return [(r.choice((1, 1, 2, 3, 5)), r.choice((1, 2, 3, 5, 8, 13))) for _ in range(2)]

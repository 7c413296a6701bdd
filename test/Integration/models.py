"""ONNX files of the tests, their inputs, and ONNX Runtime's results."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness import TOP

MODELS = TOP / "test" / "Models"
CORPUS = Path(os.environ.get("TPC_CORPUS") or TOP.parent / "shared" / "corpus")


@dataclass(frozen=True)
class Model:
    """The properties of a model that its file does not state. A model without `vocab` takes hidden
    states instead of ids.

    `reductions`: row-parallel matmuls of a layer that are reduced separately: two, or one where
    attention and MLP are both added to the residual at once, or None where the plan has more than
    that (see test_families.py). `norm_sums`: sums per token that a layer's norms over all heads
    need; tp splits the heads, so one all-reduce adds each sum up.
    """

    path: Path
    layers: int
    hidden: int
    heads: int = 1
    vocab: int = 0
    output: str = "logits"
    positions: int = 1 << 30
    batch_name: str = "batch"
    sequence_name: str = "sequence"
    padded: bool = False
    past_name: str = ""
    kv_heads: int = 0
    reductions: int | None = 2
    norm_sums: int = 0
    rotary_bytes: int = 0

    @property
    def name(self) -> str:
        return self.path.stem

    def shape(self, batch: int, sequence: int, past: int = 0) -> dict[str, int]:
        return {self.batch_name: batch, self.sequence_name: sequence} | (
            {self.past_name: past} if self.past_name else {}
        )

    def inputs(
        self, batch: int, sequence: int, padding: str = "none", seed: int = 0, past: int = 0
    ) -> dict[str, np.ndarray]:
        """Returns random ids, or hidden states, and a random cache. `padding`: "left" and "right"
        pad row r by about (r + 1)/(batch + 1) of its length, at least by one position.
        """
        random = np.random.default_rng([seed, batch, sequence])
        if not self.vocab:
            return {
                self.first_input: random.standard_normal(
                    (batch, sequence, self.hidden), dtype=np.float32
                ),
                **self.extra_inputs(batch, sequence),
            }
        ids = random.integers(0, self.vocab, (batch, sequence))
        # The first and the last id are the ends of a vocabulary shard.
        ids.flat[:1], ids.flat[1:2] = self.vocab - 1, 0
        given = {"input_ids": ids}
        if self.past_name:
            sizes = self.shape(batch, sequence, past)
            given |= {
                name: random.standard_normal(
                    [sizes.get(size, size) for size in shape], dtype=np.float32
                )
                for name, shape in self.reference.inputs.items()
                if self.past_name in shape
            }
        if not self.padded:
            return given
        total = past + sequence
        mask = np.ones((batch, total), np.int64)
        for row in range(batch if padding != "none" else 0):
            count = min(total, max(1, total * (row + 1) // (batch + 1)))
            mask[row, :count] = 0
            if padding == "right":
                mask[row] = mask[row, ::-1]
        positions = np.maximum(np.cumsum(mask, axis=1) - 1, 0)[:, past:]
        given |= {"attention_mask": mask, "position_ids": positions}
        return {
            name: array if array.dtype.kind == "f" else array.astype(self.reference.types[name])
            for name, array in given.items()
            if name in self.reference.inputs
        }

    first_input: str = "hidden_states"
    masked_input: str = ""

    def extra_inputs(self, batch: int, sequence: int) -> dict[str, np.ndarray]:
        if not self.masked_input:
            return {}
        mask = np.tril(np.ones((sequence, sequence), np.float32))
        return {
            self.masked_input: np.ascontiguousarray(
                np.broadcast_to(mask, (batch, 1, sequence, sequence))
            )
        }

    @functools.cached_property
    def reference(self):
        from tpc.reference import Session

        return Session(self.path, threads=2)

    def expected(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        return self.reference.run(inputs)[self.output]


def committed(name: str, **geometry) -> Model:
    return Model(MODELS / f"{name}.onnx", **geometry)


TINY = dict(hidden=32, heads=4, vocab=1000, positions=128)
ODD = dict(layers=3, hidden=40, heads=5, vocab=1009, positions=64)
ERF = dict(layers=2, hidden=24, heads=3, vocab=257, positions=64)
MASKED = dict(padded=True, batch_name="batch_size", sequence_name="sequence_length")
PART = dict(layers=1, hidden=40, heads=5, output="output")

COMMITTED = {
    model.name: model
    for model in [
        committed("gpt2-odd-opset20", **ODD),
        committed("gpt2-odd-opset18", **ODD),
        committed("gpt2-odd-opset23", **ODD),
        committed("gpt2-odd-nopast", **ODD, **MASKED),
        committed("gpt2-tiny", layers=4, **TINY),
        committed("gpt2-tiny-nopast", layers=2, **TINY, **MASKED),
        committed("gpt2-erf-opset18", **ERF),
        committed("gpt2-erf-opset20", **ERF),
        committed("gpt2-differing-layers", layers=3, hidden=32, heads=4, vocab=503, positions=64),
        committed("gpt2-layer", **PART),
        committed("gpt2-layer-opset23", **PART),
        committed("gpt2-mlp", **PART),
    ]
}

WITH_PAST = dict(
    past_name="past_sequence_length", batch_name="batch_size", sequence_name="sequence_length"
)


def family(name: str, past_flavor: str = "optimum", **geometry) -> dict[str, Model]:
    """Returns two exporters' files of the family: NAME-dynamo, and NAME-past with a cache."""
    past = dict(past_name="past") if past_flavor == "dynamo" else dict(WITH_PAST, padded=True)
    models = [
        committed(f"{name}-dynamo", **geometry),
        committed(f"{name}-past", **geometry, **past),
    ]
    return {model.name: model for model in models}


DEEP = dict(layers=12, hidden=16, heads=4, kv_heads=2, vocab=203, positions=64)
FAMILIES = {
    **family("llama", layers=4, hidden=32, heads=8, kv_heads=2, vocab=151, positions=64),
    **family("mistral", layers=3, hidden=24, heads=6, kv_heads=3, vocab=210, positions=64),
    **family("qwen2", layers=4, hidden=24, heads=4, kv_heads=2, vocab=211, positions=64),
    **family("phi", layers=4, hidden=24, heads=6, vocab=199, positions=64, reductions=1),
    **family("gpt_neox", layers=4, hidden=30, heads=5, vocab=197, positions=64, reductions=1),
    **family("bloom", "dynamo", layers=4, hidden=24, heads=6, vocab=223),
    **family(
        "falcon",
        "dynamo",
        layers=4,
        hidden=32,
        heads=8,
        kv_heads=1,
        vocab=200,
        positions=64,
        reductions=1,
    ),
    **family("olmo2", layers=4, hidden=24, heads=4, vocab=160, positions=64, norm_sums=2),
    **family("gemma2", layers=4, hidden=24, heads=4, kv_heads=2, vocab=229, positions=64),
    **family("mpt", layers=3, hidden=24, heads=6, vocab=191, positions=64),
    **family("gpt_neo", "dynamo", layers=4, hidden=24, heads=6, vocab=181, positions=64),
    **family("phi3", layers=3, hidden=24, heads=6, kv_heads=2, vocab=173, positions=64),
    **family("opt", layers=4, hidden=24, heads=6, vocab=157, positions=64),
    **family(
        "gptj",
        layers=3,
        hidden=32,
        heads=4,
        vocab=167,
        positions=64,
        reductions=1,
        rotary_bytes=64 * 4 * 4,
    ),
    **family(
        "codegen",
        "dynamo",
        layers=4,
        hidden=32,
        heads=4,
        vocab=163,
        positions=64,
        reductions=1,
        rotary_bytes=64 * 4 * 4,
    ),
    # In Optimum's masks, values at masked positions depend on the padding.
    "bloom-optimum": committed(
        "bloom-optimum", layers=4, hidden=24, heads=6, vocab=223, **WITH_PAST, padded=True
    ),
    "gpt_neo-optimum": committed(
        "gpt_neo-optimum",
        layers=4,
        hidden=24,
        heads=6,
        vocab=181,
        positions=64,
        **WITH_PAST,
        padded=True,
    ),
    "llama-deep": committed("llama-deep", **DEEP),
    "llama-deep-past": committed("llama-deep-past", **DEEP, past_name="past"),
}

# Files of other exporters. They are not part of the repository; TPC_CORPUS is their folder.
EVEN_CORPUS = dict(layers=4, hidden=64, heads=4, vocab=1003, positions=128, sequence_name="seq")
FROM_CORPUS = {
    model.name: model
    for model in [
        Model(CORPUS / "exported-gpt2-dynamo.onnx", **EVEN_CORPUS),
        Model(CORPUS / "exported-gpt2-dynamo-opset23.onnx", **EVEN_CORPUS),
        Model(CORPUS / "exported-gpt2odd-dynamo.onnx", **ODD, sequence_name="seq"),
        Model(CORPUS / "exported-gpt2-nopast.onnx", **{**EVEN_CORPUS, **MASKED}),
        Model(
            CORPUS / "gpt2_one_layer.onnx",
            layers=1,
            hidden=4,
            heads=2,
            vocab=20,
            positions=8,
            output="471",
            batch_name="batch_size",
            sequence_name="seq_len",
        ),
        Model(
            CORPUS / "mlp_megatron_basic_test.onnx",
            layers=1,
            hidden=4,
            heads=16,
            output="output",
            first_input="input",
            sequence_name="seqlen",
        ),
        Model(
            CORPUS / "self_attention_megatron_basic_test.onnx",
            layers=1,
            hidden=4,
            heads=2,
            output="output",
            first_input="input",
            masked_input="mask",
            sequence_name="seqlen",
        ),
    ]
}

CORPUS_GEOMETRY = dict(hidden=64, vocab=1003, positions=128)
FAMILIES_FROM_CORPUS = {
    model.name: model
    for model in [
        Model(
            CORPUS / "exported-llama-dynamo.onnx",
            layers=3,
            **CORPUS_GEOMETRY,
            heads=8,
            kv_heads=2,
            sequence_name="seq",
        ),
        *(
            Model(
                CORPUS / f"exported-{name}-past.onnx",
                layers=layers,
                **CORPUS_GEOMETRY,
                padded=True,
                reductions=reductions,
                **WITH_PAST,
            )
            for name, layers, reductions in [
                ("gpt2", 4, 2),
                ("llama", 3, 2),
                ("mistral", 3, 2),
                ("qwen2", 3, 2),
                ("phi", 3, 1),
                ("gpt_neox", 3, 1),
            ]
        ),
        Model(
            CORPUS / "tiny-random-gpt2-fp32_past.onnx",
            layers=5,
            hidden=32,
            heads=4,
            vocab=1000,
            positions=512,
            padded=True,
            batch_name="batch_size",
            sequence_name="seq_len",
            past_name="past_seq_len",
        ),
    ]
}

"""What generation is compared with: all logits of a sequence at once in ONNX Runtime, and transformers' greedy ids."""

from __future__ import annotations

import functools
import json

import numpy as np

from models import COMMITTED, FAMILIES, MODELS, Model
from tpc import defaults

# Where the largest logit is less than this above the second, rounding may choose.
MARGIN = 1e-3

CAUSAL = {name: model for name, model in {**COMMITTED, **FAMILIES}.items() if model.vocab}


@functools.cache
def expected() -> dict[str, list[dict]]:
    """Model -> eight prompts, what transformers says to each, and by what margins. test/Models/expected.py wrote it."""
    return json.loads((MODELS / "expected.json").read_text())


def full_logits(model: Model, ids) -> np.ndarray:
    """[batch, sequence, vocabulary], of all tokens at once: no cache, no padding."""
    ids = np.asarray(ids, np.int64)
    given = {"input_ids": ids}
    if model.past_name:
        given |= {name: np.zeros([{model.batch_name: len(ids), model.past_name: 0}.get(size, size) for size in shape], np.float32)
                  for name, shape in model.reference.inputs.items() if model.past_name in shape and name != "attention_mask"}
    ports = defaults.conventional(model.reference.inputs)
    return model.expected(defaults.fill(model.reference.inputs, model.reference.types, given, ports))


def decided(margins) -> int:
    """How many of the first steps every order of addition decides alike."""
    return next((step for step, margin in enumerate(margins) if margin < MARGIN), len(margins))


def margins_of(logits: np.ndarray) -> np.ndarray:
    """The largest less the second, along the last dimension."""
    best = np.sort(np.partition(logits, -2, axis=-1)[..., -2:], axis=-1)
    return best[..., 1] - best[..., 0]

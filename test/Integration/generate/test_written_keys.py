"""Caches contain computed keys and values, with every form of rotation, norm and scale.

Tests compare models with and without a past with ONNX Runtime, on chunks, batches, and caches that
the last token fills.
"""

import numpy as np
import pytest
from generation import generate
from onnx import TensorProto
from tpc.reference import TOLERANCE, Session, difference
from written import Gpt

from harness import Grid

HALF = 3  # rotated pairs, out of SIZE / 2


def angles(self):
    """Returns cosines and sines [tokens, HALF] of the step's tokens."""
    place = self.column(self.op("Cast", self.count(self.start, self.end), to=TensorProto.FLOAT))
    angle = self.op("Mul", place, self.constant(np.float32([1, 0.3, 0.05])))
    return self.op("Cos", angle), self.op("Sin", angle)


def part(self, x, first, end, step=1):
    return self.op(
        "Slice", x, self.integers(first), self.integers(end), self.integers(-1), self.integers(step)
    )


def mixed(self, one, other):
    cos, sin = angles(self)
    return (
        self.op("Sub", self.op("Mul", one, cos), self.op("Mul", other, sin)),
        self.op("Add", self.op("Mul", other, cos), self.op("Mul", one, sin)),
    )


def rotated(self, x):
    """Rotates the first 2 HALF elements, one half with the other; the others are unchanged."""
    halves = mixed(self, part(self, x, 0, HALF), part(self, x, HALF, 2 * HALF))
    return self.op("Concat", *halves, part(self, x, 2 * HALF, self.SIZE), axis=-1)


def rotated_in_pairs(self, x):
    """Rotates neighboring elements."""
    pairs = mixed(self, part(self, x, 0, 2 * HALF, 2), part(self, x, 1, 2 * HALF, 2))
    apart = [self.op("Unsqueeze", each, self.integers(-1)) for each in pairs]
    together = self.op(
        "Reshape", self.op("Concat", *apart, axis=-1), self.integers(0, 0, 0, 2 * HALF)
    )
    return self.op("Concat", together, part(self, x, 2 * HALF, self.SIZE), axis=-1)


def normed(self, x):
    return self.op(
        "LayerNormalization", x, self.weight(self.SIZE), self.weight(self.SIZE, scale=0.1), axis=-1
    )


def scaled(self, x):
    return self.op("Mul", x, self.weight(self.SIZE))


def tokens_first(self, x, function):
    """Uses [batch, tokens, heads, size], as files do that rotate before the transpose."""
    return self.op(
        "Transpose", function(self, self.op("Transpose", x, perm=[0, 2, 1, 3])), perm=[0, 2, 1, 3]
    )


def on_keys(function):
    return lambda self, keys, values: (function(self, keys), values)


FORMS = {
    "rotated": on_keys(rotated),
    "rotated-in-pairs": on_keys(rotated_in_pairs),
    "normed": on_keys(normed),
    "normed-tokens-first": on_keys(lambda self, keys: tokens_first(self, keys, normed)),
    "normed-and-rotated": on_keys(lambda self, keys: rotated(self, normed(self, keys))),
    "rotated-and-normed": on_keys(lambda self, keys: normed(self, rotated(self, keys))),
    "scaled": on_keys(scaled),
    "values-rotated": lambda self, keys, values: (rotated(self, keys), rotated(self, values)),
    "values-scaled": lambda self, keys, values: (keys, scaled(self, values)),
    "values-are-keys": lambda self, keys, values: (rotated(self, keys),) * 2,
    "values-of-keys": lambda self, keys, values: (
        (made := rotated(self, keys)),
        scaled(self, made),
    ),
}
# These need a past, because otherwise values that do not depend on tokens belong to no cache.
FORMS_OF_PAST = {
    "values-constant": lambda self, keys, values: (
        rotated(self, keys),
        self.op("Expand", self.constant(np.float32(1)), self.op("Shape", values)),
    )
}
PROMPT = [36, 1, 2, 7, 30, 5, 9, 11, 13, 2, 2, 8]


def write(name, past, folder):
    form = type(
        "Form",
        (Gpt,),
        {
            "PAST": past,
            "keys_and_values": (FORMS | FORMS_OF_PAST)[name],
            "queries": lambda self, queries: rotated(self, queries),
            "positions": lambda self: "",
        },
    )
    return form().write(folder / "model.onnx")


@pytest.mark.parametrize(
    "name,past",
    [
        # By default each form is alternately without and with a past.
        pytest.param(name, past, marks=[] if past == bool(i % 2) else pytest.mark.long)
        for i, name in enumerate(FORMS)
        for past in (False, True)
    ]
    + [(name, True) for name in FORMS_OF_PAST],
)
@pytest.mark.parametrize(
    "grid",
    [
        "tp2",
        pytest.param("tp1", marks=pytest.mark.long),
        pytest.param("pp2,dp2", marks=pytest.mark.long),
        pytest.param("tp2,pp2,mb2", marks=pytest.mark.long),
    ],
)
def test_written_by_kernels(tpcc, tmp_path, name, past, grid):
    """The caches hold 17 tokens, and the last token is written to the last entry."""
    path = write(name, past, tmp_path)
    if name in FORMS_OF_PAST and Grid.parse(grid).pp > 1:
        tpcc.call(
            [path, "--generate", f"--megatron-shard={grid}", "-o", tmp_path / "program"]
        ).refused("writes cache @v0 in place, but its old value has other uses")
        return
    reference, program = Session(path), tpcc.compile(path, grid, "--generate")
    output = generate(
        program, PROMPT, 6, "--prefill-chunk", "5", "--max-sequence", "18", logits=True
    )
    ids = np.array([[*PROMPT, *output.tokens[:-1]]])
    given = {
        port: np.zeros([{"batch": 1, "past": 0}.get(size, size) for size in shape], np.float32)
        for port, shape in reference.inputs.items()
        if "past" in shape
    }
    wanted = reference.run({"input_ids": ids, **given})["logits"][0, len(PROMPT) - 1 :]
    assert len(output.tokens) == 6
    assert difference(output.logits, wanted).relative <= TOLERANCE


@pytest.mark.parametrize("name", FORMS)
def test_each_cache_is_written_once(tpcc, tmp_path, name):
    """A kernel that computes new entries writes them, else a copy does. If keys are also the
    values, there is one cache.
    """
    path = write(name, False, tmp_path)
    text = (
        tpcc.call([path, "--generate", "--megatron-shard=tp2", "--emit=buffers", "-o", "-"])
        .check()
        .stdout
    )
    launches = [
        line for line in text.splitlines() if "tpc_buffer.launch" in line and "append" in line
    ]
    copies = text.count("tpc_buffer.append ")
    states = text.count("tpc_buffer.state ")
    functions = text.count("tpc_buffer.attention ")  # identical layers share theirs
    caches = 1 if name == "values-are-keys" else 2
    assert states == 2 * caches and len(launches) + copies == caches * functions
    by_kernels = {"values-rotated": 2, "values-of-keys": 2}.get(name, 1)
    assert len(launches) == by_kernels * functions, text

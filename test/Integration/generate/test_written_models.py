"""Models that resemble generating models are rejected with a reason, or generate correctly.

Errors name the node or the input. A model that is accepted produces ONNX Runtime's logits of the
whole sequence.
"""

import numpy as np
import pytest
from onnx import helper

from written import Gpt
from written_variants import F32, FAR, I64, WithPast, hidden_beside, variant

# Parts of rejected models.


def shifted(self, value):
    before = self.op("Pad", value, self.integers(0, 1, 0, 0, 0, 0), name="before")
    return self.op(
        "Add",
        value,
        self.op("Slice", before, self.integers(0), self.integers(-1), self.integers(1)),
    )


def from_the_end(self):
    table = self.weight(self.POSITIONS, self.hidden)
    length = self.op("Unsqueeze", self.sequence, self.integers(0))
    return self.op(
        "Slice", table, self.op("Neg", length), self.integers(FAR), self.integers(0), name="tail"
    )


def reversed_positions(self):
    last = self.op("Sub", self.sequence, self.constant(np.int64(1)))
    places = self.op("Sub", last, self.count(self.zero, self.end), name="backwards")
    return self.op("Gather", self.weight(self.POSITIONS, self.hidden), places)


def positions_from_zero(self):
    return self.op(
        "Gather",
        self.weight(self.POSITIONS, self.hidden),
        self.count(self.zero, self.sequence),
        name="from_zero",
    )


def pads_left_out(self):
    """Uses RoBERTa's positions, the index among tokens that are not padding."""
    real = self.op(
        "Cast", self.op("Not", self.op("Equal", self.ids, self.constant(np.int64(1)))), to=I64
    )
    return self.op(
        "Gather",
        self.weight(self.POSITIONS, self.hidden),
        self.op("CumSum", real, self.constant(np.int64(1)), name="pads"),
    )


def prefix(self):
    first = self.op("Less", self.count(self.zero, self.end), self.constant(np.int64(3)))
    return self.op("Or", Gpt.sees(self), first)


def keys_by_length(self, keys, values):
    """Scales keys by the logarithm of the number of tokens."""
    return (
        self.op(
            "Mul",
            keys,
            self.op("Log", self.op("Cast", self.end, to=F32, name="count")),
            name="longer",
        ),
        values,
    )


def half_of_all(self):
    far = self.op(
        "Sub", self.column(self.count(self.start, self.end)), self.count(self.zero, self.end)
    )
    window = self.op(
        "Add", self.op("Div", self.end, self.constant(np.int64(2))), self.constant(np.int64(1))
    )
    return self.op("And", Gpt.sees(self), self.op("Less", far, window))


def one_ahead(self):
    queries = self.op(
        "Add", self.column(self.count(self.start, self.end)), self.constant(np.int64(1))
    )
    return self.op("LessOrEqual", self.count(self.zero, self.end), queries)


def kinds(self):
    table = self.weight(2, self.hidden)
    return self.op("Gather", table, self.input("token_type_ids", [self.BATCH, self.SEQUENCE], I64))


def sink(self):
    """Makes the first tokens visible to all."""
    far = self.op(
        "Sub", self.column(self.count(self.start, self.end)), self.count(self.zero, self.end)
    )
    seen = self.op(
        "Or",
        self.op("Less", far, self.constant(np.int64(4))),
        self.op("Less", self.count(self.zero, self.end), self.constant(np.int64(2))),
    )
    return self.op("And", Gpt.sees(self), seen)


def capped_after_the_mask(self, scores):
    return self.op("Tanh", Gpt.scores(self, scores), name="cap")


def with_a_column(self, scores):
    """Adds a sink that is not the same for all queries, but the score of the first key."""
    first = self.op("Slice", scores, self.integers(0), self.integers(1), self.integers(3))
    return self.op("Concat", Gpt.scores(self, scores), first, axis=3)


def without_the_column(self, weights):
    return self.op(
        "Slice", weights, self.integers(0), self.integers(-1), self.integers(3), name="drop"
    )


def bias_of_ids(self, scores):
    """Adds a bias of the keys' ids. The -1e9 that replaces hidden scores could also be a bias."""
    ids = self.op("Unsqueeze", self.op("Cast", self.ids, to=F32), self.integers(1, 2))
    slope = self.constant(np.float32([[[-0.5]], [[-0.25]]]))
    return Gpt.scores(self, self.op("Add", scores, self.op("Mul", ids, slope)))


def mean_of_rows(self, value):
    return self.op("Sub", value, self.op("ReduceMean", value, axes=[0], keepdims=1))


def number_of_row(self):
    rows = self.op("Gather", self.op("Shape", self.ids), self.constant(np.int64(0)), axis=0)
    return self.op(
        "Unsqueeze",
        self.op("Gather", self.weight(64, self.hidden), self.count(self.zero, rows)),
        self.integers(1),
        name="row",
    )


def last_row_first(self, value):
    return self.op(
        "Slice", value, self.integers(-1), self.integers(-FAR), self.integers(0), self.integers(-1)
    )


def next_id(self, value):
    later = self.op(
        "Slice", self.ids, self.integers(1), self.integers(FAR), self.integers(1), name="later"
    )
    known = self.op("Pad", later, self.integers(0, 0, 0, 1))
    return self.op(
        "Add", value, self.op("Gather", self.weight(self.VOCABULARY, self.hidden), known)
    )


def first_id(self, value):
    first = self.op(
        "Slice", self.ids, self.integers(0), self.integers(1), self.integers(1), name="first"
    )
    return self.op(
        "Add", value, self.op("Gather", self.weight(self.VOCABULARY, self.hidden), first)
    )


def largest_id(self, value):
    place = self.op("ArgMax", self.ids, axis=1, keepdims=1, name="largest")
    return self.op(
        "Add", value, self.op("Unsqueeze", self.op("Cast", place, to=F32), self.integers(2))
    )


def count_of_mask(self, value):
    mask = self.op("Cast", self.input("attention_mask", [self.BATCH, self.SEQUENCE], I64), to=F32)
    return self.op(
        "Mul",
        value,
        self.op(
            "Unsqueeze",
            self.op("ReduceSum", mask, self.integers(1), name="count"),
            self.integers(2),
        ),
    )


# Rejected models, and words of their messages.
REFUSED = {
    "mean": (
        variant(
            between=lambda self, value: self.op(
                "Sub", value, self.op("ReduceMean", value, axes=[1], keepdims=1, name="mean")
            )
        ),
        "'mean'",
        "each token independently",
    ),
    "running-sum": (
        variant(
            between=lambda self, value: self.op(
                "CumSum", value, self.constant(np.int64(1)), name="sum"
            )
        ),
        "'sum'",
    ),
    "shift": (variant(between=shifted), "'before'", "each token independently"),
    "softmax-of-tokens": (
        variant(last=lambda self, value: self.op("Softmax", value, axis=1, name="weights")),
        "'weights'",
    ),
    "both-directions": (
        variant(scores=lambda self, scores: scores),
        "'attention'",
        "is not causal",
    ),
    "second-layer-both": (
        variant(scores=lambda self, scores: scores if self.layer else Gpt.scores(self, scores)),
        "'attention_'",
    ),
    "one-ahead": (variant(sees=one_ahead), "'attention'", "at offset 1 from"),
    "prefix": (variant(sees=prefix), "'attention'", "a mask of queries and keys"),
    "sink": (variant(WithPast, sees=sink), "'attention'", "a mask of queries and keys"),
    "cap-after-mask": (
        variant(scores=capped_after_the_mask),
        "(tpc.softmax)",
        "'cap' (tpc.tanh) is between it and a matmul of queries and keys",
    ),
    "bias-of-ids": (
        variant(scores=bias_of_ids),
        "(tpc.softmax)",
        "with biases of inputs -1e30 or less",
    ),
    "sink-of-queries": (
        variant(scores=with_a_column, weights=without_the_column),
        "(tpc.softmax)",
        "a column that is not one sink for each head",
    ),
    "mean-of-rows": (
        variant(between=mean_of_rows),
        "sequences together",
        "differs from the step's for that sequence alone",
    ),
    "number-of-row": (variant(positions=number_of_row), "'Add_", "equal for all tokens"),
    "next-id": (variant(last=next_id), "'later'", "each token independently"),
    "first-id": (variant(last=first_id), "'first'", "each token independently"),
    "largest-id": (variant(last=largest_id), "'largest'", "each token independently"),
    "count-of-mask": (variant(last=count_of_mask), "'count'", "each token independently"),
    "last-row-first": (
        variant(WithPast, last=last_row_first),
        "sequences together",
        "differs from the step's for that sequence alone",
    ),
    "window-of-length": (
        variant(sees=half_of_all),
        "'attention'",
        "changes with the number of tokens",
    ),
    "keys-by-length": (
        variant(keys_and_values=keys_by_length),
        "'count'",
        "earlier tokens would change with each new token",
    ),
    "keys-by-length-past": (
        variant(WithPast, keys_and_values=keys_by_length),
        "the number of tokens",
    ),
    "from-the-end": (variant(positions=from_the_end), "'tail'"),
    "reversed": (
        variant(positions=reversed_positions),
        "'backwards'",
        "number of tokens as a value",
    ),
    "pads": (variant(positions=pads_left_out), "'pads'"),
    "fixed-tokens": (variant(SEQUENCE=8), "8 queries and 8 keys"),
    "fixed-batch": (variant(BATCH=1), "'input_ids'", "batch"),
    "fixed-batch-past": (variant(WithPast, BATCH=1), "'input_ids'", "batch"),
    "no-layers": (variant(LAYERS=0), "no attention"),
    "kinds-of-tokens": (variant(positions=kinds), "'token_type_ids'", "token ids"),
    "which-logits": (variant(head=hidden_beside("scores")), "'hidden' and 'scores'", "logits"),
    "past-in-front": (
        variant(WithPast, join=lambda self, past, new: self.op("Concat", new, past, axis=2)),
        "'attention'",
    ),
    "past-counted-twice": (
        variant(
            WithPast,
            positions=lambda self: self.op(
                "Gather",
                self.weight(99, self.hidden),
                self.op("Add", self.start, self.count(self.start, self.end)),
                name="twice",
            ),
        ),
        "depend on the number of tokens",
    ),
    "past-not-counted": (
        variant(WithPast, positions=positions_from_zero),
        "depend on the number of tokens",
    ),
    "past-elsewhere": (
        variant(
            WithPast,
            between=lambda self, value: self.op(
                "Add", value, self.op("ReduceSum", self.past[0][0], keepdims=0, name="all_old")
            ),
        ),
        "'all_old'",
    ),
    "past-returned": (
        variant(WithPast, present=lambda self, keys, values: self.past[self.layer]),
        "past tokens",
    ),
    "past-scaled": (
        variant(
            WithPast,
            present=lambda self, keys, values: (
                self.op("Mul", keys, self.constant(np.float32(2))),
                values,
            ),
        ),
        "'join",
    ),
    "past-of-two-layers": (
        variant(WithPast, pasts=lambda self: Gpt.pasts(self)[:1] * 2),
        "'join_",
        "extends with others",
    ),
    "past-of-both": (
        variant(WithPast, pasts=lambda self: [(keys, keys) for keys, _ in Gpt.pasts(self)]),
        "extends with others",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tpcc, tmp_path, name):
    written, *words = REFUSED[name]
    out = tmp_path / "program"
    tpcc.call([written().write(tmp_path / "model.onnx"), "--generate", "-o", out]).refused(*words)
    assert not out.exists()

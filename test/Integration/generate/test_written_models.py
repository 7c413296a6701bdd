"""Models that resemble generating models: rejected with node or name and reason, or correct.

A model that is accepted produces ONNX Runtime's logits of the whole sequence.
"""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper

import tpc
from generation import say
from harness import Grid, run, sanitized, tool
from tpc import TpcError
from tpc.reference import TOLERANCE, Session, difference
from written import Gpt

I64, F32 = TensorProto.INT64, TensorProto.FLOAT
FAR = 2**62


class WithPast(Gpt):
    PAST = True


def variant(base=Gpt, **parts):
    return type("Written", (base,), parts)


# Refused: what it is, and words of the message.


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
    """Positions as RoBERTa counts them: of tokens that are no pads."""
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
    """Scaled by the logarithm of how many tokens there are."""
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


def cross(self, value):
    states = (
        self.input("states", [self.BATCH, "source", self.hidden]) if self.layer == 0 else "states"
    )
    scores = self.op(
        "MatMul",
        value,
        self.op("Transpose", self.linear(states, self.hidden, self.hidden), perm=[0, 2, 1]),
    )
    return self.op(
        "Add", value, self.op("MatMul", self.op("Softmax", scores, axis=-1), states, name="cross")
    )


def kinds(self):
    table = self.weight(2, self.hidden)
    return self.op("Gather", table, self.input("token_type_ids", [self.BATCH, self.SEQUENCE], I64))


def chosen(self, value):
    self.nodes.append(
        helper.make_node(
            "ArgMax",
            [self.op("MatMul", value, self.weight(self.hidden, self.VOCABULARY))],
            ["logits"],
            axis=-1,
        )
    )
    self.outputs.append(helper.make_tensor_value_info("logits", I64, None))


def sink(self):
    """The first tokens are seen by all."""
    far = self.op(
        "Sub", self.column(self.count(self.start, self.end)), self.count(self.zero, self.end)
    )
    seen = self.op(
        "Or",
        self.op("Less", far, self.constant(np.int64(4))),
        self.op("Less", self.count(self.zero, self.end), self.constant(np.int64(2))),
    )
    return self.op("And", Gpt.sees(self), seen)


def capped_behind_the_mask(self, scores):
    return self.op("Tanh", Gpt.scores(self, scores), name="cap")


def with_a_column(self, scores):
    """An attention sink: a number of each head that takes part in the softmax, and of which nothing
    is mixed.
    """
    column = self.op(
        "Expand",
        self.weight(1, self.HEADS, 1, 1),
        self.op(
            "Concat",
            self.op("Slice", self.op("Shape", scores), self.integers(0), self.integers(3)),
            self.integers(1),
            axis=0,
        ),
    )
    return self.op("Concat", Gpt.scores(self, scores), column, axis=3)


def without_the_column(self, weights):
    return self.op(
        "Slice", weights, self.integers(0), self.integers(-1), self.integers(3), name="drop"
    )


def distance_from(self, scores):
    """ALiBi of both directions: no slope of keys. -1e9 in place of scores could be a bias beside
    it.
    """
    far = self.op(
        "Abs",
        self.op(
            "Sub", self.column(self.count(self.start, self.end)), self.count(self.zero, self.end)
        ),
    )
    slope = self.constant(np.float32([[[-0.5]], [[-0.25]]]))
    return Gpt.scores(
        self, self.op("Add", scores, self.op("Mul", self.op("Cast", far, to=F32), slope))
    )


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
    behind = self.op(
        "Slice", self.ids, self.integers(1), self.integers(FAR), self.integers(1), name="behind"
    )
    known = self.op("Pad", behind, self.integers(0, 0, 0, 1))
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


def hidden_beside(name):
    def head(self, value):
        self.output(value, "hidden")
        self.output(
            self.op("MatMul", value, self.weight(self.hidden, self.VOCABULARY, scale=1)), name
        )

    return head


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
    "last-token": (
        variant(
            last=lambda self, value: self.op(
                "Slice", value, self.integers(-1), self.integers(FAR), self.integers(1), name="last"
            )
        ),
        "'last'",
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
    "cap-behind-mask": (
        variant(scores=capped_behind_the_mask),
        "(tpc.softmax)",
        "'cap' (tpc.tanh) is between it and a matmul of queries and keys",
    ),
    "distance-both-ways": (
        variant(scores=distance_from),
        "(tpc.softmax)",
        "with other biases -1e30 or less",
    ),
    "sink-column": (
        variant(scores=with_a_column, weights=without_the_column),
        "(tpc.softmax)",
        "an attention sink",
    ),
    "mean-of-rows": (
        variant(between=mean_of_rows),
        "sequences together",
        "differs from the step's for that sequence alone",
    ),
    "number-of-row": (variant(positions=number_of_row), "'Add_", "equal for all tokens"),
    "next-id": (variant(last=next_id), "'behind'", "each token independently"),
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
    "cross": (variant(between=cross), "keys"),
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
    "ids-out": (variant(head=chosen), "'logits'", "floats"),
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


# Right.


def from_two(self):
    """OPT's positions: two rows of its table are nobody's."""
    places = self.op("Add", self.count(self.start, self.end), self.constant(np.int64(2)))
    return self.op("Gather", self.weight(self.POSITIONS + 2, self.hidden, scale=1), places)


def waves(self):
    place = self.op("Cast", self.count(self.start, self.end), to=F32)
    angle = self.op(
        "Mul",
        self.column(place),
        self.constant((10.0 ** -np.linspace(0, 4, self.hidden // 2)).astype(np.float32)),
    )
    return self.op("Concat", self.op("Sin", angle), self.op("Cos", angle), axis=-1)


def longer_queries(self, queries):
    """Scaled by the logarithm of their position."""
    place = self.op(
        "Add",
        self.op("Cast", self.count(self.start, self.end), to=F32),
        self.constant(np.float32(2)),
    )
    return self.op(
        "Mul", queries, self.op("Unsqueeze", self.op("Log", place), self.integers(0, 1, 3))
    )


def window(self):
    far = self.op(
        "Sub", self.column(self.count(self.start, self.end)), self.count(self.zero, self.end)
    )
    return self.op("And", Gpt.sees(self), self.op("Less", far, self.constant(np.int64(4))))


def only_new(self, keys, values):
    first = self.op("Unsqueeze", self.start, self.integers(0))
    return self.op("Slice", keys, first, self.integers(FAR), self.integers(2)), values


def tokens_first(self, past, new):
    joined = self.op("Concat", past, self.op("Transpose", new, perm=[0, 2, 1, 3]), axis=1)
    return self.op("Transpose", joined, perm=[0, 2, 1, 3])


class TokensFirst(WithPast):
    def pasts(self):
        shape = [self.BATCH, "past", self.HEADS, self.SIZE]
        return [
            (self.input(f"past_k{layer}", shape), self.input(f"past_v{layer}", shape))
            for layer in range(self.LAYERS)
        ]

    def join(self, past, new):
        self.start = self.op("Gather", self.op("Shape", past), self.constant(np.int64(1)), axis=0)
        return tokens_first(self, past, new)

    def positions(self):
        self.start = self.op(
            "Gather", self.op("Shape", self.past[0][0]), self.constant(np.int64(1)), axis=0
        )
        self.end = self.op("Add", self.start, self.sequence)
        return super().positions()


class KeysAcross(WithPast):
    """Keys are kept as scores need them, [batch, head, size, past]."""

    def pasts(self):
        across, along = [self.BATCH, self.HEADS, self.SIZE, "past"], [
            self.BATCH,
            self.HEADS,
            "past",
            self.SIZE,
        ]
        return [
            (self.input(f"past_k{layer}", across), self.input(f"past_v{layer}", along))
            for layer in range(self.LAYERS)
        ]

    def join(self, past, new):
        if not past.startswith("past_k"):
            return super().join(past, new)
        joined = self.op("Concat", past, self.op("Transpose", new, perm=[0, 1, 3, 2]), axis=3)
        return self.op("Transpose", joined, perm=[0, 1, 3, 2])

    def positions(self):
        self.start = self.op(
            "Gather", self.op("Shape", self.past[0][1]), self.constant(np.int64(2)), axis=0
        )
        self.end = self.op("Add", self.start, self.sequence)
        return super().positions()


def one_of_heads(self, keys, values):
    return tuple(
        self.op("Slice", each, self.integers(0), self.integers(1), self.integers(1))
        for each in (keys, values)
    )


def pasts_of_one_head(self):
    shape = [self.BATCH, 1, "past", self.SIZE]
    return [
        (self.input(f"past_k{layer}", shape), self.input(f"past_v{layer}", shape))
        for layer in range(self.LAYERS)
    ]


class Masked(WithPast):
    def sees(self):
        if self.layer == 0:
            self.input("attention_mask", [self.BATCH, "past + sequence"], I64)
        real = self.op(
            "Cast", self.op("Unsqueeze", "attention_mask", self.integers(1, 2)), to=TensorProto.BOOL
        )
        return self.op("And", Gpt.sees(self), real)


def at(made):
    """Rows of a table by what is made of positions."""

    def positions(self):
        return self.op(
            "Gather",
            self.weight(self.POSITIONS, self.hidden, scale=1),
            made(self, self.count(self.start, self.end)),
        )

    return positions


def clamped(self, places):
    return self.op("Min", places, self.constant(np.int64(19)))


def modulo(self, places):
    return self.op("Mod", places, self.constant(np.int64(7)))


def divided(self, places):
    return self.op("Div", places, self.constant(np.int64(4)))


def doubled(self, places):
    return self.op("Mul", places, self.constant(np.int64(2)))


def rows_and_columns(self):
    return self.op("Add", at(modulo)(self), at(divided)(self))


def slopes(make):
    """ALiBi: make(q, k, slope) is added to scores; `make` knows places as floats."""

    def scores(self, scores):
        queries, keys = self.column(self.count(self.start, self.end)), self.count(
            self.zero, self.end
        )
        slope = self.constant(
            (2.0 ** -np.arange(1, self.HEADS + 1)).astype(np.float32).reshape(self.HEADS, 1, 1)
        )
        queries, keys = (self.op("Cast", each, to=F32) for each in (queries, keys))
        return Gpt.scores(self, self.op("Add", scores, make(self, queries, keys, slope)))

    return scores


def minus_distance(self, queries, keys, slope):
    return self.op("Mul", self.op("Neg", self.op("Sub", queries, keys)), slope)


def minus_product(self, queries, keys, slope):
    return self.op("Neg", self.op("Mul", self.op("Sub", queries, keys), slope))


def keys_smaller(self, keys, values):
    return self.op("Div", keys, self.constant(np.float32(3))), values


def given_positions(self):
    return self.op(
        "Gather",
        self.weight(self.POSITIONS, self.hidden, scale=1),
        self.input("position_ids", [self.BATCH, self.SEQUENCE], I64),
    )


def mean_beside(self, value):
    Gpt.head(self, value)
    self.output(self.op("ReduceMean", value, axes=[1], keepdims=0), "pooled")


RIGHT = {
    "plain": Gpt,
    "past": WithPast,
    "opt": variant(positions=from_two),
    "opt-past": variant(WithPast, positions=from_two),
    "waves-past": variant(WithPast, positions=waves),
    "nowhere": variant(positions=lambda self: ""),
    "queries-by-position": variant(WithPast, queries=longer_queries),
    "window-past": variant(WithPast, sees=window),
    "one-head": variant(HEADS=1, SIZE=16),
    "heads-of-one": variant(HEADS=16, SIZE=1),
    "one-word": variant(VOCABULARY=1),
    "clamp": variant(positions=at(clamped)),
    "clamp-past": variant(WithPast, positions=at(clamped)),
    "mod-past": variant(WithPast, positions=at(modulo)),
    "div": variant(positions=at(divided)),
    "rows-and-columns": variant(positions=rows_and_columns),
    "double": variant(positions=at(doubled)),
    "slopes": variant(positions=lambda self: "", scores=slopes(minus_distance)),
    "slopes-past": variant(WithPast, positions=lambda self: "", scores=slopes(minus_product)),
    "queries-scaled": variant(
        WithPast,
        queries=lambda self, queries: self.op("Mul", queries, self.constant(np.float32(0.25))),
    ),
    "keys-divided": variant(keys_and_values=keys_smaller),
    "scores-divided": variant(
        WithPast,
        scores=lambda self, scores: Gpt.scores(
            self, self.op("Div", scores, self.constant(np.float32(2)))
        ),
    ),
    "past-only-new": variant(WithPast, present=only_new),
    "past-swapped": variant(
        WithPast, pasts=lambda self: [pair[::-1] for pair in Gpt.pasts(self)][::-1]
    ),
    "past-tokens-first": TokensFirst,
    "past-keys-across": KeysAcross,
    "past-of-one-head": variant(WithPast, keys_and_values=one_of_heads, pasts=pasts_of_one_head),
    "mask-past": Masked,
    "positions-given-past": variant(WithPast, positions=given_positions),
    "hidden-first": variant(head=hidden_beside("logits")),
    "pooled-beside": variant(head=mean_beside),
}
# What is said is compared where tokens are far apart.
PROMPTS = [[0], [0, 0, 0, 0, 0], [36, 1, 2, 7, 30, 5, 9, 11, 13, 2, 2, 8]]


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("grid", ["tp1", pytest.param("tp2,pp2", marks=pytest.mark.long)])
def test_right(tpcc, tmp_path, name, grid):
    written = RIGHT[name]()
    if written.HEADS % Grid.parse(grid).tp:
        pytest.skip("one head is not split")
    path = written.write(tmp_path / "model.onnx")
    reference, program = Session(path), tpcc.compile(path, grid, "--generate")
    for prompt in PROMPTS:
        prompt = [token % written.VOCABULARY for token in prompt]
        said = say(program, prompt, 12, "--prefill-chunk", "5", logits=True)
        ids = np.array([[*prompt, *said.tokens[:-1]]])
        given = {
            port: np.zeros([{"batch": 1, "past": 0}.get(size, size) for size in shape], np.float32)
            for port, shape in reference.inputs.items()
            if "past" in shape
        }
        conventional = {
            "attention_mask": np.ones_like(ids),
            "position_ids": np.arange(ids.shape[1])[None],
        }
        given |= {port: value for port, value in conventional.items() if port in reference.inputs}
        wanted = reference.run({"input_ids": ids, **given})["logits"][0, len(prompt) - 1 :]
        assert len(said.tokens) == 12
        assert difference(said.logits, wanted).relative <= TOLERANCE, prompt


def test_more_tokens_than_there_is_memory_for(tpcc, tmp_path):
    """A model that takes any number of tokens: what no machine holds is refused before anything is
    loaded, and leaves no trace.
    """
    path = RIGHT["nowhere"]().write(tmp_path / "model.onnx")
    program = tpcc.compile(path, "tp2", "--generate")
    said = say(program, [1, 2], 4).tokens
    for flags, words in (
        (
            ["--max-sequence", str(10**11)],
            ["1 sequence of at most 100000000000 tokens", "caches", "Nothing was loaded"],
        ),
        (
            ["--max-sequence", str(10**8), "--max-batch", "1000"],
            ["1000 sequences of at most 100000000 tokens", "--max-batch"],
        ),
        (["--max-new-tokens", str(10**11)], ["100000000002 tokens"]),
        (["--max-new-tokens", str(2**63 - 1)], ["too many in all"]),
        (["--max-sequence", str(2**63 - 1)], ["too many in all"]),
        (["--max-batch", "65536", "--max-sequence", str(10**12)], ["too many in all"]),
    ):
        result = program.call(
            [
                "--prompt-ids",
                "1,2",
                *([] if "--max-new-tokens" in flags else ["--max-new-tokens", "4"]),
                *flags,
            ]
        )
        result.refused(*words)
        assert not result.stdout

    # Processes of one machine have it together: a rank alone would have room for three quarters of
    # what it has.
    machine = int(
        re.search(
            r"\((\d+) bytes\)",
            program.call(["--prompt-ids", "1,2", "--max-sequence", str(10**11)]).stderr,
        )[1]
    )
    of_rank = int(
        re.search(
            r"rank 0: .*\((\d+) bytes\)",
            program.call(["--describe", "--max-sequence", str(10**7)]).stdout,
        )[1]
    )
    long = [
        "--prompt-ids",
        "1,2",
        "--max-new-tokens",
        "4",
        "--max-sequence",
        str(machine * 3 // 4 * 10**7 // of_rank),
    ]
    for transport in ("threads", "tcp"):
        program.call(long, transport).refused("Nothing was loaded", "and there are 2 ranks")
    if sanitized():
        return  # who loads a program must have them itself
    with tpc.load(program.path) as session:
        for new in (10**11, 2**63 - 1):
            with pytest.raises(TpcError, match="memory for|no room") as error:
                session.generate([1, 2], max_new_tokens=new)
            assert not error.value.broken
            assert session.generate([1, 2], max_new_tokens=4).tolist() == said


def test_a_token_that_cannot_go_in_again(tpcc, tmp_path):
    """A head of more tokens than there are rows in the table: the sequence ends with an error,
    others go on.
    """

    class Wide(Gpt):
        def head(self, value):
            logits = self.op("MatMul", value, self.weight(self.hidden, self.VOCABULARY, scale=1))
            more = self.op(
                "Mul",
                self.op("Slice", logits, self.integers(0), self.integers(2), self.integers(2)),
                self.constant(np.float32(0)),
            )
            self.output(
                self.op(
                    "Concat", logits, self.op("Add", more, self.constant(np.float32(99))), axis=2
                ),
                "logits",
            )

    program = tpcc.compile(Wide().write(tmp_path / "model.onnx"), "tp1", "--generate")
    result = program.call(["--prompt-ids", "1,2", "--max-new-tokens", "3"]).refused(
        "token 37", "above 36"
    )
    assert result.stdout.split() == ["37"]
    assert say(program, [1, 2], 3, "--stop-ids", "37").tokens == [37]


@pytest.mark.parametrize(
    "made,most",
    [(clamped, None), (modulo, None), (divided, 4 * Gpt.POSITIONS), (doubled, Gpt.POSITIONS // 2)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_how_long_sequences_may_be(tpcc, tmp_path, made, most):
    """As far as there are rows of the table: to the last one, and no token more."""
    path = variant(positions=at(made))().write(tmp_path / "model.onnx")
    program, reference = tpcc.compile(path, "tp2", "--generate"), Session(path)
    assert program.describe()["generation"]["max_sequence"] == most
    length = most or 300
    prompt = np.random.default_rng(0).integers(0, Gpt.VOCABULARY, length)
    said = say(program, prompt, 1, "--prefill-chunk=70", logits=True)
    assert (
        difference(
            said.logits, reference.run({"input_ids": prompt[None]})["logits"][0, -1:]
        ).relative
        <= TOLERANCE
    )
    if most:
        program.call(["--prompt-ids", ",".join(["1"] * (most + 1)), "--max-new-tokens=1"]).refused(
            str(most + 1), str(most)
        )


@pytest.mark.parametrize("made", [divided, doubled])
def test_longer_sequences_are_refused_as_text(tmp_path, made):
    """A limit that is raised by one, or dropped, lets a full cache look up a row that the table
    does not have.
    """
    imported, step, placed, edited = (
        tmp_path / f"{name}.mlir" for name in ("imported", "step", "placed", "edited")
    )
    run(
        [
            tool("tpc-translate"),
            "--import-onnx",
            variant(positions=at(made))().write(tmp_path / "model.onnx"),
            "-o",
            imported,
        ]
    ).check()
    run([tool("tpc-opt"), imported, "--tpc-step-pipeline", "-o", step]).check()
    run([tool("tpc-opt"), imported, "--tpc-last-step-pipeline", "-o", placed]).check()
    verify = [tool("tpc-opt"), f"--tpc-verify-generation=reference={step}", "-o", "/dev/null"]
    run([*verify, placed]).check()
    limits = re.findall(
        r"\{expr = #tpc.expr<[^>]*capacity[^>]*>, max = (\d+)[^}]*\}", placed.read_text()
    )
    assert limits
    raised = re.sub(
        r"(capacity[^>]*>, max = )(\d+)",
        lambda match: match[1] + str(int(match[2]) + 1),
        placed.read_text(),
    )
    dropped = re.sub(r"tpc.constraints = \[[^\]]*\]", "tpc.constraints = []", placed.read_text())
    for text in (raised, dropped):
        assert text != placed.read_text()
        edited.write_text(text)
        run([*verify, edited]).refused("tpc.constraints")

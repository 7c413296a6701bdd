"""Generating models in unusual forms give ONNX Runtime's results."""

import re

import numpy as np
import pytest
from onnx import TensorProto

import tpc
from generation import generate
from harness import Grid, run, sanitized, tool
from tpc import TpcError
from tpc.reference import TOLERANCE, Session, difference
from written import Gpt
from written_variants import F32, FAR, I64, WithPast, hidden_beside, variant, window

# Parts of accepted models.


def from_two(self):
    """Uses OPT's positions, which leave two rows of the table unused."""
    indices = self.op("Add", self.count(self.start, self.end), self.constant(np.int64(2)))
    return self.op("Gather", self.weight(self.POSITIONS + 2, self.hidden, scale=1), indices)


def waves(self):
    position = self.op("Cast", self.count(self.start, self.end), to=F32)
    angle = self.op(
        "Mul",
        self.column(position),
        self.constant((10.0 ** -np.linspace(0, 4, self.hidden // 2)).astype(np.float32)),
    )
    return self.op("Concat", self.op("Sin", angle), self.op("Cos", angle), axis=-1)


def longer_queries(self, queries):
    """Scales queries by the logarithm of their position."""
    position = self.op(
        "Add",
        self.op("Cast", self.count(self.start, self.end), to=F32),
        self.constant(np.float32(2)),
    )
    return self.op(
        "Mul", queries, self.op("Unsqueeze", self.op("Log", position), self.integers(0, 1, 3))
    )


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
    """Keys are cached in the layout that scores need, [batch, head, size, past]."""

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


def at(expression):
    """Table rows indexed by expressions of positions."""

    def positions(self):
        return self.op(
            "Gather",
            self.weight(self.POSITIONS, self.hidden, scale=1),
            expression(self, self.count(self.start, self.end)),
        )

    return positions


def clamped(self, indices):
    return self.op("Min", indices, self.constant(np.int64(19)))


def modulo(self, indices):
    return self.op("Mod", indices, self.constant(np.int64(7)))


def divided(self, indices):
    return self.op("Div", indices, self.constant(np.int64(4)))


def doubled(self, indices):
    return self.op("Mul", indices, self.constant(np.int64(2)))


def rows_and_columns(self):
    return self.op("Add", at(modulo)(self), at(divided)(self))


def slopes(make):
    """ALiBi: adds make(q, k, slope) to scores; `make` gets positions as floats."""

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


def minus_distance_both_ways(self, queries, keys, slope):
    return self.op("Mul", self.op("Neg", self.op("Abs", self.op("Sub", keys, queries))), slope)


def distances(bias):
    """Adds bias(d) to scores, for the integer distances d of queries and keys."""

    def scores(self, scores):
        queries, keys = self.count(self.start, self.end), self.count(self.zero, self.end)
        distance = self.op("Sub", self.column(queries), keys)
        slope = self.constant(np.float32([[[-0.5]], [[-0.25]]]))
        bias_of_heads = self.op("Mul", self.op("Cast", bias(self, distance), to=F32), slope)
        return Gpt.scores(self, self.op("Add", scores, bias_of_heads))

    return scores


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


def with_sinks(self, scores):
    """Adds sinks: a score of each head that is in the softmax, but has no value."""
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


def without_sinks(self, weights):
    return self.op(
        "Slice", weights, self.integers(0), self.integers(-1), self.integers(3), name="drop"
    )


ACCEPTED = {
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
    # Keys after the query are hidden, so the absolute distance is the distance.
    "slopes-both-ways": variant(scores=distances(lambda self, d: self.op("Abs", d))),
    "slopes-both-ways-of-floats": variant(scores=slopes(minus_distance_both_ways)),
    "squared-distance": variant(scores=distances(lambda self, d: self.op("Mul", d, d))),
    "slopes-past": variant(WithPast, positions=lambda self: "", scores=slopes(minus_product)),
    "sinks": variant(scores=with_sinks, weights=without_sinks),
    "sinks-past": variant(WithPast, scores=with_sinks, weights=without_sinks),
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
PROMPTS = [[0], [0, 0, 0, 0, 0], [36, 1, 2, 7, 30, 5, 9, 11, 13, 2, 2, 8]]


@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.parametrize("grid", ["tp1", pytest.param("tp2,pp2", marks=pytest.mark.long)])
def test_accepted_models(tpcc, tmp_path, name, grid):
    written = ACCEPTED[name]()
    if written.HEADS % Grid.parse(grid).tp:
        pytest.skip("one head is not split")
    path = written.write(tmp_path / "model.onnx")
    reference, program = Session(path), tpcc.compile(path, grid, "--generate")
    for prompt in PROMPTS:
        prompt = [token % written.VOCABULARY for token in prompt]
        output = generate(program, prompt, 12, "--prefill-chunk", "5", logits=True)
        ids = np.array([[*prompt, *output.tokens[:-1]]])
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
        assert len(output.tokens) == 12
        assert difference(output.logits, wanted).relative <= TOLERANCE, prompt


def test_capacity_beyond_memory(tpcc, tmp_path):
    """For a model without a limit on tokens, a capacity that exceeds any machine's memory is
    rejected before loading, without side effects.
    """
    path = ACCEPTED["nowhere"]().write(tmp_path / "model.onnx")
    program = tpcc.compile(path, "tp2", "--generate")
    output = generate(program, [1, 2], 4).tokens
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

    # Ranks of one machine share its memory: caches of three quarters of it fit one rank, but not
    # two.
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
        return  # the Python process needs the sanitizers too
    with tpc.load(program.path) as session:
        for new in (10**11, 2**63 - 1):
            with pytest.raises(TpcError, match="memory for|too many in all") as error:
                session.generate([1, 2], max_new_tokens=new)
            assert not error.value.broken
            assert session.generate([1, 2], max_new_tokens=4).tolist() == output


def test_token_that_is_not_a_valid_id(tpcc, tmp_path):
    """A token of the logits for which the embedding has no row ends the sequence with an error,
    unless it is a stop token.
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
    assert generate(program, [1, 2], 3, "--stop-ids", "37").tokens == [37]


@pytest.mark.parametrize(
    "expression,most",
    [(clamped, None), (modulo, None), (divided, 4 * Gpt.POSITIONS), (doubled, Gpt.POSITIONS // 2)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_sequence_limit(tpcc, tmp_path, expression, most):
    """A sequence uses every row of the table, and then ends."""
    path = variant(positions=at(expression))().write(tmp_path / "model.onnx")
    program, reference = tpcc.compile(path, "tp2", "--generate"), Session(path)
    assert program.describe()["generation"]["max_sequence"] == most
    length = most or 300
    prompt = np.random.default_rng(0).integers(0, Gpt.VOCABULARY, length)
    output = generate(program, prompt, 1, "--prefill-chunk=70", logits=True)
    assert (
        difference(
            output.logits, reference.run({"input_ids": prompt[None]})["logits"][0, -1:]
        ).relative
        <= TOLERANCE
    )
    if most:
        program.call(["--prompt-ids", ",".join(["1"] * (most + 1)), "--max-new-tokens=1"]).refused(
            str(most + 1), str(most)
        )


@pytest.mark.parametrize("expression", [divided, doubled])
def test_wrong_limits_in_text_are_rejected(tmp_path, expression):
    """A limit that is one too large, or missing, makes a full cache index past the table's end."""
    imported, step, preallocated, edited = (
        tmp_path / f"{name}.mlir" for name in ("imported", "step", "preallocated", "edited")
    )
    run(
        [
            tool("tpc-translate"),
            "--import-onnx",
            variant(positions=at(expression))().write(tmp_path / "model.onnx"),
            "-o",
            imported,
        ]
    ).check()
    run([tool("tpc-opt"), imported, "--tpc-step-pipeline", "-o", step]).check()
    run([tool("tpc-opt"), imported, "--tpc-last-step-pipeline", "-o", preallocated]).check()
    verify = [tool("tpc-opt"), f"--tpc-verify-generation=reference={step}", "-o", "/dev/null"]
    run([*verify, preallocated]).check()
    limits = re.findall(
        r"\{expr = #tpc.expr<[^>]*capacity[^>]*>, max = (\d+)[^}]*\}", preallocated.read_text()
    )
    assert limits
    raised = re.sub(
        r"(capacity[^>]*>, max = )(\d+)",
        lambda match: match[1] + str(int(match[2]) + 1),
        preallocated.read_text(),
    )
    dropped = re.sub(
        r"tpc.constraints = \[[^\]]*\]", "tpc.constraints = []", preallocated.read_text()
    )
    for text in (raised, dropped):
        assert text != preallocated.read_text()
        edited.write_text(text)
        run([*verify, edited]).refused("tpc.constraints")

"""Keys normalized over all heads (OLMo 2), with fewer kv heads than ranks.

Each rank stores the heads that it needs, as without the norm. Results equal ONNX Runtime's, with
and without generation.
"""

import numpy as np
import onnx
import pytest

from generate.generation import generate
from harness import Grid
from random_graphs import Layer, Spec, build
from tpc.reference import TOLERANCE, Session, difference

HIDDEN, HEADS, SIZE, DEPTH, VOCAB, F32 = 64, 8, 8, 2, 128, 4
SHAPE = {"batch": 2, "sequence": 16}
# Each of two kv heads is replicated r times, for subsets of its four query heads; over three ranks
# the query heads are split unevenly.
COPIES = {"tp8": 4, "tp4": 2, "tp3": 4}


def spec(wide_norm, norm="rms"):
    layer = Layer(
        heads=HEADS,
        kv=2,
        size=SIZE,
        rotary="half",
        norm=norm,
        ffn=96,
        bias=False,
        wide_norm=wide_norm,
    )
    return Spec(layers=(layer,), depth=DEPTH, hidden=HIDDEN, vocab=VOCAB)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wide")
    for name, kind in {
        "olmo2": spec("qk"),
        "llama": spec("none"),
        "centered": spec("qk", "layer"),
    }.items():
        onnx.save(build(kind).model(), folder / f"{name}.onnx")
    return folder


@pytest.mark.parametrize("text", COPIES)
def test_plan(tpcc, models, text):
    """All ranks have heads. The worst-case rank stores as much as in a LLaMA, plus its shards of
    both norms' scales.
    """
    grid = Grid.parse(text)
    plan, plain = (tpcc.plan(models / f"{name}.onnx", grid, SHAPE) for name in ("olmo2", "llama"))
    assert not plan["warnings"] and not plain["warnings"]
    stored, other = (one["stages"][0]["weight_bytes"] for one in (plan, plain))
    queries = -(-HEADS // grid.tp) * SIZE
    keys = 2 * SIZE if grid.tp == 3 else SIZE
    assert stored - other == DEPTH * (queries + keys) * F32
    # There is one more all-reduce per layer, for both sums of squares of a token.
    counts = [
        sum(row["count"] for row in one["collectives"] if row["axis"] == "tp")
        for one in (plan, plain)
    ]
    assert counts[0] - counts[1] == DEPTH


@pytest.mark.parametrize(
    "name, text",
    [
        ("olmo2", "tp8"),
        ("olmo2", "tp4"),
        ("olmo2", "tp3"),
        ("olmo2", "tp8,sp"),
        ("centered", "tp8"),
        ("centered", "tp3"),
    ],
)
def test_numbers(tpcc, models, name, text):
    ids = np.random.default_rng(0).integers(0, VOCAB, (2, 9))
    got = tpcc.compile(models / f"{name}.onnx", text, "-O0").run({"input_ids": ids})["logits"]
    assert (
        difference(got, Session(models / f"{name}.onnx").run({"input_ids": ids})["logits"]).relative
        <= TOLERANCE
    )


@pytest.mark.parametrize("text", COPIES)
def test_generation(tpcc, models, text):
    program = tpcc.compile(models / "olmo2.onnx", text, "--generate", "-O0")
    prompt = np.random.default_rng(1).integers(0, VOCAB, 7)
    output = generate(program, prompt, 5, "--prefill-chunk", "3", logits=True)
    everything = np.array([[*prompt, *output.tokens[:-1]]])
    wanted = Session(models / "olmo2.onnx").run({"input_ids": everything})["logits"][
        0, len(prompt) - 1 :
    ]
    assert difference(output.logits.reshape(wanted.shape), wanted).relative <= TOLERANCE

"""Uneven splits of kv heads over more ranks, of the vocabulary, and of heads in blocks."""

import numpy as np
import onnx
import pytest

from harness import Grid
from random_graphs import Layer, Spec, build
from random_inputs import make_inputs
from random_pairs import compare, judge
from tpc.reference import Session

MLP = dict(mlp="relu", ffn=16)
SHAPES = [(1, 1), (3, 7)]


def compiled(tpcc, tmp_path, spec, grid):
    path = tmp_path / "graph.onnx"
    onnx.save(build(spec).model(), path)
    return tpcc.compile(path, Grid.parse(grid))


def check(executable, spec, shapes=SHAPES):
    writer = build(spec)
    reference = Session(writer.model(reference=True).SerializeToString())
    names = [value.name for value in writer.model().graph.output]
    for shape in shapes:
        given = make_inputs(writer, *shape)
        expected, actual = reference.run(given), executable.run(given, names)
        for name in names:
            assert not compare(
                actual[name], expected[name], judge(writer, name), expected.get("logits")
            ), (name, shape)


def collectives(tpcc, tmp_path, grid, batch=3, sequence=7, **more):
    rows = tpcc.report(
        tmp_path / "graph.onnx", Grid.parse(grid), {"batch": batch, "sequence": sequence, **more}
    )
    return {
        (row["kind"], row["axis"]): (row["count"], row["bytes"])
        for row in rows
        if row["axis"] != "output"
    }


def weight_elements(executable, names):
    """Returns the number of elements of the named weights on each rank."""
    sizes_of_ranks = [
        weight["bytes"] for weight in executable.describe()["parameters"] if weight["name"] in names
    ]
    return [sum(rank) // 4 for rank in zip(*sizes_of_ranks)]


# (kv heads, query heads, tp): kv heads that each rank computes.
GROUPED = {
    (2, 8, 4): [1, 1, 1, 1],
    (2, 8, 8): [1] * 8,
    (2, 4, 4): [1, 1, 1, 1],
    (3, 6, 6): [1] * 6,
    (3, 6, 4): [1, 1, 1, 0],  # if heads were repeated, two ranks would compute two
    (1, 8, 4): [1, 1, 1, 1],
    (1, 3, 2): [1, 1],
    (4, 8, 2): [2, 2],
    (5, 10, 2): [5, 5],  # each rank has five query heads; without repetition, six and four
    (2, 8, 3): [2, 2, 2],  # three, three and two query heads
    (3, 6, 2): [3, 3],
    (8, 32, 6): [3, 3, 3, 3, 2, 2],
}


@pytest.mark.parametrize("kv,heads,tp", GROUPED, ids=lambda n: str(n))
@pytest.mark.parametrize("attention", ["separate", pytest.param("falcon", marks=pytest.mark.long)])
def test_ranks_store_the_kv_heads_that_they_need(tpcc, tmp_path, kv, heads, tp, attention):
    layer = Layer(attention=attention, heads=heads, kv=kv, size=4, rotary="half", **MLP)
    spec = Spec((layer,), depth=2, vocab=16)
    executable = compiled(tpcc, tmp_path, spec, f"tp{tp}")
    check(executable, spec)
    # Keys and values need no communication: there are only the embedding's sum and two sums per
    # layer.
    assert collectives(tpcc, tmp_path, f"tp{tp}") == {
        ("all_reduce", "tp"): (5, 5 * 3 * 7 * spec.hidden * 4)
    }
    hidden, size = spec.hidden, layer.size
    if attention == "separate":
        of_a_head = 2 * (hidden + 1) * size * spec.depth  # weight and bias of k and of v
        names = [
            f"h.{i}.attention.{part}.{what}"
            for i in range(2)
            for part in "kv"
            for what in ("weight", "bias")
        ]
        assert weight_elements(executable, names) == [n * of_a_head for n in GROUPED[kv, heads, tp]]


@pytest.mark.parametrize(
    "kv,heads,tp",
    [
        (2, 8, 8),
        (3, 6, 2),
        (2, 8, 3),
        *(pytest.param(*sizes, marks=pytest.mark.long) for sizes in ((2, 4, 4), (8, 32, 6))),
    ],
)
def test_caches_are_split_as_the_heads_are(tpcc, tmp_path, kv, heads, tp):
    """A rank slices the heads that it needs from an input cache. One copy of each head is in the
    output.
    """
    spec = Spec(
        (Layer(heads=heads, kv=kv, size=4, rotary="half", **MLP),), depth=2, vocab=16, cache=True
    )
    executable = compiled(tpcc, tmp_path, spec, f"tp{tp}")
    check(executable, spec)
    assert collectives(tpcc, tmp_path, f"tp{tp}", past=2) == {
        ("all_reduce", "tp"): (5, 5 * 3 * 7 * spec.hidden * 4)
    }
    names = [f"h.{i}.attention.{part}.weight" for i in range(2) for part in "kv"]
    expected = [n * 4 * spec.hidden * 4 for n in GROUPED[kv, heads, tp]]
    assert weight_elements(executable, names) == expected


@pytest.mark.parametrize(
    "head,extra", [("argmax", 1), ("softmax", 2), ("log_softmax", 2), ("loss", 3)]
)
@pytest.mark.parametrize(
    "grid",
    [
        "tp3",
        *(
            pytest.param(grid, marks=pytest.mark.long)
            for grid in ("tp2", "tp4,sp", "tp2,pp2,mb2", "tp2,dp2")
        ),
    ],
)
def test_vocabulary_at_the_end(tpcc, tmp_path, head, extra, grid):
    """No rank has all logits, and no op gathers them: one number per token is reduced."""
    spec = Spec((Layer(**MLP),), depth=2, vocab=31, head=head)
    check(compiled(tpcc, tmp_path, spec, grid), spec)
    if grid == "tp3":
        tokens = 3 * 7
        count, size = collectives(tpcc, tmp_path, grid)["all_reduce", "tp"]
        reduced = {"argmax": tokens * 4 + tokens * 8}.get(head, extra * tokens * 4)
        assert size == 5 * tokens * spec.hidden * 4 + reduced


@pytest.mark.parametrize(
    "attention,heads", [("codegen", 4), ("codegen", 6), ("bloom", 5), ("neox", 3), ("phi3", 6)]
)
@pytest.mark.parametrize(
    "grid", ["tp3,sp", *(pytest.param(grid, marks=pytest.mark.long) for grid in ("tp2", "tp5"))]
)
def test_fused_projections(tpcc, tmp_path, attention, heads, grid):
    """The columns of a rank's heads are not contiguous in the file's matrix."""
    layer = Layer(
        attention=attention,
        heads=heads,
        kv=3 if attention == "phi3" else heads,
        size=2,
        rotary="half",
        **MLP,
    )
    spec = Spec((layer,), vocab=16)
    check(compiled(tpcc, tmp_path, spec, grid), spec)

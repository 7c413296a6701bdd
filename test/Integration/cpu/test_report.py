"""Communication of a split: closed forms, --report and the runtime's counters agree exactly."""

import collections
import sys

import onnx
import pytest

from harness import TOP, Grid
from models import COMMITTED, FAMILIES, Model
from random_graphs import Layer, Spec, build

sys.path.append(str(TOP / "test" / "Benchmark"))
import gpt  # noqa: E402

ODD = COMMITTED["gpt2-odd-opset20"]
F32 = 4


def balanced(total, parts):
    """Returns the sizes of an even split, larger ones first."""
    return [total // parts + (index < total % parts) for index in range(parts)]


def micro_batches(batch, grid):
    """Returns the sizes of micro-batches of the replica with the most samples, without empty ones,
    which are neither computed nor sent.
    """
    return [size for size in balanced(balanced(batch, grid.dp)[0], grid.mb) if size]


def expected_totals(model, grid, batch, sequence, per_layer=2):
    """Returns (axis, kind) -> (count, bytes), summed over the stages for one rank of each. There
    are two reductions per layer (one if both branches are added to the residual at once) and one
    for the embedding. With sp, there are as many gathers, in layers and before the head.
    """
    batches = micro_batches(batch, grid)
    reductions = per_layer * model.layers + 1
    whole = sum(batches) * sequence * model.hidden * F32
    totals = {}
    if grid.tp > 1 and grid.sp:
        totals["tp", "reduce_scatter"] = (reductions * len(batches), reductions * whole)
        totals["tp", "all_gather"] = (reductions * len(batches), reductions * whole)
    elif grid.tp > 1:
        totals["tp", "all_reduce"] = (reductions * len(batches), reductions * whole)
    if grid.pp > 1:
        tokens = [size * sequence for size in batches]
        sent = (
            sum(balanced(count, grid.tp)[0] if grid.sp else count for count in tokens)
            * model.hidden
            * F32
        )
        totals["pp", "send"] = ((grid.pp - 1) * len(batches), (grid.pp - 1) * sent)
    return {key: value for key, value in totals.items() if value[0]}


def totals(rows):
    result = collections.Counter(), collections.Counter()
    for row in rows:
        result[0][row["axis"], row["kind"]] += row["count"]
        result[1][row["axis"], row["kind"]] += row["bytes"]
    return {key: (result[0][key], result[1][key]) for key in result[0]}


GRIDS = [
    Grid.parse(text)
    for text in (
        "tp1",
        "tp2",
        "tp3",
        "tp4",
        "tp8",
        "tp2,sp",
        "tp3,sp",
        "tp8,sp",
        "pp2",
        "dp2",
        "mb4",
        "tp2,mb4",
        "tp2,pp2",
        "tp3,pp2,sp",
        "tp2,pp2,dp2,mb4",
        "tp2,pp2,dp2,sp,mb4",
        "pp2,dp2,mb4",
    )
]


@pytest.mark.parametrize("shape", [(1, 1), (1, 64), (5, 7)], ids=str)
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_counts_and_bytes_are_the_closed_forms(tpcc, grid, shape):
    rows = tpcc.report(ODD.path, grid, ODD.shape(*shape))
    found = totals(rows)
    # Logits are gathered only on the rank that writes the output.
    found.pop(("output", "gather"), None)
    assert found == expected_totals(ODD, grid, *shape)


@pytest.mark.parametrize("grid", [Grid(tp=2), Grid(tp=2, sp=True), Grid(tp=2, pp=2, mb=4)], ids=str)
@pytest.mark.parametrize(
    "model",
    [model for model in COMMITTED.values() if model.vocab and model is not ODD],
    ids=lambda model: model.name,
)
def test_every_flavor_communicates_the_same(tpcc, model, grid):
    rows = tpcc.report(model.path, grid, model.shape(2, 16))
    found = totals(rows)
    found.pop(("output", "gather"), None)
    assert found == expected_totals(model, grid, 2, 16)


@pytest.mark.parametrize("text", ["tp2", "tp2,sp", "tp4,pp4"])
def test_124m(tpcc, text):
    """Compilation needs only the structure; this file has no weights."""
    import dataclasses

    from models import MODELS

    model = dataclasses.replace(ODD, path=MODELS / "gpt2-124m.onnx", layers=12, hidden=768)
    grid = Grid.parse(text)
    found = totals(tpcc.report(model.path, grid, model.shape(2, 128)))
    found.pop(("output", "gather"), None)
    assert found == expected_totals(model, grid, 2, 128)


SIZES = {
    "small": dict(layers=3, hidden=48, heads=6, ffn=160, vocab=331),
    "wide": dict(layers=2, hidden=512, heads=16, vocab=50257),
}


@pytest.mark.parametrize(
    "text",
    [
        "tp2",
        "tp8",
        "tp2,sp",
        "tp8,sp",
        "tp4,dp2",
        "tp4,dp2,sp",
        "tp2,pp2,mb3",
        "tp2,pp2,mb3,dp2,sp",
    ],
)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("residual", gpt.RESIDUALS)
def test_serial_layers_reduce_twice_and_parallel_ones_once(tpcc, tmp_path, residual, size, text):
    geometry = SIZES[size]
    path = gpt.write(tmp_path / "gpt.onnx", **geometry, residual=residual)
    model = Model(path, layers=geometry["layers"], hidden=geometry["hidden"])
    found = totals(tpcc.report(path, Grid.parse(text), model.shape(5, 7)))
    found.pop(("output", "gather"), None)
    assert found == expected_totals(model, Grid.parse(text), 5, 7, 2 if residual == "serial" else 1)


@pytest.mark.parametrize("text", ["tp2", "tp4,sp", "tp2,pp2"])
@pytest.mark.parametrize("zero_bias", [False, True])
def test_a_shared_bias_splits_like_others(tpcc, tmp_path, zero_bias, text):
    """In the file of an untrained model, all projections of one size share a vector of zeros as
    bias: column-parallel projections, whose results are split, and row-parallel ones, whose results
    are not.
    """
    layer = Layer(heads=4, kv=4, size=2, mlp="gelu", ffn=16)
    spec = Spec((layer,), depth=3, hidden=8, vocab=16, zero_bias=zero_bias)
    path = tmp_path / "model.onnx"
    onnx.save(build(spec).model(), path)
    model = Model(path, layers=3, hidden=8)
    found = totals(tpcc.report(path, Grid.parse(text), model.shape(2, 5)))
    found.pop(("output", "gather"), None)
    assert found == expected_totals(model, Grid.parse(text), 2, 5)


# Numbers of matmuls, attentions and kernels of a layer. Q, K and V are one matmul, and so are gate
# and up, however the family splits them. Kernels are norms, rotary embeddings, gate times up,
# concatenation and transposition of caches and, with tp, additions after a reduction. If a number
# decreases, update it here.
CALLS = {
    ("gpt2-odd-opset20", "tp1"): (4, 1, 2),
    ("gpt2-odd-opset20", "tp2"): (4, 1, 3),
    ("gpt2-odd-opset20", "tp3,sp"): (4, 1, 3),
    ("llama-dynamo", "tp1"): (4, 1, 5),
    ("llama-past", "tp2"): (4, 1, 9),
    ("qwen2-past", "tp3"): (4, 1, 9),
    ("falcon-dynamo", "tp1"): (4, 1, 4),
    ("falcon-dynamo", "tp2"): (4, 1, 4),
    ("phi-past", "tp1"): (4, 1, 7),
    ("gpt_neox-dynamo", "tp1"): (4, 1, 5),
    ("gpt_neox-past", "tp2"): (4, 1, 8),
    ("gemma2-past", "tp2"): (4, 1, 9),
}


@pytest.mark.parametrize("name,text", CALLS, ids=str)
def test_calls_of_a_layer(tpcc, name, text):
    model = {**COMMITTED, **FAMILIES}[name]
    functions = tpcc.plan(model.path, Grid.parse(text), model.shape(2, 8))["functions"]
    layers = [row for row in functions if row["layer"]]
    assert layers and sum(row["calls"] for row in layers) == model.layers
    for row in layers:
        assert (row["products"], row["attentions"], row["kernels"]) == CALLS[name, text], row


def test_only_the_last_stage_outputs_logits(tpcc):
    rows = tpcc.report(ODD.path, Grid(tp=2, pp=2), ODD.shape(2, 8))
    gathers = [row for row in rows if row["kind"] == "gather"]
    assert [(row["stage"], row["axis"]) for row in gathers] == [(1, "output")]


def test_unbound_sizes_are_named(tpcc):
    tpcc.call(
        [
            ODD.path,
            "--megatron-shard=tp2",
            f"--report={tpcc.scratch / 'r.json'}",
            "--shape",
            "batch=2",
        ]
    ).refused("sequence")
    tpcc.call(
        [
            ODD.path,
            "--megatron-shard=tp2",
            f"--report={tpcc.scratch / 'r.json'}",
            "--shape",
            "batch=2,seq=3",
        ]
    ).refused("sequence", "batch")

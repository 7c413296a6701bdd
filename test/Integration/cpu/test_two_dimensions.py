"""Two-dimensional tensor parallelism (tp2x4): results, and communication in closed form.

The closed form is in docs/design/partitioning.md.
"""

import collections
import dataclasses

import numpy as np
import onnx
import pytest

from harness import Grid
from models import COMMITTED, FROM_CORPUS, MODELS
from test_numbers import check, shapes
from tpc.reference import TOLERANCE, Session, difference

ODD = COMMITTED["gpt2-odd-opset20"]
TINY = COMMITTED["gpt2-tiny"]
F32 = 4


def grids(*texts):
    return [pytest.param(Grid.parse(text), id=text) for text in texts]


@pytest.mark.parametrize(
    "grid", grids("tp2x2", "tp2x4", "tp1x4", "tp2x2,pp2", "tp2x2,dp2,mb2", "tp3x2,pp2,dp2,mb4")
)
def test_numbers(tpcc, grid):
    check(tpcc.compile(ODD.path, grid), ODD, shapes(ODD))


@pytest.mark.parametrize(
    "name,text",
    [
        ("gpt2-odd-nopast", "tp2x3"),
        ("gpt2-differing-layers", "tp2x2,pp3"),
        ("gpt2-layer", "tp3x2"),
        ("gpt2-mlp", "tp2x2"),
        ("gpt2-erf-opset18", "tp4x1"),
    ],
)
def test_numbers_of_other_flavors(tpcc, name, text):
    model = COMMITTED[name]
    check(tpcc.compile(model.path, Grid.parse(text)), model, [(1, 1), (4, 7)])


@pytest.mark.parametrize(
    "name,text", [("exported-gpt2-nopast", "tp2x4,pp2"), ("exported-gpt2odd-dynamo", "tp3x2,dp2")]
)
def test_numbers_of_other_exporters(tpcc, name, text):
    model = FROM_CORPUS[name]
    if not model.path.exists():
        pytest.skip(f"corpus: {model.path} is absent")
    check(tpcc.compile(model.path, Grid.parse(text)), model, [(1, 1), (4, 7)])


def test_numbers_on_mpi(tpcc, mpi):
    check(tpcc.compile(ODD.path, Grid.parse("tp2x2,pp2")), ODD, [(1, 1), (4, 7)], transport=mpi)


def grouped_attention(path, heads, kv_heads, size, hidden, constants=()):
    """Writes a layer with grouped queries after a norm. `constants` are Constant nodes."""
    random = np.random.default_rng(heads)
    sizes = {
        "scale": (hidden,),
        "wq": (hidden, heads * size),
        "wk": (hidden, kv_heads * size),
        "wv": (hidden, kv_heads * size),
        "wo": (heads * size, hidden),
        "bq": (heads * size,),
    }
    weights = [
        onnx.numpy_helper.from_array(random.normal(0, 0.5, shape).astype(np.float32), name)
        for name, shape in sizes.items()
    ]
    nodes = [
        *(
            onnx.helper.make_node("Constant", [], [value.name], value=value)
            for value in weights
            if value.name in constants
        ),
        onnx.helper.make_node("LayerNormalization", ["x", "scale"], ["n"], "norm", axis=-1),
        *(onnx.helper.make_node("MatMul", ["n", f"w{name}"], [name], name) for name in "qkv"),
        onnx.helper.make_node("Add", ["q", "bq"], ["biased"], "bias"),
        onnx.helper.make_node(
            "Attention",
            ["biased", "k", "v"],
            ["a"],
            "attention",
            q_num_heads=heads,
            kv_num_heads=kv_heads,
            is_causal=1,
        ),
        onnx.helper.make_node("MatMul", ["a", "wo"], ["o"], "out"),
        onnx.helper.make_node("Add", ["x", "o"], ["y"], "residual"),
    ]
    ports = [
        onnx.helper.make_tensor_value_info(
            name, onnx.TensorProto.FLOAT, ["batch", "sequence", hidden]
        )
        for name in "xy"
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "grouped",
        ports[:1],
        ports[1:],
        [value for value in weights if value.name not in constants],
    )
    onnx.save(
        onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 23)], ir_version=10
        ),
        path,
    )
    return path


@pytest.mark.parametrize(
    "heads,kv_heads,text", [(6, 3, "tp2x2"), (9, 3, "tp2x2"), (12, 2, "tp2x3"), (12, 3, "tp3x2")]
)
def test_few_kv_heads(tpcc, tmp_path, heads, kv_heads, text):
    """tpx or tpy splits the heads of each group, so a rank's query heads are not consecutive in the
    model.
    """
    path = grouped_attention(tmp_path / f"grouped-{heads}-{kv_heads}.onnx", heads, kv_heads, 4, 12)
    x = np.random.default_rng(1).standard_normal((2, 5, 12), dtype=np.float32)
    actual = tpcc.compile(path, Grid.parse(text)).run({"x": x}, ["y"])["y"]
    assert difference(actual, Session(path).run({"x": x})["y"]).relative <= TOLERANCE


@pytest.mark.parametrize("heads,kv_heads,text", [(4, 2, "tp2x2"), (6, 2, "tp2x3")])
def test_small_weights_of_few_kv_heads(tpcc, tmp_path, heads, kv_heads, text):
    """Every rank has all constants of the program and slices its shards."""
    path = grouped_attention(
        tmp_path / f"constants-{heads}.onnx", heads, kv_heads, 2, 4, ["wo", "bq", "wk"]
    )
    x = np.random.default_rng(1).standard_normal((2, 5, 4), dtype=np.float32)
    actual = tpcc.compile(path, Grid.parse(text)).run({"x": x}, ["y"])["y"]
    assert difference(actual, Session(path).run({"x": x})["y"]).relative <= TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize(
    "grid",
    grids(
        *(
            f"tp{x}x{y}{rest}"
            for x in (1, 2, 3, 4)
            for y in (1, 2, 4)
            for rest in ("", ",pp2", ",dp2,mb3")
            if x * y > 1
        )
    ),
)
def test_numbers_of_all_grids(tpcc, grid):
    check(tpcc.compile(ODD.path, grid), ODD, shapes(ODD))


def part(total, parts):
    """Returns the size of the largest shard."""
    return -(-total // parts)


def expected(grid, tokens, layers, width, heads, inner, vocab):
    """Returns (axis, kind) -> count and bytes of the whole buffers of one rank in a step. The
    vocabulary is split in both dimensions.
    """
    x, y = grid.xy
    rows, heads_y, inner_y = part(width, x), part(heads, y) * (width // heads), part(inner, y)
    totals = collections.Counter(), collections.Counter()

    def add(axis, kind, count, elements):
        if all(size > 1 for name, size in (("tpx", x), ("tpy", y)) if name == axis):
            totals[0][axis, kind] += count
            totals[1][axis, kind] += tokens * elements * F32

    for _ in range(layers):
        add("tpy", "all_gather", 2, 2 * rows)
        add(
            "tpx", "reduce_scatter", 2, 3 * heads_y + inner_y
        )  # those of Q, K and V are small, so they are joined
        add("tpx", "all_gather", 2, heads_y + inner_y)
        add("tpy", "reduce_scatter", 2, 2 * rows)
    add("tpy", "reduce_scatter", 1, rows)  # the table
    add("tpy", "all_gather", 1, rows)  # before the head
    add("tpx", "reduce_scatter", 1, part(vocab, y))  # logits
    norms = "-".join(name for name, size in (("tpx", x), ("tpy", y)) if size > 1)
    add(norms, "all_reduce", 4 * layers + 2, 4 * layers + 2)
    return {key: (totals[0][key], totals[1][key]) for key in totals[0]}


def found(rows):
    totals = collections.Counter(), collections.Counter()
    for row in rows:
        if row["kind"] != "gather":
            totals[0][row["axis"], row["kind"]] += row["count"]
            totals[1][row["axis"], row["kind"]] += row["bytes"]
    return {key: (totals[0][key], totals[1][key]) for key in totals[0]}


@pytest.mark.parametrize(
    "model,inner,grid,shape",
    [
        pytest.param(ODD, 140, Grid.parse("tp2x4"), (1, 1), id="odd-tp2x4-token"),
        *(
            pytest.param(ODD, 140, Grid.parse(text), (5, 7), id=f"odd-{text}")
            for text in ("tp2x4", "tp1x4", "tp3x2", "tp4x1")
        ),
        pytest.param(TINY, 128, Grid.parse("tp2x2"), (5, 7), id="tiny-tp2x2"),
    ],
)
def test_bytes_are_the_closed_form(tpcc, model, inner, grid, shape):
    rows = tpcc.report(model.path, grid, model.shape(*shape))
    assert found(rows) == expected(
        grid, shape[0] * shape[1], model.layers, model.hidden, model.heads, inner, model.vocab
    )


@pytest.mark.parametrize("grid", grids("tp2x2,pp2", "tp2x3,dp2,mb2"))
def test_the_runtime_counts_what_the_report_says(tpcc, grid):
    executable = tpcc.compile(ODD.path, grid)
    rows = tpcc.report(ODD.path, grid, ODD.shape(5, 7))
    measured = executable.bench(ODD.shape(5, 7), arguments=["--weights=random:1"])

    def ordered(rows):
        return sorted(
            (row["stage"], row["axis"], row["kind"], row["count"], row["bytes"]) for row in rows
        )

    assert ordered(measured["collectives"]) == ordered(rows)


def test_volume_on_48_ranks_is_half_of_one_dimension(tpcc):
    """In layers of GPT-2 124M, one dimension with sp communicates 4 T E on any number of ranks.
    tp4x12 communicates (4/4 + 12/12) T E.
    """
    model = dataclasses.replace(
        ODD, path=MODELS / "gpt2-124m.onnx", layers=12, hidden=768, heads=12, vocab=50257
    )
    tokens, layers = 128, 12
    one = found(tpcc.report(model.path, Grid.parse("tp12,sp"), model.shape(1, tokens)))
    assert (
        sum(volume for _, volume in one.values()) == (4 * layers + 2) * tokens * model.hidden * F32
    )
    grid = Grid.parse("tp4x12")
    two = found(tpcc.report(model.path, grid, model.shape(1, tokens)))
    assert two == expected(grid, tokens, layers, 768, 12, 3072, 50257)
    outside = expected(grid, tokens, 0, 768, 12, 3072, 50257)
    volume = sum(two[key][1] - outside.get(key, (0, 0))[1] for key in two if key[1] != "all_reduce")
    assert volume == 2 * layers * tokens * model.hidden * F32


@pytest.fixture(scope="module")
def fast_links(tmp_path_factory):
    """Returns link costs with zero latency. Then only bytes count, and matmuls of the
    vocabulary do not split the width.
    """
    path = tmp_path_factory.mktemp("links") / "links.json"
    path.write_text('{"intra_node": {"alpha": 0, "beta": 1e-9}}')
    return f"--links={path}"


def test_a_large_vocabulary_is_split_alone(tpcc, fast_links):
    """The width is whole in matmuls of the vocabulary. Table and head are tied and stored once."""
    grid, tokens = Grid.parse("tp2x2"), 35
    rows = found(tpcc.report(ODD.path, grid, ODD.shape(5, 7), fast_links))
    assert ("tpx", "reduce_scatter") in rows
    layers = expected(grid, tokens, ODD.layers, ODD.hidden, ODD.heads, 140, 0)
    extra = tokens * ODD.hidden * F32
    assert (
        rows["tpx", "reduce_scatter"][1] == layers["tpx", "reduce_scatter"][1] + extra
    )  # the table's
    assert rows["tpx", "all_gather"][1] == layers["tpx", "all_gather"][1] + extra  # the head's
    executable = tpcc.compile(ODD.path, grid, fast_links)
    check(executable, ODD, [(1, 1), (4, 7)])
    measured = executable.bench(ODD.shape(5, 7), arguments=["--weights=random:1"])
    assert found(measured["collectives"]) == rows
    check_weights(tpcc, executable)


def weight_bytes(executable):
    """Returns the weight bytes of each rank."""
    return [
        sum(sizes)
        for sizes in zip(*(parameter["bytes"] for parameter in executable.describe()["parameters"]))
    ]


def check_weights(tpcc, executable):
    """All weights are split over all ranks, except for sizes that do not divide evenly."""
    (whole,) = weight_bytes(tpcc.compile(ODD.path, Grid()))
    assert sum(weight_bytes(executable)) == whole
    assert max(weight_bytes(executable)) < 1.1 * whole / executable.grid.ranks


def test_all_weights_are_split_over_both_axes(tpcc):
    check_weights(tpcc, tpcc.compile(ODD.path, Grid.parse("tp2x2")))

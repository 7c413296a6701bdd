"""Results of every split against ONNX Runtime."""

import itertools

import numpy as np
import onnx
import pytest

from harness import Grid
from models import COMMITTED, FROM_CORPUS
from test_mutations import with_tensor, zeroed_q
from tpc.reference import TOLERANCE, Session, difference

ODD = COMMITTED["gpt2-odd-opset20"]


def pairwise(grids):
    """Returns a small subset of `grids` that covers every pair of settings that occurs in some
    grid. Repeatedly takes the grid with the most uncovered pairs.
    """

    def pairs(grid):
        settings = [
            ("tp", grid.tp),
            ("pp", grid.pp),
            ("dp", grid.dp),
            ("sp", grid.sp),
            ("mb", grid.mb),
        ]
        return set(itertools.combinations(settings, 2))

    left = set().union(*map(pairs, grids))
    chosen = []
    while left:
        best = max(grids, key=lambda grid: (len(pairs(grid) & left), -grid.ranks))
        chosen.append(best)
        left -= pairs(best)
    return chosen


ALL = Grid.all()
SAMPLE = pairwise([grid for grid in ALL if grid.ranks <= 16])
# Grids for the files other than the one that is tested on the sample.
FEW = [Grid(), Grid(tp=2), Grid(tp=3, sp=True), Grid(tp=2, pp=2, dp=2, mb=4)]
# A single layer cannot be cut into stages.
FEW_PARTS = [Grid(), Grid(tp=2), Grid(tp=3, sp=True), Grid(tp=2, dp=2, mb=4)]


def few(model):
    return [
        grid for grid in (FEW if model.layers > 1 else FEW_PARTS) if grid.tp <= max(model.heads, 2)
    ]


def cases(models, grids):
    """Returns all pairs of models and grids. By default each model has two grids, in rotation."""
    return [
        pytest.param(
            model,
            grid,
            id=f"{model.name}-{grid}",
            marks=[] if (i + j) % 2 == 0 else pytest.mark.long,
        )
        for i, model in enumerate(models)
        for j, grid in enumerate(grids(model))
    ]


def shapes(model):
    return itertools.product((1, 4), (1, 7, min(64, model.positions)))


def check(executable, model, shapes, paddings=("none",), transport="threads"):
    """Runs all shapes with one executable in one process. The message lists every wrong shape."""
    cases = list(itertools.product(shapes, paddings))
    inputs = [model.inputs(*shape, padding) for shape, padding in cases]
    wrong = []
    for case, given, actual in zip(
        cases, inputs, executable.run_many(inputs, model.output, transport)
    ):
        distance = difference(actual, model.expected(given))
        if distance.relative > TOLERANCE:
            (batch, sequence), padding = case
            wrong.append(f"batch {batch}, sequence {sequence}, padding {padding}: {distance}")
    assert not wrong, f"{model.name} at {executable.grid} on {transport}:\n" + "\n".join(wrong)


@pytest.mark.parametrize("grid", SAMPLE, ids=str)
def test_sample(tpcc, grid):
    check(tpcc.compile(ODD.path, grid), ODD, shapes(ODD))


@pytest.mark.parametrize(
    "model,grid", cases((model for model in COMMITTED.values() if model is not ODD), few)
)
def test_every_flavor(tpcc, model, grid):
    check(tpcc.compile(model.path, grid), model, shapes(model))


@pytest.mark.parametrize("model,grid", cases(FROM_CORPUS.values(), lambda model: few(model)[1:]))
def test_other_exporters(tpcc, model, grid):
    if not model.path.exists():
        pytest.skip(f"corpus: {model.path} is absent")
    check(tpcc.compile(model.path, grid), model, shapes(model))


@pytest.mark.parametrize(
    "grid",
    [Grid(), Grid(tp=2), Grid(tp=3, sp=True), Grid(tp=2, pp=2, dp=2, sp=True, mb=4)],
    ids=str,
)
@pytest.mark.parametrize("name", ["gpt2-odd-nopast", "gpt2-tiny-nopast"])
def test_padded_batches(tpcc, name, grid):
    """Sequences are padded on the left or right. Rows of padding, which see no key or only padding,
    are compared like all others.
    """
    model = COMMITTED[name]
    check(tpcc.compile(model.path, grid), model, [(1, 7), (4, 7), (4, 64)], ["left", "right"])


@pytest.mark.parametrize(
    "grid",
    [Grid(tp=2), Grid(pp=2), Grid(dp=2, mb=4), Grid(tp=2, pp=2, sp=True), Grid(tp=8, sp=True)],
    ids=str,
)
def test_mpi(tpcc, mpi, grid):
    check(tpcc.compile(ODD.path, grid), ODD, [(1, 1), (4, 7)], transport=mpi)


@pytest.mark.parametrize("grid", [Grid(tp=3, pp=2, sp=True), Grid(tp=4, dp=2, mb=4)], ids=str)
def test_same_bits_on_every_transport_and_in_every_run(tpcc, mpi, grid):
    executable = tpcc.compile(ODD.path, grid)
    inputs = ODD.inputs(4, 33)
    first = executable.run(inputs)["logits"]
    for transport in ("threads", "threads", mpi, mpi):
        np.testing.assert_array_equal(executable.run(inputs, transport=transport)["logits"], first)


def test_32_ranks(tpcc):
    check(tpcc.compile(ODD.path, Grid(tp=8, pp=4)), ODD, [(1, 1), (4, 64)])


@pytest.mark.parametrize("order", ["tp-dp-pp", "pp-dp-tp", "dp-tp-pp"])
def test_order_of_axes(tpcc, order):
    check(tpcc.compile(ODD.path, Grid(tp=2, pp=2, dp=2, order=order)), ODD, [(4, 7)])


def test_negative_ids_count_from_the_end(tpcc):
    """ONNX's Gather accepts ids from -V on. So must lookups in a shard of the vocabulary."""
    executable = tpcc.compile(ODD.path, Grid(tp=2))
    ids = ODD.inputs(2, 9)["input_ids"]
    negative = np.where(np.arange(9) % 2 == 0, ids - ODD.vocab, ids)
    np.testing.assert_array_equal(
        executable.run({"input_ids": negative})["logits"],
        executable.run({"input_ids": ids})["logits"],
    )


def test_inputs_with_defaults_may_be_omitted(tpcc):
    model = COMMITTED["gpt2-odd-nopast"]
    executable = tpcc.compile(model.path, Grid(tp=2))
    inputs = model.inputs(2, 9)
    actual = executable.run({"input_ids": inputs["input_ids"]})["logits"]
    assert difference(actual, model.expected(inputs)).relative <= TOLERANCE


def test_empty_batch(tpcc):
    executable = tpcc.compile(ODD.path, Grid(tp=2, pp=2, sp=True))
    actual = executable.run({"input_ids": np.zeros((0, 7), np.int64)})["logits"]
    assert actual.shape == (0, 7, ODD.vocab)


def test_empty_sequence(tpcc):
    """The dynamo exporter's masks slice out the first token, so an empty sequence is an error."""
    executable = tpcc.compile(ODD.path, Grid(tp=2, pp=2, sp=True))
    np.save(executable.scratch / "none.npy", np.zeros((2, 0), np.int64))
    executable.call(["--input", executable.scratch / "none.npy"]).refused("sequence", "at least 1")


def test_missing_queries_exceed_the_tolerance(tpcc, tmp_path):
    """test_mutations.py shows that such faults exceed the tolerance; this test shows that the
    comparison of executables uses it.
    """
    path = tmp_path / "no-q.onnx"
    onnx.save(
        with_tensor(onnx.load(ODD.path), "model.transformer.h.1.attn.c_attn.weight", zeroed_q), path
    )
    inputs = ODD.inputs(2, 16)
    actual = tpcc.compile(path, Grid(tp=2)).run(inputs)["logits"]
    assert difference(actual, ODD.expected(inputs)).relative > TOLERANCE
    assert difference(actual, Session(path).run(inputs)["logits"]).relative <= TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize("transport", ["threads", "mpi"])
@pytest.mark.parametrize(
    "name", ["gpt2-odd-opset20", "gpt2-odd-opset18", "gpt2-odd-opset23", "gpt2-odd-nopast"]
)
@pytest.mark.parametrize("grid", ALL, ids=str)
def test_all_combinations(tpcc, request, name, grid, transport):
    if transport == "mpi":
        request.getfixturevalue("mpi")
    model = COMMITTED[name]
    some = list(shapes(model)) if transport == "threads" else [(1, 1), (4, 7)]
    check(
        tpcc.compile(model.path, grid),
        model,
        some,
        ["none", "left", "right"] if model.padded else ["none"],
        transport,
    )


def test_unsigned_constants(tpcc, tmp_path):
    """Bytes above 127 are positive, also when the compiler runs kernels to compare them."""
    table = onnx.numpy_helper.from_array(np.arange(2048, dtype=np.uint8).reshape(64, 32), "table")
    ports = [
        onnx.helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("x", onnx.TensorProto.FLOAT, ["n", 64]),
            ("y", onnx.TensorProto.FLOAT, ["n", 32]),
            ("z", onnx.TensorProto.INT32, [64, 32]),
        )
    ]
    nodes = [
        onnx.helper.make_node("Cast", ["table"], ["z"], "widen", to=onnx.TensorProto.INT32),
        onnx.helper.make_node("Cast", ["z"], ["t"], "cast", to=onnx.TensorProto.FLOAT),
        onnx.helper.make_node("MatMul", ["x", "t"], ["y"], "product"),
    ]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "bytes", ports[:1], ports[1:], [table]),
        opset_imports=[onnx.helper.make_opsetid("", 21)],
        ir_version=10,
    )
    onnx.save(model, tmp_path / "bytes.onnx")
    x = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    found = tpcc.compile(tmp_path / "bytes.onnx").run({"x": x}, ["y", "z"])
    expected = Session(tmp_path / "bytes.onnx").run({"x": x})
    assert difference(found["y"], expected["y"]).relative < TOLERANCE
    assert np.array_equal(found["z"], expected["z"])

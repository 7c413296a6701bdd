"""Cyclic shifts (torch.roll) along a split dimension: no gather, and ONNX Runtime's results.

Shifts and shards have any size.
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness import Grid
from tpc.reference import Session

WIDTH, INNER, END = 6, 12, np.iinfo(np.int64).max


def roll(nodes, weights, x, shift, axis, name):
    """Adds the nodes as which torch.onnx exports torch.roll(x, shift, axis)."""
    for key, value in (("start", -shift), ("zero", 0), ("end", END), ("axis", axis)):
        weights[f"{name}_{key}"] = np.array([value], np.int64)
    nodes += [
        helper.make_node(
            "Slice", [x, f"{name}_start", f"{name}_end", f"{name}_axis"], [f"{name}_a"], f"{name}_a"
        ),
        helper.make_node(
            "Slice",
            [x, f"{name}_zero", f"{name}_start", f"{name}_axis"],
            [f"{name}_b"],
            f"{name}_b",
        ),
        helper.make_node("Concat", [f"{name}_a", f"{name}_b"], [name], name, axis=axis),
    ]
    return name


def mlp(nodes, weights, x, name):
    for key, shape in (("w1", (WIDTH, INNER)), ("w2", (INNER, WIDTH))):
        weights[f"{name}_{key}"] = (
            np.random.default_rng(len(weights)).normal(0, 0.4, shape).astype(np.float32)
        )
    nodes += [
        helper.make_node("MatMul", [x, f"{name}_w1"], [f"{name}_h"], f"{name}_fc1"),
        helper.make_node("Relu", [f"{name}_h"], [f"{name}_r"], f"{name}_relu"),
        helper.make_node("MatMul", [f"{name}_r", f"{name}_w2"], [name], f"{name}_fc2"),
    ]
    return name


def token_shift(path, shifts, axis=1, sequence="sequence"):
    """Writes two MLPs between which each token is combined with other tokens of its sequence."""
    nodes, weights = [], {}
    nodes.append(helper.make_node("Tanh", [mlp(nodes, weights, "x", "mlp1")], ["t"], "tanh"))
    value = "t"
    for i, shift in enumerate(shifts):
        shifted = roll(nodes, weights, value, shift, axis, f"shift{i}")
        nodes.append(helper.make_node("Sub", [value, shifted], [f"d{i}"], f"difference{i}"))
        value = f"d{i}"
    nodes.append(
        helper.make_node("Identity", [mlp(nodes, weights, value, "mlp2")], ["y"], "result")
    )
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", sequence, WIDTH])
        for name in "xy"
    ]
    graph = helper.make_graph(
        nodes,
        "shifts",
        ports[:1],
        ports[1:],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def check(tpcc, path, grid, shapes, transport=None):
    executable, reference = tpcc.compile(path, Grid.parse(grid)), Session(str(path))
    for shape in shapes:
        x = np.random.default_rng(sum(shape)).normal(size=(*shape, WIDTH)).astype(np.float32)
        arguments = {} if transport is None else {"transport": transport}
        actual = executable.run({"x": x}, ["y"], **arguments)["y"]
        np.testing.assert_allclose(actual, reference.run({"x": x})["y"], rtol=1e-4, atol=1e-5)


def kinds(tpcc, path, grid, batch, sequence):
    rows = tpcc.report(path, Grid.parse(grid), {"batch": batch, "sequence": sequence})
    return {
        (row["kind"], row["axis"]): (row["count"], row["bytes"])
        for row in rows
        if row["axis"] != "output"
    }


# Right and left, across the end of a shard, and by more than the length of some sequences.
SHIFTS = [(1,), (-2,), (5, -1), (-40, 40)]
SHAPES = [(2, 7), (1, 1), (3, 4), (5, 11)]


@pytest.mark.parametrize(
    "grid", ["tp2,sp", "tp4,sp", pytest.param("tp3,sp,dp2", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("shifts", SHIFTS, ids=str)
def test_tokens_shift_within_their_sequences(tpcc, tmp_path, grid, shifts):
    path = tmp_path / "shift.onnx"
    token_shift(path, shifts)
    check(tpcc, path, grid, SHAPES)
    # Each shift is one permutation; the only gather belongs to the second MLP. ONNX clips a shift
    # beyond the size to zero.
    found = {
        kind: count
        for (kind, axis), (count, _) in kinds(tpcc, path, grid, 3, 7).items()
        if axis == "tp"
    }
    assert found.pop("collective_permute", 0) == sum(abs(shift) < 7 for shift in shifts)
    assert found == {"all_reduce": 2, "all_gather": 1}


def test_shift_by_zero(tpcc, tmp_path):
    path = tmp_path / "shift.onnx"
    token_shift(path, (0,))
    check(tpcc, path, "tp2,sp", SHAPES)
    assert ("collective_permute", "tp") not in kinds(tpcc, path, "tp2,sp", 2, 7)


def test_only_crossing_tokens_are_sent(tpcc, tmp_path):
    """With a sequence of 12 tokens over four ranks, a shift by k sends k of a rank's three tokens,
    at most all.
    """
    path = tmp_path / "shift.onnx"
    for shift, tokens in ((1, 1), (-2, 2), (5, 3), (11, 1)):
        token_shift(path, (shift,))
        assert kinds(tpcc, path, "tp4,sp", 1, 12)["collective_permute", "tp"] == (
            1,
            tokens * WIDTH * 4,
        )


def test_the_runtime_counts_what_the_report_says(tpcc, tmp_path):
    path = tmp_path / "shift.onnx"
    token_shift(path, (3, -1))
    for batch, sequence in ((2, 7), (1, 3)):
        sizes = {"batch": batch, "sequence": sequence}
        rows = tpcc.report(path, Grid.parse("tp4,sp"), sizes)
        measured = tpcc.compile(path, Grid.parse("tp4,sp")).bench(sizes)["collectives"]
        fields = ("stage", "axis", "kind", "count", "bytes")
        assert sorted([row[f] for f in fields] for row in measured) == sorted(
            [row[f] for f in fields] for row in rows
        )


def test_samples_shift_over_replicas(tpcc, tmp_path):
    """A shift along the batch communicates over dp, which otherwise has no communication."""
    path = tmp_path / "shift.onnx"
    token_shift(path, (1, -2), axis=0)
    check(tpcc, path, "tp2,dp3", [(7, 3), (1, 2), (2, 1)])
    assert ("collective_permute", "dp") in kinds(tpcc, path, "tp2,dp3", 7, 3)
    check(tpcc, path, "tp2,sp,dp2", [(5, 3), (1, 2)])


def test_micro_batches_cannot_shift(tpcc, tmp_path):
    path = tmp_path / "shift.onnx"
    token_shift(path, (1,), axis=0)
    tpcc.call([path, "--megatron-shard=tp2,mb2", "-o", tmp_path / "program"]).refused(
        "'shift0' (tpc.roll) shifts along it", "a rank has one micro-batch at a time", "remove mb2"
    )


def test_the_width_shifts_in_two_dimensions(tpcc, tmp_path):
    """With tp2x2 the residual's width is split, over both axes outside of matmuls."""
    path = tmp_path / "shift.onnx"
    token_shift(path, (1, -2), axis=2)
    check(tpcc, path, "tp2,sp", [(2, 5)])
    for grid in ("tp2x2", "tp2x3,dp2"):
        check(tpcc, path, grid, [(2, 5), (1, 1)])
        assert any(kind == "collective_permute" for kind, _ in kinds(tpcc, path, grid, 2, 5))


def test_shifts_on_mpi(tpcc, tmp_path, mpi):
    path = tmp_path / "shift.onnx"
    token_shift(path, (5, -1))
    check(tpcc, path, "tp4,sp", [(2, 7), (1, 1)], transport=mpi)

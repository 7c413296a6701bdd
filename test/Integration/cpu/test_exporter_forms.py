"""Parts of models as exporters write them: each computes ONNX Runtime's results, on split ranks."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tpc.reference import TOLERANCE, Session, difference

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


class Graph:
    """ONNX graph that is written node by node."""

    def __init__(self):
        self.nodes, self.constants = [], []
        self.random = np.random.default_rng(0)

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def integers(self, *values):
        return self.constant(np.array(values, np.int64))

    def weight(self, *shape):
        return self.constant(self.random.standard_normal(shape).astype(np.float32))

    def write(self, path, inputs, output, opset=17, name="y"):
        infos = [helper.make_tensor_value_info(name, *info) for name, info in inputs.items()]
        self.nodes.append(helper.make_node("Identity", [output], [name]))
        graph = helper.make_graph(
            self.nodes,
            "forms",
            infos,
            [helper.make_tensor_value_info(name, F32, None)],
            self.constants,
        )
        opsets = [helper.make_opsetid("", opset)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
        return path


def check(tpcc, path, grid, inputs):
    ((name, wanted),) = Session(path).run(inputs).items()
    found = tpcc.compile(path, grid).run(inputs, [name])[name]
    assert difference(found, wanted).relative <= TOLERANCE


def test_buckets_of_distances(tpcc, tmp_path):
    """T5's bias: the logarithm of distance 0 is converted to an integer, which Where drops."""
    g = Graph()
    size = g.op("Gather", g.op("Shape", "x"), g.constant(np.int64(1)))
    positions = g.op("Range", g.constant(np.int64(0)), size, g.constant(np.int64(1)))
    column = g.op("Unsqueeze", positions, g.integers(1))
    distance = g.op("Abs", g.op("Sub", positions, column))
    log = g.op("Log", g.op("Div", g.op("Cast", distance, to=F32), g.constant(np.float32(4))))
    large = g.op("Cast", g.op("Mul", log, g.constant(np.float32(3))), to=I64)
    large = g.op("Min", g.op("Add", large, g.constant(np.int64(4))), g.constant(np.int64(7)))
    near = g.op("Less", distance, g.constant(np.int64(4)))
    bias = g.op("Gather", g.weight(8, 2), g.op("Where", near, distance, large))
    scores = g.op("Transpose", bias, perm=[2, 0, 1])
    mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), g.op("MatMul", "x", g.weight(4, 6)))
    path = g.write(tmp_path / "buckets.onnx", {"x": (F32, ["b", "s", 4])}, mixed)
    x = np.random.default_rng(1).standard_normal((2, 19, 4)).astype(np.float32)
    check(tpcc, path, "tp2", {"x": x})


CONVOLUTIONS = {
    "patches": ([3, 9, 8], dict(strides=[4, 4]), (6, 3, 4, 4)),
    "whisper": ([4, "n"], dict(strides=[2], pads=[1, 1]), (6, 4, 3)),
    "dilated": ([4, 9], dict(dilations=[2], pads=[2, 1]), (6, 4, 3)),
    "points": ([4, "n", 5], dict(), (6, 4, 1, 1)),
    "depthwise": ([6, "n"], dict(group=6, pads=[2, 0]), (6, 1, 3)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(tpcc, tmp_path, name):
    sizes, attributes, kernel = CONVOLUTIONS[name]
    g = Graph()
    maps = g.op("Conv", "x", g.weight(*kernel), g.weight(kernel[0]), **attributes)
    rows = g.op("Reshape", maps, g.integers(0, kernel[0], -1))
    rows = g.op("Transpose", rows, perm=[0, 2, 1])
    y = g.op("MatMul", g.op("Relu", g.op("MatMul", rows, g.weight(6, 8))), g.weight(8, 4))
    path = g.write(tmp_path / "conv.onnx", {"x": (F32, ["b", *sizes])}, y)
    shape = [2, *(11 if size == "n" else size for size in sizes)]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    check(tpcc, path, "tp2", {"x": x})


@pytest.mark.parametrize("reduction,ignored", [("mean", -100), ("sum", 255)])
def test_losses(tpcc, tmp_path, reduction, ignored):
    """Labels of some tokens are ignored. With -100, labels are shifted by one token."""
    g = Graph()
    logits = g.op("MatMul", g.op("Gather", g.weight(11, 6), "ids"), g.weight(6, 11))
    labels = "labels"
    if ignored == -100:
        logits = g.op("Slice", logits, g.integers(0), g.integers(-1), g.integers(1))
        labels = g.op("Slice", labels, g.integers(1), g.integers(99), g.integers(1))
    loss = g.op(
        "SoftmaxCrossEntropyLoss",
        g.op("Reshape", logits, g.integers(-1, 11)),
        g.op("Reshape", labels, g.integers(-1)),
        ignore_index=ignored,
        reduction=reduction,
    )
    shape = (I64, ["b", "s"])
    path = g.write(tmp_path / "loss.onnx", {"ids": shape, "labels": shape}, loss, name="loss")
    random = np.random.default_rng(1)
    ids = random.integers(0, 11, (2, 9))
    labels = np.where(random.random((2, 9)) < 0.3, ignored, ids)
    check(tpcc, path, "tp2", {"ids": ids, "labels": labels})


def test_positions_of_old_operator_sets(tpcc, tmp_path):
    """Up to operator set 10, torch exports arange as NonZero of ones."""
    g = Graph()
    size = g.op("Gather", g.op("Shape", "ids"), g.constant(np.int64(1)))
    size = g.op("Unsqueeze", size, axes=[0])
    ones = g.op("ConstantOfShape", size, value=helper.make_tensor("one", I64, [1], [1]))
    positions = g.op("Squeeze", g.op("Transpose", g.op("NonZero", ones), perm=[1, 0]), axes=[1])
    words = g.op("Gather", g.weight(9, 6), "ids")
    value = g.op("Add", words, g.op("Gather", g.weight(16, 6), positions))
    y = g.op("MatMul", g.op("Relu", g.op("MatMul", value, g.weight(6, 8))), g.weight(8, 4))
    path = g.write(tmp_path / "old.onnx", {"ids": (I64, ["b", "s"])}, y, opset=10)
    ids = np.random.default_rng(1).integers(0, 9, (2, 7))
    check(tpcc, path, "tp2", {"ids": ids})
    long = tpcc.compile(path, "tp2").scratch / "long.npy"
    np.save(long, np.zeros((1, 17), np.int64))
    tpcc.compile(path, "tp2").call(["--input", f"ids={long}"]).refused("17", "16")


def test_pointers_of_git_lfs(tpcc, tmp_path):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 123456\n"
    path = tmp_path / "model.onnx"
    path.write_text(pointer)
    tpcc.call([path, "-o", tmp_path / "program"]).refused("pointer of Git LFS", "git lfs pull")
    g = Graph()
    y = g.op("MatMul", "x", g.weight(64, 64))
    g.write(path, {"x": (F32, ["b", 64])}, y)
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.data")
    (tmp_path / "weights.data").write_text(pointer)
    tpcc.call([path, "-o", tmp_path / "program"]).refused("'weights.data'", "pointer of Git LFS")


def routed(g, scores):
    """Weights of the two best experts, zero for others, as routers are exported."""
    best, which = g.op("TopK", scores, g.integers(2), outputs=2, axis=-1)
    zeros = g.op("Mul", scores, g.constant(np.float32(0)))
    zeros = g.op("Where", g.op("IsNaN", zeros), g.constant(np.float32(0)), zeros)
    return g.op("ScatterElements", zeros, which, g.op("Softmax", best, axis=-1), axis=2)


def smallest(g, scores):
    best, which = g.op("TopK", scores, g.integers(3), outputs=2, axis=2, largest=0)
    which = g.op("Cast", which, to=F32)
    return g.op("Concat", g.op("Tanh", best), which, g.op("Tanh", best), axis=-1)


def expert_masks(g, scores):
    """OneHot of the chosen experts, summed over the choices."""
    _, which = g.op("TopK", scores, g.integers(2), outputs=2, axis=-1)
    values = g.constant(np.array([0, 1], np.float32))
    hot = g.op("OneHot", which, g.constant(np.int64(8)), values)
    return g.op("ReduceSum", hot, g.integers(2), keepdims=0)


def hard(g, scores):
    return g.op("Hardmax", scores, axis=-1)


def diagonals(g, scores):
    """A label that occurs twice in an operand, once kept and once summed over."""
    square = g.op("Mul", g.op("Unsqueeze", scores, g.integers(3)), g.weight(8, 8))
    diagonal = g.op("Einsum", square, equation="bsii->bsi")
    traces = g.op("Einsum", square, g.weight(8), equation="bsii,j->bsj")
    return g.op("Add", g.op("Max", diagonal, g.constant(np.float32(-9))), g.op("Tanh", traces))


def summed(g, scores):
    """Attention of rows by Einsum, and a trace of batch and heads."""
    heads = g.op("Reshape", scores, g.integers(0, 0, 2, 4))
    heads = g.op("Max", heads, g.constant(np.float32(-9)))
    weights = g.op("Einsum", heads, heads, equation="b q h d, b k h d -> b h q k")
    weights = g.op("Softmax", weights, axis=-1)
    y = g.op("Einsum", weights, heads, g.weight(2, 4, 8), equation="bhqk,bkhd,hde->bqe")
    trace = g.op("Einsum", heads, equation="...hd->...")
    return g.op("Add", y, g.op("Unsqueeze", trace, g.integers(2)))


SELECTIONS = dict(routed=(routed, 8), smallest=(smallest, 9), masks=(expert_masks, 8))
SELECTIONS |= dict(hardmax=(hard, 8), einsum=(summed, 8))
SELECTIONS |= dict(diagonals=(diagonals, 8))


@pytest.mark.parametrize("name", SELECTIONS)
def test_selections(tpcc, tmp_path, name):
    """Equal elements and infinities are selected in the order of indices."""
    build, width = SELECTIONS[name]
    g = Graph()
    scores = g.op("Add", g.op("MatMul", "x", g.constant(np.eye(8, dtype=np.float32))), "more")
    y = g.op("MatMul", build(g, scores), g.weight(width, 6))
    shape = (F32, ["b", "s", 8])
    path = g.write(tmp_path / "selection.onnx", {"x": shape, "more": shape}, y)
    random = np.random.default_rng(1)
    x = random.integers(-2, 3, (2, 5, 8)).astype(np.float32)
    more = np.zeros_like(x)
    more[0, 0], more[0, 1, 1:] = -np.inf, -np.inf
    for grid in ("tp2", "dp2"):
        check(tpcc, path, grid, {"x": x, "more": more})


@pytest.mark.parametrize("grid", ["tp2", "tp4"])
def test_rows_are_assigned_at_positions_of_data(tpcc, tmp_path, grid):
    """ScatterND into a cache, as torch exports index_copy_: rows of keys, and single numbers."""
    g = Graph()
    keys = g.op("MatMul", "x", g.weight(8, 6))
    rows = g.op("Transpose", g.op("ScatterND", "cache", "at", keys), perm=[1, 0])
    count = g.op("ReduceSum", g.op("ScatterND", "rows", "four", "numbers"), g.integers(0))
    y = g.op("Mul", g.op("MatMul", count, rows), g.constant(np.float32(0.5)))
    inputs = {
        "x": (F32, ["s", 8]),
        "cache": (F32, [9, 6]),
        "at": (I64, ["s", 1]),
        "rows": (F32, [7, 6]),
        "four": (I64, [4, 2]),
        "numbers": (F32, [4]),
    }
    path = g.write(tmp_path / "scatter.onnx", inputs, y)
    random = np.random.default_rng(1)
    for positions in ([3, 4, 5], [-1, 0, -1, 2], []):
        given = {
            name: random.standard_normal(
                [size if size != "s" else len(positions) for size in shape]
            )
            for name, (_, shape) in inputs.items()
        }
        given = {name: value.astype(np.float32) for name, value in given.items()}
        given["at"] = np.array(positions, np.int64)[:, None]
        given["four"] = np.array([[0, 5], [-7, 1], [3, -2], [3, 4]])
        check(tpcc, path, grid, given)


def test_selected_indices_are_checked(tpcc, tmp_path):
    g = Graph()
    path = tmp_path / "scatter.onnx"
    y = g.op("ScatterElements", "x", "ids", "x", axis=1)
    g.write(path, {"x": (F32, ["b", 4]), "ids": (I64, ["b", 4])}, y)
    program = tpcc.compile(path)
    for ids, words in (([[0, 1, 2, 4]], "'ids' has 4"), ([[0, -5, 2, 3]], "'ids' has -5")):
        np.save(tmp_path / "ids.npy", np.array(ids))
        np.save(tmp_path / "x.npy", np.ones((1, 4), np.float32))
        flags = [f"--input={name}={tmp_path / name}.npy" for name in ("x", "ids")]
        program.call(flags).refused(words)
    for count, word in ((9, "selects 9 of 8"), (70, "selects 1 to 64")):
        g = Graph()
        best = g.op("TopK", "x", g.integers(count), outputs=2)[0]
        g.write(path, {"x": (F32, ["b", 8])}, best)
        tpcc.call([path, "-o", tmp_path / "program"]).refused("TopK", word)

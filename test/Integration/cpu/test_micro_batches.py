"""Unusual dependence on the batch, under replicas and micro-batches.

Results equal those of one rank, and each output is delivered once. An error names the node and a
remedy where a value cannot be split.
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness import Executable, Grid
from models import FAMILIES
from tpc.reference import TOLERANCE, Session, difference

F, I = TensorProto.FLOAT, TensorProto.INT64
RNG = np.random.default_rng(7)


def weight(*shape):
    return RNG.normal(0, 0.5, shape).astype(np.float32)


def node(op, inputs, result, **attributes):
    return helper.make_node(
        op, inputs.split(), [result], name=f"/{op.lower()}/{result}", **attributes
    )


def model(nodes, inputs, outputs, constants=()):
    """inputs and outputs: name -> dimensions; names that start with `ids` are integers."""
    ports = [
        [
            helper.make_tensor_value_info(name, I if name.startswith("ids") else F, dims)
            for name, dims in side.items()
        ]
        for side in (inputs, outputs)
    ]
    graph = helper.make_graph(
        nodes,
        "batches",
        *ports,
        [
            numpy_helper.from_array(np.asarray(value), name)
            for name, value in dict(constants).items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


# Two layers, so that there is something to cut.
MLP = [
    node("MatMul", "x w1", "h1"),
    node("Relu", "h1", "r1"),
    node("MatMul", "r1 w2", "h2"),
    node("Tanh", "h2", "y"),
]
WEIGHTS = {"w1": weight(6, 10), "w2": weight(10, 6)}
Y = {"y": ["batch", "sequence", 6]}
X = {"x": ["batch", "sequence", 6]}
STATIC = {"x": [4, "sequence", 6]}, {"y": [4, "sequence", 6]}

MODELS = {
    # Outputs that are the same for every micro-batch.
    "a constant": model(
        [*MLP, node("Identity", "c", "z")], X, {**Y, "z": [2, 3]}, {**WEIGHTS, "c": weight(2, 3)}
    ),
    "a weight": model([*MLP, node("Exp", "w1", "z")], X, {"z": [6, 10], **Y}, WEIGHTS),
    "another input": model(
        [*MLP, node("MatMul", "u w1", "z")], {**X, "u": ["n", 6]}, {**Y, "z": ["n", 10]}, WEIGHTS
    ),
    "nothing but another input": model(
        [node("MatMul", "u w1", "z"), node("Neg", "x", "y")],
        {**X, "u": ["n", 6]},
        {**Y, "z": ["n", 10]},
        WEIGHTS,
    ),
    "an input without a batch": model(
        [*MLP, node("Mul", "y s", "z"), node("Exp", "s", "e")],
        {**X, "s": []},
        {"z": ["batch", "sequence", 6], "e": []},
        WEIGHTS,
    ),
    "the same output of two inputs": model(
        [*MLP, node("Add", "u v", "z")],
        {**X, "u": ["n", 6], "v": ["n", 6]},
        {**Y, "z": ["n", 6]},
        WEIGHTS,
    ),
    # A fixed batch size, and weights with one row per sample.
    "a weight for each sample": model(
        [*MLP[:-1], node("Add", "h2 b", "t"), node("Tanh", "t", "y")],
        *STATIC,
        {**WEIGHTS, "b": weight(4, 1, 6)},
    ),
    "a product for each sample": model(
        [*MLP[:-1], node("MatMul", "h2 p", "y")], *STATIC, {**WEIGHTS, "p": weight(4, 6, 6)}
    ),
    "a static batch": model(MLP, *STATIC, WEIGHTS),
    # Values that need the whole batch and depend on inputs only.
    "x times x": model(
        [
            *MLP,
            node("Reshape", "x flat", "f"),
            node("Transpose", "f", "t", perm=[1, 0]),
            node("MatMul", "f t", "z"),
        ],
        {"x": ["batch", 3, 6]},
        {"y": ["batch", 3, 6], "z": ["batch", "batch"]},
        {**WEIGHTS, "flat": np.array([0, 18])},
    ),
    "a sample of the mask": model(
        [
            *MLP[:-1],
            node("Cast", "ids", "m", to=F),
            node("Slice", "m zero one zero", "first"),
            node("Unsqueeze", "first two", "column"),
            node("Mul", "h2 column", "y"),
        ],
        {**X, "ids": ["batch", "sequence"]},
        Y,
        {**WEIGHTS, "zero": np.array([0]), "one": np.array([1]), "two": np.array([2])},
    ),
    "the mean of an input": model(
        [*MLP[:-1], node("ReduceMean", "x axes", "mean"), node("Sub", "h2 mean", "y")],
        X,
        Y,
        {**WEIGHTS, "axes": np.array([0])},
    ),
}


def layered():
    """Returns a model of three layers, which become one function. Its arguments include weights
    with a row per sample, and values selected from all samples.
    """
    nodes, weights, x = [node("ReduceMax", "u axes", "top")], {"axes": np.array([0])}, "x"
    for i in range(3):
        weights |= {f"w{i}": weight(6, 10), f"v{i}": weight(10, 6), f"b{i}": weight(4, 1, 6)}
        nodes += [
            node("MatMul", f"{x} w{i}", f"h{i}"),
            node("Relu", f"h{i}", f"r{i}"),
            node("MatMul", f"r{i} v{i}", f"s{i}"),
            node("Add", f"s{i} b{i}", f"t{i}"),
            node("Mul", f"t{i} top", f"m{i}"),
            node("Add", f"{x} m{i}", f"x{i}"),
        ]
        x = f"x{i}"
    return model(nodes, {"x": [4, "sequence", 6], "u": [4, 1, 6]}, {x: [4, "sequence", 6]}, weights)


MODELS["layers with a weight for each sample"] = layered()


def inputs_of(made, batch):
    sizes = {"batch": batch, "sequence": 3, "n": 5}
    return {
        port.name: (
            RNG.integers(0, 2, shape)
            if port.name.startswith("ids")
            else RNG.normal(size=shape).astype(np.float32)
        )
        for port in made.graph.input
        for shape in [
            [sizes.get(d.dim_param, d.dim_value) for d in port.type.tensor_type.shape.dim]
        ]
    }


GRIDS = {
    "dp2,mb2": (),
    "pp2,mb3": (),
    **dict.fromkeys(("mb2", "dp2", "tp2,mb2,sp"), pytest.mark.long),
}


# "nothing but another input" has no layers that stages could be cut from.
@pytest.mark.parametrize(
    "name, grid",
    [
        pytest.param(name, grid, marks=marks, id=f"{name.replace(' ', '_')}-{grid}")
        for name in MODELS
        for grid, marks in GRIDS.items()
        if not ("pp2" in grid and "nothing" in name)
    ],
)
def test_batches(tpcc, tmp_path, name, grid):
    path = tmp_path / "model.onnx"
    onnx.save(MODELS[name], path)
    outputs = [port.name for port in MODELS[name].graph.output]
    program, reference = tpcc.compile(path, Grid.parse(grid)), Session(path)
    static = "sample" in name and "mask" not in name or "static" in name
    for batch in ([4] if static else [1, 5]):  # fewer samples than micro-batches, and an odd number
        inputs = inputs_of(MODELS[name], batch)
        actual, expected = program.run(inputs, outputs), reference.run(inputs)
        for output in outputs:
            np.testing.assert_allclose(actual[output], expected[output], rtol=1e-5, atol=1e-5)


# Values that depend on more than inputs, or are inside a layer, are errors that name the node.
HIDDEN = {
    "x times x": [
        node("Reshape", "y flat", "f"),
        node("Transpose", "f", "t", perm=[1, 0]),
        node("MatMul", "f t", "z"),
    ],
    "a mean of samples": [node("ReduceMean", "y zero", "z", keepdims=0)],
    "the first sample": [node("Slice", "y zero one zero", "z")],
}
SHAPES = {"x times x": ["batch", "batch"], "the first sample": [1, 3, 6]}


@pytest.mark.parametrize("name", HIDDEN, ids=lambda name: name.replace(" ", "_"))
def test_errors_of_micro_batches(tpcc, tmp_path, name):
    path = tmp_path / "model.onnx"
    made = model(
        [*MLP, *HIDDEN[name]],
        {"x": ["batch", 3, 6]},
        {"z": SHAPES.get(name, [3, 6])},
        {**WEIGHTS, "flat": np.array([0, 18]), "zero": np.array([0]), "one": np.array([1])},
    )
    onnx.save(made, path)
    result = tpcc.call([path, "--megatron-shard=dp2,mb2", "-o", tmp_path / "no"]).refused(
        f"{HIDDEN[name][-1].name}'", "cannot be split over", "remove ", "this depends on"
    )
    assert "tpc-verify" not in result.stderr and "does not compute" not in result.stderr


@pytest.mark.parametrize("grid", ["dp3", "dp2,mb3"])
def test_sums_over_samples(tpcc, tmp_path, grid):
    """Ranks add up the samples of replicas, and a loop those of micro-batches."""
    path = tmp_path / "model.onnx"
    onnx.save(
        model(
            [*MLP, node("ReduceSum", "y zero", "z", keepdims=0)],
            X,
            {**Y, "z": ["sequence", 6]},
            {**WEIGHTS, "zero": np.array([0])},
        ),
        path,
    )
    program, reference = tpcc.compile(path, grid), Session(path)
    for batch in (1, 4):
        inputs = {"x": RNG.normal(size=(batch, 3, 6)).astype(np.float32)}
        actual, expected = program.run(inputs, ["y", "z"]), reference.run(inputs)
        for output in actual:
            np.testing.assert_allclose(actual[output], expected[output], rtol=1e-5, atol=1e-5)


def test_values_shared_by_micro_batches_are_of_their_step(tpcc, tmp_path):
    """Rotary tables and masks of Gemma-2 are computed before the micro-batch loop of each step. One
    process runs steps of several shapes, with as many samples as micro-batches, more, and fewer.
    The program is compiled from the text of the staged program.
    """
    model, staged, path = FAMILIES["gemma2-past"], tmp_path / "staged.mlir", tmp_path / "gemma2"
    tpcc.call([model.path, "--megatron-shard=dp2,mb2", "--emit=staged", "-o", staged]).check()
    assert "@stage_0_prologue(" in staged.read_text()
    tpcc.call([staged, f"--reference={model.path}", "-o", path]).check()
    many = [
        model.inputs(batch, sequence, past=past, seed=seed)
        for seed, (batch, sequence, past) in enumerate(
            [(2, 4, 3), (2, 4, 3), (5, 2, 6), (1, 3, 0), (3, 1, 7), (2, 4, 3)]
        )
    ]
    for inputs, actual in zip(
        many,
        Executable(path, Grid.parse("dp2,mb2"), tmp_path / "runs").run_many(many, model.output),
    ):
        assert difference(actual, model.reference.run(inputs)[model.output]).relative <= TOLERANCE

"""Lookups by indices that are computed at run time: results and errors of ONNX Runtime."""

import dataclasses

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness import Grid
from tpc.reference import Session

TABLE = np.arange(1, 41, dtype=np.float32).reshape(10, 4)
X = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)


def graph(nodes, result, constants=(), **inputs):
    """Returns a model of these nodes. `inputs` are name -> (element type, dimensions)."""
    ports = [
        helper.make_tensor_value_info(name, element, dims)
        for name, (element, dims) in inputs.items()
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, result)
    body = helper.make_graph(
        nodes,
        "lookup",
        ports,
        [output],
        [
            numpy_helper.from_array(np.asarray(value), name)
            for name, value in dict(constants).items()
        ],
    )
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(op, *inputs, to="y", **attributes):
    return helper.make_node(op, list(inputs), [to], name=f"/{op.lower()}/{to}", **attributes)


IDS = (TensorProto.INT64, ["batch", "sequence"])
MODELS = {
    # OPT's positions: an offset, or the sum of a mask.
    "offset": graph(
        [node("Add", "ids", "two", to="at"), node("Gather", "table", "at")],
        ["batch", "sequence", 4],
        {"table": TABLE, "two": np.int64(2)},
        ids=IDS,
    ),
    "running": graph(
        [
            node("CumSum", "ids", "one", to="sum"),
            node("Add", "sum", "one", to="at"),
            node("Gather", "table", "at"),
        ],
        ["batch", "sequence", 4],
        {"table": TABLE, "one": np.int64(1)},
        ids=IDS,
    ),
    # Tables whose size is that of an input.
    "dimension": graph(
        [node("Gather", "x", "ids", axis=1)],
        ["batch", "n", 4],
        x=(TensorProto.FLOAT, ["batch", "sequence", 4]),
        ids=(TensorProto.INT64, ["n"]),
    ),
    "elements": graph(
        [node("GatherElements", "x", "ids", axis=1)],
        ["batch", "n", 4],
        x=(TensorProto.FLOAT, ["batch", "sequence", 4]),
        ids=(TensorProto.INT64, ["batch", "n", 4]),
    ),
    "tuples": graph(
        [node("GatherND", "x", "ids")],
        ["n", 4],
        x=(TensorProto.FLOAT, ["batch", "sequence", 4]),
        ids=(TensorProto.INT64, ["n", 2]),
    ),
    "constant tuples": graph(
        [node("GatherND", "table", "ids")],
        ["n"],
        {"table": TABLE},
        ids=(TensorProto.INT64, ["n", 2]),
    ),
}
LAST = np.zeros((2, 2, 4), np.int64)

# Index and size of the table's dimension that the message names, and the ids.
REFUSED = {
    "offset": [("10 of 10", [[0, 8]]), ("-11 of 10", [[-13, 0]])],
    "running": [("10 of 10", [[1] * 9])],
    "dimension": [
        ("3 of 3", [0, 3]),
        ("-4 of 3", [-4]),
        (f"{2**62} of 3", [2**62]),
        (f"{-2**63} of 3", [-(2**63)]),
    ],
    "elements": [("3 of 3", LAST + 3), ("-4 of 3", LAST - 4)],
    "tuples": [("2 of 2", [[0, 0], [2, 0]]), ("3 of 3", [[1, 3]])],
    "constant tuples": [("4 of 4", [[9, 4]]), ("-11 of 10", [[-11, 0]])],
}
FOUND = {
    "offset": [[[0, 7], [-12, -2]]],
    "running": [[[1] * 8]],
    "dimension": [[0, -3, 2]],
    "elements": [LAST + 2, LAST - 3],
    "tuples": [[[0, 2], [-1, -3]], np.zeros((0, 2), np.int64)],
    "constant tuples": [[[9, 3], [-10, -4]]],
}
GRIDS = {name: [Grid(), Grid(dp=2)] for name in MODELS}
for with_table in ("offset", "running"):
    GRIDS[with_table] += [Grid(tp=2), Grid(tp=3), Grid(pp=2)]
# An index into the batch may be an element of any replica.
GRIDS["tuples"] = [Grid(), Grid(dp=2, allow_reshard=True)]
CASES = [(name, grid) for name, grids in GRIDS.items() for grid in grids]


def inputs_of(name: str, ids) -> dict[str, np.ndarray]:
    inputs = {"ids": np.asarray(ids, np.int64)}
    return inputs | ({"x": X} if name in ("dimension", "elements", "tuples") else {})


@pytest.mark.parametrize("name, grid", CASES, ids=lambda v: str(v).replace(" ", "_"))
def test_lookup(tpcc, tmp_path, name, grid):
    path = tmp_path / "model.onnx"
    onnx.save(MODELS[name], path)
    program, reference = tpcc.compile(path, grid), Session(path)
    for ids in FOUND[name]:
        inputs = inputs_of(name, ids)
        np.testing.assert_array_equal(
            program.run(inputs, outputs=["y"])["y"], reference.run(inputs)["y"]
        )
    for words, ids in REFUSED[name]:
        inputs = inputs_of(name, ids)
        with pytest.raises(Exception, match="ONNXRuntimeError"):
            reference.run(inputs)
        arguments = ["--output", f"y={tmp_path / 'y.npy'}"]
        for key, value in inputs.items():
            np.save(tmp_path / f"{key}.npy", value)
            arguments += ["--input", f"{key}={tmp_path / key}.npy"]
        program.call(arguments, timeout=60).refused("/gather", f"index {words}")
        assert not (tmp_path / "y.npy").exists()


def merged(shape, axis):
    """Returns a model that merges matmul columns [3, 8] or [8, 3], and all samples' tokens."""
    random = np.random.default_rng(0)
    constants = {
        "w": random.normal(size=(6, 24)),
        "scale": random.normal(size=shape[-1:]),
        "transposed": random.normal(size=(8, 1)),
    }
    constants = {name: value.astype(np.float32) for name, value in constants.items()}
    constants |= {
        "heads": np.array([0, 0, 3, 8]),
        "one": np.array([0, 0, 24]),
        "tokens": np.array([-1, 24]),
    }
    nodes = [node("MatMul", "x", "w", to="p"), node("Reshape", "p", "heads", to="h")]
    if shape == (3, 8):
        nodes.append(node("Mul", "h", "scale", to="m"))
    else:
        nodes += [
            node("Transpose", "h", to="t", perm=[0, 1, 3, 2]),
            node("Mul", "t", "transposed", to="m"),
        ]
    nodes.append(node("Reshape", "m", "one" if axis == 2 else "tokens", to="data"))
    nodes.append(node("Gather", "data", "ids", axis=axis if axis == 2 else 0))
    return graph(
        nodes,
        ["batch", "sequence", "n"] if axis == 2 else ["n", 24],
        constants,
        x=(TensorProto.FLOAT, ["batch", "sequence", 6]),
        ids=(TensorProto.INT64, ["n"]),
    )


@pytest.mark.parametrize(
    "shape, axis, grid",
    [((3, 8), 2, "tp2x2"), ((8, 3), 2, "tp2x2"), ((3, 8), 2, "tp2x3,dp2"), ((3, 8), 0, "dp2")],
)
def test_dimension_of_several_factors(tpcc, tmp_path, shape, axis, grid):
    """Some factors are split, so that a rank's shard is not contiguous."""
    path = tmp_path / "model.onnx"
    onnx.save(merged(shape, axis), path)
    grid = dataclasses.replace(Grid.parse(grid), allow_reshard=True)
    program, reference = tpcc.compile(path, grid), Session(path)
    random = np.random.default_rng(1)
    for batch, sequence in ((3, 5), (1, 1)):
        size = 24 if axis == 2 else batch * sequence
        inputs = {
            "x": random.normal(size=(batch, sequence, 6)).astype(np.float32),
            "ids": random.integers(-size, size, 2 * size),
        }
        np.testing.assert_allclose(
            program.run(inputs, outputs=["y"])["y"],
            reference.run(inputs)["y"],
            rtol=1e-5,
            atol=1e-5,
        )


def test_rows_after_an_input(tpcc, tmp_path):
    """If an input and looked-up rows are concatenated, the kernel has more rows than the lookup."""
    path = tmp_path / "model.onnx"
    onnx.save(
        graph(
            [node("Gather", "table", "ids", to="rows"), node("Concat", "x", "rows", axis=0)],
            ["all", 4],
            {"table": TABLE},
            x=(TensorProto.FLOAT, ["n", 4]),
            ids=(TensorProto.INT64, ["m"]),
        ),
        path,
    )
    program, reference = tpcc.compile(path, Grid()), Session(path)
    for n, m in ((20000, 1), (3, 7), (0, 2), (5, 0)):
        random = np.random.default_rng(n)
        inputs = {
            "x": random.normal(size=(n, 4)).astype(np.float32),
            "ids": random.integers(-10, 10, m),
        }
        np.testing.assert_array_equal(
            program.run(inputs, outputs=["y"])["y"], reference.run(inputs)["y"]
        )


def test_every_rank_ends(tpcc, tmp_path, mpi):
    """One replica's index is out of bounds; the others must not wait for it."""
    path = tmp_path / "model.onnx"
    onnx.save(MODELS["offset"], path)
    program = tpcc.compile(path, Grid(tp=2, dp=2))
    np.save(tmp_path / "ids.npy", np.array([[0, 1], [2, 8]]))
    for transport in ("threads", "mpi"):
        program.call(
            [f"{tmp_path / 'ids.npy'}", "--output", f"y={tmp_path / 'y.npy'}"],
            transport,
            timeout=60,
        ).refused("'/gather/y'", "index 10 of 10", "-10 to 9")
    assert not (tmp_path / "y.npy").exists()


# Types to which ids are cast in order, and values that do or do not wrap around.
NUMBERS = [
    0,
    9,
    -10,
    10,
    -11,
    255,
    256,
    -1,
    -250,
    130,
    2**16 + 3,
    2**31,
    2**32 + 5,
    -(2**32) - 2,
    2**62,
]
SMALL = [n for n in NUMBERS if abs(n) < 2**31]
CASTS = {
    ("INT64", "INT32"): NUMBERS,
    ("INT64", "INT8", "INT64"): NUMBERS,
    ("INT64", "UINT8", "INT32"): NUMBERS,
    ("INT32", "INT64"): SMALL,
    ("INT64", "INT16", "UINT8", "INT64"): NUMBERS,
    ("INT64", "UINT8", "INT8", "INT64"): NUMBERS,
    ("UINT8", "INT8", "INT64"): range(0, 256, 5),
    ("INT64", "INT32", "FLOAT", "INT64"): NUMBERS[:10],
    ("FLOAT", "INT64"): [0, 9.9, -10.9, 10, -11],
    ("FLOAT", "FLOAT16", "INT64"): [9.9, 9.9999, -10.9, -10.9999],
}


@pytest.mark.parametrize("types", CASTS, ids="-".join)
def test_casts_before_a_lookup(tpcc, tmp_path, types):
    """The compiled program checks an index after its cast, before the run or in the kernel."""
    names = ["ids", *(f"cast{i}" for i in range(1, len(types)))]
    nodes = [node("Cast", before, to=after) for before, after in zip(names, names[1:])]
    for cast, kind in zip(nodes, types[1:]):
        cast.attribute.append(helper.make_attribute("to", getattr(TensorProto, kind)))
    element = getattr(TensorProto, types[0])
    path = tmp_path / "model.onnx"
    onnx.save(
        graph(
            [*nodes, node("Gather", "table", names[-1])],
            ["n", 4],
            {"table": TABLE},
            ids=(element, ["n"]),
        ),
        path,
    )
    program, reference, results = tpcc.compile(path, "tp2"), Session(path), set()
    for value in CASTS[types]:
        ids = np.array([0, value]).astype(helper.tensor_dtype_to_np_dtype(element))
        np.save(tmp_path / "ids.npy", ids)
        result = program.call([tmp_path / "ids.npy", "--output", tmp_path / "y.npy"])
        try:
            expected = reference.run({"ids": ids})["y"]
        except Exception:
            result.refused()
        else:
            result.check()
            np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)
        results.add(result.returncode)
    assert results == {0, 1}


def test_only_used_indices_are_checked(tpcc, tmp_path):
    """Only indices that are looked up must be valid."""
    path = tmp_path / "model.onnx"
    onnx.save(
        graph(
            [
                node("Slice", "ids", "zero", "one", "one", to="first"),
                node("Gather", "table", "first"),
            ],
            ["b", 1, 4],
            {"table": TABLE, "zero": np.array([0]), "one": np.array([1])},
            ids=(TensorProto.INT64, ["b", "n"]),
        ),
        path,
    )
    program, ids = tpcc.compile(path), np.array([[1, 100], [2, -100]])
    np.testing.assert_array_equal(
        program.run({"ids": ids}, outputs=["y"])["y"], Session(path).run({"ids": ids})["y"]
    )
    np.save(tmp_path / "ids.npy", ids[:, ::-1])
    program.call([tmp_path / "ids.npy"]).refused("/gather", "index 100 of 10")

"""Small graphs, one feature each (operation_graphs.py), unsplit and split, against ONNX Runtime."""

import re

import numpy as np
import pytest
from onnx import TensorProto

from harness import Grid
from operation_graphs import GRAPHS, build
from tpc.reference import TOLERANCE, Session, difference


def grids(name):
    """Returns the grids for a graph. Without a matrix, tp has nothing to split; if an op adds over
    the batch, the batch cannot be split.
    """
    if name in ("gemm-of-a-transposed", "reduction-over-the-batch"):
        return [Grid()]
    if name == "mlp-of-a-single-token":
        return [Grid(), Grid(tp=2), Grid(tp=2, sp=True)]
    matrix = re.search(r"float\[\d+, \d+\] w", GRAPHS[name][1])
    return [Grid(), Grid(tp=2 if matrix else 1, dp=2, allow_reshard=True)]


SIZES = [dict(batch=3, sequence=5, tokens=5, keys=4), dict(batch=1, sequence=1, tokens=1, keys=2)]


def inputs_of(model, sizes):
    random = np.random.default_rng(1)
    inputs = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [
            sizes[dim.dim_param] if dim.dim_param else dim.dim_value for dim in tensor.shape.dim
        ]
        if tensor.elem_type == TensorProto.FLOAT:
            inputs[value.name] = random.standard_normal(shape, dtype=np.float32)
        elif tensor.elem_type == TensorProto.BOOL:
            inputs[value.name] = random.random(shape) < 0.6
        else:
            inputs[value.name] = random.integers(0, 5, shape)
    return inputs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("operations")


@pytest.mark.parametrize(
    "name,grid",
    [
        pytest.param(
            name,
            grid,
            id=f"{name}-{grid}",
            # The program for one rank of every second graph; `--long` has all.
            marks=pytest.mark.long if grid == Grid() and i % 2 and len(grids(name)) > 1 else [],
        )
        for i, name in enumerate(GRAPHS)
        for grid in grids(name)
    ],
)
def test_operation(tpcc, folder, name, grid):
    path = folder / f"{name}.onnx"
    model, result = build(name, path)
    executable = tpcc.compile(path, grid)
    for sizes in SIZES:
        inputs = inputs_of(model, sizes)
        expected = Session(path).run(inputs)[result]
        actual = executable.run(inputs, [result])[result]
        assert actual.dtype == expected.dtype
        if result == "z":
            np.testing.assert_array_equal(actual, expected)
        else:
            assert difference(actual, expected).relative <= TOLERANCE, sizes

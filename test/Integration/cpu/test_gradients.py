"""Gradients of --gradients against PyTorch's (test/Models/gradients.py)."""

import re

import numpy as np
import pytest

from conftest import TOP
from harness import Grid, run, tool

FOLDER = TOP / "test" / "Models"
EXPECTED = {path.stem: path for path in sorted((FOLDER / "gradients").glob("*.npz"))}
TERMS = {"label_smoothing", "z_loss"}  # of the loss
INPUTS = {"ids", "labels", "loss"}
VIEW = re.compile(r'tpc\.parameter @"?([^\s"]+)"?(?: view <(\d+) \[([^>]*)\]>)?')


def expand_view(text: str) -> list[list[tuple[int, int]]]:
    """Returns sizes and strides of the factors of a printed view: [32 x 96], [4 x 16, 16 x 1]."""
    return [
        [tuple(map(int, factor.split(" x "))) for factor in dim.split(", ")]
        for dim in re.findall(r"\[([^\]]*)\]", text)
    ]


def read_view(array: np.ndarray, offset: int, text: str) -> np.ndarray:
    """Returns the elements that a view of a weight selects."""
    dims = expand_view(text)
    flat = [factor for dim in dims for factor in dim]
    array = np.ascontiguousarray(array)
    elements = np.lib.stride_tricks.as_strided(
        array.reshape(-1)[offset:],
        [size for size, _ in flat],
        [stride * array.itemsize for _, stride in flat],
    )
    return elements.reshape([int(np.prod([size for size, _ in dim])) for dim in dims])


def path_of(name: str):
    return FOLDER / f"{name.removesuffix('-smoothed')}.onnx"


def compile_program(tpcc, name: str, grid):
    """Returns the program with the gradients of a file of expected values, and its loss."""
    data = np.load(EXPECTED[name])
    terms = [f"--{key.replace('_', '-')}={data[key]}" for key in TERMS & set(data.files)]
    return tpcc.compile(path_of(name), grid, "--gradients", *terms)


def expect(name: str) -> tuple[dict, dict]:
    """Returns the inputs of a model, and its expected outputs by the name of the output."""
    data = np.load(EXPECTED[name])
    text = run([tool("tpcc"), path_of(name), "--emit=model", "-o", "-"]).check().stdout
    views: dict[str, dict[int, str]] = {}
    for weight, offset, dims in VIEW.findall(re.sub(r"\s+", " ", text)):
        views.setdefault(weight, {}).setdefault(int(offset or 0), dims)
    outputs = {"loss": data["loss"]}
    for key in set(data.files) - INPUTS - TERMS:
        pieces = views.get(key, {})
        for offset, dims in pieces.items():
            label = f"grad.{key}" + (f".at{offset}" if len(pieces) > 1 else "")
            outputs[label] = read_view(data[key], offset, dims) if dims else data[key]
        if not pieces:
            outputs[f"grad.{key}"] = data[key]
    return {"input_ids": data["ids"], "labels": data["labels"]}, outputs


def check(program, name: str, transport: str = "threads") -> None:
    inputs, expected = expect(name)
    found = program.run(inputs, list(expected), transport)
    # The gradient of a key's bias is zero, and its elements are rounding errors.
    largest = max(np.abs(array).max() for array in expected.values())
    wrong = {}
    for key, array in expected.items():
        assert found[key].shape == array.shape, key
        error = np.abs(found[key] - array).max() / max(np.abs(array).max(), 1e-3 * largest)
        if not error <= 1e-5:
            wrong[key] = error
    assert not wrong, wrong


@pytest.mark.parametrize(
    ("name", "grid"),
    [
        *(("gpt2-tiny-nopast", grid) for grid in ("tp1", "tp2", "mb4", "tp2,sp,dp2,mb2")),
        ("qwen2-dynamo-smoothed", "tp2,dp2"),
    ],
)
def test_sample(tpcc, name, grid):
    check(compile_program(tpcc, name, grid), name)


SHAPE = {"batch_size": 2, "sequence_length": 8}


def test_gradients_are_reduced_once(tpcc):
    """Replicas exchange the bytes of one set of gradients, however many micro-batches there are."""
    arrays = np.load(EXPECTED["gpt2-tiny-nopast"])
    gradients = sum(arrays[key].size for key in set(arrays.files) - INPUTS)
    for grid in ("dp2", "dp2,mb2", "dp2,mb4"):
        rows = tpcc.report(
            FOLDER / "gpt2-tiny-nopast.onnx", Grid.parse(grid), SHAPE, "--gradients"
        )
        (row,) = [row for row in rows if row["axis"] == "dp"]
        # Also the loss. With micro-batches, each rank counts all labels; else replicas add counts.
        scalars = 2 if grid == "dp2" else 1
        assert row["bytes"] == 4 * (gradients + scalars) and row["kind"] == "all_reduce", grid


def test_the_runtime_counts_what_the_report_says(tpcc):
    model, grid = FOLDER / "gpt2-tiny-nopast.onnx", Grid.parse("tp2,sp,dp2,mb2")
    measured = tpcc.compile(model, grid, "--gradients").bench(SHAPE)["collectives"]
    rows = tpcc.report(model, grid, SHAPE, "--gradients")
    key = lambda row: [row[name] for name in ("axis", "kind", "count", "bytes")]  # noqa: E731
    assert sorted(map(key, measured)) == sorted(map(key, rows))


@pytest.mark.long
@pytest.mark.parametrize(
    "grid",
    [
        *("tp1", "tp2", "tp3", "tp4", "tp2,sp", "tp2x2", "dp2", "dp3", "tp2,dp2", "tp2,sp,dp2"),
        *("mb4", "tp2,sp,dp2,mb2"),
    ],
)
@pytest.mark.parametrize("name", EXPECTED)
def test_families(tpcc, name, grid):
    check(compile_program(tpcc, name, Grid.parse(grid)), name)

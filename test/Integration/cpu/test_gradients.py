"""Gradients of --gradients against PyTorch's (test/Models/gradients.py)."""

import numpy as np
import pytest

from gradient_files import (
    EXPECTED,
    FOLDER,
    INPUTS,
    check,
    check_bad_labels,
    compile_program,
    expect,
)
from harness import Grid

BF16 = 0.03  # tolerance of gradients with matmuls in bf16


@pytest.mark.parametrize(
    ("name", "grid"),
    [
        *(
            ("gpt2-tiny-nopast", grid)
            for grid in ("tp1", "tp2", "mb4", "dp2", "tp2,sp,dp2,mb2")
        ),
        ("qwen2-dynamo-smoothed", "tp2,dp2"),
    ],
)
def test_sample(tpcc, name, grid):
    check(compile_program(tpcc, name, grid), name)


@pytest.mark.parametrize("grid", ["tp1", "tp2,sp,dp2,mb2", "tp2", "dp2"])
def test_bad_labels(tpcc, grid, tmp_path):
    name = "gpt2-tiny-nopast"
    check_bad_labels(compile_program(tpcc, name, grid), name, tmp_path)


@pytest.mark.parametrize(
    ("name", "grid"),
    [
        ("gpt2-tiny-nopast", "dp3"),
        *(
            pytest.param(name, grid, marks=pytest.mark.long)
            for name in ("gpt2-tiny-nopast", "qwen2-dynamo", "mistral-dynamo")
            for grid in ("tp2,sp", "dp2", "mb3", "dp3,mb2", "tp2,sp,dp2,mb2")
        ),
    ],
)
def test_parts_without_labels(tpcc, name, grid):
    """Replicas and micro-batches may have no label, or no sample. The token counts are odd."""
    one, several = (compile_program(tpcc, name, g) for g in ("tp1", grid))
    for rows in (slice(None), slice(1, None), slice(2, None)):  # 3, 2 or 1 samples
        inputs, expected = expect(name)
        inputs = {key: array[rows].copy() for key, array in inputs.items()}
        inputs["labels"][:-1] = -100
        outputs = list(expected)
        want, have = one.run(inputs, outputs), several.run(inputs, outputs)
        largest = max(np.abs(array).max() for array in want.values())
        for key, array in want.items():
            error = np.abs(have[key] - array).max()
            assert error <= 1e-5 * max(np.abs(array).max(), 1e-3 * largest), (key, rows)


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


@pytest.mark.parametrize("grid", ["tp1", pytest.param("tp2,sp,dp2,mb2", marks=pytest.mark.long)])
def test_bf16(tpcc, grid):
    """Matmuls in bf16 round gradients to about 8 bits; gradients and weights are f32. With
    torch.autocast, gradients of this model differ by up to 0.017.
    """
    name = "gpt2-tiny-nopast"
    program = compile_program(tpcc, name, grid, "--precision=bf16")
    check(program, name, tolerance=BF16)
    with pytest.raises(AssertionError):  # not in f32
        check(program, name, tolerance=BF16 / 30)


F16 = 0.01  # gradients of these families differ by up to 0.0065
CHOSEN_F16 = [("gpt2-tiny-nopast", "tp2,sp")]
FAMILIES_F16 = ["gpt2-tiny-nopast", "qwen2-dynamo", "falcon-dynamo"]


@pytest.mark.parametrize(
    ("name", "grid"),
    [
        pytest.param(name, grid, marks=[] if (name, grid) in CHOSEN_F16 else pytest.mark.long)
        for name in FAMILIES_F16
        for grid in ("tp1", "tp2", "dp2", "tp2,sp")
    ],
)
def test_f16(tpcc, name, grid):
    """Gradients do not depend on the scale of the loss, unless it makes them overflow."""
    program = compile_program(tpcc, name, grid, "--precision=f16")
    check(program, name, tolerance=F16, more={"loss_scale": np.float32(1024)})
    with pytest.raises(AssertionError):  # not in f32
        check(program, name, tolerance=F16 / 30, more={"loss_scale": np.float32(1024)})
    with pytest.raises(AssertionError):
        check(program, name, tolerance=1, more={"loss_scale": np.float32(2**60)})


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

"""Gradients that PyTorch computed (test/Models/gradients.py), and programs that compute them."""

import re

import numpy as np

from harness import TOP, run, tool

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


def compile_program(tpcc, name: str, grid, *flags):
    """Returns the program with the gradients of a file of expected values, and its loss."""
    data = np.load(EXPECTED[name])
    terms = [f"--{key.replace('_', '-')}={data[key]}" for key in TERMS & set(data.files)]
    return tpcc.compile(path_of(name), grid, "--gradients", *terms, *flags)


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


def check(program, name: str, tolerance: float = 1e-5, more=None, **run_options) -> None:
    """Checks gradients: the tolerance is relative to the largest element of each. `more`: more
    inputs.
    """
    inputs, expected = expect(name)
    found = program.run({**inputs, **(more or {})}, list(expected), **run_options)
    # The gradient of a key's bias is zero, and its elements are rounding errors.
    largest = max(np.abs(array).max() for array in expected.values())
    wrong = {}
    for key, array in expected.items():
        assert found[key].shape == array.shape, key
        error = np.abs(found[key] - array).max() / max(np.abs(array).max(), 1e-3 * largest)
        if not error <= tolerance:
            wrong[key] = error
    assert not wrong, wrong


def check_bad_labels(program, name: str, tmp_path, **run_options) -> None:
    """Labels out of range, and a batch without labels, are errors that name the input."""
    ids, labels = (np.load(EXPECTED[name])[key] for key in ("ids", "labels"))
    classes = next(
        port["range"][1] + 1 for port in program.describe()["inputs"] if port["name"] == "labels"
    )
    valid = f"valid are 0 to {classes - 1}, and -100, which is ignored"
    np.save(tmp_path / "ids.npy", ids)
    for value, message in (
        (5000, f"input 'labels' has 5000 at [1, 2]; {valid}"),
        (classes, f"input 'labels' has {classes} at [1, 2]; {valid}"),
        (-1, f"input 'labels' has -1 at [1, 2]; {valid}"),
        (None, f"input 'labels': all {labels.size} labels are ignored"),
    ):
        bad = labels.copy()
        bad[(1, 2) if value is not None else ...] = -100 if value is None else value
        np.save(tmp_path / "labels.npy", bad)
        result = program.call(
            ["--input", f"input_ids={tmp_path / 'ids.npy'}"]
            + ["--input", f"labels={tmp_path / 'labels.npy'}"]
            + ["--output", f"loss={tmp_path / 'loss.npy'}"],
            **run_options,
        )
        result.refused(message)
        assert not (tmp_path / "loss.npy").exists()

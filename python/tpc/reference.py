"""What ONNX Runtime computes for a file, and how far something else is from it."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

# float32, against ONNX Runtime: the largest difference as a fraction of the largest value.
TOLERANCE = 2e-5


@dataclass(frozen=True)
class Difference:
    """The largest absolute difference, where it is, and the largest magnitude of the expected tensor."""

    absolute: float
    index: tuple[int, ...]
    scale: float

    @property
    def relative(self) -> float:
        if self.absolute == 0:
            return 0.0
        return self.absolute / self.scale if self.scale else float("inf")

    def __str__(self) -> str:
        return f"max |difference| {self.absolute:.3g} = {self.relative:.2e} of max {self.scale:.3g}, at {list(self.index)}"


def difference(actual: np.ndarray, expected: np.ndarray) -> Difference:
    """Shapes must agree. A value that is not finite on one side only, or differs in sign of infinity, is infinitely far."""
    if actual.shape != expected.shape:
        raise ValueError(f"shapes differ: {list(actual.shape)} and {list(expected.shape)}")
    if expected.size == 0:
        return Difference(0.0, (), 0.0)
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        distance = np.abs(actual - expected)
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    distance = np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))
    index = np.unravel_index(int(np.argmax(distance)), distance.shape)
    finite = np.abs(expected[np.isfinite(expected)])
    return Difference(float(distance[index]), tuple(int(i) for i in index), float(finite.max(initial=0.0)))


def bind_sizes(shapes: dict[str, list[int | str]], given: dict[str, np.ndarray]) -> dict[str, int]:
    """The sizes that the given arrays have, by the names of dimensions in the file."""
    sizes = {}
    for name, array in given.items():
        for size, actual in zip(shapes.get(name, []), array.shape):
            if isinstance(size, str):
                sizes.setdefault(size, actual)
    return sizes


def evaluate(size: int | str | None, sizes: dict[str, int]) -> int | None:
    """A dimension as files write it: a number, a name, or a sum of these."""
    if isinstance(size, int):
        return size
    parts = [sizes.get(part.strip(), int(part) if part.strip().isdigit() else None) for part in (size or "?").split("+")]
    return sizes.get(size, None if None in parts else sum(parts))


def with_defaults(shapes: dict[str, list[int | str]], given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Adds what executables take for inputs that are left out: an attention_mask of ones, and position_ids that follow the
    mask, or start behind the past where there is none. What cannot be known is not added."""
    result = dict(given)
    sizes = bind_sizes(shapes, given)

    def shape_of(name: str) -> list[int] | None:
        shape = [evaluate(size, sizes) for size in shapes.get(name, [None])]
        return None if None in shape else shape

    mask_shape, shape = shape_of("attention_mask"), shape_of("position_ids")
    if "attention_mask" not in given and mask_shape and len(mask_shape) == 2:
        result["attention_mask"] = np.ones(mask_shape, np.int64)
    if "position_ids" in given or not shape or len(shape) > 2:
        return result
    past = [array.shape[-2] for name, array in given.items() if name.startswith("past_key_values.")]
    if "attention_mask" in result:
        mask = result["attention_mask"]
        positions = np.maximum(np.cumsum(mask, axis=1) - 1, 0)[:, mask.shape[1] - shape[-1]:]
    else:
        positions = np.arange(shape[-1]) + (past[0] if past else 0)
    result["position_ids"] = np.ascontiguousarray(np.broadcast_to(positions, shape), np.int64)
    return result


class Session:
    """An ONNX file in ONNX Runtime on the CPU."""

    def __init__(self, path: str | os.PathLike | bytes, threads: int = 1, optimize: bool = True):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if not optimize:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        source = path if isinstance(path, bytes) else os.fspath(path)
        self.session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])

    @property
    def inputs(self) -> dict[str, list[int | str]]:
        return {value.name: value.shape for value in self.session.get_inputs()}

    @property
    def outputs(self) -> list[str]:
        return [value.name for value in self.session.get_outputs()]

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(self.outputs, self.session.run(None, inputs)))

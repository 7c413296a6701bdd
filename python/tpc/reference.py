"""Reference outputs of ONNX Runtime, and differences from them."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

# Tolerance of float32 outputs: largest difference divided by the largest magnitude.
TOLERANCE = 2e-5


@dataclass(frozen=True)
class Difference:
    """Largest absolute difference, its index, and the largest magnitude of the expected tensor."""

    absolute: float
    index: tuple[int, ...]
    scale: float

    @property
    def relative(self) -> float:
        if self.absolute == 0:
            return 0.0
        return self.absolute / self.scale if self.scale else float("inf")

    def __str__(self) -> str:
        return (
            f"max |difference| {self.absolute:.3g} = {self.relative:.2e} of max {self.scale:.3g}, "
            f"at {list(self.index)}"
        )


def difference(actual: np.ndarray, expected: np.ndarray) -> Difference:
    """Returns the difference of two tensors of the same shape.

    It is infinite where only one value is finite, or where infinities differ in sign.
    """
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
    return Difference(
        float(distance[index]), tuple(int(i) for i in index), float(finite.max(initial=0.0))
    )


class Session:
    """An ONNX file in ONNX Runtime on CPUs."""

    def __init__(self, path: str | os.PathLike | bytes, threads: int = 1, optimize: bool = True):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if not optimize:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        source = path if isinstance(path, bytes) else os.fspath(path)
        self.session = onnxruntime.InferenceSession(
            source, options, providers=["CPUExecutionProvider"]
        )

    @property
    def inputs(self) -> dict[str, list[int | str]]:
        return {value.name: value.shape for value in self.session.get_inputs()}

    @property
    def types(self) -> dict[str, np.dtype]:
        """Types of the inputs that have a numpy type."""
        names = {
            "tensor(float)": "float32",
            "tensor(double)": "float64",
            "tensor(float16)": "float16",
        }
        texts = {value.name: value.type for value in self.session.get_inputs()}
        return {
            name: np.dtype(names.get(text, text[len("tensor(") : -1]))
            for name, text in texts.items()
            if "bfloat" not in text
        }

    @property
    def outputs(self) -> list[str]:
        return [value.name for value in self.session.get_outputs()]

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(self.outputs, self.session.run(None, inputs)))

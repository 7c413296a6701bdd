"""--expert-capacity drops the same tokens as a scalar reference, on every grid."""

import itertools
from fractions import Fraction
from math import ceil

import numpy as np
import pytest

from expert_files import Experts, save_with_router
from tpc.reference import difference

SPEC = Experts(experts=5, selected=2, bias=True)
CASES = list(zip(("0.5", "1", "1.25"), ("tp2,ep2", "ep2,dp2", "tp2,ep2,etp1")))
GRIDS = ["tp1", "tp2", "ep2", "ep4", "tp2,ep4,etp1", "ep4,dp4", "ep2,dp4", "ep2,dp2", "dp2,mb2"]
MORE = list(itertools.product(("0.5", "1", "1.25"), GRIDS))


def reference(weights, x, factor):
    """Returns the results, and the number of dropped pairs of a token and an expert."""
    out, dropped = np.zeros_like(x), 0
    limit = ceil(Fraction(factor) * SPEC.selected * x.shape[1] / SPEC.experts)
    for sample, rows in zip(x, out):
        counts = [0] * SPEC.experts
        for token, row in zip(sample, rows):
            logits = token @ weights["moe.router.weight"]
            p = np.exp(logits - logits.max())
            selected = sorted(range(SPEC.experts), key=lambda e: -p[e])[: SPEC.selected]
            for e in selected:
                counts[e] += 1
                if counts[e] > limit:
                    dropped += 1
                    continue
                h = weights["moe.fc1"][e] @ token + weights["moe.fc1_bias"][e]
                h = h / (1 + np.exp(-h))
                y = weights["moe.fc2"][e] @ h + weights["moe.fc2_bias"][e]
                row += p[e] / p[selected].sum() * y
    return out, dropped


@pytest.mark.parametrize(
    "factor, grid", [*CASES, *(pytest.param(*case, marks=pytest.mark.long) for case in MORE)]
)
def test_drops(tpcc, tmp_path, factor, grid):
    weights = save_with_router(SPEC, tmp_path / "model.onnx")
    program = tpcc.compile(tmp_path / "model.onnx", grid, f"--expert-capacity={factor}")
    random = np.random.default_rng(4)
    for shape in ((4, 7), (1, 1), (5, 12)):
        x = random.standard_normal((*shape, SPEC.hidden)).astype(np.float32)
        want, dropped = reference(weights, x, factor)
        assert dropped > 0 or shape[1] == 1 or factor == "1.25"
        assert difference(program.run({"x": x}, ["y"])["y"], want).relative < 2e-5, shape


def test_errors(tpcc, tmp_path):
    save_with_router(SPEC, tmp_path / "model.onnx")
    output = ["-o", tmp_path / "m"]
    for flags, words in (
        (["--expert-capacity=0"], ["--expert-capacity=0", "a positive number"]),
        (["--expert-capacity=1", "--generate"], ["--generate", "the length of the step"]),
    ):
        tpcc.call([tmp_path / "model.onnx", *flags, *output]).refused(*words)

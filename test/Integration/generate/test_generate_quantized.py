"""Generations with quantized weights: ONNX Runtime's tokens."""

import onnx
import pytest

from generation import generate
from genai_files import GenAi
from quantized_files import FORMATS, Blocks, by_numpy, in_blocks, linear
from test_genai_files import greedy
from tpc.reference import Session

SPEC = GenAi(hidden=64, inner=96)
CASES = [
    ("tp2", Blocks(zeros="packed", table=True)),
    ("tp2,pp2", Blocks(bits=8, block=32)),
    ("tp4", "column"),
]


@pytest.mark.parametrize("grid, how", CASES, ids=[grid for grid, _ in CASES])
def test_generates(tpcc, tmp_path, grid, how):
    path = SPEC.save(tmp_path / "model.onnx")
    model = onnx.load(path)
    onnx.save(in_blocks(model, how) if isinstance(how, Blocks) else linear(model, how), path)
    program, session = tpcc.compile(path, grid, "--generate"), Session(path, optimize=False)
    expect(program, session)


def expect(program, session):
    for prompt in ([12, 7, 33], [5, 60, 18, 77, 21, 4, 9, 40, 41]):
        tokens, margins = greedy(SPEC, session, prompt, 12)
        decided = next((i for i, margin in enumerate(margins) if margin < 1e-4), len(margins))
        assert decided > 3
        assert generate(program, prompt, 12).tokens[:decided] == tokens[:decided]


@pytest.mark.parametrize("grid, format", [("tp2", "int4"), ("tp2,pp2", "int8")])
def test_generates_with_weights_that_tpcc_quantizes(tpcc, tmp_path, grid, format):
    path = SPEC.save(tmp_path / "model.onnx")
    session = Session(by_numpy(onnx.load(path), *FORMATS[format]).SerializeToString())
    expect(tpcc.compile(path, grid, "--generate", f"--quantize={format}"), session)

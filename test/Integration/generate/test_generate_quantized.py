"""Generations with quantized weights: ONNX Runtime's tokens."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from generation import decided, generate, margins_of
from genai_files import GenAi
from halves import halve
from models import MODELS
from quantized_files import FORMATS, Blocks, by_numpy, in_blocks, linear
from test_genai_files import greedy
from test_written_exports import merge
from tpc.reference import Session, difference

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


def one_by_one(model, prompt, new, session=None):
    """Returns greedy tokens, and the logits of each, of a session that gets one token at a time;
    without a session, of ONNX's reference implementation, because ONNX Runtime saturates sums of
    8-bit products on processors without VNNI.
    """
    for opset in model.opset_import:
        opset.version = max(opset.version, 19)  # the oldest DequantizeLinear of the evaluator
    session = session or ReferenceEvaluator(model)
    names = [port.name for port in model.graph.output]
    shapes = {
        port.name: [size.dim_value for size in port.type.tensor_type.shape.dim]
        for port in model.graph.input
    }
    types = {port.name: port.type.tensor_type.elem_type for port in model.graph.input}
    past = {
        name: np.zeros(
            [1, shape[1], 0, shape[3]], onnx.helper.tensor_dtype_to_np_dtype(types[name])
        )
        for name, shape in shapes.items()
        if name.startswith("past")
    }
    ids, rows = list(prompt), []
    for step in range(len(prompt) + new - 1):
        given = {
            "input_ids": np.array([[ids[step]]]),
            "attention_mask": np.ones((1, step + 1), np.int64),
            "position_ids": np.array([[step]]),
        }
        feed = {name: value for name, value in given.items() if name in shapes} | past
        results = dict(zip(names, session.run(None, feed)))
        logits = results.pop("logits")[0, -1]
        past = {name.replace("present", "past_key_values"): v for name, v in results.items()}
        if step >= len(prompt) - 1:
            rows.append(logits)
            ids.append(int(logits.argmax()))
    return ids[len(prompt) :], np.array(rows)


@pytest.mark.parametrize(
    "name, grid", [("llama-past", "tp1"), ("opt-past", "tp2"), ("llama-past", "tp2,pp2")]
)
def test_dynamic_quantization(tpcc, tmp_path, name, grid):
    """Files of quantize_dynamic (q8 of transformers.js): each token has its own range. OPT looks up
    positions in a quantized table.
    """
    quantization = pytest.importorskip("onnxruntime.quantization")
    path = tmp_path / "q8.onnx"
    quantization.quantize_dynamic(
        MODELS / f"{name}.onnx", path, weight_type=quantization.QuantType.QInt8
    )
    types = [node.op_type for node in onnx.load(path).graph.node]
    assert types.count("DynamicQuantizeLinear") > 3 and "MatMulInteger" in types
    program, prompt = tpcc.compile(path, grid, "--generate"), [12, 7, 99, 3, 41]
    assert "range of each token" in program.compiled.stderr
    tokens, rows = one_by_one(onnx.load(path), prompt, 8)
    found = generate(program, prompt, 8, "--prefill-chunk", "2", logits=True)
    assert found.tokens == tokens
    assert difference(found.logits, rows).relative <= 2e-5


@pytest.mark.parametrize(
    "grid",
    [
        pytest.param("tp1", marks=pytest.mark.long),
        pytest.param("tp2", marks=pytest.mark.long),
        "tp2,pp2",
    ],
)
@pytest.mark.parametrize("kind", ["fp16", "q4f16"])
def test_merged_decoders_in_16_bits(tpcc, tmp_path, kind, grid):
    """Merged decoders of transformers.js: ONNX Runtime's tokens of the branch with a past."""
    alone = tmp_path / f"{kind}.onnx"
    model = halve(onnx.load(MODELS / "llama-past.onnx"), "f16")
    onnx.save(in_blocks(model, Blocks(bits=4, block=16)) if kind == "q4f16" else model, alone)
    program = tpcc.compile(merge(alone, tmp_path / "merged.onnx"), grid, "--generate")
    prompt = [12, 7, 99, 3]
    tokens, rows = one_by_one(onnx.load(alone), prompt, 8, Session(alone).session)
    same = decided(margins_of(rows.astype(np.float32)))
    assert same > 3 and generate(program, prompt, 8).tokens[:same] == tokens[:same]

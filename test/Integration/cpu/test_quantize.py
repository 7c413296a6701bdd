"""tpcc --quantize: weights that the compiler quantizes, compared with NumPy's quantized weights."""

import re

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import tpc
from halves import as_array, as_float, halve, rounded_weights, to_half
from harness import Grid
from models import COMMITTED, FAMILIES
from quantized_files import FORMATS, Blocks, block_of, by_numpy, in_blocks, initializers, quantized
from test_quantized import SPEC, balanced, inputs
from tpc.reference import Session, difference


def expect(program, session, feeds, tolerance=2e-5):
    found = program.run_all(feeds, list(session.outputs))
    for feed, outputs in zip(feeds, found):
        for name, value in session.run(feed).items():
            error = difference(outputs[name], value)
            assert error.relative < tolerance, (name, str(error))


@pytest.mark.parametrize(
    "grid, format",
    [("tp2", "int8"), ("tp2,pp2,mb2", "int4"), ("tp4", "int4:16"), ("tp3", "int8:64")],
)
def test_runs(tpcc, tmp_path, grid, format):
    path = SPEC.save(tmp_path / "model.onnx")
    model = by_numpy(onnx.load(path), *FORMATS[format])
    session = Session(model.SerializeToString())
    program = tpcc.compile(path, grid, f"--quantize={format}")
    expect(program, session, [inputs(SPEC, 5, 3, 1), inputs(SPEC, 1, 6, 4)])


@pytest.mark.parametrize("grid, format", [("tp2", "int8"), ("tp2,pp2", "int4:16")])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_halves(tpcc, tmp_path, kind, grid, format):
    """Weights of 16 bits get scales of 16 bits, and no kernel stores a dequantized matrix."""
    path = tmp_path / "half.onnx"
    single = rounded_weights(onnx.load(SPEC.save(tmp_path / "model.onnx")), kind)
    onnx.save(halve(onnx.load(tmp_path / "model.onnx"), kind), path)
    session = Session(by_numpy(single, *FORMATS[format]).SerializeToString())
    feed = inputs(SPEC, 5, 3, 1)
    halves = {
        name: value if value.dtype.kind == "i" else as_array(to_half(value, name, kind))
        for name, value in feed.items()
    }
    program = tpcc.compile(path, grid, f"--quantize={format}")
    error = difference(as_float(program.run(halves)["logits"]), session.run(feed)["logits"])
    assert error.relative < (8e-3 if kind == "f16" else 4e-2), str(error)
    flags = [f"--megatron-shard={grid}", f"--quantize={format}", "--emit=buffers"]
    buffers = tmp_path / "buffers.mlir"
    tpcc.call([path, *flags, "-o", buffers]).check()
    text = buffers.read_text()
    assert "tpc_buffer.quantized_product" in text and "tpc_buffer.product " not in text
    assert "kernel_dequantize" not in text


@pytest.mark.parametrize("format", ["int8", "int4"])
@pytest.mark.parametrize("name", ["gpt2-tiny", "llama-dynamo", "falcon-dynamo", "phi-dynamo"])
def test_models(tpcc, name, format):
    """Fused and transposed weights, tied embeddings, biases, and heads that do not divide."""
    model = (COMMITTED | FAMILIES)[name]
    session = Session(by_numpy(onnx.load(model.path), *FORMATS[format]).SerializeToString())
    program = tpcc.compile(model.path, "tp3", f"--quantize={format}")
    expect(program, session, [model.inputs(2, 5)])


def expected_bytes(path, spec, rank, ranks, bits, block):
    """Returns the bytes of a rank. Columns are split by heads, by the MLP's columns, or by the
    vocabulary; rows of `o` and `down` by heads and by the MLP's columns, in whole blocks or between
    bytes.
    """
    share = {
        "attn": balanced(spec.kv_heads, ranks)[rank] / spec.kv_heads,
        "mlp": balanced(spec.inner, ranks)[rank] / spec.inner,
        "lm_head": balanced(spec.vocab, ranks)[rank] / spec.vocab,
    }
    total = 0
    for name, tensor in initializers(onnx.load(path)).items():
        if name == "model.embed_tokens.weight":
            total += tensor.nbytes * share["lm_head"]
        elif tensor.ndim == 2 and not name.endswith("_cache"):
            rows, columns = tensor.shape
            part = next(size for key, size in share.items() if key in name)
            blocks = rows // block_of(rows, block)
            scales = 4 * columns * blocks
            is_row = "o_proj" in name or "down" in name
            total += rows * columns * bits / 8 * part + scales * (
                part if blocks > 1 or not is_row else 1
            )
        elif "norm" in name or name.endswith("_cache"):
            total += tensor.nbytes
    return total


@pytest.mark.parametrize("format", ["int8", "int4:16"])
def test_weight_bytes_are_packed_shards(tpcc, tmp_path, format):
    path = SPEC.save(tmp_path / "model.onnx")
    program = tpcc.compile(path, "tp2", f"--quantize={format}")
    for rank in program.describe()["ranks"]:
        expected = expected_bytes(path, SPEC, rank["coordinates"]["tp"], 2, *FORMATS[format])
        assert rank["weight_bytes"] == expected, rank


def test_report(tpcc, tmp_path):
    """The report and the note have the errors of all matmuls, which NumPy computes as well."""
    path = SPEC.save(tmp_path / "model.onnx")
    shape = {"batch_size": 1, "sequence_length": 4, "past_sequence_length": 0}
    rows = tpcc.plan(path, Grid(tp=2), shape, "--quantize=int4:16")["quantized"]
    weights = {k: v for k, v in initializers(onnx.load(path)).items() if v.ndim == 2}
    assert len(rows) == 1 + SPEC.layers * 5
    for row in rows:
        w = weights[row["weight"]]
        assert (row["rows"], row["columns"]) == w.shape and row["block"] == 16
        assert row["original_bytes"] == w.nbytes and row["bytes"] == w.size // 2 + w.size // 16 * 4
        error = np.linalg.norm(quantized(w, 4, 16) - w) / np.linalg.norm(w)
        assert row["relative_error"] == pytest.approx(error, rel=0.15)
    program = tpcc.compile(path, "tp2", "--quantize=int4:16")
    worst = max(rows, key=lambda row: row["relative_error"])
    text = re.sub(r"\s+", " ", program.compiled.stderr)
    assert f"11 matrices" in text and f"to {100 * worst['relative_error']:.2f}%" in text
    assert f"'{worst['node']}'" in text


def test_the_weights_are_next_to_the_program(tpcc, tmp_path):
    path = SPEC.save(tmp_path / "model.onnx")
    program = tpcc.compile(path, "tp2", "--quantize=int8")
    packed = program.path.with_name(program.path.name + ".weights")
    expected = program.run(inputs(SPEC, 3, 0, 1))["logits"]
    folder = tmp_path / "moved"
    folder.mkdir()
    for file in (program.path, packed, path):
        file.rename(folder / file.name)
    moved = program.__class__(folder / program.path.name, program.grid, folder)
    assert np.array_equal(moved.run(inputs(SPEC, 3, 0, 1))["logits"], expected)
    # Other bytes in the file are detected.
    data = bytearray((folder / packed.name).read_bytes())
    data[0] ^= 1
    (folder / packed.name).write_bytes(data)
    shape = "batch_size=1,sequence_length=3,past_sequence_length=0"
    moved.call(["--bench", "--shape", shape]).refused(packed.name)


def test_reference(tpcc, tmp_path):
    """The reference is quantized too: the same model is proved equal, another one is not."""
    path = SPEC.save(tmp_path / "model.onnx")
    tpcc.compile(path, "tp2", "--quantize=int8", f"--reference={path}")
    model = onnx.load(path)
    next(node for node in model.graph.node if node.op_type == "Mul").op_type = "Add"
    onnx.save(model, tmp_path / "other.onnx")
    flags = [path, "--quantize=int8", f"--reference={tmp_path / 'other.onnx'}"]
    tpcc.call([*flags, "-o", tmp_path / "p"]).refused("not")


def test_python(tmp_path, monkeypatch):
    monkeypatch.setenv("TPC_CACHE", str(tmp_path / "cache"))
    path = SPEC.save(tmp_path / "model.onnx")
    session = Session(by_numpy(onnx.load(path), 4, 32).SerializeToString())
    feed = inputs(SPEC, 5, 3, 1)
    for _ in range(2):
        with tpc.compile(path, shard="tp2", quantize="int4") as model:
            assert (
                difference(model.run(feed)["logits"], session.run(feed)["logits"]).relative < 2e-5
            )
            assert len(model.report(sequence_length=4)["quantized"]) == 11
    assert len(list((tmp_path / "cache" / "programs").iterdir())) == 2


BAD = [
    (["--quantize=int5"], "there is no format 'int5'"),
    (["--quantize=fp8:64"], "no block size"),
    (["--quantize=int4:17"], "power of two from 16 to 2^20, not '17'"),
    (["--quantize=int4:8"], "not '8'"),
    (["--quantize=int4:"], "not ''"),
    (["--quantize=int4:-32"], "not '-32'"),
    (["--quantize=int4:2097152"], "not '2097152'"),
    (["--quantize="], "--quantize is empty"),
    (["--quantize=int8", "--quantize=int4"], "is given twice"),
    (["--quantize=int8", "--emit=onnx-sharded"], "--emit=onnx-sharded writes the input's weights"),
    (["--quantize=int8", "--emit=import"], "--emit=import is the program before quantization"),
    (["--quantize=int8", "--emit=model", "-o", "-"], "name the output with -o"),
]


@pytest.mark.parametrize("flags, words", BAD, ids=[" ".join(flags) for flags, _ in BAD])
def test_bad_flags(tpcc, tmp_path, flags, words):
    path = SPEC.save(tmp_path / "model.onnx")
    output = [] if "-o" in flags else ["-o", tmp_path / "out"]
    tpcc.call([path, *(f.format(model=path) for f in flags), *output]).refused(words)
    assert not list(tmp_path.glob("out*"))


def test_bad_files(tpcc, tmp_path):
    """Weights that are quantized already, that are not finite, or that would be overwritten."""
    path = SPEC.save(tmp_path / "model.onnx")
    model = onnx.load(path)
    onnx.save(in_blocks(model, Blocks()), tmp_path / "packed.onnx")
    out = tmp_path / "out"
    flags = ["--quantize=int8", "-o", out]
    tpcc.call([tmp_path / "packed.onnx", *flags]).refused("its weights are quantized already")
    for number in (np.nan, np.inf):
        weight = next(t for t in model.graph.initializer if t.name.endswith("down_proj.weight"))
        values = numpy_helper.to_array(weight).copy()
        values[3, 5] = number
        weight.CopyFrom(numpy_helper.from_array(values, weight.name))
        onnx.save(model, path)
        tpcc.call([path, *flags]).refused(weight.name, "column 5 is not finite", "down_proj/MatMul")
    onnx.save(model, tmp_path / "a.onnx", save_as_external_data=True, location="out.weights")
    tpcc.call([tmp_path / "a.onnx", *flags]).refused("out.weights", "would be overwritten")
    staged = tmp_path / "staged.mlir"
    tpcc.call([COMMITTED["gpt2-tiny"].path, "--emit=staged", "-o", staged]).check()
    tpcc.call([staged, *flags]).refused("--quantize", "is at level staged already")
    assert not out.exists()

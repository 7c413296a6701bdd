"""Quantized weights: ONNX Runtime's results, and only packed bytes in the memory of ranks."""

from dataclasses import replace

import numpy as np
import onnx
import pytest

from genai_files import GenAi
from halves import as_float, widen
from harness import Grid
from quantized_files import Blocks, in_blocks, linear
from simulator import FLAGS, environment
from tpc import onnxfile
from tpc.reference import Session, difference

# Heads of 16, and blocks of 16: tp splits whole blocks of all matrices.
SPEC = GenAi(hidden=64, inner=96, heads=4, kv_heads=2)


def save(path, spec=SPEC, how=Blocks()):
    model = onnx.load(spec.save(path))
    onnx.save(in_blocks(model, how) if isinstance(how, Blocks) else linear(model, how), path)
    return path


def inputs(spec, tokens, past, batch):
    random = np.random.default_rng(3)
    shape = (batch, spec.kv_heads, past, spec.size)
    element = np.float16 if spec.half else np.float32
    return {
        f"past_key_values.{layer}.{part}": random.standard_normal(shape).astype(element)
        for layer in range(spec.layers)
        for part in ("key", "value")
    } | {
        "input_ids": random.integers(0, spec.vocab, (batch, tokens)),
        "attention_mask": np.ones((batch, tokens + past), np.int64),
    }


CASES = [
    ("tp2", SPEC, Blocks()),
    ("tp4", SPEC, Blocks(zeros="packed")),
    # Blocks of 32 and 64: two heads share a block, and the last block of the MLP is half used.
    ("tp2,pp2,mb2", SPEC, Blocks(block=32, zeros="packed", bias=True)),
    ("tp3", SPEC, Blocks(bits=8, block=64, zeros="packed")),
    ("tp2,dp2,sp", GenAi(hidden=64, inner=96, packed=False), Blocks(bits=2, zeros="float")),
    ("tp2", SPEC, Blocks(table=True, zeros="packed")),
    ("tp4", SPEC, Blocks(bits=8, table=True)),
    ("tp2", SPEC, "tensor"),
    ("tp2,pp2", SPEC, "column"),
    ("tp4", SPEC, "rows"),
    ("tp2", SPEC, "int4"),
    ("tp2", SPEC, "dynamic"),
    ("gpu:tp2", SPEC, Blocks(zeros="packed", table=True)),
    ("gpu:tp2", SPEC, "column"),
]


@pytest.mark.parametrize(
    "grid, spec, how", CASES, ids=[f"{grid}-{i}" for i, (grid, *_) in enumerate(CASES)]
)
def test_runs(tpcc, tmp_path, grid, spec, how):
    path = save(tmp_path / "model.onnx", spec, how)
    gpu = grid.startswith("gpu:")
    flags = FLAGS if gpu else ()
    program = tpcc.compile(path, grid.removeprefix("gpu:"), *flags)
    # With optimization, ONNX Runtime multiplies dequantized weights in 8 bits.
    session = Session(path, optimize=False)
    feeds = [inputs(spec, 5, 3, 1), inputs(spec, 1, 6, 4)]
    found = program.run_all(feeds, list(session.outputs), env=environment() if gpu else {})
    for feed, outputs in zip(feeds, found):
        for name, value in session.run(feed).items():
            error = difference(outputs[name], value)
            assert error.relative < 2e-5, (name, str(error))


HALF = replace(SPEC, half=True)
FORMS = [
    (SPEC, Blocks()),
    (SPEC, Blocks(block=32, zeros="packed")),
    (SPEC, Blocks(bits=8, zeros="float")),
    (SPEC, "column"),
    (HALF, Blocks(block=32, zeros="packed")),
    (HALF, Blocks(bits=8, zeros="float")),
    (HALF, "column"),
]


@pytest.mark.parametrize("spec, how", FORMS, ids=range(len(FORMS)))
def test_no_matrix_is_stored(tpcc, tmp_path, spec, how):
    """All matmuls by quantized weights are calls that read packed bytes, in layers of any stage."""
    path = save(tmp_path / "model.onnx", spec, how)
    text = tpcc.call([path, "--megatron-shard=tp2,pp2,mb2", "--emit=buffers", "-o", "-"])
    functions = text.check().stdout.split("tpc_buffer.func ")[1:]
    calls = [function.count("tpc_buffer.quantized_product") for function in functions]
    # A layer has queries, keys, values, o, gate, up and down; the last stage has the head.
    assert sum(calls) >= 8 and "kernel_dequantize" not in text.stdout
    assert "tpc_buffer.product" not in text.stdout


@pytest.mark.parametrize(
    "grid, how",
    [
        ("tp2", Blocks(zeros="packed")),
        ("tp2,pp2,mb2", Blocks(bits=8, zeros="packed")),
        ("tp4", "column"),
    ],
    ids=["packed", "bytes", "column"],
)
def test_halves(tpcc, tmp_path, grid, how):
    """In f16, results are at most 1.5 times as far from those in f32 as ONNX Runtime's."""
    path = save(tmp_path / "model.onnx", HALF, how)
    single = tmp_path / "single.onnx"
    onnx.save(widen(onnx.load(path)), single)
    half, exact = Session(path, optimize=False), Session(single, optimize=False)
    feed = inputs(HALF, 5, 3, 1)
    wide = {name: as_float(v) if v.dtype.kind == "f" else v for name, v in feed.items()}
    wanted = exact.run(wide)["logits"]
    theirs = difference(as_float(half.run(feed)["logits"]), wanted).relative
    found = tpcc.compile(path, grid).run(feed)["logits"]
    assert difference(as_float(found), wanted).relative < max(1.5 * theirs, 1e-3)


def balanced(total, parts):
    return [total // parts + (index < total % parts) for index in range(parts)]


def expected_bytes(path, spec, grid, rank):
    """Returns the bytes of a rank's shards. Queries, keys and values are split by heads, gate and
    up by columns, `o` and `down` by rows, that is, by blocks; the head and the table by rows.
    """
    total = 0
    share = {
        "heads": balanced(spec.kv_heads, grid.tp)[rank] / spec.kv_heads,
        "inner": balanced(spec.inner // 16, grid.tp)[rank] / (spec.inner // 16),
        "vocabulary": balanced(spec.vocab, grid.tp)[rank] / spec.vocab,
    }
    for tensor in onnxfile.load_structure(path).graph.initializer:
        name = tensor.name
        size = int(np.prod(tensor.dims)) * (1 if tensor.data_type == 2 else 4)
        if "proj" in name:
            size *= share["heads" if "attn" in name else "inner"]
        elif name.startswith(("lm_head", "model.embed")):
            size *= share["vocabulary"]
        elif "norm" not in name and not name.startswith(("cos", "sin")):
            continue
        total += size
    return total


@pytest.mark.parametrize("how", [Blocks(), Blocks(bits=8, zeros="float")], ids=["4", "8"])
def test_weight_bytes_are_packed_shards(tpcc, tmp_path, how):
    path = save(tmp_path / "model.onnx", SPEC, how)
    grid = Grid(tp=2)
    description = tpcc.compile(path, grid).describe()
    for rank in description["ranks"]:
        expected = expected_bytes(path, SPEC, grid, rank["coordinates"]["tp"])
        assert rank["weight_bytes"] == expected, rank

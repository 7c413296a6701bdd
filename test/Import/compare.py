"""Compares imported models with ONNX Runtime for several sizes: compare.py FILE-OR-FOLDER...

Sets the symbols of inputs to several sizes. Sizes that violate the program's constraints are
skipped.
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime

import interpret

SIZES = [(1, 1), (2, 7), (3, 8), (4, 2)]  # (batch, every other symbol)
TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}


def feed(name, type, shape, random):
    """Returns random values of an input."""
    if name == "attention_mask":  # padded on the left, by a different amount for each sequence
        mask = np.ones(shape, type)
        for row in range(1, shape[0]):
            mask[row, : min(row, shape[1] - 1)] = 0
        return mask
    if name == "position_ids":
        return np.broadcast_to(np.arange(shape[-1]), shape).astype(type)
    if name == "mask":  # Megatron's masks: 1 on and below the diagonal, 0 above
        return np.broadcast_to(np.tril(np.ones(shape[-2:])), shape).astype(type)
    if np.issubdtype(type, np.floating):
        return random.standard_normal(shape).astype(type)
    return random.integers(0, 2 if type == np.bool_ else 8, shape).astype(type)


def compare(path, importer):
    program = interpret.Program(path, importer)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # By default, ONNX Runtime multiplies in 8 bits where weights are dequantized.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    worst, ran = 0.0, 0
    for batch, other in SIZES:
        random = np.random.default_rng(ran)
        feeds = {}
        for value in session.get_inputs():
            # The size "past + sequence" is the sum of two symbols.
            shape = [
                (
                    d
                    if isinstance(d, int)
                    else batch if str(d).startswith("b") else other * len(str(d).split("+"))
                )
                for d in value.shape
            ]
            feeds[value.name] = feed(value.name, TYPES[value.type], shape, random)
        try:
            got = program.run(feeds)
        except interpret.OutsideConstraints:
            continue
        ran += 1
        for value, want in zip(session.get_outputs(), session.run(None, feeds)):
            have = got[value.name]
            assert have.shape == want.shape and have.dtype == want.dtype, (
                value.name,
                have.shape,
                want.shape,
            )
            if want.dtype.kind != "f":
                assert (have == want).all(), value.name
                continue
            assert (np.isnan(have) == np.isnan(want)).all(), value.name
            scale = np.nanmax(np.abs(want), initial=1e-30)
            error = np.nanmax(np.abs(have - want), initial=0) / scale
            worst = max(worst, float(error))
            assert error < (2e-3 if want.dtype == np.float16 else 2e-5), (value.name, error)
    assert ran, "the constraints exclude all sizes"
    return ran, worst


files = []
for argument in map(Path, sys.argv[1:]):
    files += sorted(argument.glob("*.onnx")) if argument.is_dir() else [argument]
failed = 0
importer = interpret.Importer()
for path in files:
    try:
        ran, worst = compare(path, importer)
        print(f"{path.name}: {ran} sizes, off by {worst:.1e}")
    except (AssertionError, interpret.ImportFailed) as e:
        failed += 1
        print(f"{path.name}: FAILED: {e}")
print(f"{len(files) - failed} equal, {failed} not")
sys.exit(failed > 0 or not files)

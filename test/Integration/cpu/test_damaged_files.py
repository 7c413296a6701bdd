"""Errors of the Python tools for damaged files: one line that names the file, and no output."""

import json
import struct

import numpy as np
import pytest

from tpc import checkpoint, trace, weights

TENSOR = {
    "key": "w",
    "name": "w",
    "dtype": "f32",
    "is_weight": True,
    "shape": [2, 2],
    "offset": 0,
    "factors": [{"size": 4, "stride": 1}],
}
HEADER = {"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}
EVENTS = [
    {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "stage 0"}},
    {"ph": "X", "pid": 0, "name": "matmul", "dur": 5},
]


def save(folder, tensor, header=HEADER, index=None):
    """Writes a checkpoint of one rank and one weight."""
    step = folder / "step-1"
    step.mkdir()
    ranks = [{"file": "rank-0.safetensors", "tensors": [tensor]}]
    (step / "index.json").write_text(json.dumps({"ranks": ranks} if index is None else index))
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = np.arange(4, dtype=np.float32).tobytes()
    (step / "rank-0.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return step


def export(folder, *flags):
    """Exports a checkpoint. Returns the message of an error."""
    with pytest.raises(SystemExit) as ended:
        checkpoint.main(["export", str(folder), "-o", str(folder / "out.safetensors"), *flags])
    assert not list(folder.glob("out*")) and "\n" not in ended.value.code
    return ended.value.code


def test_a_checkpoint(tmp_path):
    save(tmp_path, TENSOR)
    assert checkpoint.read_tensors(tmp_path)["w"].tolist() == [[0, 1], [2, 3]]
    out = tmp_path / "out.safetensors"
    checkpoint.main(["export", str(tmp_path), "-o", str(out)])
    assert checkpoint.read_safetensors(out)["w"] == np.arange(4, dtype=np.float32).tobytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.safetensors", "step-1"]


@pytest.mark.parametrize(
    "tensor, header, index",
    [
        (TENSOR | {"dtype": "i4"}, HEADER, None),
        (TENSOR | {"shape": [1 << 62]}, HEADER, None),
        (TENSOR | {"shape": [-1]}, HEADER, None),
        (TENSOR | {"offset": 1}, HEADER, None),
        (TENSOR | {"offset": -1}, HEADER, None),
        (TENSOR | {"offset": "x"}, HEADER, None),
        (TENSOR | {"factors": [{"size": 4}]}, HEADER, None),
        (TENSOR | {"factors": 3}, HEADER, None),
        (TENSOR | {"key": "v"}, HEADER, None),
        ({}, HEADER, None),
        (TENSOR, b"{", None),
        (TENSOR, b"\xff", None),
        (TENSOR, b"[]", None),
        (TENSOR, {"w": {}}, None),
        (TENSOR, {"w": {"data_offsets": [0, 8]}}, None),
        (TENSOR, HEADER, []),
        (TENSOR, HEADER, {"ranks": [{"file": "../step-1", "tensors": []}]}),
        (TENSOR, HEADER, {"ranks": [{"tensors": []}]}),
    ],
)
def test_damaged_checkpoints(tmp_path, tensor, header, index):
    save(tmp_path, tensor, header, index)
    message = export(tmp_path)
    assert message.startswith("tpc.checkpoint: ") and "step-1" in message, message


def test_files_that_cannot_be_read_or_written(tmp_path):
    assert "there is no checkpoint step-N" in export(tmp_path)
    save(tmp_path, TENSOR)
    assert "absent.onnx: No such file" in export(tmp_path, "--onnx", str(tmp_path / "absent.onnx"))
    index = tmp_path / "step-1" / "index.json"
    assert f"{index}: not an ONNX file" in export(tmp_path, "--onnx", str(index))
    with pytest.raises(SystemExit, match="cannot write .*/absent/w'"):
        checkpoint.main(["export", str(tmp_path), "-o", str(tmp_path / "absent" / "w")])


def test_files_that_are_not_onnx_models(tmp_path):
    (tmp_path / "text.onnx").write_bytes(b"# text")
    with pytest.raises(SystemExit, match="^tpc.weights: .*text.onnx: not an ONNX file: ") as ended:
        weights.main([str(tmp_path / "text.onnx")])
    assert "\n" not in ended.value.code


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\xff",
        "[]",
        "{}",
        '{"traceEvents": 3}',
        '{"traceEvents": [3]}',
        '{"traceEvents": [{"ph": "X"}]}',
        "[" * 100000,
        json.dumps({"traceEvents": [EVENTS[0] | {"args": {"name": "other"}}]}),
        json.dumps({"traceEvents": [EVENTS[0], {"ph": "X", "pid": 0, "name": "matmul"}]}),
        json.dumps({"traceEvents": [EVENTS[0], EVENTS[1] | {"pid": 7}]}),
        json.dumps({"traceEvents": [EVENTS[0], EVENTS[1] | {"dur": "5"}]}),
    ],
)
def test_damaged_traces(tmp_path, text):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps({"traceEvents": EVENTS}))
    bad.write_text(text, encoding="latin-1")
    with pytest.raises(SystemExit) as ended:
        trace.main(["diff", str(good), str(bad)])
    assert ended.value.code.startswith(f"tpc.trace: {bad}: not a trace of tpc: ")
    assert trace.main(["diff", str(good), str(good)]) == 0

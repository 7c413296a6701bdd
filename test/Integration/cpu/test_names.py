"""Names of arbitrary bytes are printed as text. Equal names are resolved as in ONNX Runtime."""

import json
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness import Executable, Grid, tool
from tpc.reference import Session

A = np.arange(4, dtype=np.float32)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
# Placeholders of the same length, because Python's protobuf accepts only valid UTF-8.
BYTES = {
    b"INPUT_": b"\x1b[31m\n",
    b"OUTPUT": b"o\xff\xfe\x00\r\t",
    b"WEIGHT": b"w\xc3\xe2\x80\xae\x07",
    b"MIDDLE": b"m\xed\xa0\x80\x9b\n",
    b"NODE_1": b"n\x08\x08\x08\x85\x7f",
    b"WEIGH2": b"w\xc3\xe2\x80\xae\x06",
    b"GRAPH_": b"g\xf5\xff\n\n\x1b",
}


def port(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model_of(nodes, inputs, outputs, tensors):
    graph = helper.make_graph(nodes, "GRAPH_", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def strange(tmp_path):
    matrix = np.eye(4, dtype=np.float32)
    nodes = [
        helper.make_node("MatMul", ["INPUT_", "WEIGHT"], ["MIDDLE"], name="NODE_1"),
        helper.make_node("MatMul", ["MIDDLE", "WEIGH2"], ["OUTPUT"], name="NODE_2"),
    ]
    model = model_of(
        nodes,
        [port("INPUT_", "b", 4)],
        [port("OUTPUT", "b", 4)],
        [numpy_helper.from_array(matrix, "WEIGHT"), numpy_helper.from_array(2 * matrix, "WEIGH2")],
    )
    data = model.SerializeToString()
    for placeholder, name in BYTES.items():
        assert len(name) == len(placeholder)
        data = data.replace(placeholder, name)
    path = tmp_path / "strange.onnx"
    path.write_bytes(data)
    return path


def text_of(command) -> str:
    """Returns a command's output, which must be UTF-8 without control characters."""
    result = subprocess.run(
        [str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, timeout=60
    )
    text = (result.stdout + result.stderr).decode("utf-8")
    assert not CONTROL.search(text), f"{command}: {text!r}"
    return text


def test_printed_names(strange, tmp_path):
    program, report, certificate = (
        tmp_path / name for name in ("program", "report.json", "certificate.json")
    )
    text_of([tool("tpcc"), strange, "--megatron-shard=tp2", "-o", program, "--digest-weights"])
    text_of([tool("tpcc"), strange, "--megatron-shard=tp2", f"--report={report}", "--shape=b=2"])
    text_of([tool("tpcc"), strange, "--megatron-shard=tp2", f"--certificate={certificate}"])
    for path in (report, certificate):
        assert not CONTROL.search(path.read_bytes().decode("utf-8"))
        json.loads(path.read_text())
    for stage in ("import", "staged"):
        text_of([tool("tpcc"), strange, "--megatron-shard=tp2", f"--emit={stage}"])
    text_of([tool("tpcc"), strange, "--megatron-shard=tp2", "--explain"])
    text_of([tool("tpc-translate"), "--import-onnx", strange])
    described = json.loads(text_of([program, "--describe", "--json"]))
    name, output = described["inputs"][0]["name"], described["outputs"][0]["name"]
    assert (name, output) == (r"\x1b[31m\x0a", r"o\xff\xfe\x00\x0d\x09")
    for flag in ("--help", "--describe"):
        text = text_of([program, flag])
        assert name in text and output in text
    np.save(tmp_path / "x.npy", np.ones((1, 4), np.float32))
    # The printed name, and the name in the file.
    for spelling in (name, "\x1b[31m\n"):
        assert output in text_of([program, "--input", f"{spelling}={tmp_path / 'x.npy'}"])
    for arguments in (
        [],
        ["--input", "\x1b[0m=x.npy"],
        [str(tmp_path / "\x1b\n.npy")],
        ["--\x07"],
        ["--output", "\x01\n=y.npy"],
    ):
        assert "error: " in text_of([program, *arguments])
    text_of([tool("tpcc"), tmp_path / "\x1b\n.onnx", "-o", program])


def test_nodes_in_errors(strange, tmp_path):
    path = tmp_path / "wrong.onnx"
    for before, after in (
        (b"MatMul", b"MatMuX"),
        (b"MatMul", b"MatM\n\xff"),
        (b"NODE_2", b"N\n\x1b\xff\n\n"),
    ):
        path.write_bytes(
            strange.read_bytes()
            .replace(before, after)
            .replace(b"\x08\x02\x08\x04", b"\x08\x02\x08\x03")
        )
        text_of([tool("tpcc"), path, "-o", tmp_path / "program"])
    path.write_bytes(strange.read_bytes().replace(BYTES[b"MIDDLE"], b"NOBODY", 1))
    for command in (
        [tool("tpcc"), path, "-o", tmp_path / "program"],
        [tool("tpc-translate"), "--import-onnx", path],
    ):
        assert r"'m\xed\xa0\x80\x9b\x0a', which no node" in text_of(command)


def constant(name, value):
    return helper.make_node(
        "Constant", [], [name], value=numpy_helper.from_array(np.asarray(value))
    )


def tensor(name, value):
    return numpy_helper.from_array(np.asarray(value), name)


ADD = helper.make_node("Add", ["x", "w"], ["y"])
COPIES = {
    "initializers": ([ADD], [tensor("w", A), tensor("w", A + 10)]),
    "equal": ([ADD], [tensor("w", A), tensor("w", A)]),
    "nodes": ([constant("w", A), ADD, constant("w", A + 10)], []),
    "lists": (
        [helper.make_node("Constant", [], ["w"], value_floats=list(A * k)) for k in (1, 2)] + [ADD],
        [],
    ),
    "both": ([constant("w", A + 10), ADD], [tensor("w", A)]),
    "all": (
        [constant("w", A + 10), ADD, constant("w", A + 20)],
        [tensor("w", A), tensor("w", A + 1)],
    ),
}
CLASHES = {
    "shapes": ([ADD], [tensor("w", A), tensor("w", A[:1])]),
    "types": ([constant("w", A), constant("w", A.astype(np.int64)), ADD], []),
    "lists": (
        [helper.make_node("Constant", [], ["w"], value_floats=list(A[:k])) for k in (4, 3)] + [ADD],
        [],
    ),
    "types-of-both": ([constant("w", A), ADD], [tensor("w", A.astype(np.int64))]),
    "computed": ([helper.make_node("Neg", ["x"], ["w"]), constant("w", A), ADD], []),
    "computed-initializer": ([helper.make_node("Neg", ["x"], ["w"]), ADD], [tensor("w", A)]),
}


@pytest.mark.parametrize("name", COPIES)
def test_constants_of_one_name(tpcc, tmp_path, name):
    path = tmp_path / "m.onnx"
    nodes, tensors = COPIES[name]
    onnx.save(model_of(nodes, [port("x", 4)], [port("y", 4)], tensors), path)
    program = tpcc.compile(path)
    assert "there are several constants named 'w'" in program.compiled.stderr
    np.testing.assert_array_equal(
        program.run({"x": A}, outputs=["y"])["y"], Session(path).run({"x": A})["y"]
    )


@pytest.mark.parametrize("name", CLASHES)
def test_clashing_names(tpcc, tmp_path, name):
    path = tmp_path / "m.onnx"
    nodes, tensors = CLASHES[name]
    onnx.save(model_of(nodes, [port("x", 4)], [port("y", 4)], tensors), path)
    with pytest.raises(Exception, match="ONNXRuntimeError"):
        Session(path)
    tpcc.call([path, "-o", tmp_path / "program"]).refused()


def nest(levels: int, calls: int = 1, back: int | None = None):
    """Writes functions f0, f1, …, each of which calls the next one `calls` times. The last one
    negates, or calls function `back`.
    """
    text = (
        '<ir_version: 10, opset_import: ["" : 17, "local" : 1]>\ng (float[4] x) => (float[4] y) { y'
        " = local.f0(x) }\n"
    )
    for level in range(levels):
        last = "Neg" if back is None else f"local.f{back}"
        callee = f"local.f{level + 1}" if level + 1 < levels else last
        body = " ".join(f"v{i + 1} = {callee}(v{i})" for i in range(calls))
        text += (
            f'<domain: "local", opset_import: ["" : 17, "local" : 1]>\nf{level} (v0) => (v{calls})'
            f" {{ {body} }}\n"
        )
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize(
    "levels, calls, back, words",
    [
        (30, 1, None, []),
        (8, 2, None, []),
        (200, 1, None, []),
        (201, 1, None, ["inside of 200 other calls"]),
        (5000, 1, None, ["inside of 200 other calls"]),
        (1, 1, 0, ["recursive: 'f0' calls 'f0'"]),
        (3, 1, 1, ["recursive: 'f1' calls 'f2' calls 'f1'"]),
        (30, 1, 2, ["recursive: 'f2' calls 'f3'", "more) calls 'f2'"]),
        (30, 2, None, ["500000 nodes"]),
    ],
)
def test_nested_functions(tpcc, tmp_path, levels, calls, back, words):
    path = tmp_path / "m.onnx"
    path.write_bytes(nest(levels, calls, back).SerializeToString())
    result = tpcc.call([path, "-o", tmp_path / "program"], timeout=60)
    if words:
        result.refused(*words)
        assert "recursive" in " ".join(words) or "recursive" not in result.stderr
    else:
        result.check()
        output = Executable(tmp_path / "program", Grid(), tmp_path / "runs").run(
            {"x": A}, outputs=["y"]
        )["y"]
        np.testing.assert_array_equal(output, A if calls % 2 == 0 else -A)


@pytest.mark.parametrize(
    "x, summary, warning",
    [
        ([1, 1], "min 0  max 0  mean 0", ""),
        ([1, 0], "not finite: 0 NaN, 1 infinite", ""),
        (
            [1, -1],
            "of 1 finite elements; not finite: 1 NaN, 0 infinite",
            "1 of 2 elements are NaN, the first at [0, 1]",
        ),
        ([-1, 0], "not finite: 1 NaN, 1 infinite", "1 of 2 elements are NaN, the first at [0, 0]"),
        ([-1, -1], "not finite: 2 NaN, 0 infinite", "2 of 2 elements are NaN, the first at [0, 0]"),
    ],
)
def test_reports_of_nan(tpcc, tmp_path, x, summary, warning):
    path = tmp_path / "log.onnx"
    onnx.save(
        model_of(
            [helper.make_node("Log", ["x"], ["y"])], [port("x", "b", 2)], [port("y", "b", 2)], []
        ),
        path,
    )
    program = tpcc.compile(path)
    np.save(tmp_path / "x.npy", np.array([x], np.float32))
    shown = program.call([tmp_path / "x.npy"]).check()
    assert summary in shown.stdout and "inf max" not in shown.stdout, str(shown)
    saved = program.call([tmp_path / "x.npy", "--output", tmp_path / "y.npy"]).check()
    for result in (shown, saved):
        assert (
            result.stderr == ""
            if not warning
            else f"warning: output 'y': {warning}" in result.stderr
        ), str(result)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), np.log(np.array([x], np.float32)))

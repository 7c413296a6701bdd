"""Programs loaded into a process: tpc/session.h, and tpc.load on top of it.

Results equal the executable's bit by bit. No error ends the process or changes its state, such as
signal handlers and descriptors.
"""

import os
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tpc
from harness import sanitized
from models import COMMITTED, FAMILIES
from loaded_programs import IDS, PADDED, executable, expected, library  # noqa: F401 (fixtures)

pytestmark = pytest.mark.skipif(
    sanitized(), reason="sanitizers: the Python process needs them too"
)


@pytest.mark.parametrize(
    "model, grid, past",
    [
        (PADDED, "tp2,dp2", 0),
        (FAMILIES["llama-past"], "tp2,pp2,mb2", 3),
        (FAMILIES["bloom-dynamo"], "tp3", 0),
        (COMMITTED["gpt2-mlp"], "tp1", 0),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_results_equal_those_of_the_executable(tpcc, model, grid, past):
    program = tpcc.compile(model.path, grid)
    names = [output["name"] for output in program.describe()["outputs"]]
    with tpc.load(program.path, threads=1) as session:
        assert session.description == program.describe()
        assert [port.name for port in session.outputs] == names
        for batch, sequence in ((2, 7), (1, 1), (3, 5), (2, 7)):
            inputs = model.inputs(
                batch, sequence, padding="left" if model.padded else "none", past=past
            )
            want, found = program.run(inputs, names), session.run(inputs)
            assert list(found) == names
            for name in names:
                assert found[name].dtype == want[name].dtype and np.array_equal(
                    found[name], want[name]
                ), name


def test_library_equals_executable(library, expected):
    assert not os.access(library, os.X_OK)
    for _ in range(2):
        with tpc.load(library) as session:
            assert np.array_equal(session.run({"input_ids": IDS}, ["logits"])["logits"], expected)


def test_ports(executable):
    with tpc.load(str(executable.path)) as session:
        (ids,), (logits,) = session.inputs, session.outputs
        assert (ids.name, ids.shape, ids.type, ids.optional) == (
            "input_ids",
            ("batch", "sequence"),
            "tensor(int64)",
            False,
        )
        assert (logits.shape, logits.type, logits.dtype) == (
            ("batch", "sequence", 1000),
            "tensor(float)",
            np.float32,
        )


@pytest.mark.parametrize(
    "flavor", ["Fortran", "strided", "big-endian", "unaligned", "narrow", "list", "read-only"]
)
def test_arrays_of_any_layout(executable, expected, flavor):
    given = {
        "Fortran": np.asfortranarray(IDS),
        "strided": np.repeat(IDS, 2, axis=1)[:, ::2],
        "big-endian": IDS.astype(">i8"),
        "unaligned": np.frombuffer(b"?" + IDS.tobytes(), "?")[1:].view(np.int64).reshape(IDS.shape),
        "narrow": IDS.astype(np.int32),
        "list": IDS.tolist(),
        "read-only": IDS.copy(),
    }[flavor]
    if flavor == "read-only":
        given.flags.writeable = False
    if flavor == "unaligned":
        assert not given.flags.aligned
    with tpc.load(executable.path) as session:
        assert np.array_equal(session.run({"input_ids": given})["logits"], expected)


@pytest.mark.parametrize(
    "element, kind",
    [
        (TensorProto.FLOAT16, "float16"),
        (TensorProto.BFLOAT16, "bfloat16"),
        (TensorProto.DOUBLE, "double"),
        (TensorProto.INT32, "int32"),
        (TensorProto.INT8, "int8"),
        (TensorProto.UINT8, "uint8"),
        (TensorProto.BOOL, "bool"),
    ],
    ids=lambda value: str(value),
)
def test_types(tpcc, tmp_path, element, kind):
    node = (
        helper.make_node("Not", ["x"], ["y"])
        if kind == "bool"
        else helper.make_node("Add", ["x", "x"], ["y"])
    )
    body = helper.make_graph(
        [node],
        "type",
        *([helper.make_tensor_value_info(name, element, ["batch", "n"])] for name in "xy"),
    )
    onnx.save(
        helper.make_model(body, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
        tmp_path / "m.onnx",
    )
    program = tpcc.compile(tmp_path / "m.onnx")
    with tpc.load(program.path) as session:
        assert session.inputs[0].type == session.outputs[0].type == f"tensor({kind})"
        x = np.array([[0, 1, 2], [1, 0, 3]]).astype(session.inputs[0].dtype)
        y = session.run({"x": x})["y"]
        assert y.dtype == x.dtype and np.array_equal(y, ~x if kind == "bool" else x + x)
        assert session.run({"x": x[:0]})["y"].shape == (0, 3)
        if kind == "bfloat16":
            assert np.array_equal(session.run({"x": x.view(np.uint16)})["y"], y)


@pytest.mark.parametrize(
    "inputs, words",
    [
        ({"ids": IDS}, ["'ids'", "'input_ids'"]),
        ({}, ["missing input 'input_ids'"]),
        ({"input_ids": IDS.astype(np.float32)}, ["i64", "f32"]),
        ({"input_ids": IDS.astype(object)}, ["int64", "object"]),
        ({"input_ids": IDS[0]}, ["[batch, sequence]", "[7]"]),
        ({"input_ids": IDS + 1000}, ["1999 at [0, 0]", "999"]),
        ({"input_ids": np.zeros((1, 129), np.int64)}, ["129", "at most 128"]),
    ],
    ids=lambda value: str(value)[:30].replace("\n", ""),
)
def test_invalid_inputs_have_no_effect(executable, expected, inputs, words):
    with tpc.load(executable.path) as session:
        for _ in range(2):
            with pytest.raises(tpc.TpcError) as error:
                session.run(inputs)
            assert all(word in str(error.value) for word in words) and not error.value.broken
        assert np.array_equal(session.run({"input_ids": IDS})["logits"], expected)
        with pytest.raises(tpc.TpcError, match="no output 'x'.*'logits'"):
            session.run({"input_ids": IDS}, ["x"])
    with pytest.raises(tpc.TpcError, match="closed"):
        session.run({"input_ids": IDS})


class NoArray:
    def __array__(self, *_, **__):
        raise AttributeError("not today")


def masked(hidden):
    return np.ma.array(IDS, mask=np.arange(IDS.size).reshape(IDS.shape) == (0 if hidden else -1))


# Invalid arguments of `run`, which takes arrays by name, and patterns of their error messages.
WRONG_INPUTS = [
    (None, "by name.*NoneType"),
    (IDS, "by name.*ndarray"),
    ([IDS], "by name.*list"),
    ("input_ids", "by name.*str"),
    (5, "by name.*int"),
    (IDS.tolist, "by name"),
    ({1: IDS}, "text, not 1"),
    ({None: IDS}, "text, not None"),
    ({b"input_ids": IDS}, "text, not b'"),
    ({("input_ids",): IDS}, "text, not"),
    ({"input_ids\0": IDS}, "zero byte"),
    ({"\ud800": IDS}, "encoded"),
    ({"": IDS}, "''"),
    *(
        ({"input_ids": value}, words)
        for value, words in (
            (None, "int64.*object"),
            ([[1, None]], "int64.*object"),
            ([[1, 2], [3]], "not an array"),
            ([[1], "a"], "not an array"),
            ("12,7", "int64.*<U4"),
            ([["a", "b"]], "int64.*<U1"),
            (b"12", r"int64.*\|S2"),
            ({"a": 1}, "int64.*object"),
            ({1, 2}, "int64.*object"),
            (iter([1]), "int64.*object"),
            (5, r"\[batch, sequence\]"),
            (np.int64(5), r"\[batch, sequence\]"),
            ([], r"\[batch, sequence\]"),
            ([[1.5, 2.0]], "i64.*f64"),
            (1j, "int64.*complex128"),
            ([[2**70]], "int64.*object"),
            ([[2**63]], "has a number|u64|uint64"),
            ([[True, False]], "True or False"),
            ([[True, 2]], "True or False"),
            (np.array([[True]]), "i64.*bool"),
            (NoArray(), "not an array: not today"),
            (len, "int64.*object"),
            (masked(True), "mask"),
            ([masked(True)[0], masked(True)[1]], "mask"),
            ([[np.ma.masked, 1]], "mask"),
            (np.ma.masked, "mask"),
            (IDS.astype("U"), "int64.*<U"),
            (IDS.astype("M8[s]"), "int64.*datetime64"),
            (np.rec.array([(1, 2)]), "int64.*"),
            (np.zeros((1,) * 40, np.int64), r"\[batch, sequence\]"),
        )
    ),
]


@pytest.mark.parametrize(
    "inputs, words", WRONG_INPUTS, ids=lambda value: ascii(value)[:40].replace("\n", "")
)
def test_invalid_types_of_inputs(executable, inputs, words):
    with tpc.load(executable.path) as session:
        with pytest.raises(tpc.TpcError, match=f"(?s){words}") as error:
            session.run(inputs)
        assert not error.value.broken


def test_masked_arrays_that_hide_nothing(executable, expected):
    with tpc.load(executable.path) as session:
        assert np.array_equal(session.run({"input_ids": masked(False)})["logits"], expected)


@pytest.mark.parametrize(
    "outputs, words",
    [
        ("logits", "list of names.*'logits'"),
        (5, "list of names"),
        ([None], "no output None"),
        ([["logits"]], "no output"),
        ([5], "no output 5"),
        (["logits", "x"], "no output 'x'"),
        (b"logits", "list of names"),
    ],
    ids=repr,
)
def test_outputs_of_any_type(executable, outputs, words):
    with tpc.load(executable.path) as session:
        with pytest.raises(tpc.TpcError, match=words):
            session.run({"input_ids": IDS}, outputs)
        for names in (("logits",), iter(["logits"]), {"logits": 1}, np.array(["logits"])):
            assert list(session.run({"input_ids": IDS}, names)) == ["logits"]
        assert session.run({"input_ids": IDS}, []) == {}


@pytest.mark.parametrize(
    "path, words",
    [
        (None, "NoneType"),
        (5.0, "float"),
        ([], "list"),
        ("a\0b", "zero byte"),
        ("\ud800", "encoded"),
        ("", "."),
        ("/dev/null", "regular file"),
        ("/", "regular file"),
        (b"/no/where", "No such file"),
        (3, "int"),
    ],
    ids=repr,
)
def test_paths_of_any_type(path, words):
    with pytest.raises(tpc.TpcError, match=words):
        tpc.load(path)


def test_pipes_are_rejected(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(tpc.TpcError, match="regular file"):
        tpc.load(tmp_path / "pipe")


@pytest.mark.parametrize(
    "flags, words",
    [
        ({"weights": 5}, "'5'"),
        ({"weights": ["a"]}, "a"),
        ({"weights": "a\0b"}, "zero byte"),
        ({"weights": "\ud800"}, "encoded"),
        ({"weights": b"no/where"}, "no/where"),
        ({"threads": "two"}, "two"),
        ({"threads": 1.5}, "1.5"),
        ({"threads": None, "timeout": []}, "--timeout"),
        ({"threads": {1: 2}}, "1=2"),
        ({"threads": 10**400}, "--threads-per-rank"),
        ({"threads": 10**5000}, "flag"),
        ({"shape": 5}, "--shape"),
        ({"shape": {1: None}}, "--shape"),
        ({"": 1}, "flag"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_flags_of_any_type(executable, flags, words):
    with pytest.raises(tpc.TpcError, match=words):
        tpc.load(executable.path, **flags)


@pytest.mark.parametrize(
    "element, value, words",
    [
        (TensorProto.BOOL, [[1, 0, 2]], "bool.*int64|i64"),
        (TensorProto.BOOL, [[1, 0, 1]], None),
        (TensorProto.BOOL, [[1.0, 0.0]], "f64"),
        (TensorProto.INT8, [[1, 300]], "has a number outside the range of int8"),
        (TensorProto.INT8, [[-128, 127]], None),
        (TensorProto.UINT8, [[-1]], "has a number outside the range of uint8"),
        (TensorProto.FLOAT, [[1e300]], "has a number outside the range of float32"),
        (TensorProto.FLOAT, [[1, 2]], None),
        (TensorProto.FLOAT, [[float("inf"), float("nan")]], None),
        (TensorProto.FLOAT16, [[7e4]], "has a number outside the range of float16"),
        (TensorProto.INT32, [[1.5]], "f64"),
        (TensorProto.FLOAT, [["1.5"]], "<U3"),
        (TensorProto.FLOAT, [[True]], "True or False"),
        (TensorProto.INT32, [[1, True]], "True or False"),
        (TensorProto.BOOL, [[True, False]], None),
    ],
)
def test_lists_keep_their_values(tpcc, tmp_path, element, value, words):
    """A list becomes an array of the input's type if that preserves the values."""
    node = (
        helper.make_node("Not", ["x"], ["y"])
        if element == TensorProto.BOOL
        else helper.make_node("Add", ["x", "x"], ["y"])
    )
    body = helper.make_graph(
        [node],
        "type",
        *([helper.make_tensor_value_info(name, element, ["batch", "n"])] for name in "xy"),
    )
    onnx.save(
        helper.make_model(body, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
        tmp_path / "m.onnx",
    )
    with tpc.load(tpcc.compile(tmp_path / "m.onnx").path) as session:
        if words:
            with pytest.raises(tpc.TpcError, match=words):
                session.run({"x": value})
        else:
            assert session.run({"x": value})["y"].shape == np.shape(value)


@pytest.mark.parametrize(
    "flags, words",
    [
        ({"weights": "no/where"}, ["no/where", "--weights"]),
        ({"max_speed": 3}, ["no flag 'max_speed'"]),
        ({"determinstic": False}, ["'determinstic' (did you mean 'deterministic'?)"]),
        ({"max_speed": None}, ["no flag 'max_speed'"]),
        ({"threads": 0}, ["--threads-per-rank"]),
        ({"bench": True}, ["--bench"]),
        ({"output": "x.npy"}, ["--output"]),
        ({"products": "mkl"}, ["mkl", "onednn"]),
        ({"shape": {"width": 3}}, ["width", "batch"]),
    ],
    ids=lambda value: next(iter(value)),
)
def test_rejected_flags(executable, flags, words):
    with pytest.raises(tpc.TpcError) as error:
        tpc.load(executable.path, **flags)
    assert all(word in str(error.value) for word in words)


def test_invalid_files(tmp_path):
    (tmp_path / "text").write_text("no library")
    for path, words in (
        (tmp_path / "absent", "No such file"),
        (tmp_path / "text", "ELF|short"),
        (sys.executable, "cannot dynamically load|compile it again"),
        (np._core._multiarray_umath.__file__, "not one of tpcc"),
    ):
        with pytest.raises(tpc.TpcError, match=words):
            tpc.load(path)

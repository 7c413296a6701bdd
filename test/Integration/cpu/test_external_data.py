"""External weights: rejected references in untrusted files, and paths that `--weights=` allows."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness import Executable, Grid

W = np.arange(16, dtype=np.float32).reshape(4, 4)
X = np.ones((2, 4), np.float32)


def save(path: Path, *locations: str, inline: bool = False):
    """Writes a model with y = x · w for the weight at each location."""
    tensors = []
    for index, location in enumerate(locations):
        tensor = numpy_helper.from_array(W, f"w{index}")
        if not inline:
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value=location)
        tensors.append(tensor)
    values = ["x", *(f"v{index}" for index in range(len(tensors) - 1)), "y"]
    nodes = [
        helper.make_node("MatMul", [a, t.name], [b]) for a, t, b in zip(values, tensors, values[1:])
    ]
    ports = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b", 4])] for name in ("x", "y")
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(
        helper.make_model(
            helper.make_graph(nodes, "g", *ports, tensors),
            ir_version=8,
            opset_imports=[helper.make_opsetid("", 17)],
        ).SerializeToString()
    )
    return path


@pytest.fixture
def build(tpcc, tmp_path):
    def call(model, *arguments):
        return tpcc.call([model, "-o", tmp_path / "program", *arguments])

    def check(model, *arguments, times=1):
        call(model, *arguments).check()
        program = Executable(tmp_path / "program", Grid(), tmp_path / "scratch")
        np.testing.assert_allclose(
            program.run({"x": X}, outputs=["y"])["y"], X @ np.linalg.matrix_power(W, times)
        )

    check.call = call
    return check


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data").mkdir()
    W.tofile(tmp_path / "data" / "w.bin")
    return tmp_path / "data"


def test_link_out_of_the_folder(build, tmp_path, data):
    model = save(tmp_path / "model" / "m.onnx", "w.bin")
    os.symlink(data / "w.bin", model.parent / "w.bin")
    build.call(model).refused("'w.bin' is a link", str(data / "w.bin"), "--weights=")
    build(model, f"--weights={data}")
    build(model, f"--weights={data / 'w.bin'}")
    # Links in the named folder are not followed either, because they may belong to another user.
    build.call(model, f"--weights={model.parent}").refused(
        "leads out of", f"--weights={data / 'w.bin'}"
    )
    # The folder may be named by a link.
    os.symlink(data, tmp_path / "link")
    build(model, f"--weights={tmp_path / 'link'}")


@pytest.mark.parametrize(
    "location", ["{data}/w.bin", "../data/w.bin", "below/w.bin", "../../elsewhere/w.bin"]
)
def test_paths_out_of_the_folder(build, tmp_path, data, location):
    model = save(tmp_path / "model" / "m.onnx", location.format(data=data))
    if location.startswith("below"):
        output = build.call(model).check().stderr
        assert "does not exist (pass its location with tpcc's --weights=" in output
    else:
        build.call(model).refused("external data file", "--weights=")
    build(model, f"--weights={data}")
    build(model, f"--weights={data / 'w.bin'}")


def test_data_in_a_subfolder(build, tmp_path, data):
    """The path relative to the model's folder takes precedence over the file name."""
    model = save(tmp_path / "model" / "m.onnx", "below/w.bin")
    (data / "below").mkdir()
    (data / "w.bin").rename(data / "below" / "w.bin")
    (data / "w.bin").write_bytes(bytes(64))
    build(model, f"--weights={data}")


def test_several_files(build, tmp_path, data):
    model = save(tmp_path / "model" / "m.onnx", "w.bin", "v.bin")
    W.tofile(data / "v.bin")
    build(model, f"--weights={data}", times=2)
    build.call(model, f"--weights={data / 'w.bin'}").refused(
        "'v.bin'", "'w.bin'", "folder of both"
    )


@pytest.mark.parametrize(
    "weights, words",
    [
        ("{data}/absent", ["No such file"]),
        ("{data}/empty", ["no data file 'w.bin'"]),
        ("/dev/null", ["neither a file nor a folder"]),
        ("random:1", ["--weights=random:1", "executable"]),
        ("", ["--weights is empty"]),
    ],
)
def test_missing_files(build, tmp_path, data, weights, words):
    model = save(tmp_path / "model" / "m.onnx", "w.bin")
    (data / "empty").mkdir()
    build.call(model, f"--weights={weights.format(data=data)}").refused(*words)


def test_no_external_data(build, tmp_path, data):
    model = save(tmp_path / "model" / "m.onnx", "-", inline=True)
    build.call(model, f"--weights={data}").refused("no external data")


def test_weights_are_not_overwritten(tpcc, tmp_path, data):
    model = save(tmp_path / "model" / "m.onnx", "w.bin")
    tpcc.call([model, "-o", data / "w.bin", f"--weights={data}"]).refused("w.bin")
    np.testing.assert_array_equal(np.fromfile(data / "w.bin", np.float32), W.ravel())


def test_digests_are_optional(tpcc, tmp_path, data):
    model = save(tmp_path / "model" / "m.onnx", "w.bin")
    np.save(tmp_path / "x.npy", X)
    for flags, weights, words in (
        ([], [], ["only samples", "tpcc --digest-weights"]),
        (["--digest-weights"], [], []),
        (["--digest-weights"], ["--weights=random:1"], ["compares nothing", "random"]),
    ):
        program = tmp_path / "program"
        tpcc.call([model, "-o", program, f"--weights={data}", *flags]).check()
        result = (
            Executable(program, Grid(), tmp_path)
            .call([tmp_path / "x.npy", "--verify-weights", *weights])
            .check()
        )
        assert all(word in result.stderr for word in words) and bool(result.stderr) == bool(
            words
        ), str(result)

"""Weight files that change between the check of their digests and the end of loading.

A preloaded library (meddle.c) changes the file when the process maps it, so runs are deterministic.
"""

import os
import sys
import threading

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import preload
from harness import TOP, run, sanitized
from test_external_data import W, X, save

pytestmark = pytest.mark.skipif(
    sanitized(), reason="sanitizers: their libraries come before any other that is preloaded"
)

OTHER = W[::-1].copy()
CHANGED = "was changed while it was loaded"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return preload.build("meddle", tmp_path_factory.mktemp("meddle"))


@pytest.fixture
def files(tmp_path):
    """w.bin and v.bin next to the model, and the bytes written over one of them."""
    W.tofile(tmp_path / "w.bin")
    W.tofile(tmp_path / "v.bin")
    OTHER.tofile(tmp_path / "other")
    np.save(tmp_path / "x.npy", X)
    return tmp_path


@pytest.fixture(scope="module")
def compiled(tpcc, tmp_path_factory):
    """A program with two weight files; each test has its own copies."""
    folder = tmp_path_factory.mktemp("two")
    for name in ("w.bin", "v.bin"):
        W.tofile(folder / name)
    save(folder / "m.onnx", "w.bin", "v.bin")
    return {grid: tpcc.compile(folder / "m.onnx", grid) for grid in ("tp1", "tp2")}


def call(program, files, *arguments, **options):
    return program.call(
        ["--input", f"x={files / 'x.npy'}", "--output", f"y={files / 'y.npy'}", *arguments],
        **options,
    )


# Changes of the file, and their messages, or None if the open file does not change.
ACTIONS = [
    ("rewrite", CHANGED),
    ("restore", CHANGED),
    ("empty", CHANGED),
    ("grow", CHANGED),
    ("cut", "became shorter"),
    ("map", CHANGED),
    ("replace", None),
    ("remove", None),
    ("link", None),
    ("read", None),
]


@pytest.mark.parametrize("action, words", ACTIONS)
@pytest.mark.parametrize("file", ["w.bin", "v.bin"])
def test_changes_while_weights_load(compiled, library, files, action, words, file):
    environment = preload.meddle(library, files / file, action, files / "other")
    result = call(compiled["tp1"], files, f"--weights={files}", env=environment)
    if words:
        result.refused(str(files / file), words)
        assert not (files / "y.npy").exists()
    else:
        assert not result.check().stderr
        np.testing.assert_allclose(np.load(files / "y.npy"), X @ W @ W)


@pytest.mark.parametrize("transport", ["threads", "mpi"])
def test_changes_after_the_first_rank(compiled, library, files, transport, request):
    """The second of two ranks loads different bytes than the first. As processes, each rank detects
    the change itself.
    """
    if transport == "mpi":
        request.getfixturevalue("mpi")
    environment = preload.meddle(
        library,
        files / "w.bin",
        "rewrite",
        files / "other",
        turn=2 if transport == "threads" else 1,
    )
    result = call(
        compiled["tp2"], files, f"--weights={files}", env=environment, transport=transport
    )
    result.refused(CHANGED, "w.bin", *(["rank "] if transport == "mpi" else []))
    assert not (files / "y.npy").exists()


def test_a_writer_without_time_stamps(tpcc, library, tmp_path):
    """A write through a mapping does not change the time stamp. Samples cover the ends of tensors,
    --verify-weights all bytes.
    """
    large = np.arange(1 << 14, dtype=np.float32).reshape(4, -1)
    other = large.copy()
    other[2, 7] += 1
    large.tofile(tmp_path / "w.bin")
    other.tofile(tmp_path / "other")
    np.save(tmp_path / "x.npy", X)
    graph = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[b, 4] x) => (float[b, 4096] y)
                                       <float[4, 4096] w> { y = MatMul(x, w) }"""
    )
    weight = numpy_helper.from_array(large, "w")
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="w.bin")
    del graph.graph.initializer[:]
    graph.graph.initializer.append(weight)
    (tmp_path / "m.onnx").write_bytes(graph.SerializeToString())
    program = tpcc.compile(tmp_path / "m.onnx", "tp1", "--digest-weights")
    environment = preload.meddle(library, tmp_path / "w.bin", "map", tmp_path / "other")
    call(program, tmp_path, "--verify-weights", env=environment).refused(CHANGED, "w.bin")


def test_changes_while_a_session_opens(compiled, library, files):
    text = f"import tpc; tpc.load({str(compiled['tp1'].path)!r}, weights={str(files)!r})"
    environment = preload.meddle(library, files / "w.bin", "rewrite", files / "other")
    result = run(
        [sys.executable, "-c", text], env={"PYTHONPATH": str(TOP / "python"), **environment}
    )
    result.refused("TpcError", CHANGED, str(files / "w.bin"))


def test_files_written_just_before(compiled, files):
    """A file whose time stamps are as recent as their resolution does not count as changed."""
    for _ in range(5):
        W.tofile(files / "w.bin")
        assert not call(compiled["tp1"], files, f"--weights={files}").check().stderr


@pytest.mark.parametrize("emit", ["exe", "staged", "onnx-sharded"])
@pytest.mark.parametrize(
    "file, action",
    [
        ("w.bin", "rewrite"),
        ("w.bin", "replace"),
        ("m.onnx", "replace"),
        ("w.bin", "remove"),
        ("w.bin", "read"),
    ],
)
def test_changes_while_a_program_is_compiled(tpcc, files, emit, file, action):
    """The compiler reads annotations after the model, and digests weights at the end, so
    annotations from a pipe pause it in between.
    """
    save(files / "m.onnx", "w.bin", "v.bin")
    os.mkfifo(files / "pipe")

    def meanwhile():
        with open(files / "pipe", "w"):
            bytes_before = (files / file).read_bytes()
            if action == "rewrite":
                with open(files / file, "r+b") as opened:
                    opened.write(OTHER.tobytes())
            elif action == "replace":
                (files / "new").write_bytes(bytes_before)
                (files / "new").rename(files / file)
            elif action == "remove":
                (files / file).unlink()

    thread = threading.Thread(target=meanwhile)
    thread.start()
    result = tpcc.call(
        [files / "m.onnx", f"--annotations={files / 'pipe'}", f"--emit={emit}", "-o", files / "out"]
    )
    thread.join()
    if action == "read":
        result.check()
    else:
        result.refused("changed during compilation", str(files / file))
        assert not (files / "out").exists()


def test_changes_before_ranks_start_again(tpcc, tmp_path):
    """A broken step ends the ranks, and the next call loads the weights again; these must equal the
    previous ones. The compile-time digest cannot detect a change if no weights existed at compile
    time.
    """
    import tpc

    graph = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (int64[b, s] ids) => (float[b, s, 4] y)
                                       <float[4, 4] table> {
            one = Constant<value_int=1>() sum = CumSum(ids, one) y = Gather(table, sum) }"""
    )
    weight = numpy_helper.from_array(W, "table")
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="w.bin")
    del graph.graph.initializer[:]
    graph.graph.initializer.append(weight)
    (tmp_path / "m.onnx").write_bytes(graph.SerializeToString())
    tpcc.call([tmp_path / "m.onnx", "-o", tmp_path / "program"]).check()
    W.tofile(tmp_path / "w.bin")
    good, broken = {"ids": np.array([[1, 1]])}, {"ids": np.array([[3, 3]])}

    def change(action, words=""):
        with pytest.raises(tpc.TpcError, match="6 of 4"):
            session.run(broken)
        action()
        if words:
            with pytest.raises(tpc.TpcError, match=words):
                session.run(good)
            W.tofile(tmp_path / "w.bin")
        np.testing.assert_array_equal(session.run(good)["y"], W[[[1, 2]]])

    with tpc.load(tmp_path / "program") as session:
        change(lambda: (tmp_path / "w.bin").touch())
        change(lambda: OTHER.tofile(tmp_path / "w.bin"), "not those that were loaded")
        change(lambda: (tmp_path / "w.bin").unlink(), "no readable weight file")
        change(lambda: None)

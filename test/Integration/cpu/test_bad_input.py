"""Invalid input at run time: executables report an error, without crash, hang or output."""

import os
import re
import shutil

import numpy as np
import onnx
import pytest

from harness import Executable, Grid, run
from models import COMMITTED
from tpc import onnxfile
from tpc.reference import TOLERANCE, difference

ODD = COMMITTED["gpt2-odd-opset20"]
IDS = np.arange(14, dtype=np.int64).reshape(2, 7)
# Errors must reach every rank of every stage.
GRID = Grid(tp=2, pp=2)


@pytest.fixture
def odd(tpcc):
    return tpcc.compile(ODD.path, GRID)


@pytest.fixture
def refuse(odd, tmp_path):
    def check(ids, *words, transport="threads", name="input_ids", arguments=()):
        path = tmp_path / "in.npy"
        if isinstance(ids, bytes):
            path.write_bytes(ids)
        elif ids is not None:
            np.save(path, ids)
        out = tmp_path / "out.npy"
        result = odd.call(
            ["--input", f"{name}={path}", "--output", f"logits={out}", *arguments],
            transport,
            timeout=60,
        )
        result.refused(*words)
        assert sorted(entry.name for entry in tmp_path.iterdir()) == (
            ["in.npy"] if path.exists() else []
        )

    return check


@pytest.mark.parametrize(
    "bad,transport",
    [(1009, "mpi"), *((bad, "threads") for bad in (1009, -1010, 2**31, 2**62, -(2**63)))],
)
def test_ids_outside_the_vocabulary(refuse, request, bad, transport):
    if transport == "mpi":
        request.getfixturevalue("mpi")
    ids = IDS.copy()
    ids[1, 6] = bad
    refuse(ids, "input_ids", str(bad), "1009", transport=transport)


def test_too_long_for_the_positions(refuse):
    refuse(np.zeros((1, 65), np.int64), "64", "65")


@pytest.mark.parametrize("dtype", ["float32", "float64", "bool"])
def test_wrong_type(refuse, dtype):
    refuse(IDS.astype(dtype), "input_ids", "i64")


@pytest.mark.parametrize("dtype", ["complex64", ">i8", "S8", "datetime64[s]"])
def test_unsupported_types(refuse, dtype):
    refuse(IDS.astype(dtype), "in.npy")


def test_narrow_integers_are_widened(odd):
    ids = ODD.inputs(2, 7)["input_ids"]
    wide = odd.run({"input_ids": ids})["logits"]
    np.testing.assert_array_equal(odd.run({"input_ids": ids.astype(np.int32)})["logits"], wide)


@pytest.mark.parametrize("shape", [(14,), (1, 2, 7), ()], ids=str)
def test_wrong_rank(refuse, shape):
    refuse(np.zeros(shape, np.int64), "input_ids")


def test_fortran_order_is_read_or_refused(odd, tmp_path):
    np.save(tmp_path / "in.npy", np.asfortranarray(IDS))
    out = tmp_path / "out.npy"
    result = odd.call(["--input", f"input_ids={tmp_path / 'in.npy'}", "--output", f"logits={out}"])
    if result.returncode == 0:
        assert difference(np.load(out), ODD.expected({"input_ids": IDS})).relative <= TOLERANCE
    else:
        result.refused("input_ids")


def npy(ids=IDS):
    import io

    stream = io.BytesIO()
    np.save(stream, ids)
    return stream.getvalue()


HEADER = npy()[:128]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        npy()[:40],
        npy()[:-1],
        npy()[:128],
        npy()[:6],
        HEADER.replace(b"(2, 7)", b"(2,-7)") + npy()[128:],
        HEADER.replace(b"(2, 7)", b"(9, 7)") + npy()[128:],
        HEADER.replace(b"'<i8'", b"'|O8'") + npy()[128:],
        HEADER.replace(b"(2, 7), }           ", b"(99999999999999, 7),}") + npy()[128:],
        HEADER.replace(b"descr", b"dscr ") + npy()[128:],
        b"\x93NUMPY\x01\x00\xff\xff" + b" " * 100,
        b"\x93NUMPY\x09\x00" + npy()[8:],
        b"PK\x03\x04" + b"\0" * 100,
    ],
    ids=[
        "empty",
        "garbage",
        "cut-header",
        "cut-data",
        "no-data",
        "magic",
        "negative",
        "more-rows",
        "objects",
        "huge",
        "no-descr",
        "long-header",
        "version",
        "npz",
    ],
)
def test_invalid_array_files(refuse, data):
    assert data != npy()
    refuse(data, "in.npy")


def test_missing_file(refuse):
    refuse(None, "in.npy")


def test_missing_input(odd, tmp_path):
    odd.call(["--output", f"logits={tmp_path / 'out.npy'}"]).refused("input_ids")
    assert not list(tmp_path.iterdir())


def test_unknown_names(odd, refuse, tmp_path):
    refuse(IDS, "tokens", "input_ids", name="tokens")
    np.save(tmp_path / "in.npy", IDS)
    odd.call(
        [
            "--input",
            f"input_ids={tmp_path / 'in.npy'}",
            "--output",
            f"scores={tmp_path / 'out.npy'}",
        ]
    ).refused("scores", "logits")
    assert not (tmp_path / "out.npy").exists()


def test_duplicate_input(odd, tmp_path):
    np.save(tmp_path / "in.npy", IDS)
    flag = f"input_ids={tmp_path / 'in.npy'}"
    odd.call(
        ["--input", flag, "--input", flag, "--output", f"logits={tmp_path / 'out.npy'}"]
    ).refused("input_ids")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--no-such-flag"],
        ["--threads-per-rank", "zero"],
        ["--threads-per-rank", "-1"],
        ["--weights=random:x"],
        ["--input"],
        ["--output", "logits"],
        ["--bench"],
        ["--bench", "--shape", "batch=1"],
        ["--bench", "--shape", "batch=1,sequence=-4"],
        ["--bench", "--shape", "batch=1,sequence=65"],
    ],
    ids=" ".join,
)
def test_malformed_arguments(odd, arguments):
    odd.call(arguments, timeout=60).refused()


@pytest.mark.parametrize("transport", ["threads", "mpi"])
def test_unwritable_output(odd, request, tmp_path, transport):
    if transport == "mpi":
        request.getfixturevalue("mpi")
    np.save(tmp_path / "in.npy", IDS)
    for path in (tmp_path / "no" / "folder" / "out.npy", "/proc/out.npy", tmp_path):
        odd.call(
            ["--input", f"input_ids={tmp_path / 'in.npy'}", "--output", f"logits={path}"],
            transport,
            timeout=60,
        ).refused(str(path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["in.npy"]


def test_dangling_links(odd, tmp_path):
    """An output that is a symbolic link stays a link. Its target is written, even if it does not
    exist.
    """
    np.save(tmp_path / "in.npy", IDS)
    (tmp_path / "folder").mkdir()
    (tmp_path / "second").symlink_to("folder/new.npy")
    (tmp_path / "first").symlink_to(tmp_path / "second")
    odd.call([tmp_path / "in.npy", "--output", tmp_path / "first"]).check()
    assert (tmp_path / "first").is_symlink() and (tmp_path / "second").is_symlink()
    assert np.load(tmp_path / "folder" / "new.npy").shape == (2, 7, 1009)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("no/folder/new.npy")
    for link in ("loop", "nowhere"):
        odd.call([tmp_path / "in.npy", "--output", tmp_path / link]).refused("cannot write", link)
        assert (tmp_path / link).is_symlink()


def test_closed_standard_output(odd, tmp_path):
    """If standard output is closed, /dev/stdout is a dangling link, and no file may get its
    descriptor.
    """
    np.save(tmp_path / "in.npy", IDS)
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    before = ODD.path.read_bytes()
    for arguments in ("", "--output stdout", "--describe", "--output stdout --verify-weights"):
        files = "" if "describe" in arguments else "in.npy"
        result = run(["bash", "-c", f"{odd.path} {files} {arguments} >&-"], cwd=tmp_path)
        assert "stdout" in arguments or result.refused("standard output")
        assert (tmp_path / "stdout").is_symlink() and len(list(tmp_path.iterdir())) == 2
    assert ODD.path.read_bytes() == before


def test_inconsistent_inputs(tpcc, tmp_path):
    model = COMMITTED["gpt2-odd-nopast"]
    executable = tpcc.compile(model.path, "tp2")
    inputs = model.inputs(2, 7)
    inputs["attention_mask"] = inputs["attention_mask"][:, :6]
    flags = []
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
        flags += ["--input", f"{name}={tmp_path / name}.npy"]
    out = tmp_path / "out.npy"
    executable.call([*flags, "--output", f"logits={out}"]).refused("attention_mask", "6", "7")
    assert not out.exists()


def test_positions_outside_the_table(tpcc, tmp_path):
    model = COMMITTED["gpt2-odd-nopast"]
    executable = tpcc.compile(model.path, "tp2")
    inputs = model.inputs(2, 7)
    inputs["position_ids"][1, 2] = 64
    flags = []
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
        flags += ["--input", f"{name}={tmp_path / name}.npy"]
    executable.call([*flags, "--output", f"logits={tmp_path / 'out.npy'}"]).refused(
        "position_ids", "64"
    )


@pytest.mark.parametrize("ranks", [1, 3, 5])
def test_wrong_number_of_ranks_prints_the_command(odd, mpi, ranks):
    result = run(
        (
            ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", ranks, odd.path, "--describe"]
            if ranks == 1
            else [
                "mpirun",
                "--oversubscribe",
                "--bind-to",
                "none",
                "-n",
                ranks,
                odd.path,
                "--bench",
                "--shape",
                "batch=1,sequence=1",
            ]
        ),
        timeout=60,
    )
    if ranks == 1 and result.returncode == 0:
        return  # --describe needs no other ranks.
    result.refused("mpirun")
    assert re.search(r"-n\s*4", result.stderr), result


# ---- weights ----


@pytest.fixture
def moved(tpcc, tmp_path):
    """An executable whose model, with external data, can be removed and changed."""
    folder = tmp_path / "model"
    folder.mkdir()
    onnxfile.save(onnx.load(ODD.path), folder / "m.onnx", external_data=True)
    made = tpcc.compile(folder / "m.onnx", GRID)
    return Executable(made.path, GRID, tmp_path / "scratch"), folder


def test_weights_next_to_the_executable_and_by_flag(moved, tmp_path):
    executable, folder = moved
    expected = ODD.expected({"input_ids": IDS})
    assert difference(executable.run({"input_ids": IDS})["logits"], expected).relative <= TOLERANCE
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)
    executable.call(["--bench", "--shape", "batch=1,sequence=1"], timeout=60).refused("m.onnx.data")
    flag = f"--weights={elsewhere / 'm.onnx.data'}"
    assert (
        difference(
            executable.run({"input_ids": IDS}, arguments=[flag])["logits"], expected
        ).relative
        <= TOLERANCE
    )
    beside = tmp_path / "beside"
    beside.mkdir()
    shutil.copy2(executable.path, beside / "program")
    shutil.copyfile(elsewhere / "m.onnx.data", beside / "m.onnx.data")
    copy = Executable(beside / "program", GRID, tmp_path / "scratch")
    assert difference(copy.run({"input_ids": IDS})["logits"], expected).relative <= TOLERANCE


def test_truncated_weights(moved):
    executable, folder = moved
    os.truncate(folder / "m.onnx.data", 1000)
    executable.call(["--bench", "--shape", "batch=1,sequence=1"], timeout=60).refused("m.onnx.data")


def test_changed_weights(moved):
    """Weights of another model are rejected by their sizes and samples, which the manifest
    contains.
    """
    executable, folder = moved
    data = bytearray((folder / "m.onnx.data").read_bytes())
    data[:64] = b"\x55" * 64
    (folder / "m.onnx.data").write_bytes(data)
    executable.call(["--bench", "--shape", "batch=1,sequence=1"], timeout=60).refused("m.onnx.data")


def test_random_weights_do_not_depend_on_the_split(tpcc):
    arguments = ["--weights=random:5"]
    results = [
        tpcc.compile(ODD.path, grid).run({"input_ids": IDS}, arguments=arguments)["logits"]
        for grid in (Grid(), Grid(tp=2), Grid(tp=3, pp=2, sp=True))
    ]
    assert np.isfinite(results[0]).all() and results[0].std() > 0.01
    for other in results[1:]:
        assert difference(other, results[0]).relative <= TOLERANCE

"""Atomic outputs of tools (tpc/staged_file.h): files appear complete, and a kill leaves none.

No open descriptor can write to a finished file. A preloaded library (staging.c) sets the moments.
"""

import os
import signal

import numpy as np
import pytest

import preload
from harness import run, sanitized, tool
from models import COMMITTED

pytestmark = pytest.mark.skipif(
    sanitized(), reason="sanitizers: their libraries come before any other that is preloaded"
)

MODEL = COMMITTED["gpt2-mlp"].path
SHAPE = ["--shape", "batch=1,sequence=2"]
WRITERS = {
    "executable": [tool("tpcc"), MODEL, "-o", "FILE"],
    "library": [tool("tpcc"), MODEL, "--emit=lib", "-o", "FILE"],
    "object": [tool("tpcc"), MODEL, "--emit=obj", "-o", "FILE"],
    "text": [tool("tpcc"), MODEL, "--emit=staged", "-o", "FILE"],
    "onnx": [tool("tpcc"), MODEL, "--megatron-shard=tp2", "--emit=onnx-sharded", "-o", "FILE"],
    "report": [tool("tpcc"), MODEL, "--report=FILE", *SHAPE],
    "certificate": [tool("tpcc"), MODEL, "--certificate=FILE"],
    "tpc-opt": [tool("tpc-opt"), "x.mlir", "-o", "FILE"],
    "tpc-translate": [tool("tpc-translate"), "--import-onnx", MODEL, "-o=FILE"],
    "output": ["PROGRAM", "x.npy", "--output", "output=FILE"],
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return preload.build("staging", tmp_path_factory.mktemp("staging"))


@pytest.fixture
def write(tpcc, library, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((1, 2, 40), np.float32))
    (tmp_path / "x.mlir").write_text("func.func private @f()")
    (tmp_path / "out").mkdir()

    def write(writer, name="file", **env):
        program = tpcc.compile(MODEL).path if "PROGRAM" in WRITERS[writer] else ""
        command = [
            str(word).replace("FILE", str(tmp_path / "out" / name)).replace("PROGRAM", str(program))
            for word in WRITERS[writer]
        ]
        return run(command, env={"LD_PRELOAD": str(library), **env}, cwd=tmp_path)

    return write


@pytest.mark.parametrize("named", [{}, {"STAGING_NAMED": "1"}], ids=["nameless", "named"])
@pytest.mark.parametrize("writer", WRITERS)
def test_finished_files_have_no_writers(write, tmp_path, writer, named):
    out = tmp_path / "out"
    write(writer, **named).check()
    first = (out / "file").read_bytes()
    (out / "file").write_bytes(b"old")
    (out / "file").chmod(0o600)
    (out / "link").symlink_to("file")
    write(writer, "link", **named).check()
    assert len((out / "file").read_bytes()) == len(first) and (out / "link").is_symlink()
    assert sorted(path.name for path in out.iterdir()) == ["file", "link"]
    assert (
        os.access(out / "file", os.X_OK) == (writer == "executable")
        and (out / "file").stat().st_mode & 0o777 & ~0o755 == 0
    )


@pytest.mark.parametrize("named", [{}, {"STAGING_NAMED": "1"}], ids=["nameless", "named"])
@pytest.mark.parametrize("moment", ["open", "write", "rename"])
@pytest.mark.parametrize("writer", ["executable", "text", "output"])
def test_killed_processes_leave_no_files(write, tmp_path, writer, moment, named):
    out = tmp_path / "out"
    (out / "file").write_bytes(b"old")
    ended = write(writer, STAGING_KILL=moment, **named)
    assert ended.returncode == -signal.SIGKILL, ended
    assert (out / "file").read_bytes() == b"old"
    left = {path.name for path in out.iterdir()} - {"file"}
    # A leftover file with a name is removed by the next process that writes to the folder.
    assert len(left) == (1 if named or moment == "rename" else 0), left
    (out / ".tpc-notes").write_text("not one of these")
    write(writer, **named).check()
    assert {path.name for path in out.iterdir()} == {"file", ".tpc-notes"} and (
        out / "file"
    ).read_bytes() != b"old"


def test_files_of_running_processes_are_kept(write, tmp_path):
    import fcntl

    with open(tmp_path / "out" / ".tpc-1-2", "w") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        write("text").check()
        assert (tmp_path / "out" / ".tpc-1-2").exists()
    write("text").check()
    assert not (tmp_path / "out" / ".tpc-1-2").exists()


def test_long_names(write, tmp_path):
    """File names have at most 255 bytes; temporary files have short names."""
    for writer in ("executable", "output"):
        for named in ({}, {"STAGING_NAMED": "1"}):
            write(writer, "n" * 255, **named).check()

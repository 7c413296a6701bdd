"""`pip install .` finds Clang and the onnx package where no virtual environment is active."""

import os
import re
import shutil
import sys

import pytest

from harness import TOP, run

STORIES = TOP / "test" / "Models" / "stories" / "stories.onnx"

NOT_COPIED = {".git", ".venv", "build"}


@pytest.fixture
def source(tmp_path):
    """Returns a folder of links to the project's files, without a build or virtual environment."""
    folder = tmp_path / "source"
    folder.mkdir()
    for entry in TOP.iterdir():
        if entry.name not in NOT_COPIED:
            (folder / entry.name).symlink_to(entry)
    return folder


def test_configuration_by_pip(source, tmp_path):
    """scikit-build-core passes the Python that has the build requirements, and sets CC and CXX to
    the compiler that built Python, which is usually GCC."""
    result = run(
        ["cmake", "-G", "Ninja", "-S", source, "-B", tmp_path / "build"]
        + ["-DSKBUILD=2", f"-DPython3_EXECUTABLE={sys.executable}"],
        env={"CC": "gcc", "CXX": "g++", "VIRTUAL_ENV": ""},
    )
    assert result.returncode == 0, result.stderr
    cache = (tmp_path / "build" / "CMakeCache.txt").read_text()
    assert f"TPC_PYTHON:FILEPATH={os.path.normpath(sys.executable)}" in cache
    assert re.search("CMAKE_CXX_COMPILER:[A-Z]+=.*/clang", cache)


def test_other_compilers_are_refused(source, tmp_path):
    result = run(
        ["cmake", "-G", "Ninja", "-S", source, "-B", tmp_path / "build"]
        + [f"-DTPC_PYTHON={sys.executable}"],
        env={"CC": "gcc", "CXX": "g++"},
    )
    assert result.returncode != 0
    assert "tpc is built with Clang" in result.stderr and "unset CXX" in result.stderr


@pytest.mark.long
def test_wheel(source, tmp_path):
    """The wheel compiles and generates in an empty environment without LLVM's packages on PATH."""
    for entry in source.iterdir():
        if entry.is_symlink() and entry.is_dir():
            target = entry.resolve()
            entry.unlink()
            shutil.copytree(target, entry, symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    for command in (
        [sys.executable, "-m", "venv", tmp_path / "venv"],
        [python, "-m", "pip", "install", f"{source}[text]"],
    ):
        result = run(command, env={"VIRTUAL_ENV": ""}, cwd=tmp_path, timeout=3600)
        assert result.returncode == 0, result.stderr
    program = (
        "import tpc; model = tpc.compile(r'%s', shard='tp2', generate=True, cache=False); "
        "print(model.generate('Once upon a time', max_new_tokens=8))" % STORIES
    )
    environment = {"PATH": f"{python.parent}{os.pathsep}/usr/bin:/bin", "PYTHONPATH": ""}
    result = run([python, "-c", program], env=environment, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.split()) > 3

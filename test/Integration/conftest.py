import fcntl
import os
import shutil
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "python"), str(Path(__file__).resolve().parent)]

import harness  # noqa: E402
from models import CORPUS  # noqa: E402

BIN = harness.BUILD / "bin"

# Where the suite is meant to run, something missing is a failure. Elsewhere it is a reason to skip.
STRICT = bool(os.environ.get("CI") or os.environ.get("TPC_BUILD"))


def absent(what: str):
    (pytest.fail if STRICT else pytest.skip)(what)


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="also run the tests marked long")
    parser.addoption("--random-pairs", type=int, metavar="N",
                     help="random graphs and grids to try (default: 50, with --long 500)")
    parser.addoption("--random-from", type=int, default=0, metavar="SEED", help="the first of their seeds (default: 0)")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--long"):
        return
    skip = pytest.mark.skip(reason="part of the long run: pytest --long")
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(skip)


@pytest.fixture
def corpus():
    if not CORPUS.is_dir():
        pytest.skip("the optional corpus of ONNX files is absent (set TPC_CORPUS)")
    return CORPUS


@pytest.fixture(scope="session")
def tpcc(tmp_path_factory):
    """The compiler. Compilations are shared between the tests of a session."""
    if not harness.tool("tpcc").exists():
        absent(f"{harness.tool('tpcc')} is not built")
    return harness.Compiler(tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="session")
def mpi():
    if not shutil.which("mpirun"):
        absent("mpirun is not installed")
    return "mpi"


@pytest.fixture(scope="session")
def model_124m(tmp_path_factory):
    """GPT-2 124M with its seeded weights, written once: they stay in the build directory."""
    from tpc import weights

    if not harness.BUILD.is_dir():
        absent(f"{harness.BUILD} does not exist")
    directory = harness.BUILD / "models"
    source = TOP / "test" / "Models" / "gpt2-124m.onnx"
    copy, data = directory / source.name, directory / f"{source.name}.data"
    directory.mkdir(exist_ok=True)
    # Files of tests run side by side.
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (data.exists() and copy.exists() and copy.read_bytes() == source.read_bytes()):
            weights.write_weights(source, directory)
    return copy

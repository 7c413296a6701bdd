import os
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
# Where the tools are (test/run.py sets it), and the optional real ONNX files that nobody here made.
BIN = Path(os.environ.get("TPC_BUILD", TOP / "build")) / "bin"
CORPUS = Path(os.environ.get("TPC_CORPUS", TOP.parent / "shared" / "corpus"))
sys.path[:0] = [str(TOP / "python"), str(Path(__file__).resolve().parent)]


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="also run the tests marked long")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--long"):
        return
    skip = pytest.mark.skip(reason="part of the long run: pytest --long")
    for item in items:
        if "long" in item.keywords:
            item.add_marker(skip)


@pytest.fixture
def corpus():
    if not CORPUS.is_dir():
        pytest.skip("the optional corpus of ONNX files is absent (set TPC_CORPUS)")
    return CORPUS

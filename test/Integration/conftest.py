import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
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

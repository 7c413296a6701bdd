"""Fixtures for tests of programs that are loaded into a process."""

import pytest

from models import COMMITTED

TINY, PADDED = COMMITTED["gpt2-tiny"], COMMITTED["gpt2-tiny-nopast"]
IDS = TINY.inputs(2, 7)["input_ids"]


@pytest.fixture(scope="module")
def executable(tpcc):
    return tpcc.compile(TINY.path, "tp2,pp2")


@pytest.fixture(scope="module")
def library(tpcc, tmp_path_factory):
    path = tmp_path_factory.mktemp("library") / "libtiny.so"
    tpcc.call([TINY.path, "--megatron-shard=tp2", "--emit=lib", "-o", path]).check()
    return path


@pytest.fixture(scope="module")
def expected(executable):
    return executable.run({"input_ids": IDS})["logits"]

"""Compiled GPU programs with --generate, for tests on simulated devices."""

import dataclasses

import pytest

from generation import CAUSAL, expected
from simulator import FLAGS, environment

MODEL = CAUSAL["gpt2-tiny"]
PROMPTS = [one["prompt"] for one in expected()[MODEL.name]]


@pytest.fixture(scope="module", autouse=True)
def no_assembler():
    """Simulated devices accept no machine code, so none is generated."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_HOME", "/nonexistent")
        yield


def compiled(tpcc, path, grid, *arguments, **env):
    """Compiles a program for GPUs that runs on the simulated ones."""
    made = tpcc.compile(path, grid, *(arguments or ["--generate"]), *FLAGS)
    return dataclasses.replace(made, environment=environment(**env))

"""Seeded faults in merged results and fused matmuls of GPU programs.

tpc-verify-buffers or tpc-verify-lowered rejects each.
"""

import functools

import pytest

import harness
import mutants
from models import MODELS
from simulator import FLAGS

# Kernels and attention read columns of merged results.
SAMPLE = ("gpt2-tiny-nopast", "tp2", "--generate")
# Norms, matmuls and activations are fused.
FUSED = ("llama-dynamo", "tp1", "--generate")
PROGRAMS = [
    SAMPLE,
    FUSED,
    ("llama-dynamo", "tp2", "--generate"),
    ("llama-past", "tp2,pp2,mb2"),
    ("llama-dynamo", "tp3", "--generate"),
    ("phi3-past", "tp2", "--generate"),
    ("gpt2-odd-opset20", "tp2,dp2,sp"),
    ("gemma2-past", "tp2"),
]


def kinds() -> list[str]:
    return mutants.kinds("columns-", "fused-")


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Returns a folder with the program at each level."""

    @functools.cache
    def make(name, grid, *flags):
        folder = tmp_path_factory.mktemp("columns")
        for level in ("model", "staged", "buffers"):
            harness.run(
                [
                    harness.tool("tpcc"),
                    MODELS / f"{name}.onnx",
                    f"--megatron-shard={grid}",
                    *flags,
                    *FLAGS,
                    f"--emit={level}",
                    "-o",
                    folder / f"{level}.mlir",
                ]
            ).check()
        assert "tpc_buffer.columns" in (folder / "buffers.mlir").read_text()
        mutants.check_unchanged(folder, "buffers")
        return folder

    return make


def run(programs, cases, name):
    folders = {case[:-2]: programs(*case[:-2]) for case in cases}
    table = mutants.Table(kinds())
    table.judge(
        lambda case: mutants.judge(folders[case[:-2]], "buffers", *case[-2:]),
        cases,
        lambda case: ("buffers", case[-2], case),
    )
    return table.report(name)


def test_sample(programs):
    cases = [
        (*(FUSED if kind.startswith("fused-") else SAMPLE), kind, seed)
        for seed, kind in enumerate(kinds())
    ]
    table = run(programs, cases, "sample_of_columns")
    assert table.mutants() == table.refused() == len(cases)
    assert table.by("buffers") >= 6 and table.by("lowered") >= 6


@pytest.mark.long
def test_all(programs):
    cases = [
        (*program, kind, 37 * seed)
        for program in PROGRAMS
        for kind in kinds()
        for seed in range(4)
    ]
    table = run(programs, cases, "columns")
    assert table.mutants() == table.refused() >= 200

"""Seeded faults in quantized weights: a verifier rejects each."""

import functools
from dataclasses import replace

import onnx
import pytest

import harness
import mutants
from genai_files import GenAi
from quantized_files import Blocks, in_blocks, linear

# Keys and values have the same shape, as have gate and up.
SPEC = GenAi(layers=1, hidden=32, heads=4, kv_heads=2, size=16, inner=64, packed=False)
PROGRAMS = {
    "packed": (SPEC, Blocks(zeros="packed", bias=True), []),
    "symmetric": (SPEC, Blocks(bits=8), []),
    "float": (SPEC, Blocks(zeros="float"), []),
    "column": (SPEC, "column", []),
    "half": (replace(SPEC, half=True), Blocks(zeros="packed"), []),
    "compiled": (SPEC, None, ["--quantize=int4:16"]),
}
GRIDS = ["tp2", "tp2,pp2,mb2"]


def kinds() -> list[str]:
    return mutants.kinds("quantized-")


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Returns a folder with the program at each level."""

    @functools.cache
    def make(name, grid):
        folder = tmp_path_factory.mktemp("quantized")
        spec, how, flags = PROGRAMS[name]
        path = spec.save(folder / "model.onnx")
        model = onnx.load(path)
        if how is not None:
            onnx.save(
                in_blocks(model, how) if isinstance(how, Blocks) else linear(model, how), path
            )
        # The output names the file of quantized weights, which is the same at all levels.
        output = folder / "program.mlir"
        for level in ("model", "staged", "buffers"):
            command = [harness.tool("tpcc"), path, f"--megatron-shard={grid}", f"--emit={level}"]
            harness.run([*command, *flags, "-o", output]).check()
            output.rename(folder / f"{level}.mlir")
        mutants.check_unchanged(folder, "staged", "buffers")
        return folder

    return make


def level_of(kind):
    return "buffers" if kind.startswith("quantized-call-") else "staged"


def run(programs, cases, name):
    folders = {case[:2]: programs(*case[:2]) for case in cases}
    table = mutants.Table(kinds())
    table.judge(
        lambda case: mutants.judge(folders[case[:2]], level_of(case[2]), *case[2:]),
        cases,
        lambda case: (level_of(case[2]), case[2], case),
    )
    return table.report(name)


def test_sample(programs):
    """Each kind in one program."""
    symmetric = ("quantized-zero-point", "quantized-call-zero-point")
    cases = [("symmetric" if kind in symmetric else "packed", "tp2", kind, 1) for kind in kinds()]
    table = run(programs, cases, "sample_of_quantized")
    assert table.unrefused() == []


@pytest.mark.long
def test_all(programs):
    cases = [
        (name, grid, kind, seed)
        for name in PROGRAMS
        for grid in GRIDS
        for kind in kinds()
        for seed in (0, 1)
    ]
    table = run(programs, cases, "quantized")
    assert table.mutants() >= 150

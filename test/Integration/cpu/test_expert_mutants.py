"""Seeded faults in mixtures of experts: a verifier rejects each, or the results are the same."""

import functools
import re

import onnx
import pytest

import harness
import mutants
from expert_files import Experts
from halves import halve

SWIGLU = (("activation_alpha", 1.702), ("activation_beta", 1.0), ("swiglu_limit", 7.0))
PROGRAMS = {
    "mixtral": Experts(form="mixtral", layers=1, hidden=16, heads=2, kv_heads=2, size=8, rotary=8),
    "swiglu": Experts(
        activation="swiglu", fused=1, bias=True, moe=SWIGLU, layers=1, hidden=16, heads=2, size=8,
        kv_heads=2, rotary=8,
    ),
}
GRIDS = ["tp2", "ep2", "tp2,ep2", "tp2,ep2,etp1", "tp4,ep2,etp2", "ep2,dp2", "tp2,dp2,ep4,etp1"]
ROUTED = "tp2,dp2,ep4,etp1"  # tokens are sent to the ranks of their experts
ROUTED_KINDS = [
    *("experts-dispatch-", "experts-call-column", "experts-call-counts", "experts-call-split"),
    *("experts-call-rows", "experts-call-returned", "experts-call-width", "experts-call-group"),
]
SHAPE = "batch_size=2,sequence_length=3,past_sequence_length=2"


def kinds() -> list[str]:
    return mutants.kinds("experts-")


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Returns a folder with the program at each level. The name may end in a 16-bit type."""

    @functools.cache
    def make(name, grid):
        folder = tmp_path_factory.mktemp("experts")
        name, _, half = name.partition("-")
        path = PROGRAMS[name].save(folder / "model.onnx")
        if half:
            onnx.save(halve(onnx.load(path), half), path)
        for level in ("model", "staged", "buffers"):
            command = [harness.tool("tpcc"), path, f"--megatron-shard={grid}", f"--emit={level}"]
            command.append("--expert-dispatch=all-to-all")
            harness.run([*command, "-o", folder / f"{level}.mlir"]).check()
        mutants.check_unchanged(folder, "staged", "buffers")
        return folder

    return make


def level_of(kind):
    return "buffers" if kind.startswith("experts-call-") else "staged"


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
    routed = mutants.kinds(*ROUTED_KINDS)
    cases = [("swiglu", "tp2,ep2", kind, 1) for kind in kinds() if kind not in routed]
    cases += [("swiglu", ROUTED, kind, 1) for kind in routed]
    run(programs, cases, "sample_of_experts")


def test_in_16_bits(programs):
    """Faults in calls that read weights in 16 bits."""
    kinds = ["experts-call-missing", "experts-call-gate"]
    run(programs, [("swiglu-f16", "tp2,ep2", kind, 1) for kind in kinds], "experts_in_16_bits")


def test_experts_of_rows_without_logits(programs):
    """If all other experts have -infinity, the second one is the first that is not selected."""
    folder = programs("swiglu", ROUTED)
    text, wrong = (folder / "buffers.mlir").read_text(), folder / "wrong.mlir"
    text, count = re.subn(r"cmpi eq, (%\d+, %\d+ : i32)", r"cmpi slt, \1", text)
    wrong.write_text(text)
    refused = mutants.refuses(wrong, mutants.verifiers(folder, "buffers")["lowered"])
    assert count == 1 and refused and "run alone at small sizes" in refused.stderr


@pytest.mark.long
def test_all(programs):
    cases = [
        (name, grid, kind, seed)
        for name in PROGRAMS
        for grid in GRIDS
        for kind in kinds()
        for seed in (0, 1)
    ]
    run(programs, cases, "experts")
    assert len(cases) >= 200

"""Seeded faults in partitioned programs: rejected at compile time, or the same results."""

import functools
import random

import pytest

import harness
import mutants
from models import MODELS
from mutants import tpc_opt

INPUTS = harness.TOP / "test" / "Transforms" / "Inputs"
MODEL_PROGRAMS = {
    "gpt2": (INPUTS / "gpt2.mlir", "batch=3,sequence=5"),
    "llama": (INPUTS / "llama.mlir", "batch=3,sequence=5"),
    "shift": (INPUTS / "shift.mlir", "batch=3,sequence=5"),
    "window": (INPUTS / "window.mlir", "batch=3,sequence=5"),
    "sinks": (INPUTS / "sinks.mlir", "batch=3,sequence=5"),
    "gpt2-tiny": (MODELS / "gpt2-tiny-nopast.onnx", "batch_size=3,sequence_length=4"),
}
GRIDS = ["tp2", "tp2,pp2,dp2,mb2", "tp4,sp,pp3", "tp3,dp3,mb4", "tp2,sp,dp2,pp3,mb2"]
SHARDING = [
    "--tpc-insert-reshards",
    "--tpc-lower-reshards",
    "--tpc-localize",
    "--cse",
    "--tpc-split-stages",
    "--tpc-schedule-pipeline",
    "--cse",
    "--tpc-hoist-invariants",
]


def kinds() -> list[str]:
    # Mutants of buffers are in test_buffer_mutants.py, those of generation steps in
    # test_step_mutants.py, those in facts in test_fact_mutants.py, in windows and caps in
    # test_limit_mutants.py, in constants in test_kernel_mutants.py, of merged matmuls in
    # test_column_mutants.py, of experts in test_expert_mutants.py, of quantized weights in
    # test_quantized_mutants.py, of schedules in test_schedule_mutants.py, of asynchronous
    # collectives in test_async_mutants.py, of training in test_training_mutants.py.
    others = (
        *("buffer-", "kernel-", "lowered-", "step-", "preallocated-", "fact-", "limit-"),
        *("columns-", "fused-", "experts-", "quantized-", "schedule-", "async-"),
        *("train-", "gradient-", "update-"),
    )
    return [kind for kind in mutants.all_kinds() if not kind.startswith(others)]


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Returns the model, its partitioned program and its results, by model and grid."""
    folder = tmp_path_factory.mktemp("mutants")

    @functools.cache
    def make(name, grid):
        source, shape = MODEL_PROGRAMS[name]
        model, staged = folder / f"{name}.mlir", folder / f"{name}-{grid}.mlir"
        if not model.exists() and source.suffix == ".onnx":
            harness.run([harness.tool("tpcc"), source, "--emit=model", "-o", model]).check()
        elif not model.exists():
            model.write_bytes(source.read_bytes())
        tpc_opt(
            model,
            f"--tpc-evaluate=shape={shape}",
            f"--tpc-assign-shardings=shard={grid}",
            *SHARDING,
            "-o",
            staged,
        ).check()
        tpc_opt(
            staged,
            "--tpc-verify-comms",
            f"--tpc-verify-equivalence=reference={model}",
            f"--tpc-evaluate=shape={shape}",
            "-o",
            "/dev/null",
        ).check()
        return model, staged, shape

    return make


def judge(model, staged, shape, kind, seed):
    """Returns which verifiers reject a mutant: of ops, communication and equivalence, each run
    alone.
    """
    mutate = mutants.mutation(kind, seed)
    by_ops = mutants.refuses(staged, mutate)
    if mutants.does_not_apply(by_ops):
        return None
    caught = {
        name
        for name, verifier in (
            ("comms", "--tpc-verify-comms"),
            ("equivalence", f"--tpc-verify-equivalence=reference={model}"),
        )
        if mutants.refuses(staged, "--verify-each=0", mutate, verifier)
    }
    caught |= {"ops"} if by_ops else set()
    if caught:
        return caught
    same = tpc_opt(staged, mutate, f"--tpc-evaluate=shape={shape}", "-o", "/dev/null")
    return (
        mutants.SAME_RESULTS
        if same.returncode == 0 and "is the same" in same.stdout
        else mutants.ACCEPTED
    )


def add(table, programs, cases):
    made = {case[:2]: programs(*case[:2]) for case in cases}
    return table.judge(
        lambda case: judge(*made[case[:2]], *case[2:]),
        cases,
        lambda case: ("staged", case[2], case),
    )


def test_there_are_enough_kinds():
    assert len(kinds()) >= 25
    assert len(set(kinds())) == len(kinds())


@pytest.mark.slow
def test_sample(programs):
    """One mutant of each kind, in the first of two programs that has a location for it."""
    pick = random.Random(1)
    pair = [("gpt2", "tp2,pp2,dp2,mb2"), ("llama", "tp4,sp,pp3")]
    seeds = {kind: pick.randrange(1000) for kind in kinds()}
    table = mutants.Table(kinds())
    for first in (0, 1):
        cases = [
            (*pair[(index + first) % 2], kind, seeds[kind])
            for index, kind in enumerate(kinds())
            if not table.mutants(kind)
        ]
        add(table, programs, cases)
    cases = []
    for kind in ("split-contiguously", "swap-layers"):  # these need heads that divide, and layers
        cases.append(("gpt2-tiny", "tp2", kind, pick.randrange(1000)))
    cases.append(("gpt2", "tp2,sp,dp2,pp3,mb2", "late-message", 0))
    cases.append(("shift", "tp4,sp", "wrong-shift", 0))
    for kind in ("shift-window", "drop-window", "other-slopes", "drop-slopes", "shift-shard"):
        cases.append(
            ("window", "tp4,sp,pp3" if kind == "drop-slopes" else "tp2", kind, pick.randrange(1000))
        )
    for kind in ("other-sinks", "drop-sinks"):
        cases.append(("sinks", "tp2", kind, pick.randrange(1000)))
    cases.append(("llama", "tp2,pp2,dp2,mb2", "swap-held", 0))
    add(table, programs, cases).report("sample_of_partitioned")
    assert table.mutants() >= 45
    assert [kind for kind in kinds() if not table.mutants(kind)] == []
    # If one of these verifiers were disabled, some faults would be accepted.
    assert table.alone("comms") >= 2 and table.alone("equivalence") >= 10


@pytest.mark.long
def test_all(programs):
    cases = [
        (name, grid, kind, seed)
        for name in MODEL_PROGRAMS
        for grid in GRIDS
        for kind in kinds()
        for seed in range(4)
    ]
    table = add(mutants.Table(kinds()), programs, cases).report("partitioned")
    assert table.mutants() >= 1000
    assert table.alone("comms") and table.alone("equivalence")

"""Seeded bugs in partitioned programs: each is refused at compile time, or the program still computes the same."""

import collections
import concurrent.futures
import functools
import random

import pytest

import harness
from models import MODELS

INPUTS = harness.TOP / "test" / "Transforms" / "Inputs"
MODEL_PROGRAMS = {
    "gpt2": (INPUTS / "gpt2.mlir", "batch=3,sequence=5"),
    "llama": (INPUTS / "llama.mlir", "batch=3,sequence=5"),
    "shift": (INPUTS / "shift.mlir", "batch=3,sequence=5"),
    "window": (INPUTS / "window.mlir", "batch=3,sequence=5"),
    "gpt2-tiny": (MODELS / "gpt2-tiny-nopast.onnx", "batch_size=3,sequence_length=4"),
}
GRIDS = ["tp2", "tp2,pp2,dp2,mb2", "tp4,sp,pp3", "tp3,dp3,mb4", "tp2,sp,dp2,pp3,mb2"]
SHARDING = ["--tpc-insert-reshards", "--tpc-lower-reshards", "--tpc-localize", "--cse", "--tpc-split-stages",
            "--tpc-schedule-pipeline", "--cse", "--tpc-hoist-invariants"]
SECONDS = 120


def tpc_opt(*arguments, timeout=SECONDS):
    return harness.run([harness.tool("tpc-opt"), *arguments], timeout=timeout)


@functools.cache
def kinds() -> list[str]:
    listed = tpc_opt(MODEL_PROGRAMS["gpt2"][0], "--tpc-mutate=kind=list", "-o", "/dev/null").check()
    # Those in buffers are in test_buffer_mutants.py, those in steps of a generation in test_step_mutants.py,
    # those in facts in test_fact_mutants.py, in windows and caps in test_limit_mutants.py, in constants in test_kernel_mutants.py.
    others = ("buffer-", "kernel-", "lowered-", "step-", "place-", "fact-", "limit-")
    return [line.split(":")[0] for line in listed.stdout.splitlines() if not line.startswith(others)]


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """By model and grid: the model, and what it was split into, with what it computes."""
    folder = tmp_path_factory.mktemp("mutants")

    @functools.cache
    def make(name, grid):
        source, shape = MODEL_PROGRAMS[name]
        model, staged = folder / f"{name}.mlir", folder / f"{name}-{grid}.mlir"
        if not model.exists() and source.suffix == ".onnx":
            harness.run([harness.tool("tpcc"), source, "--emit=model", "-o", model]).check()
        elif not model.exists():
            model.write_bytes(source.read_bytes())
        tpc_opt(model, f"--tpc-evaluate=shape={shape}", f"--tpc-assign-shardings=shard={grid}", *SHARDING, "-o",
                staged).check()
        tpc_opt(staged, "--tpc-verify-comms", f"--tpc-verify-equivalence=reference={model}",
                f"--tpc-evaluate=shape={shape}", "-o", "/dev/null").check()
        return model, staged, shape

    return make


def judge(model, staged, shape, kind, seed):
    """Who refuses it: the verifiers of ops, communication and equivalence, each by itself. None if the program has no
    place for a bug of this kind."""
    mutate = f"--tpc-mutate=kind={kind},seed={seed}"

    def refuses(*arguments):
        result = tpc_opt(staged, *arguments, "-o", "/dev/null")
        assert not result.timed_out and result.returncode in (0, 1), f"a verifier hangs or crashes\n{result}"
        return result if result.returncode else None

    by_ops = refuses(mutate)
    if by_ops and "has no place for" in by_ops.stderr:
        return None
    caught = {name for name, verifier in (("comms", "--tpc-verify-comms"),
                                          ("equivalence", f"--tpc-verify-equivalence=reference={model}"))
              if refuses("--verify-each=0", mutate, verifier)}
    if by_ops:
        caught.add("ops")
    if not caught:
        same = tpc_opt(staged, mutate, f"--tpc-evaluate=shape={shape}", "-o", "/dev/null")
        assert not same.timed_out and same.returncode == 0, f"nobody refuses a wrong program\n{same}"
        assert "is the same" in same.stdout
    return caught


def run(programs, cases):
    """The table of kinds and who caught them."""
    places = {(name, grid): programs(name, grid) for name, grid, *_ in cases}
    table = {kind: collections.Counter() for kind in kinds()}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        verdicts = pool.map(lambda case: judge(*places[case[:2]], *case[2:]), cases)
        for (name, grid, kind, seed), caught in zip(cases, verdicts):
            row = table[kind]
            if caught is None:
                row["no place"] += 1
                continue
            row["mutants"] += 1
            row["equivalent"] += not caught
            row["comms alone"] += caught == {"comms"}
            row["equivalence alone"] += caught == {"equivalence"}
            for verifier in caught:
                row[verifier] += 1
    columns = ["mutants", "ops", "comms", "equivalence", "comms alone", "equivalence alone", "equivalent"]
    print(f"\n{'kind':22}", *(f"{column:>18}" for column in columns))
    for kind, row in table.items():
        print(f"{kind:22}", *(f"{row[column]:18}" for column in columns))
    total = sum(table.values(), collections.Counter())
    print(f"{'all':22}", *(f"{total[column]:18}" for column in columns))
    return table, total


def test_there_are_enough_kinds():
    assert len(kinds()) >= 25
    assert len(set(kinds())) == len(kinds())


@pytest.mark.slow
def test_sample(programs):
    """One place of each kind, in one or the other program."""
    pick = random.Random(1)
    cases = []
    for kind in kinds():
        cases.append(("gpt2", "tp2,pp2,dp2,mb2", kind, pick.randrange(1000)))
        cases.append(("llama", "tp4,sp,pp3", kind, pick.randrange(1000)))
    for kind in ("split-contiguously", "swap-layers"):  # these need heads that divide, and layers
        cases.append(("gpt2-tiny", "tp2", kind, pick.randrange(1000)))
    cases.append(("gpt2", "tp2,sp,dp2,pp3,mb2", "late-message", 0))
    cases.append(("shift", "tp4,sp", "wrong-shift", 0))
    for kind in ("shift-window", "drop-window", "other-slopes", "drop-slopes", "shift-shard"):
        cases.append(("window", "tp4,sp,pp3" if kind == "drop-slopes" else "tp2", kind, pick.randrange(1000)))
    cases.append(("llama", "tp2,pp2,dp2,mb2", "swap-held", 0))
    table, total = run(programs, cases)
    assert total["mutants"] >= 60
    assert [kind for kind, row in table.items() if not row["mutants"]] == []
    # With either verifier switched off, some bugs would go through.
    assert total["comms alone"] >= 2 and total["equivalence alone"] >= 10


@pytest.mark.long
def test_all(programs):
    cases = [(name, grid, kind, seed) for name in MODEL_PROGRAMS for grid in GRIDS for kind in kinds()
             for seed in range(4)]
    table, total = run(programs, cases)
    assert total["mutants"] >= 1000
    assert total["comms alone"] and total["equivalence alone"]

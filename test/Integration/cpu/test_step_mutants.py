"""Seeded bugs in steps of a generation: what the randomized check refuses the proof refuses as well, by itself."""

import collections
import concurrent.futures
import functools
import random

import pytest

import harness
from models import MODELS

# With and without a past; windows, slopes, few kv heads, no rotation, layers of two kinds.
FILES = ["gpt2-odd-nopast", "llama-past", "llama-dynamo", "mistral-past", "gemma2-dynamo", "bloom-past", "falcon-dynamo", "mpt-past",
         "gpt2-differing-layers", "phi3-past"]
# Mistakes of partitioners that one program on one rank can have.
SHARED = ["masked-row", "scale-twice", "see-future", "shift-window", "drop-window", "other-slopes", "drop-slopes", "swap-keys-values",
          "wrong-layer-weight", "swap-layers", "bias-nowhere", "drop-residual", "lose-negative-ids", "wrong-activation", "wrong-epsilon"]
SECONDS = 120


def tpc_opt(*arguments):
    return harness.run([harness.tool("tpc-opt"), *arguments], timeout=SECONDS)


@functools.cache
def kinds() -> list[str]:
    listed = tpc_opt(harness.TOP / "test" / "Transforms" / "Inputs" / "gpt2.mlir", "--tpc-mutate=kind=list", "-o", "/dev/null").check()
    return [name for name in (line.split(":")[0] for line in listed.stdout.splitlines()) if name.startswith("step-") or name in SHARED]


@pytest.fixture(scope="session")
def steps(tmp_path_factory):
    """By file: the model, and its step."""
    folder = tmp_path_factory.mktemp("steps")

    @functools.cache
    def make(name):
        file, model, step = (folder / f"{name}{end}.mlir" for end in ("", ".model", ".step"))
        harness.run([harness.tool("tpc-translate"), "--import-onnx", MODELS / f"{name}.onnx", "-o", file]).check()
        tpc_opt(file, "--tpc-model-pipeline", "-o", model).check()
        tpc_opt(file, "--tpc-step-pipeline", "-o", step).check()
        tpc_opt(step, f"--tpc-verify-generation=reference={model}", "-o", "/dev/null").check()
        return model, step

    return make


def judge(model, step, kind, seed):
    """Who refuses it, each by itself. None if the step has no place for a bug of this kind."""
    caught = set()
    for name, others in (("proof", "interpret=false"), ("randomized", "symbolic=false")):
        result = tpc_opt(step, "--verify-each=0", f"--tpc-mutate=kind={kind},seed={seed}",
                         f"--tpc-verify-generation=reference={model} {others}", "-o", "/dev/null")
        assert not result.timed_out and result.returncode in (0, 1), f"a verifier hangs or crashes\n{result}"
        if "has no place for" in result.stderr:
            return None
        if result.returncode:
            caught.add(name)
    return caught


def run(steps, cases):
    places = {name: steps(name) for name, *_ in cases}
    table = {kind: collections.Counter() for kind in kinds()}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        verdicts = pool.map(lambda case: judge(*places[case[0]], *case[1:]), cases)
        for (name, kind, seed), caught in zip(cases, verdicts):
            if caught is None:
                continue
            assert caught != {"randomized"}, f"{name}, kind={kind},seed={seed}: proved, and refused by the randomized check"
            row = table[kind]
            row["mutants"] += 1
            row["equivalent"] += not caught
            row["proof alone"] += caught == {"proof"}
            row["both"] += len(caught) == 2
    columns = ["mutants", "both", "proof alone", "equivalent"]
    print(f"\n{'kind':22}", *(f"{column:>12}" for column in columns))
    total = sum(table.values(), collections.Counter())
    for kind, row in [*table.items(), ("all", total)]:
        print(f"{kind:22}", *(f"{row[column]:12}" for column in columns))
    return table, total


def test_there_are_enough_kinds():
    assert len([kind for kind in kinds() if kind.startswith("step-")]) >= 12
    assert set(SHARED) < set(kinds())


def test_sample(steps):
    """One place of each kind."""
    pick = random.Random(1)
    where = {"shift-window": "mistral-past", "drop-window": "mistral-past", "other-slopes": "bloom-past", "drop-slopes": "bloom-past",
             "bias-nowhere": "gpt2-differing-layers"}
    table, total = run(steps, [(where.get(kind, "gpt2-odd-nopast"), kind, pick.randrange(1000)) for kind in kinds()])
    assert total["mutants"] >= 25 and total["both"] >= 22


@pytest.mark.long
def test_all(steps):
    table, total = run(steps, [(name, kind, seed) for name in FILES for kind in kinds() for seed in (0, 1, 3, 6)])
    assert total["mutants"] >= 600
    # Rows of positions are never looked up by negative ids: a proof of expressions does not know.
    assert all(not row["proof alone"] for kind, row in table.items() if kind != "lose-negative-ids")

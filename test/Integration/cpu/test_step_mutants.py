"""Seeded faults in generation steps: the proof rejects all that the randomized check rejects."""

import functools
import random

import pytest

import harness
import mutants
from models import MODELS
from mutants import tpc_opt

# Models with and without a past, with windows, slopes, few kv heads, no rotation, or two kinds of
# layers.
FILES = [
    "gpt2-odd-nopast",
    "llama-past",
    "llama-dynamo",
    "mistral-past",
    "gemma2-dynamo",
    "bloom-past",
    "falcon-dynamo",
    "mpt-past",
    "gpt2-differing-layers",
    "phi3-past",
]
# Faults of partitioners that apply to a program on one rank.
SHARED = [
    "masked-row",
    "scale-twice",
    "see-future",
    "shift-window",
    "drop-window",
    "other-slopes",
    "drop-slopes",
    "swap-keys-values",
    "wrong-layer-weight",
    "swap-layers",
    "bias-nowhere",
    "drop-residual",
    "lose-negative-ids",
    "wrong-activation",
    "wrong-epsilon",
]
# Mutants without effect: the value of rows without visible keys, if there are no such rows.
EQUAL = ["masked-row"]


def kinds() -> list[str]:
    return [kind for kind in mutants.all_kinds() if kind.startswith("step-") or kind in SHARED]


@pytest.fixture(scope="session")
def steps(tmp_path_factory):
    """Returns the model and its step by file."""
    folder = tmp_path_factory.mktemp("steps")

    @functools.cache
    def make(name):
        file, model, step = (folder / f"{name}{end}.mlir" for end in ("", ".model", ".step"))
        harness.run(
            [harness.tool("tpc-translate"), "--import-onnx", MODELS / f"{name}.onnx", "-o", file]
        ).check()
        tpc_opt(file, "--tpc-model-pipeline", "-o", model).check()
        tpc_opt(file, "--tpc-step-pipeline", "-o", step).check()
        tpc_opt(step, f"--tpc-verify-generation=reference={model}", "-o", "/dev/null").check()
        return model, step

    return make


def judge(model, step, kind, seed):
    """Returns which of the two checks, run separately, reject a mutant. Neither detects a fault in
    rows without visible keys if there are no such rows.
    """
    caught = set()
    for name, others in (("proof", "interpret=false"), ("randomized", "symbolic=false")):
        refused = mutants.refuses(
            step,
            "--verify-each=0",
            mutants.mutation(kind, seed),
            f"--tpc-verify-generation=reference={model} {others}",
        )
        if mutants.does_not_apply(refused):
            return None
        caught |= {name} if refused else set()
    if caught:
        return caught
    return mutants.SAME_RESULTS if kind in EQUAL else mutants.ACCEPTED


def run(steps, cases, name):
    made = {name: steps(name) for name, *_ in cases}
    table = mutants.Table(kinds())
    table.judge(
        lambda case: judge(*made[case[0]], *case[1:]), cases, lambda case: ("step", case[1], case)
    )
    table.report(name)
    assert not table.alone("randomized"), "a mutant is proved, and refused by the randomized check"
    return table


def test_there_are_enough_kinds():
    assert len([kind for kind in kinds() if kind.startswith("step-")]) >= 12
    assert set(SHARED) < set(kinds())


def test_sample(steps):
    """One mutant of each kind."""
    pick = random.Random(1)
    where = {
        "shift-window": "mistral-past",
        "drop-window": "mistral-past",
        "other-slopes": "bloom-past",
        "drop-slopes": "bloom-past",
        "bias-nowhere": "gpt2-differing-layers",
    }
    table = run(
        steps,
        [(where.get(kind, "gpt2-odd-nopast"), kind, pick.randrange(1000)) for kind in kinds()],
        "sample_of_steps",
    )
    assert table.mutants() >= 25 and table.by("randomized") >= 22


@pytest.mark.long
def test_all(steps):
    table = run(
        steps,
        [(name, kind, seed) for name in FILES for kind in kinds() for seed in (0, 1, 3, 6)],
        "steps",
    )
    assert table.mutants() >= 600
    # Position rows are never looked up by negative ids, which a proof on expressions cannot use.
    assert all(not table.alone("proof", kind) for kind in kinds() if kind != "lose-negative-ids")

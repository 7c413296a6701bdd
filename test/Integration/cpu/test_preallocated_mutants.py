"""Seeded faults in steps on preallocated caches: rejected by the randomized check, or without
effect."""

import functools
import random

import pytest

import harness
import mutants
from models import MODELS
from mutants import tpc_opt

# Tables of positions, rotation, windows, slopes.
FILES = ["gpt2-odd-opset18", "llama-past", "mistral-dynamo", "bloom-past"]


def kinds() -> list[str]:
    return mutants.kinds("preallocated-")


@pytest.fixture(scope="session")
def steps(tmp_path_factory):
    """Returns the step and the step on preallocated caches, by file and form (all tokens, or the
    last ones)."""
    folder = tmp_path_factory.mktemp("preallocated")

    @functools.cache
    def make(name, form):
        file, step, preallocated = (
            folder / f"{name}{end}.mlir" for end in ("", ".step", f".{form}")
        )
        harness.run(
            [harness.tool("tpc-translate"), "--import-onnx", MODELS / f"{name}.onnx", "-o", file]
        ).check()
        tpc_opt(file, "--tpc-step-pipeline", "-o", step).check()
        tpc_opt(file, f"--tpc-{form}-step-pipeline", "-o", preallocated).check()
        tpc_opt(
            preallocated, f"--tpc-verify-generation=reference={step}", "-o", "/dev/null"
        ).check()
        return step, preallocated

    return make


def judge(step, preallocated, kind, seed):
    refused = mutants.refuses(
        preallocated, mutants.mutation(kind, seed), f"--tpc-verify-generation=reference={step}"
    )
    return (
        None if mutants.does_not_apply(refused) else {"generation"} if refused else mutants.ACCEPTED
    )


def run(steps, cases, name):
    made = {case[:2]: steps(*case[:2]) for case in cases}
    table = mutants.Table(kinds())
    table.judge(
        lambda case: judge(*made[case[:2]], *case[2:]),
        cases,
        lambda case: ("preallocated", case[2], case),
    )
    return table.report(name)


def test_sample(steps):
    """One mutant of each kind."""
    pick = random.Random(1)
    where = {kind: "mistral-dynamo" for kind in kinds() if "window" in kind}
    form = {"preallocated-counts-ignored": "last"}
    cases = [
        (
            where.get(kind, "gpt2-odd-opset18"),
            form.get(kind, "preallocated"),
            kind,
            pick.randrange(100),
        )
        for kind in kinds()
    ]
    table = run(steps, cases, "sample_of_placed")
    assert len(kinds()) >= 17 and all(table.refused(kind) == 1 for kind in kinds())


@pytest.mark.long
def test_all(steps):
    cases = [
        (name, form, kind, seed)
        for name in FILES
        for form in ("preallocated", "last")
        for kind in kinds()
        for seed in range(3)
    ]
    assert run(steps, cases, "preallocated").refused() >= 300

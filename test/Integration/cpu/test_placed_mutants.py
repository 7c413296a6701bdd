"""Seeded bugs in steps that take whole caches: the randomized check refuses each, or it is no bug."""

import collections
import concurrent.futures
import functools
import random

import pytest

import harness
from models import MODELS

# Tables of positions, rotation, windows, slopes.
FILES = ["gpt2-odd-opset18", "llama-past", "mistral-dynamo", "bloom-past"]
SECONDS = 120


def tpc_opt(*arguments):
    return harness.run([harness.tool("tpc-opt"), *arguments], timeout=SECONDS)


@functools.cache
def kinds() -> list[str]:
    listed = tpc_opt(harness.TOP / "test" / "Transforms" / "Inputs" / "gpt2.mlir", "--tpc-mutate=kind=list", "-o", "/dev/null").check()
    return [name for name in (line.split(":")[0] for line in listed.stdout.splitlines()) if name.startswith("place-")]


@pytest.fixture(scope="session")
def steps(tmp_path_factory):
    """By file and form (all tokens, or the last ones): the step, and the placed one."""
    folder = tmp_path_factory.mktemp("placed")

    @functools.cache
    def make(name, form):
        file, step, placed = (folder / f"{name}{end}.mlir" for end in ("", ".step", f".{form}"))
        harness.run([harness.tool("tpc-translate"), "--import-onnx", MODELS / f"{name}.onnx", "-o", file]).check()
        tpc_opt(file, "--tpc-step-pipeline", "-o", step).check()
        tpc_opt(file, f"--tpc-{form}-step-pipeline", "-o", placed).check()
        tpc_opt(placed, f"--tpc-verify-generation=reference={step}", "-o", "/dev/null").check()
        return step, placed

    return make


def judge(step, placed, kind, seed):
    """Whether it is refused; None if the step has no place for a bug of this kind."""
    result = tpc_opt(placed, f"--tpc-mutate=kind={kind},seed={seed}", f"--tpc-verify-generation=reference={step}", "-o", "/dev/null")
    assert not result.timed_out and result.returncode in (0, 1), f"the verifier hangs or crashes\n{result}"
    return None if "has no place for" in result.stderr else result.returncode != 0


def run(steps, cases):
    places = {case[:2]: steps(*case[:2]) for case in cases}
    table = {kind: collections.Counter() for kind in kinds()}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        verdicts = pool.map(lambda case: judge(*places[case[:2]], *case[2:]), cases)
        for case, refused in zip(cases, verdicts):
            if refused is None:
                continue
            assert refused, f"{case}: a bug that nobody sees"
            table[case[2]]["refused"] += 1
    for kind, row in table.items():
        print(f"{kind:28}{row['refused']:6}")
    return table


def test_sample(steps):
    """One place of each kind."""
    pick = random.Random(1)
    where = {kind: "mistral-dynamo" for kind in kinds() if "window" in kind}
    form = {"place-counts-ignored": "last"}
    cases = [(where.get(kind, "gpt2-odd-opset18"), form.get(kind, "placed"), kind, pick.randrange(100)) for kind in kinds()]
    table = run(steps, cases)
    assert len(table) >= 17 and all(row["refused"] == 1 for row in table.values())


@pytest.mark.long
def test_all(steps):
    cases = [(name, form, kind, seed) for name in FILES for form in ("placed", "last") for kind in kinds() for seed in range(3)]
    assert sum(row["refused"] for row in run(steps, cases).values()) >= 300

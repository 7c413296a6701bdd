"""Faults in windows, soft-caps and mask edges, at all levels: each is rejected or has no effect."""

import functools
import random

import pytest

import harness
import mutants
from models import MODELS
from mutants import tpc_opt

# Windows in all layers, with few kv heads, or in every second layer with soft-caps of scores and
# logits.
FILES = ["mistral-dynamo", "phi3-dynamo", "gemma2-dynamo"]
# Attention with a soft-cap and a mask that comparisons compute. The model is not a step.
CAPPED, FORWARD = "unraised-window", ["staged", "buffers"]
LEVELS = ["step", "preallocated", "staged", "staged.generate", "buffers", "buffers.generate"]
LOWER = ["--tpc-lower-kernels", "--tpc-lower-program"]


def source(name):
    return (
        harness.TOP / "test" / "Verify" / "Inputs" / f"{name}.mlir"
        if name == CAPPED
        else MODELS / f"{name}.onnx"
    )


def kinds() -> list[str]:
    return mutants.kinds("limit-")


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Returns a function from file and level to the program and the flags that verify it."""
    folder = tmp_path_factory.mktemp("limits")

    @functools.cache
    def make(name, level):
        def emit(what, generates):
            path = folder / f"{name}.{what}{'.generate' if generates else ''}.mlir"
            if not path.exists():
                harness.run(
                    [
                        harness.tool("tpcc"),
                        source(name),
                        "--megatron-shard=tp2",
                        *(["--generate"] if generates else []),
                        f"--emit={what}",
                        "-o",
                        path,
                    ]
                ).check()
            return path

        what, _, generate = level.partition(".")
        if what in ("step", "preallocated"):
            file, model, step, preallocated = (
                folder / f"{name}{end}" for end in (".mlir", ".model", ".step", ".preallocated")
            )
            if not preallocated.exists():
                harness.run(
                    [
                        harness.tool("tpc-translate"),
                        "--import-onnx",
                        MODELS / f"{name}.onnx",
                        "-o",
                        file,
                    ]
                ).check()
                for pipeline, path in (
                    ("model", model),
                    ("step", step),
                    ("last-step", preallocated),
                ):
                    tpc_opt(file, f"--tpc-{pipeline}-pipeline", "-o", path).check()
            program, reference = (step, model) if what == "step" else (preallocated, step)
            flags = [f"--tpc-verify-generation=reference={reference}"]
        else:
            program, model = emit(what, generate), emit("model", generate)
            # The proof compares expressions, and so would reject any difference.
            flags = [f"--tpc-verify-equivalence=reference={model} symbolic=false"]
            if what == "buffers":
                flags = [
                    "--tpc-verify-buffers",
                    f"--tpc-verify-lowered=reference={model} staged={emit('staged', generate)}",
                ]
        tpc_opt(program, *flags, "-o", "/dev/null").check()
        return program, flags

    return make


def judge(program, flags, kind, seed):
    mutate, caught = ["--verify-each=0", mutants.mutation(kind, seed)], set()
    for flag in flags:
        if refused := mutants.refuses(program, *mutate, flag):
            if mutants.does_not_apply(refused):
                return None
            # Staged programs are checked by the equivalence verifier without the proof.
            caught.add(
                flag.removeprefix("--tpc-verify-")
                .split("=")[0]
                .replace("equivalence", "randomized")
            )
    if caught:
        return caught
    if "buffers" in program.name:
        code = [tpc_opt(program, *flags, *LOWER).check().stdout for flags in ([], mutate)]
        if code[0] == code[1]:
            return mutants.SAME_CODE
    return mutants.ACCEPTED


def run(programs, cases, name):
    made = {case[:2]: programs(*case[:2]) for case in cases}
    table = mutants.Table(kinds())
    table.judge(
        lambda case: judge(*made[case[:2]], *case[2:]),
        cases,
        lambda case: (case[1].split(".")[0], case[2], case),
    )
    return table.report(name)


def test_sample(programs):
    """Tests every third kind at each level, on a model that has all kinds."""
    pick = random.Random(3)
    cases = [
        ("gemma2-dynamo", level, kind, pick.randrange(100))
        for i, level in enumerate(LEVELS)
        for kind in kinds()[i % 3 :: 3]
    ]
    cases += [
        (CAPPED, level, kind, pick.randrange(100))
        for i, level in enumerate(FORWARD)
        for kind in kinds()[7 + i :: 2]
    ]
    assert run(programs, cases, "sample_of_limits").refused() >= 15


@pytest.mark.long
def test_all(programs):
    cases = [
        (name, level, kind, seed)
        for name in FILES
        for level in LEVELS
        for kind in kinds()
        for seed in range(4)
    ]
    cases += [
        (CAPPED, level, kind, seed) for level in FORWARD for kind in kinds() for seed in range(8)
    ]
    table = run(programs, cases, "limits")
    assert table.refused() >= 300 and table.unrefused() == []

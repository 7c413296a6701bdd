"""Seeded mistakes in windows, caps and edges of masks, at all levels: each is refused, or compiles to the same code."""

import collections
import concurrent.futures
import functools
import random

import pytest

import harness
from models import MODELS

# Windows in all layers, in every second one with caps of scores and of the head, and with few kv heads.
FILES = ["mistral-dynamo", "phi3-dynamo", "gemma2-dynamo"]
# Attention with a cap and a mask that is made of comparisons; it is no step.
CAPPED, FORWARD = "unraised-window", ["staged", "buffers"]
LEVELS = ["step", "placed", "staged", "staged.generate", "buffers", "buffers.generate"]
LOWER = ["--tpc-lower-kernels", "--tpc-lower-program"]
SECONDS = 120


def tpc_opt(*arguments):
    return harness.run([harness.tool("tpc-opt"), *arguments], timeout=SECONDS)


def source(name):
    return harness.TOP / "test" / "Verify" / "Inputs" / f"{name}.mlir" if name == CAPPED else MODELS / f"{name}.onnx"


@functools.cache
def kinds() -> list[str]:
    listed = tpc_opt(harness.TOP / "test" / "Transforms" / "Inputs" / "gpt2.mlir", "--tpc-mutate=kind=list", "-o", "/dev/null").check()
    return [line.split(":")[0] for line in listed.stdout.splitlines() if line.startswith("limit-")]


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """By file and level: the program, and the flags that verify it."""
    folder = tmp_path_factory.mktemp("limits")

    @functools.cache
    def make(name, level):
        def emit(what, generates):
            path = folder / f"{name}.{what}{'.generate' if generates else ''}.mlir"
            if not path.exists():
                harness.run([harness.tool("tpcc"), source(name), "--megatron-shard=tp2", *(["--generate"] if generates else []),
                             f"--emit={what}", "-o", path]).check()
            return path

        what, _, generate = level.partition(".")
        if what in ("step", "placed"):
            file, model, step, placed = (folder / f"{name}{end}" for end in (".mlir", ".model", ".step", ".placed"))
            if not placed.exists():
                harness.run([harness.tool("tpc-translate"), "--import-onnx", MODELS / f"{name}.onnx", "-o", file]).check()
                for pipeline, path in (("model", model), ("step", step), ("last-step", placed)):
                    tpc_opt(file, f"--tpc-{pipeline}-pipeline", "-o", path).check()
            program, reference = (step, model) if what == "step" else (placed, step)
            flags = [f"--tpc-verify-generation=reference={reference}"]
        else:
            program, model = emit(what, generate), emit("model", generate)
            # The proof compares expressions, and so would refuse whatever differs.
            flags = [f"--tpc-verify-equivalence=reference={model} symbolic=false"]
            if what == "buffers":
                flags = ["--tpc-verify-buffers", f"--tpc-verify-lowered=reference={model} staged={emit('staged', generate)}"]
        tpc_opt(program, *flags, "-o", "/dev/null").check()
        return program, flags

    return make


def judge(program, flags, kind, seed):
    """What becomes of a mutant; None if the program has no place for one of this kind."""
    mutate = ["--verify-each=0", f"--tpc-mutate=kind={kind},seed={seed}"]
    result = tpc_opt(program, *mutate, *flags, "-o", "/dev/null")
    assert not result.timed_out and result.returncode in (0, 1), f"a verifier hangs or crashes\n{result}"
    if "has no place for" in result.stderr:
        return None
    if result.returncode:
        return "refused"
    if "buffers" in program.name:
        code = [tpc_opt(program, *flags, *LOWER).check().stdout for flags in ([], mutate)]
        if code[0] == code[1]:
            return "same code"
    return "seen by nobody"


def run(programs, cases):
    places = {case[:2]: programs(*case[:2]) for case in cases}
    table = {kind: collections.Counter() for kind in kinds()}
    wrong = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for case, verdict in zip(cases, pool.map(lambda case: judge(*places[case[:2]], *case[2:]), cases)):
            if verdict:
                table[case[2]][verdict] += 1
            if verdict == "seen by nobody":
                wrong.append(case)
    print(f"\n{'kind':28}{'refused':>10}{'same code':>12}")
    for kind, row in table.items():
        print(f"{kind:28}{row['refused']:10}{row['same code']:12}")
    assert not wrong, f"mistakes that nobody sees: {wrong}"
    return table


def test_sample(programs):
    """Kinds by turns at each level, of the model that has places for all."""
    pick = random.Random(3)
    cases = [("gemma2-dynamo", level, kind, pick.randrange(100)) for i, level in enumerate(LEVELS) for kind in kinds()[i % 3::3]]
    cases += [(CAPPED, level, kind, pick.randrange(100)) for i, level in enumerate(FORWARD) for kind in kinds()[7 + i::2]]
    table = run(programs, cases)
    assert sum(row["refused"] for row in table.values()) >= 15


@pytest.mark.long
def test_all(programs):
    cases = [(name, level, kind, seed) for name in FILES for level in LEVELS for kind in kinds() for seed in range(4)]
    cases += [(CAPPED, level, kind, seed) for level in FORWARD for kind in kinds() for seed in range(8)]
    table = run(programs, cases)
    assert sum(row["refused"] for row in table.values()) >= 300
    assert all(row["refused"] for kind, row in table.items())

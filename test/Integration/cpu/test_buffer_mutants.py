"""Seeded mistakes in plans of memory: each is refused by tpc-verify-buffers, or the program computes the same."""

import collections
import concurrent.futures
import functools
import json
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest

import harness
from models import COMMITTED, FAMILIES, MODELS

GRIDS = {"gpt2-tiny-nopast": ["tp2", "tp2,sp,pp2,mb2"], "llama-past": ["tp2,pp2,dp2,mb2", "tp3"], "gpt2-odd-opset20": ["tp2x2", "dp2"],
         "falcon-dynamo": ["tp4,sp"], "gemma2-past": ["tp2,sp,dp2"],
        # Copies; two kernels of one signature.
        "gpt2-mlp": ["pp2,mb2"], "gpt2-differing-layers": ["tp2"]}
# Programs with caches, which hold kv heads that are repeated, or not.
GENERATING = {"llama-past": ["tp4"], "mistral-dynamo": ["tp2,pp2,mb2"], "gpt2-tiny-nopast": ["tp2,dp2"]}
PROMPTS = ("3,5,7,11,13", "2")
LOWER = ["--tpc-lower-kernels", "--tpc-lower-program"]


def tpc_opt(*arguments):
    return harness.run([harness.tool("tpc-opt"), *arguments], timeout=120)


@functools.cache
def kinds() -> list[str]:
    listed = tpc_opt(harness.TOP / "test/Transforms/Inputs/gpt2.mlir", "--tpc-mutate=kind=list", "-o", "/dev/null").check()
    return [line.split(":")[0] for line in listed.stdout.splitlines() if line.startswith("buffer-")]


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """By model, grid and flags: the program on buffers."""
    folder = tmp_path_factory.mktemp("buffers")

    @functools.cache
    def make(name, grid, *flags):
        path = folder / f"{'@'.join([name, grid, *flags])}.mlir"
        harness.run([harness.tool("tpcc"), MODELS / f"{name}.onnx", f"--megatron-shard={grid}", *flags, "--emit=buffers", "-o", path]).check()
        return path

    return make


def judge(program, kind, seed):
    """Who refuses it; None if the program has no place for a mistake of this kind."""
    mutate = f"--tpc-mutate=kind={kind},seed={seed}"
    by_ops = tpc_opt(program, mutate, "-o", "/dev/null")
    assert not by_ops.timed_out and by_ops.returncode in (0, 1), f"a verifier hangs or crashes\n{by_ops}"
    if "has no place for" in by_ops.stderr:
        return None
    if by_ops.returncode:
        return "ops"
    verified = tpc_opt(program, mutate, "--tpc-verify-buffers", "-o", "/dev/null")
    assert not verified.timed_out and verified.returncode in (0, 1), f"the verifier hangs or crashes\n{verified}"
    if verified.returncode:
        return "buffers"
    code = [tpc_opt(program, *mutation, *LOWER).check().stdout for mutation in ([], [mutate])]
    if code[0] == code[1]:
        return "same code"
    assert compute(program) == compute(program, mutate), f"nobody refuses {kind}, seed {seed}, of {program}"
    return "equal"


def compute(program, *mutate):
    """The outputs of two shapes, or the logits behind two prompts, as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        text, executable = Path(folder, "mutant.mlir"), Path(folder, "mutant")
        tpc_opt(program, *mutate, "-o", text).check()
        harness.run([harness.BUILD_STAGED, text, "-o", executable]).check()
        if "--generate" in program.stem.split("@"):
            return [logits_of(executable, prompt, Path(folder, "logits.npy")) for prompt in PROMPTS]
        about = json.loads(harness.run([executable, "--describe", "--json"]).check().stdout)
        model = (COMMITTED | FAMILIES)[program.name.split("@")[0]]
        found = []
        for shape in ((3, 5), (2, 1)):
            arguments = []
            for name, array in model.inputs(*shape, padding="left" if model.padded else "none", past=2 if model.past_name else 0).items():
                np.save(Path(folder, f"{name}.npy"), array)
                arguments += ["--input", f"{name}={folder}/{name}.npy"]
            for i, output in enumerate(about["outputs"]):
                arguments += ["--output", f"{output['name']}={folder}/out-{i}.npy"]
            harness.run([executable, *arguments]).check()
            found += [Path(folder, f"out-{i}.npy").read_bytes() for i in range(len(about["outputs"]))]
    return found


def logits_of(executable, prompt, path):
    harness.run([executable, "--prompt-ids", prompt, "--max-new-tokens=4", "--logits", path]).check()
    return path.read_bytes()


def run(programs, cases):
    table = {kind: collections.Counter() for kind in kinds()}
    places = {case[:-2]: programs(*case[:-2]) for case in cases}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        verdicts = pool.map(lambda case: judge(places[case[:-2]], *case[-2:]), cases)
        for (*_, kind, _), verdict in zip(cases, verdicts):
            table[kind][verdict or "no place"] += 1
    columns = ["ops", "buffers", "same code", "equal", "no place"]
    print(f"\n{'kind':24}", *(f"{column:>10}" for column in columns))
    for kind, row in table.items():
        print(f"{kind:24}", *(f"{row[column]:10}" for column in columns))
    total = sum(table.values(), collections.Counter())
    print(f"{'all':24}", *(f"{total[column]:10}" for column in columns))
    return table, total


@pytest.mark.slow
def test_sample(programs):
    pick = random.Random(1)
    cases = [("llama-past", "tp2,pp2,dp2,mb2", kind, pick.randrange(1000)) for kind in kinds()]
    _, total = run(programs, cases)
    assert total["buffers"] >= 20


@pytest.mark.slow
def test_sample_of_caches(programs):
    pick = random.Random(2)
    cases = [("llama-past", "tp4", "--generate", kind, pick.randrange(1000)) for kind in kinds()]
    table, total = run(programs, cases)
    assert total["buffers"] >= 15 and table["buffer-wrong-state"]["buffers"] == 1


@pytest.mark.long
def test_all(programs):
    cases = [(name, grid, kind, seed * 37) for name, grids in GRIDS.items() for grid in grids for kind in kinds() for seed in range(3)]
    table, total = run(programs, cases)
    assert total["ops"] + total["buffers"] + total["same code"] + total["equal"] >= 300
    assert [kind for kind, row in table.items() if not row["ops"] + row["buffers"]] == ["buffer-wrong-state"]


@pytest.mark.long
def test_all_of_caches(programs):
    cases = [(name, grid, "--generate", kind, seed * 37) for name, grids in GENERATING.items() for grid in grids for kind in kinds()
             for seed in range(4)]
    _, total = run(programs, cases)
    assert total["ops"] + total["buffers"] + total["same code"] + total["equal"] >= 200

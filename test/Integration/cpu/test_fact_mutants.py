"""Seeded faults in what programs say beside their ops: each is refused at its level, or the executable is the same."""

import collections
import concurrent.futures
import functools
import json
import re

import pytest

import harness
import test_facts
from models import MODELS

# Sliding-window caches and copies of heads; tables of positions; defaults and masks; a past that is given.
PROGRAMS = [("mistral-dynamo", "tp2,pp2,mb2", "--generate"), ("gpt2-tiny-nopast", "tp2,pp2", "--generate"),
            ("gpt2-odd-opset20", "tp2,dp2,sp"), ("llama-past", "tp2,pp2,mb2")]
MORE = [("gemma2-dynamo", "tp2,pp2", "--generate"), ("phi3-past", "dp2,pp2,mb2", "--generate"), ("bloom-past", "tp2x2"),
        ("gpt2-differing-layers", "pp2")]
LEVELS = ["step", "staged", "kernels", "buffers"]
TO_LLVM = {"staged": ["--tpc-lower-to-llvm"], "kernels": ["--tpc-plan-buffers", "--tpc-lower-kernels", "--tpc-lower-program"],
           "buffers": ["--tpc-lower-kernels", "--tpc-lower-program"]}


def tpc_opt(*arguments):
    return harness.run([harness.tool("tpc-opt"), *arguments], timeout=120)


@functools.cache
def kinds() -> list[str]:
    listed = tpc_opt(harness.TOP / "test/Transforms/Inputs/gpt2.mlir", "--tpc-mutate=kind=list", "-o", "/dev/null").check()
    return [line.split(":")[0] for line in listed.stdout.splitlines() if line.startswith("fact-")]


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """By model, grid and flags: a folder with the program at each level, and its references."""
    folder = tmp_path_factory.mktemp("facts")

    @functools.cache
    def make(name, grid, *flags):
        own = folder / "@".join([name, grid, *flags])
        own.mkdir()
        for level in ("model", "staged", "kernels", "buffers"):
            harness.run([harness.tool("tpcc"), MODELS / f"{name}.onnx", *([] if level == "model" else [f"--megatron-shard={grid}"]),
                         *flags, f"--emit={level}", "-o", own / f"{level}.mlir"]).check()
        if flags:
            file, before = own / "import.mlir", own / "before.mlir"
            harness.run([harness.tool("tpc-translate"), "--import-onnx", MODELS / f"{name}.onnx", "-o", file]).check()
            tpc_opt(file, "--tpc-step-pipeline", "-o", before).check()
            tpc_opt(file, "--tpc-last-step-pipeline", "-o", own / "step.mlir").check()
        return own

    return make


def verifiers(folder, level):
    """The verifier of facts, and the others of the level."""
    model, staged = folder / "model.mlir", folder / "staged.mlir"
    if level == "step":
        return [], [f"--tpc-verify-generation=reference={folder / 'before.mlir'}"]
    if level == "staged":
        return [f"--tpc-verify-facts=reference={model}"], ["--tpc-verify-comms", f"--tpc-verify-equivalence=reference={model}"]
    facts = [f"--tpc-verify-facts=reference={model} staged={staged}"]
    lowered = ["--tpc-verify-buffers", f"--tpc-verify-lowered=reference={model} staged={staged}"]
    return facts, lowered if level == "buffers" else []


def code(folder, level, *mutation):
    """What is compiled, manifest included; nothing of the module's own attributes."""
    result = tpc_opt(folder / f"{level}.mlir", *mutation, *TO_LLVM[level])
    return result.returncode, re.split(r"^module.*?\{$", result.stdout, maxsplit=1, flags=re.M | re.S)[-1]


def judge(folder, level, kind, seed):
    """Who refuses it; None if the program has no place for a fault of this kind."""
    program = folder / f"{level}.mlir"
    if not program.exists():
        return None
    mutate = f"--tpc-mutate=kind={kind},seed={seed}"

    def refuses(*arguments):
        result = tpc_opt(program, mutate, *arguments, "-o", "/dev/null")
        assert not result.timed_out and result.returncode in (0, 1), f"a verifier hangs or crashes\n{result}"
        return result if result.returncode else None

    facts, others = verifiers(folder, level)
    if refused := refuses(*facts):
        if "has no place for" in refused.stderr:
            return None
        return "facts" if facts and not refuses() else "ops"
    if others and refuses(*others):
        return "others"
    assert level in TO_LLVM, f"nobody refuses {kind}, seed {seed}, of {program}"
    own = code(folder, level, mutate)
    assert own[0] or own == code(folder, level), f"nobody refuses {kind}, seed {seed}, of {program}"
    return "not lowered" if own[0] else "same code"


def run(programs, cases):
    """By kind: how many who has refused. A case is a program, a level, a kind and a seed."""
    folders = {case[0]: programs(*case[0]) for case in cases}
    table = {kind: collections.Counter() for kind in kinds()}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        verdicts = pool.map(lambda case: judge(folders[case[0]], *case[1:]), cases)
        for (_, level, kind, _), verdict in zip(cases, verdicts):
            table[kind][verdict or "no place"] += 1
    columns = ["ops", "facts", "others", "same code", "not lowered", "no place"]
    print(f"\n{'kind':26}", *(f"{column:>12}" for column in columns))
    for kind, row in table.items():
        print(f"{kind:26}", *(f"{row[column]:12}" for column in columns))
    total = sum(table.values(), collections.Counter())
    print(f"{'all':26}", *(f"{total[column]:12}" for column in columns))
    return table, total


def mutants(total):
    return sum(total.values()) - total["no place"]


def test_sample(programs):
    """One place of each kind in the buffers of one program, or of another where it has none; of steps also in the staged program."""
    where = {kind: 2 for kind in kinds() if "constraint" in kind} | {"fact-input-default": 3}
    cases = [(PROGRAMS[where.get(kind, 0)], "buffers", kind, 1) for kind in kinds()]
    cases += [(PROGRAMS[0], "staged", kind, 2) for kind in kinds() if kind.startswith("fact-step")]
    table, total = run(programs, cases)
    assert [kind for kind, row in table.items() if not row["ops"] + row["facts"] + row["others"]] == []
    assert total["facts"] >= 45 and not total["not lowered"]


# Read off the compiler, files and ops: faults in ops are in test_kernel_mutants.py and test_buffer_mutants.py.
NO_FACTS = {"format", "name", "compiler", "grid.sequence_parallel", "groups[][]", "generation.in_flight", "generation.batch", "symbols[]",
            "inputs[].dtype", "inputs[].shape[]", "inputs[].range[]", "inputs[].range_of", "inputs[].range_after[]", "parameters[].init",
            "parameters[].beside", "caches[].stage", "caches[].shape[]", "caches[].axes[][]", "files[].bytes", "files[].digest", "files[].tensors[].digest",
            "files[].tensors[].name", "files[].tensors[].offset", "files[].tensors[].bytes"}


def values(value, path=""):
    """By path, all values of a manifest in order."""
    found = collections.defaultdict(list)
    inner = value.items() if isinstance(value, dict) else [("[]", each) for each in value] if isinstance(value, list) else []
    for name, each in inner:
        for key, more in values(each, path + name if name == "[]" or not path else f"{path}.{name}").items():
            found[key] += more
    if not isinstance(value, (dict, list)):
        found[path] = [value]
    return found


def manifest(folder, *mutation):
    """What an executable of the buffers would be told; nothing where they cannot be lowered."""
    result = tpc_opt("--verify-each=0", folder / "buffers.mlir", *mutation, *TO_LLVM["buffers"])
    texts = re.findall(r'@tpc_manifest\("(.*?)(?:\\00)?"', result.stdout)
    if result.returncode or len(texts) != 1:
        return None
    return values(json.loads(re.sub(rb"\\([0-9A-F]{2})", lambda code: bytes([int(code[1], 16)]), texts[0].encode())))


@pytest.mark.long
def test_each_key_is_changed_by_some_fault(programs):
    """So the sample above is one of all that the executable is told."""
    changed = set()
    for program in (PROGRAMS[0], *PROGRAMS[2:]):
        folder = programs(*program)
        own = manifest(folder)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            mutations = [f"--tpc-mutate=kind={kind},seed={seed}" for kind in kinds() for seed in (0, 1, 2)]
            for other in pool.map(functools.partial(manifest, folder), mutations):
                changed |= {key for key in own.keys() | (other or {}).keys() if other and other.get(key) != own.get(key)}
    rows = set(test_facts.table("Manifest")) - NO_FACTS - test_facts.RARE
    assert {row for row in rows if not any(test_facts.matches(row, key) for key in changed)} == set()


@pytest.mark.long
def test_all(programs):
    cases = [(program, level, kind, seed) for program in PROGRAMS + MORE for level in LEVELS for kind in kinds() for seed in (0, 1)]
    table, total = run(programs, cases)
    assert mutants(total) >= 1000
    # Each kind has a place, and each is refused somewhere.
    assert [kind for kind, row in table.items() if not row["ops"] + row["facts"] + row["others"]] == []

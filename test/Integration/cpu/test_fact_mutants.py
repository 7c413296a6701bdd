"""Faults in facts of programs: rejected at their level, or the executable is equal.

Facts are data that programs contain in addition to ops, such as attributes.
"""

import collections
import concurrent.futures
import functools
import json
import re

import pytest

import harness
import mutants
import test_facts
from models import MODELS
from mutants import tpc_opt

# Programs with sliding-window caches and copies of heads, tables of positions, defaults and masks,
# or a past as an input.
PROGRAMS = [
    ("mistral-dynamo", "tp2,pp2,mb2", "--generate"),
    ("gpt2-tiny-nopast", "tp2,pp2", "--generate"),
    ("gpt2-odd-opset20", "tp2,dp2,sp"),
    ("llama-past", "tp2,pp2,mb2"),
]
# Programs with sources of an encoder-decoder, and with weights in parts.
SOURCES = ("families/bart-decoder", "tp2", "--generate")
PARTS = ("experts/looped", "tp2,ep2")
MORE = [
    SOURCES,
    PARTS,
    ("gemma2-dynamo", "tp2,pp2", "--generate"),
    ("phi3-past", "dp2,pp2,mb2", "--generate"),
    ("bloom-past", "tp2x2"),
    ("gpt2-differing-layers", "pp2"),
]
# Mutants without an effect: capacity + 2 <= 66 follows from capacity <= 64.
EQUAL = {(SOURCES, "preallocated", "fact-constraint-lost", 1)}
TRAINING = ("gpt2-mlp", "tp2,dp2", "--train")
LEVELS = ["step", "preallocated", "staged", "kernels", "buffers"]
TO_LLVM = {
    "staged": ["--tpc-lower-to-llvm"],
    "kernels": ["--tpc-plan-buffers", "--tpc-lower-kernels", "--tpc-lower-program"],
    "buffers": ["--tpc-lower-kernels", "--tpc-lower-program"],
}


def kinds() -> list[str]:
    return mutants.kinds("fact-")


def is_of_training(kind):
    return kind.startswith(("fact-optimizer-", "fact-update"))


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Returns a folder with the program at each level and its references, by model, grid and
    flags.
    """
    folder = tmp_path_factory.mktemp("facts")

    @functools.cache
    def make(name, grid, *flags):
        root = folder / "@".join([name.replace("/", "-"), grid, *flags])
        root.mkdir()
        for level in ("model", "staged", "kernels", "buffers"):
            harness.run(
                [
                    harness.tool("tpcc"),
                    MODELS / f"{name}.onnx",
                    *([] if level == "model" else [f"--megatron-shard={grid}"]),
                    *flags,
                    f"--emit={level}",
                    "-o",
                    root / f"{level}.mlir",
                ]
            ).check()
        if "--generate" in flags:
            file = root / "import.mlir"
            harness.run(
                [
                    harness.tool("tpc-translate"),
                    "--import-onnx",
                    MODELS / f"{name}.onnx",
                    "-o",
                    file,
                ]
            ).check()
            for pipeline, level in (
                ("model", "reference"),
                ("step", "step"),
                ("last-step", "preallocated"),
            ):
                tpc_opt(file, f"--tpc-{pipeline}-pipeline", "-o", root / f"{level}.mlir").check()
        # Verifiers accept the unchanged programs, so that only faults cause errors.
        for level in LEVELS:
            program = root / f"{level}.mlir"
            for verifier in verifiers(root, level).values() if program.exists() else ():
                tpc_opt(program, verifier, "-o", "/dev/null").check()
        return root

    return make


def verifiers(folder, level):
    """Returns the verifiers of the level by name. The verifier of facts runs first; others do not
    run on programs that it rejects.
    """
    model, staged = folder / "model.mlir", folder / "staged.mlir"
    if level in ("step", "preallocated"):
        return {
            "generation": (
                "--tpc-verify-generation=reference="
                f"{folder / ('reference' if level == 'step' else 'step')}.mlir"
            )
        }
    if level == "staged":
        return {
            "facts": f"--tpc-verify-facts=reference={model}",
            "comms": "--tpc-verify-comms",
            "equivalence": f"--tpc-verify-equivalence=reference={model}",
        }
    lowered = {
        "buffers": "--tpc-verify-buffers",
        "lowered": f"--tpc-verify-lowered=reference={model} staged={staged}",
    }
    return {"facts": f"--tpc-verify-facts=reference={model} staged={staged}"} | (
        lowered if level == "buffers" else {}
    )


def code(folder, level, *mutation):
    """Returns the compiled text, including the manifest and excluding attributes of the module."""
    result = tpc_opt(folder / f"{level}.mlir", *mutation, *TO_LLVM[level])
    return (
        result.returncode,
        re.split(r"^module.*?\{$", result.stdout, maxsplit=1, flags=re.M | re.S)[-1],
    )


def judge(folder, level, kind, seed):
    program, mutate = folder / f"{level}.mlir", mutants.mutation(kind, seed)
    if not program.exists():
        return None
    if refused := mutants.refuses(program, mutate):
        return None if mutants.does_not_apply(refused) else {"ops"}
    caught = set()
    for name, verifier in verifiers(folder, level).items():
        if mutants.refuses(program, mutate, verifier):
            caught.add(name)
        if "facts" in caught:
            break
    if caught:
        return caught
    if level not in TO_LLVM:
        return mutants.ACCEPTED
    mutated = code(folder, level, mutate)
    if mutated[0]:
        return {"lowering"}  # the program is not compiled
    return mutants.SAME_CODE if mutated == code(folder, level) else mutants.ACCEPTED


def run(programs, cases, name):
    """Returns the table of kinds and levels. A case is a program, a level, a kind and a seed."""
    folders = {case[0]: programs(*case[0]) for case in cases}
    table = mutants.Table(kinds())

    def verdict(case):
        found = judge(folders[case[0]], *case[1:])
        return mutants.SAME_RESULTS if case in EQUAL and found == mutants.ACCEPTED else found

    table.judge(
        verdict,
        cases,
        lambda case: (case[1], case[2], case),
    )
    return table.report(name)


def test_sample(programs):
    """Tests a mutant of each kind in the buffers of a program to which the kind applies. Kinds of
    steps are also tested in the staged program, and reports in kernels.
    """
    where = {kind: PROGRAMS[2] for kind in kinds() if "constraint" in kind}
    where |= {kind: TRAINING for kind in kinds() if is_of_training(kind)}
    where |= {"fact-input-default": PROGRAMS[3]}
    where |= {"fact-step-source": SOURCES, "fact-weight-parts": PARTS}
    cases = [(where.get(kind, PROGRAMS[0]), "buffers", kind, 1) for kind in kinds()]
    cases += [
        (where.get(kind, PROGRAMS[0]), "staged", kind, 2)
        for kind in kinds()
        if kind.startswith("fact-step")
    ]
    cases += [(PROGRAMS[0], "kernels", "fact-report", seed) for seed in (0, 1)]
    table = run(programs, cases, "sample_of_facts")
    assert table.unrefused() == []
    assert table.by("facts") >= 45 and not table.by("lowering")


# Paths of the manifest that are derived from the compiler version, files and ops. Faults in ops are
# in test_kernel_mutants.py and test_buffer_mutants.py.
NO_FACTS = {
    "format",
    "name",
    "compiler",
    "grid.sequence_parallel",
    "groups[][]",
    "generation.in_flight",
    "generation.batch",
    "symbols[]",
    "inputs[].dtype",
    "inputs[].shape[]",
    "inputs[].range[]",
    "inputs[].range_of",
    "inputs[].range_after[]",
    "inputs[].ignored",
    "parameters[].init",
    "parameters[].beside",
    "caches[].stage",
    "caches[].shape[]",
    "caches[].axes[][]",
    "files[].bytes",
    "files[].digest",
    "files[].tensors[].digest",
    "files[].tensors[].name",
    "files[].tensors[].offset",
    "files[].tensors[].bytes",
}


def values(value, path=""):
    """Returns all values of a manifest in order, by path."""
    found = collections.defaultdict(list)
    inner = (
        value.items()
        if isinstance(value, dict)
        else [("[]", each) for each in value] if isinstance(value, list) else []
    )
    for name, each in inner:
        for key, more in values(
            each, path + name if name == "[]" or not path else f"{path}.{name}"
        ).items():
            found[key] += more
    if not isinstance(value, (dict, list)):
        found[path] = [value]
    return found


def manifest(folder, *mutation):
    """Returns the manifest of an executable of the buffers, or nothing if they cannot be
    lowered.
    """
    result = tpc_opt("--verify-each=0", folder / "buffers.mlir", *mutation, *TO_LLVM["buffers"])
    texts = re.findall(r'@tpc_manifest\("(.*?)(?:\\00)?"', result.stdout)
    if result.returncode or len(texts) != 1:
        return None
    return values(
        json.loads(
            re.sub(rb"\\([0-9A-F]{2})", lambda code: bytes([int(code[1], 16)]), texts[0].encode())
        )
    )


@pytest.mark.long
def test_some_fault_changes_each_key(programs):
    """Some fault changes each key of the manifest, so the sample above covers all its data."""
    changed = set()
    for program in (PROGRAMS[0], *PROGRAMS[2:], SOURCES, PARTS, TRAINING):
        folder = programs(*program)
        original = manifest(folder)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            mutations = [mutants.mutation(kind, seed) for kind in kinds() for seed in (0, 1, 2)]
            for other in pool.map(functools.partial(manifest, folder), mutations):
                changed |= {
                    key
                    for key in original.keys() | (other or {}).keys()
                    if other and other.get(key) != original.get(key)
                }
    rows = set(test_facts.table("Manifest")) - NO_FACTS - test_facts.RARE
    assert {
        row for row in rows if not any(test_facts.matches(row, key) for key in changed)
    } == set()


@pytest.mark.long
def test_all(programs):
    cases = [
        (program, level, kind, seed)
        for program in PROGRAMS + MORE
        for level in LEVELS
        for kind in kinds()
        for seed in (0, 1)
    ]
    table = run(programs, cases, "facts")
    assert table.mutants() >= 1000
    # Some mutant of each kind is rejected.
    assert [kind for kind in table.unrefused() if not is_of_training(kind)] == []


@pytest.mark.long
def test_all_of_training(programs):
    cases = [
        (TRAINING, level, kind, seed)
        for level in LEVELS[2:]
        for kind in kinds()
        for seed in range(3)
    ]
    table = run(programs, cases, "facts_of_training")
    assert [kind for kind in kinds() if is_of_training(kind) and not table.refused(kind)] == []

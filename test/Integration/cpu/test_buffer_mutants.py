"""Seeded faults in memory plans: tpc-verify-buffers rejects each, or results do not change."""

import functools
import json
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest

import harness
import mutants
import training_data
from models import COMMITTED, FAMILIES, MODELS
from mutants import tpc_opt
from training_programs import without_speed

GRIDS = {
    "gpt2-tiny-nopast": ["tp2", "tp2,sp,pp2,mb2"],
    "llama-past": ["tp2,pp2,dp2,mb2", "tp3"],
    "gpt2-odd-opset20": ["tp2x2", "dp2"],
    "falcon-dynamo": ["tp4,sp"],
    "gemma2-past": ["tp2,sp,dp2"],
    # buffer.copy ops (gpt2-mlp); two kernels of the same signature (gpt2-differing-layers).
    "gpt2-mlp": ["pp2,mb2"],
    "gpt2-differing-layers": ["tp2"],
}
# Programs with caches, with and without repeated kv heads.
GENERATING = {
    "llama-past": ["tp4"],
    "mistral-dynamo": ["tp2,pp2,mb2"],
    "gpt2-tiny-nopast": ["tp2,dp2"],
}
# Training steps, which update parameters in place.
TRAINING = {
    "gpt2-tiny-nopast": ["tp2,dp2,mb2", "tp1"],
    "qwen2-dynamo": ["tp2,sp"],
}
PROMPTS = ("3,5,7,11,13", "2")
LOWER = ["--tpc-lower-kernels", "--tpc-lower-program"]


def kinds() -> list[str]:
    return mutants.kinds("buffer-")


def kinds_of_training() -> list[str]:
    return mutants.kinds("buffer-", "update-")


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Returns a function from model, grid and flags to the program on buffers."""
    folder = tmp_path_factory.mktemp("buffers")

    @functools.cache
    def make(name, grid, *flags):
        path = folder / f"{'@'.join([name, grid, *flags])}.mlir"
        harness.run(
            [
                harness.tool("tpcc"),
                MODELS / f"{name}.onnx",
                f"--megatron-shard={grid}",
                *flags,
                "--emit=buffers",
                "-o",
                path,
            ]
        ).check()
        return path

    return make


def judge(program, kind, seed):
    mutate = mutants.mutation(kind, seed)
    if refused := mutants.refuses(program, mutate):
        return None if mutants.does_not_apply(refused) else {"ops"}
    if mutants.refuses(program, mutate, "--tpc-verify-buffers"):
        return {"buffers"}
    code = [tpc_opt(program, *mutation, *LOWER).check().stdout for mutation in ([], [mutate])]
    if code[0] == code[1]:
        return mutants.SAME_CODE
    return (
        mutants.SAME_RESULTS if compute(program) == compute(program, mutate) else mutants.ACCEPTED
    )


def compute(program, *mutate):
    """Returns the outputs for two shapes, or the logits after two prompts, as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        text, executable = Path(folder, "mutant.mlir"), Path(folder, "mutant")
        tpc_opt(program, *mutate, "-o", text).check()
        harness.run([harness.BUILD_STAGED, text, "-o", executable]).check()
        if "--train" in program.stem.split("@"):
            return train(executable, Path(folder))
        if "--generate" in program.stem.split("@"):
            return [logits_of(executable, prompt, Path(folder, "logits.npy")) for prompt in PROMPTS]
        about = json.loads(harness.run([executable, "--describe", "--json"]).check().stdout)
        model = (COMMITTED | FAMILIES)[program.name.split("@")[0]]
        found = []
        for shape in ((3, 5), (2, 1)):
            arguments = []
            for name, array in model.inputs(
                *shape, padding="left" if model.padded else "none", past=2 if model.past_name else 0
            ).items():
                np.save(Path(folder, f"{name}.npy"), array)
                arguments += ["--input", f"{name}={folder}/{name}.npy"]
            for i, output in enumerate(about["outputs"]):
                arguments += ["--output", f"{output['name']}={folder}/out-{i}.npy"]
            harness.run([executable, *arguments]).check()
            found += [
                Path(folder, f"out-{i}.npy").read_bytes() for i in range(len(about["outputs"]))
            ]
    return found


def train(executable, folder):
    """Returns the losses and the saved state of three steps."""
    training_data.make_data(200).tofile(folder / "data.u16")
    flags = ["--data", folder / "data.u16", "--batch", "4", "--sequence", "5", "--steps", "3"]
    flags += ["--lr", "1e-2", "--save", folder / "saved"]
    lines = harness.run([executable, *flags]).check().stdout.splitlines()
    files = sorted((folder / "saved" / "step-3").glob("rank-*"))
    return without_speed(map(json.loads, lines)), [file.read_bytes() for file in files]


def logits_of(executable, prompt, path):
    harness.run(
        [executable, "--prompt-ids", prompt, "--max-new-tokens=4", "--logits", path]
    ).check()
    return path.read_bytes()


def run(programs, cases, name):
    made = {case[:-2]: programs(*case[:-2]) for case in cases}
    table = mutants.Table(kinds_of_training() if "--train" in cases[0] else kinds())
    table.judge(
        lambda case: judge(made[case[:-2]], *case[-2:]),
        cases,
        lambda case: ("buffers", case[-2], case),
    )
    return table.report(name)


@pytest.mark.slow
def test_sample(programs):
    pick = random.Random(1)
    cases = [("llama-past", "tp2,pp2,dp2,mb2", kind, pick.randrange(1000)) for kind in kinds()]
    assert run(programs, cases, "sample_of_buffers").by("buffers") >= 20


@pytest.mark.slow
def test_sample_of_caches(programs):
    pick = random.Random(2)
    cases = [("llama-past", "tp4", "--generate", kind, pick.randrange(1000)) for kind in kinds()]
    table = run(programs, cases, "sample_of_caches")
    assert table.by("buffers") >= 15 and table.by("buffers", "buffer-wrong-state") == 1


@pytest.mark.slow
def test_sample_of_training(programs):
    pick = random.Random(3)
    step = ("gpt2-tiny-nopast", "tp1", "--train")
    # A mark for an operand whose memory no launch passes as a result changes nothing.
    updates = [kind for kind in mutants.kinds("update-") if kind != "update-marks-other"]
    cases = [(*step, kind, pick.randrange(1000)) for kind in kinds_of_training()]
    table = run(programs, cases, "sample_of_updates")
    assert [kind for kind in updates if not table.by("buffers", kind)] == []


@pytest.mark.long
def test_all(programs):
    cases = [
        (name, grid, kind, seed * 37)
        for name, grids in GRIDS.items()
        for grid in grids
        for kind in kinds()
        for seed in range(3)
    ]
    table = run(programs, cases, "buffers")
    assert table.mutants() >= 300
    assert table.unrefused() == ["buffer-wrong-state"]


@pytest.mark.long
def test_all_of_caches(programs):
    cases = [
        (name, grid, "--generate", kind, seed * 37)
        for name, grids in GENERATING.items()
        for grid in grids
        for kind in kinds()
        for seed in range(4)
    ]
    assert run(programs, cases, "caches").mutants() >= 200


@pytest.mark.long
def test_all_of_training(programs):
    cases = [
        (name, grid, "--train", kind, seed * 37)
        for name, grids in TRAINING.items()
        for grid in grids
        for kind in kinds_of_training()
        for seed in range(4)
    ]
    table = run(programs, cases, "updates")
    assert table.mutants() >= 200

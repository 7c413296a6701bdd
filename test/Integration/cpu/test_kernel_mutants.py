"""Seeded faults in kernels and in lowered tensor functions.

tpc-verify-lowered rejects each, or the executable computes the same.
"""

import functools
import random
import threading

import numpy as np
import onnx
import pytest

import harness
import mutants
from halves import as_float, halve
from models import COMMITTED, FAMILIES, MODELS, Model
from mutants import tpc_opt

# A router that compares floats.
EXPERTS = {
    "phimoe": Model(
        MODELS / "experts" / "phimoe.onnx",
        layers=1,
        hidden=16,
        vocab=67,
        batch_name="s72",
        sequence_name="s70",
    )
}
# Rotary embeddings, caches, norms over all heads, f16, soft caps: kernels of every kind.
CASES = [
    ("gpt2-tiny-nopast", "tp2"),
    ("llama-past", "tp2,sp,dp2"),
    ("gemma2-dynamo", "tp3"),
    ("olmo2-past", "pp2,mb2"),
    ("bloom-dynamo", "tp3"),
    ("phi-past", "tp4"),
    ("llama-dynamo.f16", "tp2"),
    ("llama-dynamo.generate", "tp2"),
    ("gpt_neox-past.generate", "pp2,mb2"),
    ("phimoe", "tp2"),
]
# Kinds that need multiplied or divided indices, which occur only in position tables of generated
# graphs.
INAPPLICABLE = ["kernel-factor-dropped", "kernel-float-huge"]


def kinds() -> list[str]:
    return mutants.kinds("kernel-", "lowered-")


class Lowered:
    """A model's program on buffers, with its earlier levels."""

    def __init__(self, name, grid, folder):
        name, _, form = name.partition(".")
        self.model, self.grid, self.folder = (
            (COMMITTED | FAMILIES | EXPERTS)[name],
            harness.Grid.parse(grid),
            folder,
        )
        self.generates = form == "generate"
        path = self.model.path
        if form == "f16":
            path = folder / path.name
            onnx.save(halve(onnx.load(self.model.path), form), path)
        flags = ["--generate"] if self.generates else []
        for level in ("model", "staged", "buffers"):
            harness.run(
                [
                    harness.tool("tpcc"),
                    path,
                    f"--megatron-shard={grid}",
                    *flags,
                    f"--emit={level}",
                    "-o",
                    self.text(level),
                ]
            ).check()
        self.lock, self.expected = threading.Lock(), None

    def text(self, level):
        return self.folder / f"{level}.mlir"

    def verify(self, *arguments):
        """Returns the verifiers that reject the program: those of ops, and tpc-verify-lowered,
        which also runs on programs that the former reject.
        """
        models = f"reference={self.text('model')} staged={self.text('staged')}"
        checks = {"ops": [], "lowered": [f"--tpc-verify-lowered={models}"]}
        results = {}
        for verifier, flags in checks.items():
            each = ["--verify-each=0"] if flags else []
            if result := mutants.refuses(self.text("buffers"), *each, *arguments, *flags):
                results[verifier] = result
        return results

    def run(self, text):
        """Returns the results of an executable of `text` for two shapes, or after two prompts,
        the first of which fills the caches.
        """
        path = text.with_suffix("")
        harness.run([harness.BUILD_STAGED, text, "-o", path]).check()
        if self.generates:
            return [
                {"logits": self.generate(path, prompt, text.parent / f"{path.name}.npy")}
                for prompt in ("3,5,7,11,13", "2")
            ]
        executable = harness.Executable(path, self.grid, text.parent / f"{path.name}-runs")
        past = 3 if self.model.past_name else 0
        names = [output["name"] for output in executable.describe()["outputs"]]
        return [
            executable.run(self.model.inputs(batch, sequence, past=past, seed=batch), names)
            for batch, sequence in ((4, 5), (5, 8))
        ]

    @staticmethod
    def generate(path, prompt, logits):
        harness.run(
            [
                path,
                "--prompt-ids",
                prompt,
                "--max-new-tokens=4",
                "--max-sequence=8",
                "--logits",
                logits,
            ]
        ).check()
        return np.load(logits)

    def outputs(self):
        with self.lock:
            if self.expected is None:
                self.expected = self.run(self.text("buffers"))
            return self.expected


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    @functools.cache
    def make(name, grid):
        program = Lowered(name, grid, tmp_path_factory.mktemp(f"{name}-{grid}"))
        assert program.verify() == {}
        return program

    return make


def judge(program, kind, seed):
    mutate = mutants.mutation(kind, seed)
    refused = program.verify(mutate)
    if refused:
        return None if any(map(mutants.does_not_apply, refused.values())) else refused
    text = program.folder / f"{kind}-{seed}.mlir"
    tpc_opt(program.text("buffers"), mutate, "-o", text).check()
    for before, after in zip(program.outputs(), program.run(text), strict=True):
        for name, expected in before.items():
            # If a cast is omitted, only rounding changes.
            tolerance = 1e-2 if after[name].itemsize == 2 else 1e-5
            computed, expected = as_float(after[name]), as_float(expected)
            largest = np.abs(np.nan_to_num(expected)).max(initial=1e-30)
            if not np.allclose(computed, expected, rtol=0, atol=tolerance * largest):
                return mutants.ACCEPTED
    return mutants.SAME_RESULTS


def run(programs, cases, name):
    lowered = {case[:2]: programs(*case[:2]) for case in cases}
    table = mutants.Table(kinds())
    table.judge(
        lambda case: judge(lowered[case[:2]], *case[2:]),
        cases,
        lambda case: (
            "tensors and kernels" if case[2].startswith("lowered-") else "kernels",
            case[2],
            case,
        ),
    )
    return table.report(name)


def test_there_are_enough_kinds():
    assert len(set(kinds())) == len(kinds()) >= 24


def test_sample(programs):
    """One mutant of each kind."""
    pick = random.Random(1)
    table = run(
        programs,
        [("gpt2-tiny-nopast", "tp2", kind, pick.randrange(1000)) for kind in kinds()],
        "sample_of_kernels",
    )
    assert table.mutants() >= 16
    assert table.alone("ops") >= 1 and table.alone("lowered") >= 12


def test_sample_of_steps(programs):
    """Only steps have a conditional store: that of new keys, after those in a cache."""
    table = run(
        programs,
        [("llama-dynamo.generate", "tp2", kind, 7) for kind in kinds()],
        "sample_of_kernels_of_steps",
    )
    assert table.by("lowered") >= 12
    assert table.by("ops", "kernel-store-always") == table.by("lowered", "kernel-store-always") == 1


@pytest.mark.long
def test_all(programs):
    cases = [
        (name, grid, kind, seed) for name, grid in CASES for kind in kinds() for seed in range(5)
    ]
    table = run(programs, cases, "kernels")
    assert table.mutants() >= 300
    assert [kind for kind in kinds() if not table.mutants(kind)] == INAPPLICABLE

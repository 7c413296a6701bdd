"""References for generation: ONNX Runtime's logits of a whole sequence, and transformers' ids."""

from __future__ import annotations

import functools
import json
import shutil
from dataclasses import dataclass

import numpy as np

import harness
from harness import Executable, Grid, Result
from models import COMMITTED, FAMILIES, MODELS, Model
from tpc import defaults

# If the two largest logits differ by less than this, rounding may decide.
MARGIN = 1e-3

CAUSAL = {name: model for name, model in {**COMMITTED, **FAMILIES}.items() if model.vocab}


@functools.cache
def expected() -> dict[str, list[dict]]:
    """Returns each model's eight prompts, transformers' continuations, and their margins, as
    written by test/Models/expected.py.
    """
    return json.loads((MODELS / "expected.json").read_text())


def full_logits(model: Model, ids) -> np.ndarray:
    """Returns [batch, sequence, vocabulary], computed in one pass without cache and padding."""
    ids = np.asarray(ids, np.int64)
    given = {"input_ids": ids}
    if model.past_name:
        given |= {
            name: np.zeros(
                [
                    {model.batch_name: len(ids), model.past_name: 0}.get(size, size)
                    for size in shape
                ],
                np.float32,
            )
            for name, shape in model.reference.inputs.items()
            if model.past_name in shape and name != "attention_mask"
        }
    ports = defaults.conventional(model.reference.inputs)
    return model.expected(
        defaults.fill(model.reference.inputs, model.reference.types, given, ports)
    )


def decided(margins) -> int:
    """Returns the number of first steps whose tokens are the same for every order of addition."""
    return next((step for step, margin in enumerate(margins) if margin < MARGIN), len(margins))


def margins_of(logits: np.ndarray) -> np.ndarray:
    """Returns the difference of the two largest elements along the last dimension."""
    best = np.sort(np.partition(logits, -2, axis=-1)[..., -2:], axis=-1)
    return best[..., 1] - best[..., 0]


@dataclass
class Generated:
    """The output of a generating program for one prompt: tokens and, with --logits, logits."""

    tokens: list[int]
    logits: np.ndarray | None
    result: Result


def generate(
    program: Executable,
    prompt,
    new: int,
    *arguments: str,
    logits: bool = False,
    transport: str = "threads",
) -> Generated:
    directory = program.scratch / f"run{next(program.runs)}"
    directory.mkdir(parents=True)
    text = ",".join(str(int(one)) for one in prompt)
    flags = ["--prompt-ids", text, "--max-new-tokens", str(new), *arguments]
    if logits:
        flags += ["--logits", str(directory / "logits.npy")]
    result = program.call(flags, transport).check()
    found = np.load(directory / "logits.npy") if logits else None
    shutil.rmtree(directory)
    return Generated([int(token) for token in result.stdout.split()], found, result)


class Toy:
    """A hand-written program (runtime/generate/test/program) whose logits are a hash of all tokens
    of the sequence. They are NaN once the sequence contains POISON.
    """

    VOCABULARY, POSITIONS, POISON = 101, 128, 66
    PROGRAM = harness.BUILD / "test" / "bin" / "tpc-generate-test-program"

    def __init__(self, scratch):
        self.scratch, self.made = scratch, {}

    def program(self, grid: str) -> Executable:
        """Copies the executable, so that its processes can be identified."""
        if grid not in self.made:
            path = self.scratch / f"toy-{len(self.made)}" / "toy"
            path.parent.mkdir(parents=True)
            shutil.copy(self.PROGRAM, path)
            sizes = Grid.parse(grid)
            environment = {
                f"TEST_{axis.upper()}": str(getattr(sizes, axis))
                for axis in ("tp", "pp", "dp", "mb")
            }
            environment |= {
                "TEST_MOST": str(self.POSITIONS),
                "TPC_RUNTIME_DIR": str(harness.BUILD / "lib"),
            }
            self.made[grid] = Executable(path, sizes, path.parent, environment=environment)
        return self.made[grid]

    @classmethod
    def prompts(cls, lengths=(1, 2, 3, 5, 9, 14, 20, 30)) -> list[list[int]]:
        random = np.random.default_rng(0)
        return [random.integers(0, cls.POISON, length).tolist() for length in lengths]

"""Textual programs of tpcc --generate, compiled from each level up to staged.

They generate the same bits as the program of the file. The verifiers prove them against the file,
or against the step that --emit=model writes.
"""

import numpy as np
import pytest

from generation import generate
from harness import Executable, Grid, run, tool
from models import FAMILIES

MODEL, GRID = FAMILIES["mistral-past"], Grid.parse("tp2,pp2")
LEVELS = ["model", "sharded", "spmd", "staged"]
PROMPT = np.arange(11) % MODEL.vocab


@pytest.fixture(scope="module")
def texts(tpcc, tmp_path_factory):
    folder = tmp_path_factory.mktemp("levels")
    for level in [*LEVELS, "kernels", "buffers"]:
        tpcc.call(
            [
                MODEL.path,
                "--generate",
                f"--megatron-shard={GRID}",
                f"--emit={level}",
                "-o",
                folder / f"{level}.mlir",
            ]
        ).check()
    return folder


@pytest.mark.parametrize("level", LEVELS)
def test_same_bits(tpcc, texts, tmp_path, level):
    direct = generate(
        tpcc.compile(MODEL.path, GRID, "--generate", "-O0"),
        PROMPT,
        6,
        "--prefill-chunk",
        "4",
        logits=True,
    )
    made = tpcc.call(
        [
            texts / f"{level}.mlir",
            f"--megatron-shard={GRID}",
            f"--reference={MODEL.path}",
            "-O0",
            "-o",
            tmp_path / "step",
        ]
    )
    assert "warning" not in made.check().stderr
    program = Executable(tmp_path / "step", GRID, tmp_path)
    again = generate(program, PROMPT, 6, "--prefill-chunk", "4", logits=True)
    assert (
        again.tokens == direct.tokens
        and (again.logits.view(np.uint32) == direct.logits.view(np.uint32)).all()
    )
    assert program.describe()["not_verified"] == ""


def test_unproved_programs_are_reported(tpcc, texts, tmp_path):
    """Without a reference nothing is proved. If the reference is a step itself,
    tpc-verify-generation has no model to compare the step with.
    """
    for level, reference, words in [
        ("staged", [], "tpc-verify-equivalence, tpc-verify-generation"),
        ("model", [], "tpc-verify-generation"),
        ("staged", [f"--reference={texts / 'model.mlir'}"], "tpc-verify-generation"),
    ]:
        made = tpcc.call([texts / f"{level}.mlir", *reference, "-O0", "-o", tmp_path / "step"])
        assert "a model: name the model with --reference" in made.check().stderr, level
        output = Executable(tmp_path / "step", GRID, tmp_path).call(["--describe"]).check().stdout
        assert (
            f"NOT VERIFIED: compiled without {words} (it was compiled from text"
            in output.replace("\n", " ")
        ), (
            level,
            output,
        )


def test_an_edited_step_is_refused(tpcc, texts, tmp_path):
    text = (texts / "staged.mlir").read_text()
    assert " causal " in text
    (tmp_path / "edited.mlir").write_text(text.replace(" causal ", " ", 1))
    for reference in (MODEL.path, texts / "model.mlir"):
        tpcc.call(
            [tmp_path / "edited.mlir", f"--reference={reference}", "-o", tmp_path / "step"]
        ).refused("does not compute")


@pytest.mark.parametrize("level", ["kernels", "buffers"])
def test_kernels_cannot_be_compiled_further(tpcc, texts, tmp_path, level):
    tpcc.call([texts / f"{level}.mlir", "-o", tmp_path / "step"]).refused(
        "--emit=staged", f"{level}.mlir:"
    )


def test_refused(tpcc, texts, tmp_path):
    step, out = texts / "model.mlir", ["-o", tmp_path / "step"]
    tpcc.call([step, "--generate", *out]).refused("--generate", "is a step of a generation already")
    tpcc.call([MODEL.path, f"--reference={step}", *out]).refused(
        "--reference", "is a generation step"
    )
    layers = tmp_path / "layers.mlir"
    tpcc.call([MODEL.path, "--emit=model", "-o", layers]).check()
    tpcc.call([step, f"--reference={layers}", *out]).refused("--reference", "--emit=import")
    # A step whose caches are inputs and outputs.
    imported, unplaced = tmp_path / "imported.mlir", tmp_path / "unplaced.mlir"
    tpcc.call([MODEL.path, "--emit=import", "-o", imported]).check()
    run([tool("tpc-opt"), imported, "--tpc-step-pipeline", "-o", unplaced]).check()
    tpcc.call([unplaced, *out]).refused("unplaced.mlir", "is not a step on preallocated caches")

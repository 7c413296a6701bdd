"""tpcc on textual programs: the output of --emit compiles to the same executable.

Edited or damaged text is reported with its location and crashes nothing.
"""

import json
import random
import re

import numpy as np
import pytest

from harness import Grid, run, tool
from models import MODELS

TINY, ODD = MODELS / "gpt2-tiny.onnx", MODELS / "gpt2-odd-opset20.onnx"
LEVELS = ["import", "model", "sharded", "spmd", "staged"]
CASES = [(TINY, "tp2,pp2"), (ODD, "tp3,sp"), (TINY, "tp2x2,dp2,mb2")]


def emit(tpcc, model, grid, level, path, *flags):
    tpcc.call([model, f"--megatron-shard={grid}", f"--emit={level}", *flags, "-o", path]).check()
    return path


@pytest.mark.parametrize(
    "model, grid",
    [pytest.param(*case, marks=[pytest.mark.long] if case != CASES[2] else []) for case in CASES],
    ids=lambda v: getattr(v, "stem", v),
)
def test_the_same_executable(tpcc, tmp_path, model, grid):
    direct = tpcc.compile(model, grid)
    ids = {"input_ids": np.arange(12).reshape(3, 4)}
    expected, described = direct.run(ids)["logits"], direct.describe()
    for level in LEVELS:
        text = emit(tpcc, model, grid, level, tmp_path / f"{model.stem}-{level}.mlir")
        early = [f"--megatron-shard={grid}"] if level in ("import", "model") else []
        path = tmp_path / model.stem
        tpcc.call([text, *early, f"--reference={model}", "-o", path]).check()
        again = type(direct)(path, Grid.parse(grid), tmp_path / level)
        np.testing.assert_array_equal(again.run(ids)["logits"], expected, err_msg=level)
        assert again.describe() == described, level


def test_unproved_programs_are_reported(tpcc, tmp_path):
    text = emit(tpcc, TINY, "tp2", "staged", tmp_path / "staged.mlir", "--plain")
    result = tpcc.call([text, "-o", tmp_path / "unproved"]).check()
    assert "not proved" in result.stderr and "--reference" in result.stderr
    unproved = tpcc.compile(text, "tp2")
    skipped = json.loads(unproved.call(["--describe", "--json"]).check().stdout)["not_verified"]
    assert skipped.startswith("tpc-verify-equivalence")
    assert f"NOT VERIFIED: compiled without {skipped}" in unproved.call(["--describe"]).stdout
    # Marks of verification in the text have no effect: the program is verified again.
    marked = tmp_path / "marked.mlir"
    marked.write_text(
        re.sub(
            r"attributes \{",
            'attributes {tpc.not_verified = "all", tpc.schedule = "0000000000000000", ',
            re.sub(r'tpc.schedule = "\w+", ', "", text.read_text()),
            count=1,
        )
    )
    tpcc.call([marked, f"--reference={TINY}", "-o", tmp_path / "proved"]).check()
    proved = type(unproved)(tmp_path / "proved", Grid(tp=2), tmp_path / "runs")
    assert proved.describe() == tpcc.compile(TINY, "tp2").describe() | {"name": "proved"}


def test_edits_are_compared_with_the_reference(tpcc, tmp_path):
    for level in ("sharded", "spmd", "staged"):
        text = emit(tpcc, TINY, "tp2", level, tmp_path / f"{level}.mlir")
        edited = tmp_path / f"edited-{level}.mlir"
        edited.write_text(text.read_text().replace("tpc.gelu tanh", "tpc.gelu none"))
        assert edited.read_text() != text.read_text()
        tpcc.call([edited, f"--reference={TINY}", "-o", tmp_path / "no"]).refused("tpc.gelu")
        tpcc.call([edited, "-o", tmp_path / "yes"]).check()


def test_errors_name_nodes(tpcc, tmp_path):
    """Errors name nodes of the model and, if the text has locations, of the program."""
    model = re.escape("node_mul_11")
    text = emit(tpcc, TINY, "tp2", "staged", tmp_path / "staged.mlir").read_text()
    edited = tmp_path / "edited.mlir"
    edited.write_text(text.replace("tpc.gelu tanh", "tpc.gelu none"))
    line = next(
        i for i, words in enumerate(edited.read_text().splitlines(), 1) if "tpc.gelu none" in words
    )
    result = tpcc.call([edited, f"--reference={TINY}", "-o", tmp_path / "no"]).refused(
        f"edited.mlir:{line}:"
    )
    assert re.search(f"note: node '{model}': the model's", result.stderr)

    located = (
        run([tool("tpc-translate"), "--import-onnx", TINY, "--mlir-print-debuginfo"]).check().stdout
    )
    edited.write_text(located.replace("tpc.tanh", "tpc.exp"))
    result = tpcc.call(
        [edited, "--megatron-shard=tp2", f"--reference={TINY}", "-o", tmp_path / "no"]
    ).refused()
    assert re.search(f"error: node '{model}' ", result.stderr), result.stderr
    edited.write_text(located)
    tpcc.call(
        [edited, "--megatron-shard=tp2", f"--reference={TINY}", "-o", tmp_path / "yes"]
    ).check()


@pytest.mark.parametrize("level", ["model", "staged"])
def test_programs_contain_the_paths_of_weights(tpcc, tmp_path, level):
    """Weights of a program are not read from --weights."""
    text = emit(tpcc, TINY, "tp2", level, tmp_path / f"{level}.mlir")
    for weights in (TINY.parent, TINY, tmp_path / "nothing"):
        early = ["--megatron-shard=tp2"] if level == "model" else []
        tpcc.call(
            [text, *early, f"--weights={weights}", f"--reference={TINY}", "-o", tmp_path / "no"]
        ).refused("--weights", f"{level}.mlir", "the executable has the same flag")
    assert not (tmp_path / "no").exists()


def test_damaged_text_is_rejected(tpcc, tmp_path):
    text = emit(tpcc, TINY, "tp2", "staged", tmp_path / "staged.mlir").read_text()
    spmd = emit(tpcc, TINY, "tp2", "spmd", tmp_path / "spmd.mlir", "--plain").read_text()
    damaged = tmp_path / "damaged.mlir"

    def refuse(content, *words, flags=()):
        damaged.write_bytes(content if isinstance(content, bytes) else content.encode())
        result = tpcc.call([damaged, *flags, "-o", tmp_path / "no"]).refused(*words)
        assert "report this" not in result.stderr
        return result

    refuse(text.replace("tpc.matmul", "tpc.matmull", 1), "damaged.mlir:", "tpc.matmull")
    refuse(text[: len(text) // 2], "damaged.mlir:")
    refuse("", "no function @main")
    refuse("module {\n}\n", "no function @main")
    refuse(b"ML\xefR\x0dtpc", "bytecode", "must be text")
    refuse(spmd.replace("func.func @main", "func.func @other"), "no function @main")
    refuse(re.sub(r"tpc.mesh = #tpc.mesh<[^>]*>, ", "", spmd), "damaged.mlir:", "no tpc.mesh")
    refuse(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %y = arith.addf %x, %x :"
        " tensor<2xf32>\n  return %y : tensor<2xf32>\n}\n",
        "damaged.mlir:2:",
        "arith.addf",
    )
    refuse(
        "func.func @main(%x: i32) -> i32 {\n  return %x : i32\n}\n",
        "damaged.mlir:1:",
        "must be a tensor",
    )
    refuse(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %y = call @main(%x) :"
        " (tensor<2xf32>) -> tensor<2xf32>\n  return %y : tensor<2xf32>\n}\n",
        "damaged.mlir:2:",
        "calls itself",
    )
    refuse(
        "func.func private @main(tensor<2xf32>) -> tensor<2xf32>\n", "damaged.mlir:1:", "no body"
    )
    # One value is of an earlier level.
    mixed = re.sub(r"(tpc.all_reduce .*?), local>>\n", r"\1>>\n", spmd, count=1)
    assert mixed != spmd
    refuse(mixed, "damaged.mlir:")
    refuse(text, "differs from the grid", "tp2", flags=["--megatron-shard=tp4"])
    refuse(text, "level staged already", flags=["--emit=model"])
    refuse(text, "level staged already", flags=["--explain"])
    refuse(text, "level staged", flags=[f"--reference={tmp_path / 'staged.mlir'}"])
    tpcc.call(
        [
            tmp_path / "staged.mlir",
            "--megatron-shard=tp2",
            f"--reference={TINY}",
            "-o",
            tmp_path / "yes",
        ]
    ).check()


def edits(text, count, seed):
    """Yields mutations of a text: lines are removed, duplicated or swapped; words or numbers are
    removed, inserted or changed.
    """
    random_ = random.Random(seed)
    lines = text.splitlines()
    for _ in range(count):
        edited = list(lines)
        for _ in range(random_.choice([1, 1, 1, 2, 3])):
            at, other = random_.randrange(len(edited)), random_.randrange(len(edited))
            kind = random_.randrange(6)
            words = re.split(r"(\W+)", edited[at])
            word = random_.randrange(len(words))
            if kind == 0:
                del edited[at]
            elif kind == 1:
                edited.insert(other, edited[at])
            elif kind == 2:
                edited[at], edited[other] = edited[other], edited[at]
            elif kind == 3:
                words[word] = random_.choice(re.split(r"(\W+)", edited[other]))
                edited[at] = "".join(words)
            elif kind == 4:
                edited[at] = re.sub(
                    r"\d+",
                    lambda m: str(random_.choice([0, 1, 2, 3, 7, 1 << 40])),
                    edited[at],
                    count=random_.choice([0, 1]),
                )
            else:
                del words[word]
                edited[at] = "".join(words)
        yield "\n".join(edited) + "\n"


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 10))]
)
def test_edited_text_never_crashes_the_compiler(tpcc, tmp_path, seed):
    model, grid = CASES[seed % len(CASES)]
    level = ["staged", "spmd", "sharded", "model"][seed // 2 % 4]
    text = emit(tpcc, model, grid, level, tmp_path / "whole.mlir").read_text()
    edited = tmp_path / "edited.mlir"
    for content in edits(text, 15 if seed == 0 else 100, seed):
        edited.write_text(content)
        early = [f"--megatron-shard={grid}"] if level == "model" else []
        result = tpcc.call([edited, *early, "--emit=obj", "-o", tmp_path / "edited.o"], timeout=60)
        if result.returncode:
            result.refused()
            assert "report this" not in result.stderr, str(result)

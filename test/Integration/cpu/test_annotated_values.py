"""Annotated models: annotations add uses of values, but do not affect recognition."""

import hashlib
import re

import pytest

from harness import run, tool
from models import MODELS

# Models of several exporters: fused projections, rotary embeddings, caches, soft caps, ALiBi.
WRITTEN = [
    "gpt2-tiny-nopast",
    "gpt2-tiny",
    "llama-past",
    "gemma2-dynamo",
    "falcon-dynamo",
    "bloom-past",
    "gpt_neox-past",
]


def recognition(tmp_path):
    """Returns the model-level passes between materializing and attaching annotations."""
    empty = tmp_path / "empty.mlir"
    empty.write_text("module {}\n")
    dump = (
        run([tool("tpc-opt"), empty, "--tpc-model-pipeline", "--dump-pass-pipeline"]).check().stderr
    )
    passes = "".join(re.search(r"builtin\.module\(.*\n\)", dump, re.S)[0].split())
    between = re.fullmatch(
        r"(.*\btpc-materialize-annotations,.*),tpc-attach-annotations,.*\)", passes
    )
    return between[1] + ")"


def annotate(text):
    """Annotates every value with `?` in each dimension, which has no effect."""
    lines, annotations = [], []
    for line in text.splitlines():
        if line.strip().startswith("return"):
            lines += annotations
        lines.append(line)
        if made := re.match(r"\s*(%\w+) = tpc\.", line):
            of = re.split(r" -> | : ", line)[-1]
            entries = ", ".join(
                ["unit"] * len(re.match(r"tensor<((?:[?\d]+x)*)", of)[1].split("x")[1:])
            )
            annotations.append(
                f'  tpc.annotation {made[1]} "value" {{sharding = [{entries}]}} : {of}'
            )
    return "\n".join(lines) + "\n", len(annotations)


def computations(text):
    """Returns the computations of a program, independent of the order of ops."""
    values, found = {}, {}
    for line in text.splitlines():
        if line.strip().startswith("func.func"):
            values = {}
        left, equals, right = line.strip().partition(" = ")
        results = left if equals and left.startswith("%") else ""
        body = re.sub(
            r"%[\w#]+",
            lambda match: values.get(match[0], match[0]),
            right if results else line.strip(),
        )
        digest = hashlib.sha1(body.encode()).hexdigest()
        found[digest] = line
        if results:
            name, _, count = results.partition(":")
            values[name] = digest
            values |= {f"{name}#{i}": f"{digest}#{i}" for i in range(int(count or 0))}
    return found


@pytest.mark.parametrize("name", WRITTEN)
def test_annotations_do_not_affect_recognition(tmp_path, name):
    passes, path = recognition(tmp_path), tmp_path / "program.mlir"

    def recognize(text):
        path.write_text(text)
        text = run([tool("tpc-opt"), path, f"--pass-pipeline={passes}"]).check().stdout
        path.write_text(re.sub(r".*tpc\.annotation.*\n", "", text))
        return run([tool("tpc-opt"), path, "--cse", "--tpc-outline-layers"]).check().stdout

    imported = (
        run([tool("tpcc"), MODELS / f"{name}.onnx", "--emit=import", "--plain"]).check().stdout
    )
    annotated, count = annotate(imported)
    assert count > 100
    ours, others = computations(recognize(annotated)), computations(recognize(imported))
    assert not [line for digest, line in ours.items() if digest not in others]
    assert not [line for digest, line in others.items() if digest not in ours]

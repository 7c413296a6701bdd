#!/usr/bin/env python3
"""Demonstration: four ranks write a story, and compute the same logits as one rank.

./setup demo            builds first; or: tools/demo.py [--build DIR]
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "python"))

from tpc import reference  # noqa: E402

SPEC = "tp2,pp2"
PROMPT = "Once upon a time"
BATCH, SEQUENCE, VOCABULARY = 2, 32, 192
KIBI = 1024


def relative(path):
    return path.relative_to(TOP) if path.is_relative_to(TOP) else path


def run(*command):
    """Prints and runs a command. Returns its output and run time in seconds; exits if it fails."""
    words = [str(relative(word)) if isinstance(word, Path) else str(word) for word in command]
    print("   $", shlex.join(words), flush=True)
    start = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(TOP / "python")}
    result = subprocess.run(
        words, cwd=TOP, stdout=subprocess.PIPE, text=True, check=False, env=environment
    )
    if result.returncode:
        sys.exit(f"demo: this command failed with exit status {result.returncode}")
    return result.stdout, time.monotonic() - start


def print_table(header, rows):
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        cells = [
            str(cell).ljust(width) if isinstance(cell, str) else str(cell).rjust(width)
            for cell, width in zip(row, widths)
        ]
        print("     " + "  ".join(cells).rstrip())


def show_split(description):
    rows = []
    for rank in description["ranks"]:
        coordinates = rank["coordinates"]
        rows.append(
            (
                rank["rank"],
                coordinates["tp"],
                coordinates["pp"],
                rank["stage"],
                f"{rank['weight_bytes'] / KIBI:.1f} KiB",
            )
        )
    print_table(("rank", "tp", "pp", "stage", "weights"), rows)


def show_communication(report):
    rows = [
        (row["stage"], row["axis"], row["kind"], row["count"], row["bytes"])
        for row in report["collectives"]
    ]
    print_table(("stage", "axis", "kind", "count", "bytes"), rows)


def show_text(tpcc, model, work):
    """Compiles the model for generation over four ranks; prints a prompt and its text."""
    print(f"\n== Text: {relative(model)} over four ranks, {SPEC}")
    program = work / "stories"
    run(tpcc, model, f"--megatron-shard={SPEC}", "--generate", "-o", program)
    text, _ = run(
        Path(sys.executable),
        "-m",
        "tpc.generate",
        program,
        "--tokenizer",
        model.parent,
        "--prompt",
        PROMPT,
    )
    print(f"   prompt: {PROMPT}")
    print(
        textwrap.indent(
            textwrap.fill(f"text:   {text.strip()}", 92, subsequent_indent=" " * 8), "   "
        )
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=TOP / "build")
    options = parser.parse_args()
    build = options.build.resolve()
    tpcc = build / "bin" / "tpcc"
    model = TOP / "test" / "Models" / "stories" / "stories.onnx"
    work = build / "demo"
    work.mkdir(exist_ok=True)
    whole, split, report = work / "whole", work / "split", work / "report.json"
    shape = f"batch={BATCH},sequence={SEQUENCE}"

    show_text(tpcc, model, work)

    print(f"\n== Compile for logits: whole, and partitioned by {SPEC}")
    _, seconds_whole = run(tpcc, model, "-o", whole)
    _, seconds_split = run(
        tpcc,
        model,
        f"--megatron-shard={SPEC}",
        "-o",
        split,
        f"--report={relative(report)}",
        "--shape",
        shape,
    )
    print(f"   {seconds_whole:.1f} s and {seconds_split:.1f} s")

    print(f"\n== Run both: {BATCH} sequences of {SEQUENCE} tokens")
    ids = np.random.default_rng(7).integers(0, VOCABULARY, (BATCH, SEQUENCE))
    np.save(work / "ids.npy", ids)
    logits = {}
    for program in (whole, split):
        output = work / f"{program.name}-logits.npy"
        run(
            program,
            "--input",
            f"input_ids={relative(work / 'ids.npy')}",
            "--output",
            f"logits={relative(output)}",
        )
        logits[program] = np.load(output)

    print("\n== Weights of each rank")
    described, _ = run(split, "--describe", "--json")
    show_split(json.loads(described))
    described, _ = run(whole, "--describe", "--json")
    bytes_whole = sum(rank["weight_bytes"] for rank in json.loads(described)["ranks"])
    print(f"     the whole model: {bytes_whole / KIBI:.1f} KiB")

    print("\n== Communication of one rank of each stage, in one step")
    show_communication(json.loads(report.read_text()))

    print("\n== The result")
    expected = reference.Session(model).run({"input_ids": ids})["logits"]
    failed = False
    for name, other in (("the whole model", logits[whole]), ("ONNX Runtime", expected)):
        distance = reference.difference(logits[split], other)
        same = distance.relative <= reference.TOLERANCE
        failed |= not same
        print(f"   partitioned against {name}: {distance}: {'equal' if same else 'NOT EQUAL'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

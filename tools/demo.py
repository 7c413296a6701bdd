#!/usr/bin/env python3
"""The main job, small: a GPT-2 split over four ranks computes what the whole one computes.

    ./setup demo            builds first; or: tools/demo.py [--build DIR]
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "python"))

from tpc import reference  # noqa: E402

SPEC = "tp2,pp2"
BATCH, SEQUENCE, VOCABULARY = 2, 32, 1000
KIBI = 1024


def relative(path):
    return path.relative_to(TOP) if path.is_relative_to(TOP) else path


def run(*command):
    """Runs and shows a command; ends the demonstration if it fails."""
    words = [str(relative(word)) if isinstance(word, Path) else str(word) for word in command]
    print("   $", " ".join(words), flush=True)
    start = time.monotonic()
    result = subprocess.run(words, cwd=TOP, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        sys.exit(f"demo: this command failed with exit status {result.returncode}")
    return result.stdout, time.monotonic() - start


def table(header, rows):
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        cells = [str(cell).ljust(width) if isinstance(cell, str) else str(cell).rjust(width)
                 for cell, width in zip(row, widths)]
        print("     " + "  ".join(cells).rstrip())


def show_split(description):
    rows = []
    for rank in description["ranks"]:
        place = rank["coordinates"]
        rows.append((rank["rank"], place["tp"], place["pp"], rank["stage"],
                     f"{rank['weight_bytes'] / KIBI:.1f} KiB"))
    table(("rank", "tp", "pp", "stage", "weights"), rows)


def show_communication(report):
    rows = [(row["stage"], row["axis"], row["kind"], row["count"], row["bytes"])
            for row in report["collectives"]]
    table(("stage", "axis", "kind", "count", "bytes"), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=TOP / "build")
    options = parser.parse_args()
    build = options.build.resolve()
    tpcc = build / "bin" / "tpcc"
    model = TOP / "test" / "Models" / "gpt2-tiny.onnx"
    work = build / "demo"
    work.mkdir(exist_ok=True)
    whole, split, report = work / "gpt2-whole", work / "gpt2-split", work / "report.json"
    shape = f"batch={BATCH},sequence={SEQUENCE}"

    print(f"\n== Compile {relative(model)}: whole, and split {SPEC}")
    _, seconds_whole = run(tpcc, model, "-o", whole)
    _, seconds_split = run(tpcc, model, f"--megatron-shard={SPEC}", "-o", split,
                           f"--report={relative(report)}", "--shape", shape)
    print(f"   {seconds_whole:.1f} s and {seconds_split:.1f} s")

    print(f"\n== Run both: {BATCH} sequences of {SEQUENCE} tokens")
    ids = np.random.default_rng(7).integers(0, VOCABULARY, (BATCH, SEQUENCE))
    np.save(work / "ids.npy", ids)
    logits = {}
    for program in (whole, split):
        output = work / f"{program.name}-logits.npy"
        run(program, "--input", f"input_ids={relative(work / 'ids.npy')}",
            "--output", f"logits={relative(output)}")
        logits[program] = np.load(output)

    print("\n== What was split: each rank's place and the weights it holds")
    described, _ = run(split, "--describe", "--json")
    show_split(json.loads(described))
    described, _ = run(whole, "--describe", "--json")
    bytes_whole = sum(rank["weight_bytes"] for rank in json.loads(described)["ranks"])
    print(f"     the whole model: {bytes_whole / KIBI:.1f} KiB")

    print("\n== What was communicated: by one rank of each stage, in one step")
    show_communication(json.loads(report.read_text()))

    print("\n== The result")
    expected = reference.Session(model).run({"input_ids": ids})["logits"]
    failed = False
    for name, other in (("the whole program", logits[whole]), ("ONNX Runtime", expected)):
        distance = reference.difference(logits[split], other)
        same = distance.relative <= reference.TOLERANCE
        failed |= not same
        print(f"   split against {name}: {distance}: {'the same' if same else 'NOT THE SAME'}")
    best = logits[split][0, -1].argmax()
    print(f"   logits {list(expected.shape)}; after the first sequence, token {best} is the likeliest")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

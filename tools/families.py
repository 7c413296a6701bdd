#!/usr/bin/env python3
"""Writes README's table of model families and exporters, and the numbers of grids above it. A cell
has the opsets of the files in test/Models whose results a test compares with ONNX Runtime's.

    tools/families.py [--check]
"""

import argparse
import collections
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path[:0] = [
    str(TOP / folder)
    for folder in ("python", "test/Models", "test/Integration", "test/Integration/cpu")
]

import make  # noqa: E402
import models  # noqa: E402
import test_families  # noqa: E402
import test_numbers  # noqa: E402

BEGIN, END = "<!-- Written by tools/families.py -->", "<!-- End -->"
NAMES = {
    "gpt2": "GPT-2",
    "llama": "LLaMA",
    "mistral": "Mistral",
    "qwen2": "Qwen2",
    "phi": "Phi",
    "gpt_neox": "GPT-NeoX",
    "bloom": "BLOOM",
    "falcon": "Falcon",
    "olmo2": "OLMo2",
    "gemma2": "Gemma-2",
    "mpt": "MPT",
    "gpt_neo": "GPT-Neo",
    "phi3": "Phi-3",
    "opt": "OPT",
    "gptj": "GPT-J",
    "codegen": "CodeGen",
}
FLAVORS = ["dynamo", "dynamo-past", "optimum-nopast", "optimum-past"]


def is_tested_on_grids(name):
    return name in models.FAMILIES or name.startswith("gpt2-odd")


def count_grids():
    return f"{len(test_families.GRIDS)} grids (GPT-2: {len(test_numbers.ALL)})"


def table():
    cells = collections.defaultdict(lambda: collections.defaultdict(set))
    for name, words in make.MODELS.items():
        if is_tested_on_grids(name):
            found = re.search(r"--flavor (\S+)", words)
            opset = (re.search(r"--opset (\d+)", words) or [0, "20"])[1]  # the default
            cells[words.split()[0]][found[1] if found else "dynamo"].add(int(opset))
    yield "| | " + " | ".join(f"`{flavor}`" for flavor in FLAVORS) + " |"
    yield "|---" * (len(FLAVORS) + 1) + "|"
    rows = collections.defaultdict(list)
    for family, row in cells.items():
        opsets = [", ".join(map(str, sorted(row[flavor]))) for flavor in FLAVORS]
        rows[" | ".join(f"✓ {text}" if text else "" for text in opsets)].append(NAMES[family])
    for ticks, families in rows.items():
        yield f"| {', '.join(families)} | {ticks} |"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the table is stale"
    )
    options = parser.parse_args()
    page = TOP / "README.md"
    text = page.read_text()
    before, rest = text.split(BEGIN)
    before, count = re.subn(r"\d+ grids \(GPT-2: \d+\)", count_grids(), before)
    assert count == 1, "README.md lacks 'N grids (GPT-2: N)' above the table"
    new = before + BEGIN + "\n\n" + "\n".join(table()) + "\n\n" + END + rest.split(END, 1)[1]
    if options.check:
        if new != text:
            sys.exit("README.md is stale: run tools/families.py")
    elif new != text:
        page.write_text(new)
        print("wrote README.md")


if __name__ == "__main__":
    main()

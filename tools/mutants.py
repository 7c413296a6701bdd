#!/usr/bin/env python3
"""Writes docs/reference/mutants.md from all mutants of the long tests.

    tools/mutants.py [FOLDER]

FOLDER has the tables that the tests wrote: TPC_MUTANT_TABLES=FOLDER pytest --long
cpu/test_*mutants.py. Without FOLDER, this script runs the tests, which takes an hour on two cores.
"""

import argparse
import collections
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
TESTS = TOP / "test" / "Integration"
# Section title -> names of its tables.
GROUPS = {
    "partitioned programs": ["partitioned"],
    "steps": ["steps"],
    "preallocated steps": ["preallocated"],
    "windows, caps and masks": ["limits"],
    "kernels and constants": ["kernels"],
    "plans of memory": ["buffers", "caches"],
    "columns of merged matmuls": ["columns"],
    "mixtures of experts": ["experts"],
    "quantized weights": ["quantized"],
    "training": ["training", "gradients"],
    "facts (names, constraints, locations of weights)": ["facts"],
}
# Forms of the program that gets the fault.
LEVELS = ["model", "step", "preallocated", "staged", "kernels", "tensors and kernels", "buffers"]
COMMAND = "TPC_MUTANT_TABLES=FOLDER pytest --long cpu/test_*mutants.py"
BEGIN = "<!-- Written by tools/mutants.py; do not edit. -->\n"
INTRODUCTION = """\
[Seeded faults](../design/verification-proofs.md#seeded-faults) describes the faults and the tests.
*Alone*: no other verifier rejects the mutant. A mutant that no verifier rejects must compile to the
same code or compute the same results. *Level*: the form of the program that gets the fault.
"""


def run_tests(folder):
    files = sorted(TESTS.glob("cpu/test_*mutants.py"))
    environment = os.environ | {"TPC_MUTANT_TABLES": str(folder), "PYTHONPATH": str(TOP / "python")}
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--long", "-k", "test_all", *files],
        cwd=TESTS,
        env=environment,
        check=True,
    )


def read(folder, names):
    """Returns the number of mutants by verdict, for each kind and level."""
    rows = collections.defaultdict(collections.Counter)
    for name in names:
        for kind, level, verdict, n in json.loads((folder / f"{name}.json").read_text()):
            rows[kind, level][verdict if isinstance(verdict, str) else tuple(verdict)] += n
    return rows


def cells(verdicts):
    """Returns the cells of a row: mutants, rejected, verifiers, shown equal, accepted."""
    rejected = {names: n for names, n in verdicts.items() if isinstance(names, tuple)}
    by = []
    for verifier in sorted({name for names in rejected for name in names}):
        n = sum(n for names, n in rejected.items() if verifier in names)
        alone = rejected.get((verifier,), 0)
        by.append(
            f"{verifier} {n:,}" + (f" ({alone:,} alone)" if len(rejected) > 1 and alone else "")
        )
    equal = [
        f"{text}: {verdicts[text]:,}" for text in ("same code", "same results") if verdicts[text]
    ]
    return [
        f"{sum(verdicts.values()):,}",
        f"{sum(rejected.values()):,}",
        ", ".join(by) or "-",
        ", ".join(equal) or "-",
        f"{verdicts['accepted']:,}",
    ]


def table(first, rows):
    lines = [[*first, "mutants", "rejected", "by", "shown equal", "accepted"], *rows]
    texts = [f"| {' | '.join(line)} |\n" for line in lines]
    return "".join([texts[0], "|---" * len(lines[0]) + "|\n", *texts[1:]])


def order(row):
    return LEVELS.index(row[0][1])


def summary(groups):
    rows, total = [], collections.Counter()
    for title, found in groups.items():
        levels = collections.defaultdict(collections.Counter)
        for (_, level), verdicts in found.items():
            levels[level] += verdicts
            total += verdicts
        rows += [[title, level, *cells(levels[level])] for level in LEVELS if level in levels]
    drawn, rejected, _, equal, accepted = cells(total)
    return table(["faults in", "level"], [*rows, ["all", "", drawn, rejected, "", equal, accepted]])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        if not options.folder:
            run_tests(folder)
        groups = {title: read(folder, names) for title, names in GROUPS.items()}
        date = datetime.date.fromtimestamp(
            min(path.stat().st_mtime for path in folder.glob("*.json"))
        )
    conditions = (
        f"All mutants of `{COMMAND}`,\n{date:%Y-%m-%d}. A mutant that several verifiers reject"
        " counts for each.\n\n"
    )
    page = (
        f"{BEGIN}\n# Mutants and the verifiers that reject"
        f" them\n\n{INTRODUCTION}\n{conditions}{summary(groups)}\n"
    )
    for title, found in groups.items():
        page += f"## Faults in {title}\n\n"
        rows = sorted(found.items(), key=lambda row: (row[0][0], order(row)))
        page += (
            table(
                ["kind", "level"],
                [[f"`{kind}`", level, *cells(verdicts)] for (kind, level), verdicts in rows],
            )
            + "\n"
        )
    (TOP / "docs" / "reference" / "mutants.md").write_text(page.rstrip("\n") + "\n")


if __name__ == "__main__":
    main()

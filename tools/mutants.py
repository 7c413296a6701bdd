#!/usr/bin/env python3
"""Writes docs/reference/mutants.md from all mutants of the long tests.

    tools/mutants.py [FOLDER]

FOLDER has the tables that the tests wrote: TPC_MUTANT_TABLES=FOLDER pytest --long
cpu/test_*mutants.py. Sections whose tables are not in FOLDER keep their rows. Without FOLDER, this
script runs all tests, which takes an hour on two cores.
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
    "plans of memory": ["buffers", "caches", "updates"],
    "columns of merged matmuls": ["columns"],
    "mixtures of experts": ["experts"],
    "quantized weights": ["quantized"],
    "training": ["training", "gradients"],
    "schedules of pipelines": ["schedules"],
    "asynchronous collectives": ["async"],
    "facts (names, constraints, locations of weights)": ["facts"],
    "facts of training steps": ["facts_of_training"],
}
# Forms in which a program gets the fault, in the order of rows.
LEVELS = ["model", "step", "preallocated", "staged", "kernels", "tensors and kernels", "buffers"]
COMMAND = "TPC_MUTANT_TABLES=FOLDER pytest --long cpu/test_*mutants.py"
BEGIN = "<!-- Written by tools/mutants.py; do not edit. -->\n"
INTRODUCTION = """\
[Seeded faults](../design/verification-proofs.md#seeded-faults) describes the faults and the tests.
*Alone*: no other verifier rejects the mutant. A mutant that no verifier rejects must compile to the
same code or compute the same results. *Level*: the form of the program that gets the fault.

Each section has all mutants of `{command}`
on its date. A mutant that several verifiers reject counts for each.
""".format(command=COMMAND)


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


def make_section(folder, names):
    """Returns the date, rows by level, and rows by kind and level, of a section."""
    found = read(folder, names)
    levels = collections.defaultdict(collections.Counter)
    for (_, level), verdicts in found.items():
        levels[level] += verdicts
    seconds = min((folder / f"{name}.json").stat().st_mtime for name in names)
    return (
        datetime.date.fromtimestamp(seconds).isoformat(),
        [[level, *cells(levels[level])] for level in LEVELS if level in levels],
        [
            [f"`{kind}`", level, *cells(verdicts)]
            for (kind, level), verdicts in sorted(found.items(), key=lambda r: (r[0][0], order(r)))
        ],
    )


def parse_section(page, title):
    """Returns a section of the page, in the form of `make_section`."""

    def rows(text):
        lines = re.findall(r"^\| (.*) \|$", text, re.M)[1:]
        return [line.split(" | ") for line in lines]

    if f"## Faults in {title}\n" not in page:
        raise SystemExit(f"the tables of '{title}' are neither in the folder nor in the page")
    section = page.split(f"## Faults in {title}\n")[1].split("\n## ")[0]
    levels = [row[1:] for row in rows(page.split("\n## ")[0]) if row[0] == title]
    return re.search(r"^\d{4}-\d\d-\d\d", section, re.M)[0], levels, rows(section)


def make_total(rows):
    """Returns the row `all`: the sums of the other rows."""

    def number(text):
        return int(text.replace(",", ""))

    drawn, rejected, accepted = (sum(number(row[i]) for row in rows) for i in (2, 3, 6))
    equal = collections.Counter()
    for row in rows:
        for text, n in re.findall(r"(same \w+): ([\d,]+)", row[5]):
            equal[text] += number(n)
    texts = ", ".join(f"{text}: {n:,}" for text, n in sorted(equal.items())) or "-"
    return ["all", "", f"{drawn:,}", f"{rejected:,}", "", texts, f"{accepted:,}"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    options = parser.parse_args()
    path = TOP / "docs" / "reference" / "mutants.md"
    old = path.read_text()
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        if not options.folder:
            run_tests(folder)
        sections = {
            title: (
                make_section(folder, names)
                if all((folder / f"{name}.json").exists() for name in names)
                else parse_section(old, title)
            )
            for title, names in GROUPS.items()
        }
    rows = [[title, *row] for title, (_, levels, _) in sections.items() for row in levels]
    page = (
        f"{BEGIN}\n# Mutants and the verifiers that reject them\n\n{INTRODUCTION}\n"
        + table(["faults in", "level"], [*rows, make_total(rows)])
        + "\n"
    )
    for title, (date, _, kinds) in sections.items():
        page += f"## Faults in {title}\n\n{date}.\n\n" + table(["kind", "level"], kinds) + "\n"
    path.write_text(page.rstrip("\n") + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes docs/reference/gpu-kernel-faults.md: faults seeded into GPU kernels, by kind.

    tools/kernel_faults.py

Runs the sample of the default suite (test_kernel_comparison.py), which compares the page with its
results. Takes a minute.
"""

import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path[:0] = [
    str(TOP / folder) for folder in ("python", "test/Integration", "test/Integration/cpu")
]
PAGE = TOP / "docs" / "reference" / "gpu-kernel-faults.md"
INTRODUCTION = """\
<!-- Written by tools/kernel_faults.py; do not edit. -->

# Seeded faults in GPU kernels

The sample of the default suite (`--long` seeds all of six programs), by kind. *Left* are faults
that change no result, each with an entry in `test/Integration/cpu/kernel_survivors.py`
([how](../design/gpu-kernels.md#seeded-faults)).

| fault | seeded | caught | left |
|---|---|---|---|
"""


def page(rows: dict[str, tuple[int, int, int]]) -> str:
    """Returns the page for rows (seeded, caught, left) by kind."""
    kinds = sorted(kind for kind in rows if kind != "all")
    return INTRODUCTION + "".join(
        f"| {kind} | {' | '.join(map(str, rows[kind]))} |\n" for kind in [*kinds, "all"]
    )


def main() -> int:
    import test_kernel_comparison as comparison

    with tempfile.TemporaryDirectory() as folder:
        rows, _ = comparison.seed_faults(Path(folder), comparison.FAULTED, *comparison.SAMPLE)
    PAGE.write_text(page(rows))
    print("wrote", PAGE.relative_to(TOP))
    return 0


if __name__ == "__main__":
    sys.exit(main())

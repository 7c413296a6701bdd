"""Helpers of the benchmark programs."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "python"), str(TOP / "test" / "Integration")]

import harness  # noqa: E402

STRUCTURE_124M = TOP / "test" / "Models" / "gpt2-124m.onnx"


def model_124m(name: str = STRUCTURE_124M.stem) -> Path:
    """Returns the path of GPT-2 124M in the build folder, after writing absent (seeded) weights."""
    from tpc import weights

    path = harness.BUILD / "models" / f"{name}.onnx"
    if not path.with_name(path.name + ".data").exists():
        print("writing 500 MB of seeded weights …", file=sys.stderr)
        weights.write_weights(STRUCTURE_124M.with_stem(name), path.parent)
    return path


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.machine()


def print_table(header: list[str], rows: list[list]) -> None:
    texts = [header] + [
        [f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows
    ]
    widths = [max(len(row[column]) for row in texts) for column in range(len(header))]
    for row in texts:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths)))


def finish(results: dict, path: Path | None) -> None:
    results["processor"] = processor()
    if path:
        path.write_text(json.dumps(results, indent=1) + "\n")

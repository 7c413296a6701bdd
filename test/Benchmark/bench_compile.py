"""Compiling GPT-2 124M for 1, 8 and 32 ranks: seconds and peak memory. The weights are not there: none are read.

    python test/Benchmark/bench_compile.py [--json results.json]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import common
import harness
from harness import Grid

GRIDS = [Grid(), Grid(tp=8), Grid(tp=8, pp=4)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", type=Path, default=common.STRUCTURE_124M)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    rounds = {grid: [] for grid in GRIDS}
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(args.rounds):
            for grid in GRIDS:
                rounds[grid].append(harness.run([harness.tool("tpcc"), args.model, f"--megatron-shard={grid}", "-o",
                                                 Path(directory) / "model"]).check())
    rows, results = [], []
    for grid, runs in rounds.items():
        seconds, peak = statistics.median(run.seconds for run in runs), max(run.peak_bytes for run in runs)
        first = rows[0][2] if rows else seconds
        rows.append([str(grid), grid.ranks, seconds, seconds / first, peak / 2**20])
        results.append({"grid": str(grid), "ranks": grid.ranks, "seconds": seconds, "to_one_rank": seconds / first,
                        "peak_bytes": peak, "rounds": [run.seconds for run in runs]})
    common.print_table(["grid", "ranks", "seconds", "to 1 rank", "peak MiB"], rows)
    common.finish({"benchmark": "compile", "model": args.model.name, "results": results}, args.json)


if __name__ == "__main__":
    main()

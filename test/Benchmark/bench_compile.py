"""Compile time for few and many ranks: CPU seconds, seconds in verifiers except for
tpc-verify-lowered, peak memory.

    bench_compile.py [--json results.json]     # GPT-2 124M for 1, 8 and 32 ranks
    bench_compile.py --llama                   # 405 billion parameters for 8 and 8,192 ranks

Models have no weight files, because compilation reads no weights. Grids are measured in turn.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import common
import harness
import llama
from harness import Grid

GRIDS = [Grid(), Grid(tp=8), Grid(tp=8, pp=4)]
LLAMA_GRIDS = [Grid(tp=8), Grid(tp=8, pp=16, dp=64)]


def verifying(run: harness.Result) -> float:
    return sum(step.seconds for step in run.steps if step.what.startswith("verifying"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15, help="measurements of each grid (15)")
    parser.add_argument("--model", type=Path, default=common.STRUCTURE_124M)
    parser.add_argument(
        "--llama", action="store_true", help="a model as large as the largest LLaMA 3.1"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    rounds = {grid: [] for grid in (LLAMA_GRIDS if args.llama else GRIDS)}
    with tempfile.TemporaryDirectory() as directory:
        if args.llama:
            args.model = llama.write(Path(directory) / "llama.onnx")
        for _ in range(args.rounds):
            for grid in rounds:
                rounds[grid].append(
                    harness.run(
                        [
                            harness.tool("tpcc"),
                            args.model,
                            f"--megatron-shard={grid}",
                            "--timing",
                            "-o",
                            Path(directory) / "model",
                        ]
                    ).check()
                )
    rows, results = [], []
    for grid, runs in rounds.items():
        seconds, peak = statistics.median(run.cpu_seconds for run in runs), max(
            run.peak_bytes for run in runs
        )
        first, proofs = rows[0][2] if rows else seconds, statistics.median(map(verifying, runs))
        rows.append([str(grid), grid.ranks, seconds, seconds / first, proofs, peak / 2**20])
        results.append(
            {
                "grid": str(grid),
                "ranks": grid.ranks,
                "seconds": seconds,
                "ratio_to_first_grid": seconds / first,
                "seconds_verifying": proofs,
                "peak_bytes": peak,
                "rounds": [run.cpu_seconds for run in runs],
            }
        )
    common.print_table(
        ["grid", "ranks", "CPU seconds", "x first grid", "verifying", "peak MiB"], rows
    )
    common.finish({"benchmark": "compile", "model": args.model.name, "results": results}, args.json)


if __name__ == "__main__":
    main()

"""Step time with and without --overlap, for simulated links of several speeds.

    bench_overlap.py [--transport=tcp] [--chunks=4] [--json results.json]

Each step of GPT-2 124M at tp2 reduces the results of its row-parallel matmuls. The links are as
fast as memory, or so slow that a step's all-reduces take 0.5, 1 or 2 times the time of these
matmuls (LinkDelay.h). The bound has max(matmuls, communication) in place of their sum, plus one
chunk of the shorter. Programs are measured in turn; each number is the minimum.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import common
import harness
from harness import Grid

SHAPE = {"batch": 2, "sequence": 128}
GRID = Grid(tp=2)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--transport", choices=["threads", "tcp", "mpi"], default="threads")
    parser.add_argument("--chunks", default="4")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each program (3)")
    parser.add_argument("--repeat", type=int, default=5, help="steps of each measurement (5)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    model = common.model_124m()
    with tempfile.TemporaryDirectory() as directory:
        compiler = harness.Compiler(Path(directory))
        programs = {
            "off": compiler.compile(model, GRID, "--no-verify"),
            "on": compiler.compile(model, GRID, "--no-verify", f"--overlap={args.chunks}"),
        }

        def bench(name, rate=0.0, *flags):
            program = programs[name]
            program.environment = {"TPC_LINK_BYTES_PER_SECOND": str(rate)} if rate else {}
            flags = ["--repeat", str(args.repeat), *flags]
            return program.bench(SHAPE, args.transport, flags)

        profile = bench("off", 0.0, "--profile")
        rows = [row for row in profile["profile"][0]["work"] if row["kind"] == "product"]
        # [m, k] x [k, 768] with k split: of attention (384) and of the MLP (1536).
        matmuls = sum(
            row["seconds"]
            for row in rows
            if row["what"].split("x")[1:] in (["384", "768"], ["1536", "768"])
        )
        sent = sum(row["bytes"] for row in profile["collectives"] if row["kind"] == "all_reduce")
        table, results = [], []
        for ratio in (0, 0.5, 1, 2):
            rate = sent / (ratio * matmuls) if ratio else 0.0
            seconds = {
                name: min(bench(name, rate)["min_seconds"] for _ in range(args.rounds))
                for name in programs
            }
            if not ratio:
                plain = seconds["off"]
            communication = ratio * matmuls
            bound = (
                plain - matmuls + max(matmuls, communication)
                + min(matmuls, communication) / int(args.chunks)
            )
            table.append(
                [ratio, *(1e3 * s for s in seconds.values()), 1e3 * bound, seconds["on"] / bound]
            )
            results.append({"ratio": ratio, "bound": bound, **seconds})
    load = os.getloadavg()[0]
    print(
        f"row-parallel matmuls: {1e3 * matmuls:.3g} ms of a step of {1e3 * plain:.4g} ms; "
        f"load {load:.1f} on {os.cpu_count()} cores"
    )
    common.print_table(["delay/matmuls", "off ms", "on ms", "bound ms", "on/bound"], table)
    found = {"transport": args.transport, "chunks": args.chunks, "load": load, "rows": results}
    common.finish(found, args.json)


if __name__ == "__main__":
    main()

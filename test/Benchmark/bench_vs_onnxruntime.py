"""Prefill of GPT-2 124M: an executable of tpc against ONNX Runtime, same file, same number of threads.

    python test/Benchmark/bench_vs_onnxruntime.py [--json results.json]

Three ways take turns, so that a machine that slows down slows all of them: ONNX Runtime with 2 threads, one rank with 2
threads, and two ranks (tp2) with 1 thread each. Each round takes the median of its steps, the table the median of the
rounds. Ratios are speeds: more than 1 is faster than what is compared with."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import common
import harness
from harness import Grid

THREADS = 2


def time_onnxruntime(session, ids, seconds: float) -> float:
    """Median seconds of a step; a first step is not counted."""
    session.run({"input_ids": ids})
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        session.run({"input_ids": ids})
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefill", default="128,512", help="sequence lengths (128,512)")
    parser.add_argument("--rounds", type=int, default=9, help="of taking turns (9)")
    parser.add_argument("--seconds", type=float, default=2, help="of ONNX Runtime's steps in a round (2)")
    parser.add_argument("--model", type=Path, help="an ONNX file with input_ids (default: GPT-2 124M)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    from tpc.reference import Session

    model = args.model or common.model_124m()
    session = Session(model, threads=THREADS)
    batch, sequence = session.inputs["input_ids"]
    with tempfile.TemporaryDirectory() as directory:
        compiler = harness.Compiler(Path(directory))
        one = compiler.compile(model, Grid())
        two = compiler.compile(model, Grid(tp=2))
        rows, results = [], []
        for length in map(int, args.prefill.split(",")):
            ids = np.random.default_rng(0).integers(0, 1000, (1, length))
            shape = {batch: 1, sequence: length}
            rounds = []
            for _ in range(args.rounds):
                rounds.append((time_onnxruntime(session, ids, args.seconds),
                               one.bench(shape, arguments=["--threads-per-rank", str(THREADS)])["seconds"],
                               two.bench(shape, arguments=["--threads-per-rank", "1"])["seconds"]))
            ort, single, split = (statistics.median(column) for column in zip(*rounds))
            rows.append([length, ort * 1e3, single * 1e3, ort / single, split * 1e3, single / split])
            results.append({"prefill": length, "onnxruntime": ort, "one_rank": single, "tp2": split,
                            "one_rank_to_onnxruntime": ort / single, "tp2_to_one_rank": single / split, "rounds": rounds})
    common.print_table(["prefill", f"ORT x{THREADS} ms", f"1 rank x{THREADS} ms", "speed to ORT", "tp2 x1 ms",
                        "speed to 1 rank"], rows)
    common.finish({"benchmark": "prefill", "model": model.name, "threads": THREADS, "results": results}, args.json)


if __name__ == "__main__":
    main()

"""Prefill speed of GPT-2 124M: tpc, ONNX Runtime and OpenVINO with the same file and thread count.

    python test/Benchmark/bench_vs_onnxruntime.py [--json results.json]

Engines run in turn, so that a slow phase of the machine affects all of them: ONNX Runtime with 2
threads, OpenVINO with 2 threads (where it is installed: pip install openvino), tpc with one rank of
2 threads, and with two ranks (tp2) of 1 thread each. Each round takes the median of its steps; the
table has the median of the rounds. Ratios are speeds: above 1, tpc is faster. "products" is the
share of matmuls in a step of one rank, from a profiled run.
"""

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


def openvino_step(model: Path, ids):
    """Returns a function that runs one step in OpenVINO, in f32; None if OpenVINO is not
    installed."""
    try:
        import openvino
    except ImportError:
        return None
    compiled = openvino.Core().compile_model(
        str(model),
        "CPU",
        {
            "INFERENCE_NUM_THREADS": THREADS,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        },
    )
    request = compiled.create_infer_request()
    return lambda: request.infer({"input_ids": ids}, share_outputs=True)


def time_steps(step, seconds: float) -> float:
    """Returns the median seconds of a step, after a warm-up step."""
    step()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def share_of_products(result: dict) -> float:
    work = result["profile"][0]["work"]
    return sum(row["seconds"] for row in work if row["kind"] == "product") / result["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prefill", default="128,512", help="sequence lengths (128,512)")
    parser.add_argument("--rounds", type=int, default=9, help="measurements of each engine (9)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=2,
        help="seconds that ONNX Runtime, and OpenVINO, run in a round (2)",
    )
    parser.add_argument(
        "--model", type=Path, help="an ONNX file with input_ids (default: GPT-2 124M)"
    )
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
            arguments = ["--threads-per-rank", str(THREADS)]
            openvino = openvino_step(model, ids)
            rounds = []
            for _ in range(args.rounds):
                rounds.append(
                    (
                        time_steps(lambda: session.run({"input_ids": ids}), args.seconds),
                        time_steps(openvino, args.seconds) if openvino else float("nan"),
                        one.bench(shape, arguments=arguments)["seconds"],
                        two.bench(shape, arguments=["--threads-per-rank", "1"])["seconds"],
                    )
                )
            products = share_of_products(one.bench(shape, arguments=[*arguments, "--profile"]))
            ort, vino, single, split = (statistics.median(column) for column in zip(*rounds))
            rows.append(
                [
                    length,
                    ort * 1e3,
                    vino * 1e3,
                    single * 1e3,
                    ort / single,
                    vino / single,
                    products,
                    split * 1e3,
                    single / split,
                ]
            )
            results.append(
                {
                    "prefill": length,
                    "onnxruntime": ort,
                    "openvino": vino if openvino else None,
                    "one_rank": single,
                    "tp2": split,
                    "one_rank_to_onnxruntime": ort / single,
                    "one_rank_to_openvino": vino / single if openvino else None,
                    "products": products,
                    "tp2_to_one_rank": single / split,
                    "rounds": rounds,
                }
            )
    common.print_table(
        [
            "prefill",
            f"ORT x{THREADS} ms",
            f"OpenVINO x{THREADS} ms",
            f"1 rank x{THREADS} ms",
            "speed to ORT",
            "to OpenVINO",
            "products",
            "tp2 x1 ms",
            "speed to 1 rank",
        ],
        rows,
    )
    common.finish(
        {"benchmark": "prefill", "model": model.name, "threads": THREADS, "results": results},
        args.json,
    )


if __name__ == "__main__":
    main()

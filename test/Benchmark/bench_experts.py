"""Speed of a mixture of experts: tpc and ONNX Runtime with the same file, and tpc's dense rate.

    python test/Benchmark/bench_experts.py [--json results.json]

The file has one com.microsoft.MoE of Mixtral's shape (8 experts, 2 for each token; sizes by
--hidden and --inner). Engines run in turn, with 2 threads, so that a slow phase of the machine
affects all of them. The table has the median of the rounds. "rate" is the rate of the experts'
matmuls (2 * tokens * k * 3 * hidden * inner operations) divided by that of a dense layer with the
same operations.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

import common
import harness
from tpc.reference import Session

THREADS, EXPERTS, SELECTED = 2, 8, 2


def write(path: Path, nodes, weights, ports) -> Path:
    info = lambda name, shape: helper.make_tensor_value_info(name, 1, shape)
    graph = helper.make_graph(
        nodes,
        "experts",
        [info(name, shape) for name, shape in ports.items()],
        [info("y", None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def make_experts(path: Path, hidden: int, inner: int) -> Path:
    random = np.random.default_rng(1)
    draw = lambda *shape: (shape[-1] ** -0.5 * random.standard_normal(shape)).astype(np.float32)
    weights = {
        "up": draw(EXPERTS, 2 * inner, hidden),
        "down": draw(EXPERTS, hidden, inner),
    }
    node = helper.make_node(
        "MoE",
        ["x", "logits", "up", "", "down"],
        ["y"],
        domain="com.microsoft",
        activation_type="swiglu",
        swiglu_fusion=1,
        k=SELECTED,
        normalize_routing_weights=1,
    )
    ports = {"x": ["tokens", hidden], "logits": ["tokens", EXPERTS]}
    return write(path, [node], weights, ports)


def make_dense(path: Path, hidden: int, inner: int) -> Path:
    """Gated layer of `inner` columns; with k times the tokens, the experts' operations."""
    random = np.random.default_rng(1)
    draw = lambda *shape: (shape[0] ** -0.5 * random.standard_normal(shape)).astype(np.float32)
    weights = {"gate": draw(hidden, inner), "up": draw(hidden, inner), "down": draw(inner, hidden)}
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "gate"], ["g"]),
        node("Sigmoid", ["g"], ["s"]),
        node("Mul", ["g", "s"], ["a"]),
        node("MatMul", ["x", "up"], ["u"]),
        node("Mul", ["a", "u"], ["h"]),
        node("MatMul", ["h", "down"], ["y"]),
    ]
    return write(path, nodes, weights, {"x": ["tokens", hidden]})


def seconds_of_tpc(program, feed, folder: Path) -> float:
    """Short steps are repeated more, so that threads are on their cores for most of them."""
    repeat = max(5, 200 // len(feed["x"]))
    flags = ["--bench", "--threads-per-rank", THREADS, "--repeat", repeat, "--warmup", 1]
    for name, value in feed.items():
        np.save(folder / f"{name}.npy", value)
        flags += ["--input", f"{name}={folder / name}.npy"]
    return json.loads(program.call(flags).check().stdout)["seconds"]


def seconds_of_session(session, feed, seconds: float) -> float:
    step = lambda: session.run({name: value.copy() for name, value in feed.items()})
    step()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--inner", type=int, default=3584)
    parser.add_argument("--tokens", default="1,512", help="numbers of tokens (1,512)")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each engine (5)")
    parser.add_argument("--seconds", type=float, default=1, help="of ONNX Runtime in a round (1)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        compiler = harness.Compiler(folder / "programs")
        experts = make_experts(folder / "experts.onnx", args.hidden, args.inner)
        program = compiler.compile(experts, "tp1")
        dense = compiler.compile(make_dense(folder / "dense.onnx", args.hidden, args.inner), "tp1")
        session = Session(experts, threads=THREADS)
        for tokens in map(int, args.tokens.split(",")):
            random = np.random.default_rng(2)
            feed = {
                "x": random.standard_normal((tokens, args.hidden)).astype(np.float32),
                "logits": random.standard_normal((tokens, EXPERTS)).astype(np.float32),
            }
            pairs = np.repeat(feed["x"], SELECTED, axis=0)
            times = {"tpc": [], "onnxruntime": [], "dense": []}
            for _ in range(args.rounds):
                times["tpc"].append(seconds_of_tpc(program, feed, folder))
                times["onnxruntime"].append(seconds_of_session(session, feed, args.seconds))
                times["dense"].append(seconds_of_tpc(dense, {"x": pairs}, folder))
            row = {name: statistics.median(values) for name, values in times.items()}
            row["tokens"] = tokens
            row["speed"] = statistics.median(
                b / a for a, b in zip(times["tpc"], times["onnxruntime"])
            )
            row["rate"] = statistics.median(b / a for a, b in zip(times["tpc"], times["dense"]))
            rows.append(row)
    common.print_table(
        ["tokens", "tpc ms", "ORT ms", "dense ms", "speed to ORT", "rate"],
        [
            [row["tokens"], *(1e3 * row[name] for name in times), row["speed"], row["rate"]]
            for row in rows
        ],
    )
    sizes = {"hidden": args.hidden, "inner": args.inner, "threads": THREADS}
    common.finish({"benchmark": "experts", **sizes, "results": rows}, args.json)


if __name__ == "__main__":
    main()

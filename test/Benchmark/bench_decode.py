"""Decoding speed of GPT-2 124M: tpc, ONNX Runtime, OpenVINO, PyTorch, and a memory probe.

    python test/Benchmark/bench_decode.py [--json results.json]

All engines that read ONNX get the same file with a KV cache: f32, two cores, one sequence. Each
engine runs in its own process, and only one runs at a time: ONNX Runtime, OpenVINO and PyTorch with
2 threads (the latter two only where installed), tpc with one rank of 2 threads, and with two ranks
(tp2) of 1 thread each. A round is one prompt and 16 tokens per engine.

Memory bandwidth of virtual machines varies within seconds. Therefore a probe runs before and after
each turn; it reads as many bytes as the weights have, with as many threads. A turn is compared with
its adjacent probes and with the other turns of its round. The table has the medians over rounds.
If the probes differ by more than a tenth of the fastest, the measurement is repeated, up to three
times; the output reports it if the last try still varies.

Columns: "of probe" is the bytes that a token must read (weights, keys and values once) per second,
as a fraction of the probe's bytes per second. "speed to …" above 1 is faster. "prefill" is the time
to the first token of a prompt of 128, with logits of the last position only, and of all positions.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import common
import harness
from harness import Grid

from tpc import onnxfile

THREADS, STEPS, TRIES = 2, 16, 3


class Sizes:
    """Bytes that a token reads from a model with a KV cache: keys, values, and weights except
    lookup tables.
    """

    def __init__(self, model: Path):
        graph = onnxfile.load_structure(model).graph
        used = {name: set() for name in (tensor.name for tensor in graph.initializer)}
        for node in graph.node:
            for index, name in enumerate(node.input):
                used.get(name, set()).add((node.op_type, index))
        self.weights = sum(
            onnxfile.tensor_bytes(tensor)
            for tensor in graph.initializer
            if used[tensor.name] - {("Gather", 0)}
        )
        pasts = [
            [size.dim_value for size in port.type.tensor_type.shape.dim]
            for port in graph.input
            if port.name.startswith("past_key_values.")
        ]
        self.bytes_of_past_token = sum(4 * heads * size for _, heads, _, size in pasts)
        self.vocabulary = graph.output[0].type.tensor_type.shape.dim[-1].dim_value

    def token(self, past: float) -> float:
        return self.weights + past * self.bytes_of_past_token


class Probe:
    name = "probe"

    def __init__(self):
        self.program = harness.BUILD / "bin" / "tpc-streaming-bench"
        if not self.program.exists():
            sys.exit(
                f"bench_decode: {self.program} is not there: ninja -C {harness.BUILD}"
                " tpc-streaming-bench"
            )

    def measure(self, sizes: Sizes) -> float:
        """Returns the bytes that are read per second."""
        megabytes = min(sizes.weights // 1000000, 1000)
        output = subprocess.run(
            [self.program, str(THREADS), str(megabytes), "11"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        return json.loads(output)["median"]


class Program:
    """An engine process that serves requests and sleeps between them."""

    def __init__(self, name: str, executable: harness.Executable, threads: int, capacity: int):
        self.name = name
        command = [
            *executable.command(),
            "--serve-stdin",
            "--max-batch",
            "1",
            f"--threads-per-rank={threads}",
            f"--max-sequence={capacity}",
        ]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def measure(self, ids: np.ndarray) -> tuple[float, float]:
        """Returns the seconds until the first token, and the median seconds between tokens. The
        engine has all cores: lines are only stored on arrival and parsed at the end.
        """
        begin, times, output = time.monotonic(), [], b""
        self.process.stdin.write(
            json.dumps({"id": "a", "ids": ids[0].tolist(), "max_new_tokens": STEPS + 1}).encode()
            + b"\n"
        )
        self.process.stdin.flush()
        while b'"finish"' not in output:
            read = os.read(self.process.stdout.fileno(), 1 << 16)
            times.append(time.monotonic())
            assert read, f"{self.name} ended"
            output += read
        assert output.count(b'"token"') == STEPS + 1 and b'"length"' in output, output
        return times[0] - begin, statistics.median(
            late - early for early, late in zip(times, times[1 : STEPS + 1])
        )

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


class Peer:
    """An engine in a separate process that manages its own threads."""

    def __init__(self, name: str, model: Path):
        self.name = name
        self.process = subprocess.Popen(
            [
                sys.executable,
                Path(__file__).with_name("decode_peers.py"),
                name,
                model,
                str(THREADS),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ready = json.loads(self.process.stdout.readline() or '{"error": "it ended"}')

    def measure(self, ids: np.ndarray) -> tuple[float, float]:
        print(
            json.dumps({"ids": ids.tolist(), "steps": STEPS}), file=self.process.stdin, flush=True
        )
        output = json.loads(self.process.stdout.readline())
        return output["prefill"], statistics.median(output["steps"])


class Turn(NamedTuple):
    prefill: float  # seconds
    step: float
    rate: float  # bytes per second of the probes before and after it


def measure(
    contenders: list, probe: Probe, sizes: Sizes, past: int, rounds: int
) -> dict[str, list[Turn]]:
    """Returns the turns of each engine."""
    ids = np.random.default_rng(past).integers(0, sizes.vocabulary, (1, past))
    for contender in contenders:
        contender.measure(ids)  # a warm-up
    found, before = {contender.name: [] for contender in contenders}, probe.measure(sizes)
    for _ in range(rounds):
        for contender in contenders:
            times, after = contender.measure(ids), probe.measure(sizes)
            found[contender.name].append(Turn(*times, rate=(before + after) / 2))
            before = after
    return found


def spread(found: dict[str, list[Turn]]) -> float:
    rates = [turn.rate for turns in found.values() for turn in turns]
    return 1 - min(rates) / max(rates)


def steady(
    contenders: list, probe: Probe, sizes: Sizes, past: int, rounds: int
) -> tuple[dict[str, list[Turn]], bool]:
    """Repeats the measurement until the probe is steady. Returns the turns of each engine, and
    whether the probe was steady in the last try.
    """
    for _ in range(TRIES):
        found = measure(contenders, probe, sizes, past, rounds)
        if spread(found) <= 0.1:
            return found, True
        print(f"past {past}: the probe varied by {spread(found):.0%}", file=sys.stderr)
    return found, False


def compile_model(
    compiler: harness.Compiler, model: Path, capacity: int, without: list[str]
) -> list[Program]:
    forms = {
        f"1 rank x{THREADS}": (Grid(), "--generate", THREADS),
        f"tp{THREADS} x1": (Grid(tp=THREADS), "--generate", 1),
        "all positions": (Grid(), "--generate=all", THREADS),
    }
    return [
        Program(name, compiler.compile(model, grid, flag), threads, capacity)
        for name, (grid, flag, threads) in forms.items()
        if name not in without
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--past", default="128,1000", help="lengths of prompts (128,1000)")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each engine (7)")
    parser.add_argument("--model", type=Path, help="a file with a KV cache (default: GPT-2 124M)")
    parser.add_argument(
        "--without",
        default="",
        help=(
            "engines to omit, such as PyTorch,OpenVINO: each has a copy of the weights in memory, "
            "and so has 'all positions' of tpc"
        ),
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    model, probe = args.model or common.model_124m("gpt2-124m-past"), Probe()
    sizes, peers, pasts = Sizes(model), [], [int(past) for past in args.past.split(",")]
    without = args.without.split(",")
    for name in ("ONNX Runtime", "OpenVINO", "PyTorch"):
        # The transformers engine has its own weights and supports only GPT-2.
        if name not in without and not (args.model and name == "PyTorch"):
            peer = Peer(name, model)
            if "error" in peer.ready:
                print(f"{name} does not run: {peer.ready['error']}", file=sys.stderr)
            else:
                peers.append(peer)
    results = []
    with tempfile.TemporaryDirectory() as directory:
        programs = compile_model(
            harness.Compiler(Path(directory)), model, max(pasts) + STEPS + 1, without
        )
        for past in pasts:
            found, is_steady = steady(peers + programs, probe, sizes, past, args.rounds)
            results.append(
                {
                    "past": past,
                    "steady": is_steady,
                    "rounds": {
                        name: [turn._asdict() for turn in turns] for name, turns in found.items()
                    },
                }
            )
            report(past, sizes, found, is_steady)
        for program in programs:
            program.close()
    common.finish(
        {"benchmark": "decode", "model": model.name, "threads": THREADS, "results": results},
        args.json,
    )


def report(past: int, sizes: Sizes, found: dict[str, list[Turn]], is_steady: bool) -> None:
    # The first token follows the prompt; each later step has one more visible token.
    size, one = sizes.token(past + STEPS / 2), f"1 rank x{THREADS}"
    rate = statistics.median(turn.rate for turns in found.values() for turn in turns)
    print(
        f"past {past}: the probe reads {rate / 1e9:.1f} GB/s ({spread(found):.0%} apart"
        + (")" if is_steady else "; NOT steady)")
        + f", a token reads {size / 1e6:.0f} MB"
    )

    def speed(name: str, other: str) -> float:
        """Returns the median over rounds of the speed relative to `other` in the same round."""
        return (
            statistics.median(
                theirs.step / own.step for own, theirs in zip(found[name], found[other])
            )
            if other in found
            else float("nan")
        )

    rows = [
        [
            name,
            statistics.median(turn.step for turn in turns) * 1e3,
            statistics.median(size / turn.step / turn.rate for turn in turns),
            speed(name, "ONNX Runtime"),
            speed(name, one),
            statistics.median(turn.prefill for turn in turns) * 1e3,
        ]
        for name, turns in found.items()
    ]
    common.print_table(
        ["", "ms per token", "of probe", "speed to ORT", f"to {one}", "prefill ms"], rows
    )


if __name__ == "__main__":
    main()

"""Training steps of GPT-2 124M in f32: tpc and PyTorch, with the same shapes and thread count.

    /path/to/venv/bin/python test/Benchmark/bench_training.py [--json results.json]

The Python needs torch, numpy and onnx. Engines run in turn, so that a slow phase of the machine
affects all of them: tpc with one rank of 2 threads, PyTorch eager with 2 threads (with scaled
dot-product attention, and AdamW with fused=True). A round is the median of its steps after a
warm-up step; the table has the median of the rounds. Ratios are speeds: above 1, tpc is faster.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import common
import harness
from harness import Grid

THREADS = 2
LAYERS, HIDDEN, HEADS, VOCABULARY, POSITIONS = 12, 768, 12, 50257, 1024


def eager_step(batch: int, length: int):
    """Returns a function that trains GPT-2 for one step on random tokens."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
            self.qkv, self.proj = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
            self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

        def forward(self, x):
            q, k, v = (
                part.view(batch, length, HEADS, -1).transpose(1, 2)
                for part in self.qkv(self.norm1(x)).split(HIDDEN, dim=2)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).reshape(batch, length, HIDDEN))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, HIDDEN)
            self.positions = nn.Embedding(POSITIONS, HIDDEN)
            self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
            self.norm = nn.LayerNorm(HIDDEN)
            self.apply(self.initialize)

        @staticmethod
        def initialize(module):
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

        def forward(self, ids):
            x = self.tokens(ids) + self.positions(torch.arange(length))
            return F.linear(self.norm(self.layers(x)), self.tokens.weight)

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01, fused=True)
    ids = torch.randint(0, VOCABULARY, (batch, length + 1))

    def step():
        optimizer.zero_grad()
        logits = model(ids[:, :-1]).view(-1, VOCABULARY)
        F.cross_entropy(logits, ids[:, 1:].reshape(-1)).backward()
        optimizer.step()

    return step


def time_eager(step, steps: int) -> float:
    times = []
    for _ in range(steps + 1):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def time_program(program, data: Path, batch: int, length: int, steps: int) -> float:
    """Returns the median seconds of the steps after the first."""
    arguments = [program, "--data", data, "--batch", batch, "--sequence", length]
    arguments += ["--steps", steps + 1, "--lr", 1e-5, "--threads-per-rank", THREADS]
    text = harness.run(list(map(str, arguments)), timeout=3600).check().stdout
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return statistics.median(batch * length / line["tokens_per_second"] for line in lines[1:])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each engine (5)")
    parser.add_argument("--steps", type=int, default=3, help="steps of a measurement (3)")
    parser.add_argument("--program", type=Path, help="a compiled program (default: compile it)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        program = args.program
        if not program:
            compiler = harness.Compiler(Path(directory))
            program = compiler.compile(common.model_124m(), Grid(), "--train").path
        data = Path(directory) / "tokens.bin"
        random = np.random.default_rng(0)
        random.integers(0, VOCABULARY, 64 * (args.sequence + 1)).astype(np.uint16).tofile(data)
        step, rounds = eager_step(args.batch, args.sequence), []
        for _ in range(args.rounds):
            tpc_seconds = time_program(program, data, args.batch, args.sequence, args.steps)
            rounds.append((tpc_seconds, time_eager(step, args.steps)))
    tpc_seconds, eager = (statistics.median(column) for column in zip(*rounds))
    common.print_table(
        ["batch", "sequence", f"tpc x{THREADS} ms", f"eager x{THREADS} ms", "tpc/eager"],
        [[args.batch, args.sequence, tpc_seconds * 1e3, eager * 1e3, eager / tpc_seconds]],
    )
    results = {"tpc": tpc_seconds, "eager": eager, "ratio": eager / tpc_seconds, "rounds": rounds}
    common.finish(results, args.json)


if __name__ == "__main__":
    main()

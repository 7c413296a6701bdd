"""Benchmark shapes in plain PyTorch: eager, torch.compile, and torch.compile with CUDA graphs.

python3 -m one_gpu.pytorch MODEL PHASES REPEAT      (JSON; a line of JSON for each result)
"""

from __future__ import annotations

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

WAYS = {"eager": None, "compiled": {}, "compiled with CUDA graphs": {"mode": "reduce-overhead"}}


class Gpt(nn.Module):
    def __init__(self, g: dict):
        super().__init__()
        hidden = g["hidden"]
        self.heads = g["heads"]
        self.wte, self.wpe = nn.Embedding(g["vocab"], hidden), nn.Embedding(g["positions"], hidden)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "ln1": nn.LayerNorm(hidden),
                    "qkv": nn.Linear(hidden, 3 * hidden),
                    "proj": nn.Linear(hidden, hidden),
                    "ln2": nn.LayerNorm(hidden),
                    "fc1": nn.Linear(hidden, 4 * hidden),
                    "fc2": nn.Linear(4 * hidden, hidden),
                }
            )
            for _ in range(g["layers"])
        )
        self.ln, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, g["vocab"], bias=False)

    def forward(self, ids):
        batch, length = ids.shape
        x = self.wte(ids) + self.wpe(torch.arange(length, device=ids.device))
        for layer in self.layers:
            q, k, v = (
                part.reshape(batch, length, self.heads, -1).transpose(1, 2)
                for part in layer["qkv"](layer["ln1"](x)).chunk(3, -1)
            )
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + layer["proj"](mixed.transpose(1, 2).reshape(batch, length, -1))
            x = x + layer["fc2"](F.gelu(layer["fc1"](layer["ln2"](x)), approximate="tanh"))
        return self.head(self.ln(x))


class Norm(nn.Module):
    def __init__(self, hidden: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


class Llama(nn.Module):
    def __init__(self, g: dict):
        super().__init__()
        hidden, self.heads, self.kv_heads = g["hidden"], g["heads"], g["kv_heads"]
        self.size = hidden // self.heads
        columns = (self.heads + 2 * self.kv_heads) * self.size
        self.embed = nn.Embedding(g["vocab"], hidden)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": Norm(hidden),
                    "qkv": nn.Linear(hidden, columns, bias=False),
                    "o": nn.Linear(hidden, hidden, bias=False),
                    "norm2": Norm(hidden),
                    "gate_up": nn.Linear(hidden, 2 * g["ffn"], bias=False),
                    "down": nn.Linear(g["ffn"], hidden, bias=False),
                }
            )
            for _ in range(g["layers"])
        )
        self.norm, self.head = Norm(hidden), nn.Linear(hidden, g["vocab"], bias=False)

    def forward(self, ids):
        batch, length = ids.shape
        frequencies = 5e5 ** -(torch.arange(0, self.size, 2, device=ids.device) / self.size)
        angles = (
            torch.arange(length, device=ids.device)[:, None]
            * torch.cat([frequencies, frequencies])[None]
        )
        cos, sin = angles.cos(), angles.sin()

        def rotate(x):
            a, b = x.chunk(2, -1)
            return x * cos + torch.cat([-b, a], -1) * sin

        x = self.embed(ids)
        for layer in self.layers:
            q, k, v = layer["qkv"](layer["norm1"](x)).split(
                [self.heads * self.size, self.kv_heads * self.size, self.kv_heads * self.size], -1
            )
            q, k, v = (
                part.reshape(batch, length, -1, self.size).transpose(1, 2) for part in (q, k, v)
            )
            mixed = F.scaled_dot_product_attention(
                rotate(q), rotate(k), v, is_causal=True, enable_gqa=True
            )
            x = x + layer["o"](mixed.transpose(1, 2).reshape(batch, length, -1))
            gate, up = layer["gate_up"](layer["norm2"](x)).chunk(2, -1)
            x = x + layer["down"](F.silu(gate) * up)
        return self.head(self.norm(x))


def median_seconds(step, repeat: int) -> float:
    for _ in range(3):
        step()
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]


def main() -> None:
    geometry, phases, repeat = json.loads(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    with torch.device("cuda"), torch.inference_mode():
        model = {"gpt": Gpt, "llama": Llama}[geometry["kind"]](geometry).eval()
        for way, options in WAYS.items():
            for phase, tokens in phases.items():
                row = {"way": way, "phase": phase}
                try:
                    torch.compiler.reset()
                    function = (
                        model if options is None else torch.compile(model, dynamic=False, **options)
                    )
                    ids = torch.randint(
                        0, geometry["vocab"], (1, tokens), device="cpu"
                    ).pin_memory()
                    given = torch.empty_like(ids, device="cuda")
                    logits = torch.empty(
                        (1, tokens, geometry["vocab"]), device="cpu", pin_memory=True
                    )

                    def step():
                        given.copy_(ids, non_blocking=True)
                        logits.copy_(function(given), non_blocking=True)
                        torch.cuda.synchronize()

                    row["seconds"] = median_seconds(step, repeat)
                except Exception as error:  # of one variant; others may work
                    row["problem"] = f"{type(error).__name__}: {error}"[:300]
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

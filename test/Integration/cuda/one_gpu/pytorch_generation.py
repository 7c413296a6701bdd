"""Prefill and decode of benchmark shapes in PyTorch, bf16, static caches, logits of the last token.

python3 -m one_gpu.pytorch_generation MODEL CASES      (JSON; a line of JSON for each result)

A case is [tokens, "prefill" or "decode"]. A decode step follows 512 tokens. Ways: eager, and
torch.compile of each layer with all captured as one CUDA graph.
"""

from __future__ import annotations

import json
import sys

import torch
from torch import nn
from torch.nn import functional as F

from one_gpu.pytorch import Norm, median_seconds

PAST, REPEAT = 512, 20


class Layer(nn.Module):
    def __init__(self, g: dict, capacity: int):
        super().__init__()
        hidden, self.heads = g["hidden"], g["heads"]
        self.kv_heads, self.rotary = g.get("kv_heads", g["heads"]), g["kind"] == "llama"
        self.size = hidden // self.heads
        biased, columns = not self.rotary, (self.heads + 2 * self.kv_heads) * self.size
        norm = Norm if self.rotary else nn.LayerNorm
        self.norm1, self.norm2 = norm(hidden), norm(hidden)
        self.qkv = nn.Linear(hidden, columns, bias=biased)
        self.o = nn.Linear(hidden, hidden, bias=biased)
        ffn = g.get("ffn", 4 * hidden)
        self.up = nn.Linear(hidden, 2 * ffn if self.rotary else ffn, bias=biased)
        self.down = nn.Linear(ffn, hidden, bias=biased)
        shape = (1, self.kv_heads, capacity, self.size)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def attend(self, q, k, v, position, mask):
        grouped = self.heads != self.kv_heads
        if position is None:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        return F.scaled_dot_product_attention(
            q, self.keys, self.values, attn_mask=mask, enable_gqa=grouped
        )

    def forward(self, x, cos, sin, position, mask):
        batch, length, hidden = x.shape

        def rotate(y):
            a, b = y.chunk(2, -1)
            return y * cos + torch.cat([-b, a], -1) * sin

        sizes = [heads * self.size for heads in (self.heads, self.kv_heads, self.kv_heads)]
        q, k, v = (
            part.reshape(batch, length, -1, self.size).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(sizes, -1)
        )
        if self.rotary:
            q, k = rotate(q), rotate(k)
        mixed = self.attend(q, k, v, position, mask)
        x = x + self.o(mixed.transpose(1, 2).reshape(batch, length, hidden))
        y = self.up(self.norm2(x))
        if not self.rotary:
            return x + self.down(F.gelu(y, approximate="tanh"))
        gate, up = y.chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, g: dict, capacity: int, device: str):
        super().__init__()
        hidden, self.rotary = g["hidden"], g["kind"] == "llama"
        self.embed = nn.Embedding(g["vocab"], hidden)
        if not self.rotary:
            self.learned = nn.Embedding(g["positions"], hidden)
        self.layers = nn.ModuleList(Layer(g, capacity) for _ in range(g["layers"]))
        self.norm = (Norm if self.rotary else nn.LayerNorm)(hidden)
        self.head = nn.Linear(hidden, g["vocab"], bias=False)
        size = hidden // g["heads"]
        frequencies = 5e5 ** -(torch.arange(0, size, 2, device=device).float() / size)
        positions = torch.arange(capacity, device=device)
        angles = positions.float()[:, None] * torch.cat([frequencies, frequencies])
        kind = self.head.weight.dtype
        self.register_buffer("cos", angles.cos().to(kind))
        self.register_buffer("sin", angles.sin().to(kind))
        self.register_buffer("positions", positions)

    def forward(self, ids, position, layers):
        at = self.positions[: ids.shape[1]] if position is None else position
        x = self.embed(ids)
        if not self.rotary:
            x = x + self.learned(at)
        mask = None if position is None else (self.positions <= at[:, None])[None, None]
        for layer in layers:
            x = layer(x, self.cos[at], self.sin[at], position, mask)
        return self.head(self.norm(x)[:, -1:])


def record(function):
    """Returns a call that replays the function's CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def main() -> None:
    geometry, cases = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"), torch.inference_mode():
        model = Model(geometry, geometry["capacity"], "cuda").eval()
        for parameter in model.parameters():
            parameter.normal_(0, 0.02)
        compiled = [torch.compile(layer, dynamic=False) for layer in model.layers]
        for way, layers in (("eager", list(model.layers)), ("compiled", compiled)):
            for tokens, phase in cases:
                row = {"way": way, "phase": phase, "tokens": tokens}
                try:
                    ids = torch.randint(0, geometry["vocab"], (1, tokens))
                    position = torch.tensor([PAST]) if phase == "decode" else None

                    def call():
                        return model(ids, position, layers)

                    replay = call
                    if way == "compiled":
                        call()
                        replay = record(call)

                    def step():
                        replay()
                        torch.cuda.synchronize()

                    row["seconds"] = median_seconds(step, REPEAT)
                except Exception as error:  # of one case; others may work
                    row["problem"] = f"{type(error).__name__}: {error}"[:300]
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

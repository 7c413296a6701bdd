"""Loss curve of GPT-2 124M in f32: tpc and PyTorch, from the same weights on the same text.

    /path/to/venv/bin/python test/Benchmark/loss_curve.py [--steps 20] [--json results.json]

The Python needs torch, numpy and onnx. The text is the bytes of the pages in docs, as token ids.
Both train with AdamW, decay 0.01, the norm of the gradients clipped at 1, and a linear warm-up. The
program exits with 1 if a logged loss differs by more than --tolerance.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import common
import harness
from harness import Grid
from training_data import batch_of

HEADS, CLIP, DECAY, WARMUP = 12, 1.0, 0.01, 5
TABLE = "lm_head.weight"  # the table of tokens, to which the head is tied


def read_text() -> np.ndarray:
    pages = sorted((common.TOP / "docs").rglob("*.md"))
    return np.frombuffer(b"".join(page.read_bytes() for page in pages), np.uint8).astype(np.uint16)


def read_weights(model: Path) -> dict:
    import onnx
    import torch
    from onnx import numpy_helper

    graph = onnx.load(model).graph
    return {
        one.name.removeprefix("model.").removeprefix("transformer."): torch.from_numpy(
            numpy_helper.to_array(one).copy()
        )
        for one in graph.initializer
        if one.name.startswith("model.")
    }


def compute_logits(weights: dict, ids):
    """Returns the logits of GPT-2, whose head is tied to the table of tokens."""
    import torch
    from torch.nn import functional as F

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"])

    def linear(x, name):
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    batch, length = ids.shape
    x = weights[TABLE][ids] + weights["wpe.weight"][torch.arange(length)]
    for layer in range(sum(name.endswith("ln_1.weight") for name in weights)):
        at = f"h.{layer}."
        q, k, v = (
            part.view(batch, length, HEADS, -1).transpose(1, 2)
            for part in linear(norm(x, at + "ln_1"), at + "attn.c_attn").chunk(3, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(y.transpose(1, 2).reshape(x.shape), at + "attn.c_proj")
        hidden = F.gelu(linear(norm(x, at + "ln_2"), at + "mlp.c_fc"), approximate="tanh")
        x = x + linear(hidden, at + "mlp.c_proj")
    return norm(x, "ln_f") @ weights[TABLE].T


def train_in_torch(model: Path, text: np.ndarray, args) -> list[float]:
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(args.threads)
    weights = {name: w.requires_grad_() for name, w in read_weights(model).items()}
    groups = [
        {"params": [w for w in weights.values() if w.ndim > 1], "weight_decay": DECAY},
        {"params": [w for w in weights.values() if w.ndim < 2], "weight_decay": 0},
    ]
    optimizer, losses = torch.optim.AdamW(groups, lr=args.lr), []
    for step in range(1, args.steps + 1):
        ids, labels = map(torch.from_numpy, batch_of(text, step, args.batch, args.sequence))
        for group in optimizer.param_groups:
            group["lr"] = args.lr * min(1, step / WARMUP)
        optimizer.zero_grad()
        loss = F.cross_entropy(compute_logits(weights, ids).flatten(0, 1), labels.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_in_tpc(program: Path, text: np.ndarray, args, folder: Path) -> list[float]:
    text.tofile(folder / "tokens.bin")
    flags = {"data": folder / "tokens.bin", "batch": args.batch, "sequence": args.sequence}
    flags |= {"steps": args.steps, "lr": args.lr, "warmup": WARMUP, "log": folder / "log.jsonl"}
    flags["threads-per-rank"] = args.threads
    command = [program, *(str(x) for name, value in flags.items() for x in (f"--{name}", value))]
    harness.run(command, timeout=7200).check()
    return [json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text().splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--grid", default="tp1", help="value of --megatron-shard (tp1)")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    text, model = read_text(), common.model_124m()
    with tempfile.TemporaryDirectory() as directory:
        compiler = harness.Compiler(Path(directory))
        optimizer = f"--optimizer=adamw:decay={DECAY},clip={CLIP}"
        program = compiler.compile(model, Grid.parse(args.grid), "--train", optimizer).path
        tpc_losses = train_in_tpc(program, text, args, Path(directory))
    torch_losses = train_in_torch(model, text, args)
    rows = [[i, x, y, abs(x - y)] for i, (x, y) in enumerate(zip(tpc_losses, torch_losses), 1)]
    common.print_table(["step", "tpc", "torch", "difference"], rows)
    difference = max(row[-1] for row in rows)
    print(f"maximum difference of a logged loss: {difference:.2e}")
    common.finish({"tpc": tpc_losses, "torch": torch_losses, "difference": difference}, args.json)
    return int(difference > args.tolerance)


if __name__ == "__main__":
    sys.exit(main())

"""Writes training/NAME.json: losses and weights of 50 steps of training in PyTorch.

    PYTHONPATH=python python test/Models/training.py [NAME …]

Needs torch and transformers; tests need neither. Each model is built from its seed as make.py does,
and PyTorch computes in double precision. The data and its order are those of a training executable
with --seed 0. A file contains, for each optimizer, the losses, and 16 elements of each initializer
after the last step.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import expected
import gradients
import make  # noqa: F401

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "Integration"))

from training_data import BATCH, SEQUENCE, STEPS, batch_of, make_data, pick  # noqa: E402

FOLDER = HERE / "training"
OPTIMIZERS = {
    "sgd:momentum=0.9": 0.05,
    "adamw:decay=0.1,clip=1": 0.002,
}


def make_optimizer(text, parameters, rate):
    """Returns PyTorch's optimizer, and the maximum norm of gradients or None."""
    import torch

    name, _, settings = text.partition(":")
    values = {key: float(value) for key, value in (s.split("=") for s in settings.split(","))}
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": values.get("decay", 0)},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0},
    ]
    made = (
        torch.optim.SGD(groups, lr=rate, momentum=values.get("momentum", 0))
        if name == "sgd"
        else torch.optim.AdamW(groups, lr=rate)
    )
    return made, values.get("clip")


def train(name, text, rate):
    import torch

    model = expected.build(name).double().eval()
    head = model.get_output_embeddings()
    if head is not None and head.weight is model.get_input_embeddings().weight:
        head.weight = torch.nn.Parameter(head.weight.detach().clone())
    initial = {key: p.detach().float().numpy().copy() for key, p in model.named_parameters()}
    optimizer, clip = make_optimizer(text, list(model.parameters()), rate)
    data, losses = make_data(model.config.vocab_size), []
    for step in range(1, STEPS + 1):
        ids, labels = batch_of(data, step, BATCH, SEQUENCE)
        logits = model(torch.from_numpy(ids), use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), torch.from_numpy(labels).flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
    return losses, initial, {key: p.detach().numpy() for key, p in model.named_parameters()}


def main() -> int:
    import onnx
    from onnx import numpy_helper

    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or [path.stem for path in sorted(FOLDER.glob("*.json"))]:
        graph = onnx.load(HERE / f"{name}.onnx").graph
        stored = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        result = {}
        for text, rate in OPTIMIZERS.items():
            losses, initial, weights = train(name, text, rate)
            picked = {}
            for key, value in initial.items():
                found, is_transposed = gradients.match(key, value, stored)
                picked[found] = pick(weights[key].T if is_transposed else weights[key])
            result[text] = {"rate": rate, "losses": losses, "weights": picked}
            print(f"{name}, {text}: loss {losses[0]:.4f} to {losses[-1]:.4f}", flush=True)
        (FOLDER / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

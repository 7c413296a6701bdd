"""Writes gradients/NAME.npz: PyTorch's gradients of the next-token loss for each model.

    PYTHONPATH=python python test/Models/gradients.py [NAME …]

Needs torch and transformers; tests need neither. Each model is built from its seed as make.py does.
PyTorch computes in double precision. A file contains the inputs `ids` and `labels`, the `loss`, and
the gradient of each initializer of the ONNX file, by its name. Initializers are found by name and
value; the head is often stored transposed. A head that is tied in PyTorch is differentiated as two
parameters, because some files store it twice; for files that store it once, both are added.
NAME-smoothed has label smoothing and the z-loss, which the file contains too.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import numpy as np

import expected
import make  # noqa: F401

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "gradients"
BATCH, LENGTH = 3, 7
IGNORED = -100
SMOOTHED = "-smoothed"
LABEL_SMOOTHING, Z_LOSS = 0.1, 1e-2


def draw(name: str, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns ids and labels. Rows have different numbers of ignored labels. Labels include the
    ends of all vocabulary shards of 2, 3 and 4 ranks.
    """
    random = np.random.default_rng(zlib.crc32(name.encode()))
    tokens = random.integers(0, vocabulary, (BATCH, LENGTH + 1))
    ends = {0, vocabulary - 1}
    for ranks in (2, 3, 4):
        for rank in range(1, ranks):
            border = rank * (vocabulary // ranks) + min(rank, vocabulary % ranks)
            ends |= {border - 1, border}
    labels = tokens[:, 1:].copy()
    flat = labels.reshape(-1)
    flat[: len(ends)] = sorted(ends)
    labels[1, 5:] = IGNORED
    labels[2, 1:] = IGNORED
    return tokens[:, :-1].copy(), labels


def differentiate(model, ids, labels, label_smoothing=0.0, z_loss=0.0):
    """Returns the loss, and values and gradients of the parameters by name."""
    import torch

    model = model.double().eval()
    head = model.get_output_embeddings()
    if head is not None and head.weight is model.get_input_embeddings().weight:
        head.weight = torch.nn.Parameter(head.weight.detach().clone())
    logits = model(torch.from_numpy(ids), use_cache=False).logits.flatten(0, 1)
    rows = torch.from_numpy(labels).flatten()
    loss = torch.nn.functional.cross_entropy(
        logits, rows, ignore_index=IGNORED, label_smoothing=label_smoothing
    )
    loss = loss + z_loss * logits[rows != IGNORED].logsumexp(-1).square().mean()
    loss.backward()
    return loss.item(), {
        name: (value.detach().float().numpy(), value.grad.numpy())
        for name, value in model.named_parameters()
        if value.grad is not None
    }


def match(
    name: str, value: np.ndarray, stored: dict[str, np.ndarray], is_head: bool = False
) -> tuple[str, bool]:
    """Returns the initializer that contains a parameter, and whether it is transposed."""
    # Gemma multiplies by 1 + weight, and the file stores the sum.
    same = [
        key
        for key, other in stored.items()
        if np.array_equal(other, value) or (value.ndim == 1 and np.array_equal(other, 1 + value))
    ]
    transposed = [
        key
        for key, other in stored.items()
        if value.ndim == 2 and other.shape == value.shape[::-1] and np.array_equal(other, value.T)
    ]
    if is_head and transposed:
        return transposed[0], True
    for key in same:
        if key == name or key.endswith("." + name) or name.endswith("." + key):
            return key, False
    if len(same) == 1:
        return same[0], False
    if len(transposed) == 1:
        return transposed[0], True
    sys.exit(f"gradients.py: parameter '{name}' {value.shape} matches {same + transposed}")


def main() -> int:
    import onnx
    from onnx import numpy_helper

    FOLDER.mkdir(exist_ok=True)
    for file in sys.argv[1:] or [path.stem for path in sorted(FOLDER.glob("*.npz"))]:
        name = file.removesuffix(SMOOTHED)
        terms = {}
        if file != name:
            terms = {"label_smoothing": LABEL_SMOOTHING, "z_loss": Z_LOSS}
        model = expected.build(name)
        expected.check_weights(name, model)
        ids, labels = draw(name, model.config.vocab_size)
        loss, parameters = differentiate(model, ids, labels, **terms)
        graph = onnx.load(HERE / f"{name}.onnx").graph
        stored = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        output = model.get_output_embeddings()
        head = [n for n, p in model.named_parameters() if output and p is output.weight]
        gradients: dict[str, np.ndarray] = {}
        for key, (value, gradient) in parameters.items():
            found, is_transposed = match(key, value, stored, key in head)
            gradient = gradient.T if is_transposed else gradient
            gradients[found] = gradients.get(found, 0) + gradient
        np.savez_compressed(
            FOLDER / f"{file}.npz",
            ids=ids,
            labels=labels,
            loss=np.float64(loss),
            **terms,
            **{key: value.astype(np.float32) for key, value in gradients.items()},
        )
        print(f"{file}: loss {loss:.6f}, {len(gradients)} gradients", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

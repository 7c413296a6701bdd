"""Default values of omitted inputs, for runs of the model outside of its executable.

The compiler derives the inputs with defaults from the program, and the executable lists them
(`--describe --json`). Without an executable, `conventional` uses the input names that exporters of
transformers have in common. docs/design/executable.md defines the values.
"""

from __future__ import annotations

import json
import os
import subprocess

import numpy as np

Shapes = dict[str, list[int | str]]


def described(program: str | os.PathLike) -> list[dict]:
    """Returns the inputs of an executable that have defaults."""
    result = subprocess.run(
        [os.path.abspath(program), "--describe", "--json"], capture_output=True, text=True
    )
    if result.returncode:
        raise ValueError(f"{program} --describe fails: {result.stderr.strip()}")
    return [port for port in json.loads(result.stdout)["inputs"] if "default" in port]


def conventional(shapes: Shapes) -> list[dict]:
    """Returns the inputs of a file that have defaults, in the format of `described`."""
    ports, mask = [], shapes.get("attention_mask", [])
    if len(mask) == 2:
        ports.append({"name": "attention_mask", "default": "ones"})
    if len(shapes.get("position_ids", [])) in (1, 2):
        pasts = [
            str(shape[-2])
            for name, shape in shapes.items()
            if name.startswith("past") and len(shape) > 1
        ]
        follows = (
            {"mask": "attention_mask"} if len(mask) == 2 else {"past": pasts[0] if pasts else "0"}
        )
        ports.append({"name": "position_ids", "default": "positions", **follows})
    return ports


def bind_sizes(shapes: Shapes, given: dict[str, np.ndarray]) -> dict[str, int]:
    """Returns the sizes of the given arrays, by the names of dimensions in the file."""
    sizes = {}
    for name, array in given.items():
        for size, actual in zip(shapes.get(name, []), array.shape):
            if isinstance(size, str):
                sizes.setdefault(size, actual)
    return sizes


def evaluate(size: int | str | None, sizes: dict[str, int]) -> int | None:
    """Returns the value of a dimension: a number, a name, or a sum of these; None if unknown."""
    if isinstance(size, int):
        return size
    if size in sizes:
        return sizes[size]
    parts = [part.strip() for part in (size or "?").split("+")]
    values = [int(part) if part.isdigit() else sizes.get(part) for part in parts]
    return None if None in values else sum(values)


def positions_of(mask: np.ndarray, count: int) -> np.ndarray:
    """Returns the positions of the last `count` tokens, with the convention of transformers.

    The position of a visible token is the number of visible tokens before it; that of hidden tokens
    is 1.
    """
    seen = mask != 0
    return np.where(seen, np.cumsum(seen, axis=1) - 1, 1)[:, mask.shape[1] - count :]


def fill(
    shapes: Shapes, types: dict[str, np.dtype], given: dict[str, np.ndarray], ports: list[dict]
) -> dict[str, np.ndarray]:
    """Returns the given inputs, and defaults of missing inputs with known sizes."""
    result, sizes = dict(given), bind_sizes(shapes, given)
    # Inputs that depend on a mask come last, after the mask itself.
    for port in sorted(ports, key=lambda port: "mask" in port):
        name = port["name"]
        shape = [evaluate(size, sizes) for size in shapes.get(name, [None])]
        past = evaluate(port.get("past", "0"), sizes)
        if (
            name in result
            or None in shape
            or past is None
            or port.get("mask", name) not in {*result, name}
        ):
            continue
        if port["default"] == "ones":
            values = np.ones(shape)
        elif "mask" in port:
            values = positions_of(result[port["mask"]], shape[-1])
            if len(values) > 1 and (len(shape) == 1 or shape[0] == 1):
                if (values != values[0]).any():
                    continue  # one row of positions, but different masks: positions must be given
                values = values[:1]
            values = values.reshape(shape) if values.size == np.prod(shape) else values
        else:
            values = np.broadcast_to(past + np.arange(shape[-1]), shape)
        result[name] = np.ascontiguousarray(values, dtype=types.get(name, np.int64))
    return result

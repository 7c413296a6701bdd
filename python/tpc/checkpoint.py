"""Weights of checkpoints of training runs: `python -m tpc.checkpoint export --help`."""

from __future__ import annotations

import argparse
import json
import struct
import sys
from pathlib import Path

import numpy as np

from tpc import console

# Errors of valid JSON with other contents, and of invalid JSON.
DAMAGE = (AttributeError, IndexError, KeyError, MemoryError, OverflowError, TypeError, ValueError)
TYPES = {"f32": (np.float32, "F32"), "f16": (np.float16, "F16"), "bf16": (np.uint16, "BF16")}


class CheckpointError(Exception):
    """An error of a checkpoint, or of an argument of the command."""


def find_step(folder):
    """Returns a checkpoint: `folder` itself, or its last folder step-N."""
    folder = Path(folder)
    if (folder / "index.json").is_file():
        return folder
    steps = [path for path in folder.glob("step-*") if path.name[5:].isdigit()]
    if not steps:
        raise CheckpointError(f"{folder}: there is no checkpoint step-N in this folder")
    return max(steps, key=lambda path: int(path.name[5:]))


def read_safetensors(path):
    """Returns the tensors of a rank, each as the bytes of its elements."""
    data = path.read_bytes()
    if len(data) < 8 or struct.unpack("<Q", data[:8])[0] > len(data) - 8:
        raise CheckpointError(f"{path}: the file is damaged")
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:begin])
    return {
        key: data[begin + entry["data_offsets"][0] : begin + entry["data_offsets"][1]]
        for key, entry in header.items()
        if key != "__metadata__"
    }


def positions_of(tensor):
    """Returns the indices of a shard's elements in the flat weight."""
    positions = np.array([tensor["offset"]], np.int64)
    for factor in tensor["factors"]:
        steps = factor.get("offsets") or np.arange(factor["size"]) * factor["stride"]
        positions = (positions[:, None] + np.asarray(steps, np.int64)[None, :]).reshape(-1)
    return positions


def _read_tensors(step, moments):
    index = json.loads((step / "index.json").read_text())
    tensors, missing = {}, {}
    for rank in index["ranks"]:
        file = step / Path(rank["file"]).name
        data = read_safetensors(file)
        for tensor in rank["tensors"]:
            if not (tensor["is_weight"] or moments):
                continue
            name, (dtype, _) = tensor["name"], TYPES[tensor["dtype"]]
            if name not in tensors:
                count = int(np.prod(tensor["shape"], dtype=np.int64))
                tensors[name] = np.zeros(count, dtype).reshape(tensor["shape"])
                missing[name] = np.ones(count, bool)
            positions = positions_of(tensor)
            values = np.frombuffer(data[tensor["key"]], dtype)
            if len(values) != len(positions) or (positions < 0).any():
                raise CheckpointError(f"{file}: '{tensor['key']}' is damaged")
            tensors[name].reshape(-1)[positions] = values
            missing[name][positions] = False
    for name, elements in missing.items():
        if elements.any():
            raise CheckpointError(f"{step}: {elements.sum()} elements of '{name}' are in no file")
    return tensors


def read_tensors(folder, moments=False):
    """Returns the weights of a checkpoint by name, and with `moments` the optimizer's state.

    Each weight is assembled from the shards of all ranks.
    """
    step = find_step(folder)
    try:
        return _read_tensors(step, moments)
    except OSError as error:
        raise CheckpointError(f"{error.filename or step}: {error.strerror}") from None
    except DAMAGE as error:
        raise CheckpointError(
            f"{step}: the checkpoint is damaged: {type(error).__name__}: {error}"
        ) from None


def write_safetensors(path, tensors):
    """Writes a file, which replaces one of this name when it is complete."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, values in tensors.items():
        kind = next(kind for dtype, kind in TYPES.values() if dtype == values.dtype)
        end = at + values.nbytes
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    partial = Path(f"{path}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for values in tensors.values():
                file.write(np.ascontiguousarray(values).tobytes())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def write_onnx(source, path, tensors):
    """Writes a copy of the model `source` with these weights, which are external data."""
    try:
        from tpc import onnxfile
    except ImportError as error:
        raise CheckpointError(f"--onnx: {error}") from None
    try:
        model = onnxfile.load(source)
    except ValueError as error:
        raise CheckpointError(str(error)) from None
    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, values in tensors.items():
        if name not in initializers:
            raise CheckpointError(f"{source}: there is no initializer '{name}'")
        initializers[name].CopyFrom(onnxfile.numpy_helper.from_array(values, name))
    onnxfile.onnx.save(
        model,
        path,
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location=Path(path).name + ".data",
        size_threshold=0,
    )


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m tpc.checkpoint", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    export = commands.add_parser(
        "export", help="write the weights of a checkpoint under the names of the ONNX file"
    )
    export.add_argument("checkpoint", help="a folder step-N, or the folder of --save (its last)")
    export.add_argument(
        "-o", "--output", required=True, help="a .safetensors file, or with --onnx an .onnx file"
    )
    export.add_argument("--onnx", metavar="MODEL", help="the model that was trained")
    export.add_argument("--moments", action="store_true", help="also the optimizer's state")
    arguments = parser.parse_args(argv)
    try:
        if arguments.onnx and arguments.moments:
            raise CheckpointError("--moments: an ONNX file has no optimizer state")
        tensors = read_tensors(arguments.checkpoint, arguments.moments)
        if arguments.onnx:
            write_onnx(arguments.onnx, arguments.output, tensors)
        else:
            write_safetensors(arguments.output, tensors)
    except OSError as error:
        sys.exit(f"tpc.checkpoint: cannot write '{arguments.output}': {error.strerror}")
    except CheckpointError as error:
        sys.exit(f"tpc.checkpoint: {error}")


if __name__ == "__main__":
    console.run("tpc.checkpoint", main)

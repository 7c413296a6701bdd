"""Generation of seeded weights for an ONNX file without external data.

    python -m tpc.weights test/Models/gpt2-124m.onnx -o build/models

writes a copy of the file and its external data to `build/models`. A matrix gets
N(0, 1/sqrt(fan-in)). Biases and norms get their initial value in training, 0 or 1, plus N(0, 0.2).
The values of a tensor depend only on the seed, its name and its shape. Needs numpy and onnx.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
from pathlib import Path

import numpy as np

from tpc import console, onnxfile
from tpc.onnxfile import onnx

# Elements per write.
CHUNK = 1 << 22
NORMS = {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"}


def fan_in_dimensions(graph: onnx.GraphProto) -> dict[str, int]:
    """Returns the reduced dimension of each initializer that multiplies activations.

    A lookup table is treated as the transposed right operand of a matmul, like a tied head.
    """
    dimensions: dict[str, int] = {}
    for node in graph.node:
        if node.op_type == "Gemm":
            transposed = any(a.name == "transB" and a.i for a in node.attribute)
            dimensions[node.input[1]] = 1 if transposed else 0
        elif node.op_type == "MatMul":
            dimensions[node.input[1]] = 0
    for node in graph.node:
        if node.op_type in ("Gather", "Transpose"):
            dimensions.setdefault(node.input[0], 1)
    return dimensions


def norm_scales(graph: onnx.GraphProto) -> set[str]:
    return {node.input[1] for node in graph.node if node.op_type in NORMS}


def draw(tensor: onnx.TensorProto, seed: int, fan_in: int, is_norm_scale: bool):
    """Yields the tensor's values in order, as float32 arrays."""
    key = hashlib.sha256(f"{seed}:{tensor.name}:{list(tensor.dims)}".encode()).digest()
    generator = np.random.Generator(np.random.SFC64(np.frombuffer(key, dtype=np.uint32).tolist()))
    scale = np.float32(0.2 if len(tensor.dims) < 2 else fan_in**-0.5)
    shift = np.float32(1 if is_norm_scale else 0)
    left = int(np.prod(tensor.dims, dtype=np.int64))
    while left:
        values = generator.standard_normal(min(left, CHUNK), dtype=np.float32)
        left -= values.size
        values *= scale
        values += shift
        yield values


def write_weights(model_path: Path, directory: Path, seed: int = 0, progress=None) -> Path:
    """Copies the model to `directory`, writes its external data there, and returns the copy's path.

    Complete files are renamed into place, so that an interrupted run leaves no partial model.
    """
    model = onnxfile.load_structure(model_path)
    graph = model.graph
    tensors = [tensor for tensor in graph.initializer if onnxfile.is_external(tensor)]
    if not tensors:
        raise ValueError(
            f"{model_path}: no tensor refers to external data; the file is already complete"
        )
    locations = {onnxfile.external_entry(tensor)["location"] for tensor in tensors}
    if len(locations) != 1 or any(os.path.basename(name) != name for name in locations):
        raise ValueError(
            f"{model_path}: expected one external file next to the model, not {sorted(locations)}"
        )
    wrong = [tensor.name for tensor in tensors if tensor.data_type != onnx.TensorProto.FLOAT]
    if wrong:
        raise ValueError(
            f"{model_path}: only float32 weights can be generated; other types: "
            f"{', '.join(wrong)}"
        )

    dimensions, scales = fan_in_dimensions(graph), norm_scales(graph)
    directory.mkdir(parents=True, exist_ok=True)
    data_path = directory / locations.pop()
    partial = data_path.with_name(data_path.name + ".partial")
    with open(partial, "wb") as file:
        for index, tensor in enumerate(tensors):
            file.seek(int(onnxfile.external_entry(tensor).get("offset", 0)))
            fan_in = tensor.dims[dimensions.get(tensor.name, 0)] if len(tensor.dims) > 1 else 1
            for values in draw(tensor, seed, fan_in, tensor.name in scales):
                file.write(values.tobytes())
            if progress:
                progress(index + 1, len(tensors))
    os.replace(partial, data_path)
    copy = directory / model_path.name
    if not copy.exists() or not copy.samefile(model_path):
        shutil.copyfile(model_path, copy)
    return copy


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tpc.weights",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, help="an ONNX file that refers to external data")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="output folder (default: that of the model)",
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    if not args.model.is_file():
        parser.error(f"{args.model}: no such file")

    def progress(done: int, total: int) -> None:
        if sys.stderr.isatty():
            print(
                f"\r{done}/{total} tensors",
                end="\n" if done == total else "",
                file=sys.stderr,
                flush=True,
            )

    try:
        path = write_weights(args.model, args.output or args.model.parent, args.seed, progress)
    except (ValueError, OSError) as error:
        sys.exit(f"tpc.weights: {error}")
    print(path)
    return 0


if __name__ == "__main__":
    console.run("tpc.weights", main)

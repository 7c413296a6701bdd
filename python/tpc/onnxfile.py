"""Reading and writing of ONNX files, with the locations of external tensors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

try:
    import onnx
    from onnx import numpy_helper
except ImportError:
    raise ImportError(
        f"ONNX files are read by the package onnx: {sys.executable} -m pip install onnx"
    ) from None

# Tensors below this size stay in the ONNX file when others go to external data. They include
# constants that the compiler reads (shapes, scales, masks).
EXTERNAL_THRESHOLD_BYTES = 128
# External tensors begin at multiples of this, for memory mapping.
EXTERNAL_ALIGNMENT = 64


def load(path: str | os.PathLike, external: bool = True) -> onnx.ModelProto:
    """Returns the model. Raises ValueError if the file cannot be read, or is not an ONNX file."""
    try:
        return onnx.load(os.fspath(path), load_external_data=external)
    except OSError as error:
        raise ValueError(f"{error.filename or path}: {error.strerror}") from None
    except Exception as error:  # errors of protobuf and of the onnx package
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{path}: not an ONNX file: {reason}") from None


def load_structure(path: str | os.PathLike) -> onnx.ModelProto:
    """Returns the model without its external data."""
    return load(path, external=False)


def tensor_bytes(tensor: onnx.TensorProto) -> int:
    """Returns the size of a tensor's dense data."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    return int(np.prod(tensor.dims, dtype=np.int64)) * dtype.itemsize


def is_external(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def external_entry(tensor: onnx.TensorProto) -> dict[str, str]:
    """Returns `location`, `offset` and `length` as in the file."""
    return {entry.key: entry.value for entry in tensor.external_data}


def set_external(tensor: onnx.TensorProto, location: str, offset: int, length: int) -> None:
    """Makes `tensor` a reference to bytes in `location` and drops its own data."""
    for field in (
        "raw_data",
        "float_data",
        "int32_data",
        "int64_data",
        "double_data",
        "uint64_data",
        "string_data",
    ):
        tensor.ClearField(field)
    tensor.ClearField("external_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)


def strip_metadata(model: onnx.ModelProto) -> None:
    """Removes metadata about the exporting machine.

    These are stack traces, doc strings and the types of intermediate values.
    """

    def strip_graph(graph: onnx.GraphProto) -> None:
        graph.ClearField("doc_string")
        graph.ClearField("metadata_props")
        graph.ClearField("value_info")
        for value in [*graph.input, *graph.output, *graph.initializer]:
            value.ClearField("doc_string")
            value.ClearField("metadata_props")
        for node in graph.node:
            node.ClearField("doc_string")
            node.ClearField("metadata_props")
            for attribute in node.attribute:
                attribute.ClearField("doc_string")
                if attribute.type == onnx.AttributeProto.GRAPH:
                    strip_graph(attribute.g)

    model.ClearField("doc_string")
    model.ClearField("metadata_props")
    strip_graph(model.graph)


def save(
    model: onnx.ModelProto,
    path: str | os.PathLike,
    external_data: bool = False,
    structure_only: bool = False,
) -> None:
    """Writes `model`, whose data must be in memory.

    With external data, every tensor of at least EXTERNAL_THRESHOLD_BYTES goes to `<path>.data`, in
    the order of the initializers. `structure_only` omits that file (`python -m tpc.weights` can
    make it).
    """
    path = Path(path)
    if not external_data and not structure_only:
        path.write_bytes(model.SerializeToString(deterministic=True))
        return
    data_path = path.with_name(path.name + ".data")
    arrays = []
    offset = 0
    for tensor in model.graph.initializer:
        length = tensor_bytes(tensor)
        if length < EXTERNAL_THRESHOLD_BYTES:
            continue
        offset = -(-offset // EXTERNAL_ALIGNMENT) * EXTERNAL_ALIGNMENT
        if not structure_only:
            arrays.append((offset, numpy_helper.to_array(tensor)))
        set_external(tensor, data_path.name, offset, length)
        offset += length
    if not structure_only:
        with open(data_path, "wb") as file:
            for begin, array in arrays:
                file.seek(begin)
                file.write(np.ascontiguousarray(array).tobytes())
    path.write_bytes(model.SerializeToString(deterministic=True))

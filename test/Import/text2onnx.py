"""Converts models in ONNX's text format: every NAME.txt in FOLDER to NAME.onnx.

    text2onnx.py FOLDER

Values declared in <…> after the graph's signature that no node computes become initializers with
random elements. Lines that begin with // are comments.
"""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx.parser
from onnx import helper, numpy_helper


def convert(text):
    lines = [line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("//")]
    model = onnx.parser.parse_model("".join(lines))
    graph = model.graph
    known = {name for node in graph.node for name in node.output} | {
        t.name for t in graph.initializer
    }
    random = np.random.default_rng(0)
    for value in graph.value_info:
        if value.name not in known:
            shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
            type = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            if type == np.uint8:  # quantized weights: all bits
                numbers = random.integers(0, 256, shape).astype(type)
            elif type == np.int8:
                # On CPUs without VNNI, ONNX Runtime adds two products with uint8 in 16 bits,
                # which saturate.
                numbers = random.integers(-64, 65, shape).astype(type)
            elif type in (ml_dtypes.int4, ml_dtypes.uint4):
                limits = ml_dtypes.iinfo(type)
                numbers = random.integers(limits.min, limits.max + 1, shape).astype(type)
            else:
                numbers = random.standard_normal(shape).astype(type)
            graph.initializer.append(numpy_helper.from_array(numbers, value.name))
    return model.SerializeToString()


for path in sorted(Path(sys.argv[1]).glob("*.txt")):
    try:
        path.with_suffix(".onnx").write_bytes(convert(path.read_text()))
    except Exception as e:
        sys.exit(f"{path}: {e}")

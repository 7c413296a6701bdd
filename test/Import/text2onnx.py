"""Turns a model in ONNX's text format into a file: text2onnx.py IN OUT

Values that are declared in <…> after the graph's signature and that no node computes become initializers with
random elements.
"""
import sys

import numpy as np
import onnx.parser
from onnx import helper, numpy_helper

with open(sys.argv[1]) as f:
    lines = [line for line in f if not line.lstrip().startswith("//")]
model = onnx.parser.parse_model("".join(lines))
graph = model.graph
known = {name for node in graph.node for name in node.output} | {t.name for t in graph.initializer}
random = np.random.default_rng(0)
for value in graph.value_info:
    if value.name not in known:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        type = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        graph.initializer.append(
            numpy_helper.from_array(random.standard_normal(shape).astype(type), value.name))
with open(sys.argv[2], "wb") as f:
    f.write(model.SerializeToString())

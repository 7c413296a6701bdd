"""Writes models with each kind of tensor storage: data_files.py FOLDER"""

import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

os.makedirs(sys.argv[1], exist_ok=True)
os.chdir(sys.argv[1])


def save(name, *tensors, node=None):
    shape = list(tensors[0].dims)
    kind = tensors[0].data_type
    node = node or helper.make_node("Add", ["x", tensors[0].name], ["y"], name="use")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        list(tensors),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with open(name + ".onnx", "wb") as f:
        f.write(model.SerializeToString())


def external(name="w", shape=(4, 4), kind=TensorProto.FLOAT, **entries):
    tensor = TensorProto(name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


values = np.arange(16, dtype=np.float32).reshape(4, 4)
with open("weights.bin", "wb") as f:
    f.write(b"\0" * 64 + values.tobytes())

save("raw", numpy_helper.from_array(values, "w"))
save("float", helper.make_tensor("w", TensorProto.FLOAT, [4, 4], values.ravel()))
save("double", helper.make_tensor("w", TensorProto.DOUBLE, [4, 4], values.ravel()))
save("half", helper.make_tensor("w", TensorProto.FLOAT16, [4], [1, 2, 3, 0.5]))
save("ints", helper.make_tensor("w", TensorProto.INT64, [2], [-1, 1 << 40]))
save(
    "bools",
    helper.make_tensor("w", TensorProto.BOOL, [2], [True, False]),
    node=helper.make_node("And", ["x", "w"], ["y"]),
)
# Triangles and bands become tpc.trilu; with one other element (stain, hole) they are weights.
band = np.tril(np.ones((1, 1, 300, 400), bool))
save(
    "triangle", numpy_helper.from_array(band, "w"), node=helper.make_node("And", ["x", "w"], ["y"])
)
save("above", numpy_helper.from_array(np.triu(np.full((300, 400), 7, np.uint8), 2), "w"))
local = np.triu(band, -5)
save("band", numpy_helper.from_array(local, "w"), node=helper.make_node("And", ["x", "w"], ["y"]))
local[0, 0, 200, 5] = True
save("stain", numpy_helper.from_array(local, "w"), node=helper.make_node("And", ["x", "w"], ["y"]))
band[0, 0, 299, 5] = False
save("hole", numpy_helper.from_array(band, "w"), node=helper.make_node("And", ["x", "w"], ["y"]))
save("external", external(location="weights.bin", offset=64, length=64))
save("whole", external(location="weights.bin", offset=64))
save("missing", external(location="absent.bin", offset=128, length=64))
save("both", external(location="weights.bin"), numpy_helper.from_array(values, "w"))

# Files that the importer rejects.
save("short", TensorProto(name="w", data_type=1, dims=[4, 4], raw_data=values.tobytes()[:60]))
save("negative", TensorProto(name="w", data_type=1, dims=[-4, 4], raw_data=b""))
save("overflow", TensorProto(name="w", data_type=1, dims=[1 << 40, 1 << 40], raw_data=b""))
save("field", TensorProto(name="w", data_type=7, dims=[2], float_data=[1, 2, 3, 4]))
save("dtype", TensorProto(name="w", data_type=14, dims=[1], raw_data=b"01234567"))
save("length", external(location="weights.bin", offset=64, length=60))
save("beyond", external(location="weights.bin", offset=80))
save("number", external(location="weights.bin", offset="0x40"))
save("escape", external(location="../weights.bin"))
save("absolute", external(location="/etc/passwd"))
both = external(location="weights.bin", offset=64)
both.raw_data = values.tobytes()
save("inside", both)
large = helper.make_tensor("w", TensorProto.INT64, [10000], range(10000))
save("varints", large)

whole = open("raw.onnx", "rb").read()
open("half-truncated.onnx", "wb").write(whole[: len(whole) // 2])
open("one-less.onnx", "wb").write(whole[:-1])
open("garbage.onnx", "wb").write(bytes(np.random.default_rng(0).integers(0, 256, 5000, np.uint8)))
open("empty.onnx", "wb").close()
open("text.onnx", "w").write("<html>404 Not Found</html>\n")


def save_nested(name, levels):
    """Writes nested Ifs whose conditions are all known."""
    node = helper.make_node("Neg", ["x"], ["y0"], name="deepest")
    for level in range(levels):
        branch = helper.make_graph(
            [node], "b", [], [helper.make_tensor_value_info(f"y{level}", TensorProto.FLOAT, None)]
        )
        other = helper.make_graph(
            [helper.make_node("Abs", ["x"], [f"y{level}"])],
            "o",
            [],
            [helper.make_tensor_value_info(f"y{level}", TensorProto.FLOAT, None)],
        )
        node = helper.make_node(
            "If",
            ["yes"],
            [f"y{level + 1}"],
            name=f"if{levels - level}",
            then_branch=branch,
            else_branch=other,
        )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])],
        [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, [4, 4])],
        [numpy_helper.from_array(np.array(True), "yes")],
    )
    with open(name + ".onnx", "wb") as f:
        f.write(
            helper.make_model(
                graph, opset_imports=[helper.make_opsetid("", 17)]
            ).SerializeToString()
        )


# The importer reads 28 levels.
save_nested("nested", 28)
save_nested("nested-more", 29)


def field(number, content):
    """Returns a field of a protobuf message. A length above 127 takes several bytes."""
    length, size = b"", len(content)
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


# Appends a second graph field, with an input of a deeply nested sequence type. Protobuf merges it
# into the first.
sequence = field(1, b"\x08\x01")
for _ in range(120):
    sequence = field(4, field(1, sequence))
with open("types.onnx", "wb") as f:
    f.write(whole + field(7, field(11, field(1, b"unused") + field(2, sequence))))

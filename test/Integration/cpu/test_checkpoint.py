"""Checkpoints of safetensors: --weights= for initializers by name, folders, and damaged files."""

import json
import os
import struct
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tpc
from harness import Executable, Grid

MODELS = Path(__file__).resolve().parents[2] / "Models"
RANDOM = np.random.default_rng(0)
KINDS = {np.dtype(np.float32): "F32", np.dtype(np.float16): "F16", np.dtype(np.int64): "I64"}


def to_bfloat(values):
    """Returns the bits of bfloat16, rounded to the nearest even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bfloat(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def header_of(tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, values in tensors.items():
        kind = KINDS.get(values.dtype, "BF16")
        header[name] = {
            "dtype": kind,
            "shape": list(values.shape),
            "data_offsets": [at, at + values.nbytes],
        }
        at += values.nbytes
    return header


def write(path, tensors, header=None, data=None):
    """Writes a safetensors file. `header` and `data` replace those of the tensors."""
    text = header_of(tensors) if header is None else header
    text = text if isinstance(text, bytes) else json.dumps(text).encode()
    if data is None:
        data = b"".join(np.ascontiguousarray(values).tobytes() for values in tensors.values())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def save(path, weights, nodes, kind=TensorProto.FLOAT, inline=(), outputs=("y",), inputs=("x",)):
    """Writes a model whose weights are in a file that is missing, except for `inline` ones."""
    tensors = []
    for name, values in weights.items():
        tensor = numpy_helper.from_array(values, name)
        if name not in inline:
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="absent.data")
        tensors.append(tensor)
    ports = [
        helper.make_tensor_value_info(
            name,
            TensorProto.INT64 if name == "ids" else kind,
            ["n"] if name == "ids" else ["n", next(iter(weights.values())).shape[0]],
        )
        for name in inputs
    ]
    results = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
    model = helper.make_model(
        helper.make_graph(nodes, "g", ports, results, tensors),
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 17)],
    )
    path.write_bytes(model.SerializeToString())
    return path


A = RANDOM.standard_normal((8, 12)).astype(np.float32)
B = RANDOM.standard_normal((12, 12)).astype(np.float32)
X = RANDOM.standard_normal((3, 8)).astype(np.float32)
WEIGHTS = {"model.layers.0.up.weight": A, "model.layers.0.down.weight": B}
NODES = [
    helper.make_node("MatMul", ["x", "model.layers.0.up.weight"], ["h"], name="up"),
    helper.make_node("MatMul", ["h", "model.layers.0.down.weight"], ["y"], name="down"),
]


@pytest.fixture
def model(tmp_path):
    return save(tmp_path / "m.onnx", WEIGHTS, NODES)


@pytest.fixture
def build(tpcc, tmp_path):
    def call(model, *arguments):
        return tpcc.call([model, "-o", tmp_path / "program", *arguments])

    def check(model, expected, *arguments, feed=None, grid=None, tolerance=1e-5):
        grid = grid or Grid()
        result = call(model, *arguments, *([f"--megatron-shard={grid}"] if grid.ranks > 1 else []))
        result.check()
        program = Executable(tmp_path / "program", grid, tmp_path / "scratch")
        y = program.run(feed or {"x": X}, outputs=["y"])["y"]
        np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)
        return result

    check.call = call
    return check


def rename(tensors, old, new):
    return {name.replace(old, new, 1): values for name, values in tensors.items()}


@pytest.mark.parametrize("prefix", ["model.", "", "transformer.model.", "base.language.model."])
def test_prefixes(build, model, tmp_path, prefix):
    write(tmp_path / "c" / "model.safetensors", rename(WEIGHTS, "model.", prefix))
    build(model, X @ A @ B, f"--weights={tmp_path / 'c'}")


def shards(folder):
    names = {}
    for index, (name, values) in enumerate(WEIGHTS.items(), 1):
        names[name] = f"model-0000{index}-of-00002.safetensors"
        write(folder / names[name], {name: values})
    index = {"metadata": {"total_size": 960}, "weight_map": names}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return names


def hub(root, folder):
    """Moves the files of a folder into the layout of a Hugging Face cache."""
    snapshot = root / "models--me--tiny" / "snapshots" / "0123abcd"
    blobs = root / "models--me--tiny" / "blobs"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (root / "models--me--tiny" / "refs").mkdir()
    (root / "models--me--tiny" / "refs" / "main").write_text("0123abcd")
    for index, path in enumerate(sorted(folder.iterdir())):
        path.rename(blobs / f"{index:064x}")
        os.symlink(f"../../blobs/{index:064x}", snapshot / path.name)
    return snapshot


@pytest.mark.parametrize("name", ["file", "index", "snapshot", "root", "one"])
def test_layouts(build, model, tmp_path, name):
    folder = tmp_path / "c"
    if name == "one":
        write(folder / "fine-tuned.safetensors", WEIGHTS)
        # Next to other files, such as an adapter's, a checkpoint must be named by its file.
        write(folder / "adapter.safetensors", {"lora": X})
        build.call(model, f"--weights={folder}").refused("several", "adapter", "fine-tuned")
        build(model, X @ A @ B, f"--weights={folder / 'fine-tuned.safetensors'}")
        return
    if name == "file":
        write(folder / "model.safetensors", WEIGHTS)
    else:
        shards(folder)
    if name in ("snapshot", "root"):
        folder = hub(tmp_path, folder)
    if name == "root":
        folder = folder.parents[1]
    build(model, X @ A @ B, f"--weights={folder}")
    # The executable finds the files in another folder by their names.
    if name == "snapshot":
        moved = folder.rename(folder.with_name("other"))
        program = Executable(tmp_path / "program", Grid(), tmp_path / "s")
        y = program.run({"x": X}, outputs=["y"], arguments=[f"--weights={moved}"])["y"]
        np.testing.assert_allclose(y, X @ A @ B, rtol=1e-5, atol=1e-5)


def test_links_out_of_the_folder(build, model, tmp_path):
    write(tmp_path / "elsewhere" / "w", WEIGHTS)
    names = shards(tmp_path / "c")
    shard = tmp_path / "c" / list(names.values())[0]
    shard.unlink()
    os.symlink(tmp_path / "elsewhere" / "w", shard)
    build.call(model, f"--weights={tmp_path / 'c'}").refused("leads out of")


@pytest.mark.parametrize("stored", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("kind", ["F32", "F16"])
def test_types(build, tmp_path, stored, kind):
    graph = np.float32 if kind == "F32" else np.float16
    bits = {"F32": np.float32, "F16": np.float16}
    tensors = {
        name: to_bfloat(values) if stored == "BF16" else values.astype(bits[stored])
        for name, values in WEIGHTS.items()
    }
    a, b = (from_bfloat(v) if stored == "BF16" else v.astype(graph) for v in tensors.values())
    model = save(
        tmp_path / "m.onnx",
        {name: values.astype(graph) for name, values in WEIGHTS.items()},
        NODES,
        TensorProto.FLOAT if kind == "F32" else TensorProto.FLOAT16,
    )
    write(tmp_path / "c" / "model.safetensors", tensors)
    expected = X.astype(graph).astype(np.float32) @ a.astype(np.float32) @ b.astype(np.float32)
    tolerance = 1e-5 if kind == "F32" else 2e-2
    feed = {"x": X.astype(graph)}
    for grid in (Grid(), Grid(tp=2)):
        build(
            model, expected, f"--weights={tmp_path / 'c'}", feed=feed, grid=grid,
            tolerance=tolerance,
        )  # fmt: skip


def test_transposes(build, model, tmp_path, tpcc):
    """Shapes show which matrices are transposed. Square ones follow others, values or the map."""
    write(tmp_path / "c" / "model.safetensors", {n: v.T for n, v in WEIGHTS.items()})
    checkpoint = f"--weights={tmp_path / 'c'}"
    build(model, X @ A @ B, checkpoint)
    # Sampled values of the model show that only one matrix is transposed.
    mixed = save(tmp_path / "mixed.onnx", WEIGHTS, NODES, inline=["model.layers.0.down.weight"])
    write(tmp_path / "d" / "model.safetensors", {**WEIGHTS, list(WEIGHTS)[0]: A.T})
    build(mixed, X @ A @ B, f"--weights={tmp_path / 'd'}")
    # Without values, the map decides.
    (tmp_path / "map.json").write_text(
        json.dumps({n: {"name": n, "transpose": v is A} for n, v in WEIGHTS.items()})
    )
    build(model, X @ A @ B, f"--weights={tmp_path / 'd'}", f"--weights-map={tmp_path / 'map.json'}")
    # Matrices in both orders do not determine the order of a square one.
    three = {**WEIGHTS, "model.layers.1.up.weight": A.T.copy()}
    nodes = [*NODES[:1], helper.make_node("MatMul", ["h", list(WEIGHTS)[1]], ["i"])]
    nodes += [helper.make_node("MatMul", ["i", "model.layers.1.up.weight"], ["y"])]
    write(tmp_path / "e" / "model.safetensors", {**three, list(WEIGHTS)[0]: A.T})
    model = save(tmp_path / "three.onnx", three, nodes)
    build.call(model, f"--weights={tmp_path / 'e'}").refused(
        "could be its transpose", '"transpose": true', "model.layers.0.down.weight"
    )


def test_renamed_weights(build, tmp_path):
    """A transposed weight has another name, but its node or its metadata names the module."""
    nodes = [
        helper.make_node("MatMul", ["x", "onnx::MatMul_17"], ["h"], name="/layers.0/up/MatMul"),
        helper.make_node("MatMul", ["h", "val_4"], ["y"], name="node_linear_1"),
    ]
    scopes = "['', 'layers.0', 'layers.0.down', 'linear_1']"
    nodes[1].metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    weights = {"onnx::MatMul_17": A, "val_4": B}
    checkpoint = {"m.layers.0.up.weight": A.T * 2, "m.layers.0.down.weight": B.T * 2}
    write(tmp_path / "c" / "model.safetensors", checkpoint)
    for inline in ((), weights):
        model = save(tmp_path / "m.onnx", weights, nodes, inline=inline)
        build(model, X @ A @ B * 4, f"--weights={tmp_path / 'c'}")
    # Without names, values identify tensors. A matrix that equals no tensor keeps its values.
    for node in nodes:
        node.name = ""
        del node.metadata_props[:]
    write(tmp_path / "d" / "model.safetensors", {"up": A.T, "other": B + 1})
    model = save(tmp_path / "m.onnx", weights, nodes, inline=weights)
    result = build(model, X @ A @ B, f"--weights={tmp_path / 'd'}")
    warning = "1 matrix keeps the values of the model file (such as 'val_4', [12, 12])"
    assert warning in result.stderr
    (tmp_path / "map").write_text('{"val_4": "other"}')
    named = f"--weights-map={tmp_path / 'map'}"
    build(model, X @ A @ (B + 1), f"--weights={tmp_path / 'd'}", named)
    (tmp_path / "map").write_text('{"val_4": null}')
    assert not build(model, X @ A @ B, f"--weights={tmp_path / 'd'}", named).stderr


def test_tied_head(build, tmp_path):
    table = RANDOM.standard_normal((20, 8)).astype(np.float32)
    weights = {"model.embed.weight": table, "lm_head.weight": table.T.copy()}
    nodes = [
        helper.make_node("Gather", ["model.embed.weight", "ids"], ["h"]),
        helper.make_node("MatMul", ["h", "lm_head.weight"], ["y"], name="head"),
    ]
    model = save(tmp_path / "m.onnx", weights, nodes, inputs=["ids"])
    write(tmp_path / "c" / "model.safetensors", {"embed.weight": table})
    ids = np.array([1, 7, 19, 4], np.int64)
    wanted, feed = table[ids] @ table.T, {"ids": ids}
    for grid in (Grid(), Grid(tp=2)):
        build(model, wanted, f"--weights={tmp_path / 'c'}", feed=feed, grid=grid)


@pytest.mark.parametrize(
    "name", ["gpt2-tiny", "qwen2-past", pytest.param("llama-dynamo", marks=pytest.mark.long)]
)
def test_models(tpcc, tmp_path, name):
    """Without its weights, but with a bfloat16 checkpoint, a model generates the same tokens."""
    proto = onnx.load(MODELS / f"{name}.onnx")
    tensors = {}
    for tensor in proto.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.size < 16:
            continue
        rounded = from_bfloat(to_bfloat(values))
        tensors[tensor.name] = to_bfloat(values)
        tensor.raw_data = rounded.tobytes()
    whole = tmp_path / f"{name}.onnx"
    whole.write_bytes(proto.SerializeToString())
    for tensor in proto.graph.initializer:
        if tensor.name in tensors:
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="absent")
    (tmp_path / "bare").mkdir()
    bare = tmp_path / "bare" / f"{name}.onnx"
    bare.write_bytes(proto.SerializeToString())
    checkpoint = tmp_path / "c"
    write(checkpoint / "model.safetensors", tensors)
    tokens = []
    for path, weights in ((whole, None), (bare, checkpoint)):
        model = tpc.compile(
            path, shard="tp2,pp2", generate=True, weights=weights, out=tmp_path / "program"
        )
        tokens.append(model.generate([3, 1, 4, 1, 5], max_new_tokens=8))
    np.testing.assert_array_equal(tokens[0], tokens[1])


TWO = header_of(WEIGHTS)
FIRST, SECOND = WEIGHTS


def changed(name=FIRST, **fields):
    return {**TWO, name: {**TWO[name], **fields}}


@pytest.mark.parametrize(
    "header, words",
    [
        (changed(data_offsets=[0, 10**15]), ["needs bytes 0 to", "truncated"]),
        (changed(data_offsets=[8, 4]), [FIRST, "malformed data_offsets"]),
        (changed(data_offsets=[-8, 376]), [FIRST, "malformed data_offsets"]),
        (changed(data_offsets=[0]), [FIRST, "two numbers"]),
        (changed(data_offsets=[0, 380]), [FIRST, "needs 384 bytes", "span 380"]),
        (changed(SECOND, data_offsets=[0, 576]), ["overlap", FIRST, SECOND]),
        (changed(dtype="F31"), [FIRST, "'F31'"]),
        (changed(dtype=7), [FIRST, "no dtype"]),
        (changed(dtype="I32"), [FIRST, "float32", "I32"]),
        (changed(shape=[2**40, 2**40]), [FIRST, "too large"]),
        (changed(shape=[-8, 12]), [FIRST, "size '-8'"]),
        (changed(shape="8"), [FIRST, "no shape"]),
        (changed(shape=[6, 16]), [FIRST, "[8, 12]", "[6, 16]", "--weights-map"]),
        ({**TWO, FIRST: 7}, [FIRST, "dtype, shape"]),
        ({SECOND: TWO[SECOND]}, ["1 initializer (", FIRST, "without data", "--weights-map"]),
        ({"a.b": TWO[FIRST]}, ["2 initializers", "'a.b'"]),
        ([], ["not an object"]),
        (b'{"a":1,"a":2}', ["'a' occurs twice"]),
        (b'{"a":', ["malformed header", "byte 5", "unexpected end"]),
        (b'{"a\\ud800":1}', ["surrogate"]),
        (b'{"\\u001b[31m": 3}', ["\\x1b[31m", "no dtype"]),
        (b"[" * 100_000, ["nested"]),
    ],
)  # fmt: skip
def test_damaged_headers(build, model, tmp_path, header, words):
    write(tmp_path / "c" / "model.safetensors", WEIGHTS, header)
    build.call(model, f"--weights={tmp_path / 'c'}").refused(*words)


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", ["has 0 bytes"]),
        (struct.pack("<Q", 1 << 62), ["not a safetensors file", "header would have"]),
        (struct.pack("<Q", 1000) + b"{}", ["1000 bytes", "truncated"]),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", ["git lfs pull"]),
        (b"\x80\x02}q\x00.PK\x03\x04", ["not a safetensors file"]),
    ],
)
def test_damaged_files(build, model, tmp_path, content, words):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    build.call(model, f"--weights={path}").refused(*words)


@pytest.mark.parametrize(
    "index, words",
    [
        ("[]", ["no weight_map"]),
        ({"weight_map": {FIRST: 3}}, [FIRST, "no file name"]),
        ({"weight_map": {FIRST: "../w.safetensors"}}, ["not a path below"]),
        ({"weight_map": {FIRST: "absent.safetensors"}}, ["No such file"]),
        ({"weight_map": {"z": "model-00001-of-00002.safetensors"}}, ["lists tensor 'z'"]),
    ],
)
def test_damaged_indices(build, model, tmp_path, index, words):
    shards(tmp_path / "c")
    text = index if isinstance(index, str) else json.dumps(index)
    (tmp_path / "c" / "model.safetensors.index.json").write_text(text)
    build.call(model, f"--weights={tmp_path / 'c'}").refused(*words)


@pytest.mark.parametrize(
    "names, words",
    [
        ("{", ["byte 1"]),
        ("[]", ["expected an object"]),
        ('{"absent": "x"}', ["no node", "'absent'"]),
        (json.dumps({FIRST: "absent"}), ["no tensor 'absent'"]),
        (json.dumps({FIRST: 3}), [FIRST, "no name"]),
        (json.dumps({FIRST: {"name": FIRST, "transpose": 1}}), ["neither true nor false"]),
        (json.dumps({FIRST: {"name": FIRST, "transpose": True}}), ["[8, 12]"]),
        (json.dumps({FIRST: SECOND}), ["[8, 12]", "[12, 12]"]),
        (json.dumps({FIRST: None}), ["without data"]),
    ],
)
def test_maps(build, model, tmp_path, names, words):
    write(tmp_path / "c" / "model.safetensors", WEIGHTS)
    (tmp_path / "map.json").write_text(names)
    flag = f"--weights-map={tmp_path / 'map.json'}"
    build.call(model, f"--weights={tmp_path / 'c'}", flag).refused(*words)
    build.call(model, flag).refused("--weights-map needs a checkpoint")


def test_external_data_takes_precedence(build, tmp_path):
    """If a folder has the model's external data and a checkpoint, the external data is used."""
    model = save(tmp_path / "m.onnx", {"w.x": A}, [helper.make_node("MatMul", ["x", "w.x"], ["y"])])
    write(tmp_path / "c" / "model.safetensors", {"w.x": A + 1})
    A.tofile(tmp_path / "c" / "absent.data")
    build(model, X @ A, f"--weights={tmp_path / 'c'}")
    build(model, X @ (A + 1), f"--weights={tmp_path / 'c' / 'model.safetensors'}")

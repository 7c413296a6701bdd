"""Models in f16 and bf16: 16 bits in memory and between ranks, f32 inside of each op."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from halves import HALVES, as_float, halve
from models import MODELS
from tpc.reference import Session

FILES = ["gpt2-tiny-nopast", "llama-dynamo"]
GRIDS = ["tp1", "tp2,pp2,sp"]


@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("file", FILES)
def test_models(tpcc, tmp_path, file, kind):
    """The reference for f16 is ONNX Runtime on the same file. ONNX Runtime cannot run
    bf16, so the reference for bf16 is the f32 model.
    """
    path = tmp_path / f"{file}-{kind}.onnx"
    onnx.save(halve(onnx.load(MODELS / f"{file}.onnx"), kind), path)
    single = onnx.load(MODELS / f"{file}.onnx")
    ids = np.random.default_rng(5).integers(0, 60, (2, 7))
    inputs = {
        port.name: (
            ids
            if "ids" in port.name and "position" not in port.name
            else (
                np.arange(7)[None].repeat(2, 0)
                if "position" in port.name
                else np.ones((2, 7), np.int64)
            )
        )
        for port in single.graph.input
    }
    wanted = as_float(
        Session(path if kind == "f16" else MODELS / f"{file}.onnx").run(inputs)["logits"]
    )
    scale = np.abs(wanted).max()
    for grid in GRIDS:
        got = as_float(tpcc.compile(path, grid).run(inputs)["logits"])
        # The error of rounding is at most 2^-11 of a number in f16 and 2^-8 in bf16. Errors of
        # about a dozen consecutive ops accumulate.
        assert np.abs(got - wanted).max() < scale * (4e-3 if kind == "f16" else 4e-2), grid


def attention(element: int, with_bias: bool) -> onnx.ModelProto:
    ports = [helper.make_tensor_value_info(name, element, ["b", 4, "s", 8]) for name in "qkv"]
    if with_bias:
        ports.append(helper.make_tensor_value_info("bias", element, ["b", 1, "s", "s"]))
    node = helper.make_node(
        "Attention",
        [p.name for p in ports],
        ["y"],
        "/layer.0/attention",
        is_causal=int(not with_bias),
    )
    graph = helper.make_graph(
        [node], "attention", ports, [helper.make_tensor_value_info("y", element, ["b", 4, "s", 8])]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


@pytest.mark.parametrize("with_bias", [False, True])
def test_attention_is_rounded_once(tpcc, tmp_path, with_bias):
    """f16 attention equals f32 attention on the same numbers: no score or weight is rounded."""
    random = np.random.default_rng(2)
    inputs = {name: random.normal(size=(2, 4, 5, 8)).astype(np.float16) for name in "qkv"}
    if with_bias:
        inputs["bias"] = random.normal(size=(2, 1, 5, 5)).astype(np.float16)
    programs = {}
    for element in (TensorProto.FLOAT16, TensorProto.FLOAT):
        path = tmp_path / f"{element}.onnx"
        onnx.save(attention(element, with_bias), path)
        programs[element] = tpcc.compile(path)
    half = programs[TensorProto.FLOAT16].run(inputs, outputs=["y"])["y"]
    single = programs[TensorProto.FLOAT].run(
        {n: a.astype(np.float32) for n, a in inputs.items()}, outputs=["y"]
    )["y"]
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, single.astype(np.float16))


def test_attention_in_f64_is_rejected(tpcc, tmp_path):
    path = tmp_path / "double.onnx"
    onnx.save(attention(TensorProto.DOUBLE, False), path)
    tpcc.call([path, "-o", tmp_path / "double"]).refused("/layer.0/attention", "'f64'", "Cast")

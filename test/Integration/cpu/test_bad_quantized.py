"""Damaged quantized weights: an error of the compiler, or a program; no crash and no hang."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from genai_files import GenAi
from quantized_files import Blocks, in_blocks, linear
from test_bad_model import mutate_model, write


def damage_weights(random, model):
    """Makes one error in the quantized weights of a model."""
    tensors = [t for t in model.graph.initializer if t.name.endswith(("_q", "_s", "_z"))]
    tensor = tensors[int(random.integers(len(tensors)))]
    nodes = [n for n in model.graph.node if n.domain == "com.microsoft" and n.attribute]
    data, kind = bytearray(tensor.raw_data), int(random.integers(0, 5))
    if kind == 0 and tensor.data_type == TensorProto.FLOAT:
        number = np.float32(random.choice([np.nan, np.inf, -np.inf, 0, -1, 1e-45, 3e38]))
        at = 4 * int(random.integers(len(data) // 4))
        data[at : at + 4] = number.tobytes()
    elif kind == 1:
        size = int(random.choice([0, 1, 17, 2**31, 2**62, -1]))
        tensor.dims[int(random.integers(len(tensor.dims)))] = size
    elif kind == 2:
        del data[int(random.integers(len(data))) :]
    elif kind == 3:
        tensor.data_type = int(random.integers(0, 27))
    elif nodes:
        node = nodes[int(random.integers(len(nodes)))]
        attribute = node.attribute[int(random.integers(len(node.attribute)))]
        attribute.i = int(random.choice([-1, 0, 2, 8, 16, 17, 64, 2**31, 2**62]))
    tensor.raw_data = bytes(data)


@pytest.mark.parametrize("seed", range(16))
def test_damaged_quantized_weights(tpcc, tmp_path, seed):
    """Every fifth file has f32 weights, which --quantize reads."""
    random = np.random.default_rng(seed)
    spec, flags = GenAi(layers=1, hidden=64, inner=64), []
    model = onnx.load(spec.save(tmp_path / "model.onnx"))
    hows = [Blocks(zeros="packed", table=True), Blocks(bits=8, zeros="float"), "rows", "int4", None]
    how = hows[seed % 5]
    if how is None:
        flags = ["--quantize=int4"]
        mutate_model(random, model)
    else:
        model = in_blocks(model, how) if isinstance(how, Blocks) else linear(model, how)
        for _ in range(int(random.integers(1, 3))):
            damage_weights(random, model)
    out = tmp_path / "out"
    path = write(tmp_path / "damaged.onnx", model)
    result = tpcc.call([path, "--megatron-shard=tp2", "-o", out, *flags], timeout=60)
    if result.returncode == 0 and not result.timed_out:
        assert out.exists()
    else:
        result.refused()
        assert not out.exists()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_damaged_quantized_weights_at_length(tpcc, tmp_path, seed):
    test_damaged_quantized_weights(tpcc, tmp_path, seed)

"""Faults in models change logits by far more than the tolerance of the tests."""

import copy
import math

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from models import COMMITTED
from tpc.reference import TOLERANCE, Session, difference

ODD = COMMITTED["gpt2-odd-opset20"]
ERF = COMMITTED["gpt2-erf-opset18"]
# Factor by which a fault must exceed the tolerance.
MARGIN = 20


@pytest.fixture(scope="module")
def original():
    return onnx.load(ODD.path)


def with_tensor(model, name, change):
    """Returns a copy of the model with `change` applied to one initializer."""
    mutated = copy.deepcopy(model)
    tensor = next(tensor for tensor in mutated.graph.initializer if tensor.name == name)
    tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor).copy()), name))
    return mutated


def change_of_logits(model, mutated):
    """Returns the change of the logits by the mutation, relative to the largest logit."""
    inputs = model.inputs(2, 16)
    return difference(
        Session(mutated.SerializeToString()).run(inputs)[model.output], model.expected(inputs)
    ).relative


def vectors(model):
    return [
        tensor.name
        for tensor in model.graph.initializer
        if len(tensor.dims) == 1 and tensor.data_type == TensorProto.FLOAT and tensor.dims[0] > 1
    ]


def zeroed_q(weight):
    weight[..., : ODD.hidden] = 0
    return weight


def test_zeroed_q(original):
    for layer in range(ODD.layers):
        mutated = original
        for part in ("weight", "bias"):
            mutated = with_tensor(
                mutated, f"model.transformer.h.{layer}.attn.c_attn.{part}", zeroed_q
            )
        assert change_of_logits(ODD, mutated) > MARGIN * TOLERANCE, layer


def test_lost_bias(original):
    names = vectors(original)
    assert len(names) == 8 * ODD.layers + 2
    for name in names:
        mutated = with_tensor(original, name, np.zeros_like)
        assert change_of_logits(ODD, mutated) > MARGIN * TOLERANCE, name


def test_bias_added_twice(original):
    for name in vectors(original):
        mutated = with_tensor(original, name, lambda bias: 2 * bias)
        assert change_of_logits(ODD, mutated) > MARGIN * TOLERANCE, name


def swap_gelu(model, layer, old, new, scale):
    """Replaces function `old` in one layer's GELU by `new` of the GELU's scaled argument."""
    mutated = copy.deepcopy(model)
    nodes = mutated.graph.node
    position = [index for index, node in enumerate(nodes) if node.op_type == old][layer]
    producers = {output: node for node in nodes for output in node.output}
    # The operand of the GELU is the output of the previous matmul.
    argument = nodes[position].input[0]
    while producers[argument].op_type != "Gemm":
        argument = producers[argument].input[0]
    # The matmul is [tokens, ffn]; the next op views it as [batch, sequence, ffn].
    argument = next(
        node.output[0] for node in nodes if argument in node.input and node.op_type == "Reshape"
    )
    mutated.graph.initializer.append(
        numpy_helper.from_array(np.array(scale, np.float32), "mutation_scale")
    )
    node = nodes[position]
    scaled = helper.make_node("Mul", [argument, "mutation_scale"], ["mutation_argument"])
    node.op_type = new
    node.input[0] = "mutation_argument"
    nodes.insert(position, scaled)
    return mutated


def test_erf_instead_of_tanh(original):
    for layer in range(ODD.layers):
        mutated = swap_gelu(original, layer, "Tanh", "Erf", math.sqrt(0.5))
        assert change_of_logits(ODD, mutated) > TOLERANCE, layer


def test_tanh_instead_of_erf():
    model = onnx.load(ERF.path)
    for layer in range(ERF.layers):
        # The cubic term is also omitted, as in the cheapest approximation.
        assert (
            change_of_logits(ERF, swap_gelu(model, layer, "Erf", "Tanh", math.sqrt(2 / math.pi)))
            > MARGIN * TOLERANCE
        )

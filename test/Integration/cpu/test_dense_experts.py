"""Mixtures of experts that a file computes for all tokens: recognition and results."""

import numpy as np
import onnx
import pytest

from dense_files import save_dense
from expert_files import Experts, inputs
from tpc.reference import Session, difference

CASES = [
    ("ep2", Experts(form="einsum", bias=True)),
    ("tp2,ep2", Experts(form="stacked", bias=True, experts=5)),
    ("ep2,dp2", Experts(form="scaled", selected=1)),
]


@pytest.mark.parametrize("grid, spec", CASES, ids=[spec.form for _, spec in CASES])
def test_models(tpcc, tmp_path, grid, spec):
    path, feed = save_dense(spec, tmp_path / "model.onnx"), inputs(spec, 1, 4, 3)
    program, want = tpcc.compile(path, grid), Session(path).run(feed)["logits"]
    assert "computes all experts" not in program.compiled.stderr
    assert difference(program.run(feed)["logits"], want).relative < 2e-5


@pytest.mark.parametrize("form", ["stacked", pytest.param("scaled", marks=pytest.mark.long)])
def test_only_selected_are_computed(tpcc, tmp_path, form):
    """Infinities of experts that no token selects have no effect."""
    spec = Experts(form=form, selected=1, layers=1, router_bias=(0, 90, 0, 0))
    path, feed = save_dense(spec, tmp_path / "model.onnx"), inputs(spec, 3, 0, 2)
    want = Session(path).run(feed)["logits"]
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.name.endswith((".up", ".down")):
            value = onnx.numpy_helper.to_array(tensor).copy()
            value[2:] = np.inf
            tensor.CopyFrom(onnx.numpy_helper.from_array(value, tensor.name))
    onnx.save(model, path)
    found = tpcc.compile(path, "tp1").run(feed)["logits"]
    assert difference(found, want).relative < 2e-5


LITERAL = [
    Experts(form="scaled", selected=2, layers=1),
    pytest.param(Experts(form="scaled", selected=1, bias=True), marks=pytest.mark.long),
]


@pytest.mark.parametrize("spec", LITERAL, ids=["two experts", "biases"])
def test_others_are_computed_as_they_are(tpcc, tmp_path, spec):
    """With several experts or biases, scaling rows is not the same as scaling results."""
    path, feed = save_dense(spec, tmp_path / "model.onnx"), inputs(spec, 3, 2, 1)
    program = tpcc.compile(path, "tp1")
    assert "computes all experts" in program.compiled.stderr
    want = Session(path).run(feed)["logits"]
    assert difference(program.run(feed)["logits"], want).relative < 2e-5

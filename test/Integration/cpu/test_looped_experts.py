"""Mixtures of experts that a file computes in a loop over experts: recognition and results."""

import numpy as np
import onnx
import pytest

from expert_files import Experts, inputs
from loop_files import save_looped
from models import MODELS
from tpc.reference import Session, difference

CASES = [
    ("ep2", Experts(form="traced", bias=True, experts=5, layers=1)),
    ("tp2,ep2", Experts(form="shared", layers=1)),
    ("ep2", Experts(form="assigned", layers=1)),
    ("ep2", Experts(form="nd", layers=1)),
    ("ep2,dp2", Experts(form="nd", selected=3)),
    ("ep2,dp2", Experts(form="assigned", selected=3)),
    ("tp2", Experts(form="uncounted", layers=1, selected=3)),
]


@pytest.mark.parametrize(
    "grid, spec",
    [
        pytest.param(
            *case, id=f"{case[1].form}-{case[0]}", marks=pytest.mark.long if i > 3 else [],
        )
        for i, case in enumerate(CASES)
    ],
)
def test_models(tpcc, tmp_path, grid, spec):
    path = save_looped(spec, tmp_path / "model.onnx")
    feeds = [inputs(spec, 5, 3, 1), inputs(spec, 1, 4, 2)]
    session = Session(path)
    found = tpcc.compile(path, grid).run_all(feeds, ["logits"])
    for feed, outputs in zip(feeds, found):
        want = session.run(feed)["logits"]
        assert difference(outputs["logits"], want).relative < 2e-5
    tpcc.call([path, "--emit=model", "-o", tmp_path / "model.mlir"]).check()
    assert (tmp_path / "model.mlir").read_text().count("tpc.moe ") == 1


GRIDS = [
    *("tp1", "tp2", "ep2", "ep4", "tp2,ep2", "tp2,ep4,etp1", "ep4,dp4", "tp4,ep2,etp2"),
    *("pp2,ep2,mb2", "tp2,ep2,order=tp-ep-dp-pp"),
]


@pytest.mark.long
@pytest.mark.parametrize("grid", GRIDS)
def test_grids(tpcc, grid):
    """The file of models/experts, which experts.py wrote."""
    path, spec = MODELS / "experts" / "looped.onnx", Experts(kv_heads=1, vocab=67)
    feeds = [inputs(spec, 1, 4, 4), inputs(spec, 6, 0, 4)]
    session = Session(path)
    for feed, outputs in zip(feeds, tpcc.compile(path, grid).run_all(feeds, ["logits"])):
        assert difference(outputs["logits"], session.run(feed)["logits"]).relative < 2e-5


def test_experts_of_a_rank(tpcc, tmp_path):
    """A rank loads the weights of its experts only, and computes no others."""
    spec = Experts(form="traced", selected=1, layers=1, experts=5, router_bias=(0, 90, 0, 0, 0))
    path, feed = save_looped(spec, tmp_path / "model.onnx"), inputs(spec, 3, 0, 2)
    want = Session(path).run(feed)["logits"]
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if "experts." in tensor.name and tensor.name.endswith((".w1", ".w2")):
            value = onnx.numpy_helper.to_array(tensor).copy()
            if "experts.1." not in tensor.name:
                value[:] = np.inf
            tensor.CopyFrom(onnx.numpy_helper.from_array(value, tensor.name))
    onnx.save(model, path)
    program = tpcc.compile(path, "ep4")
    assert difference(program.run(feed, ["logits"])["logits"], want).relative < 2e-5
    expert = 3 * spec.inner * spec.hidden * 4
    ranks = [rank["weight_bytes"] for rank in program.describe()["ranks"]]
    assert [(r - min(ranks)) / expert for r in ranks] == [1, 0, 0, 0]


def read_positions(model):
    """Makes the positions of an expert an output."""
    node = next(node for node in model.graph.node if node.op_type == "NonZero")
    model.graph.output.append(onnx.helper.make_tensor_value_info(node.output[0], 7, [2, "n"]))


def weigh_twice(model):
    """Multiplies the rows of an expert by its gate once more."""
    node = next(n for n in model.graph.node if n.name.endswith("experts.1/weighted"))
    again = onnx.helper.make_node("Mul", [node.output[0], node.input[1]], ["again"], "again")
    at = list(model.graph.node).index(node)
    model.graph.node.insert(at + 1, again)
    for other in list(model.graph.node)[at + 2 :]:
        other.input[:] = ["again" if name == node.output[0] else name for name in other.input]


def add_at_slots(model):
    """Adds the rows of an expert at the indices of slots instead of tokens."""
    node = next(n for n in model.graph.node if n.name.endswith("experts.1/where"))
    node.input[0] = node.input[0].replace("squeezed1", "squeezed0")


def add_at_pairs(model):
    """Adds numbers at the indices (token, token) instead of rows at the index of a token."""
    nodes = list(model.graph.node)
    scatter = next(n for n in nodes if n.op_type == "ScatterND")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 2]), "pairs"))
    expand = onnx.helper.make_node("Expand", [scatter.input[1], "pairs"], ["twice"], "twice")
    model.graph.node.insert(nodes.index(scatter), expand)
    scatter.input[1] = "twice"


def repeat_experts(model):
    """A token may select an expert in two slots, of which only one is assigned."""
    node = next(n for n in model.graph.node if n.op_type == "OneHot")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2]), "two"))
    half = onnx.helper.make_node("Mod", [node.input[0], "two"], ["half"], "half")
    model.graph.node.insert(list(model.graph.node).index(node), half)
    node.input[0] = "half"


def assign_into_ones(model):
    """Rows of other tokens are 1, not 0."""
    node = next(n for n in model.graph.node if n.name.endswith("experts.1/zeros"))
    value = onnx.numpy_helper.from_array(np.ones(1, np.float32))
    node.attribute.append(onnx.helper.make_attribute("value", value))


CHANGES = [
    ("assigned", repeat_experts),
    ("assigned", assign_into_ones),
    ("traced", read_positions),
    ("traced", weigh_twice),
    ("traced", add_at_slots),
    ("nd", add_at_pairs),
]


@pytest.mark.parametrize(("form", "change"), CHANGES, ids=[f.__name__ for _, f in CHANGES])
def test_other_uses_are_an_error(tpcc, tmp_path, form, change):
    path = save_looped(Experts(form=form, layers=1), tmp_path / "model.onnx")
    model = onnx.load(path)
    change(model)
    onnx.save(model, path)
    tpcc.call([path, "-o", tmp_path / "m"]).refused("NonZero", "size depends on values")


def test_results_of_some_columns_are_an_error(tpcc, tmp_path):
    """A scatter would add such results to the first columns, and a sum to all."""
    path = save_looped(Experts(form="traced", layers=1), tmp_path / "model.onnx")
    model = onnx.load(path)
    nodes = list(model.graph.node)
    rows = next(n for n in nodes if n.name.endswith("experts.1/weighted")).input[0]
    for name, number in (("start", 0), ("end", 1), ("axis", -1)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([number]), name))
    first = onnx.helper.make_node("Slice", [rows, "start", "end", "axis"], ["first"], "first")
    at = next(i for i, node in enumerate(nodes) if rows in node.input)
    for node in nodes[at:]:
        node.input[:] = ["first" if name == rows else name for name in node.input]
    model.graph.node.insert(at, first)
    onnx.save(model, path)
    tpcc.call([path, "-o", tmp_path / "m"]).refused("experts.1/sum", "cannot be reshaped")


def test_weights_that_are_no_stack_are_warned_of(tpcc, tmp_path):
    spec = Experts(form="masked", layers=1)
    model = onnx.load(save_looped(spec, tmp_path / "model.onnx"))
    names = {f"/model/layers.0/moe/experts.{e}.w1" for e in (0, 1)}
    for node in model.graph.node:  # two experts share a weight
        node.input[:] = [min(names) if name in names else name for name in node.input]
    onnx.save(model, tmp_path / "shared.onnx")
    result = tpcc.call([tmp_path / "shared.onnx", "--emit=model", "-o", tmp_path / "model.mlir"])
    assert "experts.3/sum': computes all 4 experts" in result.check().stderr
    assert "some share a weight" in result.stderr

"""Mixtures of experts that an exporter computes on rows sorted by expert: recognition, results."""

import numpy as np
import onnx
import pytest

from models import MODELS
from tpc.reference import Session, difference

FOLDER = MODELS / "experts"
CASES = [
    ("mixtral", "tp2,ep2"),
    ("deepseek_v3", "ep4"),
    ("gpt_oss", "tp2,ep2,etp1"),
    ("qwen2_moe", "tp2"),
    ("phimoe", "tp2,ep2"),
    ("granitemoe", "tp2,ep2"),
]


def count_experts(tpcc, path, folder):
    tpcc.call([path, "--emit=model", "-o", folder / "model.mlir"]).check()
    return (folder / "model.mlir").read_text().count("tpc.moe ")


@pytest.mark.parametrize("name, grid", CASES)
def test_models(tpcc, tmp_path, name, grid):
    path = FOLDER / f"{name}.onnx"
    assert count_experts(tpcc, path, tmp_path) == 1
    program, session = tpcc.compile(path, grid), Session(path)
    random = np.random.default_rng(7)
    feeds = [{"input_ids": random.integers(0, 67, shape)} for shape in ((2, 9), (1, 2), (3, 40))]
    for feed, found in zip(feeds, program.run_all(feeds, ["logits"])):
        error = difference(found["logits"], session.run(feed)["logits"])
        assert error.relative < 2e-5, str(error)


GRIDS = [
    *("tp1", "tp2", "ep2", "ep4", "tp2,ep2", "tp2,ep4,etp1", "ep4,dp4", "ep2,dp4", "tp2,ep2,dp4"),
    *("pp2,ep2,mb2", "tp2,ep2,order=tp-ep-dp-pp", "ep2,dp4,pp2,order=tp-ep-dp-pp"),
    *("tp4,ep2,etp2", "tp4,ep2,etp2,dp2", "tp2,ep4,etp1,dp2"),
]


@pytest.mark.long
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("name", [name for name, _ in CASES])
def test_grids(tpcc, name, grid):
    path = FOLDER / f"{name}.onnx"
    session, random = Session(path), np.random.default_rng(8)
    feeds = [{"input_ids": random.integers(0, 67, shape)} for shape in ((5, 9), (1, 2))]
    for feed, found in zip(feeds, tpcc.compile(path, grid).run_all(feeds, ["logits"])):
        assert difference(found["logits"], session.run(feed)["logits"]).relative < 2e-5


def find(model, test):
    return next(node for node in model.graph.node if test(node))


def is_sort(node):
    return node.op_type == "TopK" and any(a.name == "largest" and a.i == 0 for a in node.attribute)


def use_sorted_rows(model):
    """Makes the sorted ids an output."""
    name = find(model, is_sort).output[0]
    model.graph.output.append(onnx.helper.make_tensor_value_info(name, 7, ["rows"]))


def shift_ranges(model):
    """Makes the rows of expert 0 begin at 1."""
    gathers = [n for n in model.graph.node if n.op_type == "Gather"]
    producers = {o: n for n in model.graph.node for o in n.output}
    by_range = [n for n in gathers if getattr(producers.get(n.input[1]), "op_type", "") == "Range"]
    one = onnx.numpy_helper.from_array(np.array(1), "one_more")
    model.graph.initializer.append(one)
    producers[by_range[0].input[1]].input[0] = "one_more"


def swap_experts(model):
    """Swaps the results of experts 0 and 1."""
    concat = find(model, lambda n: n.op_type == "Concat" and n.output[0].startswith("grouped_mm"))
    concat.input[0], concat.input[1] = concat.input[1], concat.input[0]


def scale_histogram(model):
    """Makes bins of the histogram differ from single ids."""
    node = find(model, lambda n: n.op_type == "ScatterElements" and n.input[0].startswith("zeros"))
    producers = {o: n for n in model.graph.node for o in n.output}
    divide = producers[producers[producers[node.input[1]].input[0]].input[0]]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(2), "wide_bins"))
    divide.input[1] = "wide_bins"


def swap_counts(model):
    """Swaps the numbers of rows of experts 0 and 1."""
    split = find(model, lambda n: n.op_type == "Split" and len(n.output) == 4)
    sizes = find(model, lambda n: n.output[0] == split.input[1])
    sizes.input[0], sizes.input[1] = sizes.input[1], sizes.input[0]


def count_other_experts(model):
    """Counts rows by the id 3 - e instead of e."""
    scatter = find(model, lambda n: n.op_type == "ScatterElements")
    others = onnx.helper.make_node("Sub", ["last", scatter.input[1]], ["others"])
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(3), "last"))
    model.graph.node.insert(list(model.graph.node).index(scatter), others)
    scatter.input[1] = "others"


def start_from_ones(model):
    """Adds the results of experts to ones."""
    scatter = find(model, lambda n: n.op_type == "ScatterND")
    zeros = find(model, lambda n: n.output[0] == scatter.input[0])
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(1), "one_more"))
    zeros.input[0] = "one_more"


CHANGES = [
    *(("mixtral", f) for f in (use_sorted_rows, shift_ranges, swap_experts, scale_histogram)),
    *(("granitemoe", f) for f in (swap_counts, count_other_experts, start_from_ones)),
]


@pytest.mark.parametrize("name, change", CHANGES, ids=lambda x: getattr(x, "__name__", x))
def test_changed_exports_are_an_error(tpcc, tmp_path, name, change):
    """The sort is not removed from a graph that is no mixture or uses the sorted rows."""
    model = onnx.load(FOLDER / f"{name}.onnx")
    change(model)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    tpcc.call([path, "-o", tmp_path / "m"]).refused("TopK", "needs constant k")


def test_recorded_counts_are_an_error(tpcc, tmp_path):
    """The tracing exporter writes the counts of its example tokens."""
    model = onnx.load(FOLDER / "granitemoe.onnx")
    split = find(model, lambda n: n.op_type == "Split" and len(n.output) == 4)
    floor = find(model, lambda n: n.op_type == "Floor")
    whole = find(model, lambda n: floor.output[0] in n.input)
    token = find(model, lambda n: whole.output[0] in n.input)
    order = find(model, is_sort).output[1]
    divide = onnx.helper.make_node("Div", [order, "two"], ["quotient"])
    model.graph.node.insert(list(model.graph.node).index(token), divide)
    token.input[0] = "quotient"
    for name, numbers in {"two": 2, "recorded": [5, 4, 6, 3]}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(numbers), name))
    split.input[1] = "recorded"
    onnx.save(model, tmp_path / "model.onnx")
    tpcc.call([tmp_path / "model.onnx", "-o", tmp_path / "m"]).refused(
        f"'{split.name}' (Split)", "recorded those of its own tokens", "dynamo=True"
    )


def test_explanation_of_experts(tpcc):
    """--why finds a mixture by the name of its experts' matmul, and the router has no remark."""
    grid = "--megatron-shard=tp2,ep2"
    model = FOLDER / "mixtral.onnx"
    result = tpcc.call([model, grid, "--why=node_grouped_mm_fallback_1"]).check()
    assert "(tpc.moe) in @main" in result.stdout
    assert "softmax" not in result.stderr

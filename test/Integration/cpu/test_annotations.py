"""Annotated tensors: the ranks compute ONNX Runtime's results for any annotation."""

import re

import pytest

from harness import Grid
from models import COMMITTED
from test_numbers import check

ODD = COMMITTED["gpt2-odd-opset20"]

ROWS = (
    "*.c_attn.weight: [dp, ?]\n*.c_fc.weight: [dp, ?]\n*.c_proj.weight: [?, dp]\n*.lm_head.weight:"
    " [?, dp]\n*.ln_?.*: [dp]"
)
EVERYWHERE = "*.lm_head.weight: [dp, ?]\n*.c_*.weight: [dp, ?]\n*.c_*.bias: [dp]\n*.ln_?.*: [dp]"

CASES = {
    "little": ("tp3,manual", "*.mlp.c_fc.weight: [-, tp]"),
    "one layer": ("tp2,manual", "*.h.1.attn.c_attn.weight: [-, tp]"),
    "rows first": ("tp4,pp2,sp,manual", "*.c_proj.weight: [tp, -]"),
    "other tactics fill": ("tp3,dp2,mb2", "*.mlp.c_fc.weight: [-, -]\n*.mlp.c_proj.weight: [-, -]"),
    "two axes": ("tp2,dp2,manual", "*.h.?.mlp.c_fc.weight: [-, dp+tp]"),
    # With a batch of one sample, one replica has none, but still takes part in all-gathers of
    # weights.
    "weights over replicas": (
        "tp2,dp2,pp2",
        "*.mlp.c_fc.weight: [-, dp]\n*.mlp.c_proj.weight: [tp+dp, -]",
    ),
    # Samples and columns are split over the same ranks. In every matmul, one of them loses the
    # conflict.
    "conflict": (
        "tp2,manual",
        "input_ids: [tp, -]\n*.mlp.c_fc.weight: [-, tp]\n*.attn.c_attn.weight: [-, tp]",
    ),
    # The annotated dimension is the residual's width, which norms need whole. So weights are
    # sharded, and gathered where this is cheaper.
    "sharded weights": ("tp2", "*.attn.c_attn.weight: [tp, ?]\n*.mlp.c_proj.weight: [?, tp]"),
    "sharded weights, manual": (
        "tp3,pp2,manual",
        "*.mlp.c_fc.weight: [tp, -]\n*.ln_?.weight: [tp]",
    ),
    # Weights in FSDP: sharded over the replicas and gathered layer by layer in each micro-batch.
    "sharded over replicas": ("dp2,mb3", EVERYWHERE),
    "sharded over replicas and split": ("tp2,dp2,pp2,mb2,sp", ROWS),
    "two dimensions": ("tp2x2", "*.mlp.c_fc.weight: [?, tpy]"),
    "two dimensions, few weights over one": (
        "tp2x2,pp2",
        "*.mlp.c_fc.weight: [-, tpy]\n*.attn.c_proj.weight: [tpy+tpx, -]",
    ),
    "two dimensions, manual": (
        "tp2x3,manual",
        "*.mlp.c_fc.weight: [tpx, tpy]\n*.mlp.c_proj.weight: [tpy, ?]",
    ),
    "whole weights": ("tp2", "*.mlp.c_fc.weight: [-, tp]\n*.mlp.c_proj.weight: [-, -]"),
}


def compile_with(tpcc, tmp_path, spec, text, *options):
    path = tmp_path / "annotations.txt"
    path.write_text(text + "\n")
    return tpcc.compile(ODD.path, spec, f"--annotations={path}", *options)


@pytest.mark.parametrize("name", CASES)
def test_numbers(tpcc, tmp_path, name):
    spec, text = CASES[name]
    check(compile_with(tpcc, tmp_path, spec, text), ODD, [(1, 1), (3, 7)])


def test_weights_on_replicas(tpcc, tmp_path):
    """Each replica stores a shard of the weights. A layer's weights are gathered once per
    micro-batch, which the report shows.
    """
    path = tmp_path / "annotations.txt"
    path.write_text("*.h.*.mlp.*.weight: [dp, -]\n*.h.*.attn.*.weight: [dp, -]\n")
    grid, arguments = Grid.parse("dp2,mb3"), [f"--annotations={path}"]
    executable = tpcc.compile(ODD.path, grid, *arguments)

    whole = tpcc.compile(ODD.path, grid)
    split = 0  # bytes of split weights
    for ours, all_of_it in zip(
        executable.describe()["parameters"], whole.describe()["parameters"], strict=True
    ):
        name, size = all_of_it["name"], all_of_it["bytes"][0]
        assert ours["name"] == name and all_of_it["bytes"] == [size, size]
        annotated = re.search(r"\.h\..*\.(mlp|attn)\..*\.weight$", name)
        if annotated or ours["bytes"][0] < size:
            # Biases have the split of the columns that they are added to.
            assert annotated or name.endswith(".bias"), name
            assert sum(ours["bytes"]) == size and max(ours["bytes"]) < size, name
            split += size
    # The replicas have four and three of seven samples. Each micro-batch gathers all weights once.
    rows = tpcc.report(ODD.path, grid, ODD.shape(7, 5), *arguments)
    assert {(row["axis"], row["kind"]) for row in rows} == {
        ("dp", "all_gather"),
        ("output", "gather"),
    }
    assert sum(row["bytes"] for row in rows if row["axis"] == "dp") == 3 * split
    measured = executable.bench(ODD.shape(7, 5), arguments=["--weights=random:1"])["collectives"]
    assert sorted(sorted(row.items()) for row in measured) == sorted(
        sorted(row.items()) for row in rows
    )
    # Some or all replicas have no sample in some micro-batches, and still take part in gathers.
    check(executable, ODD, [(1, 1), (2, 3), (4, 2), (7, 5)])

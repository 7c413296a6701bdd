"""However tensors are annotated, the ranks compute what ONNX Runtime computes."""

import pytest

from models import COMMITTED
from test_numbers import check

ODD = COMMITTED["gpt2-odd-opset20"]

CASES = {
    "little": ("tp3,manual", "*.mlp.c_fc.weight: [-, tp]"),
    "one layer": ("tp2,manual", "*.h.1.attn.c_attn.weight: [-, tp]"),
    "rows first": ("tp4,pp2,sp,manual", "*.c_proj.weight: [tp, -]"),
    "strategies fill": ("tp3,dp2,mb2", "*.mlp.c_fc.weight: [-, -]\n*.mlp.c_proj.weight: [-, -]"),
    "two axes": ("tp2,dp2,manual", "*.h.?.mlp.c_fc.weight: [-, dp+tp]"),
    # Of one sample, one replica has nothing, and takes part in gathering weights.
    "weights over replicas": ("tp2,dp2,pp2", "*.mlp.c_fc.weight: [-, dp]\n*.mlp.c_proj.weight: [tp+dp, -]"),
    # Samples and columns over the same ranks: one of them yields in every product.
    "conflict": ("tp2,manual", "input_ids: [tp, -]\n*.mlp.c_fc.weight: [-, tp]\n*.attn.c_attn.weight: [-, tp]"),
    "whole weights": ("tp2", "*.mlp.c_fc.weight: [-, tp]\n*.mlp.c_proj.weight: [-, -]"),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers(tpcc, tmp_path, name):
    spec, text = CASES[name]
    path = tmp_path / "annotations.txt"
    path.write_text(text + "\n")
    check(tpcc.compile(ODD.path, spec, f"--annotations={path}"), ODD, [(1, 1), (3, 7)])

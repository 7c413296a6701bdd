"""Gradients on GPU ranks against PyTorch's (test/Models/gradients.py)."""

import pytest

from gradient_files import check, check_bad_labels, compile_program
from harness import Grid
from simulator import FLAGS, environment

FAMILIES = ["gpt2-tiny-nopast", "qwen2-dynamo", "falcon-dynamo"]
GRIDS = ["tp1", "tp2", "dp2", "tp2,sp"]
CHOSEN = [("qwen2-dynamo", "tp2,sp")]


@pytest.mark.parametrize(
    ("name", "grid"),
    [
        pytest.param(name, grid, marks=[] if (name, grid) in CHOSEN else pytest.mark.long)
        for name in FAMILIES
        for grid in GRIDS
    ],
)
def test_families(tpcc, name, grid, tmp_path):
    program = compile_program(tpcc, name, Grid.parse(grid), *FLAGS)
    check(program, name, env=environment())
    check_bad_labels(program, name, tmp_path, env=environment())

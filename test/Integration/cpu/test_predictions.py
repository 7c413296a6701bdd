"""Expected collectives of the tactics, against the communication of the program, for every model.

A collective that no tactic expects is an error that names it.
"""

import re

import pytest

from harness import run, tool
from models import COMMITTED, FAMILIES

PREDICTION = re.compile(r'\{axis = "(\w+)", kind = "(\w+)"(?:, size = "([^"]*)")?, why = "[^"]*"\}')
MODELS = {
    **{name: COMMITTED[name] for name in ("gpt2-odd-opset20", "gpt2-tiny-nopast")},
    **FAMILIES,
}
GRIDS = ("tp2", "tp4,sp", "tp2x4", "tp2,sp,dp2,mb2")
QUICK = {("llama-dynamo", "tp4,sp"), ("olmo2-dynamo", "tp2"), ("bloom-dynamo", "tp2x4")}


@pytest.mark.parametrize(
    "name, grid",
    [
        pytest.param(name, grid, marks=[] if (name, grid) in QUICK else [pytest.mark.long])
        for name in MODELS
        for grid in GRIDS
    ],
)
def test_communication_is_expected(tpcc, tmp_path, name, grid):
    sharded, cut = tmp_path / "sharded.mlir", tmp_path / "cut.mlir"
    tpcc.call(
        [MODELS[name].path, f"--megatron-shard={grid}", "--emit=sharded", "--plain", "-o", sharded]
    ).check()
    text = sharded.read_text()

    def lower(path, options=""):
        return run([tool("tpc-opt"), path, f"--tpc-lower-reshards={options}"])

    def program(result):
        return re.sub(r"predicts = \[.*?\]", "", result.check().stdout)

    whole = program(lower(sharded))
    # Allowing all collectives changes nothing.
    assert program(lower(sharded, "allow-reshard")) == whole
    predictions = {match.groups() for match in PREDICTION.finditer(text)}
    assert predictions
    for axis, kind, size in predictions:
        # Without one of the collectives, the reshard is impossible or uses others.
        cut.write_text(
            re.sub(
                PREDICTION,
                lambda match: (
                    '{axis = "", kind = "", why = ""}'
                    if match.groups() == (axis, kind, size)
                    else match[0]
                ),
                text,
            )
        )
        result = lower(cut)
        if result.returncode:
            result.refused(f" {kind} over '{axis}'", "that no tactic expects", size or "")
        else:
            assert program(result) != whole, (axis, kind, size)

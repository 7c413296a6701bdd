"""Model families of several exporters: results and communication.

Caches are ordinary inputs and outputs here, with heads over tp.
"""

import pytest

from harness import Grid
from models import FAMILIES, FAMILIES_FROM_CORPUS
from test_report import expected_totals, totals
from tpc.reference import TOLERANCE, difference

EVERY = {**FAMILIES, **FAMILIES_FROM_CORPUS}
GRIDS = [
    "tp1",
    "tp2",
    "tp3",
    "tp4",
    "tp8",
    "tp16",
    "tp2,sp",
    "tp3,sp",
    "pp2",
    "pp3",
    "pp4",
    "dp2",
    "mb2",
    "tp2,pp2",
    "tp5,pp3",
    "tp2,pp2,dp2,mb2",
    "tp2,pp2,dp2,sp,mb3",
    "tp2x2",
    "tp2x3",
    "tp3x2,pp2",
    "tp2x2,dp2,mb2",
    "dp2,mb3",
    "tp2,mb2",
    "pp2,mb3",
    "pp2,vpp2,mb4",
    "tp2,pp2,vpp2,mb5",
    "tp2,pp2,vpp2,dp2,sp,mb4",
    "pp4,vpp2,mb8",
    "pp2,vpp4,mb16",
]
# Each family occurs once and each kind of grid at least once. Other pairs are part of the long run.
CHOSEN = [
    ("llama-past", "tp4"),
    ("llama-dynamo", "tp2x2"),
    ("mistral-past", "tp3,sp"),
    ("opt-dynamo", "dp2"),
    ("qwen2-past", "tp2,pp2,dp2,sp,mb3"),
    ("phi-past", "tp2,pp2"),
    ("phi-dynamo", "tp3,sp"),
    ("gpt_neox-past", "tp5,pp3"),
    ("gpt_neox-dynamo", "tp2,sp"),
    ("bloom-past", "tp3"),
    ("falcon-past", "tp2x3"),
    ("falcon-dynamo", "tp8"),
    ("olmo2-past", "tp4"),
    ("gemma2-past", "tp2,pp2,dp2,sp,mb3"),
    ("mistral-dynamo", "dp2,mb3"),
    ("phi3-past", "pp2,mb3"),
    ("gemma2-dynamo", "tp2,pp2,dp2,mb2"),
    ("llama-deep", "pp4"),
    ("llama-deep", "pp2,vpp2,mb4"),
    ("mpt-dynamo", "tp2,sp"),
    ("mpt-past", "tp5,pp3"),
    ("gpt_neo-dynamo", "tp3"),
    ("gpt_neo-past", "tp2,sp"),
    ("bloom-optimum", "tp3,sp"),
    ("gpt_neo-optimum", "tp2,pp2"),
    ("gptj-past", "tp2x2"),
    ("gptj-dynamo", "pp2"),
    ("codegen-past", "tp3"),
    ("exported-llama-past", "tp4"),
    ("exported-gpt_neox-past", "tp3,sp"),
    ("exported-phi-past", "tp2,pp2,dp2,mb2"),
    ("tiny-random-gpt2-fp32_past", "tp2,pp2"),
]


def cases(grids, chosen):
    """Returns pairs (model, grid), marked long unless chosen."""
    return [
        pytest.param(
            model,
            Grid.parse(grid),
            id=f"{model.name}-{grid}",
            marks=[] if (model.name, grid) in chosen else pytest.mark.long,
        )
        for model in EVERY.values()
        for grid in grids
    ]


def skip_if_absent(model):
    if not model.path.exists():
        pytest.skip(f"corpus: {model.path} is absent")


# batch, sequence, past, padding
SHAPES = [
    (1, 3, 0, "none"),
    (2, 4, 3, "none"),
    (3, 1, 5, "left"),
    (2, 7, 0, "left"),
    (1, 1, 7, "none"),
    (3, 8, 4, "right"),
]


@pytest.mark.parametrize("model,grid", cases(GRIDS, CHOSEN))
def test_numbers(tpcc, model, grid):
    skip_if_absent(model)
    executable = tpcc.compile(model.path, grid)
    wrong = []
    for batch, sequence, past, padding in SHAPES:
        if past and not model.past_name or padding != "none" and not model.padded:
            continue
        given = model.inputs(batch, sequence, padding, past=past)
        expected = model.reference.run(given)
        actual = executable.run(given, list(expected))
        for name, wanted in expected.items():
            distance = difference(actual[name], wanted)
            if distance.relative > TOLERANCE:
                wrong.append(
                    f"{name} at batch {batch}, sequence {sequence}, past {past}, padding {padding}:"
                    f" {distance}"
                )
    assert not wrong, f"{model.name} at {grid}:\n" + "\n".join(wrong)


SPLIT = ["tp2", "tp2,sp", "tp4", "tp3,sp", "dp2"]
COUNTED = [(name, "tp2" if name.endswith("-past") else "tp2,sp") for name in FAMILIES]


@pytest.mark.parametrize("model,grid", cases(SPLIT, COUNTED))
def test_counts_and_bytes_are_the_closed_forms(tpcc, model, grid):
    """Communication equals the closed forms: rotary angles, position biases, grouped kv heads and
    norms of single heads need none.
    """
    skip_if_absent(model)
    found = totals(tpcc.report(model.path, grid, model.shape(5, 7, 3)))
    found.pop(("output", "gather"), None)
    expected = expected_totals(model, grid, 5, 7, model.reductions)
    if model.norm_sums and grid.tp > 1:
        # The all-reduces of queries and keys are joined.
        count, size = expected.get(("tp", "all_reduce"), (0, 0))
        expected["tp", "all_reduce"] = (
            count + model.layers,
            size + model.layers * model.norm_sums * 5 * 7 * 4,
        )
    assert found == expected


def test_each_rank_has_the_kv_head_that_it_needs(tpcc):
    """LLaMA with two kv heads over four ranks: each rank has one head of the key and value matrices
    [32, 2 * 4].
    """
    model = FAMILIES["llama-dynamo"]
    bytes_by_rank = [
        weight["bytes"] for weight in tpcc.compile(model.path, Grid(tp=4)).describe()["parameters"]
    ]
    assert bytes_by_rank.count([model.hidden * 4 * 4] * 4) == 2 * model.layers

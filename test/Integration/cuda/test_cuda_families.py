"""Model families on GPU ranks against ONNX Runtime.

Covers grids, ranks as threads and as processes, and schedules of the simulated devices.
"""

import functools

import pytest

from harness import Grid
from models import COMMITTED, FAMILIES
from simulator import FLAGS, environment
from tpc.reference import TOLERANCE, difference

ALL = {**COMMITTED, **FAMILIES}
GRIDS = ["tp1", "tp2", "tp3", "tp4", "pp2", "tp2,pp2,mb4", "dp2", "tp2,dp2", "tp2,sp", "tp2x2"]
# Each kind of grid is tested once, in small models. The others are part of the long run.
CHOSEN = [
    ("gpt2-odd-nopast", "tp3"),
    ("bloom-past", "tp4"),
    ("gpt2-tiny-nopast", "pp2"),
    ("llama-past", "tp2,pp2,mb4"),
    ("gpt2-odd-opset23", "tp2,sp"),
    ("phi3-past", "tp2x2"),
]
# Number of seeds of device schedules in the long run.
SEEDS = {
    name: 20 if name.startswith(("gpt2-odd", "llama-past", "llama-dynamo", "gemma2")) else 2
    for name in ALL
}
# batch, sequence, past, padding. There are odd sizes, sizes with empty shards, and a repeated
# shape.
SHAPES = [(3, 5, 3, "left"), (1, 1, 0, "none"), (2, 7, 0, "right"), (3, 5, 3, "right")]


def cases():
    return [
        pytest.param(
            model,
            Grid.parse(grid),
            id=f"{model.name}-{grid}",
            marks=[] if (model.name, grid) in CHOSEN else pytest.mark.long,
        )
        for model in ALL.values()
        for grid in GRIDS
        if model.layers >= Grid.parse(grid).pp
    ]


@functools.cache
def runs(name):
    """Returns inputs and expected outputs."""
    model = ALL[name]
    many = [
        model.inputs(
            batch,
            sequence,
            padding if model.padded else "none",
            past=past if model.past_name else 0,
            seed=seed,
        )
        for seed, (batch, sequence, past, padding) in enumerate(SHAPES)
    ]
    return many, [model.reference.run(given) for given in many]


def check(executable, model, seed, transport):
    many, expected = runs(model.name)
    found = executable.run_all(
        many, list(expected[0]), transport, env=environment(TPC_SIM_SEED=seed)
    )
    wrong = [
        f"{name} of {shape}: {distance}"
        for shape, actual, wanted in zip(SHAPES, found, expected)
        for name in wanted
        if (distance := difference(actual[name], wanted[name])).relative > TOLERANCE
    ]
    assert (
        not wrong
    ), f"{model.name} at {executable.grid} on {transport}, seed {seed}:\n" + "\n".join(wrong)


@pytest.mark.parametrize("model,grid", cases())
def test_numbers(tpcc, request, model, grid):
    executable = tpcc.compile(model.path, grid, *FLAGS)
    seeds = SEEDS[model.name] if request.config.getoption("tests") == "long" else 1
    for seed in range(seeds):
        check(executable, model, seed, "threads")
        if grid.ranks > 1:
            check(executable, model, seed, "mpi" if seed % 2 else "tcp")

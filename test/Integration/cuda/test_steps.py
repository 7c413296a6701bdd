"""From the second step of a shape on, steps of GPU programs in one process are one graph launch.

The launch allocates nothing and synchronizes only for its outputs. The tests count calls in the
trace of the simulated driver.
"""

import random

import pytest

import step_trace
from harness import BUILD
from models import COMMITTED, FAMILIES
from simulator import UNOPTIMIZED
from tpc.reference import TOLERANCE, difference

LIBRARIES = BUILD / "lib" / "simulator"
MODELS = {**COMMITTED, **FAMILIES}


def inputs(model, order, seed):
    """Returns inputs with other contents each time, and other padding if the model has any."""
    return [
        model.inputs(
            batch,
            sequence,
            ["none", "left", "right"][(seed + i) % 3] if model.padded else "none",
            seed=i,
            past=past if model.past_name else 0,
        )
        for i, (batch, sequence, past) in enumerate(order)
    ]


def check(model, executable, order, seed, tmp_path, transport="threads"):
    trace = tmp_path / f"trace{seed}"
    many = inputs(model, order, seed)
    results = executable.run_all(
        many,
        [model.output],
        transport=transport,
        env={
            "TPC_CUDA_LIBS": str(LIBRARIES),
            "TPC_SIM_SEED": str(seed),
            "TPC_SIM_TRACE": str(trace),
        },
    )
    for given, actual in zip(many, results):
        distance = difference(actual[model.output], model.expected(given))
        assert distance.relative <= TOLERANCE, distance
    assert not step_trace.wrong(trace.read_text(), order, executable.grid.ranks)


A, B, C = (2, 5, 0), (1, 1, 0), (1, 9, 0)
ALTERNATING = [A, A, A, B, A, B, B, A, C, A, B, C, C, A]


@pytest.mark.parametrize(
    "name,grid,order",
    [
        ("gpt2-tiny", "tp1", ALTERNATING),
        ("gpt2-tiny", "tp2", ALTERNATING),
        ("gpt2-tiny", "pp2,mb2", [A, A, A, B, B, A, B]),
        pytest.param("gpt2-tiny", "tp2,pp2,mb3", [A, B, A, B, A, B], marks=pytest.mark.long),
    ],
)
def test_a_step_is_one_launch(tpcc, tmp_path, name, grid, order):
    model = MODELS[name]
    check(model, tpcc.compile(model.path, grid, *UNOPTIMIZED), order, 1, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("grid", ["tp1", "tp2", "tp3", "pp2,mb2", "tp2,pp2,mb3", "dp2", "tp2,sp"])
def test_steps_in_any_order(tpcc, tmp_path, grid):
    model = MODELS["gpt2-tiny"]
    executable = tpcc.compile(model.path, grid, *UNOPTIMIZED)
    for seed in range(10):
        draw = random.Random(seed)
        shapes = [(draw.randint(1, 3), draw.randint(1, 7), 0) for _ in range(4)]
        check(model, executable, [draw.choice(shapes) for _ in range(16)], seed, tmp_path)

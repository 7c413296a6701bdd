"""Sliding-window caches store only the window, and give the logits of the whole sequence."""

import dataclasses
import json

import numpy as np
import pytest

from generation import CAUSAL, full_logits, generate
from harness import Grid
from service import Service
from simulator import FLAGS, environment
from tpc.reference import TOLERANCE, difference

WINDOW = 6  # window of the committed models
MODELS = ["mistral-dynamo", "mistral-past", "gemma2-dynamo", "gemma2-past"]
GRIDS = ["tp1", "tp2", "pp2", "dp2", "tp2,pp2,mb2"]
CASES = [
    pytest.param(
        CAUSAL[name],
        Grid.parse(grid),
        id=f"{name}-{grid}",
        marks=[] if grid in ("tp1", GRIDS[1 + index]) else pytest.mark.long,
    )
    for index, name in enumerate(MODELS)
    for grid in GRIDS
]


def check(model, output, prompt):
    wanted = full_logits(model, [[*prompt, *output.tokens[:-1]]])[0, len(prompt) - 1 :]
    distance = difference(output.logits.reshape(wanted.shape), wanted)
    assert distance.relative <= TOLERANCE, f"a prompt of {len(prompt)}: {distance}"


@pytest.mark.parametrize("model,grid", CASES)
def test_several_windows(tpcc, model, grid):
    """Steps of one token and of chunks reach the end of the capacity at each position of the
    window, and continue.
    """
    program = tpcc.compile(model.path, grid, "--generate")
    random = np.random.default_rng([model.layers, grid.ranks])
    for length in (1, *range(3 * WINDOW, 4 * WINDOW + 1, 2)):
        for chunk in (1, 2, 5, WINDOW):
            prompt = random.integers(0, model.vocab, length)
            output = generate(
                program,
                prompt,
                54 - length,
                "--prefill-chunk",
                str(chunk),
                "--max-sequence=54",
                logits=True,
            )
            assert len(output.tokens) == 54 - length
            check(model, output, prompt)


@pytest.mark.parametrize("model,grid", CASES)
def test_sequences_in_batches_and_reused_slots(tpcc, model, grid):
    """Rows of different lengths compact their caches at different steps, and a reused slot begins
    at its front.
    """
    program = tpcc.compile(model.path, grid, "--generate")
    random = np.random.default_rng(2)
    prompts = [
        random.integers(0, model.vocab, length).tolist() for length in (1, 5, 9, 13, 22, 30, 3)
    ]
    with Service(
        program, "--max-batch", "3", "--max-sequence", "54", "--prefill-chunk", "4"
    ) as service:
        names = [
            service.ask(f"p{index}", prompt, 54 - len(prompt))
            for index, prompt in enumerate(prompts)
        ]
        together = [service.answer(name).tokens for name in names]
        alone = [service.generate(prompt, 54 - len(prompt)) for prompt in prompts]
        assert service.close() == 0
    assert together == alone
    for prompt, tokens in zip(prompts, alone):
        logits = full_logits(model, [[*prompt, *tokens[:-1]]])[0, len(prompt) - 1 :]
        reached = np.take_along_axis(logits, np.asarray(tokens)[:, None], -1)[:, 0]
        assert np.all(logits.max(-1) - reached < 1e-3)


def test_window_capacity_follows_from_the_capacity(tpcc):
    """By default, window caches have room for two windows and a chunk of 512 tokens, but at most
    the capacity. --shape may set their capacity too.
    """
    program = tpcc.compile(CAUSAL["mistral-past"].path, Grid(), "--generate")
    for sizes, capacity in (
        ("capacity=4000", 2 * WINDOW + 512),
        ("capacity=129", 129),
        ("capacity=4000,window_capacity=40", 40),
    ):
        shape = f"batch_size=1,sequence_length=1,{sizes}"
        measured = json.loads(
            program.call(["--bench", "--repeat", "1", "--shape", shape]).check().stdout
        )
        assert measured["shape"]["window_capacity"] == capacity


@pytest.mark.parametrize(
    "name,windowed", [("mistral-dynamo", 1), ("gemma2-dynamo", 0.5), ("llama-dynamo", 0)]
)
def test_plan(tpcc, name, windowed):
    """For layers with a window, the plan counts two windows and a chunk of 512 tokens, but at most
    the capacity.
    """

    def bytes_at(capacity):
        rows = tpcc.plan(
            CAUSAL[name].path,
            Grid(),
            {"batch": 1, "sequence": 1, "capacity": capacity},
            "--generate",
        )["weights"]
        return sum(row["cache_bytes"] for row in rows)

    bytes_per_token = bytes_at(32) / 32
    for capacity in (500, 2 * WINDOW + 512, 2 * WINDOW + 513, 4000):
        assert bytes_at(capacity) == bytes_per_token * (
            windowed * min(capacity, 2 * WINDOW + 512) + (1 - windowed) * capacity
        )


@pytest.mark.parametrize(
    "name", ["mistral-past", pytest.param("gemma2-dynamo", marks=pytest.mark.long)]
)
def test_simulated_gpus(tpcc, monkeypatch, name):
    monkeypatch.setenv("CUDA_HOME", "/nonexistent")
    model = CAUSAL[name]
    program = dataclasses.replace(
        tpcc.compile(model.path, Grid(), "--generate", *FLAGS), environment=environment()
    )
    prompt = np.random.default_rng(3).integers(0, model.vocab, 21)
    output = generate(program, prompt, 16, "--prefill-chunk=4", "--max-sequence=40", logits=True)
    check(model, output, prompt)

"""Generation of each family on every grid equals ONNX Runtime and transformers.

Logits of all steps equal those of the whole sequence for any split of the prompt. Greedy ids equal
transformers'.
"""

import numpy as np
import pytest

from generation import CAUSAL, decided, expected, full_logits, generate
from harness import Grid
from service import Service
from tpc.reference import TOLERANCE, difference

GRIDS = ["tp1", "tp2", "pp2", "tp2,pp2,mb2", "dp2"]
MORE_GRIDS = [
    "tp3",
    "tp4",
    "tp8",
    "tp2,sp",
    "tp3,sp",
    "pp3",
    "mb2",
    "dp2,mb3",
    "tp2,pp2,dp2,sp,mb3",
    "tp5,pp3",
    "tp2x2",
    "tp2x2,dp2,mb2",
    "pp2,vpp2,mb2",
    "tp2,pp2,vpp2,dp2,mb2",
]
STEPS = 16


# Models and grids in which KV heads are replicated for the ranks' query heads: 3 over 2 ranks, 2
# over 3, 4 and 8, one over 2.
REPEATED = [
    ("mistral-dynamo", "tp2"),
    ("mistral-past", "tp2,pp2,mb2"),
    ("mistral-dynamo", "tp2,pp2,dp2,sp,mb3"),
    ("llama-past", "tp4"),
    ("llama-dynamo", "tp8"),
    ("llama-past", "tp3"),
    ("gemma2-dynamo", "tp4"),
    ("phi3-past", "tp3"),
    ("falcon-dynamo", "tp2"),
]
CHUNKS = [("gpt2-tiny", "pp2,vpp2,mb2")]


def cases():
    """Returns pairs of model and grid. The default ones are those of REPEATED and CHUNKS; each
    other model has one of GRIDS, in rotation.
    """
    listed = [*REPEATED, *CHUNKS]
    others = [name for name in CAUSAL if name not in dict(listed)]
    chosen = {(name, GRIDS[index % len(GRIDS)]) for index, name in enumerate(others)}
    chosen |= {*listed}
    return [
        pytest.param(
            CAUSAL[name],
            Grid.parse(grid),
            id=f"{name}-{grid}",
            marks=[] if (name, grid) in chosen else pytest.mark.long,
        )
        for name in CAUSAL
        for grid in GRIDS + MORE_GRIDS
    ]


@pytest.mark.parametrize("model,grid", cases())
def test_greedy_ids(tpcc, model, grid):
    """All eight prompts, of different lengths, run in one batch."""
    prompts = expected()[model.name]
    with Service(
        tpcc.compile(model.path, grid, "--generate"), "--max-batch", "8", "--max-sequence", "54"
    ) as service:
        names = [
            service.ask(f"p{index}", one["prompt"], len(one["ids"]))
            for index, one in enumerate(prompts)
        ]
        for name, one in zip(names, prompts):
            steps = decided(one["margins"])
            assert service.answer(name).tokens[:steps] == one["ids"][:steps], one["prompt"]
        assert service.close() == 0


def check_logits(model, program, prompt, *arguments):
    """Compares the logits of every step with those of one pass over the whole text; returns
    them.
    """
    output = generate(program, prompt, STEPS, *arguments, logits=True)
    assert len(output.tokens) == STEPS
    wanted = full_logits(model, [[*prompt, *output.tokens[:-1]]])[0, len(prompt) - 1 :]
    distance = difference(output.logits.reshape(wanted.shape), wanted)
    assert (
        distance.relative <= TOLERANCE
    ), f"a prompt of {len(prompt)}, {' '.join(arguments)}: {distance}"
    return output.logits


@pytest.mark.parametrize("model,grid", cases())
def test_logits(tpcc, model, grid):
    program = tpcc.compile(model.path, grid, "--generate")
    random = np.random.default_rng([model.layers, grid.ranks])
    check_logits(model, program, random.integers(0, model.vocab, 1))
    length = int(random.integers(8, 30))
    prompt = random.integers(0, model.vocab, length)
    for chunk in {length, length - 1, 1, int(random.integers(2, 7))}:
        check_logits(model, program, prompt, "--prefill-chunk", str(chunk))


@pytest.mark.parametrize("model,grid", cases())
def test_up_to_the_capacity(tpcc, model, grid):
    """The caches are filled to the last entry, or to the one before it; a longer prompt is
    rejected.
    """
    program = tpcc.compile(model.path, grid, "--generate")
    prompt = np.random.default_rng(0).integers(0, model.vocab, 24)
    for capacity in (24 + STEPS - 1, 24 + STEPS):
        check_logits(model, program, prompt, f"--max-sequence={capacity}")
    full = generate(program, prompt, STEPS, "--max-sequence=24", logits=True)
    assert len(full.tokens) == 1
    assert (
        difference(full.logits.reshape(1, -1), full_logits(model, [prompt])[0, -1:]).relative
        <= TOLERANCE
    )
    program.call(
        [
            "--prompt-ids",
            ",".join(map(str, prompt)),
            f"--max-new-tokens={STEPS}",
            "--max-sequence=23",
        ]
    ).refused("24", "23")


@pytest.mark.parametrize("name", CAUSAL)
def test_steps_are_proved(tpcc, name):
    """Steps are verified for all sizes, and run at small ones: tpcc warns of what it could not
    prove or run.
    """
    text = tpcc.compile(
        CAUSAL[name].path,
        next(case.values[1] for case in cases() if case.values[0].name == name and not case.marks),
        "--generate",
    ).compiled.stderr
    assert "tpc-verify-generation" not in text and "at small sizes" not in text, text


def equal_answers(tpcc, model, grid):
    """Returns for each prompt whether its complete answer equals that of transformers."""
    prompts = expected()[model.name]
    with Service(
        tpcc.compile(model.path, grid, "--generate"), "--max-batch", "8", "--max-sequence", "54"
    ) as service:
        return [service.generate(one["prompt"], len(one["ids"])) == one["ids"] for one in prompts]


@pytest.mark.long
@pytest.mark.parametrize("grid", GRIDS)
def test_nine_of_ten_answers_equal_transformers(tpcc, grid):
    all_equal = [
        one for model in CAUSAL.values() for one in equal_answers(tpcc, model, Grid.parse(grid))
    ]
    assert sum(all_equal) >= 0.9 * len(all_equal)


@pytest.mark.parametrize(
    "model,grid",
    [
        pytest.param(
            *case.values,
            id=case.id,
            marks=[] if case.id == "llama-dynamo-tp2" else pytest.mark.long,
        )
        for case in cases()
    ],
)
def test_all_positions(tpcc, model, grid):
    """--generate=all also returns the logits of the prompt, including chunked prompts."""
    program = tpcc.compile(model.path, grid, "--generate=all")
    random = np.random.default_rng(1)
    prompt = random.integers(0, model.vocab, 11)
    for chunk in (11, 10, int(random.integers(1, 10))):
        output = generate(program, prompt, STEPS, f"--prefill-chunk={chunk}", logits=True)
        wanted = full_logits(model, [[*prompt, *output.tokens[:-1]]])[0]
        assert difference(output.logits.reshape(wanted.shape), wanted).relative <= TOLERANCE

"""The communication that the runtime counts during generation is that of each step's plan.

Each sampled token adds one reduction. Logits are sent only when requested.
"""

import re

import numpy as np
import pytest

from generation import CAUSAL, generate
from harness import Grid
from test_generate_plans import SPLIT, plan_of

NEW, PROMPT = 6, 9
CASES = [
    pytest.param(
        name, grid, id=f"{name}-{grid}", marks=[] if index % 8 == 2 * number else pytest.mark.long
    )
    for index, name in enumerate(SPLIT)
    for number, grid in enumerate(["tp2", "tp2,pp2", "pp2", "tp2,dp2"])
]


def sent(output):
    """Maps (stage, axis, kind) to (count, bytes), for the rank of each stage that sends most."""
    rows = re.findall(
        r"^stage (\d+): (\w+) over (\S+), (\d+) times, (\d+) bytes$", output.result.stderr, re.M
    )
    return {
        (int(stage), axis, kind): (int(count), int(size)) for stage, kind, axis, count, size in rows
    }


def rounds(output):
    return [
        int(one)
        for one in re.search(
            r"(\d+) tokens in (\d+) steps; (\d+) sampling rounds, (\d+) of", output.result.stderr
        ).groups()
    ]


@pytest.mark.parametrize("name,grid", CASES)
def test_communication_of_generation(tpcc, name, grid):
    model, parsed = CAUSAL[name], Grid.parse(grid)
    program = tpcc.compile(model.path, grid, "--generate")
    prompt = np.random.default_rng(0).integers(0, model.vocab, PROMPT)
    plan = [row for row in plan_of(tpcc, model, grid)["collectives"] if row["axis"] != "output"]
    batch = max(parsed.dp, 1)
    for chunk, steps in ((PROMPT, NEW), (4, NEW + 2)):
        flags = [f"--prefill-chunk={chunk}", f"--max-batch={batch}", "--verbose"]
        output = generate(program, prompt, NEW, *flags)
        counted = sent(output)
        assert rounds(output) == [NEW, steps, NEW, 0]
        # 2L + 1 reductions over tp, or L + 1, and messages between stages, as planned; other tests
        # check the plan.
        for row in plan:
            assert (
                counted.pop((row["stage"], row["axis"], row["kind"]))[0] == steps * row["count"]
            ), row
        # The token's value and id, for each sequence of the step.
        assert counted.pop((parsed.pp - 1, "sampling", "all_reduce"), (NEW, 8 * NEW)) == (
            NEW,
            8 * NEW,
        )
        # The last stage also sends the token to earlier stages.
        for (_, axis, kind), (count, size) in counted.items():
            assert (
                (axis, kind) == ("sampling", "send")
                and parsed.pp > 1
                and count == NEW
                and size <= 8 * NEW * batch
            )
    asked = generate(program, prompt, NEW, "--verbose", f"--max-batch={batch}", logits=True)
    assert sum(size for (_, axis, _), (_, size) in sent(asked).items() if axis == "output") > 0


@pytest.mark.parametrize(
    "flags,most",
    [
        (["--temperature", "0.9"], 1),
        (["--repetition-penalty", "1.3"], 1),
        (["--top-k", "40"], 1),
        (["--top-p", "0.9"], 3),
        (["--top-p", "0.99", "--top-k", "150"], 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_rounds(tpcc, flags, most):
    program = tpcc.compile(CAUSAL["gpt2-tiny"].path, "tp2", "--generate")
    output = generate(program, [1, 2, 3], 20, "--verbose", *flags)
    tokens, steps, count, extra = rounds(output)
    assert (tokens, steps, extra) == (20, 20, 0) and 20 <= count <= 20 * most
    assert (
        sum(number for (_, axis, _), (number, _) in sent(output).items() if axis == "sampling")
        == count
    )

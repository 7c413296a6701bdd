"""Decode steps of GPU programs that are launched before the host has the tokens of earlier ones.

Over simulated devices: the tokens are those of a host that waits for each step, and the host does
not wait for the device between two launches.
"""

import re

import pytest

import step_trace
from cuda_programs import MODEL, PROMPTS, compiled, no_assembler  # noqa: F401 (fixtures)
from generation import CAUSAL, expected, generate
from service import Service

SETTINGS = {
    "greedy": [],
    "sampled": ["--temperature", "0.9", "--seed", "11"],
    "penalty": ["--repetition-penalty", "1.4"],
    "both": ["--temperature", "1.1", "--repetition-penalty", "1.2", "--seed", "3"],
}


def flags_of(prompts, new):
    return [
        *(flag for one in prompts for flag in ("--prompt-ids", ",".join(map(str, one)))),
        "--max-new-tokens",
        str(new),
        "--deterministic",
        "--verbose",
    ]


def ahead(result):
    """Returns how many steps were launched ahead, and how many of them were dropped."""
    found = re.search(r"; (\d+) steps were launched ahead, (\d+) of them dropped", result.stderr)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def runs(tpcc, path, flags, steps, seed, *arguments):
    """Returns the result with each number of steps ahead."""
    return [
        compiled(
            tpcc, path, "tp1", *arguments, TPC_STEPS_AHEAD=most, TPC_SIM_SEED=seed
        ).call(flags).check()
        for most in steps
    ]


@pytest.mark.parametrize(
    "name,settings",
    [
        pytest.param(
            name,
            settings,
            marks=(
                []
                if (name, settings)
                in (("llama-dynamo", "greedy"), ("mistral-past", "both"))
                else pytest.mark.long
            ),
        )
        for name in ("gpt2-tiny", "llama-dynamo", "mistral-past", "gemma2-dynamo")
        for settings in SETTINGS
    ],
)
def test_tokens_are_the_same(tpcc, request, name, settings):
    """Rows of a batch have prompts of different lengths and wait for others; sliding windows move
    tokens, before which no step is launched ahead.
    """
    path = CAUSAL[name].path
    prompts = [one["prompt"] for one in expected()[name][:4]]
    flags = [*flags_of(prompts, 23), *SETTINGS[settings], "--max-batch", "3"]
    for seed in range(5 if request.config.getoption("tests") == "long" else 1):
        waiting, one, several = runs(tpcc, path, flags, (0, 1, ""), seed)
        assert waiting.stdout == one.stdout == several.stdout
        assert len(set(waiting.stdout.splitlines())) == len(prompts)
        assert ahead(waiting) == (0, 0)
        for result in (one, several):
            assert ahead(result)[0] >= 25 and ahead(result)[1] == 0


def test_stop_ids(tpcc):
    """Steps after a stop id are dropped, or used for the other rows. Later prompts in the same
    slots get the same tokens.
    """
    path, flags = MODEL.path, [*flags_of(PROMPTS[:5], 20), "--temperature", "1.5"]
    (free,) = runs(tpcc, path, flags, (0,), 0)
    made = [line.split() for line in free.stdout.splitlines()]
    stops = ["--stop-ids", ",".join({line[5 + 2 * index] for index, line in enumerate(made)})]
    for seed, batch in enumerate(("1", "2", "5")):
        waiting, several = runs(tpcc, path, [*flags, *stops, "--max-batch", batch], (0, ""), seed)
        assert waiting.stdout == several.stdout
        assert max(len(line.split()) for line in waiting.stdout.splitlines()) < 20
        launched, dropped = ahead(several)
        assert launched >= 8 and (dropped > 0 or batch != "1")


def test_nan_and_invalid_tokens(tpcc, tmp_path):
    """A row whose logits become NaN ends with an error, in the midst of steps that were launched
    ahead; the others continue.
    """
    import onnx
    from onnx import numpy_helper

    model = onnx.load(MODEL.path)
    table = next(tensor for tensor in model.graph.initializer if "wpe" in tensor.name)
    values = numpy_helper.to_array(table).copy()
    values[20:] = float("nan")
    table.CopyFrom(numpy_helper.from_array(values, table.name))
    onnx.save(model, tmp_path / "poisoned.onnx")
    program = compiled(tpcc, tmp_path / "poisoned.onnx", "tp1")
    with Service(program, "--max-batch", "2", "--max-sequence", "60") as service:
        alone = service.generate(PROMPTS[0][:4], 12)
        with service.at_once():
            long = service.ask("long", PROMPTS[1][:11], 40)
            short = service.ask("short", PROMPTS[0][:4], 12)
        assert service.answer(short).tokens == alone
        answer = service.answer(long)
        assert answer.finish == "error" and "after 21 tokens" in answer.message
        assert service.close() == 0


def test_service(tpcc):
    """Requests that join, leave and are cancelled get the tokens that they get alone."""
    program = compiled(tpcc, MODEL.path, "tp1")
    with Service(program, "--max-batch", "3", "--max-sequence", "60", "--deterministic") as service:
        alone = [service.generate(prompt[:7], 40) for prompt in PROMPTS[:2]]
        names = [
            service.ask(f"p{index}", PROMPTS[index % 2][:7], 40 - 3 * index, stop_ids=[alone[0][9]])
            for index in range(6)
        ]
        service.until(lambda: service.answers["p1"].tokens)
        service.send({"cancel": "p1"})
        for index, name in enumerate(names):
            answer, own = service.answer(name), alone[index % 2]
            assert answer.tokens == own[: len(answer.tokens)]
            if index == 1:
                assert answer.finish in ("cancelled", "stop")
            else:
                stops = alone[0][9] in own[: 40 - 3 * index]
                assert answer.finish == ("stop" if stops else "length")
        assert service.close() == 0


def test_the_host_does_not_wait_between_tokens(tpcc, tmp_path):
    """From the second decode step on, which is captured, the host waits once for each step, by an
    event. Later steps are in the stream already, because they were launched ahead.
    """
    trace, new = tmp_path / "trace", 30
    program = compiled(tpcc, MODEL.path, "tp1", TPC_SIM_TRACE=trace)
    result = program.call(flags_of(PROMPTS[2:3], new)).check()
    # The prompt samples the first token; its step and two decode steps wait.
    assert ahead(result) == (new - 3, 0)
    (calls,) = step_trace.calls_of_ranks(trace.read_text())
    launches = [i for i, name in enumerate(calls) if name == "cuGraphLaunch"]
    assert len(launches) == new - 2
    first = launches[1]  # the first step that was launched ahead
    after = calls[first:]
    # The graph's launch, a copy of token and status, an event; then a wait for the earliest step.
    assert after[: after.index("cuEventSynchronize")].count("cuGraphLaunch") == 8 + 1
    assert after.count("cuEventSynchronize") == new - 3
    steps = after[: max(i for i, name in enumerate(after) if name == "cuEventSynchronize")]
    assert set(steps) == {
        "cuGraphLaunch",
        "cuCtxSetCurrent",
        "cuMemcpyDtoHAsync_v2",
        "cuEventRecord",
        "cuEventSynchronize",
    }


def test_rows_that_the_host_decides(tpcc):
    """Filtered rows, logits for the host, and ranks that exchange candidates: no step is ahead."""
    program = compiled(tpcc, MODEL.path, "tp1")
    for more in (["--top-k", "5"], ["--top-p", "0.9"]):
        assert ahead(program.call([*flags_of(PROMPTS[:1], 8), *more]).check()) == (0, 0)
    output = generate(program, PROMPTS[0], 8, "--verbose", logits=True)
    assert ahead(output.result) == (0, 0)
    program = compiled(tpcc, MODEL.path, "tp2")
    assert ahead(program.call(flags_of(PROMPTS[:1], 8)).check()) == (0, 0)


def test_invalid_numbers_of_steps(tpcc):
    for value in ("-1", "64", "many", "3 "):
        program = compiled(tpcc, MODEL.path, "tp1", TPC_STEPS_AHEAD=value)
        result = program.call(flags_of(PROMPTS[:1], 2))
        assert result.returncode == 1
        assert f"TPC_STEPS_AHEAD={value}: expected a number from 0 to 63" in result.stderr

"""Invalid requests produce errors before any output, without crash, hang or token.

The program is hand-written, with 101 ids and a capacity of 128 tokens.
"""

import json
import os
import re
import signal
import time

import numpy as np
import pytest

from generation import Toy, generate
from harness import LAUNCH, run
from liveness import Steps, processes_of, until
from service import Service


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return Toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def program(toy):
    return toy.program("tp2,pp2")


def refuse(program, arguments, *words, transport="threads"):
    result = program.call([str(argument) for argument in arguments], transport, timeout=60)
    result.refused(*words)
    assert not result.stdout.strip(), result


PROMPT = ["--prompt-ids", "1,2,3"]
FEW = ["--max-new-tokens", "4"]


@pytest.mark.parametrize(
    "arguments,words",
    [
        (["--prompt-ids", "", *FEW], ["empty"]),
        (["--prompt-ids", ",", *FEW], ["--prompt-ids"]),
        (["--prompt-ids", "1,,2", *FEW], ["--prompt-ids"]),
        (["--prompt-ids", "1,two", *FEW], ["two"]),
        (["--prompt-ids", "1,101", *FEW], ["101", "100"]),
        (["--prompt-ids=-1", *FEW], ["-1"]),
        (["--prompt-ids", "1,99999999999999999999", *FEW], ["--prompt-ids"]),
        (["--prompt-ids", ",".join(["1"] * 129), "--max-new-tokens", "1"], ["129", "128"]),
        (
            ["--prompt-ids", ",".join(["1"] * 21), "--max-new-tokens", "1", "--max-sequence", "20"],
            ["21", "20"],
        ),
        (["--prompt-ids", "nowhere.json", *FEW], ["nowhere.json"]),
        (["--prompt-ids", "nowhere.npy", *FEW], ["nowhere.npy"]),
        ([*PROMPT, "--max-new-tokens", "-3"], ["--max-new-tokens"]),
        ([*PROMPT, *FEW, "--max-sequence", "0"], ["--max-sequence"]),
        ([*PROMPT, *FEW, "--max-sequence", "129"], ["129", "128"]),
        ([*PROMPT, *FEW, "--prefill-chunk", "0"], ["--prefill-chunk"]),
        ([*PROMPT, *FEW, "--temperature", "-1"], ["--temperature"]),
        ([*PROMPT, *FEW, "--temperature", "nan"], ["--temperature"]),
        ([*PROMPT, *FEW, "--temperature", "warm"], ["--temperature"]),
        ([*PROMPT, *FEW, "--top-k", "-1"], ["--top-k"]),
        ([*PROMPT, *FEW, "--top-p", "1.5"], ["--top-p"]),
        ([*PROMPT, *FEW, "--top-p", "-0.1"], ["--top-p"]),
        ([*PROMPT, *FEW, "--repetition-penalty", "0"], ["--repetition-penalty"]),
        ([*PROMPT, *FEW, "--repetition-penalty", "inf"], ["--repetition-penalty"]),
        ([*PROMPT, *FEW, "--seed", "x"], ["--seed"]),
        ([*PROMPT, *FEW, "--seed", str(2**64)], ["--seed"]),
        ([*PROMPT, *FEW, "--stop-ids", "101"], ["101"]),
        ([*PROMPT, *FEW, "--stop-ids", "a"], ["--stop-ids"]),
        ([*PROMPT, *FEW, "--max-batch", "0"], ["--max-batch"]),
        ([*PROMPT, *FEW, "--serve-stdin"], ["--serve-stdin", "--prompt-ids"]),
        ([*PROMPT, *FEW, "--input", "input_ids=x.npy"], ["--input"]),
        ([*FEW], ["--prompt-ids", "--serve-stdin"]),
        ([*PROMPT, *FEW, "--shape", "batch=1"], ["--shape", "--bench"]),
        ([*PROMPT, *FEW, "--max-batch", "65537"], ["--max-batch", "65536"]),
        (["--serve-stdin", "--max-batch", str(2**62)], ["--max-batch", "65536"]),
    ],
    ids=lambda value: " ".join(value)[:60],
)
def test_command_lines(program, arguments, words):
    refuse(program, arguments, *words)


def test_logits_that_cannot_be_written(program):
    program.call([*PROMPT, *FEW, "--logits", "no/such/folder/logits.npy"]).refused("no/such/folder")


@pytest.mark.parametrize(
    "text,words",
    [
        ("", []),
        ("[]", []),
        ("{}", []),
        ("[[1, 2], []]", []),
        ('[1, "2"]', []),
        ("[1, 2.5]", []),
        ("[1, 2", []),
        ("[1, 101]", ["101"]),
        ("[[1, 2], [1, -7]]", ["-7"]),
        ("[[1], 2]", []),
        ("[[[1]]]", []),
        ("[" * 100000, []),
        ("[1, " + "[" * 100000 + "]" * 100000 + "]", ["found array"]),
        ('[1, "' + "x" * 100000 + '"]', ["xxx…"]),
    ],
    ids=lambda value: str(value)[:20],
)
def test_json_files(program, tmp_path, text, words):
    (tmp_path / "ids.json").write_text(text)
    refuse(program, ["--prompt-ids", tmp_path / "ids.json", *FEW], *words)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((1, 3), np.float32),
        np.zeros((1, 2, 3), np.int64),
        np.zeros((2, 0), np.int64),
        np.zeros((0, 3), np.int64),
        np.array([[1, 101]]),
        np.array([[-1]]),
    ],
    ids=lambda array: f"{array.dtype}-{array.shape}",
)
def test_arrays(program, tmp_path, array):
    np.save(tmp_path / "ids.npy", array)
    refuse(
        program,
        ["--prompt-ids", tmp_path / "ids.npy", *FEW],
        *([str(array.flat[-1])] if array.size == 2 else []),
    )


def test_more_rows_than_run_at_a_time(program, tmp_path):
    """Rows beyond --max-batch wait, and have the tokens that they have alone."""
    prompts = [[1, 2], [3], [4, 5, 6]]

    def tokens(rows, *flags):
        (tmp_path / "ids.json").write_text(json.dumps(rows))
        command = ["--prompt-ids", tmp_path / "ids.json", *FEW, *flags]
        return program.call(command).check().stdout.splitlines()

    assert tokens(prompts, "--max-batch", "2") == [tokens([row])[0] for row in prompts]


@pytest.mark.parametrize("transport", ["tcp", "mpi"])
def test_all_processes_end(program, request, transport):
    if transport == "mpi":
        request.getfixturevalue("mpi")
    refuse(program, ["--prompt-ids", "1,101", *FEW], "101", transport=transport)


@pytest.mark.parametrize(
    "flags,words",
    [
        ("--temperature $RANK", "another --temperature (rank 0 has 0, rank 1 has 1)"),
        ("--max-new-tokens $((RANK + 3))", "another --max-new-tokens (rank 0 has 3, rank 1 has 4)"),
        ("--stop-ids $RANK", "other prompts or flags"),
        ("--prompt-ids $RANK", "other prompts or flags"),
    ],
)
def test_processes_with_different_flags(toy, tmp_path, flags, words):
    """Flags that determine the steps must be equal on all ranks; otherwise some would wait for
    messages that others never send.
    """
    program = toy.program("tp2")
    (tmp_path / "each").write_text(f"#!/bin/sh\nexec {program.path} --prompt-ids 1,2,3 {flags}\n")
    (tmp_path / "each").chmod(0o755)
    run([*LAUNCH, "-n", "2", tmp_path / "each"], env=program.environment, timeout=60).refused(
        "rank 1", words
    )


@pytest.mark.parametrize("grid", ["tp1", "tp2,pp2", "dp2"])
@pytest.mark.parametrize(
    "drawn",
    [[], ["--temperature", "1"], ["--temperature", "1", "--top-k", "5", "--top-p", "0.9"]],
    ids=["greedy", "plain", "filtered"],
)
def test_logits_that_are_nan(toy, grid, drawn):
    """Errors name the prompt and its number of tokens; a valid prompt of the batch is answered."""
    program = toy.program(grid)
    refuse(program, ["--prompt-ids", f"1,2,{Toy.POISON}", *FEW, *drawn], "nan", "after 3 tokens")
    result = program.call(
        ["--prompt-ids", f"{Toy.POISON}", "--prompt-ids", "1,2", *FEW, *drawn]
    ).refused("prompt 0", "nan")
    assert len(result.stdout.split()) == 4


def test_request_with_nan_logits_ends_alone(program):
    with Service(program, "--max-batch", "2") as service:
        service.ask("b", [1, 2, 3], 40)
        answer = service.answer(service.ask("a", [1, 2, Toy.POISON], 4))
        assert answer.finish == "error" and "after 3 tokens" in answer.message
        assert service.answer("b").finish == "length"
        assert service.close() == 0


def test_temperatures_next_to_zero(program):
    """Scores divided by such a temperature would be infinite, so many would be maximal. Tokens are
    greedy instead.
    """
    greedy = generate(program, [1, 2, 3], 20).tokens
    for temperature in ("1e-31", "1e-38", "1e-45", "1e-300"):
        assert (
            generate(program, [1, 2, 3], 20, "--temperature", temperature).tokens == greedy
        ), temperature
        assert (
            generate(
                program,
                [1, 2, 3],
                20,
                "--temperature",
                temperature,
                "--top-k",
                "5",
                "--top-p",
                "0.9",
            ).tokens
            == greedy
        ), temperature


def test_values_at_the_limits(program):
    """Values at the limits, next to the rejected ones above."""
    assert len(generate(program, [1] * 128, 1).tokens) == 1
    assert len(generate(program, [1, 2, 3], 126).tokens) == 126
    assert len(generate(program, [1, 2, 3], 127).tokens) == 126
    limits = ["--max-sequence", "128", "--stop-ids", "100"]
    assert len(generate(program, [0, 100], 1, *limits).tokens) == 1
    assert (
        len(
            generate(
                program,
                [5],
                2,
                "--temperature",
                "0.5",
                "--top-k",
                "0",
                "--top-p",
                "1",
                "--repetition-penalty",
                "1",
            ).tokens
        )
        == 2
    )
    seeds = [
        generate(program, [5], 20, "--temperature", "1", "--seed", str(seed)).tokens
        for seed in (2**64 - 1, -1, 2**63, 2**63 - 1)
    ]
    assert seeds[0] == seeds[1] and seeds[2] not in (seeds[0], seeds[3])


@pytest.mark.parametrize("victim", [0, 1])
def test_errors_begin_on_a_new_line(toy, tmp_path, victim):
    """Tokens are an incomplete line from rank 0; errors may come from any rank."""
    program, log = toy.program("tp2"), tmp_path / "log"
    environment = {"TEST_MOST": "1000000"}
    with Steps(
        program,
        "tcp",
        log,
        {**program.environment, **environment},
        waits=False,
        arguments=["--prompt-ids", "1,2,3", "--max-new-tokens", "900000"],
    ) as steps:
        until(lambda: re.search(r"^\d+ \d+", steps.printed(), re.M))
        time.sleep(0.5)  # rank 0 sends a heartbeat several times a second
        os.kill(processes_of(program.path)[victim], signal.SIGKILL)
        until(lambda: steps.run.poll() is not None and not processes_of(program.path))
        output = steps.printed()
    assert re.search(
        rf"^\d+ \d+[\d ]*\nerror: rank {victim} \(tp {victim}\) has ended without an error message",
        output,
        re.M,
    ), output[-2000:]

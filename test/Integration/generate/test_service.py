"""The `--serve-stdin` protocol reads JSON requests, writes JSON tokens, and has no other output.

The server is a hand-written program; test_served_models.py has compiled ones.
"""

import json
import os
import re
import signal
import time

import numpy as np
import pytest

from generation import Toy
from harness import sanitized
from liveness import processes_of, until
from service import Answer, Service

GRIDS = [("tp1", "threads"), ("tp2,pp2", "threads"), ("tp2", "mpi"), ("dp2,pp2,mb2", "tcp")]
PROMPTS = Toy.prompts()


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    if not Toy.PROGRAM.exists():
        pytest.fail(f"{Toy.PROGRAM} is not built")
    return Toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def program(toy):
    return toy.program("tp2,pp2")


@pytest.fixture(scope="module")
def alone(program):
    """Returns the tokens of each prompt when served alone."""
    with Service(program, "--max-batch", "1") as service:
        return [service.generate(prompt, 24) for prompt in PROMPTS]


@pytest.mark.parametrize("grid,transport", GRIDS)
def test_requests_run_together(toy, request, alone, grid, transport):
    """Each of eight requests in four slots gets the requested number of tokens, the same as alone.
    Then the program ends.
    """
    if transport == "mpi":
        request.getfixturevalue("mpi")
    with Service(toy.program(grid), "--max-batch", "4", transport=transport) as service:
        names = [
            service.ask(f"p{index}", prompt, 24 - index) for index, prompt in enumerate(PROMPTS)
        ]
        for index, name in enumerate(names):
            answer = service.answer(name)
            assert (answer.finish, len(answer.tokens)) == ("length", 24 - index)
            assert answer.tokens == alone[index][: 24 - index]
        assert service.close() == 0


def test_tokens_come_one_by_one_and_of_all_requests(program):
    """The test sends both requests again if the first one ended before the second was read, because
    programs are fast.
    """
    with Service(program, "--max-batch", "2") as service:
        for attempt in range(200):
            first, second = (
                service.answer(name)
                for name in [service.ask(f"{name}{attempt}", PROMPTS[4], 100) for name in "ab"]
            )
            assert first.tokens == second.tokens and len(first.tokens) == 100
            if (
                first.positions[0] < second.positions[-1]
                and second.positions[0] < first.positions[-1]
                and len(set(first.times)) > 1
            ):
                break
        else:
            pytest.fail("one waits for the end of the other, or all tokens for the last")


def test_stop_ids(program, alone):
    """The stop token is the last one returned, as in transformers."""
    ids = alone[3]
    stop = next(index for index, token in enumerate(ids) if token not in ids[:index] and index)
    with Service(program) as service:
        answer = service.answer(service.ask("a", PROMPTS[3], 24, stop_ids=[ids[stop], Toy.POISON]))
        assert (answer.finish, answer.tokens) == ("stop", ids[: stop + 1])


def test_samples_depend_only_on_the_seed(program):
    """Draws do not depend on slots, other or earlier requests; seeds differ."""
    drawn = dict(temperature=1.5, top_k=50, top_p=0.95, repetition_penalty=1.1)
    with Service(program, "--max-batch", "4") as service:
        first = service.generate(PROMPTS[5], 20, seed=7, **drawn)
        others = [
            service.ask(f"other{seed}", PROMPTS[seed], 30, seed=seed, temperature=1.0)
            for seed in range(3)
        ]
        answer = service.answer(service.ask("again", PROMPTS[5], 20, seed=7, **drawn))
        assert answer.tokens == first
        assert service.generate(PROMPTS[5], 20, seed=8, **drawn) != first
        for name in others:
            assert service.answer(name).finish == "length"


def test_requests_end_at_the_capacity(program):
    """The request ends without a further token after 128 tokens, which is the capacity."""
    with Service(program, "--max-batch", "1") as service:
        for length, count in ((126, 3), (127, 2), (128, 1)):
            answer = service.answer(service.ask(f"a{length}", [7] * length, 64))
            assert (answer.finish, len(answer.tokens)) == ("length", count)
        answer = service.answer(service.ask("a129", [7] * 129, 1))
        assert answer.finish == "error" and "129" in answer.message and "128" in answer.message


def test_temperature_zero_is_greedy(program, alone):
    with Service(program) as service:
        assert service.generate(PROMPTS[2], 24, temperature=0, seed=3) == alone[2]
        # A single candidate is the argmax.
        assert service.generate(PROMPTS[2], 24, temperature=1.0, top_k=1, seed=3) == alone[2]


def test_cancel(program, alone):
    """Cancels running, waiting and unknown requests. Then the slot serves others. A request that
    ended before its cancellation arrived is sent again, because programs are fast.
    """
    with Service(program, "--max-batch", "1") as service:
        service.send({"cancel": "nobody"})
        assert "nobody" in service.answer(None).message
        num_cancelled = 0
        for attempt in range(200):
            long, waits = f"long{attempt}", f"waits{attempt}"
            service.ask(long, PROMPTS[0], 120)
            service.ask(waits, PROMPTS[1], 120)
            for name in (waits, long):
                service.send({"cancel": name})
            waited, ran = service.answer(waits), service.answer(long)
            for answer in (waited, ran):
                assert answer.finish == ("length" if len(answer.tokens) == 120 else "cancelled")
            ends = waited.finish, waited.tokens, ran.finish
            num_cancelled += ends == ("cancelled", [], "cancelled")
            if num_cancelled == 3:
                break
        assert num_cancelled == 3
        assert service.generate(PROMPTS[2], 24) == alone[2]
        assert service.close() == 0


GOOD = {"id": "a", "ids": [1, 2, 3], "max_new_tokens": 4}
# Bad requests, and words of their messages.
BAD = {
    "no JSON": ('{"id": "a", ', []),
    "no object": ("[1, 2]", []),
    "no ids": ({"id": "a", "max_new_tokens": 4}, ["ids"]),
    "unknown": ({**GOOD, "max_tokens": 4}, ["max_tokens"]),
    "more than cancel": ({"cancel": "a", "ids": [1]}, ["cancel"]),
    "no id": ({"ids": [1], "max_new_tokens": 4}, ["id"]),
    "id is a number": ({**GOOD, "id": 3}, ["id"]),
    "empty": ({**GOOD, "ids": []}, ["empty"]),
    "ids of text": ({**GOOD, "ids": "1,2"}, ["ids"]),
    "a text among ids": ({**GOOD, "ids": [1, "2"]}, ["ids"]),
    "a half": ({**GOOD, "ids": [1, 2.5]}, ["ids"]),
    "above the vocabulary": ({**GOOD, "ids": [1, 101]}, ["101", "100"]),
    "negative": ({**GOOD, "ids": [-1]}, ["-1"]),
    "huge": ({**GOOD, "ids": [2**70]}, ["ids"]),
    "too long": ({**GOOD, "ids": [1] * 129}, ["129", "128"]),
    "no new ones": ({**GOOD, "max_new_tokens": 0}, ["max_new_tokens"]),
    "fewer than none": ({**GOOD, "max_new_tokens": -1}, ["max_new_tokens"]),
    "cold": ({**GOOD, "temperature": -0.1}, ["temperature"]),
    "top_k": ({**GOOD, "top_k": -1}, ["top_k"]),
    "top_p": ({**GOOD, "top_p": 1.5}, ["top_p"]),
    "no top_p": ({**GOOD, "top_p": 0}, ["top_p"]),
    "top_p of text": ({**GOOD, "top_p": "0.5"}, ["top_p"]),
    "penalty": ({**GOOD, "repetition_penalty": 0}, ["repetition_penalty"]),
    "seed": ({**GOOD, "seed": "x"}, ["seed"]),
    "stop": ({**GOOD, "stop_ids": [101]}, ["101"]),
    "stop of text": ({**GOOD, "stop_ids": 3}, ["stop_ids"]),
}


@pytest.fixture(scope="module")
def patient(program):
    """Returns a program that receives repeated invalid requests."""
    with Service(program, "--max-batch", "2") as service:
        yield service
        assert service.close() == 0


@pytest.mark.parametrize("what", BAD)
def test_bad_requests_do_not_affect_the_next(patient, alone, what):
    line, words = BAD[what]
    # A request without a readable id gets an answer with id null.
    name = line["id"] if isinstance(line, dict) and isinstance(line.get("id"), str) else None
    patient.answers.pop(name, None)
    patient.send(line)
    answer = patient.answer(name)
    assert answer.finish == "error" and not answer.tokens
    for word in words:
        assert word in answer.message, answer
    assert patient.generate(PROMPTS[1], 5) == alone[1][:5]


def test_active_id(program, alone):
    """A second request with an active id is rejected without that id; the first one continues."""
    with Service(program, "--max-batch", "1") as service:
        with service.at_once():
            service.ask("a", PROMPTS[0], 24)
            service.send({**GOOD, "id": "a"})
        refused = service.answer(None)
        assert refused.finish == "error" and "a" in refused.message
        assert service.answer("a").tokens == alone[0]
        # After its end the id is free again.
        assert service.answer(service.ask("a", PROMPTS[1], 5)).tokens == alone[1][:5]


def test_errors_do_not_affect_other_requests(program, alone):
    with Service(program, "--max-batch", "2") as service:
        service.ask("a", PROMPTS[0], 24)
        service.send({**GOOD, "id": "b", "ids": [5000]})
        assert service.answer("b").finish == "error"
        assert service.answer("a").tokens == alone[0]


def test_slots_are_used_again(program, alone):
    """Stale cache contents of a longer sequence do not change the bits of results."""
    with Service(program, "--max-batch", "1") as service:
        service.generate([5] * 100, 28)
        for index in (7, 0, 5):
            assert service.generate(PROMPTS[index], 24) == alone[index]


def test_end_of_input_completes_requests(program):
    with Service(program, "--max-batch", "1") as service:
        for name in "abc":
            service.ask(name, PROMPTS[0], 40)
        assert service.close() == 0
        assert all(
            service.answers[name].finish == "length" and len(service.answers[name].tokens) == 40
            for name in "abc"
        )


def test_last_line_without_newline(program):
    with Service(program) as service:
        service.send(json.dumps(GOOD).encode())
        assert service.close() == 0
        assert service.answers["a"].finish == "length"


@pytest.mark.parametrize("transport", ["threads", "tcp"])
def test_client_closes_the_output(program, transport):
    """All ranks exit, with a message, if the client closes the output pipe."""
    with Service(program, "--max-batch", "2", transport=transport) as service:
        service.ask("a", PROMPTS[0], 120)
        service.until(lambda: service.answers["a"].tokens)
        service.hang_up()
        try:
            for index in range(50):
                service.ask(f"b{index}", PROMPTS[0], 120)
        except BrokenPipeError:
            pass
        until(lambda: service.process.poll() is not None)
        until(lambda: not processes_of(program.path))
        assert service.process.returncode not in (0, -signal.SIGKILL)
        assert "error: " in service.printed()


@pytest.mark.parametrize("transport", ["tcp", "mpi"])
def test_a_rank_that_is_killed(program, request, transport):
    """All other ranks end, and the output is complete lines."""
    if transport == "mpi":
        request.getfixturevalue("mpi")
    with Service(program, transport=transport) as service:
        for index in range(20):
            service.ask(f"a{index}", PROMPTS[0], 120)
        service.until(lambda: len(service.answers["a0"].tokens) > 10)
        victim = 3
        os.kill(processes_of(program.path)[victim], signal.SIGKILL)
        until(lambda: service.process.poll() is not None)
        service.reader.join()
        until(lambda: not processes_of(program.path))
        assert service.process.returncode != 0
        assert f"rank {victim}" in service.printed()
        assert not service.wrong
        of_a0 = service.answers["a0"].tokens
        for answer in service.answers.values():
            assert (
                answer.tokens == of_a0[: len(answer.tokens)] or of_a0 == answer.tokens[: len(of_a0)]
            )


@pytest.mark.skipif(sanitized(), reason="sanitizers: freed memory stays quarantined")
def test_memory_is_flat(program):
    """After twenty sequences, ten thousand steps in a hundred sequences use no more memory."""
    with Service(program, "--max-batch", "1") as service:
        statm = f"/proc/{service.process.pid}/statm"

        def resident():
            return int(open(statm).read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        random, steps, before = np.random.default_rng(0), 0, 0
        for sequence in range(120):
            prompt = random.integers(0, Toy.POISON, random.integers(1, 28)).tolist()
            steps += len(
                service.generate(
                    prompt, 100, temperature=float(sequence % 2), top_p=0.9, seed=sequence
                )
            )
            if sequence == 19:
                before = resident()
        assert steps >= 12000
        assert resident() - before <= 256 << 10


def mistaken(random, name):
    """Returns a request with an error and an id."""
    line = [
        line
        for line, _ in BAD.values()
        if isinstance(line, dict) and isinstance(line.get("id"), str)
    ]
    return {**line[random.integers(len(line))], "id": name}


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 30))]
)
def test_each_request_is_answered_once(toy, alone, seed):
    """Requests, errors and cancellations arrive in any order, faster than they are answered."""
    random = np.random.default_rng(seed)
    grid = ["tp2,pp2", "tp1", "dp2", "tp2,pp2,mb2"][seed % 4]
    with Service(toy.program(grid), "--max-batch", str(random.integers(1, 6))) as service:
        wanted, cancelled = {}, set()
        for number in range(60):
            name, kind = f"n{number}", random.integers(10)
            if kind < 6:
                prompt, new = int(random.integers(len(PROMPTS))), int(random.integers(1, 25))
                wanted[service.ask(name, PROMPTS[prompt], new)] = alone[prompt][:new]
            elif kind < 8 and wanted:
                victim = list(wanted)[random.integers(len(wanted))]
                cancelled.add(victim)
                service.send({"cancel": victim})
            else:
                service.answers[name] = Answer()
                wanted[name] = None
                service.send(mistaken(random, name))
        assert service.close() == 0
        for name, tokens in wanted.items():
            answer = service.answers[name]
            if tokens is None:
                assert answer.finish == "error" and not answer.tokens
            elif answer.finish == "cancelled":
                assert name in cancelled and answer.tokens == tokens[: len(answer.tokens)]
            else:
                assert (answer.finish, answer.tokens) == ("length", tokens)


BYTES = [
    b"\0",
    b"\xff",
    b"1e999",
    b"-0",
    b"NaN",
    b'"',
    b"\\u0000",
    b"\\ud800",
    b"[",
    b"{",
    b"null",
    b"true",
    b"1e-400",
    b"9" * 23,
    b"\r",
    b" ",
    "🙂".encode(),
    b"0x10",
    b"01",
    b".5",
    b'"id":"a",',
    b",",
    b"//",
]


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 100))]
)
def test_lines_of_any_bytes(toy, seed):
    """For any input line, the output is protocol lines only, and the program exits with 0."""
    random = np.random.default_rng(seed)
    lines = []
    for _ in range(60):
        line = bytearray(
            [
                (
                    b'{"id":"n%d","ids":[12,7,99],"max_new_tokens":4,"temperature":0.8,"top_k":40,'
                    b'"top_p":0.95,"seed":1,'
                    b'"repetition_penalty":1.1,"stop_ids":[2]}'
                ),
                b'{"cancel":"n%d"}',
            ][random.integers(2)]
            % random.integers(20)
        )
        for _ in range(random.integers(5)):
            at, kind = random.integers(len(line) + 1), random.integers(4)
            if kind == 0:
                line[at:at] = BYTES[random.integers(len(BYTES))]
            elif kind == 1:
                del line[at : at + random.integers(6)]
            elif kind == 2:
                line[at : at + 1] = bytes([random.integers(256)])
            else:
                begin = random.integers(len(line) + 1)
                line[at:at] = line[begin : begin + random.integers(12)]
        lines.append(bytes(line).replace(b"\n", b" "))
    with Service(
        toy.program(["tp2,pp2", "dp2"][seed % 2]), "--max-batch", "3", "--max-sequence", "40"
    ) as service:
        # A free id may be used again.
        service.reused = True
        service.send(b"\n".join(lines) + b"\n" * (seed % 2))
        assert service.close() == 0
        assert service.lines >= 30 and not service.printed()


# Flags, and the maximum number of sampling rounds for twenty tokens.
ROUNDS = {
    "greedy": ([], 20),
    "plain": (["--temperature", "0.9"], 20),
    "penalty": (["--repetition-penalty", "1.3"], 20),
    "top-k": (["--top-k", "40"], 20),
    "top-p": (["--top-p", "0.9"], 60),
    "both": (["--top-k", "50", "--top-p", "0.99"], 60),
}


@pytest.mark.parametrize("how", ROUNDS)
@pytest.mark.parametrize("grid", ["tp2", "tp4", "tp2,pp2"])
def test_communication_of_sampling(toy, grid, how):
    """Greedy and plain sampled tokens need one round of reductions, others at most three. A program
    of one rank gets the same tokens.
    """
    arguments, most = ROUNDS[how]
    arguments = ["--prompt-ids", "1,2,3", "--max-new-tokens", "20", "--seed", "5", *arguments]
    result = toy.program(grid).call([*arguments, "--verbose"]).check()
    tokens, steps, rounds, extra = map(
        int,
        re.search(
            r"(\d+) tokens in (\d+) steps; (\d+) sampling rounds, (\d+) of them beyond three",
            result.stderr,
        ).groups(),
    )
    assert (tokens, steps, extra) == (20, 20, 0)
    assert 20 <= rounds <= most
    assert result.stdout == toy.program("tp1").call(arguments).check().stdout


def cpu_seconds(program):
    """Returns the CPU time of all processes of a program."""
    fields = (
        open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        for pid in processes_of(program.path).values()
    )
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    "grid,transport", [("tp1", "threads"), ("tp2,pp2", "threads"), ("tp2,pp2", "tcp")]
)
def test_idle_processes_sleep(toy, grid, transport):
    """Threads spin between tokens, and sleep between requests."""
    program = toy.program(grid)
    with Service(program, "--max-batch", "2", transport=transport) as service:
        service.generate(PROMPTS[0], 20)
        time.sleep(0.5)
        before = cpu_seconds(program)
        time.sleep(1.5)
        assert cpu_seconds(program) - before <= 0.2
        service.generate(PROMPTS[0], 20)
        assert service.close() == 0

"""Ranks that end before they join the others: invalid flags, --help, --describe, SIGKILL.

The other ranks end within seconds, not after the start-up timeout, and a message names the rank.
"""

import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import Grid
from models import COMMITTED
from test_starts import free_port, listens

RANKS = 3
RUN = ("--bench", "--shape", "batch=1,sequence=8", "--repeat=1", "--warmup=0", "--timeout=60")
INVALID, DESCRIBE = ("--products=none",), ("--describe",)
ERROR = "--products=none: expected 'tpc' or 'onednn'"
ABSENT = (
    r"was started with --help, --describe or --describe-device and takes no part in the run; start"
    r" all ranks with the same flags"
)
# Name: arguments of ranks that differ from RUN, statuses, and errors of which each must be printed.
CASES = {
    "rank 0 has an invalid flag": (
        {0: INVALID},
        [1, 1, 1],
        [
            rf"error: {ERROR}",
            r"rank \d: rank 0 at .* the run has ended: rank 0 has printed an error",
        ],
    ),
    "rank 2 has an invalid flag": ({2: INVALID}, [1, 1, 1], [f"error: rank 2: {ERROR}"]),
    "all have an invalid flag": ({rank: INVALID for rank in range(RANKS)}, [1, 1, 1], [ERROR]),
    "rank 0 describes": ({0: DESCRIBE}, [0, 1, 1], [rf"error: rank [12]: rank 0 at \S+ {ABSENT}"]),
    "rank 2 describes": ({2: DESCRIBE}, [1, 1, 0], [f"error: rank 0: rank 2 {ABSENT}"]),
    "all describe": ({rank: DESCRIBE for rank in range(RANKS)}, [0, 0, 0], []),
    "all print help": ({rank: ("--help",) for rank in range(RANKS)}, [0, 0, 0], []),
    "none differs": ({}, [0, 0, 0], []),
}


@pytest.fixture(scope="module")
def program(tpcc):
    return tpcc.compile(COMMITTED["gpt2-mlp"].path, Grid(tp=RANKS)).path


def start(rank, port, command):
    return subprocess.Popen(
        [str(word) for word in command],
        env={
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(RANKS),
            "MASTER_ADDR": "127.0.0.1",
            "TPC_PORT": str(port),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(processes, limit=30):
    """Returns statuses, standard outputs and standard errors. A wait for the start-up timeout would
    take 60 s.
    """
    try:
        ended = [process.communicate(timeout=limit) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], *zip(*ended)


def test_rank_that_ends_before_it_joins(program):
    def check(case):
        others, statuses, errors = CASES[case]
        port = free_port()
        running = [
            start(rank, port, [program, *others.get(rank, RUN)]) for rank in range(RANKS)
        ]
        return case, *finish(running), statuses, errors

    with ThreadPoolExecutor(len(CASES)) as pool:
        for case, found, outputs, texts, statuses, errors in pool.map(check, CASES):
            text = "".join(texts)
            assert found == statuses, (case, text)
            for error in errors:
                assert re.search(f"^{error}|^error: {error}", text, re.M), (case, text)
            # Ranks that end because of another one print at most one line.
            lines = text.splitlines()
            assert len(lines) <= RANKS and bool(lines) == bool(errors), (case, text)
            if not errors:
                assert outputs[0] and not any(outputs[1:]), (case, outputs)


def test_scripts_that_describe_first(program):
    """--describe of a rank does not end the run that the same rank then joins."""
    port = free_port()
    script = f"'{program}' --describe > /dev/null; exec '{program}' {' '.join(RUN)}"
    statuses, _, texts = finish([start(rank, port, ["sh", "-c", script]) for rank in range(RANKS)])
    assert statuses == [0] * RANKS, texts


def test_late_ranks_of_a_failed_rank(program):
    """Rank 0 informs ranks that start seconds after an error."""
    port = free_port()
    running = [start(0, port, [program, *INVALID])]
    time.sleep(1)
    running += [start(rank, port, [program, *RUN]) for rank in (1, 2)]
    statuses, _, texts = finish(running)
    assert statuses == [1, 1, 1] and "the run has ended" in texts[1] + texts[2], texts


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_rank_0_that_is_killed_while_others_connect(program, number):
    """Rank 0 has listened, and then nothing listens: it has ended."""
    port = free_port()
    first = start(0, port, [program, *RUN])
    while not listens(port) and first.poll() is None:
        time.sleep(0.002)
    second = start(1, port, [program, *RUN])
    time.sleep(0.3)
    first.send_signal(number)
    statuses, _, texts = finish([first, second])
    assert statuses[1] == 1, texts
    text = "".join(texts)
    assert re.search(r"^(error: rank 0 has ended|note: rank 0 received SIGTERM)", text, re.M), texts


@pytest.mark.long
def test_notes_of_ranks_that_wait(program):
    """A rank that waits for others that were killed before they started prints their numbers and
    where to look, long before the timeout.
    """
    flags = [*RUN[:-1], "--timeout=7"]
    statuses, _, texts = finish([start(rank, free_port(), [program, *flags]) for rank in (0, 1)])
    assert statuses == [1, 1]
    assert re.search(
        r"^note: rank 0 waits for ranks 1, 2 at 127.0.0.1:\d+ for up to 7 s: they have not started"
        r" yet, or have ended; see their output$",
        texts[0],
        re.M,
    ), texts
    assert re.search(
        r"^note: rank 1 waits for rank 0 at 127.0.0.1:\d+ for up to 7 s \(.*Connection refused\):"
        r" rank 0 has not started yet, or has ended; see its output$",
        texts[1],
        re.M,
    ), texts

"""Keywords of tpc.compile on CPUs, interrupts, and sessions that open while others count memory."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import session_options
import tpc
from harness import TOP, sanitized, tool
from models import COMMITTED
from tpc import compiler

pytestmark = pytest.mark.skipif(
    sanitized(), reason="sanitizers: the Python process needs them too"
)
MODEL = COMMITTED["gpt2-tiny"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(compiler, "find_tpcc", lambda: tool("tpcc"))
    monkeypatch.setenv("TPC_CACHE", str(tmp_path / "cache"))


def test_every_option_has_an_effect(tmp_path):
    assert session_options.check(tmp_path, "cpu") == set(compiler.option_names())


def test_options_of_the_command_only():
    """All options of tpcc are keywords, or rejected by name."""
    listed, command_only = set(compiler._listed()), set(compiler._COMMAND_OPTIONS) - {"help_list"}
    assert listed - set(compiler.option_names()) == command_only
    for name in compiler._COMMAND_OPTIONS:
        with pytest.raises(tpc.TpcError, match="command tpcc alone|is spelled"):
            tpc.compile(MODEL.path, **{name: "1"})


def test_sessions_open_while_others_count_memory():
    """For a larger batch, a session counts its memory on dry-run devices. A session of the same
    program that is opened meanwhile has real devices.
    """
    ids, problems, done = MODEL.inputs(1, 5), [], threading.Event()
    counting = tpc.compile(MODEL.path, shard="tp2", generate=True, threads=1)
    wanted = counting.run(ids)["logits"]

    def count():
        try:
            while not done.is_set():
                with tpc.load(counting.path, threads=1) as session:
                    for count in range(1, 100, 9):
                        session.generate([[1]] * count, max_new_tokens=1)
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        for _ in range(60):
            with tpc.load(counting.path, threads=1) as session:
                assert np.array_equal(session.run(ids)["logits"], wanted)
    finally:
        done.set()
        thread.join()
        counting.close()
    assert not problems, problems


INTERRUPTED = """
import gc, os, signal, sys, threading, time
import numpy as np
import tpc
from tpc.calls import Calls
signal.signal(signal.SIGINT, signal.default_int_handler)

def interrupted(call, seconds=0.3):
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    try:
        call()
    except KeyboardInterrupt:
        return time.monotonic() - began
    raise AssertionError("not interrupted")
"""


def python(text, *arguments):
    return subprocess.run(
        [sys.executable, "-c", INTERRUPTED + text, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(TOP / "python"), "TPC_CACHE": ""},
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_an_interrupt_does_not_wait_for_c_code():
    """An interrupted call continues in its thread; later calls follow it; its result is freed."""
    result = python("""
freed, order = [], []

class Result:
    def __del__(self):
        freed.append(self)

def slow():
    time.sleep(2)
    order.append("slow")
    return Result()

calls = Calls()
assert calls.run(lambda: 5) == 5
assert interrupted(lambda: calls.run(slow)) < 1.5
calls.end(lambda: order.append("end"))
assert order == []
calls.run(lambda: order.append("next"))
assert order == ["slow", "end", "next"], order
time.sleep(0.1)
gc.collect()
assert len(freed) == 1
try:
    calls.run(lambda: 1 / 0)
except ZeroDivisionError:
    pass
calls.stop()
assert threading.active_count() == 1 and calls.run(lambda: 7) == 7
child = os.fork()
if not child:
    os._exit(calls.run(lambda: 3))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
print("ended")
""")
    assert (result.stdout, result.stderr) == ("ended\n", ""), result.stderr[-3000:]


def test_an_interrupt_ends_generation(tpcc):
    """In an event loop, as in notebooks, the session is usable after an interrupt."""
    program = tpcc.compile(MODEL.path, "tp2", "--generate")
    result = python(
        """
import asyncio

async def cell():
    with tpc.load(sys.argv[1], threads=1) as session:
        wanted = session.generate([1, 2, 3], max_new_tokens=4).tolist()
        rows = [[token] for token in range(100)]
        def long():
            while True:
                session.generate(rows, max_new_tokens=100)
        for _ in range(3):
            interrupted(long)
            assert session.generate([1, 2, 3], max_new_tokens=4).tolist() == wanted
        def steps():
            while True:
                session.run({"input_ids": np.zeros((64, 64), int)})
        interrupted(steps)
        there = await asyncio.to_thread(session.generate, [1, 2, 3], max_new_tokens=4)
        assert there.tolist() == wanted

asyncio.new_event_loop().run_until_complete(cell())
print("ended")
""",
        program.path,
    )
    assert (result.stdout, result.stderr) == ("ended\n", ""), result.stderr[-3000:]

"""Runs programs in processes, of which one is killed or frozen in the middle of a step."""

import os
import random
import re
import signal
import statistics
import subprocess
import time
from pathlib import Path

from harness import LoadClock

# Seconds on a machine that has nothing else to do, until the rank is named and until everybody has ended.
PROMISED = {("tcp", "kill"): 1, ("mpi", "kill"): 3, ("tcp", "freeze"): 5, ("mpi", "freeze"): 5}
FATES = {"kill": (signal.SIGKILL, "has ended without a word"), "freeze": (signal.SIGSTOP, "is frozen")}


def processes_of(program: Path) -> dict[int, int]:
    """rank -> process"""
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if (directory / "exe").resolve() != program.resolve():
                continue
            environment = (directory / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for entry in environment:
            if entry.startswith((b"OMPI_COMM_WORLD_RANK=", b"RANK=")):
                found[int(entry.split(b"=")[1])] = int(directory.name)
    return found


def until(condition, seconds=120):
    clock = LoadClock()
    while not condition():
        assert clock.seconds() < seconds, "it takes too long"
        time.sleep(0.01)


class Steps:
    """Steps without end, in processes, or what arguments say."""

    def __init__(self, program, transport, log, more=None,
                 arguments=("--bench", "--shape", "batch=1,sequence=8", "--warmup", "1000000", "--weights=random:1")):
        self.program, self.log = program, log
        environment = {**os.environ, **(more or {}), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        command = program.command(transport)
        if transport == "tcp":
            command[-3:-3] = ["--as", "plain"]  # who ends whom is not the launcher's
        with open(log, "w") as file:
            self.run = subprocess.Popen([*command, "--verbose", "--timeout=60", *arguments], stdout=file, stderr=file,
                                        env=environment, start_new_session=True)

    def __enter__(self):
        until(lambda: self.run.poll() is not None or "loaded" in self.said())
        assert self.run.poll() is None, self.said()
        self.ranks = processes_of(self.program.path)
        assert len(self.ranks) == self.program.grid.ranks
        return self

    def said(self):
        return self.log.read_text()

    def __exit__(self, *_):
        if self.run.poll() is None:
            self.run.kill()
            self.run.wait()
        for pid in processes_of(self.program.path).values():
            os.kill(pid, signal.SIGKILL)


def check(program, transport, fate, seed, log, more=None):
    """Seconds until the rank was named, and until everybody had ended. `more`: of the environment."""
    draw = random.Random(seed)
    number, words = FATES[fate]
    with Steps(program, transport, log, more) as steps:
        time.sleep(draw.uniform(0.3, 0.8))
        victim = draw.randrange(program.grid.ranks)
        os.kill(steps.ranks[victim], number)
        begin = time.monotonic()
        named = re.compile(rf"^error: rank {victim} \(.*\) {words}", re.M)
        until(lambda: named.search(steps.said()))
        seconds = time.monotonic() - begin
        until(lambda: steps.run.poll() is not None and not processes_of(program.path))
        gone = time.monotonic() - begin
        assert steps.run.wait() != 0
        said = steps.said()
    # What it was at last: of the program's communication with its node, or between the steps of --bench.
    assert re.search(r"last seen (in|computing, behind) (\w+( \d+)? of '/?\w[^']*' over '|a barrier of all ranks|the assembling of outputs)"
                     r"|last seen computing on its device, in (one of \d+ calls, from )?(kernel|a product|communication)", said), said
    assert len(re.findall(r"^error: ", said, re.M)) == 1, said
    return seconds, gone


def check_times(program, transport, fate, seed, path, more=None):
    """By the clock, because it is promised; again if it took longer, because the machine may be busy."""
    tries = []
    while not tries or (tries[-1][0] > PROMISED[transport, fate] and len(tries) < 3):
        tries.append((*check(program, transport, fate, seed, path / f"log{len(tries)}", more), os.getloadavg()[0]))
    assert tries[-1][0] <= PROMISED[transport, fate], tries
    return tries


def say_times(transport, fate, tries):
    for what, times in (("named", [a for a, _, _ in tries]), ("gone", [b for _, b, _ in tries])):
        print(f"{transport} {fate}: {what} after {statistics.median(times):.2f} s, at most {max(times):.2f} s")
    for a, _, load in tries:
        if a > PROMISED[transport, fate]:
            print(f"{transport} {fate}: named after {a:.2f} s, with a load of {load:.1f} on {os.cpu_count()} cores")

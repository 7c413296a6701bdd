"""A rank that is frozen (SIGSTOP) in the middle of a step: the others end the run and say for whom each waits, and no
process is left behind. How it goes at the start and the end is in runtime/conformance/ProcessTest.cpp."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness import Grid
from models import MODELS


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
            if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                found[int(entry.split(b"=")[1])] = int(directory.name)
    return found


def until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


@pytest.mark.parametrize("grid", ["tp2", pytest.param("tp2,pp2", marks=pytest.mark.long)])
def test_a_frozen_rank_ends_the_run(tpcc, mpi, tmp_path, grid):
    program = tpcc.compile(MODELS / "gpt2-tiny.onnx", Grid.parse(grid))
    log = tmp_path / "log"
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TPC_TIMEOUT": "4"}
    with open(log, "w") as file:
        # Steps without end.
        run = subprocess.Popen([*program.command("mpi"), "--bench", "--shape", "batch=1,sequence=8", "--verbose",
                                "--warmup", "1000000", "--weights=random:1"],
                               stdout=file, stderr=file, env=environment, start_new_session=True)
    try:
        until(lambda: run.poll() is not None or "loaded" in log.read_text())
        assert run.poll() is None, log.read_text()
        ranks = processes_of(program.path)
        assert len(ranks) == program.grid.ranks
        os.kill(ranks[1], signal.SIGSTOP)
        assert run.wait(120) != 0
        said = log.read_text()
        assert "has waited for 4 s (--timeout=4)" in said and "for rank 1 (tp 1" in said, said
        assert "error: rank" in said
        # Communication of the program is that of a node.
        assert all(re.search(r" in \w+ of '/?\w[^']*' over '", line) for line in said.splitlines() if " over '" in line), said
        until(lambda: not processes_of(program.path))
    finally:
        if run.poll() is None:
            run.kill()
            run.wait()
        for pid in processes_of(program.path).values():
            os.kill(pid, signal.SIGKILL)

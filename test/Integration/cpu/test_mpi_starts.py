"""The order in which ranks end under mpirun, and rank variables without an mpirun."""

import os
import re
import signal
import subprocess
import time

from harness import BUILD, LoadClock
from liveness import until
from models import COMMITTED
from preload import build

SCENARIO = BUILD / "test" / "bin" / "tpc-rt-scenario"


def test_mpirun_loses_a_frozen_rank_before_the_others(tmp_path):
    """A rank is stopped while all are in MPI_Init. This process simulates mpirun.

    mpirun processes the ends of ranks in the order in which it sees them. If it loses the rank for
    which a fence waits and another one at the same time, it may wait forever (PMIx 4.2). So the
    frozen rank must end first, and the others only after mpirun has sent SIGTERM.
    """
    build("stalled_mpi", tmp_path).rename(tmp_path / "libtpc_mpi.so")
    victim, count = 1, 3
    with open(tmp_path / "log", "w") as log:
        running = {
            rank: subprocess.Popen(
                [SCENARIO, "stop-init", str(victim), "60"],
                env={
                    **os.environ,
                    "TPC_RUNTIME_DIR": str(tmp_path),
                    "PMIX_NAMESPACE": str(tmp_path),
                    "OMPI_COMM_WORLD_RANK": str(rank),
                    "OMPI_COMM_WORLD_SIZE": str(count),
                    "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
                    "OMPI_COMM_WORLD_LOCAL_SIZE": str(count),
                },
                stderr=log,
            )
            for rank in range(count)
        }

    def wait(ranks, seconds):
        """Waits until one of the ranks has ended, or for `seconds`. Returns all that have ended."""
        clock = LoadClock()
        while all(running[rank].poll() is None for rank in ranks) and clock.seconds() < seconds:
            time.sleep(0.005)
        return {rank for rank in ranks if running[rank].poll() is not None}

    def send(number):
        for process in running.values():
            if process.poll() is None:
                process.send_signal(number)

    try:
        assert wait(running, 60) == {victim}
        send(signal.SIGCONT)
        others = set(running) - {victim}
        begin = time.monotonic()
        while time.monotonic() < begin + 1:
            assert not wait(others, 0), "a rank has ended before mpirun has sent SIGTERM"
            time.sleep(0.005)
        send(signal.SIGTERM)
        until(lambda: wait(others, 0) == others)
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    assert running[victim].returncode == -signal.SIGKILL
    text = (tmp_path / "log").read_text()
    assert re.findall("^error: (.*)", text, re.M) == [
        f"rank {victim} is frozen: its process was stopped, 2 s ago"
        " (before all ranks were connected)"
    ], text


def test_a_left_over_rank(tpcc):
    """A rank without a PMIx server, from the environment of another process, is not a launch."""
    program = tpcc.compile(COMMITTED["gpt2-mlp"].path, "tp2")
    program.environment.update(PMIX_RANK="0", PMIX_NAMESPACE="slurm.pmix.77.0")
    try:
        assert program.bench({"batch": 1, "sequence": 2})["transport"] == "threads"
    finally:
        program.environment.clear()

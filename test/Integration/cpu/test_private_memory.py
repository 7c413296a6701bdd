"""Memory of a rank as the operating system reports it, against --describe."""

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness import Grid, LoadClock, sanitized
from models import COMMITTED


def private_bytes(pid):
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * sum(
        int(size) for size in re.findall(r"^Private_(?:Clean|Dirty): +(\d+) kB", text, re.M)
    )


def rank_of(pid):
    entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(
        (
            int(entry.split(b"=")[1])
            for entry in entries
            if entry.startswith(b"OMPI_COMM_WORLD_RANK=")
        ),
        None,
    )


def descendants(pid):
    children = [
        int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ]
    return children + [grandchild for child in children for grandchild in descendants(child)]


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_steady(samples, seconds=0.5):
    """Returns whether the memory of every rank changed by less than 1 MiB + 0.5% while it used
    `seconds` of CPU time. While weights are packed, a matrix is in memory twice.
    """
    for rank, (_, cpu) in samples[-1].items():
        late = [sample[rank][0] for sample in samples if sample[rank][1] >= cpu - seconds]
        if len(late) == len(samples) or max(late) - min(late) > (1 << 20) + min(late) // 200:
            return False
    return True


def steady_memory(executable, shape):
    """Returns the private bytes of each MPI rank while it runs steps."""
    text = ",".join(f"{name}={size}" for name, size in shape.items())
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    process = subprocess.Popen(
        [*executable.command("mpi"), "--bench", "--repeat", "1000000", "--shape", text],
        env=environment,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    samples, clock = [], LoadClock()
    try:
        while process.poll() is None and clock.seconds() < 120:
            try:
                sample = {
                    rank_of(pid): (private_bytes(pid), cpu_seconds(pid))
                    for pid in descendants(process.pid)
                    if Path(f"/proc/{pid}/exe").resolve() == executable.path.resolve()
                }
            except (OSError, ProcessLookupError):
                continue
            # The environment of a process that has just become another program may still be empty.
            if sample.keys() == set(range(executable.grid.ranks)):
                samples.append(sample)
                if is_steady(samples):
                    return {rank: memory for rank, (memory, _) in sample.items()}
            time.sleep(0.02)
    finally:
        for pid in [*descendants(process.pid), process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        error = process.communicate()[1]
    pytest.fail(f"no steady state in {len(samples)} samples: {error}")


@pytest.mark.long
@pytest.mark.skipif(sanitized(), reason="sanitizers: they need memory of their own")
@pytest.mark.parametrize("grid", [Grid(tp=2, pp=2)], ids=str)
def test_124m_over_mpi(tpcc, mpi, model_124m, grid):
    empty, odd = tpcc.compile(COMMITTED["gpt2-odd-opset20"].path, grid), {"batch": 1, "sequence": 1}
    large = tpcc.compile(model_124m, grid)
    base, memory = steady_memory(empty, odd), steady_memory(large, odd)
    for rank in large.describe()["ranks"]:
        predicted = rank["weight_bytes"] + rank["packing_bytes"]
        measured = memory[rank["rank"]] - base[rank["rank"]]
        assert abs(measured - predicted) <= 0.1 * predicted, (
            f"rank {rank['rank']} holds {measured / 1e6:.1f} MB, but --describe prints"
            f" {predicted / 1e6:.1f} MB"
        )

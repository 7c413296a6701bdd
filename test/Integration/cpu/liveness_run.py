#!/usr/bin/env python3
"""Fault campaign: kills and freezes ranks at random moments, and cuts links between hosts.

    liveness_run.py [--cases 340] [--jobs 2] [--seed 0] [--kind start] [--keep DIR]

Faults are injected during start-up and steps, by signals and by control groups. Each case checks
that an error names the rank or link within the limit, and that no process is left. Prints the
failures and a table of times by kind. The kinds are those of
test_liveness.py, on the grid tp2,pp2, with other seeds and in parallel.
"""

import argparse
import collections
import os
import statistics
import sys
import tempfile
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TOP / "python"), str(TOP / "test" / "Integration")]

import pytest  # noqa: E402

import harness  # noqa: E402
import liveness  # noqa: E402
from models import MODELS  # noqa: E402

KINDS = {
    **{
        f"start, {fate}, {transport}": (
            lambda program, seed, log, t=transport, f=fate: liveness.check_start(
                program, t, f, seed, log
            )
        )
        for fate in liveness.FATES
        for transport in ("tcp", "torch", "mpi")
    },
    **{
        f"step, {fate}, {transport}": (
            lambda program, seed, log, t=transport, f=fate: liveness.check(program, t, f, seed, log)
        )
        for fate in liveness.FATES
        for transport in ("tcp", "mpi")
    },
    **{
        f"control group, version {version}, {transport}": (
            lambda program, seed, log, t=transport, v=version: liveness.check_group(
                program, t, v, seed, log
            )
        )
        for version in (1, 2)
        for transport in ("tcp", "mpi")
    },
    **{
        f"hosts, {what}": lambda program, seed, log, w=what: liveness.check_cut(
            program, w, seed, log
        )
        for what in ("link", "link, one name", "host", "stop")
    },
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=340)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", default="", help="only kinds that begin with this text")
    parser.add_argument("--keep", help="a folder for the output of the programs")
    options = parser.parse_args()
    times, failed, skipped = collections.defaultdict(list), [], collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        keep = Path(options.keep or folder)
        keep.mkdir(exist_ok=True)
        compiler, free = harness.Compiler(Path(folder) / "compiled"), []
        made = compiler.compile(MODELS / "gpt2-tiny.onnx", harness.Grid(tp=2, pp=2))
        for job in range(options.jobs):
            # A separate copy of the executable for each job, to identify its processes.
            directory = Path(folder) / f"job{job}"
            directory.mkdir()
            (directory / "program").write_bytes(made.path.read_bytes())
            (directory / "program").chmod(0o755)
            free.append(harness.Executable(directory / "program", made.grid, directory))
        lock = threading.Lock()

        def run(case):
            kinds = [kind for kind in KINDS if kind.startswith(options.kind)]
            kind = kinds[case % len(kinds)]
            with lock:
                program = free.pop()
            try:
                took = KINDS[kind](program, options.seed + case, keep / f"log{case}")
                with lock:
                    times[kind].append(took)
                print(
                    f"{case}: {kind}: named after {took[0]:.1f} s, gone after {took[1]:.1f} s",
                    flush=True,
                )
            except pytest.skip.Exception as reason:
                skipped[f"{kind}: {reason}"] += 1
            except BaseException:  # noqa: BLE001
                log = keep / f"log{case}"
                with lock:
                    failed.append(case)
                    print(
                        f"{case}: {kind}:"
                        f" FAILED\n{traceback.format_exc()}\n"
                        f"{log.read_text() if log.exists() else ''}",
                        flush=True,
                    )
            finally:
                with lock:
                    free.append(program)

        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(run, range(options.cases)))
        left = [pid for program in free for pid in liveness.processes_of(program.path).values()]
    print(f"{'kind':36} {'cases':>5} {'named, median':>14} {'most':>6} {'gone, most':>11}")
    for kind, took in times.items():
        named, gone = [a for a, _ in took], [b for _, b in took]
        print(
            f"{kind:36} {len(took):5} {statistics.median(named):14.2f} {max(named):6.2f}"
            f" {max(gone):11.2f}"
        )
    late = sum(a > 5 for took in times.values() for a, _ in took)
    print(
        f"{sum(map(len, times.values()))} named, {late} of them after more than 5 s, {len(failed)}"
        f" failed {failed or ''}, {len(left)} processes left behind, {skipped.total()} skipped"
        f" {dict(skipped) or ''}; load {os.getloadavg()[0]:.1f}"
    )
    return bool(failed or left)


if __name__ == "__main__":
    sys.exit(main())

"""Load-independent time limits: a busy machine does not fail a test.

`LoadClock` counts seconds of an otherwise idle machine, which separates a hang from a wait for a
processor. `tree_seconds` returns the CPU time of a process tree.
"""

from __future__ import annotations

import os
import time

TICKS = os.sysconf("SC_CLK_TCK")
PROCESSORS = os.cpu_count() or 1


def load() -> float:
    """Returns the number of runnable threads per CPU, at least 1: the average of the last minute or
    the current number, whichever is larger.
    """
    average, _, _, running, *_ = open("/proc/loadavg").read().split()
    return max(1.0, float(average) / PROCESSORS, (int(running.split("/")[0]) - 1) / PROCESSORS)


def scaled(seconds: float) -> float:
    """Returns the wall-clock limit that corresponds to `seconds` of an idle machine under the
    current load.
    """
    return seconds * load()


class LoadClock:
    """Counts seconds of an otherwise idle machine: a second under load counts as the share of a CPU
    that one thread receives in it. `seconds` must be called regularly, because it samples the load.
    """

    def __init__(self, now=time.monotonic, load=load):
        self._now, self._load = now, load
        self._last, self._seconds = now(), 0.0

    def seconds(self) -> float:
        now = self._now()
        self._seconds += (now - self._last) / self._load()
        self._last = now
        return self._seconds


def tree(root: int) -> dict[int, float]:
    """Returns a process and its descendants in all sessions, with the CPU time of each and of its
    reaped children.
    """
    parents, used = {}, {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(name)] = int(fields[1])
        used[int(name)] = sum(map(int, fields[11:15])) / TICKS
    children: dict[int, list[int]] = {}
    for process, parent in parents.items():
        children.setdefault(parent, []).append(process)
    found, left = {}, [root]
    while left:
        process = left.pop()
        if process in used:
            found[process] = used[process]
        left += children.get(process, [])
    return found


def tree_seconds(root: int) -> float:
    return sum(tree(root).values())


class Watch:
    """Decides when to stop a process that runs tests: after more than `limit` seconds of CPU time,
    or after `idle_limit` seconds (of a LoadClock) without CPU time or a change of `progress`.
    """

    # CPU seconds per second below which the processes count as idle. Hung ranks use some CPU time,
    # because they poll whether other ranks are alive.
    IDLE = 0.05

    def __init__(
        self, root: int, limit: float, idle_limit: float, progress, used=tree_seconds, clock=None
    ):
        self.limit, self.idle_limit, self._progress, self._root, self._used = (
            limit,
            idle_limit,
            progress,
            root,
            used,
        )
        self.clock = clock or LoadClock()
        self._last_progress, self._progress_time, self._cpu, self._cpu_at_progress = (
            progress(),
            0.0,
            0.0,
            0.0,
        )

    def problem(self) -> str:
        """Returns the reason to stop the process, or an empty text."""
        now, seen = self.clock.seconds(), self._progress()
        # The sum may fall: a process that ends without being waited for takes its CPU time along.
        self._cpu = max(self._cpu, self._used(self._root))
        if self._cpu > self.limit:
            return f"stopped after {self.limit / 60:.0f} minutes of CPU time"
        if (
            seen != self._last_progress
            or self._cpu - self._cpu_at_progress > self.IDLE * self.idle_limit
        ):
            self._last_progress, self._progress_time, self._cpu_at_progress = seen, now, self._cpu
        elif now - self._progress_time > self.idle_limit:
            return f"stopped after {self.idle_limit / 60:.0f} minutes in which nothing happened"
        return ""

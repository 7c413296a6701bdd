"""Reads measured and used matmul algorithms from the trace of the simulated libraries."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

CALL = re.compile(r"(\d+ \d+) (\S+) (?:(\S+ [0-9a-f:C]+) algorithm (\d+) pace (\S+) )?= 0$")


@dataclass
class Rank:
    """For each matmul, the measured and the used algorithms of a rank, with their speed."""

    calls: list = field(default_factory=list)
    measured: dict = field(default_factory=lambda: defaultdict(set))
    used: dict = field(default_factory=lambda: defaultdict(set))


def ranks_of(trace: str) -> list[Rank]:
    """Returns the threads that computed matmuls. A time query follows each measured matmul."""
    ranks, last = defaultdict(Rank), {}

    def use(thread):
        if thread in last:
            matmul, choice = last.pop(thread)
            ranks[thread].used[matmul].add(choice)

    for match in filter(None, map(CALL.match, trace.splitlines())):
        thread, name, matmul, algorithm, pace = match.groups()
        ranks[thread].calls.append(name)
        if matmul:
            use(thread)
            last[thread] = matmul, (int(algorithm), float(pace))
        elif name == "cuEventElapsedTime":
            matmul, choice = last.pop(thread)
            ranks[thread].measured[matmul].add(choice)
    for thread in list(last):
        use(thread)
    return [rank for rank in ranks.values() if rank.used]


def is_fully_traced(matmul: str) -> bool:
    """Returns whether the trace shows all properties by which matmuls are tuned. If a bias is added
    without an epilogue, tuning depends on its alignment, which is not in the trace.
    """
    return not matmul.endswith(":0:C")


def wrong(ranks: list[Rank]) -> str:
    """Returns an error, if any. Each matmul is measured by at most one rank, and all ranks that
    compute it use the algorithm that this rank found to be the fastest. Only computed matmuls are
    measured.
    """
    used, measured = defaultdict(set), defaultdict(list)
    for rank in ranks:
        for matmul, choices in rank.used.items():
            used[matmul] |= choices
        for matmul, choices in rank.measured.items():
            measured[matmul].append(choices)
    if unused := measured.keys() - used.keys():
        return f"measures {', '.join(sorted(unused))}, which no step computes"
    for matmul in filter(is_fully_traced, sorted(used)):
        by = measured[matmul]
        if len(by) > 1 or len(used[matmul]) > 1:
            return (
                f"{matmul} is measured by {len(by)} ranks, and computed by {sorted(used[matmul])}"
            )
        (choice,) = used[matmul]
        # Measured times are up to a quarter too long.
        if by and (choice not in by[0] or choice[1] > 1.25 * min(pace for _, pace in by[0])):
            return f"{matmul} is computed by {choice}, and was measured as {sorted(by[0])}"
    return ""

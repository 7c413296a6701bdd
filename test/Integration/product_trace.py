"""What the trace of the simulated libraries says of products: which algorithms were measured, and which were used."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

CALL = re.compile(r"(\d+ \d+) (\S+) (?:(\S+ [0-9a-f:C]+) algorithm (\d+) pace (\S+) )?= 0$")


@dataclass
class Rank:
    """By product: algorithms, with how fast they are, while they were measured and in steps."""
    calls: list = field(default_factory=list)
    measured: dict = field(default_factory=lambda: defaultdict(set))
    used: dict = field(default_factory=lambda: defaultdict(set))


def ranks_of(trace: str) -> list[Rank]:
    """Each thread that multiplied. What is followed by an elapsed time was measured."""
    ranks, last = defaultdict(Rank), {}

    def use(who):
        if who in last:
            product, choice = last.pop(who)
            ranks[who].used[product].add(choice)

    for match in filter(None, map(CALL.match, trace.splitlines())):
        who, name, product, algorithm, pace = match.groups()
        ranks[who].calls.append(name)
        if product:
            use(who)
            last[who] = product, (int(algorithm), float(pace))
        elif name == "cuEventElapsedTime":
            product, choice = last.pop(who)
            ranks[who].measured[product].add(choice)
    for who in list(last):
        use(who)
    return [rank for rank in ranks.values() if rank.used]


def measured_in_vain(trace: str) -> str:
    """Products of which algorithms were measured, and that no rank computes."""
    ranks = ranks_of(trace)
    used = {product for rank in ranks for product in rank.used}
    vain = {product for rank in ranks for product in rank.measured} - used
    return f"measures {', '.join(sorted(vain))}, which nobody computes" if vain else ""

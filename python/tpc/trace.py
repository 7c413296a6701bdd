"""Compares two traces of steps: simulated (tpcc --simulate --trace) or measured (--bench --trace).

    python -m tpc.trace diff simulated.json measured.json

names the call with the largest difference, and prints the calls by difference: their seconds in a
step and their number, for each stage. A measured stage is its first rank, which has the largest
shards. Steps of one trace are compared together.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tpc import console


@dataclass
class Calls:
    """Calls of one name in a stage of a trace."""

    seconds: float = 0
    count: int = 0


@dataclass
class Row:
    stage: str
    name: str
    calls: tuple[Calls, Calls] = field(default_factory=lambda: (Calls(), Calls()))

    @property
    def difference(self) -> float:
        return self.calls[1].seconds - self.calls[0].seconds


def _sum_calls(events: list[dict]) -> dict[tuple[str, str], Calls]:
    stages = {
        event["pid"]: re.match(r"stage \d+", event["args"]["name"])[0]
        for event in events
        if event["ph"] == "M" and event["name"] == "process_name"
    }
    first = {}
    for process, stage in sorted(stages.items()):
        first.setdefault(stage, process)
    calls = defaultdict(Calls)
    for event in events:
        # Runs contain calls. A receiver waits, which is idle time in a simulation.
        if event["ph"] != "X" or event.get("cat") == "run" or event["name"].startswith("receive"):
            continue
        stage = stages[event["pid"]]
        if event["pid"] != first[stage]:
            continue
        row = calls[stage, event["name"].removeprefix("fused ")]
        row.seconds += event["dur"] / 1e6
        row.count += 1
    return calls


def read(path: Path) -> dict[tuple[str, str], Calls]:
    """Returns the calls of a trace by stage and name."""
    try:
        return _sum_calls(json.loads(path.read_text())["traceEvents"])
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: not a trace of tpc: {type(error).__name__}: {error}"
        ) from None


def diff(a: Path, b: Path) -> list[Row]:
    """Returns the calls of both traces, by descending difference of their seconds."""
    rows = {}
    for index, path in enumerate((a, b)):
        for (stage, name), calls in read(path).items():
            row = rows.setdefault((stage, name), Row(stage, name))
            row.calls[index].seconds += calls.seconds
            row.calls[index].count += calls.count
    return sorted(rows.values(), key=lambda row: -abs(row.difference))


def describe(row: Row) -> str:
    first, second = row.calls
    return (
        f"{row.difference * 1e6:+12.1f}{first.seconds * 1e6:12.1f}{second.seconds * 1e6:12.1f}"
        f"{first.count:9}{second.count:9}  {row.stage}: {row.name}"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tpc.trace", description=__doc__.partition("\n")[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("diff", help="compare the calls of two traces")
    command.add_argument("first", type=Path)
    command.add_argument("second", type=Path)
    command.add_argument("--all", action="store_true", help="print all calls (default: 20)")
    options = parser.parse_args(arguments)
    try:
        rows = diff(options.first, options.second)
        if not rows:
            raise ValueError("the traces have no calls")
    except ValueError as error:
        sys.exit(f"tpc.trace: {error}")
    worst = rows[0]
    totals = [sum(row.calls[index].seconds for row in rows) for index in (0, 1)]
    print(
        f"Largest difference: {worst.stage}: {worst.name}, {worst.difference * 1e6:+.1f} us of "
        f"{(totals[1] - totals[0]) * 1e6:+.1f} us in all stages"
    )
    print(f"{'us':>12}{'first us':>12}{'second us':>12}{'number':>9}{'number':>9}  call")
    for row in rows if options.all else rows[:20]:
        print(describe(row))
    return 0


if __name__ == "__main__":
    console.run("tpc.trace", main)

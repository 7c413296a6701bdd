"""Runs random pairs (random_pairs.py): one pair, or many with a table of coverage.

random_run.py --pairs 10000 --jobs 2   # seeds 0 to 9999
random_run.py --seed 17 --keep DIR     # the pair of seed 17
random_run.py '{"grid":"tp2",…}'       # the pair that a failure printed
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import sys
import time
import traceback
from pathlib import Path

from random_pairs import Outcome, Pair, attempt, check, draw_pair
from random_shrink import shrink, signature

# Number of failures of one kind that are reduced.
SHRUNK = 2


class Table:
    """Coverage and results of the pairs."""

    def __init__(self):
        self.kinds = collections.Counter()
        self.features: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
        self.messages: dict[str, list[int]] = collections.defaultdict(list)

    def add(self, seed: int, outcome: Outcome) -> None:
        self.kinds[outcome.kind] += 1
        for feature in outcome.features:
            self.features[feature][outcome.kind] += 1
        if outcome.kind != "ok":
            self.messages[signature(outcome)].append(seed)

    @property
    def failures(self) -> int:
        return sum(count for kind, count in self.kinds.items() if Outcome(kind).failed)

    def __str__(self) -> str:
        total = sum(self.kinds.values())
        lines = [
            f"{total} pairs: "
            + ", ".join(f"{count} {kind}" for kind, count in self.kinds.most_common())
        ]
        lines.append(f"{'feature':32}{'pairs':>8}{'refused':>9}{'failed':>8}")
        for name, kinds in sorted(self.features.items()):
            failed = sum(count for kind, count in kinds.items() if Outcome(kind).failed)
            lines.append(f"{name:32}{sum(kinds.values()):8}{kinds['refused']:9}{failed:8}")
        for text, seeds in sorted(self.messages.items(), key=lambda item: -len(item[1])):
            lines.append(
                f"{len(seeds):6} {text} (seeds"
                f" {', '.join(map(str, seeds[:5]))}{' …' if len(seeds) > 5 else ''})"
            )
        return "\n".join(lines)


def attempt_seed(seed: int) -> tuple[int, Outcome]:
    try:
        return seed, attempt(draw_pair(seed))
    except Exception:
        return seed, Outcome("generator", traceback.format_exc())


def run_many(first: int, count: int, jobs: int, shrinking: bool, every: int = 100) -> Table:
    table, begin, done = Table(), time.monotonic(), 0
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        for seed, outcome in pool.map(attempt_seed, range(first, first + count), chunksize=4):
            table.add(seed, outcome)
            done += 1
            if outcome.failed:
                pair, small, text = draw_pair(seed), "", outcome.text
                if (
                    shrinking
                    and outcome.kind != "generator"
                    and len(table.messages[signature(outcome)]) <= SHRUNK
                ):
                    smaller, found = shrink(pair, outcome)
                    small, text = f"reduced: {smaller.command}\n", found.text
                print(
                    f"seed {seed}: {outcome.kind}\n{pair.command}\n{small}{text[-1500:]}\n",
                    flush=True,
                )
            if done % every == 0:
                seconds = time.monotonic() - begin
                print(
                    f"… {done} of {count} (seeds {first} to {first + done - 1}), {seconds:.0f} s,"
                    f" {seconds / done:.3f} s a pair, {table.failures} failures,"
                    f" {table.kinds['refused']} refused",
                    flush=True,
                )
    seconds = time.monotonic() - begin
    print(
        f"seeds {first} to {first + count - 1}, {jobs} at a time: {seconds:.0f} s,"
        f" {seconds / count:.3f} s a pair\n{table}"
    )
    return table


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pair", nargs="?", help="a pair, as a failure prints it")
    parser.add_argument(
        "--seed",
        type=int,
        help="the pair that is drawn from this seed; with --pairs, the first of them",
    )
    parser.add_argument("--pairs", type=int, help="number of pairs; seeds begin at --seed or 0")
    parser.add_argument("--jobs", type=int, default=1, help="number of pairs at a time")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="leave the ONNX file and the executable there"
    )
    parser.add_argument("--shrink", action="store_true", help="reduce failing pairs")
    args = parser.parse_args()
    if args.pairs is not None:
        return 1 if run_many(args.seed or 0, args.pairs, args.jobs, args.shrink).failures else 0
    if (args.pair is None) == (args.seed is None):
        parser.error("give a pair, --seed or --pairs")
    pair = Pair.parse(args.pair) if args.pair else draw_pair(args.seed)
    print(pair.command)
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    outcome = check(pair, args.keep) if args.keep else attempt(pair)
    if outcome.failed and args.shrink:
        pair, outcome = shrink(pair, outcome)
        print(pair.command)
    print(outcome.kind, outcome.text)
    return 1 if outcome.failed else 0


if __name__ == "__main__":
    sys.exit(main())

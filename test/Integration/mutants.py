"""Lists kinds of mutants of `tpc-mutate`, and counts the verdicts on mutants in tables.

A verdict is None where the fault does not apply to the program. Otherwise it is the set of
verifiers that reject the mutant, or one of EQUAL, or ACCEPTED. If TPC_MUTANT_TABLES is a folder,
each table is written there, for tools/mutants.py.
"""

import collections
import concurrent.futures
import functools
import json
import os
import re
from pathlib import Path

import harness

SAME_CODE, SAME_RESULTS, ACCEPTED = "same code", "same results", "accepted"
EQUAL = (SAME_CODE, SAME_RESULTS)
SECONDS = 120


def tpc_opt(*arguments):
    return harness.run([harness.tool("tpc-opt"), *arguments], timeout=SECONDS)


@functools.cache
def all_kinds() -> tuple[str, ...]:
    listed = tpc_opt(
        harness.TOP / "test" / "Transforms" / "Inputs" / "gpt2.mlir",
        "--tpc-mutate=kind=list",
        "-o",
        "/dev/null",
    ).check()
    return tuple(line.split(":")[0] for line in listed.stdout.splitlines())


def kinds(*prefixes) -> list[str]:
    return [kind for kind in all_kinds() if kind.startswith(prefixes)]


def mutation(kind, seed) -> str:
    return f"--tpc-mutate=kind={kind},seed={seed}"


def refuses(*arguments):
    """Runs tpc-opt; returns its result if it fails, else None."""
    result = tpc_opt(*arguments, "-o", "/dev/null")
    assert not result.timed_out and result.returncode in (
        0,
        1,
    ), f"a verifier hangs or crashes\n{result}"
    return result if result.returncode else None


def does_not_apply(result) -> bool:
    return result is not None and "has no location for" in result.stderr


def verifiers(folder, level) -> dict[str, str]:
    """Returns the verifiers of a program by name. The folder has the program at each level."""
    reference = f"reference={folder / 'model.mlir'}"
    if level == "staged":
        return {
            "comms": "--tpc-verify-comms",
            "equivalence": f"--tpc-verify-equivalence={reference}",
        }
    return {
        "buffers": "--tpc-verify-buffers",
        "lowered": f"--tpc-verify-lowered={reference} staged={folder / 'staged.mlir'}",
    }


def remove_hash(program):
    """Removes the hash of the schedule, which would reject faults before the steps of the proof."""
    program.write_text(re.sub(r'tpc\.schedule = "\w+",?', "", program.read_text()))


def check_unchanged(folder, *levels):
    """Fails if a verifier rejects the program without a fault, and so all of its mutants."""
    for level in levels:
        for verifier in verifiers(folder, level).values():
            tpc_opt(folder / f"{level}.mlir", verifier, "-o", os.devnull).check()


def judge(folder, level, kind, seed):
    """Returns the verdict on a mutant of the program at a level."""
    text, mutate = folder / f"{level}.mlir", mutation(kind, seed)
    if refused := refuses(text, mutate):
        return None if does_not_apply(refused) else {"ops"}
    checks = verifiers(folder, level).items()
    return {name for name, check in checks if refuses(text, mutate, check)} or ACCEPTED


class Table:
    """The counts of verdicts by level and kind."""

    def __init__(self, kinds):
        self.rows = {
            kind: collections.Counter() for kind in kinds
        }  # (level, verifiers or text) -> mutants
        self.accepted = []

    def judge(self, judge, cases, key):
        """Calls judge(case) for all cases, two at a time; key(case) is the level, the kind and a
        name of the case.
        """
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for case, verdict in zip(cases, pool.map(judge, cases), strict=True):
                level, kind, name = key(case)
                if verdict is None:
                    continue
                verdict = verdict if isinstance(verdict, str) else frozenset(verdict)
                self.rows[kind][level, verdict] += 1
                if verdict == ACCEPTED:
                    self.accepted.append(name)
        return self

    def count(self, test=lambda verdict: True, kind=None):
        rows = self.rows.values() if kind is None else [self.rows[kind]]
        return sum(n for row in rows for (_, verdict), n in row.items() if test(verdict))

    def mutants(self, kind=None):
        return self.count(kind=kind)

    def refused(self, kind=None):
        return self.count(lambda verdict: isinstance(verdict, frozenset), kind)

    def by(self, verifier, kind=None):
        return self.count(
            lambda verdict: isinstance(verdict, frozenset) and verifier in verdict, kind
        )

    def alone(self, verifier, kind=None):
        return self.count(lambda verdict: verdict == {verifier}, kind)

    def unrefused(self):
        return [kind for kind in self.rows if not self.refused(kind)]

    def report(self, name):
        """Prints and writes the table, and fails if a mutant is accepted."""
        verifiers = sorted(
            {
                each
                for row in self.rows.values()
                for _, verdict in row
                if isinstance(verdict, frozenset)
                for each in verdict
            }
        )
        columns = {
            "mutants": self.mutants,
            **{each: functools.partial(self.by, each) for each in verifiers},
            **{
                f"{each} alone": functools.partial(self.alone, each)
                for each in verifiers
                if len(verifiers) > 1
            },
            **{
                each: functools.partial(
                    lambda text, kind=None: self.count(lambda verdict: verdict == text, kind), each
                )
                for each in (*EQUAL, ACCEPTED)
            },
        }
        print(f"\n{'kind':28}", *(f"{column:>{len(column) + 2}}" for column in columns))
        for kind in (*self.rows, None):
            print(
                f"{kind or 'all':28}",
                *(f"{count(kind=kind):{len(column) + 2}}" for column, count in columns.items()),
            )
        if folder := os.environ.get("TPC_MUTANT_TABLES"):
            found = [
                [kind, level, sorted(verdict) if isinstance(verdict, frozenset) else verdict, n]
                for kind, row in self.rows.items()
                for (level, verdict), n in row.items()
            ]
            Path(folder, f"{name}.json").write_text(json.dumps(found))
        assert not self.accepted, f"mutants that no verifier rejects: {self.accepted}"
        return self

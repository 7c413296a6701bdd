"""Check results: one line on the screen and one entry in results.json per check."""

from __future__ import annotations

import json
import re
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Verdict:
    """Result of one check. `data`: numbers for tables."""

    state: str  # passed, failed, skipped
    note: str = ""
    data: dict = field(default_factory=dict)


def passed(note: str = "", **data) -> Verdict:
    return Verdict("passed", note, data)


def failed(note: str, **data) -> Verdict:
    return Verdict("failed", note, data)


def skipped(note: str) -> Verdict:
    return Verdict("skipped", note)


class Report:
    def __init__(self, folder: Path, seconds: float, limit: float, only: str):
        self.folder, self.limit, self.only = folder, limit, re.compile(only)
        self.end = time.monotonic() + seconds
        self.machine: dict = {}
        self.checks: list[dict] = []
        (folder / "logs").mkdir(parents=True, exist_ok=True)

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def log(self, name: str, text: str) -> None:
        """Appends the complete output of a program to its log."""
        with open(self.folder / "logs" / (re.sub(r"[^\w.,=-]+", "_", name) + ".txt"), "a") as file:
            file.write(text + "\n")

    def check(
        self, part: str, name: str, function, limit: float, always: bool = False
    ) -> Verdict | None:
        """Records the verdict of `function(seconds)`. An exception fails only this check."""
        if not always and not self.only.search(f"{part}: {name}"):
            return None
        begin = time.monotonic()
        if self.left < 5:
            verdict = skipped("the time limit was reached before it")
        else:
            try:
                verdict = function(min(limit, self.limit, self.left))
            except Exception as error:  # any error: other checks continue
                self.log(name, traceback.format_exc())
                verdict = failed(f"{type(error).__name__}: {error}")
        seconds = time.monotonic() - begin
        self.checks.append(
            {"part": part, "name": name, "seconds": round(seconds, 2), **asdict(verdict)}
        )
        note = (
            verdict.note
            if len(verdict.note) < 400 or verdict.state == "passed"
            else verdict.note[:400] + " …"
        )
        print(
            f"{verdict.state:8}{seconds:6.1f} s  {part}: {name}" + (f": {note}" if note else ""),
            flush=True,
        )
        self.save()
        return verdict

    def save(self) -> None:
        partial = self.folder / "results.json.part"
        partial.write_text(
            json.dumps({"machine": self.machine, "checks": self.checks}, indent=1) + "\n"
        )
        partial.rename(self.folder / "results.json")

    def of(self, state: str, part: str = "") -> list[dict]:
        return [
            check
            for check in self.checks
            if check["state"] == state and part in ("", check["part"])
        ]

    def conclude(self, proofs: dict[str, str], never: list[str]) -> int:
        """Prints which properties were shown and which were not; `proofs` maps a part to the
        property that its checks show if all pass.
        """
        print("\nProved on this machine:")
        for part, what in proofs.items():
            if self.of("passed", part):
                bad, out = len(self.of("failed", part)), len(self.of("skipped", part))
                rest = ", ".join(
                    filter(
                        None, [f"{bad} failed" if bad else "", f"{out} did not run" if out else ""]
                    )
                )
                print(
                    f"  {part}: {len(self.of('passed', part))} checks"
                    f" passed{' (' + rest + ')' if rest else ''}: {what}"
                )
        if not self.of("passed"):
            print("  nothing")
        print("\nNot proved:")
        reasons: dict[str, list[str]] = {}
        for check in self.of("skipped"):
            reasons.setdefault(check["note"], []).append(f"{check['part']}: {check['name']}")
        for reason, names in reasons.items():
            print(
                f"  {reason}:"
                f" {', '.join(names[:4])}{f' and {len(names) - 4} more' if len(names) > 4 else ''}"
            )
        for part in proofs:
            if not any(check["part"] == part for check in self.checks):
                print(f"  {part}: not selected")
        for text in never:
            print(f"  {text}")
        if self.of("failed"):
            print("\nFailed:")
            for check in self.of("failed"):
                print(f"  {check['part']}: {check['name']}: {check['note']}")
        print(
            f"\n{len(self.of('passed'))} passed, {len(self.of('failed'))} failed,"
            f" {len(self.of('skipped'))} did not run; {self.folder / 'results.json'}"
        )
        return 1 if self.of("failed") or not self.of("passed") else 0

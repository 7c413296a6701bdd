#!/usr/bin/env python3
"""Seeds faults in the GPU runtime and records which check over the simulated libraries finds each.

    seeded_faults.py [--only REGEX] [--checks REGEX] [--jobs N] [--results FILE] [--write]

seeded_faults.txt has small edits of runtime/cuda/library, of the upload of weights, of the
communication plans, and of the generation loop. Each edit is applied to a copy, and must apply
exactly once. The affected target (libtpc_cuda.so, a test program of the runtime, or the runtime
linked into programs) is built in a scratch folder. Then checks run until one fails. They compare
programs with ONNX Runtime and tokens with the CPU's, run GoogleTest programs of the runtime, find
leaks, and inject errors.

--write writes the table of docs/reference/gpu-faults.md. --results names a file with the result of
each fault. A later run continues from it, because results for unchanged sources stay valid.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent), str(TOP / "python")]

import harness  # noqa: E402
from fault_builds import Build  # noqa: E402

LIST = HERE / "seeded_faults.txt"
ROUTED = [f"runtime/core/Routed{name}.cpp" for name in ("Collectives", "Rows")]
# The files to which edits of a scope apply, and the targets built from them.
SCOPES = {
    "cuda": (["runtime/cuda/library"], ["lib/libtpc_cuda.so", "test/bin/CudaKernelTests"]),
    "cudnn": (
        ["runtime/cuda/library/CudnnPlan.cpp", "runtime/cuda/library/CudnnPlan.h"],
        ["test/bin/SimulatorTests", "lib/libtpc_cuda.so"],
    ),
    "weights": (["runtime/program/UploadWeights.cpp"], ["test/bin/RuntimeDeviceConformance"]),
    "links": (
        ["runtime/transport/devices", "runtime/core/TensorBlock.h", *ROUTED],
        ["test/bin/RuntimeLinkTests", "test/bin/RuntimeConformance"],
    ),
    "generation": (
        ["runtime/generate", "runtime/core/State.cpp"],
        ["lib/libtpc_runtime.a", "test/bin/RuntimeGenerateTests"],
    ),
}


@dataclass
class Fault:
    scope: str
    kind: str
    old: str
    new: str
    line: int  # line number in the list
    equal_because: str = ""  # reason why the fault changes no result
    turn: int = 0  # number within its kind

    @property
    def name(self) -> str:
        return f"{self.line}: {self.kind}: {self.old} => {self.new}"


def read_list(text: str) -> list[Fault]:
    """Reads the list. Lines are `[scope kind]`, `old => new`, and after an edit `= reason that it
    is equivalent`; # begins a comment.
    """
    found, scope, kind = [], "", ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("["):
            scope, kind = line.strip("[] ").split(" ", 1)
        elif line.startswith("= "):
            found[-1].equal_because = line[2:].strip()
        else:
            if " => " not in line + " ":
                raise SystemExit(f"seeded_faults.txt:{number}: no ' => '")
            old, new = (line + " ").split(" => ", 1)
            found.append(Fault(scope, kind, old.strip(), new.strip(), number))
    return found


def files_of(scope: str) -> list[Path]:
    places = [TOP / place for place in SCOPES[scope][0]]
    files = [
        file
        for place in places
        for file in (
            [place]
            if place.is_file()
            else [*sorted(place.glob("*.cpp")), *sorted(place.glob("*.h"))]
        )
    ]
    # Files that only compare declarations are omitted.
    return [
        file
        for file in files
        if not file.name.endswith(("VendorHeaders.cpp", "NcclHeader.cpp", "CudnnHeader.cpp"))
    ]


def find(fault: Fault, texts: dict[Path, str]) -> tuple[Path, str]:
    """Returns the file and its text with the fault.

    White space and comments between tokens match any others, so that edits do not depend on line
    breaks and comments.
    """
    gap = r"(?:\s|//[^\n]*\n)*"
    pattern = re.compile(gap.join(map(re.escape, re.findall(r"\w+|[^\w\s]", fault.old))))
    matches = [
        (file, match)
        for file in files_of(fault.scope)
        for match in pattern.finditer(texts[file])
        # An edit matches whole words only.
        if not (re.match(r"\w", fault.old) and re.search(r"\w$", texts[file][: match.start()]))
    ]
    if len(matches) != 1:
        raise LookupError(
            f"seeded_faults.txt:{fault.line}: '{fault.old}' occurs {len(matches)} times"
        )
    file, match = matches[0]
    return file, texts[file][: match.start()] + fault.new + texts[file][match.end() :]


def all_texts() -> dict[Path, str]:
    return {file: file.read_text() for scope in SCOPES for file in files_of(scope)}


# The check that runs first for faults of each kind.
FIRST = {
    "memory before anything is loaded": "memory",
    "attention by cuDNN": "16 bits",
    "graph of attention": "attention's graph",
    "weights that are filled": "device suite",
    "kernels that fill weights": "device suite",
    "kernels that add to caches": "device suite",
    "tokens chosen by the GPU": "own kernels",
    "windows": "generation on tp1",
}
class Checks:
    """The checks of one scope. Each check first runs without a fault and must then pass."""

    def __init__(self, scope: str, scratch: Path, wanted: str):
        from fault_checks import CHECKS

        self.all = [check for check in CHECKS[scope](scratch) if re.search(wanted, check[0])]
        self.original = scratch / f"original-{scope}"
        self.trusted: set[int] = set()
        self.lock = threading.Lock()
        self.original.mkdir()
        for target in SCOPES[scope][1]:
            shutil.copy(harness.BUILD / target, self.original)

    def problem(self, index: int, to: Path) -> str:
        name, _, check = self.all[index]
        problem = check(to)
        if "ran past its limit" in problem:  # or the machine killed it
            problem = check(to)
        if not problem:
            return ""
        with self.lock:
            if index not in self.trusted and (wrong := check(self.original)):
                raise SystemExit(f"{name} fails without a fault: {wrong}")
            self.trusted.add(index)
        return f"{name}: {problem}"


def judge(
    file: Path, text: str, build: Build, checks: Checks, order: list[int]
) -> tuple[str, str]:
    """Returns the state, and the check that found the fault or the reason that none did."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        to = Path(folder)
        for index in order:
            target = checks.all[index][1]
            if not (to / Path(target).name).exists() and (
                problem := build.make(target, file, text, to)
            ):
                return "refused", problem
            if problem := checks.problem(index, to):
                return "caught", problem
    return "survived", ""


class Run:
    """Takes faults of all kinds in turn, so that an interrupted run covers some of each kind. The
    few checks with the most findings of a kind run first; faults that they do not find get all
    other checks.
    """

    FEW = 4

    def __init__(self, args, scratch: Path, scopes: set[str]):
        import fault_checks

        fault_checks.Build.keep(scratch)
        self.args, self.build = args, Build(scratch, SCOPES)
        self.lock, self.rows = threading.Lock(), []
        self.checks = {scope: Checks(scope, scratch, args.checks) for scope in scopes}
        self.known, self.useful = {}, defaultdict(Counter)  # kind -> findings per check
        for kind, check in FIRST.items():
            self.useful[kind][check] += 1
        self.remaining, self.tried = [], {}
        if args.results and args.results.exists():
            before = json.loads(args.results.read_text())
            self.known = {
                (row["edit"], row["digest"]): row for row in before if row["state"] == "caught"
            }
        for row in self.known.values():
            self.useful[row["kind"]][row["by"].split(":")[0]] += 1

    def all(self, chosen: list) -> list[dict]:
        turns = Counter()
        for fault, *_ in chosen:
            fault.turn = turns[fault.kind] = turns[fault.kind] + 1
        chosen = sorted(chosen, key=lambda entry: entry[0].turn)
        self.remaining = [entry for entry in chosen if entry[0].equal_because]
        with ThreadPoolExecutor(self.args.jobs) as pool:
            list(
                pool.map(
                    lambda entry: self.one(entry, self.FEW),
                    [entry for entry in chosen if not entry[0].equal_because],
                )
            )
            list(pool.map(self.one, self.remaining))
        return sorted(self.rows, key=lambda row: row["line"])

    def one(self, entry, few: int | None = None) -> None:
        fault, file, text = entry
        edit, digest = f"{fault.old} => {fault.new}", hashlib.sha256(text.encode()).hexdigest()
        checks = self.checks[fault.scope]
        if before := self.known.get((edit, digest)):
            state, by = before["state"], before["by"]
        else:
            with self.lock:
                rest = [
                    index
                    for index in range(len(checks.all))
                    if index not in self.tried.get(fault.line, [])
                ]
                order = sorted(
                    rest, key=lambda index: -self.useful[fault.kind][checks.all[index][0]]
                )[:few]
            state, by = judge(file, text, self.build, checks, order)
            if state == "survived" and few:
                with self.lock:
                    self.tried[fault.line] = order
                    self.remaining.insert(0, entry)
                return
        with self.lock:
            if state == "caught":
                self.useful[fault.kind][by.split(":")[0]] += 1
            state = "equal" if state == "survived" and fault.equal_because else state
            self.rows.append(
                {
                    "line": fault.line,
                    "scope": fault.scope,
                    "kind": fault.kind,
                    "edit": edit,
                    "digest": digest,
                    "state": state,
                    "by": by,
                    "equal": fault.equal_because,
                }
            )
            if self.args.verbose or state != "caught" or fault.equal_because:
                print(f"{state}: {fault.name}: {by[:300] or fault.equal_because}", flush=True)
            if self.args.results:
                keep(self.args.results, self.rows, self.known)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", default="", metavar="REGEX", help="faults whose line, kind or edit matches"
    )
    parser.add_argument("--checks", default="", metavar="REGEX", help="only these")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--write", action="store_true", help="the table of docs/reference/gpu-faults.md"
    )
    parser.add_argument(
        "--results", type=Path, metavar="FILE", help="results of all, from which a run continues"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="print a line for each fault")
    parser.add_argument("--apply", action="store_true", help="only check that all edits apply")
    args = parser.parse_args()
    texts, chosen, stale = all_texts(), [], 0
    for fault in read_list(LIST.read_text()):
        if not re.search(args.only, fault.name):
            continue
        try:
            chosen.append((fault, *find(fault, texts)))
        except LookupError as error:
            stale += 1
            print(error, flush=True)
    if args.apply:
        print(f"{len(chosen)} apply, {stale} do not")
        return 1 if stale else 0
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        rows = Run(args, Path(folder), {fault.scope for fault, *_ in chosen}).all(chosen)
    states = Counter(row["state"] for row in rows)
    rows.sort(key=lambda row: row["line"])
    text = table(rows)
    print(text)
    if args.write:
        write(text)
    counted = states["caught"] + states["survived"]
    return 1 if stale or states["refused"] or states["survived"] > counted / 100 else 0


def keep(path: Path, rows: list[dict], known: dict) -> None:
    """Writes these results, and earlier results of the other faults."""
    now = {(row["edit"], row["digest"]) for row in rows}
    kept = sorted(rows, key=lambda row: row["line"]) + [
        row for key, row in known.items() if key not in now
    ]
    part = path.with_suffix(".part")
    part.write_text(json.dumps(kept, indent=1) + "\n")
    part.replace(path)


def table(rows: list[dict]) -> str:
    lines = [
        "| in | faults | caught | found first by | compute the same |",
        "|---|---|---|---|---|",
    ]
    for kind in [*dict.fromkeys(row["kind"] for row in rows), "all"]:
        own = [row for row in rows if kind in (row["kind"], "all")]
        by = Counter(re.split(": | on ", row["by"])[0] for row in own if row["state"] == "caught")
        states = Counter(row["state"] for row in own)
        lines.append(
            f"| {kind} | {states['caught'] + states['survived']} | {states['caught']} |"
            f" {', '.join(f'{name} {count}' for name, count in by.most_common())} |"
            f" {states['equal']} |"
        )
    return "\n".join(lines)


BEGIN, END = (
    "<!-- seeded faults: test/Integration/cuda/seeded_faults.py --write -->",
    "<!-- end of seeded faults -->",
)


def write(text: str) -> None:
    page = TOP / "docs" / "reference" / "gpu-faults.md"
    before, rest = page.read_text().split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
    sys.exit(main())

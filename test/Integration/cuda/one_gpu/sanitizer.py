"""Runs of programs under compute-sanitizer's four tools."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from one_gpu.correctness import command_of, flags_of
from one_gpu.machine import Machine
from one_gpu.report import Report, failed, passed, skipped

PROVES = (
    "compute-sanitizer finds nothing in the generated kernels and in how programs call the driver"
)
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
LIMIT = 120
# Exit status of the sanitizer if it has findings.
FOUND = 86


def kernels_of(here: Machine) -> set[str]:
    """Returns the names of generated kernels. All other kernels are the vendor's."""
    texts = [path.read_text() for path in (here.pack / "kernels").glob("*.ptx")]
    return {name for text in texts for name in re.findall(r"\.entry\s+(\w+)", text)}


def judge(text: str, own: set[str]):
    """Returns the findings in tpc's kernels and those in the vendor's. The latter are only counted,
    because vendors' kernels read unused data.
    """
    findings = re.split(r"\n=========\s*\n", "\n" + text)
    ours, theirs = [], []
    for finding in findings:
        if "SUMMARY" in finding or not re.search(
            r"Invalid|Uninitialized|Error: |hazard|[Bb]arrier error|Program"
            r" hit|Leaked|Misaligned|Out-of-range",
            finding,
        ):
            continue
        kernel = re.search(r"(?:at|in kernel|in) ([\w:<>~]+)(?:\(|\+0x)", finding)
        name = kernel.group(1) if kernel else ""
        is_own = not name or name in own or name.startswith(("kernel_", "attention_"))
        (ours if is_own else theirs).append(
            re.sub(r"\s+", " ", re.sub(r"^=+ ?", "", finding, flags=re.M)).strip()[:300]
        )
    return ours, theirs


def run_tool(
    report: Report,
    here: Machine,
    sanitizer: str,
    tool: str,
    program: dict,
    way: str,
    own: set[str],
    limit: float,
):
    with tempfile.TemporaryDirectory() as folder:
        # A step takes a hundred times as long here, which is not a hang. Only the limit of the
        # check ends it.
        flags = flags_of(
            {**program, "inputs": program["one_input"]}, program["outputs"], Path(folder), 2 * limit
        )
        result = here.run(
            [
                sanitizer,
                "--tool",
                tool,
                "--target-processes",
                "all",
                "--error-exitcode",
                str(FOUND),
                "--print-limit",
                "50",
                *absolute(here, command_of(program, way, flags)),
            ],
            limit,
        )
    text = result.stdout + result.stderr
    report.log(f"{tool} {program['name']} {way}", str(result))
    ours, theirs = judge(text, own)
    theirs_note = f"{len(theirs)} findings in the vendor's kernels" if theirs else ""
    if ours:
        return failed(f"{len(ours)} findings; {ours[0]}", ours=len(ours), theirs=len(theirs))
    if result.status is None or (not result.ok and not (result.status == FOUND and theirs)):
        return failed(result.why())
    if "SUMMARY" not in text:
        return failed(f"the output has no summary; {result.why()}")
    return passed(theirs_note, ours=0, theirs=len(theirs))


def absolute(here: Machine, command: list[str]) -> list[str]:
    return [
        str(here.pack / word) if i == 0 and not word.startswith("/") else word
        for i, word in enumerate(command)
    ]


def run(report: Report, here: Machine) -> None:
    sanitizer, own = here.tool("compute-sanitizer"), kernels_of(here)
    programs = here.listed["programs"]
    # Runs one rank, and the first program that communicates, both as threads and over NCCL.
    several = [program for program in programs if program["ranks"] > 1][:1]
    cases = [(program, "threads") for program in programs[:1] + several]
    for tool in TOOLS:
        for program, way in cases:
            name = f"{tool} {program['name']} {way}"
            if not sanitizer:
                report.check(
                    "sanitizer",
                    name,
                    lambda limit: skipped("compute-sanitizer is not installed"),
                    LIMIT,
                )
                continue
            report.check(
                "sanitizer",
                name,
                lambda limit: run_tool(report, here, sanitizer, tool, program, way, own, limit),
                LIMIT,
            )

"""Runs each generated kernel with the same operands on the GPU and in the PTX interpreter."""

from __future__ import annotations

from one_gpu.machine import Machine
from one_gpu.process import run as run_process
from one_gpu.report import Report, failed, passed

PROVES = (
    "the driver compiles the text of the kernels, and they compute what the PTX interpreter does"
)
LIMIT = 60


def compare(report: Report, here: Machine, name: str, line: str, limit: float):
    result = run_process(
        [here.pack / "bin" / "tpc-ptx-run", *line.split("\t"), "--device"],
        limit,
        here.loader_env(),
        cwd=here.pack / "kernels",
    )
    report.log("kernels", f"{name}\n{result}")
    if result.ok and "device: the same" in result.stdout:
        return passed()
    differences = [text for text in result.stdout.splitlines() if text.startswith("device:")]
    return failed("; ".join(differences) or result.why())


def run(report: Report, here: Machine) -> None:
    for number, line in enumerate((here.pack / "kernels" / "cases.txt").read_text().splitlines()):
        words = line.split("\t")
        name = f"{words[words.index('--kernel') + 1]} {number}"
        report.check("kernels", name, lambda limit: compare(report, here, name, line, limit), LIMIT)

"""Whole programs over ranks that share the GPU, against the packed expected results."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from tpc.reference import difference

from one_gpu.machine import Machine
from one_gpu.process import Ended
from one_gpu.report import Report, failed, passed, skipped

PROVES = (
    "programs compute what ONNX Runtime does on CPUs, in several steps of several shapes each,"
    " split over ranks that share the GPU, as threads and as processes over NCCL"
)
LIMIT, BIG_LIMIT = 90, 240


def flags_of(program: dict, outputs: list[str], to: Path, timeout: float) -> list[str]:
    flags = [
        "--batch-of",
        program["inputs"],
        "--weights",
        program["weights"],
        "--timeout",
        str(max(5, int(timeout))),
    ]
    for name in outputs:
        flags += ["--output", f"{name}={to / name}"]
    return flags + ["--verbose"] + (["--share-gpus"] if program["ranks"] > 1 else [])


def command_of(program: dict, way: str, flags: list[str]) -> list[str]:
    """Returns the command. NCCL accepts ranks on one GPU only if they report several hosts."""
    if way == "threads":
        return [program["executable"], *flags]
    hosts = ["sh", "-c", 'NCCL_HOSTID=tpc-$RANK exec "$@"', "sh"]
    return [
        sys.executable,
        "launch.py",
        "-n",
        str(program["ranks"]),
        *hosts,
        "./" + program["executable"],
        *flags,
    ]


def compare(program: dict, outputs: list[str], expected: Path, actual: Path, tolerance: float):
    worst = 0.0
    for name in outputs:
        for file in sorted((expected / name).glob("*.npy")):
            found = actual / name / file.name
            if not found.exists():
                return failed(f"there is no {name}/{file.name}"), worst
            off = difference(np.load(found), np.load(file))
            worst = max(worst, off.relative)
            if not off.relative <= tolerance:
                return (
                    failed(
                        f"{name}, step {file.stem}: {off}, more than {tolerance:g}",
                        worst=off.relative,
                    ),
                    worst,
                )
    return None, worst


def call(
    here: Machine, program: dict, way: str, to: Path, limit: float, flags: tuple = (), **env: str
) -> Ended:
    own = flags_of(program, program["outputs"], to, limit * 0.7)
    command = command_of(program, way, [*own, *flags])
    return here.run(command, limit, **env)


def run_program(
    report: Report,
    here: Machine,
    program: dict,
    way: str,
    limit: float,
    tolerance: float,
    **env: str,
):
    name = f"{program['name']} {way}"
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder)
        result = call(here, program, way, to, limit, **env)
        report.log(name, str(result))
        if not result.ok:
            verdict = failed(result.why())
        elif way == "processes" and "communication by NCCL" not in result.stderr:
            return failed("ranks did not communicate over NCCL")
        else:
            verdict, worst = compare(
                program, program["outputs"], here.pack / program["expected"], to, tolerance
            )
            if verdict is None:
                return passed(f"off by {worst:.1e}", worst=worst)
        if result.status is None:
            return verdict
        # Runs operations one at a time. If the result is now right, an order between operations is
        # missing. If it is still wrong, an operation is wrong.
        again = to / "again"
        result = call(here, program, way, again, limit, **env, CUDA_LAUNCH_BLOCKING="1")
        report.log(name, f"with CUDA_LAUNCH_BLOCKING=1\n{result}")
        if result.status is not None:
            wrong = (
                not result.ok
                or compare(
                    program, program["outputs"], here.pack / program["expected"], again, tolerance
                )[0]
            )
            verdict.note += (
                f" (with CUDA_LAUNCH_BLOCKING=1: {'wrong as well' if wrong else 'right'})"
            )
        return verdict


def run_twice(report: Report, here: Machine, program: dict, cached: bool, limit: float):
    """Checks that two runs give the same bits if neither measures algorithms (--deterministic), or
    if the second reads the tuning cache of the first.
    """
    with tempfile.TemporaryDirectory() as folder:
        flags = () if cached else ("--deterministic",)
        env = {"TPC_CACHE": f"{folder}/cache"} if cached else {}
        for name in ("one", "two"):
            result = call(here, program, "threads", Path(folder) / name, limit / 2, flags, **env)
            report.log("twice", str(result))
            if not result.ok:
                return failed(result.why())
        for one in sorted((Path(folder) / "one").glob("*/*.npy")):
            two = Path(folder) / "two" / one.relative_to(Path(folder) / "one")
            if one.read_bytes() != two.read_bytes():
                return failed(
                    f"{one.parent.name}, step {one.stem}: {difference(np.load(two), np.load(one))}"
                )
    return passed()


def compare_with_cpu(report: Report, here: Machine, pair: dict, limit: float):
    """Runs a large model with random weights on the GPU and on the local CPU."""
    with tempfile.TemporaryDirectory() as folder:
        # The CPU program generates the same weights.
        for where in ("cpu", "gpu"):
            flags = [
                "--batch-of",
                pair["inputs"],
                "--weights=random:1",
                "--output",
                f"logits={folder}/{where}/logits",
            ]
            flags += ["--share-gpus"] if where == "gpu" and pair["ranks"] > 1 else []
            result = here.run([pair[where], *flags], limit / 2)
            report.log(pair["name"], str(result))
            if not result.ok:
                return failed(f"{where}: {result.why()}")
        verdict, worst = compare(
            pair, ["logits"], Path(folder) / "cpu", Path(folder) / "gpu", pair["tolerance"]
        )
        return verdict or passed(f"off by {worst:.1e}", worst=worst)


def run(report: Report, here: Machine) -> None:
    tolerance = here.listed["tolerance"]
    programs = here.listed["programs"]

    def check(name, function, limit=LIMIT):
        report.check("correctness", name, function, limit)

    def check_program(program, way, note="", **env):
        check(
            f"{program['name']} {way}{note}",
            lambda limit: run_program(report, here, program, way, limit, tolerance, **env),
        )

    single = [program for program in programs if program["ranks"] == 1]
    several = [program for program in programs if program["ranks"] > 1]
    for program in single:
        check_program(program, "threads")
    if single:
        check_program(single[0], "threads", ", kernels from PTX", TPC_CUDA_CODE="ptx")
    for program in several:
        check_program(program, "threads")
    for program in several:
        if not here.finds("libnccl.so.2"):
            check(
                f"{program['name']} processes",
                lambda limit: skipped("libnccl.so.2 is not installed"),
            )
        else:
            check_program(program, "processes")
    if programs:
        last = (several or single)[0]
        for cached, how in ((False, "--deterministic"), (True, "one tuning cache")):
            check(
                f"{last['name']} twice, {how}",
                lambda limit, cached=cached: run_twice(report, here, last, cached, limit),
            )
    for pair in here.listed["pairs"]:
        check(pair["name"], lambda limit: compare_with_cpu(report, here, pair, limit), BIG_LIMIT)

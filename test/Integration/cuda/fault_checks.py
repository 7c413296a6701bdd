"""Quick runs over the simulated libraries that detect seeded faults.

Each check returns a failure text, empty if there is none.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np

import harness
from one_gpu.process import run

from fault_programs import (  # noqa: F401
    left_behind,
    ALL,
    Build,
    HALF_SEEDS,
    HALF_TOLERANCE,
    HANGS,
    HalfProgram,
    INJECTED,
    LIMIT,
    PROGRAMS,
    Program,
    WideProgram,
    environment,
)


def check_injected(program: Program, what: str, words: str, folder: Path) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        fault, *flags = what.split()
        result = run(
            [program.executable.path, *program.flags(Path(scratch)), *flags],
            LIMIT,
            environment(folder, TPC_SIM_INJECT=fault),
        )
    if result.status is None or result.status <= 0 or result.status > 125:
        return f"{what}: {result.why()}"
    return (
        "" if re.search(words, result.stderr) else f"{what}: does not print {words}: {result.why()}"
    )


def check_hang(program: Program, what: str, where: str, folder: Path) -> str:
    """Checks that the first rank in the message waits for the hanging GPU, and in which call."""
    with tempfile.TemporaryDirectory() as scratch:
        result = run(
            [program.executable.path, *program.flags(Path(scratch), limit=2), "--deterministic"],
            LIMIT,
            environment(folder, TPC_SIM_INJECT=what, TPC_SIM_SEED="1"),
        )
    if result.status is None or result.status <= 0 or result.status > 125:
        return f"{what}: {result.why()}"
    wanted = (
        f"(--timeout=2): rank 0 (tp 0) in {where} over 'tp' for rank 1 (tp 1); rank 1 (tp 1)"
        " computing on its device, in "
    )
    return "" if wanted in result.stderr else f"{what}: does not name the operation: {result.why()}"


def check_assigned_gpu(program: Program, folder: Path) -> str:
    """Checks that the memory estimate is for the GPU assigned to the process: the second of two. It
    is older, so libraries allocate less workspace.
    """
    with tempfile.TemporaryDirectory() as scratch:
        usage = Path(scratch) / "usage"
        env = environment(
            folder,
            TPC_SIM_CAPABILITY="9.0,8.0",
            RANK="0",
            WORLD_SIZE="1",
            LOCAL_RANK="1",
            TPC_SIM_USAGE=str(usage),
        )
        flags = [program.executable.path, *program.flags(Path(scratch))]
        if not (result := run(flags, LIMIT, env)).ok:
            return result.why()
        device, used = usage.read_text().splitlines()[-1].split()
        result = run(flags, LIMIT, {**env, "TPC_SIM_MEMORY": "1MiB"})
        first = re.search(r"needs? [0-9.]+ [GM]iB \((\d+) bytes\)", result.stderr)
        # Later steps are larger.
        if (
            device != "1"
            or result.ok
            or not first
            or not int(used) - (4 << 20) <= int(first[1]) <= int(used)
        ):
            return f"takes {used} of GPU {device}; output: {result.why()}"
    return ""


def check_memory(program: Program, folder: Path) -> str:
    """Checks that the memory use equals the estimate."""
    with tempfile.TemporaryDirectory() as scratch:
        usage, env = Path(scratch) / "usage", environment(folder, TPC_SIM_SEED="1")
        np.save(Path(scratch) / "first.npy", np.ones((24, 16), np.int64))
        flags = [
            program.executable.path,
            "--input",
            f"input_ids={scratch}/first.npy",
            "--output",
            f"logits={scratch}/logits.npy",
        ]
        if not (result := run(flags, LIMIT, {**env, "TPC_SIM_USAGE": str(usage)})).ok:
            return result.why()
        used = [int(line.split()[1]) for line in usage.read_text().splitlines()]
        result = run(flags, LIMIT, {**env, "TPC_SIM_MEMORY": "1MiB"})
        needs = re.search(r"needs? (?:together )?[0-9.]+ [GM]iB \((\d+) bytes\)", result.stderr)
        if result.ok or not needs or int(needs[1]) != max(used):
            return f"uses {used} bytes, but prints: {result.why()}"
        most = max(used)
        for less in (
            {"TPC_SIM_MEMORY": str(most - 1)},
            {"TPC_SIM_MEMORY": str(most + 7), "TPC_SIM_TAKEN": "8"},
        ):
            result = run(flags, LIMIT, {**env, **less})
            if result.ok or f"({most} bytes)" not in result.stderr:
                return f"with {less} for {most}: {result.why()}"
        if not (result := run(flags, LIMIT, {**env, "TPC_SIM_MEMORY": str(most)})).ok:
            return result.why()
        # A step that is larger than the first exceeds the memory.
        np.save(Path(scratch) / "large.npy", np.ones((64, 64), np.int64))
        result = run(
            [
                program.executable.path,
                f"{scratch}/first.npy",
                f"{scratch}/large.npy",
                "--output",
                f"{scratch}/out",
            ],
            LIMIT,
            {**env, "TPC_SIM_MEMORY": str(most)},
        )
        return (
            ""
            if "a step with batch=64, sequence=64 needs" in result.stderr
            else f"does not name the step that exceeds the memory; output: {result.why()}"
        )


def check_tests(name: str, folder: Path, own: bool, gtest_filter: str, **env: str) -> str:
    """Runs a GoogleTest program: either one built with the fault, or the build's program with the
    faulty library.
    """
    program = (folder if own else Build.programs) / name
    with tempfile.TemporaryDirectory() as scratch:
        trace = Path(scratch) / "trace"
        result = run(
            [program, "--gtest_brief=1"],
            SUITE_LIMIT,
            environment(
                folder,
                GTEST_FILTER=gtest_filter,
                TPC_TESTS="quick",
                TPC_SIM_TRACE=str(trace),
                **env,
            ),
        )
        if result.ok:
            return (
                left_behind(trace.read_text())
                if trace.exists() and name != "SimulatorTests"
                else ""
            )
    failed = re.findall(r"\[  FAILED  \] (\S+)", result.stdout)
    return failed[0] if failed else result.why()


# A subset of the transport suites: three ranks with shards of different sizes, and groups of two
# axes.
WORLDS = (
    "Worlds/Collectives.*/tp3:Worlds/Exchanges.*/tp3:Worlds/Permutes.*/tp3:Worlds/Routed.*/tp3:"
    "Worlds/Routed.ExpertsOverAllAxes/*:"
    "Worlds/Steps.Messages*/tp2_dp2:"
    "Worlds/Steps.RunsAgain/tp2_dp2:Worlds/Exchanges.Factors/tp2_dp2:"
    "Worlds/Collectives.Broadcast/tp2_dp2"
)
# Time limit of a suite in seconds. Many threads share the cores; on a busy machine it takes
# minutes.
SUITE_LIMIT = 120


LIBRARY = "lib/libtpc_cuda.so"


def checks_of_library(scratch: Path) -> list:
    from generation_checks import checks_of_devices

    compiler, checks = harness.Compiler(scratch), []
    for name, grid, seed, devices in PROGRAMS:
        program = Program(compiler, scratch, name, grid)
        checks.append(
            (
                f"programs on {grid}",
                LIBRARY,
                lambda folder, p=program, s=seed, d=devices: p.check(folder, s, d),
            )
        )
    wide = WideProgram(compiler, scratch, "wide", "tp1")
    checks.append(("programs on wide heads", LIBRARY, lambda folder: wide.check(folder, 1, 8)))
    single, two = Program(compiler, scratch, "gpt2-tiny", "tp1"), Program(
        compiler, scratch, "gpt2-tiny", "tp2"
    )
    checks.insert(
        1,
        (
            "device suite",
            LIBRARY,
            lambda folder: check_tests(
                "RuntimeDeviceConformance", folder, False, "Gpu/*", TPC_SIM_DEVICES="2"
            ),
        ),
    )
    checks += checks_of_halves(compiler, scratch)
    checks.append(("memory", LIBRARY, lambda folder: check_memory(two, folder)))
    old = Program(compiler, scratch, "gpt2-tiny", "tp1", "sm_80")
    checks.append(("memory", LIBRARY, lambda folder: check_assigned_gpu(old, folder)))
    # With one rank, errors are local.
    checks += [
        (
            "injected errors",
            LIBRARY,
            lambda folder, w=what, t=words: check_injected(single, w, t, folder),
        )
        for what, words in INJECTED
    ]
    checks += [
        ("hangs", LIBRARY, lambda folder, w=what, t=where: check_hang(two, w, t, folder))
        for what, where in HANGS
    ]
    checks.append(
        (
            "NCCL suite",
            LIBRARY,
            lambda folder: check_tests(
                "RuntimeConformance",
                folder,
                False,
                WORLDS,
                TPC_CONFORMANCE="cuda",
                TPC_SIM_DEVICES="8",
            ),
        )
    )
    return checks + checks_of_devices(scratch / "generation")


def checks_of_halves(compiler: harness.Compiler, scratch: Path) -> list:
    programs = [HalfProgram(compiler, scratch, "gpt2-tiny", "tp2", kind) for kind in HALF_SEEDS]
    programs.append(HalfProgram(compiler, scratch, "gpt2-tiny-nopast", "tp2", "f16"))
    return [
        ("16 bits", LIBRARY, lambda folder, p=program: p.check(folder, HALF_SEEDS[p.kind], 8))
        for program in programs
    ]


def checks_of_graph(scratch: Path) -> list:
    return [
        (
            "attention's graph",
            "test/bin/SimulatorTests",
            lambda folder: check_tests("SimulatorTests", folder, True, "Cudnn.*"),
        ),
        *checks_of_halves(harness.Compiler(scratch), scratch),
    ]


def checks_of_weights(_: Path) -> list:
    return [
        (
            "device suite",
            "test/bin/RuntimeDeviceConformance",
            lambda folder: check_tests(
                "RuntimeDeviceConformance",
                folder,
                True,
                "Gpu/*Fill*:Gpu/*Drawn*:Gpu/*Itself*:Gpu/*Third*",
            ),
        )
    ]


def checks_of_links(_: Path) -> list:
    return [
        (
            "plans and links",
            "test/bin/RuntimeLinkTests",
            lambda folder: check_tests("RuntimeLinkTests", folder, True, "*"),
        ),
        (
            "links suite",
            "test/bin/RuntimeConformance",
            lambda folder: check_tests(
                "RuntimeConformance", folder, True, WORLDS, TPC_CONFORMANCE="links"
            ),
        ),
        (
            "NCCL suite",
            "test/bin/RuntimeConformance",
            lambda folder: check_tests(
                "RuntimeConformance",
                folder,
                True,
                WORLDS,
                TPC_CONFORMANCE="cuda",
                TPC_SIM_DEVICES="8",
                TPC_RUNTIME_DIR=str(harness.BUILD / "lib"),
            ),
        ),
    ]


def checks_of_generation(scratch: Path) -> list:
    from generation_checks import checks_of_loop

    return checks_of_loop(scratch / "loop")


# Scope of faults: names, build targets and check.
CHECKS = {
    "cuda": checks_of_library,
    "cudnn": checks_of_graph,
    "links": checks_of_links,
    "weights": checks_of_weights,
    "generation": checks_of_generation,
}

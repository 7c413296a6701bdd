"""What looks for seeded mistakes: quick checks over the simulated libraries. Each says what is wrong, or nothing."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

import harness
from models import COMMITTED, FAMILIES
from one_gpu.process import run
from tpc.reference import TOLERANCE, difference

ALL = {**COMMITTED, **FAMILIES}
LIBRARIES = harness.BUILD / "lib" / "simulator"
LIMIT = 60
# model, grid, seed, devices: fewer than ranks share, over the host.
PROGRAMS = [("gpt2-tiny", "tp1", 0, 8), ("gpt2-tiny", "tp2", 1, 8), ("gpt2-tiny", "pp2,mb2", 2, 8),
            ("llama-past", "tp2,sp", 3, 8),
            ("gpt2-odd-nopast", "tp3", 4, 8), ("bloom-past", "tp2,pp2", 5, 8), ("gpt2-tiny", "tp2", 6, 1),
            ("gpt2-tiny", "dp2", 7, 8), ("gpt2-tiny", "tp1", 8, 8), ("gpt2-tiny", "tp2", 9, 8), ("gemma2-past", "tp1", 10, 8)]
# batch, sequence, past; padded to the left. A shape comes again, with other contents and after others.
STEPS = [(2, 5, 3), (1, 1, 0), (2, 5, 3), (1, 70, 0), (2, 5, 3), (1, 1, 90), (1, 1, 91)]
# What is made and what ends it.
PAIRS = {"cuMemAlloc_v2": "cuMemFree_v2", "cuMemHostAlloc": "cuMemFreeHost", "cuStreamCreate": "cuStreamDestroy_v2",
         "cuEventCreate": "cuEventDestroy_v2", "cuModuleLoadDataEx": "cuModuleUnload",
         "ncclCommInitRankConfig": "ncclCommDestroy",
         "cuDevicePrimaryCtxRetain": "cuDevicePrimaryCtxRelease_v2", "cublasLtCreate": "cublasLtDestroy",
         "cublasLtMatmulDescCreate": "cublasLtMatmulDescDestroy", "cublasLtMatrixLayoutCreate": "cublasLtMatrixLayoutDestroy",
         "cublasLtMatmulPreferenceCreate": "cublasLtMatmulPreferenceDestroy", "cuGraphInstantiateWithFlags": "cuGraphExecDestroy"}
# What is injected, and words that have to be said.
INJECTED = [("oom@2", "memory"), ("oom@6", "memory"), ("oom@30", "memory"), ("pinned@1", "pin host memory|memory"),
            ("pinned@3", "memory"), ("launch@2", "to launch kernel"), ("fail@60", "launch failure|LAUNCH_FAILED"),
            ("ecc@40", "ECC"), ("address@80", "illegal|ILLEGAL")]


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {"TPC_CUDA_LIBS": str(LIBRARIES), "TPC_RUNTIME_DIR": str(folder), **more}


class Program:
    def __init__(self, compiler: harness.Compiler, scratch: Path, name: str, grid: str):
        model = ALL[name]
        self.executable = compiler.compile(model.path, grid, "--target=cuda", "--gpu-arch=sm_90")
        self.inputs, self.expected = scratch / "in" / name, scratch / "expected" / name
        if self.inputs.exists():
            return
        for index, (batch, sequence, past) in enumerate(STEPS):
            past = min(past, model.positions // 2) if model.past_name else 0
            given = model.inputs(batch, min(sequence, model.positions - past), "left" if model.padded else "none", seed=index,
                                 past=past)
            (self.inputs / f"{index:03}").mkdir(parents=True)
            for key, array in given.items():
                np.save(self.inputs / f"{index:03}" / f"{key}.npy", array)
            for key, array in model.reference.run(given).items():
                (self.expected / key).mkdir(parents=True, exist_ok=True)
                np.save(self.expected / key / f"{index:03}.npy", array)

    def flags(self, to: Path) -> list[str]:
        flags = ["--batch-of", str(self.inputs), "--timeout", "20"]
        for output in sorted(self.expected.iterdir()):
            flags += ["--output", f"{output.name}={to / output.name}"]
        return flags

    def compare(self, to: Path) -> str:
        for wanted in sorted(self.expected.glob("*/*.npy")):
            found = to / wanted.relative_to(self.expected)
            if not found.exists():
                return f"no {wanted.relative_to(self.expected)}"
            off = difference(np.load(found), np.load(wanted))
            if not off.relative <= TOLERANCE:
                return f"{wanted.parent.name} {wanted.stem}: {off}"
        return ""

    def check(self, folder: Path, seed: int, devices: int) -> str:
        """Numbers, findings, and that nothing is left behind."""
        with tempfile.TemporaryDirectory() as scratch:
            to, trace = Path(scratch), Path(scratch) / "trace"
            ranks = self.executable.grid.ranks
            env = environment(folder, TPC_SIM_SEED=str(seed), TPC_SIM_DEVICES=str(devices), TPC_SIM_TRACE=str(trace))
            said = run([self.executable.path, *self.flags(to), *(["--share-gpus"] if ranks > devices else [])], LIMIT, env)
            if not said.ok:
                return said.why()
            # Ranks that come late on a busy machine are no finding: those that never come end at the limit.
            findings = [line for line in said.stderr.splitlines() if line.startswith("simulator:") and ": stuck: " not in line]
            if findings:
                return findings[0]
            return self.compare(to) or left_behind(trace.read_text())


def left_behind(trace: str) -> str:
    """Lines of the trace: process, thread, name = result."""
    calls = Counter(line.split()[2] for line in trace.splitlines() if line.endswith(" = 0"))
    for made, ended in PAIRS.items():
        if calls[made] != calls[ended]:
            return f"{calls[made]} {made}, {calls[ended]} {ended}"
    return ""


def check_injected(program: Program, what: str, words: str, folder: Path) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        said = run([program.executable.path, *program.flags(Path(scratch))], LIMIT, environment(folder, TPC_SIM_INJECT=what))
    if said.status is None or said.status <= 0 or said.status > 125:
        return f"{what}: {said.why()}"
    return "" if re.search(words, said.stderr) else f"{what}: does not say {words}: {said.why()}"


def check_tests(name: str, folder: Path, own: bool, gtest_filter: str, **env: str) -> str:
    """A GoogleTest program: the one that was built with the mistake, or the build's, which loads the library."""
    program = (folder if own else harness.BUILD / "test" / "bin") / name
    said = run([program, "--gtest_brief=1"], SUITE_LIMIT,
               environment(folder, GTEST_FILTER=gtest_filter, TPC_TESTS="quick", **env))
    if said.ok:
        return ""
    failed = re.findall(r"\[  FAILED  \] (\S+)", said.stdout)
    return failed[0] if failed else said.why()


# A part of the suites of transports: three ranks, whose parts are uneven, and groups of two axes.
WORLDS = ("Worlds/Collectives.*/tp3:Worlds/Exchanges.*/tp3:Worlds/Permutes.*/tp3:Worlds/Steps.Messages*/tp3:"
          "Worlds/Steps.RunsAgain/tp2_dp2:Worlds/Exchanges.Factors/tp2_dp2:Worlds/Collectives.Broadcast/tp2_dp2")
# Seconds of a suite. Many threads take turns: on a busy machine that takes minutes.
SUITE_LIMIT = 600


LIBRARY = "lib/libtpc_cuda.so"


def checks_of_library(scratch: Path) -> list:
    compiler, checks = harness.Compiler(scratch), []
    for name, grid, seed, devices in PROGRAMS:
        program = Program(compiler, scratch, name, grid)
        checks.append(("programs", LIBRARY, lambda folder, p=program, s=seed, d=devices: p.check(folder, s, d)))
    checks.append(("device suite", LIBRARY, lambda folder: check_tests("RuntimeDeviceConformance", folder, False, "Gpu/*")))
    # Of one rank: what fails is its own.
    injected = Program(compiler, scratch, "gpt2-tiny", "tp1")
    checks += [("injected errors", LIBRARY, lambda folder, w=what, t=words: check_injected(injected, w, t, folder))
               for what, words in INJECTED]
    checks.append(("NCCL suite", LIBRARY, lambda folder: check_tests(
        "RuntimeConformance", folder, False, WORLDS, TPC_CONFORMANCE="cuda", TPC_SIM_DEVICES="8")))
    return checks


def checks_of_links(_: Path) -> list:
    return [("plans and links", "test/bin/RuntimeLinkTests", lambda folder: check_tests("RuntimeLinkTests", folder, True, "*")),
            ("links suite", "test/bin/RuntimeConformance",
             lambda folder: check_tests("RuntimeConformance", folder, True, WORLDS, TPC_CONFORMANCE="links"))]


# By scope of mistakes: names, what is built for it, and the check.
CHECKS = {"cuda": checks_of_library, "links": checks_of_links}

#!/usr/bin/env python3
"""Runs the tests: GoogleTest programs, lit, pytest. Ends with the line `N passed, N failed`.

    test/run.py [--quick | --long] [--build DIR] [unit] [lit] [pytest]

By default all tests except the long ones run. --quick: each pytest function once, with its first
parameters, the small worlds of the runtime's conformance suite, all of lit, and no test that takes
seconds. --long: all tests.

To use every processor, pytest runs at the same time as the other runners: the GoogleTest programs,
then lit. Each runner writes its results to a file (JUnit XML), from which they are counted. A
runner that dies or hangs counts as a failure, and so does a test skipped for a reason that OPTIONAL
does not list. The exit status is nonzero if a test failed or none ran.
"""

import argparse
import collections
import json
import os
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import machine_time

TOP = Path(__file__).resolve().parents[1]
MINUTES = 60
# Seconds without CPU time and without output after which a runner counts as hung.
IDLE_LIMIT = 10 * MINUTES
LEVELS = ("quick", "default", "long")
# CPUs that the runners use. A test may start any number of ranks.
PROCESSORS = min(8, len(os.sched_getaffinity(0)))
# Optional requirements of tests, with the beginning of the reasons of skipped tests ("corpus: ...
# is absent").
OPTIONAL = {
    "long run": "test/run.py --long",
    "full run": "left out by --quick",
    "corpus": "ONNX files of other exporters and Megatron-Core's groups: $TPC_CORPUS",
    "torch": "torch, transformers and optimum, for python -m tpc.export",
    "tokenizers": "the package of that name, for text of python -m tpc.generate",
    "sanitizers": "tests that a build with sanitizers cannot run",
    "assertions": "tests that only a build with assertions can run",
    "oneDNN": "a libdnnl.so.3 of oneDNN 3: $TPC_ONEDNN is its folder",
    "ptxas": "the assembler of a CUDA toolkit: $CUDA_HOME, PATH or /usr/local/cuda",
    "nvdisasm": "a disassembler for GPUs: $CUDA_HOME, PATH, or nvidia-cuda-nvdisasm in .venv",
    "cuDNN": (
        "libcudnn.so.9 of cuDNN 9: $TPC_CUDNN is its folder, or CUDA_HOME, or nvidia-cudnn-cu13 in"
        " .venv"
    ),
    "mounting": "permission to mount a file system",
    "namespaces": "permission to make network namespaces",
    "control groups": "permission to make groups with a freezer, of version 1 and of version 2",
    "large files": "a file system that supports files of 5 GiB",
}


class Results:
    """Counts, and the names of failed tests."""

    def __init__(self):
        self.passed = 0
        self.skipped = collections.Counter()  # keyed by the missing requirement
        self.failures = []

    def skip(self, name, reason):
        """Counts a skipped test by the missing requirement. Other reasons are failures."""
        # GoogleTest prints the location before the reason; lit adds a prefix.
        text = reason.strip().split("\n")[-1].removeprefix("Missing required feature(s): ")
        requirement = text.split(":")[0]
        if requirement in OPTIONAL:
            self.skipped[requirement] += 1
        else:
            self.failures.append(
                f"{name}: skipped for a reason that OPTIONAL does not list: {text}"
            )

    def add_junit(self, path):
        """Returns the number of tests in the file."""
        cases = list(ElementTree.parse(path).iter("testcase"))
        for case in cases:
            name = f"{case.get('classname')}::{case.get('name')}"
            skipped = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                self.failures.append(name)
            elif skipped is not None:
                self.skip(name, skipped.get("message") or "")
            elif case.get("status") == "notrun":
                self.failures.append(f"{name}: disabled")
            else:
                self.passed += 1
        return len(cases)

    def add(self, other):
        self.passed += other.passed
        self.skipped += other.skipped
        self.failures += other.failures

    def __str__(self):
        line = f"{self.passed} passed, {len(self.failures)} failed"
        if self.skipped:
            names = ", ".join(f"{name} {count}" for name, count in self.skipped.most_common())
            line += f", {self.skipped.total()} skipped ({names})"
        return line


class Processes:
    """Running processes, ended when this program is interrupted."""

    def __init__(self):
        self.groups = set()
        self.stopped = False

    def run(self, command, limit, idle_limit=IDLE_LIMIT, env=None, cwd=TOP, output=None):
        """Runs with output passed through, or into a file. Returns the exit status, or the reason
        that it was stopped: more than `limit` seconds of CPU time, or no CPU time and no output for
        `idle_limit` seconds.
        """
        if self.stopped:
            return "stopped"
        process = subprocess.Popen(
            [str(word) for word in command],
            env=env,
            cwd=cwd,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            start_new_session=True,
        )
        self.groups.add(process.pid)
        watch = machine_time.Watch(
            process.pid,
            limit,
            idle_limit,
            lambda: os.fstat(output.fileno()).st_size if output else 0,
        )
        try:
            while True:
                try:
                    return process.wait(timeout=min(2, idle_limit / 10))
                except subprocess.TimeoutExpired:
                    if problem := watch.problem():
                        return problem
        finally:
            # Remaining processes (ranks, launchers) are ended as well.
            self.end(process.pid)
            process.wait()

    def stop(self):
        """Ends all processes, and starts no more."""
        self.stopped = True
        for group in list(self.groups):
            self.end(group)

    def end(self, group):
        self.groups.discard(group)
        # Tests start separate sessions.
        for process in [*machine_time.tree(group), -group]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass


def judge(results, name, status, report):
    """Reads one runner's report. A missing report, or one that contradicts the exit status, is a
    failure. `status` may be the reason that the runner was stopped.
    """
    before = len(results.failures)
    if isinstance(status, str):
        results.failures.append(f"{name}: {status}")
        return
    try:
        count = results.add_junit(report)
    except (OSError, ElementTree.ParseError) as error:
        what = f"signal {-status}" if status < 0 else f"exit status {status}"
        results.failures.append(f"{name}: ended with {what} and without a report ({error})")
        return
    if count == 0:
        results.failures.append(f"{name}: ran no tests")
    elif status != 0 and len(results.failures) == before:
        results.failures.append(f"{name}: exit status {status}, although no test failed")


class Suite:
    """One run of the tests. Reports and output of the runners are in build/test/reports."""

    def __init__(self, build, level):
        self.build, self.level = build, level
        self.reports = build / "test" / "reports"
        self.reports.mkdir(parents=True, exist_ok=True)
        for stale in self.reports.iterdir():
            stale.unlink()
        self.env = dict(
            os.environ,
            TPC_BUILD=str(build),
            TPC_TESTS=level,
            OMPI_ALLOW_RUN_AS_ROOT="1",
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        )
        # Waiting ranks yield the CPU: several tests share the CPUs.
        self.env.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
        # MPI and MLIR do not free all memory at exit.
        self.env.setdefault("ASAN_OPTIONS", "detect_leaks=0")
        # pytest counts the tests there that are not part of the level.
        self.env["TPC_LEFT_OUT"] = str(self.reports / "pytest.left-out")
        self.processes, self.results, self.lock = Processes(), Results(), threading.Lock()

    def run(self, name, command, minutes, cwd=TOP):
        """Runs one runner: adds its report to the results, and prints its output if a test failed.
        Its limit is `minutes` of the CPU time of all CPUs; other load does not count.
        """
        begin, results = time.monotonic(), Results()
        log, report = self.reports / f"{name}.log", self.reports / f"{name}.xml"
        with open(log, "wb") as output:
            status = self.processes.run(
                command, minutes * MINUTES * PROCESSORS, env=self.env, cwd=cwd, output=output
            )
        judge(results, name, status, report)
        if (left_out := self.reports / f"{name}.left-out").exists():
            results.skipped.update(json.loads(left_out.read_text()))
        with self.lock:
            self.results.add(results)
            print(f"-- {name}: {results}, {time.monotonic() - begin:.0f} s", flush=True)
            if results.failures:
                print(log.read_text(errors="replace"), flush=True)

    def run_unit(self):
        lines = (self.build / "test" / "unittests.txt").read_text().split("\n")
        programs = [line.split("\t") for line in lines if line.strip()]
        chosen = [
            program for program in programs if LEVELS.index(program[1]) <= LEVELS.index(self.level)
        ]
        if len(chosen) < len(programs):
            left_out = "long run" if self.level == "default" else "full run"
            self.results.skipped[left_out] += len(programs) - len(chosen)

        def run(program):
            name, _, *words = program
            report = f"--gtest_output=xml:{self.reports / name}.xml"
            self.run(
                name,
                [*filter(None, words), report, "--gtest_brief=1"],
                60 if self.level == "long" else 10,
            )

        # One test per CPU, plus one that mostly waits for frozen ranks.
        with ThreadPoolExecutor(PROCESSORS + 1) as pool:
            list(pool.map(run, chosen))
        if not chosen:
            self.results.failures.append("unit: there are no GoogleTest programs")

    def run_lit(self):
        lit = next(
            line.split("=", 1)[1]
            for line in (self.build / "CMakeCache.txt").read_text().split("\n")
            if line.startswith("TPC_LIT:")
        )
        self.run(
            "lit",
            [
                lit,
                "-v",
                "--no-progress-bar",
                f"-j{PROCESSORS}",
                "--xunit-xml-output",
                self.reports / "lit.xml",
                self.build / "test",
            ],
            15,
        )

    def run_pytest(self):
        # Tests of one file share compilations; long files come first. Some tests mostly wait, so
        # there is one worker more than CPUs.
        self.run(
            "pytest",
            [
                sys.executable,
                "-m",
                "pytest",
                "-p",
                "no:cacheprovider",
                "--tb=short",
                "-n",
                PROCESSORS + 1,
                "--dist=loadfile",
                "--no-loadscope-reorder",
                f"--tests={self.level}",
                f"--junitxml={self.reports / 'pytest.xml'}",
            ],
            600 if self.level == "long" else 40,
            cwd=TOP / "test" / "Integration",
        )


RUNNERS = {"unit": Suite.run_unit, "lit": Suite.run_lit, "pytest": Suite.run_pytest}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    levels = parser.add_mutually_exclusive_group()
    levels.add_argument(
        "--quick", dest="level", action="store_const", const="quick", help="a part, in four minutes"
    )
    levels.add_argument(
        "--long", dest="level", action="store_const", const="long", help="the long tests as well"
    )
    parser.add_argument(
        "--build",
        type=Path,
        default=Path(os.environ.get("TPC_BUILD", TOP / "build")),
        help="the build folder (default: build)",
    )
    parser.add_argument(
        "runner", nargs="*", metavar="unit|lit|pytest", help="only these (default: all)"
    )
    options = parser.parse_args()
    unknown = set(options.runner) - set(RUNNERS)
    if unknown:
        parser.error(f"unknown runner '{sorted(unknown)[0]}'")

    begin = time.monotonic()
    suite = Suite(options.build.resolve(), options.level or "default")
    chosen = options.runner or list(RUNNERS)

    def run_in_turn(names):
        for name in names:
            RUNNERS[name](suite)

    print(f"Running {', '.join(chosen)}; their output is in {suite.reports}", flush=True)
    try:
        with ThreadPoolExecutor(2) as pool:
            try:
                for lane in [
                    pool.submit(
                        run_in_turn, [name for name in chosen if (name == "pytest") == is_pytest]
                    )
                    for is_pytest in (True, False)
                ]:
                    lane.result()
            except BaseException:
                suite.processes.stop()
                raise
    except KeyboardInterrupt:
        sys.exit("interrupted")

    results = suite.results
    print()
    for failure in results.failures:
        print(f"FAILED {failure}")
    print(f"{results}, {time.monotonic() - begin:.0f} s", flush=True)
    return 1 if results.failures or results.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

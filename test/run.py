#!/usr/bin/env python3
"""Runs all tests: GoogleTest programs, lit, pytest. Ends with the line `N passed, N failed`.

    test/run.py [--long] [--build DIR] [unit] [lit] [pytest]

Each runner writes its results to a file (JSON or JUnit XML) and those are counted; a runner that dies
or hangs counts as a failure of its own. The exit status is not 0 if anything failed or nothing ran.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
MINUTES = 60
# Each of them may start as many ranks as it likes.
PROCESSORS = min(8, len(os.sched_getaffinity(0)))


class Results:
    """Counts, and the names of what failed."""

    def __init__(self):
        self.passed = 0
        self.skipped = 0
        self.failures = []

    def add_junit(self, path):
        """Returns how many tests the file tells of."""
        cases = list(ElementTree.parse(path).iter("testcase"))
        for case in cases:
            if case.find("failure") is not None or case.find("error") is not None:
                self.failures.append(f"{case.get('classname')}::{case.get('name')}")
            elif case.find("skipped") is not None:
                self.skipped += 1
            else:
                self.passed += 1
        return len(cases)

    def add_gtest(self, path):
        count = 0
        for suite in json.loads(path.read_text())["testsuites"]:
            for test in suite["testsuite"]:
                count += 1
                if "failures" in test:
                    self.failures.append(f"{suite['name']}.{test['name']}")
                elif test.get("status") == "NOTRUN" or test.get("result") == "SKIPPED":
                    self.skipped += 1
                else:
                    self.passed += 1
        return count


def run(command, limit, env=None, cwd=TOP, output=None):
    """Runs with output passed through, or into a file. Returns the exit status, or None if it ran past the limit."""
    process = subprocess.Popen([str(word) for word in command], env=env, cwd=cwd, stdout=output,
                               stderr=subprocess.STDOUT if output else None, start_new_session=True)
    try:
        return process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        # Whatever it left behind (ranks, launchers) ends with it.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def judge(results, name, status, limit, report, add):
    """Takes one runner's report; a report that is missing, or that the exit status denies, is a failure."""
    before = len(results.failures)
    if status is None:
        results.failures.append(f"{name}: stopped after {limit // MINUTES} minutes")
        return
    try:
        count = add(report)
    except (OSError, ValueError, KeyError, ElementTree.ParseError) as error:
        what = f"signal {-status}" if status < 0 else f"exit status {status}"
        results.failures.append(f"{name}: ended with {what} and without a report ({error})")
        return
    if count == 0:
        results.failures.append(f"{name}: ran no tests")
    elif status != 0 and len(results.failures) == before:
        results.failures.append(f"{name}: exit status {status}, although no test failed")


def run_unit(results, build, report_dir, long, env):
    programs = [line.split("\t") for line in (build / "test" / "unittests.txt").read_text().split("\n")
                if line.strip()]
    limit = (60 if long else 10) * MINUTES

    def run_one(program):
        name, *words = program
        with tempfile.TemporaryFile("w+") as output:
            command = [word for word in words if word]
            command += [f"--gtest_output=json:{report_dir / name}.json", "--gtest_brief=1"]
            status = run(command, limit, env, output=output)
            output.seek(0)
            return name, status, output.read()

    # As many at once as there are processors; most wait for other processes much of the time.
    with ThreadPoolExecutor(PROCESSORS) as pool:
        for name, status, output in pool.map(run_one, programs):
            print(f"-- {name}\n{output}", end="", flush=True)
            judge(results, name, status, limit, report_dir / f"{name}.json", results.add_gtest)
    if not programs:
        results.failures.append("unit: there are no GoogleTest programs")


def run_lit(results, build, report_dir, long, env):
    del long
    report, limit = report_dir / "lit.xml", 15 * MINUTES
    lit = next(line.split("=", 1)[1] for line in (build / "CMakeCache.txt").read_text().split("\n")
               if line.startswith("TPC_LIT:"))
    status = run([lit, "-v", "--no-progress-bar", f"--xunit-xml-output={report}", build / "test"],
                 limit, env)
    judge(results, "lit", status, limit, report, results.add_junit)


def run_pytest(results, build, report_dir, long, env):
    del build
    report, limit = report_dir / "pytest.xml", (600 if long else 20) * MINUTES
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short",
               "-n", PROCESSORS, "--dist=loadfile", f"--junitxml={report}"] + (["--long"] if long else [])
    status = run(command, limit, env, cwd=TOP / "test" / "Integration")
    judge(results, "pytest", status, limit, report, results.add_junit)


RUNNERS = {"unit": run_unit, "lit": run_lit, "pytest": run_pytest}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--long", action="store_true", help="the long tests as well")
    parser.add_argument("--build", type=Path, default=Path(os.environ.get("TPC_BUILD", TOP / "build")),
                        help="the build folder (default: build)")
    parser.add_argument("runner", nargs="*", metavar="unit|lit|pytest",
                        help="only these (default: all)")
    options = parser.parse_args()
    unknown = set(options.runner) - set(RUNNERS)
    if unknown:
        parser.error(f"unknown runner '{sorted(unknown)[0]}'")

    build = options.build.resolve()
    report_dir = build / "test" / "reports"
    report_dir.mkdir(parents=True, exist_ok=True)
    env = dict(os.environ, TPC_BUILD=str(build), OMPI_ALLOW_RUN_AS_ROOT="1",
               OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    # MPI and MLIR keep memory until the end.
    env.setdefault("ASAN_OPTIONS", "detect_leaks=0")
    if options.long:
        env["TPC_LONG_TESTS"] = "1"

    results = Results()
    for name in options.runner or RUNNERS:
        print(f"\n== {name}", flush=True)
        for stale in report_dir.glob("*"):
            if name == "unit" and stale.suffix == ".json" or stale.stem == name:
                stale.unlink()
        start = time.monotonic()
        failed = len(results.failures)
        RUNNERS[name](results, build, report_dir, options.long, env)
        print(f"-- {name}: {time.monotonic() - start:.0f} s, "
              f"{len(results.failures) - failed} failed", flush=True)

    print()
    for failure in results.failures:
        print(f"FAILED {failure}")
    line = f"{results.passed} passed, {len(results.failures)} failed"
    print(line + (f", {results.skipped} skipped" if results.skipped else ""), flush=True)
    return 1 if results.failures or results.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

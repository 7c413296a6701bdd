"""Tests of test/run.py: counts of results, crashes as failures, time limits on busy machines."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import TOP

sys.path.append(str(TOP / "test"))
spec = importlib.util.spec_from_file_location("run", TOP / "test" / "run.py")
run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)

JUNIT = """<testsuites><testsuite>
<testcase classname="a" name="good"/><testcase classname="a" name="also good"/>
<testcase classname="a" name="bad"><failure/></testcase>
<testcase classname="a" name="broken"><error/></testcase>
<testcase classname="a" name="absent"><skipped message="corpus: x.onnx is absent"/></testcase>
</testsuite></testsuites>"""


def test_junit_counts(tmp_path):
    (tmp_path / "r.xml").write_text(JUNIT)
    results = run.Results()
    assert results.add_junit(tmp_path / "r.xml") == 5
    assert str(results) == "2 passed, 2 failed, 1 skipped (corpus 1)"
    assert results.failures == ["a::bad", "a::broken"]


GTEST = """<testsuites><testsuite name="Suite">
<testcase name="good" classname="Suite" status="run" result="completed"/>
<testcase name="bad" classname="Suite" status="run" result="completed">
<failure message="no"/></testcase>
<testcase name="absent" classname="Suite" status="run" result="skipped">
<skipped message="A.cpp:78&#x0A;Skipped&#x0A;sanitizers: they keep freed memory"/></testcase>
<testcase name="disabled" classname="Suite" status="notrun" result="suppressed"/>
</testsuite></testsuites>"""


def test_gtest_counts(tmp_path):
    (tmp_path / "r.xml").write_text(GTEST)
    results = run.Results()
    assert results.add_junit(tmp_path / "r.xml") == 4
    assert results.failures == ["Suite::bad", "Suite::disabled: disabled"]
    assert str(results) == "1 passed, 2 failed, 1 skipped (sanitizers 1)"


@pytest.mark.parametrize(
    "reason, lacks",
    [
        ("long run: pytest --long", "long run"),
        ("Missing required feature(s): corpus", "corpus"),
        ("A.cpp:78&#10;Skipped&#10;sanitizers: they keep freed memory", "sanitizers"),
        ("mpirun is not installed", None),
        ("Missing required feature(s): clang-format", None),
        ("", None),
    ],
)
def test_skips_are_counted_by_missing_dependency(tmp_path, reason, lacks):
    """Skips are counted by the missing dependency. A dependency that is not optional must exist."""
    (tmp_path / "r.xml").write_text(
        '<testsuites><testcase classname="a" name="b"><skipped'
        f' message="{reason}"/></testcase></testsuites>'
    )
    results = run.Results()
    results.add_junit(tmp_path / "r.xml")
    assert results.skipped == ({lacks: 1} if lacks else {})
    assert [failure.split(":")[2] for failure in results.failures] == ([] if lacks else ["b"])


@pytest.mark.parametrize(
    "text, status, expected",
    [
        (
            JUNIT,
            "stopped after 10 minutes of CPU time",
            "unit: stopped after 10 minutes of CPU time",
        ),
        (None, -11, "unit: ended with signal 11 and without a report"),
        (JUNIT[:50], 1, "unit: ended with exit status 1 and without a report"),
        ("<testsuites/>", 0, "unit: ran no tests"),
        (
            '<testsuites><testcase name="good"/></testsuites>',
            3,
            "unit: exit status 3, although no test failed",
        ),
    ],
)
def test_crashes_are_failures(tmp_path, text, status, expected):
    if text is not None:
        (tmp_path / "r.xml").write_text(text)
    results = run.Results()
    run.judge(results, "unit", status, tmp_path / "r.xml")
    assert [failure[: len(expected)] for failure in results.failures] == [expected]


@pytest.mark.parametrize("level, kinds", [("default", {"long run"}), ("long", set())])
def test_tests_that_are_left_out_are_counted(tmp_path, level, kinds):
    """pytest writes the number of tests that are not part of the level, and leaves them out."""
    file = tmp_path / "left-out"
    found = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q"),
            *(f"--tests={level}", "cpu/test_predictions.py"),
        ],
        cwd=TOP / "test" / "Integration",
        env={**os.environ, "TPC_LEFT_OUT": str(file)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout
    count = json.loads(file.read_text())
    assert set(count) == kinds
    everything = subprocess.run(
        found.args,
        cwd=TOP / "test" / "Integration",
        env={key: value for key, value in os.environ.items() if key != "TPC_LEFT_OUT"},
        capture_output=True,
        text=True,
    )
    assert found.stdout.count("::") == everything.stdout.count("::") - sum(count.values())


NOTHING = "import time; time.sleep(60)"
BUSY = "import time\nwhile time.process_time() < 20: pass"
# The process itself uses no CPU time and writes nothing; its child process works.
WORKS_BELOW = (
    f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}],"
    " start_new_session=True)"
)
WRITES = "import time\nfor _ in range(75): print(flush=True); time.sleep(0.02)"


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    "code, limit, idle_limit, expected",
    [
        ("raise SystemExit(3)", 60, 60, 3),
        (NOTHING, 60, 0.4, "nothing happened"),
        (BUSY, 0.5, 60, "of CPU time"),
        (WORKS_BELOW, 0.5, 0.4, "of CPU time"),
        (WRITES, 60, 0.5, 0),
    ],
    ids=["ends", "hangs", "spins", "works below", "writes"],
)
def test_commands_end(tmp_path, code, limit, idle_limit, expected):
    processes = run.Processes()
    with open(tmp_path / "log", "wb") as output:
        status = processes.run([sys.executable, "-c", code], limit, idle_limit, output=output)
    assert (
        status == expected
        if isinstance(expected, int)
        else status.startswith("stopped after") and status.endswith(expected)
    )
    assert not processes.groups
    # Processes in other sessions have ended as well.
    for _ in range(100):
        if not (
            left := [
                path for path in Path("/proc").glob("[0-9]*/cmdline") if BUSY.encode() in read(path)
            ]
        ):
            break
        time.sleep(0.1)
    assert not left


class Machine:
    """A simulated machine whose time the test sets, and a runner with a share of its cores."""

    def __init__(self, load, share):
        self.load, self.share, self.time, self.used, self.written = load, share, 0.0, 0.0, 0
        clock = run.machine_time.LoadClock(lambda: self.time, lambda: self.load)
        self.watch = run.machine_time.Watch(
            0, 40 * 60, 600, lambda: self.written, lambda _: self.used, clock
        )

    def passes(self, seconds):
        """Lets time pass. Returns the problem that the watch reports, if any, and the time."""
        end = self.time + seconds
        while self.time < end:
            self.time += 2
            self.used += 2 * self.share
            if problem := self.watch.problem():
                return problem, self.time
        return "", self.time


def test_busy_machines_do_not_stop_tests():
    """Twenty threads per core: nine minutes of work take hours, and the runner is not ended."""
    machine = Machine(load=20, share=0.05)
    assert machine.passes(6 * 3600)[0] == ""
    assert machine.passes(24 * 3600)[0] == "stopped after 40 minutes of CPU time"


@pytest.mark.parametrize("load", [1, 20])
def test_hanging_tests_are_stopped(load):
    machine = Machine(load, share=1 / load)
    assert machine.passes(300)[0] == ""
    begin, machine.share = machine.time, 0.002  # ranks that wait still poll
    problem, end = machine.passes(24 * 3600)
    assert (
        problem == "stopped after 10 minutes in which nothing happened"
        and 300 <= (end - begin) / load <= 1300
    )


def test_finished_tests_are_progress():
    machine = Machine(load=1, share=0)
    for _ in range(10):
        machine.written += 1
        assert machine.passes(500)[0] == ""


def test_cpu_time_includes_child_processes():
    import machine_time

    before = machine_time.tree_seconds(os.getpid())
    subprocess.run(
        [sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"], check=True
    )
    assert machine_time.tree_seconds(os.getpid()) - before >= 0.25
    assert machine_time.tree_seconds(1 << 30) == 0 and machine_time.load() >= 1

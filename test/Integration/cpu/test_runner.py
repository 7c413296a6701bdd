"""test/run.py counts what happened, and what died as a failure."""

import importlib.util
import json
import sys

import pytest

from conftest import TOP

spec = importlib.util.spec_from_file_location("run", TOP / "test" / "run.py")
run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)

JUNIT = """<testsuites><testsuite>
<testcase classname="a" name="good"/><testcase classname="a" name="also good"/>
<testcase classname="a" name="bad"><failure/></testcase>
<testcase classname="a" name="broken"><error/></testcase>
<testcase classname="a" name="absent"><skipped/></testcase>
</testsuite></testsuites>"""


def test_junit_counts(tmp_path):
    (tmp_path / "r.xml").write_text(JUNIT)
    results = run.Results()
    assert results.add_junit(tmp_path / "r.xml") == 5
    assert (results.passed, results.skipped) == (2, 1)
    assert results.failures == ["a::bad", "a::broken"]


def test_gtest_counts(tmp_path):
    tests = [{"name": "good", "status": "RUN", "result": "COMPLETED"},
             {"name": "bad", "status": "RUN", "result": "COMPLETED", "failures": [{}]},
             {"name": "absent", "status": "RUN", "result": "SKIPPED"},
             {"name": "disabled", "status": "NOTRUN", "result": "SUPPRESSED"}]
    report = {"testsuites": [{"name": "Suite", "testsuite": tests}]}
    (tmp_path / "r.json").write_text(json.dumps(report))
    results = run.Results()
    assert results.add_gtest(tmp_path / "r.json") == 4
    assert (results.passed, results.skipped, results.failures) == (1, 2, ["Suite.bad"])


@pytest.mark.parametrize("text, status, expected", [
    (JUNIT, None, "unit: stopped after 10 minutes"),
    (None, -11, "unit: ended with signal 11 and without a report"),
    (JUNIT[:50], 1, "unit: ended with exit status 1 and without a report"),
    ("<testsuites/>", 0, "unit: ran no tests"),
    ('<testsuites><testcase name="good"/></testsuites>', 3,
     "unit: exit status 3, although no test failed"),
])
def test_what_dies_is_a_failure(tmp_path, text, status, expected):
    if text is not None:
        (tmp_path / "r.xml").write_text(text)
    results = run.Results()
    run.judge(results, "unit", status, 600, tmp_path / "r.xml", results.add_junit)
    assert [failure[:len(expected)] for failure in results.failures] == [expected]


def test_hanging_commands_end():
    assert run.run([sys.executable, "-c", "import time; time.sleep(60)"], 0.2) is None
    assert run.run([sys.executable, "-c", "raise SystemExit(3)"], 60) == 3

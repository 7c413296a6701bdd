"""test/run.py counts what happened, and what died as a failure."""

import importlib.util
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
<testcase name="bad" classname="Suite" status="run" result="completed"><failure message="no"/></testcase>
<testcase name="absent" classname="Suite" status="run" result="skipped"><skipped message="A.cpp:78&#x0A;Skipped&#x0A;sanitizers: they keep freed memory"/></testcase>
<testcase name="disabled" classname="Suite" status="notrun" result="suppressed"/>
</testsuite></testsuites>"""


def test_gtest_counts(tmp_path):
    (tmp_path / "r.xml").write_text(GTEST)
    results = run.Results()
    assert results.add_junit(tmp_path / "r.xml") == 4
    assert results.failures == ["Suite::bad", "Suite::disabled: disabled"]
    assert str(results) == "1 passed, 2 failed, 1 skipped (sanitizers 1)"


@pytest.mark.parametrize("reason, lacks", [
    ("long run: pytest --long", "long run"),
    ("Missing required feature(s): corpus", "corpus"),
    ("A.cpp:78&#10;Skipped&#10;sanitizers: they keep freed memory", "sanitizers"),
    ("mpirun is not installed", None),
    ("Missing required feature(s): clang-format", None),
    ("", None),
])
def test_skips_are_counted_by_what_they_lack(tmp_path, reason, lacks):
    """Whatever is not optional must be there."""
    (tmp_path / "r.xml").write_text(f'<testsuites><testcase classname="a" name="b"><skipped message="{reason}"/></testcase></testsuites>')
    results = run.Results()
    results.add_junit(tmp_path / "r.xml")
    assert results.skipped == ({lacks: 1} if lacks else {})
    assert [failure.split(":")[2] for failure in results.failures] == ([] if lacks else ["b"])


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
    run.judge(results, "unit", status, 600, tmp_path / "r.xml")
    assert [failure[:len(expected)] for failure in results.failures] == [expected]


def test_hanging_commands_end():
    assert run.Processes().run([sys.executable, "-c", "import time; time.sleep(60)"], 0.2) is None
    assert run.Processes().run([sys.executable, "-c", "raise SystemExit(3)"], 60) == 3

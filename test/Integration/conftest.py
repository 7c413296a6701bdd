import collections
import fcntl
import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path

import pytest
import pytest_timeout

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "python"), str(Path(__file__).resolve().parent)]

import harness  # noqa: E402
from models import CORPUS  # noqa: E402

BIN = harness.BUILD / "bin"


def pytest_addoption(parser):
    parser.addoption(
        "--tests",
        choices=["quick", "default", "long"],
        default="default",
        help=(
            "quick: each function once, with the first of its parameters, and none marked slow;"
            " default: all but those marked long"
        ),
    )
    parser.addoption(
        "--long", dest="tests", action="store_const", const="long", help="--tests=long"
    )
    parser.addoption(
        "--random-pairs",
        type=int,
        metavar="N",
        help="random graphs and grids to try (default: 30, with --long 500)",
    )
    parser.addoption(
        "--random-from",
        type=int,
        default=0,
        metavar="SEED",
        help="the first of their seeds (default: 0)",
    )


def left_out(item, level, seen):
    """Returns why a test is not part of the level, or None. The reason begins with a name of
    test/run.py's OPTIONAL. `seen` has the functions of earlier tests.
    """
    if item.get_closest_marker("long"):
        item.add_marker(pytest.mark.timeout(0))
        return None if level == "long" else "long run: pytest --long"
    function = item.nodeid.split("[")[0]
    repeated = function in seen
    seen.add(function)
    if level == "quick" and (repeated or item.get_closest_marker("slow")):
        return "full run: pytest"
    return None


def pytest_collection_modifyitems(config, items):
    level, seen = config.getoption("--tests"), set()
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    reasons = {item: left_out(item, level, seen) for item in items}
    if path := os.environ.get("TPC_LEFT_OUT"):
        # test/run.py needs only their number: thousands of skips take seconds.
        counts = collections.Counter(reason.split(":")[0] for reason in reasons.values() if reason)
        Path(path).write_text(json.dumps(counts))
        items[:] = [item for item in items if not reasons[item]]
    for item in items:
        if reasons[item]:
            item.add_marker(pytest.mark.skip(reason=reasons[item]))
    items.sort(key=lambda item: item.path not in slow)


def pytest_timeout_set_timer(item, settings):
    """Sets the limit of pytest.ini on a clock that slows down on a busy machine."""
    if settings.method != "signal" or threading.current_thread() is not threading.main_thread():
        return None
    clock = harness.LoadClock()

    def look(*_):
        __tracebackhide__ = True
        if clock.seconds() >= settings.timeout:
            signal.setitimer(signal.ITIMER_REAL, 0)
            pytest_timeout.timeout_sigalrm(item, settings)

    def cancel():
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    item.cancel_timeout = cancel
    signal.signal(signal.SIGALRM, look)
    pause = min(5.0, settings.timeout)
    signal.setitimer(signal.ITIMER_REAL, pause, pause)
    return True


def pytest_terminal_summary(terminalreporter):
    for path, library in harness.stale_tools():
        terminalreporter.write_line(
            f"{path} is older than {library}, and may contain an older compiler: run"
            f" ninja -C {harness.BUILD}"
        )


@pytest.fixture
def corpus():
    if not CORPUS.is_dir():
        pytest.skip("corpus: its ONNX files are absent (set TPC_CORPUS)")
    return CORPUS


@pytest.fixture(scope="session")
def tpcc(tmp_path_factory):
    """Returns the compiler. Compilations are shared between the tests of a session."""
    if not harness.tool("tpcc").exists():
        pytest.fail(f"{harness.tool('tpcc')} is not built")
    top = tmp_path_factory.getbasetemp()
    top = top.parent if os.environ.get("PYTEST_XDIST_WORKER") else top
    return harness.Compiler(tmp_path_factory.mktemp("compiled"), top / "programs")


@pytest.fixture(scope="session")
def mpi():
    if not shutil.which("mpirun"):
        pytest.fail("mpirun is not installed")
    return "mpi"


@pytest.fixture(scope="session")
def model_124m(tmp_path_factory):
    """Returns GPT-2 124M with seeded weights, which are written once to the build directory."""
    from tpc import weights

    if not harness.BUILD.is_dir():
        pytest.fail(f"{harness.BUILD} does not exist")
    directory = harness.BUILD / "models"
    source = TOP / "test" / "Models" / "gpt2-124m.onnx"
    copy, data = directory / source.name, directory / f"{source.name}.data"
    directory.mkdir(exist_ok=True)
    # Test files run in parallel.
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (data.exists() and copy.exists() and copy.read_bytes() == source.read_bytes()):
            weights.write_weights(source, directory)
    return copy


@pytest.fixture(autouse=True)
def no_findings(request):
    """Fails a test of GPU programs if the simulator has findings."""
    if request.path.parent.name != "cuda":
        yield
        return
    path = request.getfixturevalue("tmp_path") / "simulator-findings"
    request.getfixturevalue("monkeypatch").setenv("TPC_SIM_FINDINGS", str(path))
    yield
    # Ranks that are late on a busy machine are not findings. Ranks that never arrive end at a
    # limit.
    found = (
        [line for line in path.read_text().splitlines() if ": stuck: " not in line]
        if path.exists()
        else []
    )
    assert not found, "\n".join(found[:20])

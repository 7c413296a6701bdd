"""Generation in a process with a loaded program: the tokens of the executable, in any call order.

The program is hand-written (runtime/generate/test/program). Each token depends on the whole
sequence.
"""

import importlib.util
import shutil
import sys

import numpy as np
import pytest

from harness import BUILD, TOP, run, sanitized

pytestmark = pytest.mark.skipif(
    sanitized(), reason="sanitizers: the Python process needs them too"
)

PROGRAM = BUILD / "test" / "bin" / "tpc-generate-test-program"
LIBRARY = BUILD / "test" / "bin" / "tpc-generate-test-library.so"
GRIDS = {
    "one rank": {},
    "tp3": {"TEST_TP": "3"},
    "pp2": {"TEST_PP": "2", "TEST_MB": "2"},
    "dp2": {"TEST_DP": "2", "TEST_TP": "2"},
}
PROMPTS = [[12, 7, 99], [3], [5, 4, 3, 2, 1, 0, 9, 8, 7, 6]]
START = """
import os, sys, threading, time
import numpy as np
import tpc
from tpc import TpcError

def refused(words, call, *arguments, **settings):
    try:
        call(*arguments, **settings)
    except TpcError as error:
        assert all(word in str(error) for word in words), error
        return error
    raise AssertionError(f"there is no error with {words}")

session = tpc.load(sys.argv[1])
PROMPTS = %r
""" % PROMPTS


def python(text, grid="one rank", **env):
    """Runs Python in a separate process. The environment sets the grid of the program."""
    return run(
        [sys.executable, "-c", START + text, LIBRARY],
        env={"PYTHONPATH": str(TOP / "python"), **GRIDS[grid], **env},
        timeout=120,
    ).check()


def executable_tokens(prompt, *flags, grid="one rank"):
    output = (
        run([PROGRAM, "--prompt-ids", ",".join(map(str, prompt)), *flags], env=GRIDS[grid])
        .check()
        .stdout
    )
    return [int(token) for token in output.split()]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize(
    "flags, settings",
    [
        (["--max-new-tokens", "20"], "max_new_tokens=20"),
        (
            [
                "--max-new-tokens",
                "9",
                "--temperature",
                "0.8",
                "--top-k",
                "20",
                "--top-p",
                "0.9",
                "--seed",
                "5",
                "--repetition-penalty",
                "1.2",
            ],
            (
                "max_new_tokens=9, temperature=0.8, top_k=20, top_p=0.9, seed=5,"
                " repetition_penalty=1.2"
            ),
        ),
    ],
    ids=["greedy", "drawn"],
)
def test_tokens_equal_those_of_the_executable(grid, flags, settings):
    expected = executable_tokens(PROMPTS[0], *flags, grid=grid)
    assert len(expected) in (9, 20)
    python(
        f"""
expected = {expected}
for _ in range(2):
    found = session.generate(np.array(PROMPTS[0]), {settings})
    assert found.dtype == np.int64 and found.tolist() == expected, found
    assert list(session.stream(PROMPTS[0], {settings})) == expected
rows = session.generate([PROMPTS[0], PROMPTS[1]], {settings})
assert rows[0].tolist() == expected and len(rows) == 2, rows
""",
        grid,
    )


@pytest.mark.parametrize("grid", GRIDS)
def test_rows_run_together(grid):
    expected = [
        executable_tokens(prompt, "--max-new-tokens", "12", grid=grid) for prompt in PROMPTS
    ]
    stop = next(token for token in expected[0][2:] if token not in expected[0][:2])
    ended = [row[: row.index(stop) + 1] if stop in row else row for row in expected]
    python(
        f"""
assert [row.tolist() for row in session.generate(PROMPTS, max_new_tokens=12)] == {expected}
with session.stream(PROMPTS, max_new_tokens=12, stop_ids=[{stop}]) as tokens:
    rows = [[], [], []]
    for row, token in tokens:
        rows[row].append(token)
assert rows == {ended}, rows
assert tokens.finish == {["stop" if stop in row else "length" for row in expected]}, tokens.finish
assert session.generate(np.zeros((0, 3), int)) == []
assert session.generate(PROMPTS, max_new_tokens=0)[1].tolist() == []
""",
        grid,
    )


def test_invalid_arguments_are_reported_first():
    python("""
good = session.generate(PROMPTS[0], max_new_tokens=5).tolist()
for words, ids, settings in (
        (["empty"], [], {}), (["prompt 1", "empty"], [[1], []], {}),
        (["101", "at 1"], [1, 101], {}), (["-1"], [-1], {}),
        (["temperature -1"], [1], {"temperature": -1}), (["top_p 2"], [1], {"top_p": 2}),
        (["top_k -3"], [1], {"top_k": -3}),
        (["repetition_penalty 0"], [1], {"repetition_penalty": 0}),
        (["max_new_tokens -1"], [1], {"max_new_tokens": -1}),
        (["max_new_tokens"], [1], {"max_new_tokens": 2**63 - 1}),
        (["stop id 101"], [1], {"stop_ids": [101]}), (["seed -1"], [1], {"seed": -1}),
        (["row of token ids", "float64"], [1.5], {}),
        (["top_k 1.5", "integer"], [1], {"top_k": 1.5}),
        (["row of token ids"], np.zeros((2, 2, 2), int), {}),
        (["not a number"], [1], {"temperature": "warm"}),
        (["max_new_tokens", str(2**64 + 3)], [1], {"max_new_tokens": 2**64 + 3}),
        (["top_k", str(2**64)], [1], {"top_k": 2**64}), (["seed"], [1], {"seed": 2**64}),
        (["seed"], [1], {"seed": 0.5}),
        ([str(2**63 + 5)], np.array([2**63 + 5], np.uint64), {}),
        (["row of token ids"], [2**70], {}),
        (["row of token ids", "12,7"], "12,7", {}), (["row of token ids"], 7, {}),
        (["row of token ids"], np.array(7), {}),
        (["stop_ids", "float64"], [1], {"stop_ids": [1.5]}),
        (["stop_ids", "50"], [1], {"stop_ids": 50}),
        (["a row of rows"], [[1], [2, [3, 4]]], {}), (["row of token ids", "None"], None, {}),
        (["row of token ids"], [None], {}),
        (["row of token ids"], [[1], None], {}), (["row of token ids"], b"12", {}),
        (["row of token ids"], {1: 2}, {}),
        (["row of token ids", "'1'"], ["1", "2"], {}),
        (["row of token ids", "True"], [True], {}), (["row of token ids", "True"], [[True]], {}),
        (["row of token ids", "True"], [1, True], {}),
        (["row of token ids", "bool"], np.array([True]), {}),
        (["stop_ids", "True"], [1], {"stop_ids": [True]}),
        (["max_new_tokens True"], [1], {"max_new_tokens": True}),
        (["temperature True"], [1], {"temperature": True}),
        (["generate() has no setting 'nonsense'; it has max_new_tokens, "], [1], {"nonsense": 1}),
        (["'temprature' (did you mean 'temperature'?)"], [1], {"temprature": None}),
        (["row of token ids"], 10**5000, {}),
        (["row of token ids"], object(), {}), (["mask"], np.ma.array([1, 2], mask=[0, 1]), {}),
        (["mask"], [np.ma.array([1, 2], mask=[0, 1]), [3]], {}), (["mask"], [np.ma.masked, 1], {}),
        (["temperature None", "not a number"], [1], {"temperature": None}),
        (["temperature [1]"], [1], {"temperature": [1]}),
        (["temperature 1e+39"], [1], {"temperature": 1e39}),
        (["temperature 1e+308"], [1], {"temperature": 1e308}),
        (["temperature inf"], [1], {"temperature": float("inf")}),
        (["temperature nan"], [1], {"temperature": float("nan")}),
        (["temperature", "digits"], [1], {"temperature": 10**400}),
        (["repetition_penalty 1e+39"], [1], {"repetition_penalty": 1e39}),
        (["top_p"], [1], {"top_p": 1j}), (["top_k None"], [1], {"top_k": None}),
        (["top_k", "digits"], [1], {"top_k": 10**5000}),
        (["max_new_tokens '3'"], [1], {"max_new_tokens": "3"}),
        (["seed None"], [1], {"seed": None}), (["stop_ids"], [1], {"stop_ids": None}),
        (["stop_ids"], [1], {"stop_ids": "50"}), (["stop_ids"], [1], {"stop_ids": [[1], [2, 3]]})):
    error = refused(words, session.generate, ids, **settings)
    assert not error.broken
    assert session.generate(PROMPTS[0], max_new_tokens=5).tolist() == good
for row in (tuple(PROMPTS[0]), iter(PROMPTS[0]), np.array(PROMPTS[0], np.uint8)):
    assert session.generate(row, max_new_tokens=5, stop_ids=set()).tolist() == good
with tpc.load(sys.argv[1], max_sequence=8, max_batch=2) as small:
    refused(["10 tokens", "8"], small.generate, PROMPTS[2])
    assert small.generate(PROMPTS[0], max_new_tokens=5).tolist() == good
    assert small.generate([PROMPTS[0]] * 5, max_new_tokens=5)[4].tolist() == good
    assert len(small.generate(PROMPTS[0], max_new_tokens=50)) == 6
refused(["belong to each request"], tpc.load, sys.argv[1], temperature=1)
refused(["belong to each request"], tpc.load, sys.argv[1], prompt_ids="1,2")
session.close()
refused(["closed"], session.generate, [1])
refused(["stream() has no setting 'seeds' (did you mean 'seed'?)"], session.stream, [1], seeds=1)
""")


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("every", [0, 1], ids=["last", "all"])
def test_run_returns_logits(grid, every):
    """Logits of the next token or, if the program keeps them, of each token. The most probable
    token is the generated one.
    """
    python(
        f"""
assert [port.name for port in session.inputs] == ["ids"]
assert session.description["generation"]["vocabulary"] == 101
ids = np.array([PROMPTS[0], [1, 2, 3]])
logits = session.run({{"ids": ids}})["logits"]
assert logits.shape == ((2, 3, 101) if {every} else (2, 101)), logits.shape
last = logits[:, -1] if {every} else logits
assert last.argmax(1).tolist() == [row[0] for row in session.generate(ids, max_new_tokens=1)]
assert np.array_equal(session.run({{"ids": ids[:1].astype(np.int32)}})["logits"][0], logits[0])
if {every}:
    assert np.array_equal(session.run({{"ids": ids[:, :2]}})["logits"], logits[:, :2])
for words, inputs in ((["'lengths'", "'ids'"], {{"ids": ids, "lengths": ids}}),
                      (["missing", "'ids'"], {{}}),
                      (["[batch, sequence]", "[3]"], {{"ids": ids[0]}}),
                      (["0 to 100"], {{"ids": ids + 99}})):
    refused(words, session.run, inputs)
""",
        grid,
        TEST_ALL=str(every),
    )


def test_errors_of_one_row_do_not_affect_others():
    """A sequence with token 66 gets a NaN logit."""
    python("""
good = session.generate(PROMPTS[0], max_new_tokens=5).tolist()
rows, tokens = [[], []], session.stream([[66], PROMPTS[0]], max_new_tokens=5)
try:
    for row, token in tokens:
        rows[row].append(token)
    raise AssertionError("there is no error")
except TpcError as error:
    assert "prompt 0" in str(error) and "NaN" in str(error) and not error.broken, error
assert rows == [[], good] and tokens.finish == ["error", "length"], (rows, tokens.finish)
refused(["NaN"], session.generate, [66])
assert session.generate(PROMPTS[0], max_new_tokens=5).tolist() == good
""")


def test_streams_may_be_abandoned():
    python("""
with session.stream(PROMPTS[0], max_new_tokens=10**7) as tokens:
    first = [next(tokens) for _ in range(5)]
assert first == session.generate(PROMPTS[0], max_new_tokens=5).tolist()
assert list(tokens) == []
open_one = session.stream(PROMPTS, max_new_tokens=10**7)
next(open_one)
session.close()
refused(["closed"], next, open_one)
refused(["closed"], session.generate, [1])
left = tpc.load(sys.argv[1]).stream(PROMPTS, max_new_tokens=10**7)  # and the interpreter ends
next(left)
""")


def test_calls_of_many_threads_take_turns():
    python("""
expected = [session.generate(prompt, max_new_tokens=7).tolist() for prompt in PROMPTS]
wrong = []
def work(number):
    for turn in range(10):
        index = (number + turn) % 3
        if session.generate(PROMPTS[index], max_new_tokens=7).tolist() != expected[index]:
            wrong.append(number)
threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not wrong
""")


def test_programs_that_do_not_generate(tpcc):
    from models import COMMITTED

    import tpc

    with tpc.load(tpcc.compile(COMMITTED["gpt2-mlp"].path).path) as session:
        with pytest.raises(tpc.TpcError, match="single steps.*--generate"):
            session.generate([1, 2, 3])


def test_installed_package(tmp_path):
    """`pip install ./python` installs all modules of the package, and needs nothing else of this
    repository. If there is no `wheel` (which pip downloads if there is a network), the test checks
    the files that would be in the wheel.
    """
    pytest.importorskip("setuptools", reason="setuptools: it is not installed")
    source, target = tmp_path / "source", tmp_path / "installed"
    shutil.copytree(
        TOP / "python", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    )
    if importlib.util.find_spec("wheel"):
        run(
            [
                sys.executable,
                "-m",
                "pip",
                "install",
                "-q",
                "--no-index",
                "--no-deps",
                "--no-build-isolation",
                "--target",
                target,
                source,
            ]
        ).check()
    else:
        run(
            [
                sys.executable,
                "-c",
                (
                    "import sys; from setuptools import build_meta;"
                    " build_meta.build_sdist(sys.argv[1])"
                ),
                tmp_path,
            ],
            cwd=source,
        ).check()
        shutil.unpack_archive(next(tmp_path.glob("tpc-*.tar.gz")), tmp_path / "unpacked")
        target = next((tmp_path / "unpacked").iterdir())
    assert {path.name for path in (target / "tpc").glob("*.py")} == {
        path.name for path in (TOP / "python" / "tpc").glob("*.py")
    }
    text = f"""
import sys
import tpc
assert tpc.__file__.startswith({str(target)!r}), tpc.__file__
with tpc.load(sys.argv[1]) as session:
    print(*session.generate({PROMPTS[0]}, max_new_tokens=5))
"""
    output = (
        run([sys.executable, "-c", text, LIBRARY], env={"PYTHONPATH": str(target)}, cwd=tmp_path)
        .check()
        .stdout
    )
    assert [int(token) for token in output.split()] == executable_tokens(
        PROMPTS[0], "--max-new-tokens", "5"
    )

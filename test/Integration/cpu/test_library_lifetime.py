"""Lifetime of loaded programs: errors, threads, forks, replaced files, exported symbols."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tpc
from harness import TOP, configured, run, sanitized
from models import COMMITTED
from loaded_programs import IDS, TINY, executable, expected, library  # noqa: F401 (fixtures)

pytestmark = pytest.mark.skipif(
    sanitized(), reason="sanitizers: the Python process needs them too"
)
HEADER = TOP / "runtime" / "include" / "tpc" / "session.h"


def python(text, *arguments, **options):
    """Runs Python in a separate process with the same environment."""
    return run(
        [
            sys.executable,
            "-c",
            "import os, sys\nimport numpy as np\nimport tpc\n" + text,
            *arguments,
        ],
        env={"PYTHONPATH": str(TOP / "python"), **options.pop("env", {})},
        **options,
    )


def test_sessions_survive_errors_in_steps(tpcc, tmp_path):
    """Kernels detect an index out of bounds; the ranks stop, and the next call restarts them."""
    table = np.arange(1, 41, dtype=np.float32).reshape(10, 4)
    nodes = [
        helper.make_node("CumSum", ["ids", "one"], ["sum"]),
        helper.make_node("Gather", ["table", "sum"], ["y"], name="lookup"),
    ]
    body = helper.make_graph(
        nodes,
        "lookup",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence", 4])],
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(np.int64(1), "one")],
    )
    onnx.save(
        helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "m.onnx",
    )
    program = tpcc.compile(tmp_path / "m.onnx", "tp2")
    good = np.ones((2, 9), np.int64)
    with tpc.load(program.path) as session:
        for _ in range(3):
            assert np.array_equal(session.run({"ids": good})["y"], table[np.cumsum(good, 1)])
            with pytest.raises(tpc.TpcError, match="lookup.*10 of 10") as error:
                session.run({"ids": np.ones((1, 10), np.int64)})
            assert error.value.broken


def test_arrays_outlive_their_session(executable, expected):
    session = tpc.load(executable.path)
    first = session.run({"input_ids": IDS})["logits"]
    rows = first[1:, :, 5]
    second = session.run({"input_ids": IDS[:, ::-1]})["logits"]
    session.close()
    session.close()
    assert np.array_equal(first, expected) and not np.array_equal(second, expected)
    del first, second, session
    assert np.array_equal(rows, expected[1:, :, 5])


def test_concurrent_sessions(executable, library, expected):
    """Two programs in one process, one of them twice, called from many threads."""
    sessions = [
        tpc.load(executable.path, threads=1),
        tpc.load(library, threads=1),
        tpc.load(library, threads=1),
    ]
    wrong = []

    def work(session, turns):
        for turn in range(turns):
            if turn % 3 == 1:
                with pytest.raises(tpc.TpcError):
                    session.run({"input_ids": IDS + 1000})
            elif not np.array_equal(session.run({"input_ids": IDS})["logits"], expected):
                wrong.append(session)

    threads = [
        threading.Thread(target=work, args=(session, 12)) for session in sessions for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    # The selected compute libraries apply to all programs of an open library.
    with pytest.raises(tpc.TpcError, match="already open.*--products=onednn"):
        tpc.load(library, products="onednn")
    for session in sessions:
        session.close()


def test_closing_a_model_ends_its_ranks(executable):
    def threads():
        return len(os.listdir("/proc/self/task"))

    with tpc.load(executable.path, threads=2) as session:
        session.run({"input_ids": IDS})
        assert threads() > 4
    before = threads()
    for _ in range(5):
        with tpc.load(executable.path, threads=2) as session:
            session.run({"input_ids": IDS})
    # A joined thread may still be listed for a moment, before or after.
    deadline = time.monotonic() + 10
    while threads() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threads() <= before


def test_the_interpreter_ends_with_open_sessions(executable):
    result = python(
        "s = tpc.load(sys.argv[1]); print(s.run({'input_ids': np.zeros((1, 3),"
        " int)})['logits'].shape)",
        executable.path,
    ).check()
    assert result.stdout == "(1, 3, 1000)\n" and not result.stderr


def test_launchers_are_ignored(executable):
    """A process of torchrun runs all ranks of a loaded program."""
    python(
        "tpc.load(sys.argv[1]).run({'input_ids': np.zeros((1, 3), int)})",
        executable.path,
        env={"RANK": "0", "WORLD_SIZE": "7", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"},
    ).check()


def test_forks(executable):
    """A forked child does not have the threads: it gets an error and can open its own model; the
    parent continues."""
    python(
        """
path, ids = sys.argv[1], np.arange(14).reshape(2, 7)
session = tpc.load(path, threads=2)
expected = session.run({"input_ids": ids})["logits"]
child = os.fork()
if not child:
    try:
        session.run({"input_ids": ids})
        os._exit(3)
    except tpc.TpcError as error:
        assert "fork" in str(error), error
    session.close()
    with tpc.load(path, threads=2) as own:
        assert np.array_equal(own.run({"input_ids": ids})["logits"], expected)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert np.array_equal(session.run({"input_ids": ids})["logits"], expected)
""",
        executable.path,
        timeout=60,
    ).check()


def test_a_new_file_of_the_same_name_is_loaded(tpcc, tmp_path, expected):
    path = tmp_path / "model"
    tpcc.call([COMMITTED["gpt2-mlp"].path, "-o", path]).check()
    old = tpc.load(path)
    tpcc.call([TINY.path, "--megatron-shard=tp2,pp2", "-o", path]).check()
    with tpc.load(path) as session:
        assert np.array_equal(session.run({"input_ids": IDS})["logits"], expected)
    assert old.run({"hidden_states": np.zeros((1, 2, 40), np.float32)})["output"].shape == (
        1,
        2,
        40,
    )
    old.close()


def test_weights_next_to_the_library(tpcc, tmp_path, expected):
    (tmp_path / "made").mkdir()
    shutil.copy(TINY.path, tmp_path / "made" / "tiny.onnx")
    tpcc.call(
        [
            tmp_path / "made" / "tiny.onnx",
            "--megatron-shard=tp2,pp2",
            "-o",
            tmp_path / "made" / "model",
        ]
    ).check()
    (tmp_path / "made").rename(tmp_path / "moved")
    with tpc.load(tmp_path / "moved" / "model") as session:
        assert np.array_equal(session.run({"input_ids": IDS})["logits"], expected)
    (tmp_path / "moved" / "tiny.onnx").unlink()
    with pytest.raises(tpc.TpcError, match="tiny.onnx"):
        tpc.load(tmp_path / "moved" / "model")


def test_notes_are_kept(executable, capfd):
    with tpc.load(executable.path, verify_weights=True) as session:
        assert len(session.notes) == 1 and "--digest-weights" in session.notes[0]
    assert capfd.readouterr() == ("", "")


def test_only_the_interface_is_exported(executable, library):
    declared = set(
        re.findall(r"\b(tpc_\w+)\(", re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S))
    )
    for path in (executable.path, library):
        symbols = (
            run(["llvm-nm-22", "-D", "--defined-only", "--format=just-symbols", path])
            .check()
            .stdout.split()
        )
        assert set(symbols) == declared


HOST = r"""
#include "tpc/session.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void note(int number) { (void)number; }

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, tpc_last_error());
  return 1;
}

static const int signals[] = {SIGXFSZ, SIGTERM, SIGINT, SIGPIPE, SIGUSR1, SIGSEGV, SIGCHLD};

int main(void) {
  struct sigaction action, now;
  memset(&action, 0, sizeof action);
  action.sa_handler = note;
  for (unsigned i = 0; i < sizeof signals / sizeof *signals; ++i)
    sigaction(signals[i], &action, NULL);
  sigset_t before, after;
  pthread_sigmask(SIG_BLOCK, NULL, &before);

  const char *flags[] = {"--threads-per-rank", "1"};
  tpc_model *model, *none = (tpc_model *)&action;
  if (tpc_model_open(1, (const char *[]){"--nonsense"}, &none) != TPC_REFUSED || none)
    return fail("nonsense");
  if (!strstr(tpc_last_error(), "--nonsense"))
    return fail("the error of nonsense");
  if (tpc_model_open(2, flags, &model))
    return fail("open");
  int64_t ids[] = {1, 2, 3, 4, 5, 6}, shape[] = {2, 3};
  tpc_tensor input = {"input_ids", TPC_I64, 2, shape, ids};
  tpc_results *results;
  tpc_tensor twice[] = {input, input}, wrong[] = {input, input, input, input, input};
  wrong[0].dtype = (tpc_dtype)77;
  wrong[1].shape = NULL;
  wrong[2].data = NULL;
  wrong[3].name = NULL;
  wrong[4].rank = -1;
  if (tpc_model_run(model, twice, 2, &results) != TPC_REFUSED || results)
    return fail("twice");
  for (int i = 0; i < 5; ++i)
    if (tpc_model_run(model, &wrong[i], 1, &results) != TPC_REFUSED || results)
      return fail("wrong");
  if (tpc_model_run(NULL, &input, 1, &results) != TPC_REFUSED ||
      tpc_model_run(model, NULL, 1, &results) != TPC_REFUSED ||
      tpc_model_run(model, &input, 1, NULL) != TPC_REFUSED ||
      tpc_model_open(0, NULL, NULL) != TPC_REFUSED)
    return fail("null");
  kill(getpid(), SIGUSR1); /* no rank takes it, and nothing ends */
  if (tpc_model_run(model, &input, 1, &results))
    return fail("run");
  tpc_model_close(model);
  if (results->count != 1 || strcmp(results->tensors->name, "logits") ||
      results->tensors->rank != 3 ||
      results->tensors->shape[1] != 3)
    return fail("results");
  fwrite(results->tensors->data, sizeof(float), 2 * 3 * 1000, stdout);
  tpc_results_free(results);
  tpc_results_free(NULL);
  tpc_model_close(NULL);
  for (unsigned i = 0; i < sizeof signals / sizeof *signals; ++i) {
    sigaction(signals[i], NULL, &now);
    if (now.sa_handler != note)
      return fail("a signal has another handler");
  }
  pthread_sigmask(SIG_BLOCK, NULL, &after);
  for (int i = 1; i < NSIG; ++i) /* not memcmp: the rest of a set is not written */
    if (sigismember(&before, i) != sigismember(&after, i))
      return fail("other signals are blocked");
  return tpc_session_version() != TPC_SESSION_VERSION;
}
"""


def test_from_c(library, executable, tmp_path):
    (tmp_path / "host.c").write_text(HOST)
    run(
        [
            configured("CMAKE_C_COMPILER") or "cc",
            "-std=c11",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-I{HEADER.parents[1]}",
            tmp_path / "host.c",
            library,
            "-o",
            tmp_path / "host",
            f"-Wl,-rpath,{library.parent}",
        ]
    ).check()
    result = subprocess.run([tmp_path / "host"], capture_output=True, timeout=60)
    assert result.returncode == 0 and not result.stderr, result.stderr
    ids = np.arange(1, 7).reshape(2, 3)
    assert np.array_equal(
        np.frombuffer(result.stdout, np.float32).reshape(2, 3, 1000),
        executable.run({"input_ids": ids})["logits"],
    )

"""Matmuls of --products=onednn, by a library that is searched for at run time.

Where oneDNN is not installed, a substitute is used (runtime/cpu/test/onednn). TPC_ONEDNN names the
folder of a real libdnnl.so.3.
"""

import json
import os
import re
import subprocess

import numpy as np
import pytest

from harness import BUILD, LAUNCH, Grid, configured, run
from models import COMMITTED, FAMILIES
from tpc.reference import Session, difference

ALL = {**COMMITTED, **FAMILIES}
FAKE = BUILD / "test" / "onednn"
FOLDERS = {"fake": FAKE, "real": os.environ.get("TPC_ONEDNN")}


def environment(folder):
    return {"LD_LIBRARY_PATH": str(folder)}


@pytest.fixture(params=FOLDERS)
def folder(request):
    if not FOLDERS[request.param]:
        pytest.skip("oneDNN: no library of its own (set TPC_ONEDNN to the folder of libdnnl.so.3)")
    return FOLDERS[request.param]


# Fused biases, activations and residuals; a tied head; grouped heads; caches; ranks as threads and
# as processes.
@pytest.mark.parametrize(
    "name, grid, transport",
    [
        ("gpt2-tiny", "tp1", "threads"),
        ("gpt2-tiny", "tp2,pp2", "tcp"),
        ("llama-past", "tp2", "threads"),
        ("gemma2-past", "tp2,dp2", "threads"),
        ("bloom-dynamo", "tp3,sp", "threads"),
    ],
)
def test_results_are_those_of_onnx_runtime(tpcc, folder, name, grid, transport):
    model = ALL[name]
    program = tpcc.compile(model.path, grid)
    outputs = [output["name"] for output in program.describe()["outputs"]]
    inputs = model.inputs(
        2, 70, padding="left" if model.padded else "none", past=3 if model.past_name else 0
    )
    expected = Session(model.path).run(inputs)
    found = program.run(inputs, outputs, transport, ["--products=onednn"], env=environment(folder))
    for output in outputs:
        assert difference(found[output], expected[output]).relative <= 1e-5, output


def test_bits_do_not_depend_on_threads(tpcc, folder):
    model = ALL["gpt2-tiny"]
    program = tpcc.compile(model.path, "tp1")
    inputs = model.inputs(3, 90)
    one, three = (
        program.run(
            inputs,
            arguments=["--products=onednn", f"--threads-per-rank={threads}"],
            env=environment(folder),
        )
        for threads in (1, 3)
    )
    np.testing.assert_array_equal(one["logits"], three["logits"])


BENCH = ("--bench", "--shape", "batch=1,sequence=2", "--repeat", "1", "--warmup", "0", "--verbose")


def test_library_is_named(tpcc):
    program = tpcc.compile(ALL["gpt2-tiny"].path, Grid(tp=2))
    result = program.call([*BENCH, "--products=onednn"], env=environment(FAKE)).check()
    assert json.loads(result.stdout)["products"] == "oneDNN 3.99.0 (isa 0)"
    assert "products by oneDNN 3.99.0 (isa 0)" in result.stderr
    result = program.call(BENCH).check()
    assert json.loads(result.stdout)["products"] == "tpc" and "products by tpc" in result.stderr


def test_unusable_library(tpcc, tmp_path):
    program = tpcc.compile(ALL["gpt2-tiny"].path, Grid(tp=2))
    needs = "--products=onednn needs libdnnl.so.3, but "
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "empty.c").write_text("int nothing;")
    subprocess.run(
        [
            configured("CMAKE_C_COMPILER"),
            "-shared",
            "-o",
            empty / "libdnnl.so.3",
            tmp_path / "empty.c",
        ],
        check=True,
    )
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "libdnnl.so.3").write_text("no library")
    for environ, words in [
        (environment(tmp_path / "text"), "it cannot be loaded: "),
        (environment(empty), "it has no function dnnl_version: oneDNN 3 is needed"),
        ({**environment(FAKE), "FAKE_ONEDNN": "old"}, "it is version 2: oneDNN 3 is needed"),
        (
            {**environment(FAKE), "FAKE_ONEDNN": "tbb"},
            "it has threads that this program cannot limit",
        ),
    ]:
        program.call([*BENCH, "--products=onednn"], env=environ).refused(needs + words)
    program.call([*BENCH, "--products=mkl"]).refused("--products=mkl: expected 'tpc' or 'onednn'")
    # If one of several ranks fails, all exit, with one message.
    script = f'if [ $RANK = 1 ]; then export LD_LIBRARY_PATH={empty}; fi; exec "$@"'
    result = run(
        [*LAUNCH, "-n", 2, "sh", "-c", script, "-", program.path, *BENCH, "--products=onednn"],
        env=environment(FAKE),
    )
    result.refused(f"error: rank 1: {needs}it has no function")
    assert len(re.findall("^error:", result.stderr, re.M)) == 1, result


def test_ranks_must_use_one_library(tpcc):
    program = tpcc.compile(ALL["gpt2-tiny"].path, Grid(tp=2))
    script = 'if [ $RANK = 1 ]; then set -- "$@" --products=onednn; fi; exec "$@"'
    result = run(
        [*LAUNCH, "-n", 2, "sh", "-c", script, "-", program.path, *BENCH], env=environment(FAKE)
    )
    result.refused(
        "rank 1 does not run the same as rank 0: another library for products (rank 0 has tpc, rank"
        " 1 has "
    )
    assert len(re.findall("^error:", result.stderr, re.M)) == 1, result

"""Compiled programs serve on each transport, with killed ranks, many steps, and deleted files."""

import dataclasses
import os
import shutil
import signal

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from generation import CAUSAL, decided, expected
from harness import Grid, run, sanitized, tool
from liveness import processes_of, until
from models import COMMITTED
from service import Service

MODEL = CAUSAL["gpt2-tiny"]
PROMPTS = [one["prompt"] for one in expected()[MODEL.name]]
FEW = ["--max-new-tokens", "4"]


@pytest.fixture(scope="module")
def program(tpcc):
    return tpcc.compile(MODEL.path, Grid(tp=2, pp=2), "--generate")


@pytest.fixture(scope="module")
def alone(program):
    """Returns the tokens of each prompt when served alone."""
    with Service(program, "--max-batch", "1") as service:
        return [service.generate(prompt, 24) for prompt in PROMPTS]


@pytest.mark.parametrize(
    "grid,transport",
    [
        ("tp1", "threads"),
        ("tp2,pp2", "threads"),
        ("tp2", "mpi"),
        ("dp2", "tcp"),
        ("tp2,pp2,mb2", "threads"),
    ],
)
def test_requests_run_together(tpcc, request, alone, grid, transport):
    """Each of eight requests in four slots gets the same answer as alone."""
    if transport == "mpi":
        request.getfixturevalue("mpi")
    with Service(
        tpcc.compile(MODEL.path, grid, "--generate"), "--max-batch", "4", transport=transport
    ) as service:
        names = [
            service.ask(f"p{index}", prompt, 24 - index) for index, prompt in enumerate(PROMPTS)
        ]
        for index, name in enumerate(names):
            answer = service.answer(name)
            assert (answer.finish, len(answer.tokens)) == ("length", 24 - index)
            steps = min(24 - index, decided(expected()[MODEL.name][index]["margins"]))
            assert answer.tokens[:steps] == alone[index][:steps]
        assert service.close() == 0


def test_slots_are_used_again(program, alone):
    """Stale cache contents of a longer sequence do not change the bits of results."""
    with Service(program, "--max-batch", "1") as service:
        service.generate(range(100), 28)
        for index in (7, 0, 5):
            assert service.generate(PROMPTS[index], 24) == alone[index]


@pytest.mark.parametrize("transport", ["tcp", "mpi"])
def test_a_rank_that_is_killed(program, alone, request, transport):
    """All other ranks end, and the output is complete lines."""
    if transport == "mpi":
        request.getfixturevalue("mpi")
    with Service(program, transport=transport) as service:
        for index in range(100):
            service.ask(f"a{index}", PROMPTS[0], 120)
        service.until(lambda: len(service.answers["a0"].tokens) > 10)
        os.kill(processes_of(program.path)[3], signal.SIGKILL)
        until(lambda: service.process.poll() is not None)
        service.reader.join()
        until(lambda: not processes_of(program.path))
        assert service.process.returncode != 0 and "rank 3" in service.printed()
        assert not service.wrong
        assert all(
            answer.tokens[:24] == alone[0][: len(answer.tokens)]
            for answer in service.answers.values()
        )


def resident_bytes(process):
    return int(open(f"/proc/{process.pid}/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sanitized(), reason="sanitizers: freed memory stays quarantined")
def test_memory_is_flat(program):
    """After twenty sequences, ten thousand steps in a hundred sequences use no more memory."""
    with Service(program, "--max-batch", "1") as service:
        random, steps, before = np.random.default_rng(0), 0, 0
        for sequence in range(120):
            prompt = random.integers(0, MODEL.vocab, random.integers(1, 28))
            steps += len(
                service.generate(
                    prompt, 100, temperature=float(sequence % 2), top_p=0.9, seed=sequence
                )
            )
            if sequence == 19:
                before = resident_bytes(service.process)
        assert steps >= 12000
        assert resident_bytes(service.process) - before <= 256 << 10


def test_the_first_token_needs_no_reload(tpcc, tmp_path, alone):
    """A started program reads no file again, so its executable can be deleted."""
    compiled = tpcc.compile(MODEL.path, Grid(tp=2, pp=2), "--generate")
    model, moved = tmp_path / MODEL.path.name, tmp_path / "program"
    shutil.copy(MODEL.path, model)
    shutil.copy(compiled.path, moved)
    with Service(
        dataclasses.replace(compiled, path=moved, scratch=tmp_path),
        f"--weights={tmp_path}",
        "--verbose",
    ) as service:
        until(lambda: "loaded" in service.printed() or service.process.poll() is not None)
        model.unlink()
        moved.unlink()
        assert service.generate(PROMPTS[1], 24) == alone[1]


def test_logits_that_are_nan(tpcc, tmp_path):
    """Every logit contains the NaN of a bias before the head."""
    model = onnx.load(MODEL.path)
    bias = next(tensor for tensor in model.graph.initializer if "ln_f.bias" in tensor.name)
    values = numpy_helper.to_array(bias).copy()
    values[-1] = np.nan
    bias.CopyFrom(numpy_helper.from_array(values, bias.name))
    onnx.save(model, tmp_path / "nan.onnx")
    program = tpcc.compile(tmp_path / "nan.onnx", Grid(tp=2, pp=2), "--generate")
    result = program.call(["--prompt-ids", "1,2,3", *FEW], timeout=60).refused(
        "nan", "after 3 tokens"
    )
    assert not result.stdout.strip(), result


def test_models_without_caches(tmp_path):
    run(
        [tool("tpcc"), COMMITTED["gpt2-mlp"].path, "--generate", "-o", tmp_path / "program"]
    ).refused("no attention", "generation")
    assert not list(tmp_path.iterdir())


def test_flags_of_the_compiler(tmp_path):
    run([tool("tpcc"), MODEL.path, "--generate=everything", "-o", tmp_path / "program"]).refused(
        "--generate", "all"
    )
    assert not list(tmp_path.iterdir())


def test_programs_that_do_not_generate(tpcc):
    plain = tpcc.compile(MODEL.path, Grid())
    for arguments in (["--prompt-ids", "1,2,3", *FEW], ["--serve-stdin"]):
        plain.call(arguments).refused(arguments[0], "--generate")

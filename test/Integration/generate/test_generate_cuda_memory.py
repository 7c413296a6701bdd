"""Memory and errors of GPU programs that generate, over simulated devices."""

import os
import re

import pytest

from generation import generate
from liveness import processes_of, until
from service import Service
from simulator import environment
from cuda_programs import MODEL, PROMPTS, compiled, no_assembler  # noqa: F401 (fixtures)

# ===--- memory and errors
# ------------------------------------------------------------------------------------------------

ROOM = ["--max-batch", "4", "--max-sequence", "128"]
ASKED = ["--prompt-ids", ",".join(["7"] * 60), "--max-new-tokens", "3", *ROOM]


@pytest.mark.parametrize("grid", ["tp1", pytest.param("tp2,pp2", marks=pytest.mark.long)])
def test_estimate_equals_use(tpcc, tmp_path, grid):
    program, usage, trace = compiled(tpcc, MODEL.path, grid), tmp_path / "usage", tmp_path / "trace"
    peak = lambda: max(int(line.split()[1]) for line in usage.read_text().splitlines())
    program.call(ASKED, env=environment(TPC_SIM_USAGE=usage)).check()
    most = peak()
    result = program.call(
        ASKED, env=environment(TPC_SIM_MEMORY=most - 1, TPC_SIM_TRACE=trace)
    ).refused(
        "Nothing was loaded",
        "caches",
        "ask for fewer or shorter sequences",
        "a step with batch=1, capacity=128, sequence=64 or batch=4, capacity=128, sequence=1 ",
    )
    assert int(re.search(r"needs [0-9.]+ [GM]iB \((\d+) bytes\)", result.stderr)[1]) == most
    assert "cuMemAlloc" not in trace.read_text()
    program.call(ASKED, env=environment(TPC_SIM_MEMORY=most)).check()


def test_the_plan_counts_caches(tpcc):
    """The plan counts keys and values of two layers and four sequences of 128 tokens."""
    cache_bytes = 2 * MODEL.layers * MODEL.hidden * 4 * 128 * 4
    for one in (compiled(tpcc, MODEL.path, "tp1"), tpcc.compile(MODEL.path, "tp1", "--generate")):
        output = one.call([*ASKED, "--verbose"]).check().stderr
        assert f"caches {cache_bytes / (1 << 20):.1f} MiB" in output


def test_memory_plan_needs_a_gpu(tpcc):
    """--describe needs no GPU, and refers to --verbose for the rest."""
    program = compiled(tpcc, MODEL.path, "tp1")
    output = (
        program.call(["--describe", *ROOM], env={"TPC_CUDA_LIBS": "/nonexistent"}).check().stdout
    )
    assert re.search(
        r"Memory for 4 sequences of at most 128 tokens, prompts by \d+: a run with --verbose"
        r" prints it before loading",
        output,
    )


@pytest.mark.parametrize("transport", ["threads", pytest.param("tcp", marks=pytest.mark.long)])
def test_gpu_without_memory_for_caches(tpcc, transport):
    """If another process takes free memory after the estimate, one rank reports the same message as
    on CPUs.
    """
    program, texts = compiled(tpcc, MODEL.path, "tp2"), []
    for count in range(8, 40):
        result = program.call(
            ASKED,
            transport,
            env=environment(TPC_SIM_INJECT=f"oom@{count}:1", TPC_SIM_FINDINGS=os.devnull),
        )
        texts += re.findall(r"^error: (.*)", result.stderr, re.M)
        if "a cache takes" in texts[-1]:
            break
    assert re.fullmatch(
        r"rank 1: out of memory: a cache takes \d+ bytes; use fewer or shorter sequences",
        texts[-1],
    ), texts


@pytest.mark.parametrize(
    "injection,words",
    [
        ("ecc@900:1", "CUDA_ERROR_ECC_UNCORRECTABLE"),
        pytest.param("address@1500:1", "CUDA_ERROR_ILLEGAL_ADDRESS", marks=pytest.mark.long),
    ],
)
def test_a_gpu_that_fails(tpcc, injection, words):
    """If a GPU fails in the middle of a sequence, the printed tokens are complete and right."""
    program = compiled(tpcc, MODEL.path, "tp2")
    alone = generate(program, PROMPTS[0], 24).tokens
    with Service(
        program, env={"TPC_SIM_INJECT": injection, "TPC_SIM_FINDINGS": os.devnull}
    ) as service:
        for index in range(20):
            service.ask(f"a{index}", PROMPTS[0], 100)
        until(lambda: service.process.poll() is not None)
        service.reader.join()
        assert (
            service.process.returncode == 1
            and words in service.printed()
            and "rank 1" in service.printed()
        )
        assert not service.wrong
        assert any(answer.tokens for answer in service.answers.values())
        assert all(
            answer.tokens[:24] == alone[: len(answer.tokens)] for answer in service.answers.values()
        )


@pytest.mark.parametrize("transport", ["tcp", pytest.param("mpi", marks=pytest.mark.long)])
def test_a_rank_that_is_killed(tpcc, request, transport):
    if transport == "mpi":
        request.getfixturevalue("mpi")
    program = compiled(tpcc, MODEL.path, "tp2,pp2")
    alone = generate(program, PROMPTS[0], 24).tokens
    with Service(
        program,
        transport=transport,
        env={"TPC_SIM_INJECT": "kill@1200:3", "TPC_SIM_FINDINGS": os.devnull},
    ) as service:
        for index in range(100):
            service.ask(f"a{index}", PROMPTS[0], 120)
        until(lambda: service.process.poll() is not None)
        service.reader.join()
        until(lambda: not processes_of(program.path))
        assert service.process.returncode != 0 and "rank 3" in service.printed()
        assert not service.wrong
        assert any(answer.tokens for answer in service.answers.values())
        assert all(
            answer.tokens[:24] == alone[: len(answer.tokens)] for answer in service.answers.values()
        )


@pytest.mark.parametrize(
    "arguments,words",
    [
        (
            ["--prompt-ids", ",".join(["1"] * 21), "--max-new-tokens", "1", "--max-sequence", "20"],
            ["21", "20"],
        ),
        (["--prompt-ids", "1,100000", "--max-new-tokens", "4"], ["100000"]),
        (
            ["--prompt-ids", "1", "--max-new-tokens", "4", "--max-sequence", "100000"],
            ["--max-sequence 100000", "is made for"],
        ),
        (["--max-new-tokens", "4"], ["--prompt-ids", "--serve-stdin"]),
    ],
)
def test_rejected_arguments(tpcc, arguments, words):
    """The message is the same as on CPUs, before any GPU is used."""
    programs = compiled(tpcc, MODEL.path, "tp1"), tpcc.compile(MODEL.path, "tp1", "--generate")
    output = [
        one.call(arguments).refused(*words).stderr.replace(str(one.path), "PROGRAM")
        for one in programs
    ]
    assert output[0] == output[1]

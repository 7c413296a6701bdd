"""GPU programs that generate use the runtime's GEMV kernels, on simulated devices."""

import dataclasses
import re

import numpy as np
import pytest

from cuda_programs import MODEL, compiled, no_assembler  # noqa: F401 (fixtures)
from generation import CAUSAL, decided, expected, generate
from simulator import FLAGS, environment
from test_split_steps import StepSequence, step_of  # noqa: F401 (a fixture)
from tpc.reference import TOLERANCE, difference


CHOSEN = [("gpt2-tiny", "tp1"), ("llama-dynamo", "tp2")]


@pytest.mark.parametrize(
    "name,grid",
    [
        pytest.param(name, grid, marks=[] if (name, grid) in CHOSEN else pytest.mark.long)
        for name in CAUSAL
        for grid in ["tp1", "tp2"]
    ],
)
def test_tokens_equal_those_of_cpus(tpcc, tmp_path, name, grid):
    """GEMV kernels compute all matmuls of one token whose sizes they support."""
    model, asked = CAUSAL[name], expected()[name][0]
    host = generate(tpcc.compile(model.path, grid, "--generate"), asked["prompt"], 6)
    steps = min(decided(asked["margins"]), 6)
    counts = {}
    for use in ("always", "never"):
        trace = tmp_path / use
        program = compiled(tpcc, model.path, grid, TPC_GEMV=use, TPC_SIM_TRACE=trace)
        generated = generate(program, asked["prompt"], 6, "--deterministic")
        assert generated.tokens[:steps] == host.tokens[:steps] == asked["ids"][:steps]
        counts[use] = len(re.findall(r"cublasLtMatmul ", trace.read_text()))
    # The rows of other weights are not aligned to 16 bytes.
    is_supported = model.hidden % 8 == 0
    assert (counts["always"] < counts["never"]) == is_supported


@pytest.mark.parametrize(
    "name,layer,others",
    [
        ("gpt2-tiny", 6, 11),
        # Others compute positions, cosines, embeddings, the head, the token and the next inputs.
        # The last layer has separate kernels for queries and keys, because a prompt needs queries
        # of its last token only.
        ("llama-dynamo", 6, 14),
        pytest.param("llama-deep", 6, 14, marks=pytest.mark.long),
    ],
)
def test_kernels_of_a_decode_step(tpcc, tmp_path, name, layer, others):
    """Counts the launches of the recorded step: `layer` for each layer. All but the first may begin
    before the previous kernel ends.
    """
    model, trace = CAUSAL[name], tmp_path / "trace"
    program = compiled(tpcc, model.path, "tp1", TPC_GEMV="always", TPC_SIM_TRACE=trace)
    generate(program, expected()[name][0]["prompt"], 4)
    recorded = re.findall(
        r"cuStreamBeginCapture_v2 .*?cuStreamEndCapture ", trace.read_text(), re.S
    )
    assert len(recorded) == 1
    launches = re.findall(r"^\d+ \d+ (cuLaunchKernelEx|cublasLtMatmul) ", recorded[0], re.M)
    assert len(launches) == layer * model.layers + others
    # Simulated matmuls of cuBLASLt are no kernels, so the next kernel waits for their end.
    starts = 1 + launches.count("cublasLtMatmul")
    dependent = re.findall(r"\(dependent launch of (\w+)\)", recorded[0])
    assert len(dependent) == launches.count("cuLaunchKernelEx") - starts, dependent


@pytest.mark.parametrize(
    "name,grid",
    [
        ("gpt2-tiny", "tp1"),
        pytest.param("gpt2-tiny", "tp2", marks=pytest.mark.long),
    ],
)
def test_rows_of_a_batch_have_the_bits_of_rows_alone(step_of, name, grid):  # noqa: F811
    """Compares logits and all caches after each step of one token, for up to four rows."""
    made = step_of(name, grid, *FLAGS)
    program = dataclasses.replace(made, environment=environment(TPC_GEMV="always"))
    ids = np.random.default_rng(7).integers(0, CAUSAL[name].vocab, (4, 4))
    alone = [StepSequence(program, 1) for _ in ids]
    wanted = [one.all(row[None], range(1, ids.shape[1])) for one, row in zip(alone, ids)]
    for rows in (3, 4):
        batch = StepSequence(program, rows)
        found = batch.all(ids[:rows], range(1, ids.shape[1]))
        for row in range(rows):
            assert np.array_equal(found[row], wanted[row][0]), (rows, row)
            for cache, values in batch.caches.items():
                assert np.array_equal(values[row], alone[row].caches[cache][0]), (rows, row, cache)


def test_the_fastest_kernel_is_used(tpcc, tmp_path):
    """Depending on the seed, a GEMV kernel or an algorithm of cuBLASLt is the fastest. Both are
    chosen for some shapes, and the results are right.
    """
    executable, trace = tpcc.compile(MODEL.path, "tp2", *FLAGS), tmp_path / "trace"
    given = MODEL.inputs(1, 2, past=3)
    wanted = MODEL.reference.run(given)[MODEL.output]
    chosen = set()
    for seed in range(3):
        cache = tmp_path / f"cache{seed}"
        env = environment(
            TPC_GEMV="measured", TPC_SIM_SEED=seed, TPC_SIM_TRACE=trace, TPC_CACHE=cache
        )
        for _ in range(2):  # measures, then reads the cache
            found = executable.run(given, [MODEL.output], env=env)[MODEL.output]
            assert difference(found, wanted).relative <= TOLERANCE
            measured = "cuEventElapsedTime" in trace.read_text()
            trace.unlink()
        assert not measured
        lines = (cache / "measured").read_text().splitlines()
        chosen |= {line.endswith("\town") for line in lines if ": f32 1 2 " in line}
    assert chosen == {True, False}


def test_unknown_values_are_errors(tpcc):
    executable = tpcc.compile(MODEL.path, "tp2", *FLAGS)
    executable.call(
        ["--bench", "--shape", "batch=1,sequence=3"], env=environment(TPC_GEMV="sometimes")
    ).refused("TPC_GEMV=sometimes", "must be always, never or measured")

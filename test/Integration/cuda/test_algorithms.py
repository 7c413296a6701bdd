"""Matmul algorithms are measured by one of the ranks that share a shape, and stored in a file.

Algorithms of the simulated library have times that differ by seed, device and call, and different
summation orders. Some fail to run.
"""

import re
import shutil

import numpy as np
import pytest

from harness import BUILD
from harness import run as harness_run
from models import COMMITTED, FAMILIES
from matmul_trace import is_fully_traced, ranks_of, wrong
from simulator import UNOPTIMIZED, environment
from tpc.reference import TOLERANCE, difference

MODEL = {**COMMITTED, **FAMILIES}["gpt2-tiny"]


@pytest.fixture
def step(tpcc, tmp_path):
    """Runs one step and returns the ranks' trace and output."""
    given, trace = MODEL.inputs(2, 5, past=3), tmp_path / "trace"
    expected = MODEL.reference.run(given)[MODEL.output]

    def run(grid, *arguments, transport="threads", cache="", **env):
        executable = tpcc.compile(MODEL.path, grid, *UNOPTIMIZED)
        files = []
        for name, array in given.items():
            np.save(tmp_path / f"{name}.npy", array)
            files += ["--input", f"{name}={tmp_path / name}.npy"]
        result = executable.call(
            [*files, "--output", f"{MODEL.output}={tmp_path / 'out'}.npy", *arguments],
            transport,
            env=environment(TPC_SIM_TRACE=trace, TPC_CACHE=cache, **env),
        ).check()
        assert difference(np.load(tmp_path / "out.npy"), expected).relative <= TOLERANCE
        ranks = ranks_of(trace.read_text())
        assert len(ranks) == executable.grid.ranks
        trace.unlink()
        return ranks, result.stderr

    return run


def check_agreement(ranks):
    """Returns the choices, and the number of matmuls for which the library's first recommendation
    is slow.
    """
    assert not wrong(ranks)
    chosen = {
        matmul: choice
        for rank in ranks
        for matmul, choices in rank.used.items()
        if is_fully_traced(matmul)
        for choice in choices
    }
    slow = sum(
        min(measured)[1] > 1.25 * min(pace for _, pace in measured)
        for rank in ranks
        for matmul, measured in rank.measured.items()
        if is_fully_traced(matmul)
    )
    return chosen, slow


@pytest.mark.parametrize(
    "grid,transport,seed",
    [
        ("tp2", "threads", 1),
        ("tp2", "tcp", 2),
        ("tp2,pp2,mb2", "threads", 3),
        ("tp1", "threads", 7),
        *[
            pytest.param(grid, transport, seed, marks=pytest.mark.long)
            for grid, transport in [
                ("tp3", "threads"),
                ("tp2", "mpi"),
                ("dp2", "threads"),
                ("pp2", "tcp"),
                ("tp2,sp", "threads"),
            ]
            for seed in range(5, 8)
        ],
    ],
)
def test_one_rank_measures_for_all(step, grid, transport, seed):
    ranks, _ = step(grid, transport=transport, TPC_SIM_SEED=seed)
    _, slow = check_agreement(ranks)
    assert slow or (grid, seed) not in [("tp2", 1), ("tp1", 7)]  # some are slow with these


def test_measurements_are_stored(step, tmp_path):
    cache = tmp_path / "below" / "cache"
    first, _ = step("tp2", cache=cache)
    assert any(rank.measured for rank in first)
    again, output = step("tp2", cache=cache)
    assert not any(rank.measured for rank in again) and "note:" not in output
    assert check_agreement(again)[0] == check_agreement(first)[0]
    # With another driver or another GPU, algorithms are measured again.
    for other in ({"TPC_SIM_DRIVER": 12080}, {"TPC_SIM_NAME": "Toy"}):
        assert any(rank.measured for rank in step("tp2", cache=cache, **other)[0])
        assert not any(rank.measured for rank in step("tp2", cache=cache, **other)[0])
    assert not any(rank.measured for rank in step("tp2", cache=cache)[0])
    # With --deterministic the cache is neither read nor written.
    before = (cache / "measured").read_bytes()
    ranks, _ = step("tp2", "--deterministic", cache=cache, TPC_SIM_NAME="Other")
    assert not any(rank.measured for rank in ranks) and (cache / "measured").read_bytes() == before


def test_installed_tables(step, tmp_path):
    """Without a cache, results come from the tables next to the library, whatever the driver's
    version. The user's cache comes first, and invalid results are measured again.
    """
    cache, library = tmp_path / "cache", tmp_path / "installed" / "lib"
    first, _ = step("tp2", cache=cache)
    lines = (cache / "measured").read_text().splitlines()[1:-1]
    assert all(", driver 13000, " in line for line in lines)
    library.mkdir(parents=True)
    shutil.copy(BUILD / "lib" / "libtpc_cuda.so", library)
    table = tmp_path / "installed" / "share" / "tpc" / "tunings" / "gpu.txt"
    table.parent.mkdir(parents=True)
    table.write_text("".join(line + "\n" for line in lines))
    for driver in (13000, 12080):
        env = {"TPC_RUNTIME_DIR": library, "TPC_SIM_DRIVER": driver}
        ranks, output = step("tp2", **env)
        assert not any(rank.measured for rank in ranks) and "note:" not in output
        assert check_agreement(ranks)[0] == check_agreement(first)[0]
    assert any(rank.measured for rank in step("tp2", **env, TPC_SIM_NAME="Toy")[0])
    # The table has invalid results, the cache has valid ones.
    table.write_text("".join(line.partition("\t")[0] + "\tnothing\n" for line in lines))
    assert not any(rank.measured for rank in step("tp2", cache=cache, TPC_RUNTIME_DIR=library)[0])
    assert any(rank.measured for rank in step("tp2", TPC_RUNTIME_DIR=library)[0])


def test_damaged_caches_are_replaced(step, tmp_path):
    cache = tmp_path / "cache"
    step("tp1", cache=cache)
    file = cache / "measured"
    intact = file.read_bytes()
    for damaged in (intact[:-9], intact.replace(b"f32", b"f16", 1), b"", b"\0" * 100):
        file.write_bytes(damaged)
        ranks, output = step("tp1", cache=cache)
        assert ranks[0].measured and output.count(f"note: '{file}' is damaged") == 1
        ranks, output = step("tp1", cache=cache)
        assert not ranks[0].measured and "note:" not in output
    file.write_bytes(intact.replace(b"measurements 1", b"measurements 2"))
    assert "is of another version of tpc" in step("tp1", cache=cache)[1]
    # A path that is not a file is not changed.
    file.unlink()
    file.mkdir()
    ranks, output = step("tp1", cache=cache)
    assert ranks[0].measured and "note:" in output and file.is_dir()
    shutil.rmtree(cache)
    cache.write_text("no folder")
    ranks, output = step("tp1", cache=cache)
    assert ranks[0].measured and "measured again next time" in output


def test_deterministic_measures_nothing(step):
    ranks, _ = step("tp2", "--deterministic")
    assert not any(
        {"cuEventElapsedTime", "cublasLtMatmulAlgoCheck"} & set(rank.calls) for rank in ranks
    )
    check_agreement(ranks)


def test_all_ranks_measure_or_none(tpcc, tmp_path):
    executable = tpcc.compile(MODEL.path, "tp2", *UNOPTIMIZED)
    script = tmp_path / "some"
    script.write_text(
        f'#!/bin/sh\n[ $RANK = 1 ] && set -- "$@" --deterministic\nexec {executable.path} "$@"\n'
    )
    script.chmod(0o755)
    command = [
        str(script) if part == str(executable.path) else part for part in executable.command("tcp")
    ]
    harness_run([*command, "--bench", "--shape", "batch=1,sequence=3"], env=environment()).refused(
        "rank 1 does not run the same as rank 0",
        "another choice of algorithms (rank 0 has measured ones, rank 1 has no measured ones)",
    )


def test_plans_outlive_steps(tpcc, tmp_path):
    """Decode steps differ in the past, and so in shape, but their matmuls have the same shapes."""
    trace, model = tmp_path / "trace", {**COMMITTED, **FAMILIES}["llama-past"]
    executable = tpcc.compile(model.path, "tp2", *UNOPTIMIZED)
    many = [model.inputs(1, 1, past=past) for past in range(8, 20)]
    results = executable.run_all(many, [model.output], env=environment(TPC_SIM_TRACE=trace))
    for given, found in zip(many, results):
        assert difference(found[model.output], model.expected(given)).relative <= TOLERANCE
    asked = re.findall(
        r"^(\d+ \d+) cublasLtMatmulAlgoGetHeuristic (\S+ \S+) = 0$", trace.read_text(), re.MULTILINE
    )
    for rank in ranks_of(trace.read_text()):
        assert "cuGraphLaunch" not in rank.calls
    # Algorithms are searched once for each shape and operand alignments; those depend on the past.
    assert len(asked) == len(set(asked)) < 2 * len(many) * len(rank.used) / 2

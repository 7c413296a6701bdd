"""Communication that the runtime counts, against the compiler's report."""

import re
import sys

import pytest
from tpc import trace

from harness import TOP, Grid, run
from models import COMMITTED, FAMILIES

ODD = COMMITTED["gpt2-odd-opset20"]


def ordered(rows):
    return sorted(
        (row["stage"], row["axis"], row["kind"], row["count"], row["bytes"]) for row in rows
    )


@pytest.mark.parametrize("shape", [(1, 1), (5, 7)], ids=str)
@pytest.mark.parametrize(
    "grid",
    [
        Grid.parse(text)
        for text in ("tp1", "tp2", "tp3,pp2,sp", "tp2,pp2,dp2,sp,mb4", "pp2,dp2,mb4")
    ],
    ids=str,
)
def test_the_runtime_counts_what_the_report_says(tpcc, grid, shape):
    executable = tpcc.compile(ODD.path, grid)
    rows = tpcc.report(ODD.path, grid, ODD.shape(*shape))
    measured = executable.bench(ODD.shape(*shape), arguments=["--weights=random:1"])
    assert ordered(measured["collectives"]) == ordered(rows)


@pytest.mark.parametrize(
    "name,grid",
    [
        ("llama-past", "tp3,sp"),
        ("mistral-dynamo", "tp2,pp2,dp2,mb2"),
        ("falcon-past", "tp4"),
        ("gemma2-past", "tp2x2"),
    ],
)
def test_the_runtime_counts_what_the_report_says_of_families(tpcc, name, grid):
    model, grid = FAMILIES[name], Grid.parse(grid)
    shape = model.shape(3, 5, 2)
    measured = tpcc.compile(model.path, grid).bench(shape, arguments=["--weights=random:1"])
    assert ordered(measured["collectives"]) == ordered(tpcc.report(model.path, grid, shape))


def test_the_runtime_counts_the_same_on_mpi(tpcc, mpi):
    grid = Grid(tp=2, pp=2, sp=True, mb=4)
    executable = tpcc.compile(ODD.path, grid)
    rows = tpcc.report(ODD.path, grid, ODD.shape(5, 7))
    measured = executable.bench(ODD.shape(5, 7), transport=mpi, arguments=["--weights=random:1"])
    assert ordered(measured["collectives"]) == ordered(rows)


@pytest.mark.parametrize("grid", [Grid(), Grid(tp=2, pp=2, mb=2)], ids=str)
def test_profile_of_a_step(tpcc, grid):
    executable = tpcc.compile(ODD.path, grid)
    names = set(
        re.findall(
            r"tpc_kernel\.func @(\w+)",
            tpcc.call([ODD.path, f"--megatron-shard={grid}", "--emit=kernels"]).check().stdout,
        )
    )
    result = executable.bench(
        ODD.shape(4, 7), arguments=["--weights=random:1", "--profile", "--repeat", "4"]
    )
    assert [stage["stage"] for stage in result["profile"]] == list(range(grid.pp))
    attentions = 0
    for stage in result["profile"]:
        assert stage["rank"] // grid.tp == stage["stage"]
        assert 0 < stage["computing"] == pytest.approx(sum(row["seconds"] for row in stage["work"]))
        seconds = [row["seconds"] for row in stage["work"]]
        assert seconds == sorted(seconds, reverse=True)
        for row in stage["work"]:
            assert row["kind"] in {"product", "attention", "kernel", "copy"} and row["count"] > 0
            if row["kind"] == "product":
                m, k, widths = row["what"].split("x")
                m, k, n = int(m), int(k), sum(map(int, widths.split("+")))
                assert m == 4 * 7 // grid.mb
                assert row["gflops_per_second"] * row["seconds"] * 1e9 == pytest.approx(
                    2 * m * k * n * row["count"]
                )
            elif row["kind"] == "kernel":
                assert row["what"] in names
            elif row["kind"] == "attention":
                attentions += row["count"] / grid.mb
    assert attentions == 3  # layers
    mean = {stage["computing"] + stage["elsewhere"] for stage in result["profile"]}
    assert (
        max(mean) == pytest.approx(min(mean))
        and result["min_seconds"] <= max(mean) <= result["max_seconds"]
    )


def test_profile_needs_bench(tpcc):
    executable = tpcc.compile(ODD.path, Grid())
    result = executable.call(["--profile", "--weights=random:1"])
    assert result.returncode != 0 and "--profile requires --bench" in result.stderr
    assert "profile" not in executable.bench(ODD.shape(1, 1), arguments=["--weights=random:1"])


@pytest.mark.parametrize("overlap", ["off", "on"])
def test_measured_trace(tpcc, tmp_path, overlap):
    """The measured calls are those of the simulation, and their difference is named. Asynchronous
    all-reduces are calls at their waits.
    """
    grid, shape = "tp2,pp2,mb2", f"batch=4,sequence={7 if overlap == 'off' else 40}"
    simulated, measured = tmp_path / "simulated.json", tmp_path / "measured.json"
    flags = [f"--megatron-shard={grid}", "--simulate", "--machine=epyc-2core", "--no-verify"]
    flags += [f"--overlap={overlap}", f"--trace={simulated}", "--shape", shape]
    tpcc.call([ODD.path, *flags]).check()
    flags = [f"--overlap={overlap}", "--no-verify"]
    executable = tpcc.compile(ODD.path, Grid(tp=2, pp=2, mb=2), *flags)
    executable.call(
        ["--bench", "--weights=random:1", "--repeat", "1", "--trace", measured, "--shape", shape]
    ).check()
    first, second = trace.read(simulated), trace.read(measured)
    for key, calls in first.items():
        kind = key[1].split(" ")[0]
        if kind in ("product", "attention", "all_reduce", "send"):
            assert second[key].count == calls.count, key
            assert second[key].seconds > 0
    rows = trace.diff(simulated, measured)
    assert abs(rows[0].difference) == max(abs(row.difference) for row in rows)
    command = [sys.executable, "-m", "tpc.trace", "diff", simulated]
    environment = {"PYTHONPATH": str(TOP / "python")}
    result = run([*command, measured], env=environment).check()
    assert f"Largest difference: {rows[0].stage}: {rows[0].name}" in result.stdout
    run([*command, ODD.path], env=environment).refused("not a trace")
    executable.call(["--trace", measured]).refused("--trace requires --bench")

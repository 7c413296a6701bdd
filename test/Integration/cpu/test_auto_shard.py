"""--megatron-shard=auto: the plan's counts, bytes and memory are those of the compiled grid."""

import json
import re
from pathlib import Path

import pytest

from harness import TOP, run, tool
from models import COMMITTED, FAMILIES

MACHINES = TOP / "lib" / "Cost" / "Machines"
SHAPE = ["--shape", "batch=6,sequence=16"]


def plan(tpcc, model, *flags, devices=8, machine="epyc-2core", shape=SHAPE):
    return json.loads(
        tpcc.call(
            [
                model.path,
                "--megatron-shard=auto",
                f"--devices={devices}",
                f"--machine={machine}",
                "--json",
                *shape,
                *flags,
            ]
        )
        .check()
        .stdout
    )


def edit_machine(path: Path, name: str, edit) -> Path:
    machine = json.loads((MACHINES / f"{name}.json").read_text())
    edit(machine)
    path.write_text(json.dumps(machine))
    return path


def ordered(rows):
    return sorted(
        (row["stage"], row["axis"], row["kind"], row["count"], row["bytes"]) for row in rows
    )


def causes(row):
    names = ("compute", "memory", "launch", "tensor", "pipeline")
    return {name: row["step"][name] for name in names}


@pytest.mark.parametrize("machine", ["epyc-2core", "h100-sxm"])
@pytest.mark.parametrize(
    "name", ["gpt2-odd-opset20", pytest.param("llama-dynamo", marks=pytest.mark.long)]
)
def test_plan_equals_the_report_of_each_grid(tpcc, tmp_path, name, machine):
    """Grids of the same structure share one program. Plans equal those of each grid's program."""
    model = {**COMMITTED, **FAMILIES}[name]
    found = plan(tpcc, model, machine=machine)
    refused = sum(row["count"] for row in found["refused"])
    assert found["best"] and found["enumerated"] == found["estimated"] + sum(
        (refused, found["pruned_by_memory"], found["pruned_by_time"])
    )
    for row in found["best"][:5] + found["best"][-1:]:
        report = tmp_path / "report.json"
        tpcc.call(
            [model.path, f"--megatron-shard={row['grid']}", "--no-verify"]
            + ["--emit=staged", "-o", tmp_path / "x.mlir", f"--report={report}", *SHAPE]
        ).check()
        expected = json.loads(report.read_text())
        assert row["collectives"] == expected["collectives"], row["grid"]
        # Allocations are rounded up, on GPUs to pages.
        rounded = 4 << 20 if machine.startswith("h100") else 256 * 100
        weights = row["memory"]["weights"]
        assert any(0 <= weights - stage["weight_bytes"] < rounded for stage in expected["stages"])
        assert sum(causes(row).values()) == pytest.approx(row["step"]["seconds"])
        assert row["ranks"] <= 8 and row["memory"]["need"] <= row["available"]
    objectives = [row["objective"] for row in found["best"]]
    assert objectives == sorted(objectives)
    second = found["second"]
    assert second["difference"] == pytest.approx(objectives[1] - objectives[0])
    assert sum(second["by_cause"].values()) == pytest.approx(second["difference"], abs=1e-12)


def test_counters_of_the_run_equal_the_plan(tpcc, tmp_path):
    """With -o, the executable has the best grid, and its counters are those of the plan."""
    model = COMMITTED["gpt2-odd-opset20"]
    executable = tmp_path / "model"
    best = plan(tpcc, model, "-o", executable, "--memory=0.4MiB", devices=4)["best"][0]
    assert best["ranks"] > 1
    measured = json.loads(
        run(
            [executable, "--bench", "--weights=random:1", "--repeat", "1", "--warmup", "0", *SHAPE]
        )
        .check()
        .stdout
    )
    assert ordered(measured["collectives"]) == ordered(best["collectives"])


def test_cost_is_seconds_of_all_devices(tpcc):
    found = plan(tpcc, COMMITTED["gpt2-odd-opset20"], "--goal=cost", machine="h100-sxm")
    for row in found["best"]:
        assert row["objective"] == pytest.approx(row["step"]["seconds"] * row["ranks"])
    assert found["best"][0]["grid"] == "tp1"


def test_plans_are_deterministic_and_not_only_powers_of_two(tpcc):
    model = COMMITTED["gpt2-odd-opset20"]
    first = plan(tpcc, model, devices=6, machine="h100-sxm")
    assert first == plan(tpcc, model, devices=6, machine="h100-sxm")
    assert any(row["ranks"] in (3, 5, 6) for row in first["best"])


def test_links_change_only_what_uses_them(tpcc, tmp_path):
    model = COMMITTED["gpt2-odd-opset20"]

    def halve(machine):
        machine["network"]["bandwidth"] /= 2

    def remove_links(machine):
        for table in machine["collective"]:
            table["times"] = [[size, 1e-15] for size, _ in table["times"]]
        machine["network"] = {"latency": 0, "bandwidth": 1e18}

    def rows(machine):
        flags = ["--gpus-per-node=2"]
        found = plan(tpcc, model, *flags, devices=4, machine=machine)
        return {row["grid"]: causes(row) for row in found["best"]}

    whole = rows("h100-sxm")
    half = rows(edit_machine(tmp_path / "half.json", "h100-sxm", halve))
    free = rows(edit_machine(tmp_path / "free.json", "h100-sxm", remove_links))
    common = set(whole) & set(half)
    assert any("tp2" in grid for grid in common)
    for grid in common:
        before, after = whole[grid], half[grid]
        for name in ("compute", "memory", "launch"):
            assert before[name] == after[name]
        if "tp4" in grid:
            assert after["tensor"] > before["tensor"]
        else:
            assert after["tensor"] == before["tensor"]
    for grid, found in free.items():
        assert found["tensor"] < 1e-9
        if "pp" not in grid:
            assert found["pipeline"] < 1e-9


def test_memory_that_does_not_suffice(tpcc):
    """The error names a grid of more devices, and a batch, that do fit."""
    arguments = ["--megatron-shard=auto", "--machine=h100-sxm", "--devices=2"]
    model = TOP / "test" / "Models" / "gpt2-124m.onnx"
    words = ["no grid of at most 2 devices fits", "weights", "step", "libraries", "a rank has 380."]
    shape = ["--shape", "batch=4,sequence=512"]
    result = tpcc.call([model, *arguments, "--memory=380MiB", *shape])
    result.refused(*words, "devices fit: tp", "fits at batch=", "the step's peak is at 'node_")
    devices, grid = re.search(r"(\d+) devices fit: ([\w,]+) needs", result.stderr).groups()
    batch = re.search(r"; ([\w,]+) fits at batch=(\d+)", result.stderr)
    for count, sizes in ((devices, "batch=4"), (2, f"batch={batch[2]}")):
        flags = [f"--devices={count}", "--memory=380MiB", "--shape", f"{sizes},sequence=512"]
        tpcc.call([model, *arguments[:2], *flags]).check()
    # Weights that exceed the memory are found by a bound, and still described.
    tpcc.call([model, *arguments, "--memory=100MiB", *shape]).refused(*words[:-1])


def test_probe(tpcc, tmp_path):
    """A measured machine is valid, and its name and processor are in the file."""
    path = tmp_path / "here.json"
    probe = [tool("tpc-probe"), "--quick", "--ranks", "2"]
    run([*probe, "--name", "here", "-o", path]).check()
    found = plan(tpcc, COMMITTED["gpt2-odd-opset20"], devices=2, machine=path)
    assert found["machine"] == "here" and found["best"][0]["step"]["seconds"] > 0
    for arguments, words in (
        ([], "name the machine file with -o"),
        (["-o"], "-o needs a value"),
        (["-x"], "no flag '-x'"),
        (["-o", tmp_path / "no" / "x.json"], "cannot write"),
        (["--ranks", "1", "-o", path], "--ranks must be from 2 to 64"),
        (["--name", 'a"', "-o", path], "--name must be text"),
    ):
        run([tool("tpc-probe"), *arguments]).refused(words)


@pytest.mark.parametrize(
    "arguments,words",
    [
        ([], "needs --devices"),
        (["--devices=0"], "needs --devices"),
        (["--devices=-3"], "--devices=-3: must be from 1 to 16384"),
        (["--devices=4", "--gpus-per-node=0"], "--gpus-per-node=0: must be from 1 to 16384"),
        (["--devices=4"], "needs --machine"),
        (["--devices=4", "--devices=5"], "--devices is given twice"),
        (["--devices=4", "--machine=none"], "no file and no machine 'none'; machines: a100-sxm"),
        (["--devices=4", "--machine=h100-sxm"], "needs --shape"),
        (["--devices=4", "--machine=h100-sxm", "--goal=price", *SHAPE], "latency, throughput or"),
        (["--devices=4", "--machine=h100-sxm", "--memory=2", *SHAPE], "--memory=2: expected"),
        (["--devices=4", "--machine=h100-sxm", "--memory=2TiB", *SHAPE], "'h100-sxm' has 78."),
        (["--devices=4", "--machine=a100-sxm", *SHAPE], "no times of matmuls of f32; it has bf16"),
        (["--devices=4", "--machine=h100-sxm", "--target=cpu", *SHAPE], "is for cuda"),
        (["--devices=4", "--machine=h100-sxm", "--explain", *SHAPE], "--explain cannot be"),
        (["--devices=4", "--machine=h100-sxm", "--why=x", *SHAPE], "--why cannot be combined"),
        (["--devices=4", "--machine=h100-sxm", "--emit=staged", *SHAPE], "name a file with -o"),
        (["--devices=4", "--machine=h100-sxm", "--shape", "batch=2"], "must bind: sequence"),
        (["--megatron-shard=tp2", "--devices=4"], "--devices is for --megatron-shard=auto"),
        (["--megatron-shard=tp2", "--gpus-per-node=4"], "write gpus-per-node=N into"),
    ],
)
def test_invalid_flags(tpcc, arguments, words):
    if not any(argument.startswith("--megatron-shard") for argument in arguments):
        arguments = ["--megatron-shard=auto", *arguments]
    tpcc.call([COMMITTED["gpt2-odd-opset20"].path, *arguments]).refused(words)


def test_invalid_machine_file(tpcc, tmp_path):
    path = tmp_path / "bad.json"
    arguments = [COMMITTED["gpt2-tiny"].path, "--megatron-shard=auto", "--devices=2", *SHAPE]
    for text, words in (
        ("", "bad.json': "),
        ("{", "bad.json': "),
        ('{"name": "x"}', "has no text 'target'"),
    ):
        path.write_text(text)
        tpcc.call([*arguments, f"--machine={path}"]).refused("--machine: ", words)

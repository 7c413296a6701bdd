"""The memory estimate of GPU programs equals the actual use (TPC_SIM_USAGE), to the byte.

The estimate is printed before any weight is loaded.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from harness import BUILD, Grid, by_rank
from harness import run as harness_run
from models import COMMITTED, FAMILIES
from simulator import UNOPTIMIZED
from tpc.reference import TOLERANCE, difference

ALL = {**COMMITTED, **FAMILIES}
LIBRARIES = BUILD / "lib" / "simulator"
CHOSEN = [("gpt2-tiny", "tp2"), ("gpt2-mlp", "pp2")]
GRIDS = ["tp1", "tp2", "tp3", "pp2", "tp2,pp2,mb2", "tp2,sp", "dp2"]


def cases():
    return [
        pytest.param(
            model,
            Grid.parse(grid),
            id=f"{model.name}-{grid}",
            marks=[] if (model.name, grid) in CHOSEN else pytest.mark.long,
        )
        for model in ALL.values()
        for grid in GRIDS
    ]


class Run:
    """One run, with inputs of (batch, sequence)."""

    def __init__(self, folder, executable, model, batch, sequence, past=0):
        self.executable, self.model = executable, model
        self.given = model.inputs(batch, sequence, past=past if model.past_name else 0)
        self.expected = model.reference.run(self.given)
        self.folder = folder

    def __call__(self, memory="8GiB", transport="threads", **env):
        """Returns the outputs and the maximum memory used on each device."""
        usage = self.folder / "usage"
        usage.unlink(missing_ok=True)
        actual = self.executable.run(
            self.given,
            list(self.expected),
            transport=transport,
            env={
                "TPC_CUDA_LIBS": str(LIBRARIES),
                "TPC_SIM_MEMORY": str(memory),
                "TPC_SIM_USAGE": str(usage),
                **env,
            },
        )
        for name, wanted in self.expected.items():
            assert difference(actual[name], wanted).relative <= TOLERANCE
        used = {}
        for line in usage.read_text().splitlines():
            device, bytes = map(int, line.split())
            used[device] = max(used.get(device, 0), bytes)
        return used

    def refused(self, memory, *flags, transport="threads", **env):
        """Returns the bytes that the message reports as needed on the first device with too little
        memory, and checks that nothing was copied to a device.
        """
        trace = self.folder / "trace"
        trace.unlink(missing_ok=True)
        inputs = []
        for name, value in self.given.items():
            np.save(self.folder / f"{name}.npy", value)
            inputs += ["--input", f"{name}={self.folder / name}.npy"]
        result = self.executable.call(
            inputs + list(flags),
            transport,
            env={
                "TPC_CUDA_LIBS": str(LIBRARIES),
                "TPC_SIM_MEMORY": str(memory),
                "TPC_SIM_TRACE": str(trace),
                **env,
            },
        ).refused("Nothing was loaded", "tpcc --memory-plan=SIZE")
        calls = trace.read_text()
        assert "cuMemGetInfo" in calls
        assert (
            "cuMemAlloc" not in calls and "cuMemcpy" not in calls and "cuMemHostAlloc" not in calls
        )
        return int(
            re.search(r"needs? (?:together )?[0-9.]+ [GM]iB \((\d+) bytes\)", result.stderr)[1]
        )


def plan(tpcc, model, memory, sizes, *flags):
    """Returns the splits that --memory-plan lists."""
    shape = ",".join(f"{name}={size}" for name, size in sizes.items())
    result = tpcc.call([model.path, f"--memory-plan={memory}", "--json", "--shape", shape, *flags])
    return json.loads(result.stdout)["splits"]


@pytest.mark.parametrize("model,grid", cases())
def test_estimate_equals_use(tpcc, tmp_path, model, grid):
    executable = tpcc.compile(model.path, grid, *UNOPTIMIZED)
    run = Run(tmp_path, executable, model, 24, 16, past=3)
    used = run()
    most = max(used.values())
    assert run.refused("1MiB") in used.values()
    assert run.refused(most - 1) == most
    # The amount in the message suffices.
    assert run(memory=most) == used
    # The estimate of --memory-plan is at least the use, and at most 25% and 16 MiB larger.
    if grid.dp == 1 and not grid.sp and grid.tp * grid.pp <= 2:
        row = next(
            row
            for row in plan(tpcc, model, "1MiB", model.shape(24, 16, 3))
            if (row["tp"], row["pp"]) == (grid.tp, grid.pp)
        )
        assert most <= row["need"] <= 1.25 * most + (16 << 20)


def test_ranks_that_share_a_device_add_up(tpcc, tmp_path):
    model = COMMITTED["gpt2-mlp"]
    executable = tpcc.compile(model.path, "tp2", *UNOPTIMIZED)
    run = Run(tmp_path, executable, model, 2, 5)
    need = run.refused("1MiB", "--share-gpus", TPC_SIM_DEVICES="1")
    assert run.refused(need - 1, "--share-gpus", TPC_SIM_DEVICES="1") == need
    executable.call(
        [
            "--bench",
            "--repeat",
            "1",
            "--warmup",
            "0",
            "--share-gpus",
            "--shape",
            ",".join(f"{n}={v}" for n, v in model.shape(2, 5).items()),
        ],
        env={"TPC_CUDA_LIBS": str(LIBRARIES), "TPC_SIM_MEMORY": str(need), "TPC_SIM_DEVICES": "1"},
    )


def test_different_gpus(tpcc, tmp_path):
    """Each rank's estimate is for its own GPU: libraries use less memory on older ones. Other
    processes may already use memory of a GPU.
    """
    executable = tpcc.compile(
        COMMITTED["gpt2-tiny"].path, "tp2", *UNOPTIMIZED
    )
    program = by_rank(executable, tmp_path, "export LOCAL_RANK=$((1 - RANK))")
    run = Run(tmp_path, program, COMMITTED["gpt2-tiny"], 24, 16)
    unlike = {"TPC_SIM_CAPABILITY": "9.0,8.0", "transport": "tcp"}
    used = run(**unlike)
    assert used[0] > used[1] + (16 << 20)
    assert run.refused(used[1] - 1, **unlike) in used.values()
    assert run.refused(used[0] - 1, **unlike) == used[0]
    assert run(used[0], **unlike) == used
    assert run.refused(used[0] + 99, **unlike, TPC_SIM_TAKEN="100") == used[0]
    assert run(used[0] + 100, **unlike, TPC_SIM_TAKEN="100") == used


def test_other_sizes_later(tpcc, tmp_path):
    """The message names a step that is larger than the first and exceeds the memory."""
    model = COMMITTED["gpt2-tiny"]
    executable = tpcc.compile(model.path, "tp2", *UNOPTIMIZED)
    run = Run(tmp_path, executable, model, 1, 4)
    most = max(run().values())
    small, large = run.folder / "a.npy", run.folder / "b.npy"
    np.save(small, np.ones((1, 4), dtype=np.int64))
    np.save(large, np.ones((40, 64), dtype=np.int64))
    executable.call(
        [str(small), str(large), "--output", str(run.folder / "out")],
        env={"TPC_CUDA_LIBS": str(LIBRARIES), "TPC_SIM_MEMORY": str(most)},
    ).refused("a step with batch=40, sequence=64 needs", "in addition to the weights")


def test_smallest_splits_that_fit(tpcc):
    """The listed grids of a larger model fit, and no grid of fewer ranks does."""
    model = Path(__file__).parents[2] / "Models" / "gpt2-124m.onnx"
    arguments = [model, "--shape", "batch=4,sequence=512"]
    result = tpcc.call([*arguments, "--memory-plan=250MiB"]).check()
    assert (
        "--megatron-shard=tp8,pp1" in result.stdout
        and "--megatron-shard=tp1,pp8" not in result.stdout
    )
    splits = json.loads(tpcc.call([*arguments, "--memory-plan=250MiB", "--json"]).check().stdout)[
        "splits"
    ]
    fitting = [row for row in splits if row["fits"]]
    assert {row["tp"] * row["pp"] for row in fitting} == {max(row["ranks"] for row in splits)}
    for row in splits:
        assert row["need"] == row["weights"] + row["inputs"] + row["step"] + row["libraries"]
        assert (
            row["fits"] == (row["need"] <= 250 << 20)
            and row["remains"] == (250 << 20) - row["need"]
        )
    # Every listed split includes the axes of --megatron-shard.
    rows = json.loads(
        tpcc.call([*arguments, "--memory-plan=2GiB", "--json", "--megatron-shard=dp2"])
        .check()
        .stdout
    )["splits"]
    assert rows[0]["ranks"] == 2


@pytest.mark.parametrize(
    "arguments,words",
    [
        (["--memory-plan=80"], "a number with MiB, GiB, TiB"),
        (["--memory-plan=-1GiB"], "a number with MiB, GiB, TiB"),
        (["--memory-plan=0GiB"], "so little memory"),
        (["--memory-plan=9999999TiB"], "so much memory"),
        (["--memory-plan=1GiB"], "sizes that --shape must bind: batch, sequence"),
        (["--memory-plan=1GiB", "--shape", "batch=1,sequence=100000"], "does not fit the model"),
        (
            ["--memory-plan=1GiB", "--shape", "batch=1,sequence=8", "--megatron-shard=tp2"],
            "leave 'tp2' out of --megatron-shard",
        ),
        (["--memory-plan=1GiB", "--shape", "batch=1,sequence=8", "--target=cpu"], "only for GPUs"),
        (["--memory-plan=1GiB", "--shape", "batch=1,sequence=8", "-o", "x"], "compiles nothing"),
        (["--memory-plan=1MiB", "--shape", "batch=1,sequence=8"], "no split fits into 1MiB"),
    ],
)
def test_invalid_memory_plans(tpcc, arguments, words):
    tpcc.call([COMMITTED["gpt2-tiny"].path, *arguments]).refused(words)


def test_describe_device(tpcc):
    executable = tpcc.compile(COMMITTED["gpt2-mlp"].path, "tp2", *UNOPTIMIZED)
    output = (
        executable.call(
            ["--describe-device"],
            env={
                "TPC_CUDA_LIBS": str(LIBRARIES),
                "TPC_SIM_DEVICES": "4",
                "CUDA_VISIBLE_DEVICES": "2",
                "TPC_SIM_NAME": "Toy",
            },
        )
        .check()
        .stdout
    )
    assert re.search(
        r"driver +for CUDA 13.0, " + re.escape(str(LIBRARIES / "libcuda.so.1")), output
    )
    assert (
        re.search(r"GPU 0 +Toy, sm_90, 4 multiprocessors, 8.0 GiB, GPU-[0-9a-f-]+02\n", output)
        and "GPU 1" not in output
    )
    assert (
        "CUDA_VISIBLE_DEVICES=2" in output
        and re.search(r"cuBLASLt +cuBLASLt 13", output)
        and re.search(r"NCCL +NCCL 2", output)
    )
    assert re.search(
        r"cuDNN +cuDNN 9\.[0-9.]+, " + re.escape(str(LIBRARIES / "libcudnn.so.9")) + "\n", output
    )
    executable.call(
        ["--describe-device"], env={"TPC_CUDA_LIBS": str(LIBRARIES), "CUDA_VISIBLE_DEVICES": ""}
    ).refused("finds no GPU")
    executable.call(["--describe-device"]).refused("this program cannot run here", "libcuda.so.1")
    cpu = tpcc.compile(COMMITTED["gpt2-mlp"].path, "tp2").call(["--describe-device"]).check()
    assert "processors: " in cpu.stdout


def test_gpu_of_a_rank(tpcc, tmp_path):
    """If ranks are processes, each uses the GPU of its local rank. Two ranks on one GPU are an
    error unless sharing is allowed.
    """
    model = COMMITTED["gpt2-mlp"]
    executable = tpcc.compile(model.path, "tp2", *UNOPTIMIZED)
    run = Run(tmp_path, executable, model, 2, 5)
    assert sorted(run(transport="tcp")) == [0, 1]
    assert sorted(run(transport="mpi", CUDA_VISIBLE_DEVICES="5,3")) == [3, 5]
    arguments = [
        "--bench",
        "--repeat",
        "1",
        "--warmup",
        "0",
        "--shape",
        ",".join(f"{n}={v}" for n, v in model.shape(2, 5).items()),
    ]
    env = {"TPC_CUDA_LIBS": str(LIBRARIES), "CUDA_VISIBLE_DEVICES": "4"}
    for transport in ("tcp", "mpi"):
        executable.call(arguments, transport, env=env).refused(
            "ranks 0 and 1 have the same GPU", "--share-gpus"
        )
        executable.call([*arguments, "--share-gpus"], transport, env=env).check()
    executable.call(arguments, env=env).refused("2 ranks are on this machine, which has 1 GPU")
    # A launcher that makes one GPU visible to each process.
    script = tmp_path / "own"
    script.write_text(
        f'#!/bin/sh\nCUDA_VISIBLE_DEVICES=$RANK TPC_SIM_NAME="GPU of $RANK" exec {executable.path}'
        ' "$@"\n'
    )
    script.chmod(0o755)
    command = [
        str(script) if part == str(executable.path) else part for part in executable.command("tcp")
    ]
    result = harness_run([*command, *arguments], env={"TPC_CUDA_LIBS": str(LIBRARIES)}).check()
    assert "devices differ: rank 0 has GPU of 0, rank 1 has GPU of 1" in result.stderr

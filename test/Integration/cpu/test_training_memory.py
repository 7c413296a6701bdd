"""Memory of training steps: the report of tpcc, the plan that an executable prints before it loads
weights, and what the first step uses are equal, and no part exists twice.
"""

import json
import re
from math import prod

import onnx
import pytest

import harness
import training_data
from gradient_files import EXPECTED, path_of
from tpc import checkpoint

BATCH, SEQUENCE = 4, 6
GRIDS = ("tp1", "tp2", "dp2", "tp2,sp,dp2,mb2")
FAMILIES = [name for name in EXPECTED if not name.endswith("-smoothed")]
DEFAULT = {
    ("gpt2-tiny-nopast", "tp2,sp,dp2,mb2"),
    ("qwen2-dynamo", "tp1"),
    ("mistral-dynamo", "dp2"),
}
STATE = {"adamw:clip=1": 8, "sgd:momentum=0.9": 4, "sgd": 0}  # bytes for each element
PLAN = re.compile(
    r"^ranks? ([\d ]+): weights .*?\((\d+) bytes\), optimizer state .*?\((\d+) bytes\), "
    r"gradients .*?\((\d+) bytes\), activations .*?\((\d+) bytes\): .*?\((\d+) bytes\)$",
    re.M,
)
USED = re.compile(r"^after the first step: rank (\d+) used (\d+) bytes", re.M)


def compile_training(tpcc, path, grid, optimizer, tokens):
    """Returns an executable, and the memory in its report."""
    flags = ("--train", f"--optimizer={optimizer}")
    program = tpcc.compile(path, grid, *flags)
    (labels,) = (port for port in program.describe()["inputs"] if port["name"] == "labels")
    shape = ",".join(f"{symbol}={size}" for symbol, size in zip(labels["shape"], tokens))
    return program, report(path, grid, flags, shape, program.scratch.parent / "report.json")


def report(path, grid, flags, shape, file):
    command = [harness.tool("tpcc"), path, f"--megatron-shard={grid}", *flags, "--no-verify"]
    harness.run([*command, f"--report={file}", f"--shape={shape}"]).check()
    return json.loads(file.read_text())["training_memory"]


def train(program, folder, vocabulary):
    """Returns the plan and the used bytes of each rank after two steps, which are saved."""
    training_data.make_data(vocabulary).tofile(folder / "data.u16")
    flags = ["--data", folder / "data.u16", "--batch", str(BATCH), "--sequence", str(SEQUENCE)]
    flags += ["--steps", "2", "--lr", "1e-3", "--save", folder / "saved", "--verbose"]
    text = program.call(flags).check().stderr
    plan = {}
    for ranks, *sizes in PLAN.findall(text):
        plan |= {int(rank): tuple(map(int, sizes)) for rank in ranks.split()}
    return plan, {int(rank): int(size) for rank, size in USED.findall(text)}


@pytest.mark.parametrize(
    "name, grid",
    [
        pytest.param(name, grid, marks=[] if (name, grid) in DEFAULT else pytest.mark.long)
        for name in FAMILIES
        for grid in GRIDS
    ],
)
def test_memory(tpcc, name, grid, tmp_path):
    used = {}
    for optimizer, each in STATE.items():
        folder = tmp_path / optimizer.split(":")[0] / str(each)
        folder.mkdir(parents=True)
        program, reported = compile_training(
            tpcc, path_of(name), grid, optimizer, (BATCH, SEQUENCE)
        )
        vocabulary = program.describe()["training"]["last_token"] + 1
        plan, used[optimizer] = train(program, folder, min(vocabulary, 1000))
        assert sorted(plan) == sorted(used[optimizer]) == list(range(program.grid.ranks))
        # The report is that of rank 0, which has the largest shards.
        keys = ("weight_bytes", "state_bytes", "gradient_bytes", "activation_bytes")
        assert plan[0][:4] == tuple(reported[key] for key in keys)
        for rank, (weights, state, gradients, activations, total) in plan.items():
            assert gradients + activations == used[optimizer][rank]
            assert total == weights + state + gradients + activations
            # A checkpoint has the trained weights of a rank, and their state.
            file = folder / "saved" / "step-2" / f"rank-{rank}.safetensors"
            tensors = checkpoint.read_safetensors(file)
            sizes = {key: len(data) for key, data in tensors.items()}
            trained = sum(n for key, n in sizes.items() if not key.startswith(("adamw.", "sgd.")))
            assert trained == gradients <= weights
            assert state == sum(sizes.values()) - trained == trained // 4 * each
    # New state is written over the old one, so no optimizer needs more memory for a step.
    first, *others = used.values()
    for other in others:
        for rank, size in other.items():
            assert abs(size - first[rank]) <= 256 * 64, "padding"


@pytest.mark.parametrize("grid", ["tp1", "mb4", "tp2,sp,dp2,mb2"])
def test_only_one_copy(tpcc, grid, tmp_path):
    """For a few tokens, a step of GPT-2 124M needs its gradients, and temporary values of the
    largest weight: its gradients as a table and as a head, and its transpose.
    """
    path = harness.TOP / "test" / "Models" / "gpt2-124m.onnx"
    shape = f"batch={4 if 'mb' in grid else 1},sequence=1"
    memory = report(path, grid, ("--train",), shape, tmp_path / "report.json")
    graph = onnx.load(path, load_external_data=False).graph
    largest = 4 * max(prod(tensor.dims) for tensor in graph.initializer)
    parts = 2 if "tp2" in grid else 1
    assert memory["gradient_bytes"] == memory["weight_bytes"] == memory["state_bytes"] // 2
    assert memory["activation_bytes"] < 3.6 * largest / parts

"""The search of --megatron-shard=auto: equal to exhaustive search, bounds below estimates, and the
whole space of grids."""

import json
import random
import sys

import onnx
import pytest

import harness

from expert_files import Experts
from genai_files import GenAi
from harness import TOP
from models import COMMITTED, FAMILIES
from quantized_files import Blocks, in_blocks

sys.path.append(str(TOP / "test" / "Benchmark"))

MACHINES = TOP / "lib" / "Cost" / "Machines"
STEP = "batch_size={batch},sequence_length=1,past_sequence_length=8"


@pytest.fixture(scope="session")
def plan_models(tmp_path_factory):
    """Model files with the text of their --shape."""
    folder = tmp_path_factory.mktemp("plan")
    spec = GenAi(hidden=64, inner=96, layers=5)
    plain = onnx.load(spec.save(folder / "plain.onnx"))
    onnx.save(in_blocks(plain, Blocks()), folder / "quantized.onnx")
    Experts(experts=6, layers=3).save(folder / "experts.onnx")
    whole = "batch={batch},sequence={sequence}"
    return {
        "gpt2": (COMMITTED["gpt2-odd-opset20"].path, whole),
        "llama": (FAMILIES["llama-dynamo"].path, whole),
        "deep": (TOP / "test" / "Models" / "llama-deep.onnx", whole),
        "experts": (folder / "experts.onnx", STEP),
        "quantized": (folder / "quantized.onnx", STEP),
    }


def plan(tpcc, model, *flags):
    path, shape = model
    arguments = [path, "--megatron-shard=auto", "--json", "--shape", shape, *flags]
    return json.loads(tpcc.call(arguments).check().stdout)


def draw_machine(path, rng):
    """Writes an H100 whose tables are scaled at random."""
    machine = json.loads((MACHINES / "h100-sxm.json").read_text())
    scale = {key: 10 ** rng.uniform(-1, 1) for key in ("matmul", "kernel", "collective", "network")}
    for key in ("matmul", "kernel", "collective"):
        for table in machine[key]:
            table["times"] = [[*row[:-1], row[-1] * scale[key]] for row in table["times"]]
    for table in machine["matmul"]:
        table["floor"] *= scale["matmul"]
    machine["network"]["bandwidth"] *= scale["network"]
    path.write_text(json.dumps(machine))
    return path


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=() if seed in (0, 1) else pytest.mark.long) for seed in range(200)],
)
def test_search_equals_exhaustive_search(tpcc, plan_models, tmp_path, seed):
    """For random models, machines, sizes and goals, and no bound exceeds an estimate."""
    rng = random.Random(seed)
    path, shape = plan_models[list(plan_models)[seed % len(plan_models)]]
    shape = shape.format(batch=rng.choice([1, 2, 3, 5, 8]), sequence=rng.choice([1, 7, 64]))
    is_drawn = rng.random() < 0.8
    flags = [
        f"--devices={rng.choice([2, 3, 4, 5, 6])}",
        f"--goal={rng.choice(['latency', 'throughput', 'cost'])}",
        f"--machine={draw_machine(tmp_path / 'machine.json', rng) if is_drawn else 'epyc-2core'}",
    ]
    if rng.random() < 0.5:
        flags.append(f"--gpus-per-node={rng.choice([1, 2, 4])}")
    if rng.random() < 0.3:
        flags.append(f"--memory={rng.choice([37, 38, 40])}MiB" if is_drawn else "--memory=0.4MiB")
    found = []
    for more in ([], ["--search=exhaustive"]):
        arguments = [path, "--megatron-shard=auto", "--json", "--shape", shape, *flags, *more]
        result = tpcc.call(arguments)
        if result.returncode == 0:
            found.append(json.loads(result.stdout))
            assert found[-1]["bound_ratio"] <= 1 + 1e-9
            assert found[-1]["memory_bound_ratio"] <= 1
        else:
            result.refused("no grid of at most")
            found.append(None)
    fast, whole = found
    assert (fast is None) == (whole is None)
    if fast:
        assert fast["best"] == whole["best"]
        assert fast["enumerated"] == whole["enumerated"]
        refused = sum(row["count"] for row in whole["refused"])
        assert whole["estimated"] + refused == whole["enumerated"]


def test_bounds_with_repeated_kv_heads(tpcc, plan_models):
    """tp4 repeats each of two KV heads and splits their groups of query heads, tp2 does not."""
    path, shape = plan_models["llama"]
    shape = shape.format(batch=1, sequence=500)
    flags = ["--devices=4", "--machine=epyc-2core", "--search=exhaustive"]
    found = plan(tpcc, (path, shape), *flags)
    assert "tp4" in [row["grid"] for row in found["estimates"]]
    assert found["bound_ratio"] <= 1 + 1e-9


SPACE = [
    pytest.param("deep", 4, ("vpp", "x", "pp3", "sp", "mb"), marks=pytest.mark.long),
    pytest.param("experts", 6, ("ep3", "etp1", "tp3", "dp2,ep2"), marks=pytest.mark.long),
    ("experts", 2, ("ep2", "etp1", "pp2", "tp2")),
    ("quantized", 2, ("tp2", "pp2", "dp2")),
]


@pytest.mark.parametrize("name,devices,items", SPACE)
def test_space(tpcc, plan_models, name, devices, items):
    """The search covers all axes that the model supports."""
    path, shape = plan_models[name]
    shape = shape.format(batch=4, sequence=8)
    flags = [f"--devices={devices}", "--machine=epyc-2core", "--search=exhaustive"]
    found = plan(tpcc, (path, shape), *flags)
    assert found["estimated"] >= 6 and found["bound_ratio"] <= 1 + 1e-9
    rows = [row["grid"] for row in found["estimates"]]
    for item in items:
        assert any(item in grid for grid in rows), (item, rows)
    assert found["best"][0]["grid"] == min(found["estimates"], key=lambda r: r["objective"])["grid"]


def test_search_that_is_stopped(tpcc, plan_models):
    """--search=N estimates the N most promising grids, and bounds the others."""
    path, shape = plan_models["gpt2"]
    flags = (path, shape.format(batch=6, sequence=16)), "--devices=6", "--machine=epyc-2core"
    some, whole = plan(tpcc, *flags, "--search=3"), plan(tpcc, *flags)
    assert some["estimated"] == 3 and len(some["best"]) == 3 and some["unexplored"] > 0
    assert some["unexplored_objective"] <= whole["best"][-1]["objective"]
    assert some["best"][0]["objective"] <= 1.2 * whole["best"][0]["objective"]
    assert whole["unexplored"] == 0


def test_price(tpcc, plan_models, tmp_path):
    path, shape = plan_models["gpt2"]
    model = path, shape.format(batch=2, sequence=16)
    machine = json.loads((MACHINES / "epyc-2core.json").read_text()) | {"price": 0.5}
    priced = tmp_path / "priced.json"
    priced.write_text(json.dumps(machine))
    for flags, price in (
        ([f"--machine={priced}"], 0.5),
        ([f"--machine={priced}", "--price=2"], 2),
        (["--machine=epyc-2core", "--price=3"], 3),
    ):
        found = plan(tpcc, model, "--devices=2", "--goal=cost", *flags)
        for row in found["best"]:
            assert row["price"] == pytest.approx(row["objective"] * price / 3600)
    assert "price" not in plan(tpcc, model, "--devices=2", "--machine=epyc-2core")["best"][0]
    for text in ("-1", "1e9", "nan"):
        tpcc.call(
            [path, "--megatron-shard=auto", "--devices=2", "--machine=epyc-2core"]
            + ["--shape", model[1], f"--price={text}"]
        ).refused("--price=", "from 0 to 1000000")
    for text in ("0", "-2", "some"):
        tpcc.call(
            [path, "--megatron-shard=auto", "--devices=2", "--machine=epyc-2core"]
            + ["--shape", model[1], f"--search={text}"]
        ).refused(f"--search={text}: must be a number of grids")


def rule_grids(devices, per_node, layers, batch):
    """Megatron's rules: tp within a node, then pp that divides the layers, then dp."""
    for tp in (1, 2, 4, 8):
        for pp in (1, 2, 3, 4, 6, 12):
            dp = devices // (tp * pp)
            if tp <= per_node and layers % pp == 0 and tp * pp * dp == devices and dp <= batch:
                yield f"tp{tp},pp{pp},dp{dp},mb{max(1, min(4 * pp, batch // dp)) if pp > 1 else 1}"


@pytest.mark.parametrize(
    "name,devices", [("gpt2", 4), pytest.param("gpt2-124m", 64, marks=pytest.mark.long)]
)
def test_no_rule_is_faster(tpcc, plan_models, name, devices):
    """No grid of Megatron's rules is faster in the simulator. 64 devices take seconds."""
    path, shape = plan_models["gpt2"][0], "batch=16,sequence=512"
    layers = COMMITTED["gpt2-odd-opset20"].layers
    if name != "gpt2":
        path, layers = TOP / "test" / "Models" / f"{name}.onnx", 12
    else:
        shape = "batch=16,sequence=8"
    flags = ["--machine=h100-sxm", "--shape", shape]
    arguments = [path, "--megatron-shard=auto", f"--devices={devices}", "--gpus-per-node=8"]
    result = tpcc.call([*arguments, "--json", *flags]).check()
    best = json.loads(result.stdout)["best"][0]["step"]["seconds"]
    assert result.cpu_seconds < 10 or harness.sanitized()
    for grid in rule_grids(devices, 8, layers, 16):
        spec = f"--megatron-shard={grid},gpus-per-node=8"
        found = json.loads(tpcc.call([path, spec, "--simulate", "--json", *flags]).check().stdout)
        assert best <= found["steps"][0]["seconds"] * (1 + 1e-9), grid


@pytest.mark.long
def test_405b_on_16384_devices(tpcc, tmp_path):
    """126 layers and 16,384 devices: the most promising grids in seconds."""
    import llama

    model = llama.write(tmp_path / "llama.onnx")
    result = tpcc.call(
        [model, "--megatron-shard=auto", "--devices=16384", "--gpus-per-node=8", "--json"]
        + ["--machine=h100-sxm", "--shape", "batch=2048,sequence=4096", "--search=12", "--timing"]
    ).check()
    found = json.loads(result.stdout)
    assert len(found["best"]) == 10 and found["bound_ratio"] <= 1 + 1e-9
    assert found["unexplored_objective"] <= found["best"][-1]["objective"]
    assert found["best"][0]["step"]["seconds"] < 9.5  # tp8,pp4,vpp8,dp512,sp,mb4
    assert result.peak_bytes < 1 << 30
    assert result.cpu_seconds < 15 or harness.sanitized()

"""Training: losses against the CPU, and tokens per second in bf16 next to PyTorch.

Weights and tokens are random. tpc and PyTorch optimize by AdamW in f32, with matmuls in
bf16: PyTorch by autocast, eager and compiled.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import numpy as np

from one_gpu.benchmark import flops_of, measure_device, python_env
from one_gpu.machine import Machine
from one_gpu.process import run as run_process
from one_gpu.report import Report, failed, passed, skipped

PROVES = "training computes the CPU's losses; its speed on this device is for the table"
LIMIT = 240
# Steps that allocate memory, tune matmuls and record the graph.
WARMUP = 3
# Bytes per weight: the weight, two moments, new values of these three and the gradient, all in f32;
# a copy in bf16.
STATE = 30
# A backward step has twice the operations of a forward step.
PASSES = 3


def write_tokens(report: Report, model: dict) -> Path:
    path = report.folder / f"tokens-{model['vocab']}.npy"
    count = model["batch"] * model["sequence"] * 4 + 1
    np.save(path, np.random.default_rng(0).integers(0, model["vocab"], count).astype(np.uint32))
    return path


def train(report: Report, here: Machine, model: dict, program: str, limit: float):
    """Returns the ended process, and the lines of its log."""
    flags = ["--data", write_tokens(report, model), "--steps", model["steps"], "--lr", "1e-4"]
    flags += ["--batch", model["batch"], "--sequence", model["sequence"], "--weights=random:1"]
    result = here.run([program, *map(str, flags)], limit)
    report.log(f"{model['name']} {Path(program).name}", str(result))
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    return result, lines


def compare(report: Report, here: Machine, model: dict, limit: float):
    """Compares losses and norms of gradients with those of the program for CPUs."""
    logs = []
    for program in (model["executable"], model["cpu"]):
        result, lines = train(report, here, model, program, limit / 2)
        if not result.ok:
            return failed(f"{Path(program).name}: {result.why()}")
        logs.append(np.array([[line["loss"], line["grad_norm"]] for line in lines]))
    gpu, cpu = logs
    error = float(np.max(np.abs(gpu - cpu) / np.abs(cpu)))
    verdict = passed if error <= model["tolerance"] else failed
    return verdict(f"{len(cpu)} steps, relative error {error:.1e} of {model['tolerance']:.1e}")


def share_of(report: Report, model: dict, seconds: float) -> dict:
    """Returns the share of cuBLASLt's bf16 rate, if it was measured."""
    rate = report.machine.get("rates", {}).get("bf16_flops_per_second")
    if not rate:
        return {}
    flops = PASSES * model["batch"] * flops_of(model, model["sequence"])
    return {"share_of_products": flops / seconds / rate}


def describe(report: Report, model: dict, way: str, seconds: float) -> dict:
    return {
        "way": way,
        "seconds": seconds,
        "tokens_per_second": model["batch"] * model["sequence"] / seconds,
        **share_of(report, model, seconds),
    }


def text_of(row: dict) -> str:
    if "problem" in row:
        return f"{row['way']}: {row['problem']}"
    share = f", {row['share_of_products']:.1%} of cuBLASLt's rate" * ("share_of_products" in row)
    return f"{row['way']}: {row['tokens_per_second']:.4g} tokens/s{share}"


def too_large(report: Report, model: dict):
    free = report.machine.get("rates", {}).get("free_bytes")
    need = STATE * model["weights"]
    if free and need > free:
        return skipped(f"{need / 2**30:.0f} GiB are needed, and {free / 2**30:.0f} are free")
    return None


def measure(report: Report, here: Machine, model: dict, limit: float):
    if verdict := too_large(report, model):
        return verdict
    result, lines = train(report, here, model, model["executable"], limit)
    if not result.ok:
        return failed(result.why())
    tokens = model["batch"] * model["sequence"]
    seconds = statistics.median(tokens / line["tokens_per_second"] for line in lines[WARMUP:])
    row = describe(report, model, "tpc", seconds)
    return passed(text_of(row), training=model["name"], rows=[row])


def measure_torch(report: Report, here: Machine, model: dict, limit: float):
    if verdict := too_large(report, model):
        return verdict
    command = [here.torch, "-m", "one_gpu.pytorch_training", json.dumps(model)]
    result = run_process(command, limit, python_env(here), cwd=here.pack)
    report.log(f"{model['name']} PyTorch training", str(result))
    rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    rows = [
        describe(report, model, row["way"], row["seconds"]) if "seconds" in row else row
        for row in rows
    ]
    # Errors of PyTorch are not failures of tpc.
    if not rows:
        return skipped(f"PyTorch: {result.why()}")
    text = "; ".join(map(text_of, rows)) + ("" if result.ok else f" ({result.why()})")
    return passed(text, training=model["name"], rows=rows)


def run(report: Report, here: Machine) -> None:
    if "rates" not in report.machine:
        report.check("training", "device", lambda limit: measure_device(report, here, limit), LIMIT)
    for model in here.listed["training"]:
        checks = {"": measure, " PyTorch": measure_torch}
        if "cpu" in model:
            checks = {" against the CPU": compare}
        for suffix, function in checks.items():
            report.check(
                "training",
                f"{model['name']}{suffix}",
                lambda limit: function(report, here, model, limit),
                LIMIT,
            )

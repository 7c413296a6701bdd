"""Measures prefill and step times, relative to the device's measured peak and to PyTorch.

For both tpc and PyTorch, a step reads ids from the host and writes logits to the host. Weights are
random, and both compute in f32 without TF32.
"""

from __future__ import annotations

import json
import os
import sys

from one_gpu.machine import Machine
from one_gpu.process import run as run_process
from one_gpu.report import Report, failed, passed, skipped

PROVES = "speed of steps on this device (no check: numbers for the table)"
LIMIT = 240
# Required memory relative to the weights. The excess is for activations and libraries.
SPARE = 1.15


def flops_of(geometry: dict, tokens: int) -> float:
    """Returns the floating-point operations of matmuls and of attention (causal: half of the
    square)."""
    return (
        2 * geometry["multiplied"] * tokens
        + 2 * geometry["layers"] * geometry["hidden"] * tokens**2
    )


def python_env(here: Machine) -> dict[str, str]:
    return {**here.env, "PYTHONPATH": f"{here.pack}:{os.environ.get('PYTHONPATH', '')}"}


def measure_device(report: Report, here: Machine, limit: float):
    sizes = [str(size) for size in here.listed["rates"]]
    result = run_process(
        [sys.executable, "-m", "one_gpu.vendor", here.env["TPC_CUDA_LIBS"], *sizes],
        limit,
        python_env(here),
        cwd=here.pack,
    )
    report.log("device", str(result))
    if not result.ok:
        return failed(result.why())
    rates = json.loads(result.stdout)
    report.machine["rates"] = rates
    return passed(
        f"{rates['device']}: {rates['flops_per_second'] / 1e12:.3g} TFLOP/s of cuBLASLt in f32, "
        f"{rates['bytes_per_second'] / 1e9:.4g} GB/s",
        **rates,
    )


def too_large(report: Report, model: dict):
    rates = report.machine.get("rates")
    if rates and 4 * model["weights"] * SPARE > rates["free_bytes"]:
        return skipped(
            f"{4 * model['weights'] * SPARE / 2**30:.0f} GiB are needed, and "
            f"{rates['free_bytes'] / 2**30:.0f} are free"
        )
    return None


def measure(report: Report, here: Machine, model: dict, phase: str, tokens: int, limit: float):
    if verdict := too_large(report, model):
        return verdict
    name = f"{model['name']} {phase}"
    run_result = here.run(
        [
            model["executable"],
            "--bench",
            "--shape",
            f"batch=1,sequence={tokens}",
            "--weights=random:1",
            "--warmup",
            "3",
            "--repeat",
            str(here.listed["repeat"]),
        ],
        limit,
    )
    report.log(name, str(run_result))
    if not run_result.ok:
        return failed(run_result.why())
    result = json.loads(run_result.stdout[run_result.stdout.index("{") :])
    seconds = result["seconds"]
    data = {
        "model": model["name"],
        "phase": phase,
        "tokens": tokens,
        "seconds": seconds,
        "min_seconds": result["min_seconds"],
        "load_seconds": result["load_seconds"],
    }
    note = f"{seconds * 1e3:.4g} ms, loaded in {result['load_seconds']:.1f} s"
    if rates := report.machine.get("rates"):
        data["share_of_products"] = flops_of(model, tokens) / seconds / rates["flops_per_second"]
        data["share_of_bandwidth"] = 4 * model["multiplied"] / seconds / rates["bytes_per_second"]
        note += (
            f"; {data['share_of_products']:.1%} of cuBLASLt's rate,"
            f" {data['share_of_bandwidth']:.1%} of the bandwidth for reading weights once"
        )
    return passed(note, **data)


def measure_torch(report: Report, here: Machine, model: dict, limit: float):
    """Runs all variants and phases in one process. It prints its results line by line, so that a
    hang does not lose earlier results.
    """
    if verdict := too_large(report, model):
        return verdict
    phases = json.dumps(here.listed["phases"])
    result = run_process(
        [
            here.torch,
            "-m",
            "one_gpu.pytorch",
            json.dumps(model),
            phases,
            str(here.listed["repeat"]),
        ],
        limit,
        python_env(here),
        cwd=here.pack,
    )
    report.log(f"{model['name']} PyTorch", str(result))
    rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    text = ", ".join(
        (
            f"{row['phase']} {row['way']} {row['seconds'] * 1e3:.4g} ms"
            if "seconds" in row
            else f"{row['phase']} {row['way']}: {row['problem']}"
        )
        for row in rows
    )
    # Errors of PyTorch are not failures of tpc.
    return (
        passed(text + ("" if result.ok else f" ({result.why()})"), rows=rows)
        if rows
        else skipped(f"PyTorch: {result.why()}")
    )


def run(report: Report, here: Machine) -> None:
    report.check("benchmark", "device", lambda limit: measure_device(report, here, limit), LIMIT)
    has_torch = run_process(
        [
            here.torch,
            "-c",
            "import torch; assert torch.cuda.is_available(); print(torch.__version__)",
        ],
        90,
    )
    report.machine["torch"] = has_torch.stdout.strip() if has_torch.ok else ""
    for model in here.listed["benchmarks"]:
        for phase, tokens in here.listed["phases"].items():
            report.check(
                "benchmark",
                f"{model['name']} {phase}",
                lambda limit: measure(report, here, model, phase, tokens, limit),
                LIMIT,
            )
        report.check(
            "benchmark",
            f"{model['name']} PyTorch",
            lambda limit: (
                measure_torch(report, here, model, limit)
                if has_torch.ok
                else skipped("PyTorch with CUDA is not installed")
            ),
            LIMIT,
        )

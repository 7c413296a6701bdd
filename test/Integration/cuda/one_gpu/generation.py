"""Measures generation in bf16: time to the first token, time per token, and time per kernel.

Weights are random. PyTorch computes the same shapes with static caches and the last token's logits:
eager, and compiled by layers and captured as one CUDA graph.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from one_gpu.benchmark import python_env
from one_gpu.machine import Machine
from one_gpu.process import run as run_process
from one_gpu.report import Report, failed, passed, skipped

PROVES = "speed of generation on this device (no check: numbers for the table)"
LIMIT = 240
# The kernel that ends a step.
CHOICE = re.compile(r"tpc_(choose|largest)")
# Classes of kernels by names; the first match counts.
CLASSES = {
    "attention": r"attention|cudnn|flash",
    "matmul": r"gemv|nvjet|gemm|cublas|cutlass|splitK",
    "sampling": CHOICE.pattern,
    "append": r"append",
    "norm": r"norm",
}


def command_of(here: Machine, model: dict) -> list[str]:
    return [
        str(here.pack / model["executable"]),
        "--serve-stdin",
        "--max-batch=1",
        f"--max-sequence={model['capacity']}",
        f"--prefill-chunk={max(model['prompts'])}",
        "--weights=random:1",
    ]


def serve(here: Machine, model: dict, prompts: list[int], tokens: int, limit: float, env, log):
    """Runs requests one after the other. Yields a prompt's length, the seconds to its first token,
    and the mean seconds per token after it.
    """
    end = time.monotonic() + limit
    errors = log.open("a")
    process = subprocess.Popen(
        command_of(here, model),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, **here.env, **env},
    )
    try:
        for number, prompt in enumerate(prompts):
            request = {
                "id": str(number),
                "ids": [(7 * i + number) % model["vocab"] for i in range(prompt)],
                "max_new_tokens": tokens,
            }
            begin, times = time.monotonic(), []
            process.stdin.write((json.dumps(request) + "\n").encode())
            process.stdin.flush()
            while True:
                line = process.stdout.readline()
                if not line or time.monotonic() > end:
                    raise RuntimeError("the program ended" if not line else "the limit was reached")
                event = json.loads(line)
                if event.get("finish") == "error" or "error" in event:
                    raise RuntimeError(str(event))
                if "finish" in event:
                    break
                times.append(time.monotonic())
            yield prompt, times[0] - begin, (times[-1] - times[0]) / max(len(times) - 1, 1)
        process.stdin.close()
        process.wait(timeout=30)
    finally:
        process.kill()
        process.wait()
        errors.close()


def log_of(report: Report, name: str) -> Path:
    return report.folder / "logs" / f"{re.sub(r'[^a-zA-Z0-9]+', '_', name)}_generation.txt"


def measure(report: Report, here: Machine, model: dict, limit: float):
    """The last request of each length counts: the first ones tune matmuls and record steps."""
    prompts = model["prompts"]
    rows, first = {}, None
    env, log = model.get("env", {}), log_of(report, model["name"])
    for prompt, start, step in serve(here, model, prompts, model["tokens"], limit, env, log):
        first = first or start
        rows[prompt] = {"prompt": prompt, "prefill_seconds": start, "decode_seconds": step}
    note = f"first token after {first:.2f} s; " + "; ".join(
        f"prompt {row['prompt']}: {row['prefill_seconds'] * 1e3:.3g} ms,"
        f" {row['decode_seconds'] * 1e3:.3g} ms a token"
        for row in rows.values()
    )
    return passed(note, generation=model["name"], way="tpc", rows=list(rows.values()))


def class_of(kernel: str) -> str:
    return next((name for name, text in CLASSES.items() if re.search(text, kernel)), "other")


def summarize(step: list[tuple[int, int, int, str]]) -> dict:
    """Returns microseconds of a step: of its kernels, by class and name, and from the first to the
    last. A kernel that begins before the previous one ends counts from that end on.
    """
    classes, names, busy, last = {}, {}, 0.0, step[0][0]
    for begin, end, blocks, name in step:
        own = max(end - max(begin, last), 0) / 1e3
        busy, last = busy + own, max(last, end)
        for key, table in ((class_of(name), classes), (f"{name} ({blocks})", names)):
            count, time_ = table.get(key, (0, 0.0))
            table[key] = (count + 1, time_ + own)
    order = sorted(names.items(), key=lambda item: -item[1][1])
    return {
        "kernels": len(step),
        "microseconds": busy,
        "span": (last - step[0][0]) / 1e3,
        "classes": classes,
        "names": dict(order),
    }


def is_prefill(step: list[tuple[int, int, int, str]]) -> bool:
    """Returns whether some attention kernel computes many rows."""
    names = [name for *_, name in step if class_of(name) == "attention"]
    return any(not name.endswith("_split") for name in names)


def steps_of(file: Path) -> list[list[tuple[int, int, int, str]]]:
    """Returns the kernels of each step in the order of their begin. A step ends with the choice of
    its token; kernels that prepare the next step belong to it.
    """
    rows = sorted(
        (int(begin), int(end), int(blocks), name)
        for begin, end, blocks, name in (
            line.split("\t", 3) for line in file.read_text().splitlines()
        )
    )
    steps = [[]]
    for row in rows:
        steps[-1].append(row)
        if CHOICE.search(row[3]):
            steps.append([])
    return [step for step in steps if step]


def profile(report: Report, here: Machine, model: dict, limit: float):
    """Measures the kernels of the last request's prefill, and of its last decode step."""
    library = here.pack / "bin" / "libkernel_times.so"
    cupti = next(
        (path for folder in here.folders() for path in sorted(Path(folder).glob("libcupti.so.1?"))),
        None,
    )
    if not library.exists() or not cupti:
        return skipped("CUPTI is not installed here, or was not where the pack was made")
    times, tokens = report.folder / f"{re.sub(r'[^a-zA-Z0-9]+', '_', model['name'])}.tsv", 8
    env = {
        **model.get("env", {}),
        "CUDA_INJECTION64_PATH": str(library),
        "TPC_CUPTI": str(cupti),
        "TPC_KERNEL_TIMES": str(times),
    }
    log = log_of(report, f"{model['name']} kernels")
    list(serve(here, model, model["prompts"][:1] * 3, tokens, limit, env, log))
    if not times.exists():
        return skipped("CUPTI wrote no kernel times")
    steps = steps_of(times)
    last = max(number for number, step in enumerate(steps) if is_prefill(step))
    # Steps that were launched ahead of the last token may be incomplete.
    found = {"prefill": summarize(steps[last]), "decode": summarize(steps[last + tokens // 2])}
    notes = []
    for phase, step in found.items():
        report.log(f"{model['name']} {phase} kernels", json.dumps(step, indent=1))
        classes = sorted(step["classes"].items(), key=lambda item: -item[1][1])
        parts = ", ".join(f"{name} {time_:.0f} ({count})" for name, (count, time_) in classes)
        notes.append(
            f"{phase}: {step['kernels']} kernels, {step['microseconds']:.0f} us, of"
            f" {step['span']:.0f} from first to last: {parts}"
        )
    return passed("; ".join(notes), kernels=model["name"], **found)


def measure_torch(report: Report, here: Machine, model: dict, limit: float):
    cases = [[512, "prefill"], [1, "decode"]]
    cases += [[length, "prefill"] for length in sorted(set(model["prompts"])) if length != 512]
    result = run_process(
        [here.torch, "-m", "one_gpu.pytorch_generation", json.dumps(model), json.dumps(cases)],
        limit,
        python_env(here),
        cwd=here.pack,
    )
    report.log(f"{model['name']} PyTorch generation", str(result))
    rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    text = ", ".join(
        f"{row['phase']} {row['tokens']} {row['way']} "
        + (f"{row['seconds'] * 1e3:.3g} ms" if "seconds" in row else row["problem"])
        for row in rows
    )
    # Errors of PyTorch are not failures of tpc.
    return (
        passed(
            text + ("" if result.ok else f" ({result.why()})"),
            generation=model["name"],
            rows=rows,
        )
        if rows
        else skipped(f"PyTorch: {result.why()}")
    )


def run(report: Report, here: Machine) -> None:
    for model in here.listed["generation"]:
        for suffix, function in (
            ("", measure),
            (" kernels", profile),
            (" PyTorch", measure_torch),
        ):
            report.check(
                "generation",
                f"{model['name']}{suffix}",
                lambda limit: function(report, here, model, limit),
                LIMIT,
            )

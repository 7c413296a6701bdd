"""Tables of docs/reference/gpu-results.md, from the results.json of runs on GPUs."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from one_gpu import generation_table, training_table

BEGIN, END = "<!-- results: test/Integration/cuda/run table --write -->", "<!-- end of results -->"
SPEED_BEGIN, SPEED_END = BEGIN.replace("results", "speed", 1), END.replace("results", "speed", 1)
NONE = "No results yet."


def row(cells) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def milliseconds(seconds) -> str:
    return f"{seconds * 1e3:.3g}" if seconds else ""


def of_run(results: dict) -> list[str]:
    machine, checks = results["machine"], results["checks"]
    rates = machine.get("rates", {})
    name = rates.get("device") or machine.get("nvidia-smi", "").split(",")[0] or "unknown device"
    lines = [f"### {name}", ""]
    facts = {
        "driver": machine.get("driver") or rates.get("driver"),
        "products": machine.get("products"),
        "kernels": machine.get("kernels"),
        "PyTorch": machine.get("torch"),
    }
    facts = (
        "; ".join(f"{key}: {' '.join(str(value).split())}" for key, value in facts.items() if value)
        + "."
    )
    lines += [*textwrap.wrap(facts, 100), ""]
    lines += [row(["part", "passed", "failed", "did not run"]), row(["---"] * 4)]
    for part in dict.fromkeys(check["part"] for check in checks):
        states = [check["state"] for check in checks if check["part"] == part]
        lines.append(
            row([part, *(states.count(state) for state in ("passed", "failed", "skipped"))])
        )
    lines += [""] + [
        f"Failed: {check['part']}: {check['name']}."
        for check in checks
        if check["state"] == "failed"
    ]
    torch = {
        (check["name"].removesuffix(" PyTorch"), one["phase"], one["way"]): one.get("seconds")
        for check in checks
        if check["part"] == "benchmark"
        for one in check["data"].get("rows", [])
    }
    measured = [check["data"] for check in checks if "share_of_products" in check["data"]]
    if not measured:
        return lines
    lines += [
        "",
        f"cuBLASLt's f32 matmuls: {rates['flops_per_second'] / 1e12:.3g} TFLOP/s; device copies: "
        f"{rates['bytes_per_second'] / 1e9:.4g} GB/s; both of the same run.",
        "",
        row(
            [
                "f32 model",
                "tokens",
                "tpc, ms",
                "eager, ms",
                "compiled, ms",
                "CUDA graphs, ms",
                "speed to the best",
                "of cuBLASLt's rate",
                "of the bandwidth",
            ]
        ),
        row(["---"] * 9),
    ]
    for data in measured:
        others = [
            torch.get((data["model"], data["phase"], way))
            for way in ("eager", "compiled", "compiled with CUDA graphs")
        ]
        best = min(filter(None, others), default=None)
        lines.append(
            row(
                [
                    data["model"],
                    data["tokens"],
                    milliseconds(data["seconds"]),
                    *map(milliseconds, others),
                    f"{best / data['seconds']:.2f}" if best else "",
                    f"{data['share_of_products']:.0%}",
                    f"{data['share_of_bandwidth']:.0%}",
                ]
            )
        )
    return lines


def checks_of(runs: list[dict]) -> list[dict]:
    return [check for run in runs for check in run["checks"]]


def render(runs: list[dict]) -> str:
    """Returns the tables of the contents of results.json files, then those of generation
    and of training."""
    text = "\n".join(line for run in runs for line in [*of_run(run), ""]).strip()
    if table := generation_table.render(checks_of(runs)):
        text += "\n\n### Generation\n\nSpeed relative to PyTorch: above 1, tpc is faster.\n\n"
        text += table
    if table := training_table.render(checks_of(runs)):
        text += "\n\n### Training\n\nSpeed relative to PyTorch, and utilization in parts of "
        text += "cuBLASLt's bf16 rate.\n\n" + table
    return text.strip() or NONE


def replace(page: Path, begin: str, end: str, text: str) -> None:
    before, rest = page.read_text().split(begin)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}")


def main(files: list[Path], write: bool) -> int:
    runs = [json.loads(file.read_text()) for file in files]
    text = render(runs)
    if not write:
        print(text)
        return 0
    top = Path(__file__).resolve().parents[4]
    replace(top / "docs" / "reference" / "gpu-results.md", BEGIN, END, text)
    if table := generation_table.render(checks_of(runs)):
        replace(top / "README.md", SPEED_BEGIN, SPEED_END, table)
    return 0

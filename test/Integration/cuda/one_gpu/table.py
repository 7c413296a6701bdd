"""The tables of docs/reference/gpu-results.md, of results.json of runs on GPUs."""

from __future__ import annotations

import json
from pathlib import Path

BEGIN, END = "<!-- results: test/Integration/cuda/run table --write -->", "<!-- end of results -->"
NONE = "No GPU has run this yet: the table is empty."


def row(cells) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def milliseconds(seconds) -> str:
    return f"{seconds * 1e3:.3g}" if seconds else ""


def of_run(results: dict) -> list[str]:
    machine, checks = results["machine"], results["checks"]
    rates = machine.get("rates", {})
    name = rates.get("device") or machine.get("nvidia-smi", "").split(",")[0] or "unknown device"
    lines = [f"### {name}", ""]
    facts = {"driver": machine.get("driver") or rates.get("driver"), "products": machine.get("products"),
             "kernels": machine.get("kernels"), "PyTorch": machine.get("torch")}
    lines += ["; ".join(f"{key}: {value}" for key, value in facts.items() if value) + ".", ""]
    lines += [row(["part", "passed", "failed", "did not run"]), row(["---"] * 4)]
    for part in dict.fromkeys(check["part"] for check in checks):
        states = [check["state"] for check in checks if check["part"] == part]
        lines.append(row([part, *(states.count(state) for state in ("passed", "failed", "skipped"))]))
    lines += [""] + [f"Failed: {check['part']}: {check['name']}." for check in checks if check["state"] == "failed"]
    torch = {(check["name"].removesuffix(" PyTorch"), one["phase"], one["way"]): one.get("seconds")
             for check in checks for one in check["data"].get("rows", [])}
    measured = [check["data"] for check in checks if "share_of_products" in check["data"]]
    if not measured:
        return lines
    lines += ["", f"cuBLASLt's products in f32: {rates['flops_per_second'] / 1e12:.3g} TFLOP/s; copies within the device: "
              f"{rates['bytes_per_second'] / 1e9:.4g} GB/s; both of the same run.", "",
              row(["model", "tokens", "tpc, ms", "eager, ms", "compiled, ms", "CUDA graphs, ms", "speed to the best of these",
                   "of cuBLASLt's rate", "of the bandwidth"]), row(["---"] * 9)]
    for data in measured:
        others = [torch.get((data["model"], data["phase"], way))
                  for way in ("eager", "compiled", "compiled with CUDA graphs")]
        best = min(filter(None, others), default=None)
        lines.append(row([data["model"], data["tokens"], milliseconds(data["seconds"]), *map(milliseconds, others),
                          f"{best / data['seconds']:.2f}" if best else "", f"{data['share_of_products']:.0%}",
                          f"{data['share_of_bandwidth']:.0%}"]))
    return lines


def render(files: list[Path]) -> str:
    runs = [of_run(json.loads(file.read_text())) for file in files]
    return "\n".join(line for lines in runs for line in [*lines, ""]).strip() if runs else NONE


def main(files: list[Path], write: bool) -> int:
    text = render(files)
    if not write:
        print(text)
        return 0
    page = Path(__file__).resolve().parents[4] / "docs" / "reference" / "gpu-results.md"
    before, rest = page.read_text().split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")
    return 0

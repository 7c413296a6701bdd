"""Writes the table of generation speed on a GPU, from JSON lines of tpc's service and PyTorch.

Lines of tpc have `name` (model, type and "gen"), `prompt`, `batch`, `first_ms` and `step_ms`.
Lines of PyTorch have `model`, `way`, `case` ("decode1@512", "prefill512_last") and `ms`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

# Maps PyTorch's name of a model to tpc's name and the name in the table.
MODELS = {
    "gpt2-124m": ("gpt2 bf16 gen", "GPT-2 124M"),
    "llama-1b": ("llama1b bf16 gen", "LLaMA-3.2-1B shape"),
    "llama-8b": ("llama8b bf16 gen", "LLaMA-3.1-8B shape"),
}
CASES = {
    "decode1@512": (512, "step_ms"),
    "prefill512_last": (512, "first_ms"),
    "prefill2048_last": (2048, "first_ms"),
}
HEADER = (
    "| bf16, batch 1 | decode, ms | to eager | to compiled "
    "| prefill 512, ms | to eager | to compiled |\n|---|---|---|---|---|---|---|"
)


def read_lines(files: Iterable[Path]) -> list[dict]:
    return [
        json.loads(line) for file in files for line in file.read_text().splitlines() if line.strip()
    ]


def cells_of(lines: list[dict], model: str, case: str) -> list[str]:
    """Returns tpc's milliseconds, and its speed relative to PyTorch eager and compiled.

    Uses the last request of each prompt length, because the first ones tune matmuls and capture
    graphs.
    """
    tokens, key = CASES[case]
    own = [
        line[key]
        for line in lines
        if line.get("name") == MODELS[model][0] and line.get("prompt") == tokens
    ]
    peers = {
        line["way"]: line["ms"]
        for line in lines
        if line.get("model") == model and line.get("case") == case
    }
    if not own:
        return [""] * 3
    ratios = [
        f"{peers[way] / own[-1]:.2f}" if way in peers else "" for way in ("eager", "compiled+graph")
    ]
    return [f"{own[-1]:.2f}" if own[-1] < 10 else f"{own[-1]:.1f}", *ratios]


def render(files: Iterable[Path], cases=("decode1@512", "prefill512_last")) -> str:
    lines = read_lines(files)
    rows = [
        [MODELS[model][1], *(cell for case in cases for cell in cells_of(lines, model, case))]
        for model in MODELS
    ]
    return "\n".join([HEADER, *("| " + " | ".join(row) + " |" for row in rows if any(row[1:]))])

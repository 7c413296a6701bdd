"""Table of generation speed on a GPU, next to PyTorch, from checks of the part `generation`."""

from __future__ import annotations

HEADER = (
    "| bf16, batch 1 | decode, ms | × eager | × compiled "
    "| prefill 512, ms | × eager | × compiled |\n|---|---|---|---|---|---|---|"
)


def seconds_of(rows: dict[str, list[dict]], way: str, phase: str, tokens: int) -> float | None:
    """Returns the seconds of a case. tpc's rows have both phases of a prompt."""
    for row in rows.get(way, []):
        if way == "tpc" and row["prompt"] == tokens:
            return row[f"{phase}_seconds"]
        if way != "tpc" and row["way"] == way and row["phase"] == phase:
            if phase == "decode" or row["tokens"] == tokens:
                return row.get("seconds")
    return None


def cells_of(rows: dict[str, list[dict]], phase: str, tokens: int) -> list[str]:
    """Returns tpc's milliseconds, and its speed relative to PyTorch eager and compiled."""
    own = seconds_of(rows, "tpc", phase, tokens)
    if not own:
        return [""] * 3
    peers = [seconds_of(rows, way, phase, tokens) for way in ("eager", "compiled")]
    return [f"{own * 1e3:.3g}", *(f"{peer / own:.2f}" if peer else "" for peer in peers)]


def render(checks: list[dict], cases=(("decode", 512), ("prefill", 512))) -> str:
    """Returns the table, or nothing if no check has results."""
    models: dict[str, dict[str, list[dict]]] = {}
    for check in checks:
        data = check["data"]
        if "generation" not in data:
            continue
        rows = models.setdefault(data["generation"], {})
        if data.get("way") == "tpc":
            rows["tpc"] = data["rows"]
        else:
            rows["eager"] = rows["compiled"] = data["rows"]
    lines = [
        [name, *(cell for phase, tokens in cases for cell in cells_of(rows, phase, tokens))]
        for name, rows in models.items()
    ]
    lines = ["| " + " | ".join(line) + " |" for line in lines if any(line[1:])]
    return "\n".join([HEADER, *lines]) if lines else ""

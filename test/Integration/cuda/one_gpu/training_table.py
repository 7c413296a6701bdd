"""Table of training speed on a GPU, next to PyTorch, from checks of the part `training`."""

from __future__ import annotations

HEADER = (
    "| bf16, AdamW | tokens/s | × eager | × compiled | FLOPs utilization | eager | compiled |\n"
    "|---|---|---|---|---|---|---|"
)
WAYS = ("eager", "compiled")


def render(checks: list[dict]) -> str:
    """Returns the table, or nothing if no check has results."""
    models: dict[str, dict[str, dict]] = {}
    for check in checks:
        if "training" in check["data"]:
            ways = models.setdefault(check["data"]["training"], {})
            ways |= {row["way"]: row for row in check["data"]["rows"] if "seconds" in row}

    def cells_of(ways: dict[str, dict]) -> list[str]:
        own, peers = ways["tpc"], [ways.get(way) for way in WAYS]
        shares = [row.get("share_of_products") if row else None for row in (own, *peers)]
        return [
            f"{own['tokens_per_second']:.4g}",
            *(f"{peer['seconds'] / own['seconds']:.2f}" if peer else "" for peer in peers),
            *(f"{share:.0%}" if share else "" for share in shares),
        ]

    lines = [[name, *cells_of(ways)] for name, ways in models.items() if "tpc" in ways]
    return "\n".join([HEADER, *(f"| {' | '.join(line)} |" for line in lines)]) if lines else ""

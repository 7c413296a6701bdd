#!/usr/bin/env python3
"""Generator of docs/reference/plans.md: memory and communication of plans, and lower bounds.

Compiles each model family of test/Models at each grid. With --check, the script writes nothing and
fails if a ratio exceeds the recorded one.

    tools/plans.py [--check] [--tpcc build/bin/tpcc] [--models NAME,…]
"""

import argparse
import collections
import dataclasses
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path[:0] = [
    str(TOP / folder) for folder in ("python", "test/Integration", "test/Integration/cpu")
]

import onnx  # noqa: E402

from halves import halve  # noqa: E402
from harness import Grid  # noqa: E402
from models import COMMITTED, FAMILIES  # noqa: E402
from test_report import expected_totals  # noqa: E402

PAGE = TOP / "docs" / "reference" / "plans.md"
MODELS = {
    name: model
    for name, model in {**COMMITTED, **FAMILIES}.items()
    if name in ("gpt2-odd-opset20", "gpt2-tiny-nopast", "llama-deep")
    or name.endswith(("-dynamo", "-past"))
    and name != "llama-deep-past"
}
GRIDS = [
    Grid.parse(text)
    for text in ("tp2", "tp3", "tp4", "tp8", "tp2,sp", "tp4,sp", "tp2x2", "tp2x4", "pp2", "pp4")
]
BATCH, SEQUENCE, PAST = 2, 32, 8
F32 = 4
# Models that are compiled in f16, with an f32 residual and with an f16 residual.
HALVES = ("gpt2-tiny-nopast", "llama-dynamo", "phi-dynamo", "gemma2-dynamo")
HALF_GRIDS = [Grid.parse(text) for text in ("tp2", "tp4", "tp2,sp", "tp2x2", "pp2", "tp2,pp2")]
TOLERANCE = 1.05
# Fraction of the whole buffer that each of n ranks sends; for reductions, in a ring.
SENT = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    # Kinds whose reported bytes already are the bytes that a rank sends.
    "send": lambda n: 1,
    "collective_permute": lambda n: 1,
    "exchange": lambda n: 1,
}

INTRODUCTION = """<!-- Written by tools/plans.py; do not edit. -->

# Plans and their bounds

Plans of all families in `test/Models`, compared with lower bounds. `tools/plans.py` writes this
page from `tpcc --report`; `tools/plans.py --check` is a test: numbers may only get smaller.

Each cell has two ratios, `memory · communication`:

* **memory**: the weight bytes of the worst-case rank, divided by an even share: the weight bytes at
  tp1 / the number of ranks. These models are tiny, so norms and biases, which every rank has, are a
  larger part than in real ones. Stages are cut for time. A cut within a layer may increase the
  maximum, by at most the factor by which it makes the slowest stage faster.
* **communication**: the bytes that a rank sends in a step, summed over the stages, divided by the
  closed forms of [Communication](../design/communication.md#closed-forms) and of
  [two dimensions](../design/partitioning.md#tensor-parallelism-in-two-dimensions): for L layers
  2L+1 reductions of `[tokens, width]`, L+1 where attention and MLP are added at once; for pp one
  message of `[tokens, width]` per cut. Bytes are those of rings. In two dimensions the closed form
  reduces the same width before and after a matrix; where a gather moves fewer bytes, ratios are
  below 1.

Batch {batch}, sequence {sequence}, past {past}, f32. Cells in bold are above {fine}; their reasons
are below.
"""


RESIDUALS = """
## Residuals of 16 bits

Models in f16 keep [their residual in f32](../gpu.md#precision). The ratios are bytes that a rank
sends in a step, summed over the stages, divided by those with `--residual=same`. Sums over tp and
messages between stages double. Gathers of sp, and sums within layers of two dimensions, have 16
bits either way.
"""


def compile_plan(tpcc, model, grid, folder, *flags):
    """Returns (report, spmd program) of a model at a grid."""
    report, text = folder / "report.json", folder / "spmd.mlir"
    shape = ",".join(f"{name}={size}" for name, size in model.shape(BATCH, SEQUENCE, PAST).items())
    done = subprocess.run(
        [
            tpcc,
            model.path,
            f"--megatron-shard={grid}",
            f"--report={report}",
            "--shape",
            shape,
            "--emit=spmd",
            "--plain",
            *flags,
            "-o",
            text,
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        sys.exit(f"tools/plans.py: {model.name} at {grid}: {done.stderr}")
    return json.loads(report.read_text()), text.read_text()


def elements(shape):
    result = 1
    for size in shape:
        result *= size
    return result


def count_norm_sums(text):
    """Counts the values per token that norms reduce over tp: a mean and a variance, or a mean
    square."""
    bodies = dict(re.findall(r"func\.func (?:private )?@(\w+)(\(.*?)\n  }", text, re.S))

    def count(name):
        return (
            2 * len(re.findall(r"tpc\.layer_norm ", bodies[name]))
            + len(re.findall(r"tpc\.rms_norm ", bodies[name]))
            + sum(count(callee) for callee in re.findall(r"call @(\w+)\(", bodies[name]))
        )

    return count("main")


def get_bounds(model, grid, whole):
    """Returns (axis, kind) -> lower bound of the bytes that one rank sends.

    `whole`: (report, program) of the model at tp1.
    """
    report, text = whole
    tokens, width = BATCH * SEQUENCE * F32, model.hidden
    per_layer = model.reductions or 2
    result = collections.Counter()
    if grid.xy:
        reductions = per_layer * model.layers + 1
        x, y = grid.xy

        def add(axis, n, kind, size):
            result[axis, kind] += tokens * size * SENT[kind](n)

        add("tpy", y, "reduce_scatter", reductions * width / x)
        add("tpy", y, "all_gather", reductions * width / x)
        for parameter in report["stages"][0]["parameters"]:
            shape = parameter["shape"]
            if (
                len(shape) == 2
                and width in shape
                and model.vocab not in shape
                and model.positions not in shape
            ):
                # Width of the residual: rows of a column-parallel matrix, columns of a row-parallel
                # matrix.
                add("tpx", x, "reduce_scatter", (shape[0] if shape[1] == width else shape[1]) / y)
        add("tpx", x, "reduce_scatter", model.vocab / y)
        add("tpx-tpy", x * y, "all_reduce", count_norm_sums(text))
    else:
        for (axis, kind), (_, size) in expected_totals(
            model, grid, BATCH, SEQUENCE, per_layer
        ).items():
            result[axis, kind] = size * SENT[kind](grid.tp)
    if grid.tp > 1 and not grid.xy and model.norm_sums:
        result["tp", "all_reduce"] += (
            model.layers * tokens * model.norm_sums * SENT["all_reduce"](grid.tp)
        )
    return result


def count_sent(grid, report):
    """Returns (axis, kind) -> bytes that one rank of each stage sends."""
    x, y = grid.xy or (1, 1)
    sizes = {"pp": grid.pp, "tp": grid.tp, "tpx": x, "tpy": y, "tpx-tpy": x * y}
    result = collections.Counter()
    for row in report["collectives"]:
        if row["axis"] != "output":
            result[row["axis"], row["kind"]] += row["bytes"] * SENT[row["kind"]](sizes[row["axis"]])
    return result


def describe_shares(parts, whole):
    """Describes the largest entries of `parts` as fractions of `whole`, and the sum of the
    others."""
    parts = sorted(
        ((size / whole, what) for what, size in parts.items()),
        reverse=True,
        key=lambda part: abs(part[0]),
    )
    shown = [f"{what} {share:+.2f}" for share, what in parts[:3] if abs(share) >= 0.005]
    rest = sum(share for share, _ in parts[len(shown) :])
    return "; ".join(shown + ([f"others {rest:+.2f}"] if abs(rest) >= 0.005 else []))


def explain_memory(model, grid, report, whole, ranks):
    """Describes the excess of the worst-case rank's memory over an even share, largest first."""
    largest = max(report["stages"], key=lambda stage: stage["weight_bytes"])
    total = whole["stages"][0]["weight_bytes"]
    if grid.pp > 1:
        tables = [row for row in largest["parameters"] if model.vocab in row["shape"]]
        share = sum(row["bytes"] for row in tables) / largest["weight_bytes"]
        return f"stage {largest['stage']} has {largest['layers']} of {model.layers} layers" + (
            f"; {share:.0%} of its bytes are rows or columns of the vocabulary" if tables else ""
        )
    bytes_at_tp1 = collections.Counter()
    for row in whole["stages"][0]["parameters"]:
        bytes_at_tp1[row["weight"]] += row["bytes"]
    bytes_with_repeats = collections.Counter()
    for row in largest["parameters"]:
        bytes_with_repeats[row["weight"]] += elements(row["shape"]) * F32
    excess = collections.Counter()
    for row in largest["parameters"]:
        shape, local = row["shape"], row["held"]
        name = row["weight"]
        repeats = bytes_with_repeats[name] / bytes_at_tp1[name] if bytes_at_tp1[name] else 1
        extra = row["bytes"] - elements(shape) * F32 / repeats / ranks
        if len(shape) < 2:
            what = "norms and biases"
        elif repeats > 1:
            what = "repeated heads of keys and values"
        elif shape == local:
            what = f"{shape} whole"
        else:
            what = f"{shape}: {local} on the worst-case rank"
        excess[what] += extra
    uneven = [
        f"{count}{what} over {parts}"
        for count, what, parts in re.findall(
            r": (\d+)( [a-z ]+?)?(?: \(.*?\))? over \w+ (\d+)", "\n".join(report["splits"])
        )
        if int(count) % int(parts)
    ]
    return describe_shares(excess, total / ranks) + (
        f" ({', '.join(dict.fromkeys(uneven))})" if uneven else ""
    )


def explain_communication(grid, found, bounds):
    """Describes the sent bytes that exceed the bound, by axis and kind."""
    total = sum(bounds.values())
    excess = {key: found[key] - bounds[key] for key in set(found) | set(bounds)}
    # A gather before a matmul and a scatter after it cost the same; the bound includes only one.
    if bounds["tpx", "reduce_scatter"]:
        excess["tpx", "reduce_scatter or all_gather"] = excess.pop(
            ("tpx", "reduce_scatter"), 0
        ) + excess.pop(("tpx", "all_gather"), 0)
    return describe_shares(
        {f"{kind} over {axis}": size for (axis, kind), size in excess.items()}, total
    )


def compute(tpcc, model):
    """Returns grid -> (memory, communication or None, reasons)."""
    cells = {}
    with tempfile.TemporaryDirectory() as folder:
        whole = compile_plan(tpcc, model, Grid(), Path(folder))
        total = whole[0]["stages"][0]["weight_bytes"]
        for grid in GRIDS:
            report, _ = compile_plan(tpcc, model, grid, Path(folder))
            ranks = grid.tp * grid.pp
            memory = max(stage["weight_bytes"] for stage in report["stages"]) * ranks / total
            bounds, found = get_bounds(model, grid, whole), count_sent(grid, report)
            communication = sum(found.values()) / sum(bounds.values())
            reasons = []
            if memory > TOLERANCE:
                reasons.append(
                    ("memory", memory, explain_memory(model, grid, report, whole[0], ranks))
                )
            if communication > TOLERANCE:
                reasons.append(
                    ("communication", communication, explain_communication(grid, found, bounds))
                )
            cells[str(grid)] = memory, communication, reasons
    return cells


def compute_halves(tpcc, name):
    """Returns grid -> ratio of bytes sent with an f32 residual and with one of the model's type."""
    ratios = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        onnx.save(halve(onnx.load(MODELS[name].path), "f16"), path)
        model = dataclasses.replace(MODELS[name], path=path)
        for grid in HALF_GRIDS:
            reports = [
                compile_plan(tpcc, model, grid, Path(folder), f"--residual={residual}")[0]
                for residual in ("f32", "same")
            ]
            with_f32, with_same = (sum(count_sent(grid, report).values()) for report in reports)
            ratios[str(grid)] = with_f32 / with_same
    return ratios


def describe_halves(name, ratios):
    return f"* {name}: " + "; ".join(f"`{grid}` {ratio:.2f}" for grid, ratio in ratios.items())


def format_ratio(ratio):
    return f"**{ratio:.2f}**" if ratio > TOLERANCE else f"{ratio:.2f}"


def write(plans, halves):
    grids = [str(grid) for grid in GRIDS]
    lines = [
        INTRODUCTION.format(batch=BATCH, sequence=SEQUENCE, past=PAST, fine=TOLERANCE),
        "| model | " + " | ".join(grids) + " |",
        "|---" * (len(grids) + 1) + "|",
    ]
    for name, cells in plans.items():
        lines.append(
            f"| {name} | "
            + " | ".join(
                f"{format_ratio(cells[grid][0])} · {format_ratio(cells[grid][1])}" for grid in grids
            )
            + " |"
        )
    lines += ["", "## Reasons", ""]
    lines += ["Contributions to the ratios. Shapes are those of one weight.", ""]
    for name, cells in plans.items():
        lines += [f"### {name}", ""]
        # Grids with the same ratio and reason, such as tp2 and tp2,sp for memory, share a line.
        found = collections.defaultdict(list)
        for grid in grids:
            for what, ratio, reason in cells[grid][2]:
                found[f"{what} {ratio:.2f}: {reason}"].append(f"`{grid}`")
        lines += [f"* {' '.join(where)} {reason}" for reason, where in found.items()] or ["* none"]
        lines.append("")
    lines += [
        RESIDUALS.strip(),
        "",
        *(describe_halves(name, ratios) for name, ratios in halves.items()),
    ]
    return "\n".join(lines).rstrip() + "\n"


def read(text):
    """Returns (model, grid) -> (memory ratio, communication ratio) in the page."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| ")
    ]
    return {
        (row[0], grid): tuple(float(part.strip("* ")) for part in cell.split("·"))
        for row in rows[1:]
        for grid, cell in zip(rows[0][1:], row[1:])
    }


def compare(name, cells):
    """Returns two lists of messages: ratios that are worse than in the page, and better ones."""
    stated, worse, better = read(PAGE.read_text()), [], []
    for grid, (*ratios, _) in cells.items():
        if (name, grid) not in stated:
            worse.append(f"{name} at {grid}: not in docs/reference/{PAGE.name}")
            continue
        for what, now, recorded in zip(("memory", "communication"), ratios, stated[name, grid]):
            line = f"{name} at {grid}: {what} {now:.3f}, "
            line += f"docs/reference/{PAGE.name} has {recorded:.2f}"
            if now > recorded + 0.0051:
                worse.append(line)
            elif now < recorded - 0.0051:
                better.append(line)
    return worse, better


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; fail if a plan is worse than in the page",
    )
    parser.add_argument("--tpcc", type=Path, default=TOP / "build" / "bin" / "tpcc")
    parser.add_argument("--models", default=",".join(MODELS), help="with --check: these models")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    names = options.models.split(",")
    if unknown := set(names) - set(MODELS):
        parser.error(
            f"--models: no model {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}"
        )
    if not options.check and len(names) < len(MODELS):
        parser.error("--models needs --check: the page has all models")
    with ThreadPoolExecutor(options.jobs) as pool:
        plans = dict(zip(names, pool.map(lambda name: compute(options.tpcc, MODELS[name]), names)))
        halves = [name for name in HALVES if name in names]
        halves = dict(
            zip(halves, pool.map(lambda name: compute_halves(options.tpcc, name), halves))
        )
    if not options.check:
        PAGE.write_text(write(plans, halves))
        return print("wrote", PAGE.relative_to(TOP))
    worse, better = [], []
    for name, cells in plans.items():
        for found, lines in zip(compare(name, cells), (worse, better)):
            lines += found
    stated = PAGE.read_text()
    for name, ratios in halves.items():
        if describe_halves(name, ratios) not in stated:
            worse.append(
                f"{name} in f16: docs/reference/{PAGE.name} differs from: "
                f"{describe_halves(name, ratios)}"
            )
    for line in worse + better:
        print(line)
    print(
        f"{sum(2 * len(cells) for cells in plans.values())} ratios: {len(worse)} worse, "
        f"{len(better)} better than "
        f"in docs/reference/{PAGE.name}"
        + ("; run tools/plans.py to update it" if worse or better else "")
    )
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())

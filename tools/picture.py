#!/usr/bin/env python3
"""Draws each rank's shards of a model's matrices as SVG, from the report of its plan.

    tools/picture.py model.onnx --megatron-shard=tp2,pp2 --shape batch=2,sequence=16 -o split.svg
    tools/picture.py [--check]      # writes docs/split.svg, the picture of docs/parallelism.md

Draws the first layer of each stage, and the matrices outside of layers. The length of a side is
proportional to the square root of its size.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
PAGE = (
    TOP / "test" / "Models" / "gpt2-tiny.onnx",
    "tp2,pp2",
    "batch=2,sequence=16",
    TOP / "docs" / "split.svg",
)
COLORS = ["#3566a8", "#c8702a", "#3f8f5a", "#8a4f9e", "#a83e4a", "#4f8a9e", "#8f8035", "#6b6b6b"]
GAP, LABEL, STAGE_GAP, MARGIN = 16, 26, 70, 20


def plan(tpcc, model, grid, shape):
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        subprocess.run(
            [tpcc, model, f"--megatron-shard={grid}", f"--report={report}", "--shape", shape],
            check=True,
        )
        return json.loads(report.read_text())


def side(size):
    return 4 * size**0.5


def pick_matrices(stage):
    """Returns [label, shape, local shape] of each matrix of the first layer and outside of layers,
    and the number of layers.
    """
    layers = [
        int(found[1])
        for row in stage["parameters"]
        if (found := re.search(r"\.(\d+)\.", row["weight"]))
    ]
    picked = []
    for row in stage["parameters"]:
        found = re.search(r"\.(\d+)\.", row["weight"])
        if len(row["shape"]) == 2 and (not found or int(found[1]) == min(layers)):
            words = [
                word
                for word in row["weight"].split(".")
                if not word.isdigit() and word not in ("weight", "kernel")
            ]
            picked.append(
                [words[-1] if not found else ".".join(words[-2:]), row["shape"], row["held"]]
            )
    # Several views of one weight are numbered.
    for label in {label for label, *_ in picked}:
        parts = [entry for entry in picked if entry[0] == label]
        for index, entry in enumerate(parts):
            entry[0] += f" {index + 1}/{len(parts)}" if len(parts) > 1 else ""
    return picked, len(set(layers))


class Picture:
    def __init__(self, script="tools/picture.py"):
        self.parts, self.width, self.height, self.script = [], 0, 0, script

    def rect(self, x, y, width, height, fill, stroke="#555", opacity=1):
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{fill}" '
            f'stroke="{stroke}" stroke-width="0.7" fill-opacity="{opacity}"/>'
        )
        self.width, self.height = max(self.width, x + width), max(self.height, y + height)

    def text(self, x, y, text, size=12, anchor="start", weight="normal", fill="#222"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'font-weight="{weight}" '
            f'fill="{fill}">{escape(text)}</text>'
        )

    def arrow(self, x0, y0, x1, y1, both=False):
        start = ' marker-start="url(#head)"' if both else ""
        self.parts.append(
            f'<path d="M{x0:.1f} {y0:.1f} L{x1:.1f} {y1:.1f}" stroke="#555" fill="none"{start} '
            'marker-end="url(#head)"/>'
        )

    def svg(self):
        head = (
            '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" '
            'orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker>'
        )
        width, height = self.width + MARGIN, self.height + MARGIN
        return (
            '<svg xmlns="http://www.w3.org/2000/svg" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" font-family="sans-serif">\n'
            f"<!-- Written by {self.script}; do not edit. -->\n"
            f'<defs>{head}</defs>\n<rect width="100%" height="100%" fill="#fff"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def draw_rank(picture, x, y, matrices, member, members):
    """Draws one rank's shards in the outlines of the matrices. Returns the x of the right end."""
    for label, shape, local in matrices:
        height, width = map(side, shape)
        picture.rect(x, y, width, height, "#eef0f3", "#aaa")
        # This rank's shard of each dimension: balanced, in the order of ranks.
        begin = [
            0 if whole == part else member * whole / members for whole, part in zip(shape, local)
        ]
        size = [whole if whole == part else whole / members for whole, part in zip(shape, local)]
        picture.rect(
            x + width * begin[1] / shape[1],
            y + height * begin[0] / shape[0],
            width * size[1] / shape[1],
            height * size[0] / shape[0],
            COLORS[member % len(COLORS)],
            opacity=0.85,
        )
        x += max(width, LABEL) + GAP
    return x - GAP


def draw_labels(picture, x, y, matrices):
    for label, shape, _ in matrices:
        width = side(shape[1])
        picture.parts.append(
            f'<text transform="translate({x + width / 2 + 3:.1f} {y:.1f}) rotate(-40)" '
            'font-size="10" '
            f'fill="#444">{escape(label)}</text>'
        )
        x += max(width, LABEL) + GAP


def describe(rows):
    """Returns collectives of a report as text, such as "3 all-reduces"."""
    return ", ".join(
        f"{row['count']} {row['kind'].replace('_', '-')}{'s' if row['count'] > 1 else ''}"
        for row in rows
    )


def draw(model, grid, report):
    members = int(re.search(r"tp(\d+)", grid)[1]) if re.search(r"tp(\d+)", grid) else 1
    picture, x = Picture(), MARGIN + 78
    stages = [(stage, *pick_matrices(stage)) for stage in report["stages"]]
    tallest = max(side(shape[0]) for _, matrices, _ in stages for _, shape, _ in matrices)
    top, pitch = MARGIN + 112, tallest + 44
    for member in range(members):
        picture.text(
            MARGIN,
            top + member * pitch + 14,
            f"tp rank {member}",
            12,
            fill=COLORS[member % len(COLORS)],
            weight="bold",
        )
    for stage, matrices, layers in stages:
        rows = [
            row
            for row in report["collectives"]
            if row["stage"] == stage["stage"] and row["axis"] not in ("output", "pp")
        ]
        picture.text(
            x, MARGIN + 12, f"Stage {stage['stage']}: {stage['layers']} layers", 14, weight="bold"
        )
        picture.text(
            x,
            MARGIN + 30,
            f"the first of {layers}, and matrices outside of layers" if layers > 1 else "",
            11,
            fill="#555",
        )
        draw_labels(picture, x, top - 8, matrices)
        for member in range(members):
            y = top + member * pitch
            right = draw_rank(picture, x, y, matrices, member, members)
            if member + 1 < members and rows:
                middle = x + 60
                picture.arrow(middle, y + tallest + 6, middle, y + pitch - 6, both=True)
                picture.text(middle + 10, y + tallest + 26, describe(rows) + " in a step", 11)
            sends = [
                row
                for row in report["collectives"]
                if row["stage"] == stage["stage"] and row["axis"] == "pp"
            ]
            if sends:
                picture.arrow(right + 10, y + 60, right + STAGE_GAP - 8, y + 60)
                picture.text(right + STAGE_GAP / 2, y + 54, "residual", 10, anchor="middle")
        x = right + STAGE_GAP
    picture.width = max(picture.width, x - STAGE_GAP)
    return picture.svg()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "model", nargs="?", type=Path, help="an ONNX file (default: that of docs/split.svg)"
    )
    parser.add_argument("--megatron-shard", default="tp2", metavar="SPEC")
    parser.add_argument("--shape", metavar="name=size,…", help="as for tpcc --report")
    parser.add_argument("-o", type=Path, dest="output", help="the SVG file")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if docs/split.svg is stale"
    )
    parser.add_argument("--tpcc", type=Path, default=TOP / "build" / "bin" / "tpcc")
    options = parser.parse_args()
    if options.model and not (options.shape and options.output):
        parser.error("a model needs --shape and -o")
    model, grid, shape, output = (
        (options.model, options.megatron_shard, options.shape, options.output)
        if options.model
        else PAGE
    )
    text = draw(model, grid, plan(options.tpcc, model, grid, shape))
    if options.check:
        if output.read_text() != text:
            sys.exit(f"{output.relative_to(TOP)} is stale: run tools/picture.py")
        return
    output.write_text(text)
    print("wrote", output)


if __name__ == "__main__":
    main()

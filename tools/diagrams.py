#!/usr/bin/env python3
"""Draws the collectives and the levels of the IR, as SVG files in docs/design/pictures.

    tools/diagrams.py [--check]

A collective is drawn for four ranks, before (left) and after (right). A cell is a block of the
tensor; its color is the rank that had it before, or, for reductions, the block. A pale cell is a
partial sum. The owners of cells are computed from the distributions before and after, not listed.
"""

import argparse
import sys

from picture import COLORS, MARGIN, TOP, Picture

FOLDER = TOP / "docs" / "design" / "pictures"
CELL, RANKS, GAP = 22, 4, 14


class Diagram(Picture):
    def __init__(self):
        super().__init__("tools/diagrams.py")

    def title(self, text):
        self.text(MARGIN, MARGIN + 4, text, 13, weight="bold")
        self.width = MARGIN + 7.3 * len(text)

    def row_labels(self, top, pitch, names, height):
        for index, name in enumerate(names):
            self.text(
                MARGIN,
                top + index * pitch + height / 2 + 4,
                name,
                12,
                fill=COLORS[index],
                weight="bold",
            )

    def grid(self, x, y, rows, columns, cells):
        """`cells` maps (row, column) to (color index, opacity, label)."""
        for row in range(rows):
            for column in range(columns):
                color, opacity, label = cells.get((row, column), (None, 1, ""))
                self.rect(
                    x + column * CELL,
                    y + row * CELL,
                    CELL,
                    CELL,
                    COLORS[color] if color is not None else "#f2f3f5",
                    "#bbb" if color is None else "#444",
                    opacity,
                )
                if label:
                    self.text(
                        x + (column + 0.5) * CELL,
                        y + (row + 0.5) * CELL + 4,
                        label,
                        11,
                        anchor="middle",
                        fill="#fff" if opacity > 0.6 else "#222",
                    )


def two_sides(title, left, right, before, after, rows, columns, names=None):
    """Draws cells `before[rank]` and `after[rank]` (see Diagram.grid) with distributions."""
    diagram = Diagram()
    diagram.title(title)
    names = names or [f"rank {rank}" for rank in range(RANKS)]
    x, y, pitch = MARGIN + 96, MARGIN + 40, rows * CELL + GAP
    second = x + columns * CELL + 110
    diagram.text(x, y - 8, left, 11, fill="#555")
    diagram.text(second, y - 8, right, 11, fill="#555")
    diagram.row_labels(y, pitch, names, rows * CELL)
    for rank in range(RANKS):
        diagram.grid(x, y + rank * pitch, rows, columns, before[rank])
        diagram.grid(second, y + rank * pitch, rows, columns, after[rank])
        middle = y + rank * pitch + rows * CELL / 2
        diagram.arrow(x + columns * CELL + 30, middle, second - 30, middle)
    diagram.width = max(diagram.width, second + len(right) * 6)
    return diagram


def vector(owned, opacity=0.85, color=None, label=str):
    return {
        (0, block): (block if color is None else color, opacity, label(block)) for block in owned
    }


def all_gather():
    before = [vector([rank]) for rank in range(RANKS)]
    after = [vector(range(RANKS)) for _ in range(RANKS)]
    return two_sides(
        "all-gather over tp: each rank gets the blocks of all ranks",
        "[8{tp}]",
        "[8]",
        before,
        after,
        1,
        RANKS,
    )


def reduce_scatter():
    before = [vector(range(RANKS), 0.3, label=lambda block: "+") for _ in range(RANKS)]
    after = [vector([rank], label=lambda block: "Σ") for rank in range(RANKS)]
    return two_sides(
        "reduce-scatter over tp: each rank gets one block of the sum",
        "[8], sum{tp}",
        "[8{tp}]",
        before,
        after,
        1,
        RANKS,
    )


def all_reduce():
    before = [vector(range(RANKS), 0.3, label=lambda block: "+") for _ in range(RANKS)]
    after = [vector(range(RANKS), label=lambda block: "Σ") for _ in range(RANKS)]
    return two_sides(
        "all-reduce over tp: each rank gets the whole sum",
        "[8], sum{tp}",
        "[8]",
        before,
        after,
        1,
        RANKS,
    )


def moved(before, after, rows, columns):
    """Returns the cells of two_sides for a matrix whose elements move between ranks.

    `before(rank)` and `after(rank)` return a rank's cells as (row, column). A cell has the color of
    the rank that had it before.
    """
    owner = {cell: rank for rank in reversed(range(RANKS)) for cell in before(rank)}
    old = [{cell: (rank, 0.85, "") for cell in before(rank)} for rank in range(RANKS)]
    new = [
        {
            cell: (
                rank if cell in before(rank) else owner[cell],
                0.85,
                "=" if cell in before(rank) else "",
            )
            for cell in after(rank)
        }
        for rank in range(RANKS)
    ]
    return old, new


def box(rows, columns):
    return {(row, column) for row in rows for column in columns}


def all_to_all():
    old, new = moved(lambda rank: box([rank], range(4)), lambda rank: box(range(4), [rank]), 4, 4)
    return two_sides(
        "all-to-all over tp: from a split of the rows to a split of the columns",
        "[8{tp}, 8]",
        "[8, 8{tp}]",
        old,
        new,
        4,
        4,
    )


def collective_permute():
    """A shift by 1 of eight elements, two on each rank."""
    old = [
        {(0, 2 * rank + i): (rank, 0.85, str(2 * rank + i)) for i in range(2)}
        for rank in range(RANKS)
    ]
    new = [
        {
            (0, 2 * rank + i): ((2 * rank + i - 1) % 8 // 2, 0.85, str((2 * rank + i - 1) % 8))
            for i in range(2)
        }
        for rank in range(RANKS)
    ]
    return two_sides(
        "collective-permute: a cyclic shift by 1; each rank sends one element and keeps one",
        "[8{tp}]",
        "[8{tp}], shifted",
        old,
        new,
        1,
        8,
    )


def exchange():
    """An exchange from rows split over (tp, dp) to blocks, on a grid of tp2, dp2: rank = tp + 2
    dp."""

    def before(rank):
        tp, dp = rank % 2, rank // 2
        return box([2 * tp + dp], range(4))

    def after(rank):
        tp, dp = rank % 2, rank // 2
        return box(range(2 * dp, 2 * dp + 2), range(2 * tp, 2 * tp + 2))

    old, new = moved(before, after, 4, 4)
    names = [f"tp {rank % 2}, dp {rank // 2}" for rank in range(RANKS)]
    return two_sides(
        "exchange over tp and dp: each rank keeps its overlap (=) and gets the rest from its "
        "owners",
        "[8{tp, dp}, 8]",
        "[8{dp}, 8{tp}]",
        old,
        new,
        4,
        4,
        names,
    )


def broadcast():
    before = [
        vector(range(RANKS), color=0, label=lambda block: "") if rank == 0 else {}
        for rank in range(RANKS)
    ]
    after = [vector(range(RANKS), color=0, label=lambda block: "") for _ in range(RANKS)]
    return two_sides(
        "broadcast: all ranks get the value of one", "[8] on rank 0", "[8]", before, after, 1, RANKS
    )


def send_recv():
    """Pipeline stages with four micro-batches: each sends the residual to the next stage."""
    diagram = Diagram()
    diagram.title(
        "send and recv over pp: each stage sends the residual of a micro-batch to the next one"
    )
    stages, micro_batches, width, pitch = 3, 4, 74, 54
    x, y = MARGIN + 80, MARGIN + 34
    for stage in range(stages):
        diagram.text(
            MARGIN, y + stage * pitch + 19, f"stage {stage}", 12, fill=COLORS[stage], weight="bold"
        )
        for micro_batch in range(micro_batches):
            left = x + (stage + micro_batch) * width
            diagram.rect(left, y + stage * pitch, width - 12, 30, COLORS[stage], "#444", 0.85)
            diagram.text(
                left + (width - 12) / 2,
                y + stage * pitch + 19,
                f"mb {micro_batch}",
                11,
                anchor="middle",
                fill="#fff",
            )
            if stage + 1 < stages:
                diagram.arrow(
                    left + width - 22,
                    y + stage * pitch + 31,
                    left + width + 6,
                    y + (stage + 1) * pitch - 1,
                )
    diagram.text(x, y + stages * pitch + 4, "time →", 11, fill="#555")
    diagram.height += 20
    return diagram


LEVELS = [
    (
        "import",
        "one op for each ONNX node",
        "%y = tpc.matmul %x, %w : [batch, sequence, 768]",
        "Import/ONNX",
    ),
    (
        "model",
        "normal form; a repeated layer is one function",
        "%y = tpc.matmul %x, %w : [batch * sequence, 768]",
        "Transforms/Model",
    ),
    (
        "sharded",
        "a distribution on every value",
        "[batch{dp} * sequence, 768], sum{tp}   + tpc.reshard",
        "Transforms/Tactics",
    ),
    (
        "spmd",
        "one rank's view: local types, collectives",
        "%z = tpc.all_reduce sum %y over tp : …, local",
        "Transforms/Collectives",
    ),
    (
        "staged",
        "a function for each stage, a schedule",
        "@stage_0 … tpc.send   @stage_1 … tpc.recv   tpc.pipeline",
        "Transforms/Stages",
    ),
    (
        "kernels",
        "device-neutral loops for what no library computes",
        "tpc_kernel.func @kernel_add_layer_norm",
        "Conversion/Kernels",
    ),
    (
        "buffers",
        "runtime calls on planned memory",
        "tpc_buffer.product %x m n k _8 by %w to %0 n _6.tp",
        "Conversion",
    ),
    (
        "llvm",
        "host code and CPU kernels, or PTX",
        "llvm.call @tpc_products(…)",
        "Conversion/{Cpu,Cuda}",
    ),
    (
        "executable",
        "native code, the runtime, a manifest",
        "./gpt2 --input input_ids=ids.npy",
        "tools/tpcc, runtime",
    ),
]


def levels():
    diagram = Diagram()
    diagram.title("Levels of a program; tpcc --emit=LEVEL prints each one")
    x, y, height, pitch = MARGIN, MARGIN + 20, 34, 52
    for index, (name, about, sample, folder) in enumerate(LEVELS):
        top = y + index * pitch
        diagram.rect(x, top, 720, height, "#eef0f3", "#888")
        diagram.text(x + 10, top + 22, name, 13, weight="bold", fill=COLORS[0])
        diagram.text(x + 100, top + 14, about, 11)
        diagram.parts.append(
            f'<text x="{x + 100}" y="{top + 28}" font-size="10" font-family="monospace" '
            'fill="#555">' + sample.replace("<", "&lt;") + "</text>"
        )
        diagram.text(x + 710, top + 22, folder, 11, anchor="end", fill="#8a4f9e")
        if index + 1 < len(LEVELS):
            diagram.arrow(x + 45, top + height + 1, x + 45, top + pitch - 1)
    for after, text in (
        ("spmd", "verified: equivalence"),
        ("staged", "verified: communication, equivalence, bounds, facts"),
        ("buffers", "verified: buffers, kernels, facts"),
    ):
        index = [name for name, *_ in LEVELS].index(after)
        diagram.text(x + 100, y + index * pitch + height + 13, text, 10, fill="#3f8f5a")
    return diagram


PICTURES = {
    "all-gather": all_gather,
    "reduce-scatter": reduce_scatter,
    "all-reduce": all_reduce,
    "all-to-all": all_to_all,
    "collective-permute": collective_permute,
    "exchange": exchange,
    "broadcast": broadcast,
    "send-recv": send_recv,
    "levels": levels,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a picture is stale"
    )
    options = parser.parse_args()
    stale = []
    for name, draw in PICTURES.items():
        path, text = FOLDER / f"{name}.svg", draw().svg()
        if not path.exists() or path.read_text() != text:
            stale.append(str(path.relative_to(TOP)))
            if not options.check:
                path.write_text(text)
                print("wrote", stale[-1])
    if options.check and stale:
        sys.exit(f"stale: {', '.join(stale)} (run tools/diagrams.py)")


if __name__ == "__main__":
    main()

"""Cases of the library's matrix-vector kernels, as arguments of tpc-ptx-run."""

from __future__ import annotations

import re
from pathlib import Path

THREADS, WARPS, COLUMN_BYTES, ROWS_OF_CHUNK, CHUNKS = 256, 8, 128, 8, 32  # tpc/gemv.h


def write(source: Path, folder: Path, quick: bool) -> None:
    """Writes PTX texts to `folder` and appends lines to its cases.txt. `source` is the C++ file
    that tpc-library-kernels wrote.
    """
    lines = []
    for number, text in enumerate(re.findall(r'R"ptx\((.*?)\)ptx"', source.read_text(), re.S)):
        name = f"gemv{number}.ptx"
        (folder / name).write_text(text)
        for kernel in re.findall(r"\.entry (\w+)\(", text):
            if not quick or kernel.endswith(("bf16_kn_1", "f16_nk_3")):
                lines.append(line_of(name, kernel))
    with (folder / "cases.txt").open("a") as cases:
        cases.writelines(line + "\n" for line in lines)


def line_of(text: str, kernel: str) -> str:
    """Returns a case with a bias, a residual, and sizes that fill neither the last block nor the
    last access. For [k, n], it has three splits of k.
    """
    element, layout, rows = kernel.split("_")[-3:]
    rows, columns = int(rows), COLUMN_BYTES // (4 if element == "f32" else 2)
    k, n = 8 * 32 * 3 - 40, columns + columns // 8
    if layout == "nk":
        ranges, splits = -(-n // (WARPS * (1 if rows == 1 else 2))), 1
    else:
        ranges, splits = -(-n // columns), -(-k // (ROWS_OF_CHUNK * CHUNKS))
    parameters = [
        f"{k}x{n}:{element}=random,ro,align=16,name=w",
        f"{rows}x{k}:{element}=random,ro,align=16,name=x",
        f"{rows}x{n}:{element},name=out",
        f"{n}:{element}=random,ro,name=bias",
        f"{rows}x{n}:{element}=random,ro,name=residual",
        f"{ranges * splits * rows * columns}:f32=0,name=partials",
        f"{ranges}:i32=0,name=counters",
        *(f"u32:{value}" for value in (k, n, CHUNKS, 0, k if layout == "nk" else n, n)),
    ]
    words = [text, "--kernel", kernel, "--grid", ranges * splits, "--block", THREADS]
    for parameter in parameters:
        words += ["--param", parameter]
    return "\t".join(map(str, words))

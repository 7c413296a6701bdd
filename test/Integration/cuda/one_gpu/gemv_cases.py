"""Cases of the library's matrix-vector kernels, as arguments of tpc-ptx-run."""

from __future__ import annotations

import re
from pathlib import Path

THREADS, WARPS, COLUMN_BYTES, ROWS_OF_CHUNK, CHUNKS = 256, 8, 128, 8, 32  # tpc/gemv.h
LAYER_NORM, SILU, EPSILON_BITS = 2, 3, 0x3727C5AC  # tpc_norm, tpc_epilogue, 1e-5
NAME = re.compile(r"\.entry (tpc_gemv_(f32|f16|bf16)_(kn|nk)(_fused)?_(\d))\(")


def write(source: Path, folder: Path, quick: bool) -> None:
    """Writes PTX texts to `folder` and appends lines to its cases.txt. `source` is the C++ file
    that tpc-library-kernels wrote.
    """
    lines = []
    for number, text in enumerate(re.findall(r'R"ptx\((.*?)\)ptx"', source.read_text(), re.S)):
        name = f"gemv{number}.ptx"
        (folder / name).write_text(text)
        for kernel, element, layout, fused, rows in NAME.findall(text):
            if not quick or kernel.endswith(("bf16_kn_1", "f16_nk_3", "bf16_kn_fused_2")):
                lines.append(line_of(name, kernel, element, layout, bool(fused), int(rows)))
    with (folder / "cases.txt").open("a") as cases:
        cases.writelines(line + "\n" for line in lines)


def line_of(text: str, kernel: str, element: str, layout: str, fused: bool, rows: int) -> str:
    """Returns a case with a bias, a residual, and sizes that fill neither the last block nor the
    last access. For [k, n], it has three splits of k. A fused kernel has a norm and a gate instead
    of a residual.
    """
    size = 4 if element == "f32" else 2
    columns = COLUMN_BYTES // size
    k, n = 8 * 32 * 3 - 40, 2 * columns if fused else columns + columns // 8
    if layout == "nk":
        ranges, splits = -(-n // (WARPS * (1 if rows == 1 else 2))), 1
    else:
        ranges, splits = -(-n // columns), -(-k // (ROWS_OF_CHUNK * CHUNKS))
    parameters = [
        f"{k}x{n}:{element}=random,ro,align=16,name=w",
        f"{rows}x{k}:{element}=random,ro,align=16,name=x",
        f"{rows}x{n // 2 if fused else n}:{element},name=out",
        f"{n}:{element}=random,ro,name=bias",
        "u64:0" if fused else f"{rows}x{n}:{element}=random,ro,name=residual",
        f"{ranges * splits * rows * columns}:f32=0,name=partials",
        f"{ranges}:i32=0,name=counters",
    ]
    if fused:
        vector = f"{k}:{element}=random,ro,align=16"
        parameters += [f"{vector},name=scale", f"{vector},name=shift"]
    numbers = [k, n, CHUNKS, 0, k if layout == "nk" else n, n // 2 if fused else n]
    if fused:
        numbers += [LAYER_NORM, 0, 0, EPSILON_BITS, SILU, 1]
    parameters += [f"u32:{value}" for value in numbers]
    words = [text, "--kernel", kernel, "--grid", ranges * splits, "--block", THREADS]
    if fused:
        words += ["--shared", rows * min(CHUNKS * ROWS_OF_CHUNK, k) * size]
    for parameter in parameters:
        words += ["--param", parameter]
    return "\t".join(map(str, words))

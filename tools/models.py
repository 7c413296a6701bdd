#!/usr/bin/env python3
"""Writes docs/reference/models.md: results of the files in test/Models next to ONNX Runtime's.

tools/models.py [--only TEXT] [--missing]
"""

import argparse
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path[:0] = [
    str(TOP / folder)
    for folder in ("python", "test", "test/Integration", "test/Integration/generate")
]

import harness  # noqa: E402
import model_table  # noqa: E402

HEAD = """<!-- Written by tools/models.py; do not edit. -->

# Models: files and measured differences

Each file runs and generates next to ONNX Runtime. `tools/models.py` writes this page, and
`test_model_table.py` measures each cell again in the long run.

* **f32, int8, int4**: the largest difference of a logit from ONNX Runtime's, relative to the
  largest logit; at most 2e-5. int8 and int4 are `MatMulNBits` in blocks of 16.
* **f16, bf16**: the largest difference from the same numbers computed in f32, relative to that of
  ONNX Runtime where the result of each node is rounded, as ONNX specifies; at most 1.5.
* **prefill**, **tp2** and **pp2,tp2** compute all logits of two prompts of 7 tokens, prefill on one
  rank; **generate** those of 6 tokens after a prompt of 7, on one rank. The **GPU simulator** runs
  tp2.
* *torch* is `torch.onnx.export(dynamo=True)`, *optimum* its command line, each without and with a
  past. Files of *onnxruntime-genai* have the nodes of its model builder.

"""


def line_of(row, cells):
    return "| " + " | ".join([row.family, row.exporter, row.kind, f"`{row.name}`", *cells]) + " |"


def measure(compiler, row, folder):
    for column in model_table.COLUMNS:
        if reason := model_table.find_reason(row, column):
            yield f"no: {reason[0]}"
            continue
        try:
            value = model_table.measure(compiler, row, column, folder)
        except AssertionError as error:
            print(error, file=sys.stderr)
            yield "FAILED"
            continue
        bad = value > model_table.limit(row)
        yield model_table.cell(row, value) + (" FAILED" if bad else "")


def write(cells):
    """Writes the page with the rows that are known."""
    lines = ["| family | exporter | type | file | " + " | ".join(model_table.COLUMNS) + " |"]
    lines.append("|" + "---|" * (4 + len(model_table.COLUMNS)))
    for row in model_table.rows():
        if found := cells.get((row.name, row.kind)):
            lines.append(line_of(row, found))
    lines += ["", "Other files of `test/Models`:", "", "| file | no row because |", "|---|---|"]
    lines += [f"| `{name}` | {reason} |" for name, reason in model_table.OTHERS.items()]
    model_table.PAGE.write_text(HEAD + "\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="measure rows whose file and type contain this text")
    parser.add_argument("--missing", action="store_true", help="measure rows that the page lacks")
    options = parser.parse_args()
    cells = dict(model_table.table()) if options.only or options.missing else {}
    with tempfile.TemporaryDirectory() as folder:
        for row in model_table.rows():
            if (options.only or "") not in f"{row.name}-{row.kind}":
                continue
            if options.missing and (row.name, row.kind) in cells:
                continue
            scratch = Path(tempfile.mkdtemp(dir=folder))
            found = list(measure(harness.Compiler(scratch), row, scratch))
            cells[row.name, row.kind] = found
            print(line_of(row, found), flush=True)
            write(cells)
    return any("FAILED" in cell for row in cells.values() for cell in row)


if __name__ == "__main__":
    sys.exit(main())

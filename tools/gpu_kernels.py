#!/usr/bin/env python3
"""Checks of GPU kernels, and their table in docs/reference/gpu-kernel-resources.md.

Assembles and checks each kernel of each model of test/Models, at each grid, for each architecture.

    tools/gpu_kernels.py [--check] [--tpcc build/bin/tpcc] [--models NAME,…] [--grids GRID,…]
                         [--jobs N] [--list]

A kernel fails if

* ptxas rejects it, or the kernel spills registers;
* it needs more registers or shared memory than tpcc's table of ceilings allows;
* its memory accesses in machine code are narrower than its rows allow;
* it divides 64-bit numbers in an inner loop.

ptxas is searched in the same places as by tpcc; nvdisasm next to ptxas, in PATH and in .venv/.
Without ptxas, only the PTX is checked; without nvdisasm, access widths are not checked. With
--check nothing is written, and no number may exceed that in the table. --list prints each kernel.
"""

import argparse
import collections
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path[:0] = [
    str(TOP / folder) for folder in ("python", "test/Integration", "test/Integration/cpu")
]

from harness import Grid, find_cuda_tool  # noqa: E402
from kernel_texts import Failure, find_long_divisions, find_widths, split_ptx  # noqa: E402
from models import COMMITTED, FAMILIES, Model  # noqa: E402

PAGE = TOP / "docs" / "reference" / "gpu-kernel-resources.md"
BEGIN, END = "<!-- Written by tools/gpu_kernels.py -->", "<!-- End -->"
MODELS = {
    **COMMITTED,
    **FAMILIES,
    "gpt2-124m": Model(TOP / "test/Models/gpt2-124m.onnx", layers=12, hidden=768, heads=12),
}
GRIDS = ["tp1", "tp2", "tp3", "pp2", "tp2,sp", "tp2x2"]
ARCHITECTURES = ["sm_80", "sm_90", "sm_100"]
# Kernels per ptxas process: starting it takes as long as compiling one kernel.
BATCH = 24


@dataclass
class Kernel:
    """A distinct kernel. `loads`, `stores`: bytes that a thread could access at once."""

    name: str
    text: str
    shape: str
    ceiling: dict
    loads: int = 0
    stores: int = 0
    users: list = field(default_factory=list)
    # architecture -> resources reported by ptxas, and access widths
    needs: dict = field(default_factory=dict)

    @property
    def key(self):
        return "k" + hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def __str__(self):
        return f"{self.name} ({self.users[0]}" + (
            f" and {len(self.users) - 1} more)" if self.users[1:] else ")"
        )


# ===--- programs ------------------------------------------------------------------===#


def compile_program(tpcc, model, grid, folder):
    """Returns the kernels of a model's program."""
    where = f"{model.name} at {grid}"
    folder = Path(tempfile.mkdtemp(dir=folder))
    call = [
        tpcc,
        model.path,
        f"--megatron-shard={grid}",
        "--target=cuda",
        "--gpu-arch=" + ",".join(ARCHITECTURES),
    ]
    shape = ",".join(f"{name}={size}" for name, size in model.shape(2, 32, 8).items())
    # Hides ptxas from tpcc, because this tool assembles each distinct text once.
    for words in (
        ["--emit=ptx", "-o", folder / "ptx", f"--report={folder / 'report'}", "--shape", shape],
        ["--emit=kernels", "--plain", "-o", folder / "kernels"],
    ):
        done = subprocess.run(
            call + words,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "CUDA_HOME": "/nonexistent"},
        )
        if done.returncode:
            raise Failure(f"{where}: {done.stderr}")
    report = json.loads((folder / "report").read_text())["kernels"]
    functions = {
        name: text
        for text, name in re.findall(
            r"( *tpc_kernel\.func @(\w+)\(.*?\n    }\n)", (folder / "kernels").read_text(), re.S
        )
    }
    head, texts = split_ptx((folder / "ptx").read_text())
    launches = {launch["name"]: launch for launch in report["kernels"]}
    if set(launches) != set(texts):
        raise Failure(
            f"{where}: --report names {sorted(set(launches) ^ set(texts))}, but the PTX has "
            "different kernels"
        )
    kernels = []
    for name, text in texts.items():
        shape = launches[name]["shape"]
        # In a tile, each thread accesses one element, and the threads of a warp access adjacent
        # elements.
        is_tile = shape == "tiles"
        loads, stores = (
            find_widths(functions[name], Grid.parse(grid), shape)
            if name in functions and not is_tile
            else (0, 0)
        )
        kernels.append(
            Kernel(name, head + text, shape, report["ceilings"][shape], loads, stores, [where])
        )
    return kernels


def merge(programs):
    """Merges kernels with equal texts. Returns key -> kernel."""
    distinct = {}
    for kernel in (kernel for program in programs for kernel in program):
        seen = distinct.setdefault(kernel.key, kernel)
        if seen is not kernel:
            seen.users += kernel.users
            seen.loads, seen.stores = max(seen.loads, kernel.loads), max(seen.stores, kernel.stores)
    return distinct


# ===--- machine code ----------------------------------------------------------------===#


def get_version(tool):
    output = subprocess.run([tool, "--version"], stdout=subprocess.PIPE, text=True).stdout
    return (re.search(r"release ([\d.]+)", output) or [0, "?"])[1]


def parse_resources(log):
    """Returns key -> resources in the log of `ptxas -v`."""
    found = {}
    for part in log.split("Compiling entry function '")[1:]:

        def number(pattern):
            return sum(map(int, re.findall(pattern, part)))

        found[part.split("'")[0]] = {
            "registers": number(r"Used (\d+) registers"),
            "shared_bytes": number(r"(\d+) bytes smem"),
            "stack_bytes": number(r"(\d+) bytes stack frame"),
            "spill_bytes": number(r"(\d+) bytes spill (?:stores|loads)"),
        }
    return found


def parse_widths(sass):
    """Returns key -> (loads, stores): the widest accesses to global memory, in bytes."""
    found = {}
    for key, text in re.findall(r"^\.text\.(\w+):\n(.*?)(?=^\s*\.section|\Z)", sass, re.M | re.S):

        def widest(op):
            return max(
                (
                    int(bits or 32) // 8
                    for bits in re.findall(
                        rf"\b{op}\.E(?:\.\w+)*?(?:\.(\d+))?(?=[. ])(?!\.\d)", text
                    )
                ),
                default=0,
            )

        found[key] = widest("LDG"), widest("STG")
    return found


def assemble(kernels, architecture, ptxas, nvdisasm, folder):
    """Assembles kernels and sets their `needs`. Returns errors of ptxas.

    Runs one ptxas process for all kernels; if it fails, one process for each.
    """
    folder = Path(tempfile.mkdtemp(dir=folder))
    head = kernels[0].text.split(".visible .entry")[0].split(".shared")[0]
    head = re.match(r"(?s).*?\.address_size 64\n", head)[0]
    text = head + "".join(
        kernel.text.removeprefix(head)
        .replace("$L__BB_", f"$L__BB{index}_")
        .replace("KERNEL", kernel.key)
        for index, kernel in enumerate(kernels)
    )
    (folder / "ptx").write_text(text)
    done = subprocess.run(
        [ptxas, "-v", f"-arch={architecture}", "-o", folder / "cubin", folder / "ptx"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        if len(kernels) == 1:
            return [f"{kernels[0]}: {architecture}: ptxas rejects it: {done.stdout.strip()}"]
        return [
            line
            for kernel in kernels
            for line in assemble([kernel], architecture, ptxas, nvdisasm, folder)
        ]
    resources, widths = parse_resources(done.stdout), {}
    if nvdisasm:
        widths = parse_widths(
            subprocess.run(
                [nvdisasm, "-c", folder / "cubin"], stdout=subprocess.PIPE, text=True, check=True
            ).stdout
        )
    for kernel in kernels:
        kernel.needs[architecture] = dict(resources[kernel.key], widths=widths.get(kernel.key))
    shutil.rmtree(folder)
    return []


# ===--- gates -----------------------------------------------------------------------===#


def find_faults(kernel):
    """Yields the violations of a kernel."""
    for line in find_long_divisions(kernel.text):
        yield f"{kernel}: 64-bit division in an inner loop: {line}"
    for architecture, needs in kernel.needs.items():

        def fail(what):
            return f"{kernel}: {architecture}: {what}"

        if needs["spill_bytes"]:
            yield fail(f"{needs['spill_bytes']} bytes of spills")
        for what in ("registers", "shared_bytes"):
            if needs[what] > kernel.ceiling[what]:
                yield fail(
                    f"{needs[what]} {what.replace('_', ' ')}; the maximum of {kernel.shape} is "
                    f"{kernel.ceiling[what]}"
                )
        if needs["widths"]:
            for what, op, allowed, found in zip(
                ("loads", "stores"), ("ld", "st"), (kernel.loads, kernel.stores), needs["widths"]
            ):
                # In machine code, an 8-byte load of a row looks like a load of a 64-bit size. So
                # where rows allow 8 bytes, the PTX must have a vector load.
                vectors = re.search(rf"\b{op}\.global(?:\.nc)?\.v\d", kernel.text)
                if found < allowed or allowed == 8 and what == "loads" and not vectors:
                    yield fail(f"{what} of {found} bytes, but rows allow {allowed}")


def collect(options):
    """Returns (distinct kernels, number of kernels, faults, notes on tools)."""
    ptxas, nvdisasm = find_cuda_tool("ptxas"), find_cuda_tool("nvdisasm")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        cases = [(MODELS[name], grid) for name in options.models for grid in options.grids]
        programs = list(pool.map(lambda case: compile_program(options.tpcc, *case, folder), cases))
        kernels = merge(programs)
        wrong = []
        if ptxas:
            ordered = list(kernels.values())
            batches = [
                (ordered[begin : begin + BATCH], architecture)
                for architecture in ARCHITECTURES
                for begin in range(0, len(ordered), BATCH)
            ]
            for lines in pool.map(lambda batch: assemble(*batch, ptxas, nvdisasm, folder), batches):
                wrong += lines
    wrong += [line for kernel in kernels.values() for line in find_faults(kernel)]
    notes = [
        f"ptxas of CUDA {get_version(ptxas)}" if ptxas else "no ptxas found: nothing was assembled",
        (
            f"nvdisasm of CUDA {get_version(nvdisasm)}"
            if nvdisasm
            else "no nvdisasm found (PyPI: nvidia-cuda-nvdisasm): access widths were not checked"
        ),
    ]
    return kernels, sum(map(len, programs)), wrong, notes


# ===--- the table -------------------------------------------------------------------===#


def rows_of(kernels):
    """Returns shape -> resources of its kernels, which --check compares."""
    rows = {}
    for kernel in kernels.values():
        row = rows.setdefault(
            kernel.shape,
            {
                "ceiling": kernel.ceiling,
                "texts": 0,
                "registers": collections.Counter(),
                "shared_bytes": 0,
                "wide": collections.Counter(),
            },
        )
        row["texts"] += 1
        for architecture, needs in kernel.needs.items():
            row["registers"][architecture] = max(row["registers"][architecture], needs["registers"])
            row["shared_bytes"] = max(row["shared_bytes"], needs["shared_bytes"])
        row["wide"][max(kernel.loads, kernel.stores)] += 1
    return rows


def table(kernels, count, options):
    rows = rows_of(kernels)
    yield (
        f"{count} kernels of {len(options.models)} models at {len(options.grids)} grids; "
        f"{len(kernels)} of them are distinct. "
        "None spills."
    )
    yield ""
    yield "| shape | kernels | registers on " + ", ".join(
        ARCHITECTURES
    ) + " | ceiling | shared bytes | ceiling | kernels with accesses of 16 bytes, of 8 |"
    yield "|---" * 7 + "|"
    for shape in sorted(rows):
        row = rows[shape]
        registers = ", ".join(str(row["registers"][architecture]) for architecture in ARCHITECTURES)
        yield (
            f"| {shape} | {row['texts']} | {registers} | {row['ceiling']['registers']} | "
            f"{row['shared_bytes']} | "
            f"{row['ceiling']['shared_bytes']} | {row['wide'][16]}, {row['wide'][8]} |"
        )


def read(text):
    """Returns shape -> (registers by architecture, shared bytes) in the page."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| ")
    ]
    return {
        row[0]: ([int(number) for number in row[2].split(", ")], int(row[4])) for row in rows[1:]
    }


def compare(kernels):
    """Yields numbers that exceed those in the page."""
    stated = read(PAGE.read_text().split(BEGIN)[1].split(END)[0])
    for shape, row in rows_of(kernels).items():
        if shape not in stated:
            continue  # not in the table yet; the ceiling applies
        registers, shared = stated[shape]
        for architecture, recorded in zip(ARCHITECTURES, registers):
            if row["registers"][architecture] > recorded:
                now = row["registers"][architecture]
                yield f"{shape}: {now} registers on {architecture}, {PAGE.name} has {recorded}"
        if row["shared_bytes"] > shared:
            yield f"{shape}: {row['shared_bytes']} shared bytes, {PAGE.name} has {shared}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; fail if a number is larger than in the table",
    )
    parser.add_argument("--tpcc", type=Path, default=TOP / "build" / "bin" / "tpcc")
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument(
        "--grids", type=lambda text: text.split("/"), default=GRIDS, help="such as tp2/tp2,sp"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="show each kernel")
    options = parser.parse_args()
    if unknown := set(options.models) - set(MODELS):
        parser.error(
            f"--models: no model {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}"
        )
    if (
        not options.check
        and not options.list
        and (len(options.models), options.grids) != (len(MODELS), GRIDS)
    ):
        parser.error("--models and --grids need --check or --list: the table has all models")
    try:
        kernels, count, wrong, notes = collect(options)
    except Failure as failure:
        sys.exit(f"tools/gpu_kernels.py: {failure}")
    if options.list:
        for kernel in sorted(
            kernels.values(),
            key=lambda kernel: max((n["registers"] for n in kernel.needs.values()), default=0),
        ):
            print(
                kernel,
                kernel.shape,
                {
                    a: (
                        n["registers"],
                        n["shared_bytes"],
                        n["stack_bytes"],
                        n["spill_bytes"],
                        n["widths"],
                    )
                    for a, n in kernel.needs.items()
                },
                "rows allow",
                kernel.loads,
                kernel.stores,
            )
    elif options.check:
        wrong += compare(kernels)
    elif not wrong:
        if notes[0].startswith("no ptxas"):
            sys.exit(f"tools/gpu_kernels.py: {notes[0]}")
        text = PAGE.read_text()
        before, rest = text.split(BEGIN)
        PAGE.write_text(
            before
            + BEGIN
            + "\n\n"
            + "\n".join(table(kernels, count, options))
            + "\n\n"
            + END
            + rest.split(END, 1)[1]
        )
        print("wrote", PAGE.relative_to(TOP))
    for line in wrong:
        print(line)
    print(
        f"{count} kernels, {len(kernels)} of them distinct, for {', '.join(ARCHITECTURES)}: "
        f"{len(wrong)} findings; " + "; ".join(notes)
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

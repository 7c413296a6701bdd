#!/usr/bin/env python3
"""Gates of kernels for GPUs, and the table of them in docs/reference/gpu-kernel-resources.md: each kernel of each model of test/Models at
each grid is assembled for each architecture, and looked at.

    tools/gpu_kernels.py [--check] [--tpcc build/bin/tpcc] [--models NAME,…] [--grids GRID,…] [--jobs N] [--list]

A kernel fails that ptxas refuses or spills, that needs more registers or shared memory than tpcc's table of ceilings
allows, whose accesses in machine code are narrower than the rows allow, or which divides 64 bits in an inner loop. ptxas
is found as tpcc finds it, nvdisasm beside it, in PATH or in .venv/; without nvdisasm, widths are not looked at, and
without ptxas nothing but the PTX. With --check nothing is written, and numbers may only be smaller than in the table.
--list shows each kernel."""

import argparse
import collections
import hashlib
import json
import math
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
sys.path[:0] = [str(TOP / folder) for folder in ("python", "test/Integration", "test/Integration/cpu")]

from harness import Grid, find_cuda_tool  # noqa: E402
from models import COMMITTED, FAMILIES, Model  # noqa: E402

PAGE = TOP / "docs" / "reference" / "gpu-kernel-resources.md"
BEGIN, END = "<!-- Written by tools/gpu_kernels.py -->", "<!-- End -->"
MODELS = {**COMMITTED, **FAMILIES,
          "gpt2-124m": Model(TOP / "test/Models/gpt2-124m.onnx", layers=12, hidden=768, heads=12)}
GRIDS = ["tp1", "tp2", "tp3", "pp2", "tp2,sp", "tp2x2"]
ARCHITECTURES = ["sm_80", "sm_90", "sm_100"]
# Kernels that one ptxas assembles: starting it takes as long as a kernel.
BATCH = 24
ELEMENT_BYTES = {"i1": 1, "i8": 1, "ui8": 1, "f16": 2, "bf16": 2, "i16": 2, "f32": 4, "i32": 4, "f64": 8, "i64": 8}
WIDE, MOST_LANES = 16, 8


class Failure(Exception):
    pass


@dataclass
class Kernel:
    """One text, whoever has it. `loads`, `stores`: bytes that a thread could access at once."""

    name: str
    text: str
    shape: str
    ceiling: dict
    loads: int = 0
    stores: int = 0
    users: list = field(default_factory=list)
    needs: dict = field(default_factory=dict)  # architecture -> what ptxas says, and widths

    @property
    def key(self):
        return "k" + hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def __str__(self):
        return f"{self.name} ({self.users[0]}" + (f" and {len(self.users) - 1} more)" if self.users[1:] else ")")


#===--- PTX ---------------------------------------------------------------------===#

def split_ptx(text):
    """(what comes first, kernel -> its text with the variables that it names, all under the name KERNEL)"""
    head, rest = re.split(r"(?<=\.address_size 64\n)", text, maxsplit=1)
    blocks = re.findall(r"^(?:\.visible |\.weak )?\.entry (\w+)\((.*?)^}\n", rest, re.M | re.S)
    variables = re.findall(r"^((?:\.\w+ )*\.(?:shared|global|const)\b[^;{]* (\w+)(?:\[\d*\])?(?: = [^;]*)?;)", rest, re.M)
    if len(blocks) != len(re.findall(r"\.entry\b", rest)) or re.search(r"^(?:\.\w+ )*\.func\b", rest, re.M):
        raise Failure("the PTX is not a list of kernels")
    kernels = {}
    for name, body in blocks:
        whole = f".visible .entry {name}({body}}}\n"
        own = [(declaration, variable) for declaration, variable in variables if re.search(rf"\b{variable}\b", body)]
        whole = "".join(declaration + "\n" for declaration, _ in own) + whole
        for index, (_, variable) in enumerate(own):
            whole = re.sub(rf"\b{variable}\b", f"KERNEL_variable{index}", whole)
        # Parameters are called after the kernel.
        whole = re.sub(rf"\b{name}(?=\(|_param_)", "KERNEL", whole)
        # Labels are numbered through the text.
        kernels[name] = re.sub(r"\$L__BB\d+_", "$L__BB_", whole)
    return head, kernels


def split_blocks(text):
    """(instructions of each basic block, successors of each) of a kernel."""
    blocks, labels = [[]], {}
    for line in text.split("{\n", 1)[1].split("\n"):
        line = line.split("//")[0].strip()
        if label := re.match(r"(\$\w+):", line):
            blocks.append([])
            labels[label[1]] = len(blocks) - 1
        elif line and not line.startswith("."):
            blocks[-1].append(line)
            if re.search(r"\b(bra|ret)\b", line):
                blocks.append([])
    successors = []
    for index, block in enumerate(blocks):
        last = block[-1] if block else ""
        target = re.search(r"\bbra(?:\.uni)?\s+(\$\w+)", last)
        after = {labels[target[1]]} if target else set()
        if not re.match(r"(bra|ret)\b", last) and index + 1 < len(blocks):
            after.add(index + 1)
        successors.append(after)
    return blocks, successors


def find_loops(successors):
    """The natural loops: what goes back to a block that all ways lead through. Their blocks, by head."""
    reached, todo = {0}, [0]
    while todo:
        new = successors[todo.pop()] - reached
        reached |= new
        todo += new
    before = {block: [other for other in reached if block in successors[other]] for block in reached}
    dominators = {block: set(reached) if block else {0} for block in reached}
    changed = True
    while changed:
        changed = False
        for block in reached - {0}:
            own = {block} | set.intersection(*(dominators[other] for other in before[block]))
            changed |= own != dominators[block]
            dominators[block] = own
    loops = {}
    for block in reached:
        for head in successors[block] & dominators[block]:
            body, todo = loops.setdefault(head, {head}), [block]
            while todo:
                at = todo.pop()
                if at not in body:
                    body.add(at)
                    todo += before[at]
    return loops


def find_long_divisions(text):
    """Divisions of 64 bits in loops inside of the one over rows."""
    blocks, successors = split_blocks(text)
    loops = find_loops(successors).values()
    return [line for index, block in enumerate(blocks) for line in block
            if re.search(r"\b(div|rem)\.[us]64", line) and sum(index in body for body in loops) > 1]


#===--- what rows allow -----------------------------------------------------------===#

def get_size(text, grid):
    """Value of a size: `_24.tpx.tpy` is split by these axes. None: it depends on the rank or on the input."""
    if "*" in text:
        factors = [get_size(factor, grid) for factor in text.strip('"').split("*")]
        return math.prod(factors) if all(factor is not None for factor in factors) else None
    found = re.fullmatch(r"_?(\d+)((?:\.tp[xy]?)*)", text)
    if not found:
        return None
    parts = {"tp": grid.tp, "tpx": (grid.xy or (1, 1))[0], "tpy": (grid.xy or (1, 1))[1]}
    size = int(found[1])
    for axis in found[2].split(".")[1:]:
        if size % parts[axis]:
            return None
        size //= parts[axis]
    return size


def find_streams(body, last):
    """(load or store, memory) where the innermost index is a loop's, but for what only some of a thread's elements do:
    those are behind a condition on this index. Nor for loads beside which another branch loads element by element: LLVM
    makes one load of both, from either address."""
    dependent, conditions, found = {last}, [], []
    for line in body.split("\n"):
        indentation = len(line) - len(line.lstrip())
        while conditions and indentation <= conditions[-1]["indentation"] and not line.lstrip().startswith("} else"):
            conditions.pop()
        operands = set(re.findall(r"%[\w.\-$#]+", line.split("=", 1)[-1]))
        if defined := re.match(r" *(%\w+)(?::\d+)? = ", line):
            if operands & dependent:
                dependent.add(defined[1])
        if choice := re.search(r"scf\.if (%\w+)", line):
            conditions.append({"indentation": indentation, "depends": choice[1] in dependent, "single": False})
        if access := re.search(r"memref\.(load|store) (?:%\S+, )?(%[\w.\-$]+)\[(.*?)\]", line):
            indices = access[3].split(", ")
            if indices[-1] == last:
                if not any(condition["depends"] for condition in conditions):
                    found.append((access[1], access[2], list(conditions)))
            elif access[1] == "load" and indices[-1] in dependent:
                for condition in conditions:
                    condition["single"] = True
    return [(kind, memory) for kind, memory, around in found
            if kind == "store" or not any(condition["single"] for condition in around)]


def find_cuts(body, inner, last, grid):
    """Where conditions on the last index cut the row, and by how much what they guard is shifted."""
    known = {name: get_size(size, grid) for name, size in re.findall(r"(%\w+) = tpc_kernel\.size (\S+)", body)}
    known |= {name: int(number) for name, number in re.findall(r"(%\w+) = arith\.constant (\d+) : index", body)}
    named = re.findall(rf"= arith\.(?:cmpi slt,|addi|subi) {re.escape(last)}, (%\w+)", inner)
    return [known[name] for name in named if known.get(name)]


def find_widths(function, grid, shape):
    """(loads, stores): the most bytes that a thread can access at once, from the kernel's IR. Adjacent elements are those
    along the last index of a loop; as many as fill 16 bytes of the narrowest type (of the widest, where rows share
    nothing), and as divide what is known of the sizes of the rows, and where conditions cut them."""
    loads = stores = 0
    sizes = {}
    signature, body = function.split("{\n", 1)
    for name, type, dims in re.findall(r"(%[\w.\-$]+|\"%.*?\"): memref<([?x\w]+)> of\s+\[(.*?)\](?=,|\))", signature, re.S):
        dims = re.findall(r'"[^"]*"|[^,\s]+', dims)
        sizes[name] = (ELEMENT_BYTES[type.split("x")[-1]], dims[-1] if dims else None)
    for match in re.finditer(r"^( *)(?:%\w+ = )?tpc_kernel\.(?:elements|fold \w+) \((.*?)\) in\s+\[(.*?)\].*?\n(.*?)^\1}", body,
                             re.M | re.S):
        _, indices, space, inner = match.groups()
        last = indices.split(", ")[-1]
        space = re.findall(r'"[^"]*"|[^,\s]+', space)
        if not last:
            continue
        accesses = [(kind, *sizes[memory]) for kind, memory in find_streams(inner, last) if memory in sizes]
        if not accesses:
            continue
        choose = max if shape == "elements" else min
        lanes = min(MOST_LANES, WIDE // choose(bytes for _, bytes, _ in accesses))
        if shape == "elements":
            for cut in find_cuts(body, inner, last, grid):
                while cut % lanes:
                    lanes //= 2
        for size in [space[-1], *(dim for _, _, dim in accesses)]:
            while (known := get_size(size, grid)) and known % lanes:
                lanes //= 2
        if lanes == 1:
            continue
        for kind, bytes, _ in accesses:
            width = min(WIDE, lanes * bytes)
            if kind == "load":
                loads = max(loads, width)
            else:
                stores = max(stores, width)
    return loads, stores


#===--- programs ------------------------------------------------------------------===#

def compile_program(tpcc, model, grid, folder):
    """[Kernel] of a model's program."""
    where = f"{model.name} at {grid}"
    folder = Path(tempfile.mkdtemp(dir=folder))
    call = [tpcc, model.path, f"--megatron-shard={grid}", "--target=cuda", "--gpu-arch=" + ",".join(ARCHITECTURES)]
    shape = ",".join(f"{name}={size}" for name, size in model.shape(2, 32, 8).items())
    # Assembling is done here, each text once.
    for words in (["--emit=ptx", "-o", folder / "ptx", f"--report={folder / 'report'}", "--shape", shape],
                  ["--emit=kernels", "--plain", "-o", folder / "kernels"]):
        done = subprocess.run(call + words, stderr=subprocess.PIPE, text=True, env={**os.environ, "CUDA_HOME": "/nonexistent"})
        if done.returncode:
            raise Failure(f"{where}: {done.stderr}")
    report = json.loads((folder / "report").read_text())["kernels"]
    functions = {name: text for text, name in re.findall(r"( *tpc_kernel\.func @(\w+)\(.*?\n    }\n)",
                                                         (folder / "kernels").read_text(), re.S)}
    head, texts = split_ptx((folder / "ptx").read_text())
    launches = {launch["name"]: launch for launch in report["kernels"]}
    if set(launches) != set(texts):
        raise Failure(f"{where}: --report names {sorted(set(launches) ^ set(texts))}, the PTX does not, or the other way round")
    kernels = []
    for name, text in texts.items():
        shape = launches[name]["shape"]
        # Threads of a tile access one element each, and those of a warp what follows one another.
        is_tile = shape == "tiles"
        loads, stores = find_widths(functions[name], Grid.parse(grid), shape) if name in functions and not is_tile else (0, 0)
        kernels.append(Kernel(name, head + text, shape, report["ceilings"][shape], loads, stores, [where]))
    return kernels


def merge(programs):
    """Each text once."""
    distinct = {}
    for kernel in (kernel for program in programs for kernel in program):
        seen = distinct.setdefault(kernel.key, kernel)
        if seen is not kernel:
            seen.users += kernel.users
            seen.loads, seen.stores = max(seen.loads, kernel.loads), max(seen.stores, kernel.stores)
    return distinct


#===--- machine code ----------------------------------------------------------------===#

def get_version(tool):
    said = subprocess.run([tool, "--version"], stdout=subprocess.PIPE, text=True).stdout
    return (re.search(r"release ([\d.]+)", said) or [0, "?"])[1]


def parse_resources(log):
    """key -> what `ptxas -v` says of it"""
    found = {}
    for part in log.split("Compiling entry function '")[1:]:
        def number(pattern):
            return sum(map(int, re.findall(pattern, part)))

        found[part.split("'")[0]] = {"registers": number(r"Used (\d+) registers"), "shared_bytes": number(r"(\d+) bytes smem"),
                                     "stack_bytes": number(r"(\d+) bytes stack frame"),
                                     "spill_bytes": number(r"(\d+) bytes spill (?:stores|loads)")}
    return found


def parse_widths(sass):
    """key -> (loads, stores): the widest accesses to global memory, in bytes"""
    found = {}
    for key, text in re.findall(r"^\.text\.(\w+):\n(.*?)(?=^\s*\.section|\Z)", sass, re.M | re.S):
        def widest(op):
            return max((int(bits or 32) // 8 for bits in re.findall(rf"\b{op}\.E(?:\.\w+)*?(?:\.(\d+))?(?=[. ])(?!\.\d)", text)),
                       default=0)

        found[key] = widest("LDG"), widest("STG")
    return found


def assemble(kernels, architecture, ptxas, nvdisasm, folder):
    """Fills in `needs`; returns lines on what ptxas refuses. One process for all; where it fails, one for each."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    head = kernels[0].text.split(".visible .entry")[0].split(".shared")[0]
    head = re.match(r"(?s).*?\.address_size 64\n", head)[0]
    text = head + "".join(kernel.text.removeprefix(head).replace("$L__BB_", f"$L__BB{index}_").replace("KERNEL", kernel.key)
                          for index, kernel in enumerate(kernels))
    (folder / "ptx").write_text(text)
    done = subprocess.run([ptxas, "-v", f"-arch={architecture}", "-o", folder / "cubin", folder / "ptx"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        if len(kernels) == 1:
            return [f"{kernels[0]}: {architecture}: ptxas refuses it: {done.stdout.strip()}"]
        return [line for kernel in kernels for line in assemble([kernel], architecture, ptxas, nvdisasm, folder)]
    resources, widths = parse_resources(done.stdout), {}
    if nvdisasm:
        widths = parse_widths(subprocess.run([nvdisasm, "-c", folder / "cubin"], stdout=subprocess.PIPE, text=True,
                                             check=True).stdout)
    for kernel in kernels:
        kernel.needs[architecture] = dict(resources[kernel.key], widths=widths.get(kernel.key))
    shutil.rmtree(folder)
    return []


#===--- gates -----------------------------------------------------------------------===#

def judge(kernel):
    """Lines on what is wrong with it."""
    for line in find_long_divisions(kernel.text):
        yield f"{kernel}: divides 64 bits in an inner loop: {line}"
    for architecture, needs in kernel.needs.items():
        def fail(what):
            return f"{kernel}: {architecture}: {what}"

        if needs["spill_bytes"]:
            yield fail(f"{needs['spill_bytes']} bytes of spills")
        for what in ("registers", "shared_bytes"):
            if needs[what] > kernel.ceiling[what]:
                yield fail(f"{needs[what]} {what.replace('_', ' ')}; {kernel.shape} may have {kernel.ceiling[what]}")
        if needs["widths"]:
            for what, op, least, found in zip(("loads", "stores"), ("ld", "st"), (kernel.loads, kernel.stores), needs["widths"]):
                # Sizes are loads of 8 bytes of their own: only a vector shows that rows are loaded so.
                vectors = re.search(rf"\b{op}\.global(?:\.nc)?\.v\d", kernel.text)
                if found < least or least == 8 and what == "loads" and not vectors:
                    yield fail(f"{what} of {found} bytes, and rows allow {least}")


def look(options):
    """(distinct kernels, lines on what is wrong)"""
    ptxas, nvdisasm = find_cuda_tool("ptxas"), find_cuda_tool("nvdisasm")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        cases = [(MODELS[name], grid) for name in options.models for grid in options.grids]
        programs = list(pool.map(lambda case: compile_program(options.tpcc, *case, folder), cases))
        kernels = merge(programs)
        wrong = []
        if ptxas:
            ordered = list(kernels.values())
            batches = [(ordered[begin:begin + BATCH], architecture) for architecture in ARCHITECTURES
                       for begin in range(0, len(ordered), BATCH)]
            for lines in pool.map(lambda batch: assemble(*batch, ptxas, nvdisasm, folder), batches):
                wrong += lines
    wrong += [line for kernel in kernels.values() for line in judge(kernel)]
    notes = [f"ptxas of CUDA {get_version(ptxas)}" if ptxas else "there is no ptxas: nothing was assembled",
             f"nvdisasm of CUDA {get_version(nvdisasm)}" if nvdisasm else
             "there is no nvdisasm (nvidia-cuda-nvdisasm of PyPI has one): widths of accesses were not looked at"]
    return kernels, sum(map(len, programs)), wrong, notes


#===--- the table -------------------------------------------------------------------===#

def rows_of(kernels):
    """shape -> numbers of its kernels: what --check compares."""
    rows = {}
    for kernel in kernels.values():
        row = rows.setdefault(kernel.shape, {"ceiling": kernel.ceiling, "texts": 0, "registers": collections.Counter(),
                                             "shared_bytes": 0, "wide": collections.Counter()})
        row["texts"] += 1
        for architecture, needs in kernel.needs.items():
            row["registers"][architecture] = max(row["registers"][architecture], needs["registers"])
            row["shared_bytes"] = max(row["shared_bytes"], needs["shared_bytes"])
        row["wide"][max(kernel.loads, kernel.stores)] += 1
    return rows


def table(kernels, count, options):
    rows = rows_of(kernels)
    yield (f"{count} kernels of {len(options.models)} models at {len(options.grids)} grids; {len(kernels)} of them differ. "
           "None spills.")
    yield ""
    yield "| shape | kernels | registers on " + ", ".join(ARCHITECTURES) + " | at most | shared bytes | at most | 16 bytes at once, 8 |"
    yield "|---" * 7 + "|"
    for shape in sorted(rows):
        row = rows[shape]
        registers = ", ".join(str(row["registers"][architecture]) for architecture in ARCHITECTURES)
        yield (f"| {shape} | {row['texts']} | {registers} | {row['ceiling']['registers']} | {row['shared_bytes']} | "
               f"{row['ceiling']['shared_bytes']} | {row['wide'][16]}, {row['wide'][8]} |")


def read(text):
    """shape -> (registers by architecture, shared bytes) that the page states."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: ([int(number) for number in row[2].split(", ")], int(row[4])) for row in rows[1:]}


def compare(kernels):
    """Lines on what is more than the page says."""
    stated = read(PAGE.read_text().split(BEGIN)[1].split(END)[0])
    for shape, row in rows_of(kernels).items():
        if shape not in stated:
            continue  # the table is older; the ceiling holds all the same
        registers, shared = stated[shape]
        for architecture, then in zip(ARCHITECTURES, registers):
            if row["registers"][architecture] > then:
                yield f"{shape}: {row['registers'][architecture]} registers on {architecture}, docs/reference/{PAGE.name} says {then}"
        if row["shared_bytes"] > shared:
            yield f"{shape}: {row['shared_bytes']} bytes of shared memory, docs/reference/{PAGE.name} says {shared}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a number is larger than in the table")
    parser.add_argument("--tpcc", type=Path, default=TOP / "build" / "bin" / "tpcc")
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--grids", type=lambda text: text.split("/"), default=GRIDS, help="such as tp2/tp2,sp")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="show each kernel")
    options = parser.parse_args()
    if unknown := set(options.models) - set(MODELS):
        parser.error(f"--models: no model {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    if not options.check and not options.list and (len(options.models), options.grids) != (len(MODELS), GRIDS):
        parser.error("--models and --grids need --check or --list: the table has all")
    try:
        kernels, count, wrong, notes = look(options)
    except Failure as failure:
        sys.exit(f"tools/gpu_kernels.py: {failure}")
    if options.list:
        for kernel in sorted(kernels.values(), key=lambda kernel: max((n["registers"] for n in kernel.needs.values()), default=0)):
            print(kernel, kernel.shape, {a: (n["registers"], n["shared_bytes"], n["stack_bytes"], n["spill_bytes"], n["widths"])
                                         for a, n in kernel.needs.items()}, "rows allow", kernel.loads, kernel.stores)
    elif options.check:
        wrong += compare(kernels)
    elif not wrong:
        if notes[0].startswith("there is no"):
            sys.exit(f"tools/gpu_kernels.py: {notes[0]}")
        text = PAGE.read_text()
        before, rest = text.split(BEGIN)
        PAGE.write_text(before + BEGIN + "\n\n" + "\n".join(table(kernels, count, options)) + "\n\n" + END + rest.split(END, 1)[1])
        print("wrote", PAGE.relative_to(TOP))
    for line in wrong:
        print(line)
    print(f"{count} kernels, {len(kernels)} of them differ, for {', '.join(ARCHITECTURES)}: {len(wrong)} findings; " +
          "; ".join(notes))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

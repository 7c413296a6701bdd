"""Analysis of GPU kernels as text: basic blocks and loops of PTX, access widths of kernel IR."""

import math
import re

ELEMENT_BYTES = {
    "i1": 1,
    "i8": 1,
    "ui8": 1,
    "f16": 2,
    "bf16": 2,
    "i16": 2,
    "f32": 4,
    "i32": 4,
    "f64": 8,
    "i64": 8,
}
VECTOR_BYTES, MAX_LANES = 16, 8


class Failure(Exception):
    pass


# ===--- PTX ---------------------------------------------------------------------===#


def split_ptx(text):
    """Returns the header of a PTX text, and kernel -> text of the kernel and the variables it uses.

    Names in a text do not depend on the program: the kernel is KERNEL, variables are numbered.
    """
    head, rest = re.split(r"(?<=\.address_size 64\n)", text, maxsplit=1)
    blocks = re.findall(r"^(?:\.visible |\.weak )?\.entry (\w+)\((.*?)^}\n", rest, re.M | re.S)
    variables = re.findall(
        r"^((?:\.\w+ )*\.(?:shared|global|const)\b[^;{]* (\w+)(?:\[\d*\])?(?: = [^;]*)?;)",
        rest,
        re.M,
    )
    if len(blocks) != len(re.findall(r"\.entry\b", rest)) or re.search(
        r"^(?:\.\w+ )*\.func\b", rest, re.M
    ):
        raise Failure("the PTX does not consist of kernels")
    kernels = {}
    for name, body in blocks:
        kernel = f".visible .entry {name}({body}}}\n"
        used = [
            (declaration, variable)
            for declaration, variable in variables
            if re.search(rf"\b{variable}\b", body)
        ]
        kernel = "".join(declaration + "\n" for declaration, _ in used) + kernel
        for index, (_, variable) in enumerate(used):
            kernel = re.sub(rf"\b{variable}\b", f"KERNEL_variable{index}", kernel)
        # Names of parameters begin with the kernel's name.
        kernel = re.sub(rf"\b{name}(?=\(|_param_)", "KERNEL", kernel)
        # Labels are numbered across all kernels.
        kernels[name] = re.sub(r"\$L__BB\d+_", "$L__BB_", kernel)
    return head, kernels


def split_blocks(text):
    """Returns (instructions, successors) of each basic block of a kernel."""
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
    """Returns the blocks of natural loops, by header: back edges to a dominator."""
    reached, todo = {0}, [0]
    while todo:
        new = successors[todo.pop()] - reached
        reached |= new
        todo += new
    predecessors = {
        block: [other for other in reached if block in successors[other]] for block in reached
    }
    dominators = {block: set(reached) if block else {0} for block in reached}
    changed = True
    while changed:
        changed = False
        for block in reached - {0}:
            updated = {block} | set.intersection(
                *(dominators[other] for other in predecessors[block])
            )
            changed |= updated != dominators[block]
            dominators[block] = updated
    loops = {}
    for block in reached:
        for head in successors[block] & dominators[block]:
            body, todo = loops.setdefault(head, {head}), [block]
            while todo:
                at = todo.pop()
                if at not in body:
                    body.add(at)
                    todo += predecessors[at]
    return loops


def find_long_divisions(text):
    """Returns 64-bit divisions in loops nested in the loop over rows."""
    blocks, successors = split_blocks(text)
    loops = find_loops(successors).values()
    return [
        line
        for index, block in enumerate(blocks)
        for line in block
        if re.search(r"\b(div|rem)\.[us]64", line) and sum(index in body for body in loops) > 1
    ]


# ===--- access widths -------------------------------------------------------------===#


def get_size(text, grid):
    """Returns the value of a size, such as `_24.tpx.tpy`, which is split over tpx and tpy. Returns
    None if it depends on rank or input."""
    if "(" in text:
        return None
    if "+" in text:
        terms = [get_size(term, grid) for term in text.strip('"').split("+")]
        return sum(terms) if all(term is not None for term in terms) else None
    if "*" in text:
        factors = [get_size(factor, grid) for factor in text.strip('"').split("*")]
        return math.prod(factors) if all(factor is not None for factor in factors) else None
    found = re.fullmatch(r"_?(\d+)((?:\.tp[xy]?)*)", text.strip())
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
    """Returns (load or store, memory) of accesses whose innermost index is the loop variable.

    Excludes accesses under a condition on this index, which only some elements of a thread execute.
    Excludes loads if another branch loads single elements: LLVM merges both into one load.
    """
    dependent, conditions, found = {last}, [], []
    for line in body.split("\n"):
        indentation = len(line) - len(line.lstrip())
        while (
            conditions
            and indentation <= conditions[-1]["indentation"]
            and not line.lstrip().startswith("} else")
        ):
            conditions.pop()
        operands = set(re.findall(r"%[\w.\-$#]+", line.split("=", 1)[-1]))
        if defined := re.match(r" *(%\w+)(?::\d+)? = ", line):
            if operands & dependent:
                dependent.add(defined[1])
        if choice := re.search(r"scf\.if (%\w+)", line):
            conditions.append(
                {"indentation": indentation, "depends": choice[1] in dependent, "single": False}
            )
        if access := re.search(r"memref\.(load|store) (?:%\S+, )?(%[\w.\-$]+)\[(.*?)\]", line):
            indices = access[3].split(", ")
            if indices[-1] == last:
                if not any(condition["depends"] for condition in conditions):
                    found.append((access[1], access[2], list(conditions)))
            elif access[1] == "load" and indices[-1] in dependent:
                for condition in conditions:
                    condition["single"] = True
    return [
        (kind, memory)
        for kind, memory, around in found
        if kind == "store" or not any(condition["single"] for condition in around)
    ]


def find_cuts(body, inner, last, grid):
    """Returns the known sizes and constants that the last index is compared with or shifted by.

    Concats and slices have such conditions and shifts. A vector access must not cross them.
    """
    known = {
        name: get_size(size, grid)
        for name, size in re.findall(r"(%\w+) = tpc_kernel\.size (\S+)", body)
    }
    known |= {
        name: int(number)
        for name, number in re.findall(r"(%\w+) = arith\.constant (\d+) : index", body)
    }
    named = re.findall(rf"= arith\.(?:cmpi slt,|addi|subi) {re.escape(last)}, (%\w+)", inner)
    return [known[name] for name in named if known.get(name)]


def find_widths(function, grid, shape):
    """Returns (loads, stores): maximum bytes that a thread can access at once, by the kernel's IR.

    Elements along the last index of a loop are adjacent. An access has as many elements as 16 bytes
    have of the loop's narrowest type, or of its widest type if `shape` is `elements`. Their number
    divides the known sizes of the rows, their strides, and the results of find_cuts.
    """
    loads = stores = 0
    sizes = {}
    signature, body = function.split("{\n", 1)
    for name, type, dims, stride in re.findall(
        r"(%[\w.\-$]+|\"%.*?\"): memref<([?x\w]+)> of\s+\[(.*?)\]"
        r'(?:\s+rows \d+\s+stride\s+("[^"]*"|[^,\s)]+))?(?=,|\))',
        signature,
        re.S,
    ):
        dims = re.findall(r'"[^"]*"|[^,\s]+', dims)
        sizes[name] = (ELEMENT_BYTES[type.split("x")[-1]], [*dims[-1:], *filter(None, [stride])])
    for match in re.finditer(
        r"^( *)(?:%\w+ = )?tpc_kernel\.(?:elements|fold \w+) \((.*?)\) in\s+"
        r"\[(.*?)\].*?\n(.*?)^\1}",
        body,
        re.M | re.S,
    ):
        _, indices, space, inner = match.groups()
        last = indices.split(", ")[-1]
        space = re.findall(r'"[^"]*"|[^,\s]+', space)
        if not last:
            continue
        accesses = [
            (kind, *sizes[memory]) for kind, memory in find_streams(inner, last) if memory in sizes
        ]
        if not accesses:
            continue
        choose = max if shape == "elements" else min
        lanes = min(MAX_LANES, VECTOR_BYTES // choose(bytes for _, bytes, _ in accesses))
        if shape == "elements":
            for cut in find_cuts(body, inner, last, grid):
                while cut % lanes:
                    lanes //= 2
        for size in [space[-1], *(size for _, _, rows in accesses for size in rows)]:
            while (known := get_size(size, grid)) and known % lanes:
                lanes //= 2
        if lanes == 1:
            continue
        for kind, bytes, _ in accesses:
            width = min(VECTOR_BYTES, lanes * bytes)
            if kind == "load":
                loads = max(loads, width)
            else:
                stores = max(stores, width)
    return loads, stores

"""Seeded faults in kernels that comparisons cannot detect, each with a reason.

Notation of a statement's value (Explain.cpp): `env[0]` is a size, `block` and `blocks` are the
block's index and the number of blocks, `thread` is the index in the block. `one of (a or b)` is a
register after a branch or a loop. `for bra, return` lists the instructions that use the result.

States, determined by running: `not reached`: no case executes the statement; `no difference`: its
result equals the original's in all cases; `the same bits`: its result differs, but outputs are
equal; `other bits`: outputs differ within the bound.
"""

import re
import sys
from typing import NamedTuple


class Survivor(NamedTuple):
    kernel: str
    kind: str
    state: str
    what: str  # value that the statement computes
    before: str
    after: str


class Entry(NamedTuple):
    kinds: tuple[str, ...]
    state: str
    what: str  # regular expression for Survivor.what
    why: str
    # Whether the fault is equivalent. Otherwise it differs only for sizes that no test can run.
    equal: bool = True


NEVER, ALWAYS, ROUND, BOUND = (
    "a branch never taken",
    "a branch always taken",
    "a condition turned round",
    "a bound off by one",
)
NUMBER, IDENTITY, CONSTANT = "a number off by one", "a wrong identity", "a wrong constant"
NO_DIFFERENCE, SAME, OTHER = "no difference", "the same bits", "other bits"
ITEM = r"one of \(block or add\(itself, blocks\)\)"
TWICE, LESS = "a bound of numbers twice as large", "a bound of numbers sixteen times less"
SIZE = r"env\[\d\]"
THREAD = (  # index of a thread in its row
    r"and\(add\(shl\(1, choose\(gt\((memory\[…\]|env\[\d\]), 256\), 9, 5\)\), -1\), thread\)"
)
WIDER = r"ne\(and\((or\()?.*, -4294967296\), 0\)"

ENTRIES = [
    Entry(
        (NEVER,),
        SAME,
        rf"^return if le\(.*, {ITEM}\)$",
        "a block without work runs one iteration: each group also tests whether its row exists",
    ),
    Entry(
        (BOUND,),
        SAME,
        rf"^le\(.*, {ITEM}\) for return$",
        "an additional block has no row: each group also tests that",
    ),
    Entry(
        (BOUND,),
        SAME,
        rf"^lt\({ITEM}, .*\) for bra$",
        "an additional iteration has no row: each group also tests that",
    ),
    Entry(
        (NEVER, ALWAYS),
        SAME,
        r"^branch if (not\(and\()?(eq|ne)\((and|or)\(.*parameter \d",
        "a test of alignment and length: single elements instead of 16 bytes at once are slower,"
        " but the same",
    ),
    Entry(
        (ALWAYS, ROUND),
        SAME,
        rf"^(branch if )?{WIDER}( for bra)?$",
        "divides in 64 bits although 32 suffice",
    ),
    Entry(
        (NEVER,),
        NO_DIFFERENCE,
        rf"^branch if {WIDER}$",
        "divides in 32 bits although 64 are needed: only from 2^32 rows on, which exceed the"
        " memory here; LLVM's expansion",
        False,
    ),
    Entry(
        ("a shift by one more",),
        SAME,
        rf"^shr\(mul\(one of \(or\(shl\({ITEM}, 8\), thread\).*\), -\d+\), \d\) for cvt, mul$",
        "a smaller row index and a larger offset in the row: rows are contiguous in all memory of"
        " the kernel",
    ),
    Entry(
        ("a mask with one bit less",),
        NO_DIFFERENCE,
        rf"^and\(shr\(one of \(or\(shl\({ITEM}, \d+\), .*, 4611686018427387\d+\) for or$",
        "the highest bit of an offset, from 2^61 bytes on, which exceeds any memory",
    ),
    Entry(
        (IDENTITY,),
        SAME,
        r"^0f00000000 for (?!.*shfl)",
        "initial value of elements beyond the row: each read is guarded by a test for the end of"
        " the row",
    ),
    Entry(
        (NEVER,),
        SAME,
        r"^branch if gt\(thread, \d+\)$",
        "a thread computes values for elements beyond the row: each store or addition is guarded by"
        " a test for the end of the row",
    ),
    Entry(
        (BOUND,),
        SAME,
        r"^lt\(and\(thread, 31\), \d+\) for selp$",
        "a lane beyond the row selects an undefined value: each store is guarded by a test for the"
        " end of the row",
    ),
    Entry(
        ("a difference for a sum",),
        SAME,
        r"^addf\(.*(0f00000000|…) or .*shuffle\(.*, (16|8|4)\)\) for addf, shfl$",
        "at most 8 or 4 lanes have elements of the row, and the others 0: the storing lanes receive"
        " 0 from this distance",
    ),
    Entry(
        ("a difference for a sum",),
        SAME,
        r"^addf\(one of \(0f80000000 or shared\[.*shuffle\(one of \(0f80000000 or shared\[.*,"
        r" 16\)\) for addf, shfl$",
        "16 warps: lane 0, which stores, receives -0 from the upper half, and reads no lane of it"
        " later",
    ),
    Entry(
        ("a shuffle over another distance",),
        SAME,
        r"^shuffle\(one of \(0fFF800000 or shared\[.*\]\), 16\) for max$",
        "16 warps: the upper half has the maximum's identity, and a maximum may read a lane of the"
        " lower half twice",
    ),
    Entry(
        (CONSTANT,),
        SAME,
        r"^choose\((gtf|ltf)\(.*(0f42B17217|0fC2ADF5C3)",
        "exp of too large or too small arguments is replaced by infinity or 0",
    ),
    Entry(
        (CONSTANT,),
        NO_DIFFERENCE,
        r"^choose\(gtf\(subf\(.*0f42B17217",
        "softmax: no argument is positive, so exp's upper limit is never reached",
    ),
    Entry(
        (TWICE, LESS),
        NO_DIFFERENCE,
        r"^gtf\(subf\(.*, .*\), 0f42B17217\) for selp$",
        "softmax: no argument is positive, so exp's upper limit is never reached",
    ),
    Entry(
        ("a shuffle of parts of a warp", "a shuffle of another kind", "a shuffle left out"),
        SAME,
        r"^shuffle\(one of \(0fFF800000 or shared\[.*\]\), 16\)",
        "16 warps: the other half of the lanes has the maximum's identity, and only lane 0 or its"
        " half is used",
    ),
    Entry(
        ("a mask with one bit less", "a shift by one more"),
        NO_DIFFERENCE,
        r"^(and\()?shr\(rem\(.*, 24\)",
        "wraps a negative index: a computed position is not negative",
    ),
    Entry(
        (TWICE,),
        SAME,
        r"^gtf\(abs\(mulf\(.*, 0f3F3504F3\)\), 0f40800000\) for selp$",
        "erf is 1 from 4 on, and the polynomial fitted up to 4 is 1 up to 8 as well",
    ),
    Entry(
        (NUMBER,),
        SAME,
        r"^add\(one of \(.*thread.*\), -\d+\) for add, lt$",
        "LLVM counts iterations of an unrolled loop: one more element does not add an iteration",
    ),
    Entry(
        (NUMBER,),
        SAME,
        r"^add\(one of \(add\(one of \(.*thread.*\), -(\d+)\) or add\(itself, \1\)\), \1\) for"
        r" add, lt$",
        "LLVM counts iterations of an unrolled loop: one more element does not add an iteration",
    ),
    Entry(
        (NUMBER, "a wrong stride"),
        SAME,
        r"shl\(and\(add\(mul\(sub\(\d+, thread\), \d+\), \d+\), 3\), 2\)",
        "LLVM peels iterations before an unrolled loop: one more computes elements that the loop"
        " computes again from the same operands",
    ),
    Entry(
        ("a barrier left out", "a warp's barrier for the block's"),
        SAME,
        r"^bar.sync 0;$",
        "between passes over global memory: each thread reads only its own stores",
    ),
    # Rows of dynamic length: up to 4096 elements in registers, four at a time if aligned; otherwise
    # from memory, which is correct for rows of any length.
    Entry(
        (ALWAYS,),
        SAME,
        rf"^branch if or\(gt\({SIZE}, 4096\), eq\(and\({SIZE}, 3\), 0\)\)$",
        "reads rows again that fit into registers: slower, but the same elements",
    ),
    Entry(
        (ALWAYS,),
        SAME,
        rf"^branch if or\((or\(ne\(and\({SIZE}, 3\), 0\)|gt\({SIZE}, 4096\)), .*parameter \d.*,"
        r" 12\), 0\)",
        "does not keep rows in registers, four elements at once: slower, but the same elements",
    ),
    Entry(
        (BOUND,),
        SAME,
        rf"^gt\({SIZE}, 4096\) for or$",
        "reads rows of 4096 again, which fit into registers",
    ),
    Entry(
        (ALWAYS,),
        SAME,
        rf"^branch if ne\(and\({SIZE}, 3\), 0\)$",
        "one element at a time instead of four",
    ),
    Entry(
        (ALWAYS,),
        OTHER,
        rf"^branch if ne\(and\({SIZE}, 3\), 0\)$",
        "one element at a time instead of four: a thread sums equally many, but other elements",
    ),
    Entry(
        (ROUND,),
        SAME,
        rf"^eq\(and\({SIZE}, 3\), 0\) for or$",
        "reads rows again that fit into registers, and keeps others",
    ),
    Entry(
        (ROUND,),
        OTHER,
        rf"^eq\(and\({SIZE}, 3\), 0\) for or$",
        "reads rows again that fit into registers, and keeps others: a thread sums equally many,"
        " but other elements",
    ),
    Entry(
        (NEVER,),
        NO_DIFFERENCE,
        rf"^branch if ge\({THREAD}, {SIZE}\)$",
        "before a loop over a row of more than 4096 elements: each of 512 threads has some",
    ),
    Entry((BOUND,), NO_DIFFERENCE, rf"^ge\({THREAD}, {SIZE}\) for bra$", "before the same loop"),
    Entry(
        (BOUND,),
        NO_DIFFERENCE,
        rf"^lt\({SIZE}, 257\) for bra$",
        "257 is not a multiple of 4: rows on this path are, or have more than 4096 elements",
    ),
    # Shards of rows on three ranks.
    Entry(
        ("a shift by one more",),
        NO_DIFFERENCE,
        r"^shr\(mul\(sub\((sub\()?\d+, env\[\d\]\).*, 6148914691236517206\), 63\) for add$",
        "a correction of the division by 3 for negative quotients: the size minus the rank is not"
        " negative",
    ),
    Entry(
        ("a mask with one bit less",),
        NO_DIFFERENCE,
        r"^and\(add\(mul\(sub\(sub\(231, .*6148914691236517206\), 63\)\), 3\) for or$",
        "rows of 77 and 76: whether 4 divides them is in the lowest bit",
    ),
    Entry(
        ("a mask with one bit less",),
        NO_DIFFERENCE,
        r"^and\(sub\(18, env\[3\]\), 6\) for or$",
        "18 minus the rank (0 or 1): the lower bit shows whether 8 divides it",
    ),
    Entry(
        ("a mask with one bit less",),
        NO_DIFFERENCE,
        r"^and\(add\(sub\(.*, 4294967293\), 4294967295\) for shl$",
        "the third element before one of a head of 6, if any: a number below 3",
    ),
    Entry(
        ("another rounding",),
        NO_DIFFERENCE,
        r"^env\[\d\] for divf$",
        "differs for lengths from 2^24 on, which no case has",
        False,
    ),
    Entry(
        ("another rounding",),
        NO_DIFFERENCE,
        r"^(sub|add)\(one of \(.*thread\).* for st$",
        "differs for positions from 2^24 on, which no case has",
        False,
    ),
]


def find(survivor: Survivor) -> Entry | None:
    return next(
        (
            entry
            for entry in ENTRIES
            if survivor.kind in entry.kinds
            and survivor.state == entry.state
            and re.search(entry.what, survivor.what)
        ),
        None,
    )


def read(output: str) -> list[Survivor]:
    """Returns the surviving faults in the output of tpc-compare-kernels --faults."""
    return [
        Survivor(*line.split("\t")[1:]) for line in output.splitlines() if line.startswith("left\t")
    ]


# tpc-compare-kernels … --kernel=softmax --faults=10000 | python kernel_survivors.py
if __name__ == "__main__":
    for one in read(sys.stdin.read()):
        if not (known := find(one)) or not known.equal:
            print("\t".join(one))

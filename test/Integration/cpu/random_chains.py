"""Chains: random sequences of small steps on one value, added to the layers of a random graph.

A chain starts from the hidden states, an input with or without its own batch, a weight, or a
constant. Its result becomes an output or is added to the hidden states. A step is a name and three
small numbers, interpreted for the value at hand: an axis is taken modulo the rank, a size from the
divisors. A step that is not applicable does nothing. Hence every chain is valid, and stays valid
when steps are removed.

Inputs and weights of chains are small multiples of a power of two. While sums of them are exact in
the value's type, the value is `exact`: ONNX Runtime and any number of ranks must produce the same
bits, and casts to narrower types, comparisons and computed indices agree as well.
"""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass

import numpy as np

# Values from which a chain begins. `own` is an input whose batch has a symbol of its own; `special`
# is such an input with infinities, NaN and -0.
BASES = ("stream", "own", "static", "plain", "special", "weight", "constant", "table")
ENDS = ("row", "output", "row_output")
# Storage of constants. The compiler reads Constant nodes of up to 64 elements.
STORES = ("initializer", "node")
# Maximum number of elements of a value, without symbolic dimensions.
LIMIT = 1536

Dim = tuple  # tuple of factors, major to minor: names of symbols, and numbers


@dataclass(frozen=True)
class Chain:
    base: str = "stream"
    product: bool = True  # a matmul before the steps, which tp splits
    width: int = 8  # width of the matmul's result
    steps: tuple[tuple, ...] = ()
    end: str = "output"
    store: str = "initializer"
    at: int = 0  # number of layers before the chain
    whole: bool = False  # steps may need the whole batch

    def json(self) -> dict:
        base = Chain()
        return {
            f.name: getattr(self, f.name)
            for f in dataclasses.fields(self)
            if getattr(self, f.name) != getattr(base, f.name)
        }

    @staticmethod
    def parse(fields: dict) -> Chain:
        fields = dict(fields)
        fields["steps"] = tuple(tuple(step) for step in fields.get("steps", ()))
        return Chain(**fields)


@dataclass(frozen=True)
class Value:
    """An intermediate tensor. All finite elements are multiples of `quantum` and at most `largest`;
    without these, rounding of the value depends on the order of sums.
    """

    name: str
    dims: tuple[Dim, ...]
    type: str = "float32"
    largest: float = 0.0
    quantum: float = 0.0
    special: bool = False  # may have elements that are not finite
    summed: bool = False  # the sign of a zero depends on the order of sums
    loose: bool = False  # an intermediate value was rounded to 16 bits

    @property
    def exact(self) -> bool:
        return self.quantum > 0

    @property
    def sizes(self) -> list[int | None]:
        return [size(dim) for dim in self.dims]

    @property
    def elements(self) -> int:
        return int(np.prod([n or 1 for n in self.sizes], dtype=np.int64))

    def to(self, name: str, dims=None, **changes) -> Value:
        return dataclasses.replace(
            self, name=name, dims=self.dims if dims is None else tuple(dims), **changes
        )

    def rounded(self, name: str, dims=None, **changes) -> Value:
        changes["loose"] = changes.get("loose", self.loose) or self.type == "float16"
        return self.to(name, dims, largest=0.0, quantum=0.0, **changes)

    def within(self, name: str, largest: float, quantum: float, dims=None, **changes) -> Value:
        """Returns the value with these bounds, or without bounds if the type cannot represent all
        such numbers.
        """
        digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[self.type]
        if not self.exact or largest / quantum > 2.0**digits or largest > 6e4:
            return self.rounded(name, dims, **changes)
        return self.to(name, dims, largest=largest, quantum=quantum, **changes)


def size(dim: Dim) -> int | None:
    """Returns the size of a dimension, or None if it depends on a symbol."""
    return None if any(isinstance(atom, str) for atom in dim) else int(np.prod(dim, dtype=np.int64))


def draw_chain(r: random.Random, depth: int) -> Chain:
    base = r.choice(
        ("stream",) * 8
        + ("own", "own", "static", "plain", "special", "special", "weight", "constant", "table")
    )
    width = r.choice((4, 6, 8, 8, 12, 12, 16, 24, 24, 30, 48))
    # Dimensions that are split in a matmul are reshaped and looked up, with many other ops between.
    moves = (
        "split",
        "split",
        "merge",
        "merge",
        "transpose",
        "gather",
        "gather",
        "gather_nd",
        "gather_elements",
        "slice",
        "slice",
        "concat",
        "parts",
        "repeat",
        "pad",
        "roll",
        "expand",
    )
    others = (
        "constant",
        "constant",
        "constant",
        "unary",
        "cast",
        "cast",
        "compare",
        "mask",
        "again",
        "reduce",
        "softmax",
        "cumsum",
        "matmul",
        "gram",
        "change_type",
        "norm",
    )
    steps = []
    for _ in range(r.choice((1, 2, 3, 4, 4, 5, 6, 8))):
        name = r.choice(moves) if r.random() < 0.6 else r.choice(others)
        steps.append((name, r.randrange(12), r.randrange(12), r.randrange(12)))
    end = (
        r.choice(("row", "row", "row", "output", "row_output"))
        if base == "stream"
        else r.choice(("output",) * 3 + ("row_output",))
    )
    return Chain(
        base,
        r.random() < 0.8,
        width,
        tuple(steps),
        end,
        r.choice(STORES),
        r.randrange(depth + 1),
        r.random() < 0.2,
    )


# ------------------------------------------------------------------------------------------------
# Constants and inputs
# ------------------------------------------------------------------------------------------------


class Context:
    """State shared by the steps of a chain."""

    def __init__(self, w, chain: Chain, index: int):
        self.w, self.chain, self.index = w, chain, index
        self.count = 0
        self.values: list[Value] = []

    def label(self, what: str) -> str:
        self.count += 1
        return f"chain{self.index}.{what}{self.count}"

    def rng(self, salt: int) -> np.random.Generator:
        return np.random.default_rng([self.w.spec.seed, self.index, self.count, salt])

    def store(self, what: str, array: np.ndarray) -> str:
        return self.w.tensor(self.label(what), array, node=self.chain.store == "node")

    def dyadic(
        self,
        what: str,
        shape,
        type: str = "float32",
        steps: int = 4,
        salt: int = 0,
        zero: bool = True,
    ) -> str:
        """Returns random multiples of 1/4, of magnitude at most `steps`/4."""
        array = self.rng(salt).integers(-steps, steps + 1, shape)
        if not zero:
            array = np.where(array == 0, 1, array)
        return self.store(what, (array / 4).astype(type))

    def integers(self, what: str, array) -> str:
        return self.store(what, np.asarray(array, np.int64))

    def indices(
        self, v: Value, dims: tuple[Dim, ...], bounds: list[Dim], mode: int, salt: int
    ) -> str:
        """Indices of shape `dims`; with several bounds, the last dimension has one index per bound.
        Constants if sizes are known and the mode requests it; otherwise an input, or an input
        modulo the size.
        """
        w = self.w
        static = all(size(dim) is not None for dim in dims)
        known = [size(bound) for bound in bounds]
        if static and mode % 3 == 0:
            shape = [size(dim) for dim in dims]
            # If the size is unknown, indices are of the first or the last element.
            columns = [
                self.rng(salt + i).integers(
                    -(n or 1), n or 1, shape[:-1] if len(bounds) > 1 else shape
                )
                for i, n in enumerate(known)
            ]
            return self.integers(
                "indices", np.stack(columns, -1) if len(bounds) > 1 else columns[0]
            )
        atoms = [atom for dim in dims for atom in dim]
        computed = mode % 3 == 2
        name = w.free_input(
            self.label("indices"), atoms, "indices", [(1000,)] * len(bounds) if computed else bounds
        )
        if atoms != [dim[0] for dim in dims if len(dim) == 1] or len(atoms) != len(dims):
            name = w.reshape_to(name, [(atom,) for atom in atoms], dims)
        if not computed:
            return name
        limits = [w.dim_vector(bound) for bound in bounds]
        limit = limits[0] if len(limits) == 1 else w("Concat", *limits, axis=0)
        return w("Mod", name, limit)


# ------------------------------------------------------------------------------------------------
# Execution of a chain
# ------------------------------------------------------------------------------------------------


def begin(c: Context, stream: Value) -> Value:
    chain, w = c.chain, c.w
    if chain.base == "stream":
        return stream
    rows = f"rows_{c.index}"
    inputs = {
        "own": ((rows,), (3,), (8,)),
        "special": ((rows,), (6,)),
        "static": ((4,), (3,), (6,)),
        "plain": ((8,),),
    }
    if chain.base in inputs:
        dims = inputs[chain.base]
        kind = "special" if chain.base == "special" else "dyadic"
        name = w.free_input(f"chain{c.index}.input", [dim[0] for dim in dims], kind)
        return Value(name, dims, "float32", 2.0, 0.25, special=chain.base == "special")
    if chain.base == "table":  # looked up with ids of a batch of its own
        ids = w.free_input(f"chain{c.index}.ids", [rows, 3], "indices", [(10,)])
        table = c.dyadic("table", (10, 8))
        # A rank may have some of the rows, and adds zeros for the others.
        return Value(
            w("Gather", table, ids, axis=0),
            ((rows,), (3,), (8,)),
            "float32",
            1.0,
            0.25,
            summed=True,
        )
    store = dataclasses.replace(chain, store="initializer" if chain.base == "weight" else "node")
    c.chain, before = store, c.chain
    shape = (3, 24) if chain.base == "weight" else (2, 3, 8)
    name = c.dyadic("start", shape)
    c.chain = before
    return Value(name, tuple((n,) for n in shape), "float32", 1.0, 0.25)


def product(c: Context, v: Value, columns: int, bias: bool, salt: int = 0) -> Value:
    """Multiplies by a weight, along the last dimension."""
    rows = size(v.dims[-1])
    scale = 2.0 ** -round(np.log2(max(rows, 1)) / 2)
    array = (c.rng(salt).integers(-4, 5, (rows, columns)) / 4 * scale).astype(v.type)
    out = c.w("MatMul", v.name, c.store("weight", array))
    largest, quantum = v.largest * scale * rows, v.quantum * scale / 4
    if bias:
        out = c.w("Add", out, c.dyadic("bias", (columns,), v.type))
        largest, quantum = largest + 1, min(quantum, 0.25)
    return v.within(out, largest, quantum, (*v.dims[:-1], (columns,)), summed=True)


def run(c: Context, stream: Value) -> Value:
    """Builds the chain and returns the resulting hidden states."""
    from chain_steps import STEPS

    chain, w = c.chain, c.w
    v = begin(c, stream)
    if chain.product and v.type == "float32" and size(v.dims[-1]):
        v = product(c, v, chain.width, bias=chain.width % 4 == 0)
    c.values = [v]
    for name, *numbers in chain.steps:
        found = STEPS[name](c, v, *numbers)
        if found is None or found.elements > LIMIT:
            continue
        v = found
        w.features.add(f"step {name}")
        c.values.append(v)
    if v.type != "float32" and chain.end != "output":
        v = v.to(w("Cast", v.name, to=w.type_of("float32")), type="float32")
    if chain.end != "output" and size(v.dims[-1]):
        v = product(c, v, size(stream.dims[-1]), bias=False)
    if chain.end == "row" and v.dims == stream.dims:
        return (
            stream.within(
                w("Add", stream.name, v.name),
                stream.largest + v.largest,
                min(stream.quantum, v.quantum),
                loose=stream.loose or v.loose,
                special=stream.special or v.special,
            )
            if v.exact
            else stream.rounded(w("Add", stream.name, v.name), loose=stream.loose or v.loose)
        )
    w.free_output(f"chain{c.index}", v)
    return stream

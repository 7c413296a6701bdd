"""Registry of chain steps, and steps that move elements: reshapes, slices, lookups."""

from __future__ import annotations


import numpy as np

from random_chains import Context, Dim, Value, size

STEPS = {}


def step(function):
    STEPS[function.__name__.rstrip("_")] = function
    return function


def pick(choices, number: int):
    return choices[number % len(choices)] if choices else None


def static_axes(v: Value, minimum: int = 1) -> list[int]:
    return [i for i, n in enumerate(v.sizes) if n is not None and n >= minimum]


def where(
    c: Context,
    v: Value,
    condition: str,
    first: str,
    second: str,
    largest: float = 1.0,
    quantum: float = 0.25,
) -> Value:
    """Selects elements. The sign of a zero is unspecified: ONNX Runtime's Where turns -0 into 0."""
    return v.within(
        c.w("Where", condition, first, second),
        max(v.largest, largest),
        min(v.quantum, quantum),
        summed=True,
    )


def has_batch(dim: Dim) -> bool:
    """Whether a dimension contains the batch of the hidden states, or an input's own batch."""
    return any(isinstance(atom, str) and atom != "sequence" for atom in dim)


def any_axis(c: Context, v: Value, number: int, last: int | None = None) -> int | None:
    """Returns an axis that a step may need as a whole. With replicas or micro-batches, this
    excludes the batch.
    """
    axes = [i for i, dim in enumerate(v.dims[:last]) if c.chain.whole or not has_batch(dim)]
    return pick(axes, number)


# Movement
# ------------------------------------------------------------------------------------------------


@step
def split(c: Context, v: Value, a: int, b: int, d: int):
    """Splits a dimension in two: between merged factors, or a number by one of its divisors."""
    if len(v.dims) >= 6:
        return None
    ways = []
    for i, dim in enumerate(v.dims):
        if n := size(dim):
            ways += [(i, (m,), (n // m,)) for m in range(2, n) if n % m == 0]
        else:
            ways += [(i, dim[:j], dim[j:]) for j in range(1, len(dim))]
    if not ways:
        return None
    i, major, minor = pick(ways, a * 5 + b)
    return reshaped(c, v, (*v.dims[:i], major, minor, *v.dims[i + 1 :]))


@step
def merge(c: Context, v: Value, a: int, b: int, d: int):
    if len(v.dims) < 2:
        return None
    i = a % (len(v.dims) - 1)
    return reshaped(c, v, (*v.dims[:i], v.dims[i] + v.dims[i + 1], *v.dims[i + 2 :]))


def reshaped(c: Context, v: Value, dims: tuple[Dim, ...]) -> Value:
    return v.to(c.w.reshape_to(v.name, v.dims, dims), dims)


@step
def transpose(c: Context, v: Value, a: int, b: int, d: int):
    order = list(np.random.default_rng(a * 12 + b).permutation(len(v.dims)))
    if len(order) < 2 or order == sorted(order):
        order = list(reversed(range(len(v.dims))))
    return v.to(c.w("Transpose", v.name, perm=[int(i) for i in order]), [v.dims[i] for i in order])


@step
def gather(c: Context, v: Value, a: int, b: int, d: int):
    """Gathers by a scalar, vector or matrix of indices: constant, input or computed."""
    i = any_axis(c, v, a)
    if i is None:
        return None
    if b % 4 == 0 and len(v.dims) > 1:
        n = size(v.dims[i]) or 1
        at = c.integers("index", d % (2 * n) - n)
        return v.to(c.w("Gather", v.name, at, axis=i), v.dims[:i] + v.dims[i + 1 :])
    shape = (((d % 3 + 1),), (2,)) if b % 4 == 1 else (((d % 5 + 1),),)
    if len(v.dims) + len(shape) > 7:
        return None
    at = c.indices(v, shape, [v.dims[i]], a + b, d)
    return v.to(c.w("Gather", v.name, at, axis=i), (*v.dims[:i], *shape, *v.dims[i + 1 :]))


@step
def gather_nd(c: Context, v: Value, a: int, b: int, d: int):
    """Looks up by tuples of indices. The first dimension is a batch dimension of the op, or the
    first index of the tuples.
    """
    batch = b % 2 if len(v.dims) > 1 else 0
    if not c.chain.whole and has_batch(v.dims[0]):
        batch = 1
    if len(v.dims) <= batch or not c.chain.whole and any(map(has_batch, v.dims[batch:])):
        return None
    columns = min(1 + d % 2, len(v.dims) - batch)
    lead = v.dims[:batch]
    shape = (*lead, (a % 3 + 1,))
    bounds = list(v.dims[batch : batch + columns])
    if len(bounds) == 1:
        at = c.w("Unsqueeze", c.indices(v, shape, bounds, a + b, d), c.w.ints([-1]))
    else:
        at = c.indices(v, (*shape, (columns,)), bounds, a + b, d)
    return v.to(c.w("GatherND", v.name, at, batch_dims=batch), (*shape, *v.dims[batch + columns :]))


@step
def gather_elements(c: Context, v: Value, a: int, b: int, d: int):
    i = any_axis(c, v, a)
    if i is None:
        return None
    shape = (*v.dims[:i], (d % 4 + 1,), *v.dims[i + 1 :])
    at = c.indices(v, shape, [v.dims[i]], b, d)
    return v.to(c.w("GatherElements", v.name, at, axis=i), shape)


@step
def slice_(c: Context, v: Value, a: int, b: int, d: int):
    i = any_axis(c, v, a)
    if i is None:
        return None
    n = size(v.dims[i])
    if n is None:  # the first or the last
        ends = ([0], [1]) if b % 2 else ([-1], [2**63 - 1])
        return v.to(
            c.w("Slice", v.name, c.w.ints(ends[0]), c.w.ints(ends[1]), c.w.ints([i])),
            (*v.dims[:i], (1,), *v.dims[i + 1 :]),
        )
    begin = b % n
    end = begin + 1 + d % (n - begin)
    step = (1, 1, 1, 2, 3)[(a + b + d) % 5]
    if d % 5 == 4:  # backwards
        name = c.w(
            "Slice",
            v.name,
            c.w.ints([end - 1]),
            c.w.ints([begin - 1 - n]),
            c.w.ints([i]),
            c.w.ints([-1]),
        )
        return v.to(name, (*v.dims[:i], (end - begin,), *v.dims[i + 1 :]))
    name = c.w(
        "Slice",
        v.name,
        c.w.ints([begin]),
        c.w.ints([end - n if end < n else 2**63 - 1]),
        c.w.ints([i]),
        *([c.w.ints([step])] if step > 1 else []),
    )
    return v.to(name, (*v.dims[:i], (-(-(end - begin) // step),), *v.dims[i + 1 :]))


@step
def concat(c: Context, v: Value, a: int, b: int, d: int):
    """Concatenates the value with itself, its negation, or a constant if sizes are known; in either
    order."""
    i = pick(static_axes(v), a)
    if i is None:
        return None
    n = v.sizes[i]
    if b % 3 == 0 and None not in v.sizes:
        n = d % 4 + 1
        other = c.dyadic("joined", [n if j == i else m for j, m in enumerate(v.sizes)], v.type)
        v = v.within(v.name, max(v.largest, 1.0), min(v.quantum, 0.25)) if v.exact else v
    else:
        other = v.name if b % 3 == 1 else c.w("Neg", v.name)
    both = [v.name, other] if d % 2 else [other, v.name]
    return v.to(c.w("Concat", *both, axis=i), (*v.dims[:i], (n + v.sizes[i],), *v.dims[i + 1 :]))


@step
def parts(c: Context, v: Value, a: int, b: int, d: int):
    """Splits the value in two or three parts, which are concatenated in another order, multiplied
    or added."""
    i = pick(static_axes(v, 2), a)
    if i is None:
        return None
    n = v.sizes[i]
    if n % 2 == 0 and d % 3:
        one, two = c.w.split(v.name, [n // 2] * 2, i)
        dims = (*v.dims[:i], (n // 2,), *v.dims[i + 1 :])
        if d % 3 == 1:
            return v.within(c.w("Mul", one, two), v.largest**2, v.quantum**2, dims)
        return v.within(c.w("Add", one, two), v.largest * 2, v.quantum, dims)
    first = 1 + b % (n - 1)
    one, two = c.w.split(v.name, [first, n - first], i)
    return v.to(c.w("Concat", two, one, axis=i))


@step
def repeat(c: Context, v: Value, a: int, b: int, d: int):
    """Repeats a dimension like grouped heads: a new dimension that is expanded and merged with a
    neighbor.
    """
    if len(v.dims) >= 6:
        return None
    i, times = a % len(v.dims), 2 + b % 2
    wide = (*v.dims[: i + 1], (1,), *v.dims[i + 1 :])
    name = c.w("Unsqueeze", v.name, c.w.ints([i + 1]))
    shape = c.w.ints([1] * (i + 1) + [times] + [1] * (len(v.dims) - i - 1))
    name = c.w("Expand", name, shape)
    wide = (*wide[: i + 1], (times,), *wide[i + 2 :])
    dims = (*v.dims[:i], v.dims[i] + (times,), *v.dims[i + 1 :])
    return v.to(c.w.reshape_to(name, wide, dims), dims)


@step
def expand(c: Context, v: Value, a: int, b: int, d: int):
    """Repeats a dimension by Tile."""
    i = pick(static_axes(v), a)
    if i is None:
        return None
    times = 2 + b % 2
    name = c.w("Tile", v.name, c.w.ints([times if j == i else 1 for j in range(len(v.dims))]))
    return v.to(name, (*v.dims[:i], (times * v.sizes[i],), *v.dims[i + 1 :]))


@step
def pad(c: Context, v: Value, a: int, b: int, d: int):
    i = pick(static_axes(v), a)
    if i is None:
        return None
    before, after = b % 3, d % 3
    widths = [before if j == i else 0 for j in range(len(v.dims))] + [
        after if j == i else 0 for j in range(len(v.dims))
    ]
    return v.to(
        c.w("Pad", v.name, c.w.ints(widths)),
        (*v.dims[:i], (v.sizes[i] + before + after,), *v.dims[i + 1 :]),
    )


@step
def roll(c: Context, v: Value, a: int, b: int, d: int):
    """Shifts a dimension cyclically."""
    i = pick(static_axes(v, 2), a)
    if i is None:
        return None
    by = 1 + b % (v.sizes[i] - 1)
    return v.to(
        c.w("Concat", c.w.slice(v.name, by, v.sizes[i], i), c.w.slice(v.name, 0, by, i), axis=i)
    )

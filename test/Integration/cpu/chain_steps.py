"""Steps of random chains: functions (context c, value v, numbers a, b, d) -> value or None.

The numbers are random and select the step's variant. None: not applicable to this value.
"""

from __future__ import annotations

import numpy as np

from random_chains import Context, Value, product, size

# Random choices depend on the order of STEPS: data movement is registered first.
from chain_moves import (
    STEPS,
    any_axis,
    has_batch,
    pick,
    step,
    where,
)  # noqa: F401

# Element by element
# ------------------------------------------------------------------------------------------------


@step
def constant(c: Context, v: Value, a: int, b: int, d: int):
    """Combines the value with a constant that broadcasts along a random subset of dimensions."""
    shape = [n if n is not None and (d >> (j % 4)) & 1 else 1 for j, n in enumerate(v.sizes)]
    while shape and shape[0] == 1 and b % 3:
        shape.pop(0)
    op = pick(("Add", "Mul", "Sub", "Div", "Where", "Max", "Min", "Add"), a)
    if op in ("Max", "Min") and v.special:
        op = "Add"
    if op == "Where":
        keep = c.store("mask", c.rng(d).integers(0, 2, shape).astype(bool))
        number = c.dyadic("masked", (), v.type)
        return where(c, v, keep, *([v.name, number] if b % 2 else [number, v.name]))
    if op == "Div":
        powers = c.store(
            "divisor", np.asarray(2.0 ** c.rng(d).integers(-1, 2, shape)).astype(v.type)
        )
        return v.within(c.w("Div", v.name, powers), v.largest * 2, v.quantum / 2)
    # The addend is never 0: the compiler removes additions of 0, but -0 + 0 is 0.
    other = c.dyadic("operand", shape, v.type, salt=d, zero=op != "Add")
    both = [v.name, other] if b % 2 else [other, v.name]
    if op == "Mul":
        return v.within(c.w("Mul", *both), v.largest, v.quantum / 4)
    if op in ("Max", "Min"):
        # Either of two zeros with different signs may be the maximum.
        return v.within(c.w(op, *both), max(v.largest, 1.0), min(v.quantum, 0.25), summed=True)
    return v.within(c.w(op, *both), v.largest + 1, min(v.quantum, 0.25))


@step
def unary(c: Context, v: Value, a: int, b: int, d: int):
    w = c.w
    exact = pick(("Neg", "Abs", "Relu", "Floor", "Ceil", "Round"), a)
    if v.special:
        if a % 3 == 0 and not v.summed:  # 1/-0 is not 1/0
            return v.rounded(w("Reciprocal", v.name))
        exact = "Neg" if a % 2 else "Abs"
    if b % 2 or (exact in ("Floor", "Ceil", "Round") and not v.exact):
        if v.special:
            return v.rounded(w(pick(("Sqrt", "Tanh", "Exp", "Sigmoid"), b // 2), v.name))
        function = pick(("Tanh", "Sigmoid", "Erf", "Sin", "Cos", "Exp", "Sqrt", "Log"), b // 2 + d)
        if function in ("Sqrt", "Log"):
            positive = w("Add", w("Abs", v.name), w.tensor(f"one_{v.type}", np.ones((), v.type)))
            return v.rounded(w(function, positive))
        if function == "Exp":
            return v.rounded(w("Exp", w("Neg", w("Abs", v.name))))
        return v.rounded(w(function, v.name))
    # Zeros have either sign: Ceil and Round of -0.5 give -0, and sums of zeros may.
    if exact in ("Ceil", "Round"):
        return v.within(w(exact, v.name), v.largest + 1, max(v.quantum, 1.0), summed=True)
    return v.within(w(exact, v.name), v.largest + 1, v.quantum)


@step
def cast(c: Context, v: Value, a: int, b: int, d: int):
    """Casts to narrower or wider types and back."""
    ways = [("float16",), ("float64",), ("float64", "float32", "float64"), ("float16", "float64")]
    if v.exact:
        ways += [("bfloat16",), ("float16",), ("bfloat16", "float16")]
        if not v.special:
            ways += [
                ("int32",),
                ("int64",),
                ("int64", "int32"),
                ("bool",),
                ("bool", "int64"),
                ("int8",),
                ("int32", "float16"),
            ]
            if v.largest <= 100:
                ways += [("int8", "int32")]
            elif ("int8",) in ways:
                ways.remove(("int8",))
    way = pick(ways, a * 12 + b + d)
    name = v.name
    # `lossy`: a factor of 1/3, so that narrow casts round. Not before casts of f16 values to
    # integers: ONNX Runtime's rounding of 16-bit matmuls varies (docs/design/onnx-differences.md).
    whole = bool(set(way) & {"int32", "int64", "int8", "bool"})
    lossy = d % 2 and v.exact and not v.special and not (whole and v.type == "float16")
    if lossy:
        name = c.w(
            "Mul", name, c.w.tensor(f"third_{v.type}", np.asarray(np.float32(1 / 3)).astype(v.type))
        )
    narrow = any(type in ("float16", "bfloat16") for type in way)
    for type in (*way, v.type):
        name = c.w("Cast", name, to=c.w.type_of(type))
        c.w.features.add(f"cast {type}")
    if whole:
        return v.within(name, v.largest + 1, 1.0, summed=True)
    if lossy:  # equal bits on all grids, but not multiples of `quantum`
        return v.rounded(name)
    return v.to(name, loose=v.loose or (narrow and not v.exact))


@step
def change_type(c: Context, v: Value, a: int, b: int, d: int):
    """Casts to f16, f32 or f64. Later steps compute in the new type."""
    type = pick(("float16", "float32", "float64", "float16"), a)
    if type == v.type:
        return None
    out = v.to(c.w("Cast", v.name, to=c.w.type_of(type)), type=type)
    c.w.features.add(f"type {type}")
    exact = v.within(out.name, v.largest, v.quantum) if v.exact else out
    limit = {"float16": 2.0**11}.get(type, 2.0**24)
    if not v.exact or v.largest / v.quantum > limit:
        return out.rounded(out.name, loose=v.loose or type == "float16")
    return out.to(out.name, largest=exact.largest, quantum=exact.quantum)


@step
def compare(c: Context, v: Value, a: int, b: int, d: int):
    """Compares with a number, and uses the result."""
    if not v.exact:
        return None
    w = c.w
    op = pick(("Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual"), a)
    found = w(op, v.name, c.dyadic("limit", (), v.type, salt=a))
    if b % 3 == 0:
        found = w("Not", found)
    elif b % 3 == 1:
        found = w(
            ("And", "Or", "Xor")[d % 3],
            found,
            w("Less", v.name, c.dyadic("second", (), v.type, salt=b)),
        )
    if d % 2:
        return where(c, v, found, v.name, c.dyadic("other", (), v.type))
    return v.within(w("Cast", found, to=w.type_of(v.type)), 1.0, 1.0, special=False, summed=False)


@step
def mask(c: Context, v: Value, a: int, b: int, d: int):
    """Replaces elements selected by an input, which has some of the dimensions."""
    w = c.w
    dims = tuple(dim if (d >> (j % 4)) & 1 or a % 2 else (1,) for j, dim in enumerate(v.dims))
    atoms = [atom for dim in dims for atom in dim]
    name = w.free_input(c.label("mask"), atoms, "bits")
    name = w.reshape_to(name, [(atom,) for atom in atoms], dims)
    keep = w("Cast", name, to=w.type_of("bool"))
    if b % 2:
        return where(c, v, keep, v.name, c.dyadic("masked", (), v.type))
    return v.to(w("Mul", v.name, w("Cast", keep, to=w.type_of(v.type))))


@step
def again(c: Context, v: Value, a: int, b: int, d: int):
    """Combines the value with an earlier value of the same shape, or with itself."""
    others = [other for other in c.values if other.dims == v.dims and other.type == v.type]
    if not others:
        return None
    other = pick(others, a)
    op = pick(("Add", "Mul", "Sub", "Where"), b)
    loose, special = v.loose or other.loose, v.special or other.special
    if op == "Where" and v.exact and other.exact:
        found = c.w("Greater", v.name, other.name)
        return v.within(
            c.w("Where", found, v.name, other.name),
            max(v.largest, other.largest),
            min(v.quantum, other.quantum),
            loose=loose,
            special=special,
            summed=True,
        )
    op = "Add" if op == "Where" else op
    name = c.w(op, v.name, other.name)
    summed = v.summed or other.summed
    if not (v.exact and other.exact):
        return v.rounded(name, loose=loose, special=special, summed=summed)
    if op == "Mul":
        return v.within(
            name,
            v.largest * other.largest,
            v.quantum * other.quantum,
            loose=loose,
            special=special,
            summed=summed,
        )
    return v.within(
        name,
        v.largest + other.largest,
        min(v.quantum, other.quantum),
        loose=loose,
        special=special,
        summed=summed,
    )


# Reductions and matmuls
# ------------------------------------------------------------------------------------------------


@step
def reduce(c: Context, v: Value, a: int, b: int, d: int):
    """Reduces one dimension, which is kept or dropped. If it is kept, the result may be subtracted
    from the operand.
    """
    i = any_axis(c, v, a)
    if i is None:
        return None
    op = pick(("ReduceSum", "ReduceMax", "ReduceMean", "ReduceMin", "ArgMax", "ReduceL2"), b)
    if v.special and op != "ReduceSum":
        op = "ReduceSum"
    n = size(v.dims[i]) or 64
    keep = d % 3 != 0 or len(v.dims) == 1
    dims = (*v.dims[:i], *(((1,),) if keep else ()), *v.dims[i + 1 :])
    if op == "ArgMax":
        if not v.exact or v.summed and v.special:
            return None
        out = c.w("Cast", c.w("ArgMax", v.name, axis=i, keepdims=int(keep)), to=c.w.type_of(v.type))
        return v.within(out, n, 1.0, dims, summed=False)
    name = c.w(op, v.name, c.w.ints([i]), keepdims=int(keep))
    if op in ("ReduceMax", "ReduceMin"):
        out = v.to(name, dims, summed=True)
    elif op == "ReduceSum":
        out = v.within(name, v.largest * n, v.quantum, dims, summed=True)
    else:
        out = v.rounded(name, dims, summed=True, loose=v.loose or v.type == "float16")
    if keep and d % 3 == 2 and not v.special:  # centered
        name = c.w("Sub", v.name, out.name)
        if not out.exact:
            return v.rounded(name, loose=out.loose)
        return v.within(name, v.largest + out.largest, v.quantum, summed=True)
    return out


@step
def softmax(c: Context, v: Value, a: int, b: int, d: int):
    i = any_axis(c, v, a)
    if v.special or i is None:
        return None
    return v.rounded(
        c.w("LogSoftmax" if b % 4 == 0 else "Softmax", v.name, axis=i),
        summed=True,
        loose=v.loose or v.type == "float16",
    )


@step
def norm(c: Context, v: Value, a: int, b: int, d: int):
    n = size(v.dims[-1])
    # If there are only a few numbers, they are often nearly equal, and a norm amplifies rounding
    # errors of their differences.
    if v.special or n is None or n < 4 or v.type != "float32":
        return None
    scale = c.dyadic("scale", (n,), zero=False)
    return v.rounded(c.w("LayerNormalization", v.name, scale, axis=-1, epsilon=1e-2), summed=True)


@step
def cumsum(c: Context, v: Value, a: int, b: int, d: int):
    i = any_axis(c, v, a)
    if i is None:
        return None
    if v.special or v.type == "float16":
        return None
    name = c.w("CumSum", v.name, c.w.scalar(i), exclusive=b % 2, reverse=d % 2)
    return v.within(name, v.largest * (size(v.dims[i]) or 64), v.quantum, summed=True)


@step
def matmul(c: Context, v: Value, a: int, b: int, d: int):
    if size(v.dims[-1]) is None or v.type == "float16" and not v.exact:
        return None
    out = product(c, v, (2, 3, 4, 6, 8, 12)[a % 6], bias=b % 2 == 1, salt=d)
    return out.to(out.name, loose=out.loose or (v.type == "float16" and not out.exact))


@step
def gram(c: Context, v: Value, a: int, b: int, d: int):
    """Multiplies the matrix with its transpose, from the left or right."""
    if len(v.dims) < 2 or v.type == "float16" or any_axis(c, v, 0) is None:
        return None
    if not c.chain.whole and any(map(has_batch, v.dims[-2:])):
        return None
    turned = c.w(
        "Transpose", v.name, perm=[*range(len(v.dims) - 2), len(v.dims) - 1, len(v.dims) - 2]
    )
    rows = v.dims[-2] if a % 2 else v.dims[-1]
    inner = v.dims[-1] if a % 2 else v.dims[-2]
    name = c.w("MatMul", *((v.name, turned) if a % 2 else (turned, v.name)))
    return v.within(
        name,
        v.largest**2 * (size(inner) or 64),
        v.quantum**2,
        (*v.dims[:-2], rows, rows),
        summed=True,
    )


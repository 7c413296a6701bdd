"""Model ops against numpy: each compiled alone, with several shapes, including sizes 0 and 1."""

import math

import numpy as np
import pytest

from model_ops import ELEMENT, Program, TWO, check

erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_elementwise_floats(tmp_path):
    p = Program()
    p.input("f32", "n", "m")
    p.input("f32", "n", "m")
    p.input("f32", "m")
    p.input("f32", "n", 1)
    unary = {
        "neg": np.negative,
        "abs": np.abs,
        "exp": np.exp,
        "tanh": np.tanh,
        "erf": erf,
        "sigmoid": sigmoid,
        "sin": np.sin,
        "cos": np.cos,
        "floor": np.floor,
        "ceil": np.ceil,
        "round": np.round,
        "relu": lambda x: np.maximum(x, 0),
        "silu": lambda x: x * sigmoid(x),
        "reciprocal": lambda x: 1 / x,
        "gelu none": lambda x: x / 2 * (1 + erf(x / 2**0.5)),
        "gelu tanh": (
            lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        ),
        "gelu sigmoid": lambda x: x * sigmoid(1.702 * x),
    }
    for name, f in unary.items():
        p.op(f"tpc.{name} {{0}} : {{t0}} -> {{r}}", "f32", ("n", "m"), lambda x, *_, f=f: f(x))
    binary = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "max": np.maximum,
        "min": np.minimum,
        "mod": np.fmod,
    }
    for name, f in binary.items():
        p.op(
            f"tpc.{name} {{0}}, {{1}} : {{t0}}, {{t1}} -> {{r}}",
            "f32",
            ("n", "m"),
            lambda x, y, *_, f=f: f(x, y),
        )
        p.op(
            f"tpc.{name} {{0}}, {{2}} : {{t0}}, {{t2}} -> {{r}}",
            "f32",
            ("n", "m"),
            lambda x, _, v, __, f=f: f(x, v),
        )
        p.op(
            f"tpc.{name} {{3}}, {{2}} : {{t3}}, {{t2}} -> {{r}}",
            "f32",
            ("n", "m"),
            lambda x, _, v, c, f=f: f(c, v),
        )
    check(tmp_path, p, TWO)


def test_functions_of_positive_numbers(tmp_path):
    p = Program()
    p.input("f32", "n", "m")
    p.input("f32", "m")
    for name, f in {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x)}.items():
        p.op(f"tpc.{name} {{0}} : {{t0}} -> {{r}}", "f32", ("n", "m"), lambda x, _, f=f: f(x))
    p.op("tpc.pow {0}, {1} : {t0}, {t1} -> {r}", "f32", ("n", "m"), lambda x, y: x**y)
    check(tmp_path, p, TWO, lambda i, random, shape: random.uniform(0.1, 4, size=shape))


def test_powers_of_mixed_types(tmp_path):
    p = Program()
    elements = ["f16", "f32", "f64", "i32"]
    for element in elements:
        p.input(element, "n")
    for base, element in enumerate(elements):
        for exponent in range(4):
            p.op(
                f"tpc.pow {{{base}}}, {{{exponent}}} : {{t{base}}}, {{t{exponent}}} -> {{r}}",
                element,
                ("n",),
                lambda *x, i=base, j=exponent: x[i].astype(np.float64) ** x[j],
            )
    check(
        tmp_path,
        p,
        [dict(n=9)],
        lambda i, random, shape: random.integers(1, 4, shape),
        tolerance=1e-3,
    )


def test_infinities_and_nan(tmp_path):
    p = Program()
    p.input("f32", "n")
    with np.errstate(all="ignore"):
        for name, f in {
            "exp": np.exp,
            "tanh": np.tanh,
            "sigmoid": sigmoid,
            "relu": lambda x: np.maximum(x, 0),
        }.items():
            p.op(f"tpc.{name} {{0}} : {{t0}} -> {{r}}", "f32", ("n",), lambda x, f=f: f(x))
        p.op("tpc.is_nan {0} : {t0} -> {r}", "bool", ("n",), np.isnan)
        special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 88.0, -87.0, 200.0, -200.0]
        check(tmp_path, p, [dict(n=9)], lambda i, random, shape: np.array(special))


def test_integers_and_booleans(tmp_path):
    p = Program()
    p.input("i64", "n", "m")
    p.input("i64", "n", "m")
    p.input("bool", "n", "m")
    p.input("bool", "m")
    p.input("f32", "n", "m")
    for name, f in {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "max": np.maximum,
        "min": np.minimum,
    }.items():
        p.op(
            f"tpc.{name} {{0}}, {{1}} : {{t0}}, {{t1}} -> {{r}}",
            "i64",
            ("n", "m"),
            lambda x, y, *_, f=f: f(x, y),
        )
    p.op(
        "tpc.div {0}, {1} : {t0}, {t1} -> {r}", "i64", ("n", "m"), lambda x, y, *_: np.trunc(x / y)
    )
    p.op("tpc.mod {0}, {1} : {t0}, {t1} -> {r}", "i64", ("n", "m"), lambda x, y, *_: np.mod(x, y))
    for name, f in {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.items():
        p.op(
            f"tpc.{name} {{2}}, {{3}} : {{t2}}, {{t3}} -> {{r}}",
            "bool",
            ("n", "m"),
            lambda *a, f=f: f(a[2], a[3]),
        )
    for name, f in {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}.items():
        p.op(
            f"tpc.{name} {{0}}, {{1}} : {{t0}}, {{t1}} -> {{r}}",
            "i64",
            ("n", "m"),
            lambda x, y, *_, f=f: f(x, y),
        )
    p.op("tpc.not {2} : {t2} -> {r}", "bool", ("n", "m"), lambda *a: ~a[2])
    for name, f in {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }.items():
        p.op(
            f"tpc.cmp {name} {{0}}, {{1}} : {{t0}}, {{t1}} -> {{r}}",
            "bool",
            ("n", "m"),
            lambda x, y, *_, f=f: f(x, y),
        )
    p.op(
        "tpc.select {3}, {0}, {1} : {t3}, {t0}, {t1} -> {r}",
        "i64",
        ("n", "m"),
        lambda x, y, _, c, __: np.where(c, x, y),
    )
    p.op("tpc.cast {4} : {t4} -> {r}", "i64", ("n", "m"), lambda *a: np.trunc(a[4]))
    p.op("tpc.cast {4} : {t4} -> {r}", "bool", ("n", "m"), lambda *a: a[4] != 0)
    p.op("tpc.cast {0} : {t0} -> {r}", "f32", ("n", "m"), lambda *a: a[0])
    p.op("tpc.cast {2} : {t2} -> {r}", "i32", ("n", "m"), lambda *a: a[2].astype(int))

    def make(i, random, shape):
        if i == 0:
            return random.integers(-9, 10, shape)
        if i == 1:
            return random.choice([-3, -1, 1, 2, 5], shape)
        return None

    check(tmp_path, p, TWO, make)


def test_unsigned_integers(tmp_path):
    """Covers unsigned numbers of 128 and more, and booleans, with false < true."""
    p = Program()
    p.input("ui8", "n", "m")
    p.input("ui8", "n", "m")
    p.input("bool", "n", "m")
    p.input("bool", "n", "m")
    p.input("f32", "n", "m")
    for name, f in {
        "max": np.maximum,
        "min": np.minimum,
        "div": np.floor_divide,
        "mod": np.mod,
        "add": np.add,
        "mul": np.multiply,
    }.items():
        p.op(
            f"tpc.{name} {{0}}, {{1}} : {{t0}}, {{t1}} -> {{r}}",
            "ui8",
            ("n", "m"),
            lambda x, y, *_, f=f: f(x, y),
        )
    p.op("tpc.cmp gt {0}, {1} : {t0}, {t1} -> {r}", "bool", ("n", "m"), lambda x, y, *_: x > y)
    p.op("tpc.abs {0} : {t0} -> {r}", "ui8", ("n", "m"), lambda x, *_: x)
    p.op(
        "tpc.pow {4}, {0} : {t4}, {t0} -> {r}",
        "f32",
        ("n", "m"),
        lambda x, y, b, c, f: f ** x.astype(np.float64),
    )
    p.op(
        "tpc.pow {0}, {2} : {t0}, {t2} -> {r}",
        "ui8",
        ("n", "m"),
        lambda x, y, b, *_: np.where(b, x, 1),
    )
    p.op("tpc.max {2}, {3} : {t2}, {t3} -> {r}", "bool", ("n", "m"), lambda x, y, b, c, _: b | c)
    p.op("tpc.min {2}, {3} : {t2}, {t3} -> {r}", "bool", ("n", "m"), lambda x, y, b, c, _: b & c)
    for name, f in {"max": np.max, "min": np.min}.items():
        p.op(
            f"tpc.reduce {name} {{0}} [1] : {{t0}} -> {{r}}",
            "ui8",
            ("n",),
            lambda x, *_, f=f: f(x, axis=1),
        )
        p.op(
            f"tpc.reduce {name} {{2}} [1] : {{t2}} -> {{r}}",
            "bool",
            ("n",),
            lambda x, y, b, *_, f=f: f(b, axis=1),
        )

    def make(i, random, shape):
        if i == 4:
            return random.uniform(0.95, 1.05, shape)
        return random.integers(i, 256, shape) if i < 2 else None

    check(tmp_path, p, [dict(n=3, m=5), dict(n=1, m=1), dict(n=17, m=40)], make, tolerance=1e-5)


@pytest.mark.parametrize("element", ["i32", "i64"])
def test_undefined_divisions(tmp_path, element):
    """Divisions by zero, and of the minimum by -1, which trap on CPUs, have defined results."""
    p = Program()
    p.input(element, "n", "m")
    p.input(element, "n", "m")
    low = np.iinfo(ELEMENT[element]).min
    x, y = np.array([[low, low, 7, -7, 7, -7, low]]), np.array([[-1, 0, 0, 2, -2, -1, 1]])
    p.op(
        "tpc.div {0}, {1} : {t0}, {t1} -> {r}",
        element,
        ("n", "m"),
        lambda *_: np.array([[low, low, 7, -3, -3, 7, low]]),
    )
    p.op(
        "tpc.mod {0}, {1} : {t0}, {t1} -> {r}",
        element,
        ("n", "m"),
        lambda *_: np.array([[0, 0, 0, 1, -1, 0, 0]]),
    )
    check(tmp_path, p, [dict(n=1, m=7)], lambda i, random, shape: y if i else x)


def test_norms_and_softmax(tmp_path):
    p = Program()
    p.input("f32", "n", "m", 24)
    p.input("f32", 24)
    p.input("f32", 24)

    def normalize(x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def softmax(x, axis):
        e = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
        return e / e.sum(axis, keepdims=True)

    dims = ("n", "m", 24)
    p.op(
        "tpc.layer_norm {0}, {1} bias {2} epsilon 1.0e-5 : {t0}, {t1} bias {t2} -> {r}",
        "f32",
        dims,
        lambda x, s, b: normalize(x) * s + b,
    )
    p.op(
        "tpc.layer_norm {0}, {1} epsilon 1.0e-5 : {t0}, {t1} -> {r}",
        "f32",
        dims,
        lambda x, s, b: normalize(x) * s,
    )
    p.op(
        "tpc.rms_norm {0}, {1} epsilon 1.0e-6 : {t0}, {t1} -> {r}",
        "f32",
        dims,
        lambda x, s, b: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * s,
    )
    for axis in range(3):
        p.op(
            f"tpc.softmax {{0}} dim {axis} : {{t0}} -> {{r}}",
            "f32",
            dims,
            lambda x, s, b, a=axis: softmax(x, a),
        )
    check(tmp_path, p, TWO, tolerance=5e-6)

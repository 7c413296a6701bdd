"""Model ops against numpy: each compiled alone, with several shapes, including sizes 0 and 1."""

import math
import subprocess

import numpy as np
import pytest

from harness import BUILD_STAGED

ELEMENT = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "i64": np.int64,
    "i32": np.int32,
    "ui8": np.uint8,
    "bool": np.bool_,
}


def tensor(element: str, *dims) -> str:
    shape = "".join(f"{d}x" if isinstance(d, int) else "?x" for d in dims)
    element = {"bool": "i1"}.get(element, element)
    if all(isinstance(d, int) for d in dims):
        return f"tensor<{shape}{element}>"
    sizes = ", ".join(f'"{d}"' if " " in str(d) else str(d) for d in dims)
    return f"tensor<{shape}{element}, #tpc.dist<[{sizes}]>>"


class Program:
    """One stage: inputs named in order of creation, outputs o0, o1, …, and their references."""

    def __init__(self):
        self.inputs, self.lines, self.outputs = [], [], []

    def input(self, element, *dims):
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, element, dims))
        return name

    def type_of(self, name):
        return next(tensor(e, *d) for n, e, d in self.inputs if n == name)

    def op(self, text, element, dims, reference):
        """`text` is an op up to its types; {0}, {1}, … are inputs and {t0}, {t1}, … their types,
        {r} the result's.
        """
        result = tensor(element, *dims)
        names = {f"t{i}": tensor(e, *d) for i, (_, e, d) in enumerate(self.inputs)}
        values = [f"%{n}" for n, _, _ in self.inputs]
        index = len(self.outputs)
        self.lines.append(f"%r{index} = {text.format(*values, r=result, **names)}")
        self.outputs.append((result, reference))

    def text(self):
        args = ", ".join(f"%{n}: {tensor(e, *d)}" for n, e, d in self.inputs)
        types = ", ".join(tensor(e, *d) for _, e, d in self.inputs)
        results = ", ".join(r for r, _ in self.outputs)
        returned = ", ".join(f"%r{i}" for i in range(len(self.outputs)))
        names = ", ".join(f'{{tpc.name = "{n}"}}' for n, _, _ in self.inputs)
        outputs = ", ".join(
            f'{{name = "o{i}", type = {r}}}' for i, (r, _) in enumerate(self.outputs)
        )
        body = "\n  ".join(self.lines)
        delivered = "\n      ".join(
            f"tpc.output {i}, %r#{i} : {r}" for i, (r, _) in enumerate(self.outputs)
        )
        return f"""
func.func private @stage_0({args}) -> ({results}) {{
  {body}
  return {returned} : {results}
}}
tpc.pipeline @main({args}) inputs [{names}] outputs [{outputs}] {{
  tpc.stage 0 {{
    tpc.micro_batches {{
      %r:{len(self.outputs)} = func.call @stage_0(
          {", ".join("%" + n for n, _, _ in self.inputs)}) : ({types}) -> ({results})
      {delivered}
    }}
  }}
}}
"""


def check(tmp_path, program, sizes, make=None, tolerance=2e-6):
    """Compiles once; runs and compares for each binding of the symbols."""
    source, exe = tmp_path / "program.mlir", tmp_path / "program"
    source.write_text(program.text())
    built = subprocess.run([BUILD_STAGED, source, "-o", exe], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr + source.read_text()
    for binding in sizes:
        random = np.random.default_rng(7)
        arrays, args = [], []
        for i, (name, element, dims) in enumerate(program.inputs):
            shape = [d if isinstance(d, int) else binding[d] for d in dims]
            array = make(i, random, shape) if make else None
            if array is None:
                array = random.normal(size=shape) * 3
                if element == "bool":
                    array = array > 0
            array = np.asarray(array).astype(ELEMENT[element])
            np.save(tmp_path / f"{name}.npy", array)
            arrays.append(array)
            args += ["--input", f"{name}={tmp_path / name}.npy"]
        for i in range(len(program.outputs)):
            args += ["--output", f"o{i}={tmp_path}/o{i}.npy"]
        run = subprocess.run([exe, *args], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        for i, (_, reference) in enumerate(program.outputs):
            got = np.load(tmp_path / f"o{i}.npy")
            wanted = np.asarray(
                reference(*(a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays))
            )
            assert got.shape == wanted.shape, (program.lines[i], binding)
            # Relative to the element, and to 1 where it is small.
            with np.errstate(invalid="ignore", over="ignore"):
                close = np.isclose(
                    got.astype(np.float64),
                    wanted.astype(got.dtype).astype(np.float64),
                    rtol=tolerance,
                    atol=tolerance,
                    equal_nan=True,
                )
            assert close.all(), (program.lines[i], binding, got[~close][:4], wanted[~close][:4])


TWO = [dict(n=3, m=5), dict(n=1, m=1), dict(n=0, m=4), dict(n=2, m=0), dict(n=17, m=40)]
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


def test_powers_of_another_type(tmp_path):
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


def test_integers_without_a_sign(tmp_path):
    """Numbers of 128 and more, and booleans, of which `true` is the larger one."""
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
def test_divisions_that_have_no_result(tmp_path, element):
    """By zero, and of the least number by -1: the processor would trap."""
    p = Program()
    p.input(element, "n", "m")
    p.input(element, "n", "m")
    least = np.iinfo(ELEMENT[element]).min
    x, y = np.array([[least, least, 7, -7, 7, -7, least]]), np.array([[-1, 0, 0, 2, -2, -1, 1]])
    p.op(
        "tpc.div {0}, {1} : {t0}, {t1} -> {r}",
        element,
        ("n", "m"),
        lambda *_: np.array([[least, least, 7, -3, -3, 7, least]]),
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


def test_reductions(tmp_path):
    p = Program()
    p.input("f32", "n", 4, "m")
    functions = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}
    dims = ("n", 4, "m")
    for name, f in functions.items():
        for axes in ((1,), (0,), (2,), (1, 2), (0, 2)):
            kept = tuple(d for i, d in enumerate(dims) if i not in axes)
            text = ", ".join(map(str, axes))
            p.op(
                f"tpc.reduce {name} {{0}} [{text}] : {{t0}} -> {{r}}",
                "f32",
                kept,
                lambda x, f=f, a=axes: f(x, axis=a),
            )
            ones = tuple(1 if i in axes else d for i, d in enumerate(dims))
            p.op(
                f"tpc.reduce {name} {{0}} [{text}] keep : {{t0}} -> {{r}}",
                "f32",
                ones,
                lambda x, f=f, a=axes: f(x, axis=a, keepdims=True),
            )
    check(tmp_path, p, [dict(n=3, m=5), dict(n=1, m=1), dict(n=9, m=70)], tolerance=4e-6)


def test_empty_sums(tmp_path):
    p = Program()
    p.input("f32", "n", "m")
    p.op("tpc.reduce sum {0} [1] : {t0} -> {r}", "f32", ("n",), lambda x: x.sum(1))
    p.op("tpc.cumsum {0} dim 1 : {t0} -> {r}", "f32", ("n", "m"), lambda x: x.cumsum(1))
    check(tmp_path, p, TWO, tolerance=1e-5)


def test_movements(tmp_path):
    p = Program()
    p.input("f32", "n", "m", 6)
    p.input("f32", "n", 1, 6)
    p.input("f32", "n", 5, 6)
    p.op(
        "tpc.transpose {0} [2, 0, 1] : {t0} -> {r}",
        "f32",
        (6, "n", "m"),
        lambda x, *_: x.transpose(2, 0, 1),
    )
    p.op(
        "tpc.transpose {0} [1, 0, 2] : {t0} -> {r}",
        "f32",
        ("m", "n", 6),
        lambda x, *_: x.transpose(1, 0, 2),
    )
    p.op(
        "tpc.reshape {0} : {t0} -> {r}",
        "f32",
        ("m*n", 6),
        lambda x, *_: x.reshape(x.shape[0] * x.shape[1], 6),
    )
    p.op(
        "tpc.reshape {0} : {t0} -> {r}",
        "f32",
        ("n", "m", 2, 3),
        lambda x, *_: x.reshape(*x.shape[:2], 2, 3),
    )
    p.op(
        "tpc.expand {1} : {t1} -> {r}",
        "f32",
        ("n", "m", 6),
        lambda x, y, _: np.broadcast_to(y, x.shape),
    )
    p.op(
        'tpc.slice {0} dim 2 from "1" step 2 : {t0} -> {r}',
        "f32",
        ("n", "m", 3),
        lambda x, *_: x[:, :, 1::2],
    )
    p.op(
        'tpc.slice {0} dim 2 from "5" step -1 : {t0} -> {r}',
        "f32",
        ("n", "m", 6),
        lambda x, *_: x[:, :, ::-1],
    )
    p.op(
        "tpc.concat {0}, {1}, {2} dim 1 : {t0}, {t1}, {t2} -> {r}",
        "f32",
        ("n", "m + 6", 6),
        lambda x, y, z: np.concatenate([x, y, z], 1),
    )
    p.op(
        "tpc.concat {2}, {2} dim 2 : {t2}, {t2} -> {r}",
        "f32",
        ("n", 5, 12),
        lambda x, y, z: np.concatenate([z, z], 2),
    )
    p.op('tpc.trilu {2} k "1" : {t2} -> {r}', "f32", ("n", 5, 6), lambda x, y, z: np.tril(z, 1))
    p.op(
        'tpc.trilu upper {2} k "-1" : {t2} -> {r}',
        "f32",
        ("n", 5, 6),
        lambda x, y, z: np.triu(z, -1),
    )
    check(tmp_path, p, TWO)


def test_generated_values(tmp_path):
    p = Program()
    p.input("f32", "n", "m")
    p.op(
        "tpc.iota dim 1 : {r}",
        "i64",
        ("n", "m"),
        lambda x: np.broadcast_to(np.arange(x.shape[1]), x.shape),
    )
    p.op("tpc.iota dim 0 : {r}", "f32", ("n",), lambda x: np.arange(x.shape[0]))
    p.op('tpc.size "n + 2*m" : {r}', "i64", (), lambda x: np.int64(x.shape[0] + 2 * x.shape[1]))
    p.op(
        "tpc.constant dense<[1.5, -2.0, 3.25]> : {r} : {r}",
        "f32",
        (3,),
        lambda x: np.array([1.5, -2, 3.25]),
    )
    p.op(
        "tpc.constant dense<[true, false]> : {r} : {r}",
        "bool",
        (2,),
        lambda x: np.array([True, False]),
    )
    check(tmp_path, p, TWO)


def test_long_chains(tmp_path):
    """Kernels are cut to a bounded size, so that neither the compiler's stack nor its time depends
    on a model's.
    """
    p = Program()
    p.input("f32", "n", "m")
    type_ = p.type_of("x0")
    value, lines = "%x0", []
    for i in range(2000):
        lines.append(
            f"%c{i} = tpc.add {value}, {value if i % 500 == 0 else '%x0'} : {type_}, {type_} ->"
            f" {type_}"
        )
        value = f"%c{i}"
    p.lines += ["\n  ".join(lines)]
    p.outputs.append((type_, lambda x: x * ((((2 + 499) * 2 + 499) * 2 + 499) * 2 + 499)))
    text = p.text
    p.text = lambda: text().replace("return %r0", f"return {value}")
    check(
        tmp_path, p, TWO[:2], lambda i, random, shape: random.integers(-3, 4, shape), tolerance=1e-5
    )


@pytest.mark.parametrize("exclusive", ["", " exclusive"])
@pytest.mark.parametrize("reverse", ["", " reverse"])
def test_cumsum(tmp_path, exclusive, reverse):
    p = Program()
    p.input("i64", "n", "m")

    def reference(x, axis):
        y = np.flip(x, axis) if reverse else x
        s = y.cumsum(axis)
        s = s - y if exclusive else s
        return np.flip(s, axis) if reverse else s

    for axis in (0, 1):
        p.op(
            f"tpc.cumsum {{0}} dim {axis}{exclusive}{reverse} : {{t0}} -> {{r}}",
            "i64",
            ("n", "m"),
            lambda x, a=axis: reference(x, a),
        )
    check(tmp_path, p, TWO, lambda i, random, shape: random.integers(-9, 10, shape))


def test_lookups(tmp_path):
    p = Program()
    p.input("f32", 11, 6)
    p.input("i64", "n", "m")
    p.input("i64", "n", 2)
    p.op("tpc.embedding {0}, {1} : {t0}, {t1} -> {r}", "f32", ("n", "m", 6), lambda t, i, _: t[i])
    p.op(
        "tpc.gather {0}, {1} dim 0 : {t0}, {t1} -> {r}", "f32", ("n", "m", 6), lambda t, i, _: t[i]
    )
    p.op(
        "tpc.gather {0}, {2} dim 1 : {t0}, {t2} -> {r}",
        "f32",
        (11, "n", 2),
        lambda t, i, j: t[:, j],
    )
    p.op(
        "tpc.gather_nd {0}, {2} : {t0}, {t2} -> {r}",
        "f32",
        ("n",),
        lambda t, i, j: t[j[:, 0], j[:, 1]],
    )
    check(
        tmp_path,
        p,
        TWO,
        lambda i, random, shape: random.integers(-11 if i == 1 else -6, 6, shape) if i else None,
    )


@pytest.mark.parametrize("interleaved", ["", "interleaved "])
def test_rotary(tmp_path, interleaved):
    p = Program()
    p.input("f32", "n", "m", 3, 10)
    p.input("f32", 1, "m", 4)
    p.input("f32", 1, "m", 4)

    def reference(x, cos, sin):
        cos, sin, y = cos[:, :, None], sin[:, :, None], x.copy()
        a, b = (slice(0, 8, 2), slice(1, 8, 2)) if interleaved else (slice(0, 4), slice(4, 8))
        y[..., a] = x[..., a] * cos - x[..., b] * sin
        y[..., b] = x[..., b] * cos + x[..., a] * sin
        return y

    p.op(
        f"tpc.rotary {interleaved}{{0}}, {{1}}, {{2}} : {{t0}}, {{t1}}, {{t2}} -> {{r}}",
        "f32",
        ("n", "m", 3, 10),
        reference,
    )
    check(tmp_path, p, TWO)


def test_products(tmp_path):
    p = Program()
    p.input("f32", "n", "m", 7)
    p.input("f32", 7, 9)
    p.input("f32", "n", 7, 9)
    p.input("f32", 9)
    p.input("f32", 1, 7, 9)
    p.input("f32", 7)
    dims = ("n", "m", 9)
    p.op("tpc.matmul {0}, {1} : {t0}, {t1} -> {r}", "f32", dims, lambda *a: a[0] @ a[1])
    p.op(
        "tpc.matmul {0}, {1} bias {3} : {t0}, {t1} bias {t3} -> {r}",
        "f32",
        dims,
        lambda *a: a[0] @ a[1] + a[3],
    )
    p.op("tpc.matmul {0}, {2} : {t0}, {t2} -> {r}", "f32", dims, lambda *a: a[0] @ a[2])
    p.op("tpc.matmul {0}, {4} : {t0}, {t4} -> {r}", "f32", dims, lambda *a: a[0] @ a[4])
    p.op("tpc.matmul {5}, {1} : {t5}, {t1} -> {r}", "f32", (9,), lambda *a: a[5] @ a[1])
    check(tmp_path, p, TWO, tolerance=1e-5)


@pytest.mark.parametrize("element", ["f64", "i64"])
def test_products_of_other_elements(tmp_path, element):
    p = Program()
    p.input(element, "n", 4, 5)
    p.input(element, 5, "m")
    p.op("tpc.matmul {0}, {1} : {t0}, {t1} -> {r}", element, ("n", 4, "m"), lambda x, y: x @ y)
    check(tmp_path, p, TWO, lambda i, random, shape: random.integers(-9, 10, shape))


@pytest.mark.parametrize("causal", ["", "causal "])
def test_attention(tmp_path, causal):
    p = Program()
    p.input("f32", "n", "m", 4, 8)
    p.input("f32", "n", "m", 2, 8)
    p.input("f32", "n", "m", 2, 6)
    p.input("bool", "n", "m")

    def reference(q, k, v, mask):
        k, v = np.repeat(k, 2, axis=2), np.repeat(v, 2, axis=2)
        s = np.einsum("bqhd,bkhd->bhqk", q, k) * 0.5
        visible = np.broadcast_to(mask[:, None, None], s.shape).copy()
        if causal:
            visible &= np.tril(np.ones(s.shape[2:], bool))
        e = np.where(visible, np.exp(s - s.max(-1, keepdims=True, initial=-1e9)), 0)
        w = e / np.maximum(e.sum(-1, keepdims=True), 1e-300)
        return np.einsum("bhqk,bkhd->bqhd", w, v)

    p.op(
        f"tpc.attention {causal}{{0}}, {{1}}, {{2}} key_mask {{3}} scale 5.0e-1 : {{t0}}, {{t1}},"
        " {t2} key_mask {t3} -> {r}",
        "f32",
        ("n", "m", 4, 6),
        reference,
    )
    check(tmp_path, p, TWO, tolerance=1e-5)


@pytest.mark.parametrize(
    "causal, offset, window",
    [
        ("causal ", 0, "1"),
        ("causal ", 0, "2"),
        ("causal ", 1, "m"),
        ("", 2, "4"),
        ("causal ", -1, "0"),
        ("causal ", 40, "3"),
    ],
)
def test_attention_with_a_window_and_slopes(tmp_path, causal, offset, window):
    """Also windows wider than the sequence, of nothing, and behind all keys: rows without keys are
    uniform.
    """
    p = Program()
    p.input("f32", "n", "m", 4, 8)
    p.input("f32", "n", "m", 2, 8)
    p.input("f32", "n", "m", 2, 6)
    p.input("f32", 4)

    def reference(q, k, v, slopes):
        k, v = np.repeat(k, 2, axis=2), np.repeat(v, 2, axis=2)
        s = np.einsum("bqhd,bkhd->bhqk", q, k) * 0.5
        far = np.arange(s.shape[3]) - (np.arange(s.shape[2])[:, None] + offset)
        s = s + slopes[:, None, None] * far
        visible = far > -(s.shape[3] if window == "m" else int(window))
        if causal:
            visible &= far <= 0
        s = np.where(visible, s, -1e30)
        e = np.exp(s - s.max(-1, keepdims=True, initial=-1e30))
        return np.einsum("bhqk,bkhd->bqhd", e / e.sum(-1, keepdims=True), v)

    p.op(
        f'tpc.attention {causal}{{0}}, {{1}}, {{2}} slopes {{3}} scale 5.0e-1 offset "{offset}"'
        f' window "{window}" {{{{masked_row = 1 : i32}}}} : {{t0}}, {{t1}}, {{t2}} slopes {{t3}} ->'
        " {r}",
        "f32",
        ("n", "m", 4, 6),
        reference,
    )
    check(
        tmp_path,
        p,
        TWO,
        lambda i, random, shape: random.normal(size=shape) * 0.3 if i == 3 else None,
        tolerance=1e-5,
    )

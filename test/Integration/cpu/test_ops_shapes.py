"""Model ops over several elements against numpy: reductions, movements, lookups, matmuls."""

import numpy as np
import pytest

from model_ops import Program, TWO, check


def test_reductions(tmp_path):
    p = Program()
    p.input("f32", "n", 4, "m")
    functions = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}
    dims = ("n", 4, "m")
    for name, f in functions.items():
        for axes in ((1,), (0,), (2,), (1, 2), (0, 2)):
            remaining = tuple(d for i, d in enumerate(dims) if i not in axes)
            text = ", ".join(map(str, axes))
            p.op(
                f"tpc.reduce {name} {{0}} [{text}] : {{t0}} -> {{r}}",
                "f32",
                remaining,
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
    """Kernels have a maximum size, so that neither the compiler's stack nor its time depends on the
    model.
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


def test_scatter_add(tmp_path):
    """Rows without an id, with several, and negative ids; an id out of bounds adds nothing."""
    p = Program()
    p.input("f32", "n", "m", 21)
    p.input("i64", "n", "m")

    def reference(updates, ids):
        rows = np.zeros((7, 21), np.float32)
        valid = (ids >= -7) & (ids < 7)
        np.add.at(rows, ids[valid], updates[valid])
        return rows

    p.op("tpc.scatter_add {0}, {1} : {t0}, {t1} -> {r}", "f32", (7, 21), reference)
    shapes = [dict(n=1, m=1), dict(n=3, m=5), dict(n=2, m=40)]
    check(
        tmp_path,
        p,
        shapes,
        lambda i, random, shape: random.integers(-8, 8, shape) if i else None,
        tolerance=1e-5,
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


def test_matmuls(tmp_path):
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
def test_matmuls_of_other_types(tmp_path, element):
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
    """The window may be empty, after all keys, or too wide. Rows without keys are uniform."""
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

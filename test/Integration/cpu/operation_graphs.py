"""Small graphs with one feature each: ops in each form that their opsets allow, unusual shapes."""

import re

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

# Inputs named w… become weights; i… are integers below 5, m… are booleans, others are floats. A
# result named z is compared exactly. Every output has an unknown shape, which the compiler must
# infer.
X = "float[batch, sequence, 12] x"
GRAPHS = {
    # ---- element by element ----
    "arithmetic": (
        20,
        f"({X}, float[batch, sequence, 12] y)",
        "s = Add(x, y) d = Sub(s, y) p = Mul(d, s) out = Neg(p)",
    ),
    "division": (
        20,
        f"({X})",
        "e = Exp(x) l = Log(e) r = Reciprocal(e) q = Div(l, e) out = Add(q, r)",
    ),
    "roots": (20, f"({X})", "a = Abs(x) s = Sqrt(a) out = Add(s, x)"),
    "power": (20, f"({X})", "three = Constant<value_float=3.0>() out = Pow(x, three)"),
    "power-by-integer": (20, f"({X})", "two = Constant<value_int=2>() out = Pow(x, two)"),
    "trigonometry": (20, f"({X})", "s = Sin(x) c = Cos(x) out = Mul(s, c)"),
    "sigmoids": (
        20,
        f"({X})",
        (
            "s = Sigmoid(x) t = Tanh(x) e = Erf(x) r = Relu(x) a = Add(s, t) b = Add(e, r) out ="
            " Mul(a, b)"
        ),
    ),
    "silu": (20, f"({X})", "s = Sigmoid(x) out = Mul(x, s)"),
    "gelu": (20, f"({X})", "out = Gelu(x)"),
    "gelu-tanh": (20, f"({X})", 'out = Gelu<approximate="tanh">(x)'),
    "minimum-of-three": (
        20,
        f"({X}, float[sequence, 12] y)",
        "zero = Constant<value_float=0.0>() out = Min(x, y, zero)",
    ),
    "maximum": (20, f"({X}, float[batch, 1, 12] y)", "out = Max(x, y)"),
    "comparisons": (
        20,
        f"({X}, float[sequence, 1] y)",
        (
            "a = Less(x, y) b = Greater(y, x) c = Equal(x, y) d = LessOrEqual(y, x) e ="
            " GreaterOrEqual(x, y) f = And(a, b) g = Or(c, d) h = Xor(f, g) j = Not(e) k = And(h,"
            " j) z = Or(k, f)"
        ),
    ),
    "where": (
        20,
        f"({X}, bool[batch, sequence, 1] m)",
        "zero = Constant<value_float=0.0>() out = Where(m, x, zero)",
    ),
    "casts": (
        20,
        f"({X})",
        "i = Cast<to=7>(x) b = Cast<to=9>(i) f = Cast<to=1>(b) g = Cast<to=1>(i) out = Add(f, g)",
    ),
    "integers": (
        20,
        "(int64[batch, sequence] i, int64[sequence] j)",
        "a = Add(i, j) b = Mul(a, i) c = Sub(b, j) z = Neg(c)",
    ),
    "integer-division": (
        20,
        "(int64[batch, sequence] i)",
        "t = Constant<value_int=3>() n = Neg(i) q = Div(n, t) r = Mod(n, t) z = Add(q, r)",
    ),
    "integer-bits": (
        20,
        "(int64[batch, sequence] i, int64[sequence] j)",
        (
            "n = Neg(i) m = Constant<value_int=3>() a = BitwiseAnd(n, m) o = BitwiseOr(a, j) x ="
            " BitwiseXor(n, o) y = BitwiseNot(x) z = BitwiseAnd(y, o)"
        ),
    ),
    "the-same-input-twice": (20, f"({X})", "a = Add(x, x) out = Mul(a, a)"),
    "broadcast-from-both": (20, "(float[batch, 1, 12] x, float[sequence, 1] y)", "out = Mul(x, y)"),
    "not-a-number": (
        20,
        f"({X})",
        "r = Sqrt(x) n = IsNaN(r) o = Constant<value_float=1.0>() out = Where(n, o, r)",
    ),
    # ---- matmuls ----
    "matmul": (20, f"({X}, float[12, 7] w)", "out = MatMul(x, w)"),
    "matmul-bias": (20, f"({X}, float[12, 7] w, float[7] wb)", "p = MatMul(x, w) out = Add(wb, p)"),
    "matmul-transposed": (
        20,
        f"({X}, float[7, 12] w)",
        "t = Transpose<perm=[1, 0]>(w) out = MatMul(x, t)",
    ),
    "matmul-batches": (20, f"({X}, float[batch, 12, sequence] y)", "out = MatMul(x, y)"),
    "matmul-by-activation-transposed": (
        20,
        f"({X})",
        "t = Transpose<perm=[0, 2, 1]>(x) out = MatMul(x, t)",
    ),
    "gemm": (13, "(float[tokens, 12] x, float[12, 7] w, float[7] wb)", "out = Gemm(x, w, wb)"),
    "gemm-transposed": (13, "(float[tokens, 12] x, float[7, 12] w)", "out = Gemm<transB=1>(x, w)"),
    "gemm-scaled": (
        13,
        "(float[tokens, 12] x, float[12, 7] w, float[7] wb)",
        "out = Gemm<alpha=0.5, beta=2.0>(x, w, wb)",
    ),
    "gemm-of-a-transposed": (
        13,
        "(float[12, tokens] x, float[12, 7] w)",
        "out = Gemm<transA=1>(x, w)",
    ),
    "mlp": (
        20,
        f"({X}, float[12, 30] w, float[30] wb, float[30, 12] wo, float[12] wc)",
        (
            "a = MatMul(x, w) b = Add(a, wb) g = Relu(b) p = MatMul(g, wo) q = Add(p, wc) out ="
            " Add(q, x)"
        ),
    ),
    "mlp-of-a-single-token": (
        20,
        "(float[1, 1, 12] x, float[12, 30] w, float[30] wb, float[30, 12] wo, float[12] wc)",
        (
            "a = MatMul(x, w) b = Add(a, wb) g = Relu(b) p = MatMul(g, wo) q = Add(p, wc) out ="
            " Add(q, x)"
        ),
    ),
    "gated-mlp": (
        20,
        f"({X}, float[12, 31] w, float[12, 31] wg, float[31, 12] wo)",
        (
            "a = MatMul(x, w) g = MatMul(x, wg) s = Sigmoid(g) t = Mul(g, s) u = Mul(t, a) p ="
            " MatMul(u, wo) out = Add(p, x)"
        ),
    ),
    "fused-gated-mlp": (
        20,
        f"({X}, float[12, 20] w, float[10, 12] wo)",
        (
            "a = MatMul(x, w) l, r = Split<axis=2, num_outputs=2>(a) s = Sigmoid(r) t = Mul(l, s)"
            " out = MatMul(t, wo)"
        ),
    ),
    "two-products-and-one-sum": (
        20,
        f"({X}, float[12, 20] w, float[20, 12] wo, float[12, 18] wu, float[18, 12] wp)",
        (
            "a = MatMul(x, w) b = Relu(a) c = MatMul(b, wo) d = MatMul(x, wu) e = Tanh(d) f ="
            " MatMul(e, wp) g = Add(c, f) out = Add(g, x)"
        ),
    ),
    "shared-bias": (
        20,
        f"({X}, float[12, 12] w, float[12, 12] wo, float[12] wb)",
        "a = MatMul(x, w) b = Add(a, wb) g = Relu(b) p = MatMul(g, wo) out = Add(p, wb)",
    ),
    "shared-weight": (
        20,
        f"({X}, float[12, 12] w)",
        "a = MatMul(x, w) g = Relu(a) p = MatMul(g, w) out = Add(p, x)",
    ),
    # ---- lookups ----
    "embedding": (20, "(int64[batch, sequence] i, float[29, 12] w)", "out = Gather(w, i)"),
    "embedding-of-truth-values": (
        20,
        "(bool[batch, sequence] m, float[2, 12] w)",
        "j = Cast<to=7>(m) out = Gather(w, j)",
    ),
    "embedding-of-numbers": (20, f"({X}, float[29, 12] w)", "j = Cast<to=6>(x) out = Gather(w, j)"),
    "embedding-of-what-is-not-zero": (
        20,
        "(int64[batch, sequence] i, float[2, 12] w)",
        "b = Cast<to=9>(i) j = Cast<to=7>(b) out = Gather(w, j)",
    ),
    "embeddings-of-parts": (
        20,
        "(int64[batch, 2] i, float[3, 12] wa, float[29, 12] wb)",
        (
            "a, c = Split<axis=1, num_outputs=2>(i) t = Constant<value_int=3>() m = Mod(a, t) e ="
            " Gather(wa, m) f = Gather(wb, c) out = Add(e, f)"
        ),
    ),
    "tied-head": (
        20,
        "(int64[batch, sequence] i, float[29, 12] w)",
        "e = Gather(w, i) t = Transpose<perm=[1, 0]>(w) r = Relu(e) out = MatMul(r, t)",
    ),
    "gather-last": (
        20,
        f"({X})",
        "k = Constant<value_ints=[3, 0, -1]>() out = Gather<axis=2>(x, k)",
    ),
    "gather-one": (20, f"({X})", "k = Constant<value_int=-1>() out = Gather<axis=1>(x, k)"),
    # ---- norms and reductions ----
    "index-of-the-largest": (20, f"({X})", "z = ArgMax<axis=2, select_last_index=1>(x)"),
    "index-where-some-are-no-numbers": (
        20,
        f"({X})",
        (
            "r = Sqrt(x) i = ArgMax<axis=2>(r) j = ArgMin<axis=2, select_last_index=1>(r) n ="
            " Constant<value_int=12>() o = Constant<value_int=-1>() a = Less(i, n) b = Less(o, j) c"
            " = And(a, b) z = Cast<to=7>(c)"
        ),
    ),
    "layer-norm": (
        17,
        f"({X}, float[12] w, float[12] wb)",
        "out = LayerNormalization<axis=-1, epsilon=1e-5>(x, w, wb)",
    ),
    "layer-norm-without-bias": (
        17,
        f"({X}, float[12] w)",
        "out = LayerNormalization<axis=2>(x, w)",
    ),
    "layer-norm-spelled-out": (
        17,
        f"({X}, float[12] w, float[12] wb)",
        (
            "two = Constant<value_float=2.0>() e = Constant<value_float=0.00001>() m ="
            " ReduceMean<axes=[-1]>(x) c = Sub(x, m) p = Pow(c, two) v = ReduceMean<axes=[-1]>(p) a"
            " = Add(v, e) s = Sqrt(a) n = Div(c, s) g = Mul(n, w) out = Add(g, wb)"
        ),
    ),
    "rms-norm-spelled-out": (
        20,
        f"({X}, float[12] w)",
        (
            "two = Constant<value_float=2.0>() e = Constant<value_float=0.00001>() k ="
            " Constant<value_ints=[-1]>() p = Pow(x, two) v = ReduceMean(p, k) a = Add(v, e) s ="
            " Sqrt(a) r = Reciprocal(s) n = Mul(x, r) out = Mul(w, n)"
        ),
    ),
    "rms-norm": (23, f"({X}, float[12] w)", "out = RMSNormalization<axis=-1, epsilon=1e-5>(x, w)"),
    "reductions": (
        18,
        f"({X})",
        (
            "k = Constant<value_ints=[2]>() s = ReduceSum<keepdims=0>(x, k) l ="
            " ReduceMax<keepdims=0>(x, k) n = ReduceMin<keepdims=0>(x, k) a = Add(s, l) out ="
            " Add(a, n)"
        ),
    ),
    "reduction-over-the-sequence": (
        18,
        f"({X})",
        "k = Constant<value_ints=[1]>() out = ReduceMean(x, k)",
    ),
    "reduction-over-the-batch": (
        18,
        f"({X})",
        "k = Constant<value_ints=[0]>() out = ReduceSum<keepdims=0>(x, k)",
    ),
    "reduction-of-a-split-product": (
        18,
        f"({X}, float[12, 30] w)",
        "k = Constant<value_ints=[2]>() a = MatMul(x, w) r = Relu(a) out = ReduceMax(r, k)",
    ),
    "softmax": (13, f"({X})", "out = Softmax<axis=-1>(x)"),
    "softmax-over-the-sequence": (13, f"({X})", "out = Softmax<axis=1>(x)"),
    "softmax-of-old": (11, f"({X})", "out = Softmax<axis=1>(x)"),
    "cumulative-sum": (20, f"({X})", "one = Constant<value_int=1>() out = CumSum(x, one)"),
    "cumulative-sum-backwards": (
        20,
        "(int64[batch, sequence] i)",
        "one = Constant<value_int=-1>() z = CumSum<exclusive=1, reverse=1>(i, one)",
    ),
    # ---- shapes ----
    "reshape-zero": (20, f"({X})", "k = Constant<value_ints=[0, 0, 3, 4]>() out = Reshape(x, k)"),
    "reshape-minus-one": (
        20,
        f"({X})",
        "k = Constant<value_ints=[-1, 12]>() r = Reshape(x, k) e = Exp(r) out = Add(e, r)",
    ),
    "reshape-by-arithmetic": (
        20,
        f"({X})",
        (
            "s = Shape(x) a = Slice(s, zero, two) k = Constant<value_ints=[4, 3]>() zero ="
            " Constant<value_ints=[0]>() two = Constant<value_ints=[2]>() t = Concat<axis=0>(a, k)"
            " out = Reshape(x, t)"
        ),
    ),
    "heads-and-back": (
        20,
        f"({X})",
        (
            "k = Constant<value_ints=[0, 0, 3, 4]>() r = Reshape(x, k) t = Transpose<perm=[0, 2, 1,"
            " 3]>(r) e = Tanh(t) u = Transpose<perm=[0, 2, 1, 3]>(e) j = Constant<value_ints=[0, 0,"
            " -1]>() out = Reshape(u, j)"
        ),
    ),
    "transpose": (20, f"({X})", "out = Transpose<perm=[2, 0, 1]>(x)"),
    "transpose-default": (20, f"({X})", "out = Transpose(x)"),
    "squeeze-11": (
        11,
        f"({X})",
        "u = Unsqueeze<axes=[0, 2]>(x) e = Exp(u) out = Squeeze<axes=[2]>(e)",
    ),
    "squeeze-13": (
        13,
        f"({X})",
        "k = Constant<value_ints=[0, -1]>() u = Unsqueeze(x, k) e = Exp(u) out = Squeeze(e, k)",
    ),
    "flatten": (13, f"({X})", "f = Flatten<axis=2>(x) out = Relu(f)"),
    "split-by-attribute": (
        11,
        f"({X})",
        "a, b = Split<axis=2, split=[5, 7]>(x) c = Exp(a) out = Concat<axis=-1>(c, b)",
    ),
    "split-by-input": (
        13,
        f"({X})",
        "k = Constant<value_ints=[2, 10]>() a, b = Split<axis=-1>(x, k) out = Concat<axis=2>(b, a)",
    ),
    "split-evenly": (
        18,
        f"({X})",
        "a, b, c = Split<axis=2, num_outputs=3>(x) d = Mul(a, b) out = Sub(d, c)",
    ),
    "split-unevenly": (
        18,
        "(float[batch, sequence, 11] x)",
        "a, b, c = Split<axis=2, num_outputs=3>(x) out = Concat<axis=2>(c, b, a)",
    ),
    "slice": (
        13,
        f"({X})",
        (
            "a = Constant<value_ints=[2]>() b = Constant<value_ints=[-1]>() c ="
            " Constant<value_ints=[2]>() d = Constant<value_ints=[3]>() out = Slice(x, a, b, c, d)"
        ),
    ),
    "slice-to-the-end": (
        13,
        f"({X})",
        (
            "a = Constant<value_ints=[-4]>() b = Constant<value_ints=[9223372036854775807]>()"
            " c = Constant<value_ints=[-1]>() out = Slice(x, a, b, c)"
        ),
    ),
    "slice-backwards": (
        13,
        f"({X})",
        (
            "a = Constant<value_ints=[-1]>() b = Constant<value_ints=[-9223372036854775808]>() c ="
            " Constant<value_ints=[2]>() d = Constant<value_ints=[-1]>() out = Slice(x, a, b, c, d)"
        ),
    ),
    "slice-of-old": (9, f"({X})", "out = Slice<axes=[2], starts=[1], ends=[1000]>(x)"),
    "last-token": (
        13,
        f"({X})",
        (
            "a = Constant<value_ints=[-1]>() b = Constant<value_ints=[9223372036854775807]>() c ="
            " Constant<value_ints=[1]>() out = Slice(x, a, b, c)"
        ),
    ),
    "concat-of-two-products": (
        20,
        f"({X}, float[12, 6] w, float[12, 9] wu)",
        "a = MatMul(x, w) b = MatMul(x, wu) c = Concat<axis=-1>(a, b) out = Relu(c)",
    ),
    "expand": (
        13,
        "(float[batch, 1, 12] x, float[batch, sequence] y)",
        "s = Shape(y) k = Constant<value_ints=[12]>() t = Concat<axis=0>(s, k) out = Expand(x, t)",
    ),
    "positions": (
        20,
        f"({X}, float[40, 12] w)",
        (
            "s = Shape<start=1, end=2>(x) n = Squeeze(s) zero = Constant<value_int=0>() one ="
            " Constant<value_int=1>() r = Range(zero, n, one) p = Gather(w, r) out = Add(x, p)"
        ),
    ),
    "triangle": (
        20,
        "(float[batch, sequence, sequence] x)",
        "u = Trilu<upper=1>(x) l = Trilu<upper=0>(x) out = Sub(u, l)",
    ),
    "number-of-a-size": (
        20,
        f"({X})",
        "s = Shape<start=1, end=2>(x) f = Cast<to=1>(s) out = Div(x, f)",
    ),
    "identity-and-dropout": (13, f"({X})", "a = Identity(x) b = Dropout(a) out = Relu(b)"),
    # ---- attention ----
    "attention-without-mask": (20, f"({X}, float[12, 36] w, float[36] wb, float[12, 12] wo)", None),
    "attention-with-added-mask": (
        20,
        (
            f"({X}, float[batch, 1, sequence, sequence] bias, float[12, 36] w, float[36] wb,"
            " float[12, 12] wo)"
        ),
        None,
    ),
    "attention-op": (
        23,
        (
            "(float[batch, 3, sequence, 4] q, float[batch, 3, sequence, 4] k, float[batch, 3,"
            " sequence, 4] v)"
        ),
        "out = Attention<is_causal=1>(q, k, v)",
    ),
    "attention-op-grouped": (
        23,
        (
            "(float[batch, 6, sequence, 4] q, float[batch, 2, sequence, 4] k, float[batch, 2,"
            " sequence, 4] v)"
        ),
        "out = Attention<scale=0.3>(q, k, v)",
    ),
    "attention-op-of-three-dimensions": (
        23,
        "(float[batch, sequence, 24] q, float[batch, sequence, 8] k, float[batch, sequence, 8] v)",
        "out = Attention<q_num_heads=6, kv_num_heads=2, is_causal=1>(q, k, v)",
    ),
    "attention-op-masked": (
        23,
        (
            "(float[batch, 3, sequence, 4] q, float[batch, 3, keys, 4] k, float[batch, 3, keys, 4]"
            " v, bool[batch, 1, sequence, keys] m)"
        ),
        "out = Attention(q, k, v, m)",
    ),
    "attention-op-biased": (
        23,
        (
            "(float[batch, 3, sequence, 4] q, float[batch, 3, keys, 4] k, float[batch, 3, keys, 4]"
            " v, float[sequence, keys] bias)"
        ),
        "out = Attention<softcap=2.0>(q, k, v, bias)",
    ),
}


def attention(masked):
    mask = "t = Add(d, bias)" if masked else "t = Identity(d)"
    return (
        "p = MatMul(x, w) b = Add(p, wb) q, k, v = Split<axis=2, num_outputs=3>(b) h ="
        " Constant<value_ints=[0, 0, 3, 4]>() q4 = Reshape(q, h) k4 = Reshape(k, h) v4 ="
        " Reshape(v, h) qt = Transpose<perm=[0, 2, 1, 3]>(q4) kt = Transpose<perm=[0, 2, 3,"
        " 1]>(k4) vt = Transpose<perm=[0, 2, 1, 3]>(v4) s = MatMul(qt, kt) two ="
        f" Constant<value_float=2.0>() d = Div(s, two) {mask} a = Softmax<axis=-1>(t) c = MatMul(a,"
        " vt) ct = Transpose<perm=[0, 2, 1, 3]>(c) g = Constant<value_ints=[0, 0, 12]>() r ="
        " Reshape(ct, g) o = MatMul(r, wo) out = Add(o, x)"
    )


def build(name, path):
    """Writes the model. The graph's name is the seed of its weights."""
    opset, signature, body = GRAPHS[name]
    body = body or attention("bias" in signature.replace("wb", ""))
    assignments = re.findall(r"([\w, ]+?) = (\w+(?:<[^>]*>)?\([^)]*\))", body)
    produced = [value.strip() for names, _ in assignments for value in names.split(",")]
    result = "z" if "z" in produced else "out"
    statements = "\n".join(f"{names.strip()} = {call}" for names, call in order(assignments))
    kind = {"comparisons": "bool"}.get(name, "int64" if result == "z" else "float")
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]>\n'
        f"g {signature} => ({kind}[] {result}) {{\n{statements}\n}}"
    )
    random = np.random.default_rng(sum(map(ord, name)))
    for value in list(model.graph.input):
        if value.name.startswith("w"):
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            weight = random.standard_normal(shape, dtype=np.float32)
            model.graph.initializer.append(numpy_helper.from_array(weight, value.name))
            model.graph.input.remove(value)
    onnx.save(model, path)
    return model, result


def order(assignments):
    """Puts constants before their uses, as ONNX requires. (The cases list them after, for
    readability.)
    """
    done, left, ordered = set(), list(assignments), []
    outputs = {value.strip() for names, _ in assignments for value in names.split(",")}
    while left:
        for names, call in left:
            used = {value.strip() for value in call[call.rindex("(") + 1 : -1].split(",")} & outputs
            if used <= done:
                break
        else:
            raise ValueError(f"a cycle: {left}")
        left.remove((names, call))
        ordered.append((names, call))
        done |= {value.strip() for value in names.split(",")}
    return ordered

"""NumPy interpreter for imported programs.

Runs the generic form of a program (`tpc-translate --import-onnx --mlir-print-op-generic`), so that
the importer can be compared with ONNX Runtime independently of all later passes.
"""

import os
import re
import subprocess

import ml_dtypes
import numpy as np

DTYPES = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "ui8": np.uint8,
}


def is_float(dtype):
    return dtype == ml_dtypes.bfloat16 or np.issubdtype(dtype, np.floating)


class ImportFailed(Exception):
    pass


class OutsideConstraints(Exception):
    pass


class Importer:
    """A tpc-import-many process, which imports one file after the other."""

    def __init__(self):
        self.process = subprocess.Popen(
            ["tpc-import-many"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def program(self, path):
        """Returns the program in the generic form, or raises ImportFailed with the diagnostics."""
        try:
            self.process.stdin.write(f"{path}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        status, _, size = self.process.stdout.readline().decode().partition(" ")
        text = self.process.stdout.read(int(size)).decode() if size else ""
        if not size or len(text.encode()) != int(size):
            raise RuntimeError(f"tpc-import-many ended with status {self.process.wait()} at {path}")
        if status != "imported":
            raise ImportFailed(text)
        return text


def split(text, separator=","):
    """Splits at separators outside of quotes and brackets."""
    parts, depth, quoted, start = [], 0, False, 0
    for i, c in enumerate(text):
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif c in "([{<":
            depth += 1
        elif c in ")]}" or c == ">" and text[i - 1] != "-":
            depth -= 1
        elif c == separator and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return parts + [last] if last else parts


def evaluate(text, symbols):
    text = text.strip().strip('"')
    functions = {"min": min, "max": max, "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b}
    names = {}

    def rename(match):
        name = match.group(0)
        if name in functions:
            return name
        names["s_" + name.replace(".", "_")] = symbols[name]
        return "s_" + name.replace(".", "_")

    text = re.sub(r"[A-Za-z_][\w.]*", rename, text)
    return int(eval(text, {"__builtins__": {}}, {**functions, **names}))


class Tensor:
    """Type of a tensor, such as `tensor<?x4xf32, #tpc.dist<[batch, 4]>>`."""

    def __init__(self, text):
        inner = text[len("tensor<") : -1]
        shape, _, dist = inner.partition(", #tpc.dist<[")
        *dims, element = shape.split("x")
        self.dtype = DTYPES[element]
        self.dims = split(dist[: dist.rindex("]")]) if dist else dims

    def shape(self, symbols):
        return [evaluate(d, symbols) for d in self.dims]

    def bind(self, value, symbols, later):  # sizes that are other expressions go to `later`
        assert value.dtype == self.dtype and value.ndim == len(self.dims), (value.dtype, self.dims)
        for text, size in zip(self.dims, value.shape):
            text = text.strip('"')
            if re.fullmatch(r"[A-Za-z_][\w.]*", text):
                assert symbols.setdefault(text, size) == size
            else:
                later.append((text, size))


def unescape(text):
    text = re.sub(rb"\\([0-9A-Fa-f]{2})", lambda m: bytes([int(m.group(1), 16)]), text.encode())
    return text.decode()


def dense(text):
    match = re.fullmatch(r"dense<(.*)> : (tensor<.*>)", text, re.S)
    body, type = match.group(1), Tensor(match.group(2))
    shape = type.shape({})
    if body.startswith('"0x'):
        raw = bytes.fromhex(body[3:-1])
        if type.dtype == np.bool_:
            bits = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")
            return bits[: int(np.prod(shape))].astype(np.bool_).reshape(shape)
        return np.frombuffer(raw, type.dtype).reshape(shape)
    values = []
    for token in re.findall(r"[^\[\],\s]+", body):
        if token in ("true", "false"):
            values.append(token == "true")
        elif token.startswith("0x") and is_float(type.dtype):
            bits = int(token, 16).to_bytes(np.dtype(type.dtype).itemsize, "little")
            values.append(np.frombuffer(bits, type.dtype)[0])
        else:
            values.append(float(token) if is_float(type.dtype) else int(token))
    array = np.array(values, type.dtype)
    return (np.broadcast_to(array[0], shape) if len(values) == 1 else array.reshape(shape)).copy()


def attribute(text):
    if text.startswith("#tpc.expr<"):
        return "".join(re.findall('"(.*?)"', text)) or text[len("#tpc.expr<") : -1]
    if text.startswith("#tpc.default<"):
        return text
    if text.startswith("dense<"):
        return dense(text)
    if text.startswith("array<"):
        return [int(x) for x in text[text.index(":") + 1 : -1].split(",")] if ":" in text else []
    if text.startswith(("tensor<", "(")):
        return text
    if text.startswith("@"):
        return unescape(text[1:].strip('"'))
    if text.startswith('"'):
        return unescape(text[1:-1])
    if text.startswith("["):
        return [attribute(t) for t in split(text[1:-1])]
    if text.startswith("{"):
        return attributes(text[1:-1])
    if text in ("unit", "true"):
        return True
    value, _, type = text.partition(" : ")
    return float(value) if type.startswith("f") else int(value)


def attributes(text):
    result = {}
    for part in split(text):
        name, _, value = part.partition(" = ")
        result[name.strip('"')] = attribute(value) if value else True
    return result


class Op:
    PATTERN = re.compile(r'\s*(?:(%\d+) = )?"([\w.]+)"\(([^)]*)\)(.*?)(?: loc\(.*\))?$', re.S)

    def __init__(self, line):
        self.result, self.name, operands, rest = self.PATTERN.match(line).groups()
        self.operands = [o.strip() for o in operands.split(",") if o.strip()]
        self.attributes = {}
        rest = rest.strip()
        for opening, closing in (("<{", "}>"), ("{", "}")):
            if rest.startswith(opening):
                end = self._end(rest)
                self.attributes.update(attributes(rest[len(opening) : end + 1 - len(closing)]))
                rest = rest[end + 1 :].strip()
        self.types = rest.lstrip(": ")

    @staticmethod
    def _end(text):
        depth = quoted = 0
        for i, c in enumerate(text):
            if c == '"' and text[i - 1] != "\\":
                quoted = not quoted
            elif not quoted and c in "<{[(":
                depth += 1
            elif not quoted and (c in "}])" or c == ">" and text[i - 1] != "-"):
                depth -= 1
                if depth == 0:
                    return i
        raise ValueError(text)

    def type(self):
        return Tensor(self.types[self.types.rindex(" -> ") + 4 :].strip())


class Program:
    def __init__(self, path, importer):
        program = importer.program(path)
        self.folder = os.path.dirname(os.path.abspath(path))
        self.weights, self.ops, self.inputs, self.outputs = {}, [], [], []
        for line in program.splitlines():
            if re.match(r'\s+"tpc.weight"', line):
                a = Op(line).attributes
                self.weights[a["sym_name"]] = (a["file"], a["offset"], Tensor(a["type"]))
            elif re.match(r'\s+"func.func"', line):
                a = attributes(line[line.index("<{") + 2 : line.rindex("}>")])
                names = lambda key: [d["tpc.name"] for d in a.get(key, [])]
                types = split(a["function_type"][1 : a["function_type"].index(") -> ")])
                self.inputs = list(zip(names("arg_attrs"), map(Tensor, types)))
                self.outputs = names("res_attrs")
            elif re.match(r'\s+(%\d+ = )?"', line):
                self.ops.append(Op(line))
        self.constraints = []
        match = re.search(r"tpc.constraints = (\[.*?\])(, tpc|\})", program)
        if match:
            self.constraints = attribute(match.group(1))

    def weight(self, name):
        file, offset, type = self.weights[name]
        shape = type.shape({})
        return np.fromfile(
            os.path.join(self.folder, file), type.dtype, int(np.prod(shape)), offset=offset
        ).reshape(shape)

    def run(self, feeds):
        symbols, later, values = {}, [], {}
        for i, (name, type) in enumerate(self.inputs):
            values[f"%arg{i}"] = feeds[name]
            type.bind(feeds[name], symbols, later)
        for text, size in later:
            assert evaluate(text, symbols) == size, (text, size, symbols)
        for c in self.constraints:
            value = evaluate(c["expr"], symbols)
            if not c.get("min", value) <= value <= c.get("max", value):
                raise OutsideConstraints(f"{c['expr']} = {value}: {c['why']}")
        for op in self.ops:
            operands = [values[o] for o in op.operands]
            if op.name == "func.return":
                return dict(zip(self.outputs, operands))
            type = op.type()
            shape = type.shape(symbols)
            with np.errstate(all="ignore"):
                result = np.asarray(
                    EVALUATE[op.name[4:]](self, op.attributes, operands, shape, type.dtype, symbols)
                )
            assert list(result.shape) == shape, (op.name, result.shape, shape)
            assert result.dtype == type.dtype, (op.name, result.dtype, type.dtype)
            values[op.result] = result


def erf(x):
    import math

    return np.vectorize(math.erf, otypes=[x.dtype])(x) if x.size else x


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def gelu(x, kind):
    if kind == 0:
        return x / 2 * (1 + erf(x / np.sqrt(2)))
    if kind == 1:
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x * sigmoid(1.702 * x)


def norm(x, scale, bias, epsilon, center):
    x = x.astype(np.float64)
    if center:
        x = x - x.mean(axis=-1, keepdims=True)
    y = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * scale
    return y if bias is None else y + bias


def attention(a, operands, symbols):
    q, k, v, key_mask, mask, bias, slopes, sinks, lengths = (
        operands[sum(a["operandSegmentSizes"][:i])] if n else None
        for i, n in enumerate(a["operandSegmentSizes"])
    )
    if q.dtype == ml_dtypes.bfloat16:
        q, k, v, bias = (x if x is None else x.astype(np.float32) for x in (q, k, v, bias))
    group = q.shape[2] // k.shape[2]
    k, v = (np.repeat(x, group, axis=2) for x in (k, v))
    scores = np.einsum("bihd,bjhd->bhij", q, k) * a["scale"]
    if a["softcap"]:
        scores = a["softcap"] * np.tanh(scores / a["softcap"])
    if bias is not None:
        scores = scores + bias
    visible = np.ones(scores.shape, bool)
    i, j = np.ogrid[: scores.shape[2], : scores.shape[3]]
    position = i + evaluate(a["causal_offset"], symbols)
    if lengths is not None:
        position = position + lengths[:, None, None, None]
    if slopes is not None:
        scores = scores + slopes[:, None, None] * (j - position)
    if a.get("causal"):
        visible &= j <= position
    if a.get("window") is not None:
        visible &= j > position - evaluate(a["window"], symbols)
    if key_mask is not None:
        visible &= key_mask[:, None, None, :]
    if mask is not None:
        visible &= mask
    scores = np.where(visible, scores, -np.inf)
    if sinks is not None:
        column = np.broadcast_to(sinks[:, None, None], [*scores.shape[:3], 1])
        p = softmax(np.concatenate([scores, column], axis=3), 3)
        return np.einsum("bhij,bjhd->bihd", p[..., :-1], v)
    some = visible.any(axis=3, keepdims=True)
    p = softmax(np.where(some, scores, 0), 3) * (some | (a["masked_row"] != 0))
    return np.einsum("bhij,bjhd->bihd", p, v)


def rotary(x, cos, sin, interleaved):
    half = cos.shape[-1]
    cos, sin = cos[:, :, None], sin[:, :, None]
    y = x.copy()
    first, second = (
        (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
        if interleaved
        else (slice(0, half), slice(half, 2 * half))
    )
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., first] * sin + x[..., second] * cos
    return y


def gather_nd(data, indices, batch):
    if batch:
        return np.stack([gather_nd(d, i, batch - 1) for d, i in zip(data, indices)])
    return data[tuple(np.moveaxis(indices, -1, 0))]


def slice_(x, dim, start, size, step):
    return np.take(x, start + step * np.arange(size), axis=dim)


def cumsum(x, a):
    dim = a["dim"]
    if a.get("reverse"):
        x = np.flip(x, dim)
    y = np.cumsum(x, axis=dim, dtype=x.dtype)
    if a.get("exclusive"):
        y = y - x
    return np.flip(y, dim) if a.get("reverse") else y


def trilu(x, a, symbols):
    k = evaluate(a["k"], symbols)
    return np.triu(x, k) if a.get("upper") else np.tril(x, k)


def dequantize(x, a):
    bits, packed, scale = a["bits"], x[0], x[1]
    each = 8 // bits
    q = packed.astype(np.uint8).astype(np.int64)[..., None]
    q = (q >> (np.arange(each) * bits)) % 2**bits
    if packed.dtype == np.int8:
        q = np.where(q >= 2 ** (bits - 1), q - 2**bits, q)
    zero = x[2].astype(np.float64) if len(x) > 2 else a["zero_point"]
    return (q.astype(np.float64) - zero) * scale


def reduce(x, a):
    f, axes = a["function"], tuple(a["dims"])
    more = {}
    if f >= 2:
        low, high = -np.inf, np.inf
        if x.dtype.kind in "iu":
            low, high = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
        more["initial"] = low if f == 2 else high
    return REDUCE[f](x, axis=axes, keepdims=bool(a.get("keep_dims")), **more)


def divide(x, y):
    if is_float(x.dtype):
        return x / y
    return (np.abs(x) // np.abs(y) * np.sign(x) * np.sign(y)).astype(x.dtype)


def cast(x, dtype):
    return (
        x != 0
        if dtype == np.bool_
        else (np.trunc(x) if is_float(x.dtype) and not is_float(dtype) else x).astype(dtype)
    )


def unary(f):
    return lambda p, a, x, shape, dtype, s: f(x[0]).astype(dtype)


def binary(f):
    return lambda p, a, x, shape, dtype, s: f(x[0], x[1]).astype(dtype)


COMPARE = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
REDUCE = [np.sum, np.mean, np.max, np.min]
EVALUATE = {
    "neg": unary(np.negative),
    "abs": unary(np.abs),
    "exp": unary(np.exp),
    "log": unary(np.log),
    "sqrt": unary(np.sqrt),
    "rsqrt": unary(lambda x: 1 / np.sqrt(x)),
    "reciprocal": unary(lambda x: 1 / x),
    "tanh": unary(np.tanh),
    "erf": unary(erf),
    "sigmoid": unary(sigmoid),
    "relu": unary(lambda x: np.maximum(x, 0)),
    "sin": unary(np.sin),
    "cos": unary(np.cos),
    "floor": unary(np.floor),
    "ceil": unary(np.ceil),
    "round": unary(np.round),
    "silu": unary(lambda x: x * sigmoid(x)),
    "not": unary(np.logical_not),
    "is_nan": unary(np.isnan),
    "add": binary(np.add),
    "sub": binary(np.subtract),
    "mul": binary(np.multiply),
    "div": binary(divide),
    "pow": binary(lambda x, y: np.power(x, y.astype(np.float64) if y.dtype.kind == "f" else y)),
    "max": binary(np.maximum),
    "min": binary(np.minimum),
    "mod": binary(lambda x, y: np.fmod(x, y) if x.dtype.kind == "f" else np.mod(x, y)),
    "and": binary(np.bitwise_and),
    "or": binary(np.bitwise_or),
    "xor": binary(np.bitwise_xor),
    "cmp": lambda p, a, x, shape, dtype, s: COMPARE[a["predicate"]](*x),
    "select": lambda p, a, x, shape, dtype, s: np.where(*x),
    "cast": lambda p, a, x, shape, dtype, s: cast(x[0], dtype),
    "gelu": lambda p, a, x, shape, dtype, s: gelu(x[0], a["approximate"]).astype(dtype),
    "matmul": (
        lambda p, a, x, shape, dtype, s: (x[0] @ x[1] + (x[2] if len(x) > 2 else 0)).astype(dtype)
    ),
    "dequantize": lambda p, a, x, shape, dtype, s: dequantize(x, a).astype(dtype),
    "softmax": lambda p, a, x, shape, dtype, s: softmax(x[0], a["dim"]) if x[0].size else x[0],
    "layer_norm": (
        lambda p, a, x, shape, dtype, s: norm(
            x[0], x[1], x[2] if len(x) > 2 else None, a["epsilon"], True
        ).astype(dtype)
    ),
    "rms_norm": (
        lambda p, a, x, shape, dtype, s: norm(x[0], x[1], None, a["epsilon"], False).astype(dtype)
    ),
    "attention": lambda p, a, x, shape, dtype, s: attention(a, x, s).astype(dtype),
    "rotary": lambda p, a, x, shape, dtype, s: rotary(*x, a.get("interleaved")),
    "embedding": lambda p, a, x, shape, dtype, s: x[0][x[1]],
    "gather": lambda p, a, x, shape, dtype, s: np.take(x[0], x[1], axis=a["dim"]),
    "gather_nd": lambda p, a, x, shape, dtype, s: gather_nd(x[0], x[1], a.get("batch_dims", 0)),
    "reduce": lambda p, a, x, shape, dtype, s: reduce(x[0], a).astype(dtype),
    "reshape": lambda p, a, x, shape, dtype, s: x[0].reshape(shape),
    "transpose": lambda p, a, x, shape, dtype, s: x[0].transpose(a["permutation"]),
    "expand": lambda p, a, x, shape, dtype, s: np.broadcast_to(x[0], shape),
    "slice": lambda p, a, x, shape, dtype, s: slice_(
        x[0], a["dim"], evaluate(a["start"], s), shape[a["dim"]], a.get("step", 1)
    ),
    "concat": lambda p, a, x, shape, dtype, s: np.concatenate(x, axis=a["dim"]),
    "iota": (
        lambda p, a, x, shape, dtype, s: np.broadcast_to(
            np.arange(shape[a["dim"]]).reshape(
                [-1 if i == a["dim"] else 1 for i in range(len(shape))]
            ),
            shape,
        ).astype(dtype)
    ),
    "size": lambda p, a, x, shape, dtype, s: np.array(evaluate(a["expr"], s), dtype),
    "cumsum": lambda p, a, x, shape, dtype, s: cumsum(x[0], a),
    "trilu": lambda p, a, x, shape, dtype, s: trilu(x[0], a, s),
    "constant": lambda p, a, x, shape, dtype, s: a["value"],
    "parameter": lambda p, a, x, shape, dtype, s: p.weight(a["weight"]),
}

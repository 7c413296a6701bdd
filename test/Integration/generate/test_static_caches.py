"""Caches of fixed size that TensorScatter writes at positions that are data (ai.onnx 24)."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from generation import generate, margins_of
from simulator import FLAGS, environment
from tpc.reference import Session, difference

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
LAYERS, HEADS, KV, SIZE, ROWS, VOCABULARY = 2, 4, 2, 8, 16, 40
HIDDEN = HEADS * SIZE


class Static:
    """Decoder with caches [batch, rows, width] or, with `four`, [batch, heads, rows, size]."""

    def __init__(self, four=False, positions=True):
        self.four, self.positions, self.nodes, self.tensors = four, positions, [], []
        self.random = np.random.default_rng(3)

    def op(self, kind, *inputs, to="", **attributes):
        to = to or f"t{len(self.nodes)}"
        name = f"/{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [to], name, **attributes))
        return to

    def constant(self, value):
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *shape):
        scale = shape[0] ** -0.5 if len(shape) > 1 else 1
        return self.constant((scale * self.random.standard_normal(shape)).astype(np.float32))

    def heads(self, x, count):
        x = self.op("Reshape", x, self.constant(np.array([0, 0, count, SIZE])))
        return self.op("Transpose", x, perm=[0, 2, 1, 3])

    def attention(self, layer, x):
        q, k, v = (
            self.op("MatMul", x, self.weight(HIDDEN, count * SIZE)) for count in (HEADS, KV, KV)
        )
        if self.four:
            q, k, v = self.heads(q, HEADS), self.heads(k, KV), self.heads(v, KV)
        axis = {} if self.four else {"axis": 1}
        k, v = (
            self.op("TensorScatter", name, new, "starts", to=f"new_{name}", **axis)
            for name, new in ((f"key.{layer}", k), (f"value.{layer}", v))
        )
        counts = {} if self.four else {"q_num_heads": HEADS, "kv_num_heads": KV}
        inputs = [q, k, v, "", "", "", "valid"]
        y = self.op("Attention", *inputs, is_causal=1, **counts)
        if self.four:
            y = self.op("Transpose", y, perm=[0, 2, 1, 3])
            y = self.op("Reshape", y, self.constant(np.array([0, 0, HIDDEN])))
        return self.op("MatMul", y, self.weight(HIDDEN, HIDDEN))

    def write(self, path):
        x = self.op("Gather", self.weight(VOCABULARY, HIDDEN), "input_ids")
        if self.positions:
            size = self.op("Shape", "input_ids", start=1, end=2)
            zero, one = self.constant(np.int64(0)), self.constant(np.int64(1))
            steps = self.op("Range", zero, self.op("Squeeze", size), one)
            first = self.op("Unsqueeze", "starts", self.constant(np.array([1])))
            table = self.weight(ROWS, HIDDEN)
            x = self.op("Add", x, self.op("Gather", table, self.op("Add", first, steps)))
        for layer in range(LAYERS):
            scale = self.weight(HIDDEN)
            y = self.attention(layer, self.op("RMSNormalization", x, scale, axis=-1))
            x = self.op("Add", x, y)
            y = self.op("Relu", self.op("MatMul", x, self.weight(HIDDEN, 48)))
            x = self.op("Add", x, self.op("MatMul", y, self.weight(48, HIDDEN)))
        self.op("MatMul", x, self.weight(HIDDEN, VOCABULARY), to="logits")
        shape = ["b", KV, ROWS, SIZE] if self.four else ["b", ROWS, KV * SIZE]
        info = helper.make_tensor_value_info
        caches = [f"{name}.{layer}" for layer in range(LAYERS) for name in ("key", "value")]
        inputs = [info("input_ids", I64, ["b", "s"]), info("starts", I64, ["b"])]
        inputs += [info("valid", I64, ["b"]), *(info(name, F32, shape) for name in caches)]
        outputs = [info("logits", F32, ["b", "s", VOCABULARY])]
        outputs += [info(f"new_{name}", F32, shape) for name in caches]
        graph = helper.make_graph(self.nodes, "static", inputs, outputs, self.tensors)
        opsets = [helper.make_opsetid("", 24)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=11), path)
        return path


def feed(session, starts, tokens, random):
    batch = len(starts)
    given = {
        name: random.standard_normal([batch, *shape[1:]]).astype(np.float32)
        for name, shape in session.inputs.items()
        if "." in name
    }
    starts = np.array(starts)
    ids = random.integers(0, VOCABULARY, (batch, tokens))
    return given | {"input_ids": ids, "starts": starts, "valid": starts + tokens}


@pytest.mark.parametrize("grid", ["tp1", "dp2,tp2", "pp2", "gpu:tp2"])
@pytest.mark.parametrize("four", [False, True], ids=["rows", "heads"])
def test_runs(tpcc, tmp_path, four, grid):
    """Sequences of a batch begin at positions of their own."""
    path = Static(four).write(tmp_path / "static.onnx")
    session, random = Session(path), np.random.default_rng(1)
    feeds = [feed(session, [0, 3, 11, 5], 4, random), feed(session, [15, 0], 1, random)]
    gpu = grid.startswith("gpu:")
    program = tpcc.compile(path, grid.removeprefix("gpu:"), *(FLAGS if gpu else ()))
    found = program.run_all(feeds, session.outputs, env=environment() if gpu else {})
    for given, outputs in zip(feeds, found):
        for name, value in session.run(given).items():
            assert difference(outputs[name], value).relative <= 2e-5, name


def test_positions_outside_of_the_cache(tpcc, tmp_path):
    path = Static(positions=False).write(tmp_path / "static.onnx")
    program, session = tpcc.compile(path), Session(path)
    for starts, words in (([13], "13 of 13"), ([-1], "of 13")):
        given = feed(session, starts, 4, np.random.default_rng(1)) | {"valid": np.array([4])}
        flags = []
        for name, value in given.items():
            np.save(tmp_path / f"{name}.npy", value)
            flags += ["--input", f"{name}={tmp_path / name}.npy"]
        program.call(flags).refused("/TensorScatter", words)


@pytest.mark.parametrize("four, grid", [(False, "tp2,pp2"), (True, "tp2"), (True, "gpu:tp2")])
def test_generates(tpcc, tmp_path, four, grid):
    """In generation, the cache has only the rows of past tokens."""
    path = Static(four).write(tmp_path / "static.onnx")
    gpu = grid.startswith("gpu:")
    flags = ["--generate", *(FLAGS if gpu else ())]
    program, session = tpcc.compile(path, grid.removeprefix("gpu:"), *flags), Session(path)
    program.environment |= environment() if gpu else {}
    prompt, count = [12, 7, 33], 8
    given = feed(session, [0], len(prompt), np.random.default_rng(1))
    given["input_ids"] = np.array([prompt])
    tokens, margins = [], []
    for _ in range(count):
        outputs = session.run(given)
        logits = outputs["logits"][0, -1]
        tokens.append(int(logits.argmax()))
        margins.append(float(margins_of(logits)))
        start = given["valid"]
        given = {name[4:]: value for name, value in outputs.items() if name[:4] == "new_"}
        given |= {"input_ids": np.array([tokens[-1:]]), "starts": start, "valid": start + 1}
    assert min(margins) > 1e-3
    for chunk in ([], ["--prefill-chunk=2"]):
        assert generate(program, prompt, count, *chunk).tokens == tokens
    # The caches have 16 rows; the last token needs none.
    assert len(generate(program, prompt, 30).tokens) == ROWS + 1 - len(prompt)
    text = ",".join(["1"] * (ROWS + 1))
    program.call(["--prompt-ids", text, "--max-new-tokens", "1"]).refused("16")

"""Causal attention with fewer or more new keys than queries: the keys that each query sees.

Compares the table of docs/design/onnx-import.md row by row with ONNX Runtime and with onnx's
reference implementation.
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from harness import TOP
from tpc.reference import Session

HEADS, SIZE, WIDTH, PAST = 2, 4, 8, 2
# Queries and new keys.
SIZES = [(3, 5), (5, 3), (4, 4), (1, 4), (4, 1), (1, 1)]
RANDOM = np.random.default_rng(0)
WEIGHTS = {
    name: RANDOM.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 2
    for name in ("wq", "wk", "wv", "wo")
}


def up_to_past(i, j, past, queries):
    return j <= i + past


def last_sees_all(i, j, past, queries):
    return (j <= i + past) | (i == queries - 1)


def window_of_two(i, j, past, queries):
    return (j <= i + past) & (j >= i + past - 1)


def window_both_ways(i, j, past, queries):
    return (j <= i + past + 1) & (j >= i + past - 1)


def ai_onnx(past, **attributes):
    return dict(
        op="Attention",
        domain="",
        past=past,
        inputs=["q", "k", "v", "", "pk", "pv"][: 6 if past else 3],
        attributes=dict(q_num_heads=HEADS, kv_num_heads=HEADS, **attributes),
    )


def multi_head(past, four=False):
    operands = ["q", "k4", "v4"] if four else ["q", "k", "v"]
    return dict(
        op="MultiHeadAttention",
        domain="com.microsoft",
        past=past,
        inputs=operands + (["", "", "", "pk", "pv"] if past else []),
        attributes=dict(num_heads=HEADS, unidirectional=1),
    )


# Output -> node, function of the visible keys, operator sets.
ROWS = {
    "causal": (ai_onnx(False, is_causal=1), up_to_past, (23, 24, 25)),
    "causal_past": (ai_onnx(True, is_causal=1), up_to_past, (23, 24, 25)),
    "window": (ai_onnx(False, is_causal=1, left_window_size=1), window_of_two, (25,)),
    "window_past": (ai_onnx(True, is_causal=1, left_window_size=1), window_of_two, (25,)),
    "both_ways": (ai_onnx(False, left_window_size=1, right_window_size=1), window_both_ways, (25,)),
    "both_ways_past": (
        ai_onnx(True, left_window_size=1, right_window_size=1),
        window_both_ways,
        (25,),
    ),
    "heads": (multi_head(False), last_sees_all, (24,)),
    "heads_past": (multi_head(True), last_sees_all, (24,)),
    "heads_of_keys": (multi_head(False, four=True), last_sees_all, (24,)),
    "heads_of_keys_past": (multi_head(True, four=True), last_sees_all, (24,)),
}


def save(path, opset):
    """Writes a model with all rows of an operator set. Queries and keys are results of matmuls, so
    that tp splits heads.
    """
    make = helper.make_node
    nodes = [make("MatMul", ["x", "wq"], ["q"], "/q")]
    for name in "kv":
        nodes += [
            make("MatMul", ["y", f"w{name}"], [name], f"/{name}"),
            make("Reshape", [name, "shape"], [f"{name}5"], f"/{name}5"),
            make("Transpose", [f"{name}5"], [f"{name}4"], f"/{name}4", perm=[0, 2, 1, 3]),
        ]
    outputs = []
    for name, (row, _, opsets) in ROWS.items():
        if opset not in opsets:
            continue
        # ONNX Runtime concatenates a past with new keys only if both are outputs.
        results = [f"{name}_a"] + ([f"{name}_k", f"{name}_v"] if row["past"] else [])
        nodes += [
            make(
                row["op"],
                row["inputs"],
                results,
                f"/{name}",
                domain=row["domain"],
                **row["attributes"],
            ),
            make("MatMul", [f"{name}_a", "wo"], [name], f"/{name}/o"),
        ]
        outputs += [name, *results[1:]]
    tensors = [numpy_helper.from_array(value, name) for name, value in WEIGHTS.items()]
    tensors.append(numpy_helper.from_array(np.array([0, 0, HEADS, SIZE]), "shape"))
    ports = {
        "x": ["b", "s", WIDTH],
        "y": ["b", "t", WIDTH],
        "pk": ["b", HEADS, "p", SIZE],
        "pv": ["b", HEADS, "p", SIZE],
    }
    graph = helper.make_graph(
        nodes,
        "alignment",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in ports.items()
        ],
        [
            helper.make_tensor_value_info(
                name,
                TensorProto.FLOAT,
                None if name in ROWS else ["b", HEADS, f"{name}_keys", SIZE],
            )
            for name in outputs
        ],
        tensors,
    )
    for value in graph.output:
        if value.name in ROWS:
            value.CopyFrom(
                helper.make_tensor_value_info(value.name, TensorProto.FLOAT, ["b", "s", WIDTH])
            )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)],
        ir_version=10,
    )
    onnx.save(model, path)
    return path


def to_heads(x):
    return x.reshape(*x.shape[:2], HEADS, SIZE).transpose(0, 2, 1, 3)


def expected(feed, past, sees):
    q, k, v = (to_heads(feed[x] @ WEIGHTS[w]) for x, w in (("x", "wq"), ("y", "wk"), ("y", "wv")))
    if past:
        k, v = np.concatenate([feed["pk"], k], 2), np.concatenate([feed["pv"], v], 2)
    i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None]
    seen = sees(i, j, PAST if past else 0, q.shape[2])
    scores = np.where(seen, q @ k.transpose(0, 1, 3, 2) / np.sqrt(SIZE), -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    a = weights / np.where(total > 0, total, 1) @ v  # 0 where no key is seen
    return a.transpose(0, 2, 1, 3).reshape(*feed["x"].shape) @ WEIGHTS["wo"]


def feed(queries, keys):
    random = np.random.default_rng(queries * 10 + keys)
    shapes = {
        "x": (2, queries, WIDTH),
        "y": (2, keys, WIDTH),
        "pk": (2, HEADS, PAST, SIZE),
        "pv": (2, HEADS, PAST, SIZE),
    }
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("opset", [23, 24, 25])
def test_rows(tpcc, tmp_path, opset):
    path = save(tmp_path / "alignment.onnx", opset)
    names = [name for name, (_, _, opsets) in ROWS.items() if opset in opsets]
    feeds = [feed(*sizes) for sizes in SIZES]
    wanted = [
        {name: expected(x, ROWS[name][0]["past"], ROWS[name][1]) for name in names} for x in feeds
    ]

    # ONNX Runtime does not support windows; the reference implementation does not support
    # com.microsoft ops.
    if opset == 25:
        theirs = ReferenceEvaluator(onnx.load(path))
        found = [dict(zip(theirs.output_names, theirs.run(None, x))) for x in feeds]
    else:
        session = Session(path)
        found = [session.run(x) for x in feeds]
    for sizes, want, have in zip(SIZES, wanted, found):
        for name in names:
            if opset != 25 and name == "causal_past" and sizes[0] == 1 != sizes[1]:
                continue  # ONNX Runtime: one query after a past sees all new keys, as documented
            np.testing.assert_allclose(
                have[name], want[name], rtol=1e-4, atol=1e-5, err_msg=f"theirs, {name}, {sizes}"
            )

    for grid in ("tp1", "tp2"):
        program = tpcc.compile(path, grid)
        for sizes, want, have in zip(SIZES, wanted, program.run_all(feeds, names)):
            for name in names:
                np.testing.assert_allclose(
                    have[name], want[name], rtol=1e-4, atol=1e-5, err_msg=f"{grid}, {name}, {sizes}"
                )


REFUSED = {
    "DecoderMaskedMultiHeadAttention": (
        ["q", "k", "v"],
        dict(num_heads=2),
        "DecoderMaskedMultiHeadAttention",
    ),
    "MultiHeadAttention, packed": (["q"], dict(num_heads=2), "packed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tpcc, tmp_path, case):
    inputs, attributes, word = REFUSED[case]
    ports = {"q": ["b", "s", 8], "k": ["b", "s", 8], "v": ["b", "s", 8], "n": ["b"], "m": [1]}
    graph = helper.make_graph(
        [
            helper.make_node(
                case.split(",")[0], inputs, ["y"], "/refused", domain="com.microsoft", **attributes
            )
        ],
        "refused",
        [
            helper.make_tensor_value_info(
                name, TensorProto.FLOAT if len(shape) == 3 else TensorProto.INT32, shape
            )
            for name, shape in ports.items()
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", "s", 8])],
    )
    path = tmp_path / "refused.onnx"
    onnx.save(
        helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)],
            ir_version=9,
        ),
        path,
    )
    tpcc.call([path, "-o", tmp_path / "refused"]).refused("/refused", word)


def test_page_lists_all_rows():
    page = (TOP / "docs" / "design" / "onnx-import.md").read_text()
    table = page[page.index("## Causal attention") :]
    for row, *_ in ROWS.values():
        assert f"`{row['op']}`" in table
    for case in REFUSED:
        assert f"`{case.split(',')[0]}`" in table

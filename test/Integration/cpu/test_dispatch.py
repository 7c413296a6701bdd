"""--expert-dispatch=all-to-all: the same bits as with gathers, and the exact number of bytes."""

import json

import numpy as np
import onnx
import pytest

from expert_files import Experts, inputs, save_with_router
from tpc.reference import Session, difference

FORMS = ("gather", "all-to-all")
SHAPE = dict(batch_size=3, sequence_length=2, past_sequence_length=0)
SMALL = dict(layers=1, form="mixtral")
CASES = [
    ("ep4,dp4", Experts(experts=5, bias=True, **SMALL)),
    ("tp2,dp2,ep4,etp1", Experts(**SMALL)),
    ("tp2,ep2,dp4", Experts(layers=1, form="gpt_oss", bias=True)),
    ("pp2,ep2,dp2", Experts(form="mixtral", router_bias=(90, 80, 0, 0))),  # a rank without tokens
]


@pytest.mark.parametrize("grid, spec", CASES, ids=[grid for grid, _ in CASES])
def test_bits(tpcc, tmp_path, grid, spec):
    """The last batch has fewer samples than there are replicas."""
    path = spec.save(tmp_path / "model.onnx")
    feeds = [inputs(spec, 5, 3, 4), inputs(spec, 1, 6, 5), inputs(spec, 2, 0, 1)]
    found = []
    for form in FORMS:
        program = tpcc.compile(path, grid, f"--expert-dispatch={form}")
        kinds = {row["kind"] for row in program.bench(SHAPE)["collectives"]}
        assert ({"dispatch", "combine"} <= kinds) == (form != "gather"), kinds
        found.append(program.run_all(feeds, ["logits"]))
    want = Session(path, optimize=False).run(feeds[0])["logits"]
    assert difference(found[1][0]["logits"], want).relative < 2e-5
    for gathered, dispatched in zip(*found):
        assert np.array_equal(gathered["logits"], dispatched["logits"])





@pytest.mark.parametrize("transport", ["tcp", pytest.param("mpi", marks=pytest.mark.long)])
def test_transports(tpcc, tmp_path, transport):
    spec = CASES[0][1]
    program = tpcc.compile(
        spec.save(tmp_path / "model.onnx"), "ep4,dp4", "--expert-dispatch=all-to-all"
    )
    feeds = [inputs(spec, 3, 0, 4), inputs(spec, 2, 0, 1)]
    want = program.run_all(feeds, ["logits"])
    for a, b in zip(program.run_all(feeds, ["logits"], transport), want):
        assert np.array_equal(a["logits"], b["logits"])


def parts(n, count):
    """Returns the ranges of an even split, larger ones first."""
    sizes = [n // count + (i < n % count) for i in range(count)]
    return [range(sum(sizes[:i]), sum(sizes[: i + 1])) for i in range(count)]


def sent(selected, experts, hidden, ranks):
    """Returns the bytes that each rank sends in the dispatch and in the combination of tokens
    [batch, sequence] with the weights of `selected` [batch, sequence, experts] (booleans).
    """
    batch, sequence, _ = selected.shape
    dispatch, combine = [0] * ranks, [0] * ranks
    for source, samples in enumerate(parts(batch, ranks)):
        rows = selected[samples.start : samples.stop].reshape(-1, experts)
        for target, own in enumerate(parts(experts, ranks)):
            if source == target:
                continue
            used = rows[:, own.start : own.stop]
            tokens, bits = used.any(axis=1).sum(), -(-used.size // 8)
            dispatch[source] += bits + 4 * (tokens * hidden + used.sum())
            combine[target] += -(-len(rows) // 8) + 4 * tokens * hidden
    return dispatch, combine


def draw(kind, random, shape, experts):
    """Returns logits [batch, sequence, experts]."""
    logits = random.standard_normal((*shape, experts))
    if kind == "one expert":
        logits[..., :2] += 50
    elif kind == "last rank":
        logits[..., -2:] += 50
    elif kind == "by sample":
        logits[np.arange(shape[0]), :, np.arange(shape[0]) % experts] += 50
    elif kind == "alternating":
        logits[:, ::2, 0] += 50
        logits[:, 1::2, -1] += 50
    elif kind == "own rank":
        logits[np.arange(shape[0]), :, np.arange(shape[0]) * experts // shape[0]] += 90
    return logits.astype(np.float32)


DEGENERATE = ["one expert", "last rank", "by sample", "alternating", "own rank"]


@pytest.mark.parametrize("ranks, selected", [(4, 2), pytest.param(2, 3, marks=pytest.mark.long)])
def test_bytes(tpcc, tmp_path, ranks, selected):
    """The counters are the exact formula for 20 random and 5 degenerate routings, and at most the
    bytes of the gather, and of one message for each token and selected expert.
    """
    spec = Experts(experts=6, selected=selected, hidden=8, inner=4)
    path = tmp_path / "model.onnx"
    # The first elements of a token are its logits.
    save_with_router(spec, path)
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.name.endswith("router.weight"):
            value = np.eye(spec.hidden, spec.experts, dtype=np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(value, tensor.name))
    onnx.save(model, path)
    program = tpcc.compile(path, f"ep{ranks},dp{ranks}", "--expert-dispatch=all-to-all")
    random = np.random.default_rng(6)
    for kind in [*DEGENERATE, *["random"] * 20]:
        shape = (int(random.integers(1, 7)), int(random.integers(1, 5)))
        x = random.standard_normal((*shape, spec.hidden)).astype(np.float32)
        x[..., : spec.experts] = draw(kind, random, shape, spec.experts)
        np.save(tmp_path / "x.npy", x)
        flags = ["--bench", "--input", f"x={tmp_path / 'x.npy'}", "--warmup", "0", "--repeat", "1"]
        rows = json.loads(program.call(flags).check().stdout)["collectives"]
        found = {row["kind"]: row["sent_by_rank"] for row in rows if "sent_by_rank" in row}
        order = np.argsort(-x[..., : spec.experts], axis=-1, kind="stable")[..., :selected]
        used = np.zeros((*shape, spec.experts), bool)
        np.put_along_axis(used, order, True, axis=-1)
        dispatch, combine = sent(used, spec.experts, spec.hidden, ranks)
        zero = [0] * ranks
        assert found.get("dispatch", zero) == dispatch, kind
        assert found.get("combine", zero) == combine, kind
        tokens = [len(samples) * shape[1] for samples in parts(shape[0], ranks)]
        whole = sum(tokens)
        gathered = sum(t * (ranks - 1) for t in tokens) * 4 * (spec.hidden + spec.experts)
        scattered = whole * (ranks - 1) * 4 * spec.hidden
        pairs = whole * selected * 4 * (2 * spec.hidden + 1) + sum(
            -(-t * spec.experts // 8) + ranks * (1 + -(-t // 8)) for t in tokens
        )
        assert sum(dispatch) + sum(combine) <= min(gathered + scattered, pairs), kind


def test_estimate_chooses(tpcc, tmp_path):
    """Few tokens are gathered; many tokens with wide rows are sent to the ranks of their experts."""
    forms = {}
    for name, spec in {
        "small": Experts(layers=1, form="mixtral"),
        "wide": Experts(layers=1, experts=16, selected=1, hidden=2048, heads=2, kv_heads=2,
                        inner=8, form="mixtral", size=8, rotary=8),
    }.items():
        path = spec.save(tmp_path / f"{name}.onnx")
        text = tmp_path / f"{name}.mlir"
        tpcc.call([path, "--megatron-shard=ep16,dp16", "--emit=spmd", "-o", text]).check()
        forms[name] = "tpc.dispatch" in text.read_text()
    assert forms == {"small": False, "wide": True}


def test_errors(tpcc, tmp_path):
    path = Experts(layers=1).save(tmp_path / "model.onnx")
    for flags, words in (
        (["--expert-dispatch=some"], ["must be auto, gather or all-to-all"]),
        (["--expert-dispatch=all-to-all", "--target=cuda"], ["cuda", "gather only"]),
    ):
        tpcc.call([path, "--megatron-shard=ep2,dp2", *flags, "-o", tmp_path / "m"]).refused(*words)

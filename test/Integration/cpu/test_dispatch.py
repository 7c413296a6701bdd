"""--expert-dispatch=all-to-all: the same bits as with gathers, and the exact number of bytes."""

import dataclasses
import itertools
import json

import numpy as np
import onnx
import pytest

from expert_files import Experts, inputs, save_with_router
from halves import as_array, as_float, halve, to_half
from harness import Grid
from simulator import UNOPTIMIZED, environment
from tpc.reference import Session, difference

FORMS = ("gather", "all-to-all")
SMALL = dict(layers=1, form="mixtral")
CASES = [("tp2,dp2,ep4,etp1", Experts(experts=5, bias=True, **SMALL))]
MORE = [
    ("pp2,ep2,dp2", Experts(form="mixtral", router_bias=(90, 80, 0, 0))),  # a rank without tokens
    ("ep4,dp4", Experts(experts=5, bias=True, **SMALL)),
    ("tp2,ep2,dp4", Experts(layers=1, form="gpt_oss", bias=True)),
    ("tp2,ep2,dp4,sp", Experts(**SMALL)),
    ("ep2,dp4,order=tp-ep-dp-pp", Experts(selected=4, **SMALL)),
    ("ep4,dp4", Experts(experts=3, selected=3, **SMALL)),  # a rank without experts
]
LONG = [pytest.param(*case, marks=pytest.mark.long) for case in MORE]


@pytest.mark.parametrize("grid, spec", [*CASES, *LONG])
def test_bits(tpcc, tmp_path, grid, spec):
    """The last batch has fewer samples than there are replicas."""
    path = spec.save(tmp_path / "model.onnx")
    feeds = [inputs(spec, 5, 3, 4), inputs(spec, 1, 6, 5), inputs(spec, 2, 0, 1)]
    found = []
    for form in FORMS:
        program = tpcc.compile(path, grid, f"--expert-dispatch={form}")
        found.append(program.run_all(feeds, ["logits"]))
    assert count_dispatches(tpcc, path, grid, tmp_path) == 1  # layers are one function
    want = Session(path, optimize=False).run(feeds[1])["logits"]
    assert difference(found[1][1]["logits"], want).relative < 2e-5
    for gathered, dispatched in zip(*found):
        assert np.array_equal(gathered["logits"], dispatched["logits"])


@pytest.mark.parametrize(
    "kind, target",
    [
        ("bf16", "cpu"),
        ("f16", "cuda"),
        pytest.param("f16", "cpu", marks=pytest.mark.long),
        pytest.param("bf16", "cuda", marks=pytest.mark.long),
    ],
)
def test_16_bits(tpcc, tmp_path, kind, target):
    """Tokens and weights of 16 bits. Sums of results are rounded once, as in the gather form; on
    GPUs in another order.
    """
    spec, path = Experts(experts=5, bias=True, **SMALL), tmp_path / "half.onnx"
    onnx.save(halve(onnx.load(spec.save(tmp_path / "single.onnx")), kind), path)
    flags, env = (UNOPTIMIZED, environment()) if target == "cuda" else ((), {})
    feeds = [inputs(spec, 5, 3, 4), inputs(spec, 1, 6, 5)]
    for feed in feeds:
        for name, x in feed.items():
            if x.dtype == np.float32:
                feed[name] = as_array(to_half(x, name, kind))
    found = []
    for form in FORMS:
        program = tpcc.compile(path, "ep4,dp4", f"--expert-dispatch={form}", *flags)
        program = dataclasses.replace(program, environment=env)
        found.append([as_float(o["logits"]) for o in program.run_all(feeds, ["logits"])])
    for gathered, dispatched in zip(*found):
        if target == "cpu":
            assert np.array_equal(gathered, dispatched)
        assert difference(gathered, dispatched).relative < (2e-3 if kind == "f16" else 1.6e-2)


def count_dispatches(tpcc, path, grid, folder, form="all-to-all", *more):
    flags = [*more, f"--megatron-shard={grid}", f"--expert-dispatch={form}", "--emit=spmd"]
    tpcc.call([path, *flags, "-o", folder / "spmd.mlir"]).check()
    return (folder / "spmd.mlir").read_text().count("= tpc.dispatch ")


@pytest.mark.parametrize("transport", ["tcp", pytest.param("mpi", marks=pytest.mark.long)])
def test_transports(tpcc, tmp_path, transport):
    spec = CASES[0][1]
    path = spec.save(tmp_path / "model.onnx")
    program = tpcc.compile(path, "ep2,dp2", "--expert-dispatch=all-to-all")
    program = dataclasses.replace(program, grid=Grid(dp=2))  # the ranks of ep are those of dp
    feeds = [inputs(spec, 3, 0, 4), inputs(spec, 2, 0, 1)]
    want = program.run_all(feeds, ["logits"])
    for a, b in zip(program.run_all(feeds, ["logits"], transport), want):
        assert np.array_equal(a["logits"], b["logits"])


def parts(n, count):
    """Returns the ranges of an even split, larger ones first."""
    sizes = [n // count + (i < n % count) for i in range(count)]
    return [range(sum(sizes[:i]), sum(sizes[: i + 1])) for i in range(count)]


def sent(selected, experts, hidden, ranks, element=4):
    """Returns the bytes that each rank sends in the dispatch and in the combine. `selected`
    [batch, sequence, experts] are booleans: the experts of each token.
    """
    batch, sequence, _ = selected.shape
    dispatch, combine = [0] * ranks, [0] * ranks
    for source, samples in enumerate(parts(batch, ranks)):
        rows = selected[samples.start : samples.stop].reshape(-1, experts)
        for target, shard in enumerate(parts(experts, ranks)):
            if source == target:
                continue
            used = rows[:, shard.start : shard.stop]
            tokens, bits = used.any(axis=1).sum(), -(-used.size // 8)
            dispatch[source] += bits + element * (tokens * hidden + used.sum())
            combine[target] += -(-len(rows) // 8) + element * tokens * hidden
    return dispatch, combine


def draw(kind, random, shape, experts, strength):
    """Returns logits [batch, sequence, experts]."""
    logits = random.standard_normal((*shape, experts))
    if kind == "one expert":
        logits[..., :2] += strength
    elif kind == "last rank":
        logits[..., -2:] += strength
    elif kind == "by sample":
        logits[np.arange(shape[0]), :, np.arange(shape[0]) % experts] += strength
    elif kind == "alternating":
        logits[:, ::2, 0] += strength
        logits[:, 1::2, -1] += strength
    elif kind == "own rank":
        logits[np.arange(shape[0]), :, np.arange(shape[0]) * experts // shape[0]] += strength
    return logits.astype(np.float32)


DEGENERATE = ["one expert", "last rank", "by sample", "alternating", "own rank"]


MANY = [
    pytest.param(*case, marks=pytest.mark.long)
    for case in ((4, 2, 20, ""), (2, 3, 20, ""), (4, 2, 20, "f16"))
]


@pytest.mark.parametrize("ranks, selected, count, half", [(3, 2, 4, ""), (2, 2, 2, "f16"), *MANY])
def test_bytes(tpcc, tmp_path, ranks, selected, count, half):
    """The counters are the exact formula for random and degenerate routings, and at most the bytes
    of the gather, and of one message for each token and selected expert.
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
    onnx.save(halve(model, half) if half else model, path)
    grid, element = f"ep{ranks},dp{ranks}", 2 if half else 4
    program = tpcc.compile(path, grid, "--expert-dispatch=all-to-all")
    random = np.random.default_rng(6)
    for number, kind in enumerate([*DEGENERATE, *["random"] * count]):
        shape = (int(random.integers(1, 7)), int(random.integers(1, 5)))
        x = random.standard_normal((*shape, spec.hidden)).astype(np.float32)
        x[..., : spec.experts] = draw(kind, random, shape, spec.experts, 8 if half else 40)
        x = x.astype(np.float16 if half else np.float32)
        np.save(tmp_path / "x.npy", x)
        flags = ["--bench", "--input", f"x={tmp_path / 'x.npy'}", "--warmup", "0", "--repeat", "1"]
        rows = json.loads(program.call(flags).check().stdout)["collectives"]
        found = {row["kind"]: row["sent_by_rank"] for row in rows if "sent_by_rank" in row}
        order = np.argsort(-x[..., : spec.experts], axis=-1, kind="stable")[..., :selected]
        used = np.zeros((*shape, spec.experts), bool)
        np.put_along_axis(used, order, True, axis=-1)
        dispatch, combine = sent(used, spec.experts, spec.hidden, ranks, element)
        zero = [0] * ranks
        assert found.get("dispatch", zero) == dispatch, kind
        assert found.get("combine", zero) == combine, kind
        tokens = [len(samples) * shape[1] for samples in parts(shape[0], ranks)]
        whole = sum(tokens)
        gathered = sum(t * (ranks - 1) for t in tokens) * element * (spec.hidden + spec.experts)
        scattered = whole * (ranks - 1) * element * spec.hidden
        pairs = whole * selected * element * (2 * spec.hidden + 1) + sum(
            -(-t * spec.experts // 8) + ranks * (1 + -(-t // 8)) for t in tokens
        )
        assert sum(dispatch) + sum(combine) <= min(gathered + scattered, pairs), kind
        if number not in (1, 7, 8):
            continue
        np.save(tmp_path / "used.npy", used.reshape(-1, spec.experts))
        flags = ["--shape", f"batch={shape[0]},sequence={shape[1]}", "--report=-"]
        flags += ["--expert-dispatch=all-to-all", f"--routing={tmp_path / 'used.npy'}"]
        report = tpcc.call([path, f"--megatron-shard={grid}", *flags]).check().stdout
        rows = json.loads(report)["experts"]
        assert [row["routing"]["dispatch"] for row in rows] == dispatch
        assert [row["routing"]["combine"] for row in rows] == combine
        assert [row["experts"] for row in rows] == [len(shard) for shard in parts(6, ranks)]


def test_uniform_routing(tpcc, tmp_path):
    """The report's bytes for uniform routing are the mean over all sets of experts."""
    spec = Experts(experts=5, selected=2, hidden=8, inner=4)
    save_with_router(spec, tmp_path / "model.onnx")
    flags = ["--shape", "batch=4,sequence=10", "--report=-", "--expert-dispatch=all-to-all"]
    call = [tmp_path / "model.onnx", "--megatron-shard=ep4,dp4", *flags]
    rows = json.loads(tpcc.call(call).check().stdout)["experts"]
    # Every set for one token of each sample: ten tokens.
    sets = list(itertools.combinations(range(5), 2))
    selected = np.zeros((4, 10, 5), bool)
    for token, chosen in enumerate(sets):
        selected[:, token, list(chosen)] = True
    dispatch, combine = sent(selected, 5, 8, 4)
    assert [row["uniform"]["dispatch"] for row in rows] == dispatch
    assert [row["uniform"]["combine"] for row in rows] == combine


def test_estimate_chooses(tpcc, tmp_path):
    """Tokens are gathered if messages are slow to start, and sent to the ranks of their experts if
    bytes are slow.
    """
    path = Experts(experts=8, selected=1, **SMALL).save(tmp_path / "model.onnx")
    counts = []
    for alpha, beta in ((1e-3, 0), (0, 1e-9)):
        links = tmp_path / "links.json"
        links.write_text(f'{{"intra_node": {{"alpha": {alpha}, "beta": {beta}}}}}')
        counts.append(count_dispatches(tpcc, path, "ep8,dp8", tmp_path, "auto", f"--links={links}"))
    assert counts == [0, 1]


def test_simulated_routing(tpcc, tmp_path):
    """Exchanges of a simulated step have the bytes of the routing on the rank that sends the most,
    and the time of experts is that of the busiest rank.
    """
    path = Experts(layers=2, experts=8).save(tmp_path / "model.onnx")
    shape = "batch_size=64,sequence_length=4,past_sequence_length=8"
    flags = ["--expert-dispatch=all-to-all", "--machine=epyc-2core", "--json", "--shape", shape]
    chosen = np.zeros((3, 256, 8), np.uint8)
    chosen[0, :, :2] = chosen[1, :, [0, 7]] = 1  # experts of one rank; one expert of each rank
    for token in range(256):  # all experts equally often
        chosen[2, token, [token % 8, (token + 4) % 8]] = 1
    steps = {}
    for name, grid, used in (
        ("uniform", "dp2,ep2", None),
        ("one rank", "dp2,ep2", chosen[0]),
        ("both ranks", "dp2,ep2", chosen[1]),
        ("even", "dp2,ep2", chosen[2]),
    ):
        more = []
        if used is not None:
            np.save(tmp_path / "used.npy", used)
            more = [f"--routing={tmp_path / 'used.npy'}"]
        arguments = [path, f"--megatron-shard={grid}", "--simulate", "--no-verify", *flags, *more]
        steps[name] = json.loads(tpcc.call(arguments).check().stdout)["steps"][0]
        if used is None:
            continue
        report = tmp_path / "report.json"
        arguments = [path, f"--megatron-shard={grid}", flags[0], "--shape", shape, *more]
        tpcc.call([*arguments, "--emit=staged", "-o", tmp_path / "x", f"--report={report}"]).check()
        rows = json.loads(report.read_text())["experts"]
        for kind in ("dispatch", "combine"):
            found = next(row for row in steps[name]["collectives"] if row["kind"] == kind)
            assert found["bytes"] == max(row["routing"][kind] for row in rows), (name, kind)

    def seconds(name, kind):
        return sum(row["seconds"] for row in steps[name]["calls"] if row["kind"] == kind)

    assert seconds("even", "experts") == pytest.approx(seconds("uniform", "experts"))
    assert seconds("both ranks", "experts") < seconds("one rank", "experts")
    assert seconds("one rank", "dispatch") > 0
    arguments = [path, "--megatron-shard=auto", "--devices=2", *flags[1:]]
    uniform = json.loads(tpcc.call(arguments).check().stdout)
    np.save(tmp_path / "used.npy", chosen[0])
    more = f"--routing={tmp_path / 'used.npy'}"
    routed = json.loads(tpcc.call([*arguments, more]).check().stdout)
    grids = {row["grid"]: row["step"]["seconds"] for row in uniform["best"]}
    for row in routed["best"]:
        if row["grid"] in grids and "ep2" in row["grid"]:
            assert row["step"]["seconds"] != grids[row["grid"]]
    np.save(tmp_path / "used.npy", chosen[0, :9])
    words = "the routing is of 9 tokens and 8 experts", "has 256 tokens"
    tpcc.call([*arguments, more]).refused(*words)
    tpcc.call([*arguments, "--routing=none.npy"]).refused("--routing=none.npy")


def test_errors(tpcc, tmp_path):
    path = Experts(layers=1).save(tmp_path / "model.onnx")
    for flags, words in (
        (["--expert-dispatch=some"], ["must be auto, gather or all-to-all"]),
        (["--routing=x.npy"], ["--routing", "--report"]),
        (["--routing=x.npy", "--simulate", "--generate"], ["leave out --generate"]),
    ):
        tpcc.call([path, "--megatron-shard=ep2,dp2", *flags, "-o", tmp_path / "m"]).refused(*words)

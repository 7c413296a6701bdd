"""Mixtures of experts: ONNX Runtime's results, experts of each rank, work of selected experts."""

import numpy as np
import onnx
import pytest

from expert_files import Experts, inputs, single
from genai_files import GenAi
from halves import as_array, as_float, halve, rounded_weights, to_half
from quantized_files import Blocks, with_quantized_experts
from tpc.reference import Session, difference

SWIGLU = (("activation_alpha", 1.702), ("activation_beta", 1.0), ("swiglu_limit", 7.0))
OSS = dict(activation="swiglu", fused=1, bias=True, moe=SWIGLU)


CASES = [
    ("ep2", Experts(form="mixtral")),
    ("tp2,ep2", Experts(form="gpt_oss", bias=True)),
    ("tp2,ep2,etp1", Experts(**OSS)),
    ("ep4", Experts(experts=5, bias=True, form="mixtral")),
    ("tp2,ep4,etp1", Experts(experts=3, selected=3, **OSS)),  # a rank without experts
    ("pp2,ep2,mb2", Experts(form="gpt_oss")),
    ("tp3,sp", Experts(inner=20, bias=True)),  # 7, 7 and 6 columns of each expert
    ("ep2", Experts(router_bias=(90, 80, 0, 0), form="mixtral")),  # a rank without tokens
    ("ep4", Experts(selected=1, router_bias=(0, 0, 90, 0), form="mixtral")),  # one expert has all
    # Replicas exchange tokens: the ranks of a sample are not the ranks of its experts.
    ("ep4,dp4", Experts(experts=5, bias=True, form="mixtral")),
    ("tp2,ep2,dp2", Experts(**OSS)),
    ("tp2,dp2,ep4,etp1", Experts(form="gpt_oss", bias=True)),
    ("pp2,ep2,dp2", Experts(form="mixtral")),
    ("tp2,ep2,dp4", Experts(form="gpt_oss", bias=True)),  # two groups of replicas
    ("ep2,dp4,order=tp-ep-dp-pp", Experts(form="mixtral", selected=4)),
    # Experts over some of the ranks of tp, the inner width over the others.
    ("tp4,ep2,etp2,dp2", Experts(experts=5, **OSS)),
    ("tp4,ep4,etp2,dp2,sp", Experts(form="gpt_oss", bias=True)),
]


# Other cases have these grids with one more axis.
LONG = ("tp2,ep2,etp1", "tp2,ep2,dp2")


@pytest.mark.parametrize(
    "grid, spec",
    [
        pytest.param(
            grid, spec, id=f"{grid}-{i}", marks=pytest.mark.long if grid in LONG else []
        )
        for i, (grid, spec) in enumerate(CASES)
    ],
)
def test_models(tpcc, tmp_path, grid, spec):
    path = spec.save(tmp_path / "model.onnx")
    program = tpcc.compile(path, grid)
    session = Session(path, optimize=False)
    feeds = [inputs(spec, 5, 3, 1), inputs(spec, 1, 6, 4)]
    found = program.run_all(feeds, list(session.outputs))
    for feed, outputs in zip(feeds, found):
        for name, value in session.run(feed).items():
            error = difference(outputs[name], value)
            assert error.relative < 2e-5, (name, str(error))


# The layer alone, with all activations of com.microsoft.MoE that ONNX Runtime's CPU kernel has.
SINGLE = [
    Experts(activation="relu", selected=1),
    Experts(activation="gelu", bias=True, normalized=False),
    Experts(activation="identity", experts=6, selected=4),
    Experts(activation="swiglu", fused=1),
    Experts(**OSS),
    Experts(selected=4, bias=True),  # all experts
    Experts(form="mixtral"),
    Experts(form="gpt_oss", bias=True, selected=3),
]


def run_single(tpcc, path, spec, grid, tokens, logits=None):
    model = single(spec)
    onnx.save(model, path)
    random = np.random.default_rng(5)
    feed = {
        "x": random.standard_normal((tokens, spec.hidden)).astype(np.float32),
        "logits": random.standard_normal((tokens, spec.experts)).astype(np.float32),
    }
    if logits is not None:
        feed["logits"] = np.asarray(logits, np.float32)
    name = model.graph.output[0].name
    return feed, name, tpcc.compile(path, grid).run(feed, [name])[name]


@pytest.mark.parametrize(
    "spec", SINGLE, ids=[f"{s.form}-{s.activation}-{i}" for i, s in enumerate(SINGLE)]
)
def test_one_layer(tpcc, tmp_path, spec):
    path = tmp_path / "experts.onnx"
    feed, name, found = run_single(tpcc, path, spec, "tp1", 11)
    want = Session(path, optimize=False).run({k: v.copy() for k, v in feed.items()})[name]
    assert difference(found, want).relative < 2e-5


@pytest.mark.parametrize(
    "grid, spec, q",
    [
        ("tp2,ep2,etp1", Experts(**OSS, hidden=32, inner=32), Blocks(4, 16)),
        ("ep2", Experts(hidden=32, inner=32, experts=5), Blocks(4, 16, "packed")),
        ("tp3", Experts(hidden=32, inner=24), Blocks(8, 0)),
        ("ep2", Experts(hidden=32, inner=24, bias=True), Blocks(4, 0, "packed")),
    ],
    ids=["blocks", "zeros", "rows", "zeros-of-rows"],
)
def test_quantized_experts(tpcc, tmp_path, grid, spec, q):
    path = tmp_path / "experts.onnx"
    model = with_quantized_experts(single(spec), q)
    onnx.save(model, path)
    random = np.random.default_rng(5)
    feed = {
        "x": random.standard_normal((9, spec.hidden)).astype(np.float32),
        "logits": random.standard_normal((9, spec.experts)).astype(np.float32),
    }
    name = model.graph.output[0].name
    found = tpcc.compile(path, grid).run(feed, [name])[name]
    wanted = Session(path, optimize=False).run({k: v.copy() for k, v in feed.items()})[name]
    assert difference(found, wanted).relative < 2e-5


def test_ties_select_the_lowest_index(tpcc, tmp_path):
    """The first of equal logits are selected."""
    spec = Experts()
    logits = [[0, 0, 0, 0], [1, 1, 1, 1], [0, 2, 0, 0], [3, 1, 3, 3]]
    path = tmp_path / "experts.onnx"
    feed, name, found = run_single(tpcc, path, spec, "tp1", 4, logits)
    model = onnx.load(path)
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    for token, experts in enumerate([(0, 1), (0, 1), (1, 0), (0, 2)]):
        p = np.exp(np.asarray(logits[token]) - max(logits[token]))
        gates = p[list(experts)] / p[list(experts)].sum()
        want = 0
        for gate, expert in zip(gates, experts):
            h = weights["moe.fc1"][expert] @ feed["x"][token]
            want = want + gate * (weights["moe.fc2"][expert] @ (h / (1 + np.exp(-h))))
        assert difference(found[token], want).relative < 2e-5, token


SHAPE = "batch_size=1,sequence_length=2,past_sequence_length=0"


def test_experts_of_a_rank(tpcc, tmp_path):
    """The weights of a rank are those of its experts: ceil(experts / ep), or fewer."""
    spec = Experts(experts=5, layers=1, form="mixtral")
    path = spec.save(tmp_path / "model.onnx")
    expert = 3 * spec.inner * spec.hidden * 4
    others = tpcc.compile(path, "tp1").describe()["ranks"][0]["weight_bytes"] - 5 * expert
    for grid, counts in (("ep4", (2, 1, 1, 1)), ("ep2", (3, 2)), ("ep6", (1, 1, 1, 1, 1, 0))):
        ranks = tpcc.compile(path, grid).describe()["ranks"]
        found = sorted(((rank["weight_bytes"] - others) / expert for rank in ranks), reverse=True)
        assert found == list(counts), (grid, found)
        report = tpcc.call([path, f"--megatron-shard={grid}", "--report=-", "--shape", SHAPE])
        most = f"at most {max(counts)} on a rank" if min(counts) else "1 without any"
        assert f"over ep {len(counts)} ({most})" in report.check().stdout


@pytest.mark.parametrize(
    "kind, grid, spec",
    [
        ("f16", "tp2,ep2,etp1", Experts(layers=1, **OSS)),
        ("bf16", "ep2", Experts(layers=1, form="mixtral")),
        pytest.param("bf16", "tp2,ep2,etp1", Experts(layers=1, **OSS), marks=pytest.mark.long),
        pytest.param("f16", "ep2", Experts(layers=1, form="mixtral"), marks=pytest.mark.long),
    ],
)
def test_experts_in_16_bits(tpcc, tmp_path, kind, grid, spec):
    """Weights of experts stay in 16 bits in memory. The results are those of the same weights in
    f32, rounded once.
    """
    model = rounded_weights(single(spec), kind)
    stacks = [t.dims for t in model.graph.initializer if len(t.dims) == 3]
    random = np.random.default_rng(5)
    feed = {
        name: to_half(random.standard_normal((9, width)).astype(np.float32), name, kind)
        for name, width in (("x", spec.hidden), ("logits", spec.experts))
    }
    name, found, sizes = model.graph.output[0].name, [], []
    for part, number in (("single", as_float), ("half", lambda array: array)):
        onnx.save(model, tmp_path / f"{part}.onnx")
        program = tpcc.compile(tmp_path / f"{part}.onnx", grid)
        sizes.append(sum(rank["weight_bytes"] for rank in program.describe()["ranks"]))
        inputs = {k: number(as_array(v)) for k, v in feed.items()}
        found.append(as_float(program.run(inputs, [name])[name]))
        model = halve(model, kind)
    elements = sum(int(np.prod(dims)) for dims in stacks)
    assert sizes[0] - sizes[1] >= 2 * elements and 2 * sizes[1] == sizes[0]
    assert difference(found[1], found[0]).relative < (1e-3 if kind == "f16" else 6e-3)


WIDE = dict(hidden=72, inner=102)  # several panels of all kernels, and rows that fill none


@pytest.mark.parametrize("kernels", ["", "generic"])
@pytest.mark.parametrize(
    "grid, spec",
    [
        ("tp1", Experts(**WIDE, **OSS)),
        ("ep2", Experts(**WIDE, experts=5, form="mixtral")),
        ("tp3", Experts(**WIDE, bias=True)),
        ("tp2,ep2", Experts(**WIDE, **OSS)),
        ("tp2,ep4,etp1", Experts(**WIDE, experts=3, selected=3, form="gpt_oss", bias=True)),
    ],
)
def test_packed_experts(tpcc, tmp_path, grid, spec, kernels):
    """Ranks pack the matrices of their experts without padding. A token has the bits that it has
    in a batch.
    """
    path, tokens = tmp_path / "experts.onnx", 13
    feed, name, _ = run_single(tpcc, path, spec, grid, tokens)
    program = tpcc.compile(path, grid)
    env = {"TPC_CPU": kernels}
    run = lambda inputs: program.run(inputs, [name], env=env)[name]
    found = run(feed)
    wanted = Session(path, optimize=False).run({k: v.copy() for k, v in feed.items()})[name]
    assert difference(found, wanted).relative < 2e-5
    for token in range(0, tokens, 4):
        alone = run({key: value[token : token + 1] for key, value in feed.items()})
        assert np.array_equal(alone[0], found[token])
    bytes_of = [p["bytes"] for p in program.describe()["parameters"] if p["use"] == "experts"]
    assert len(bytes_of) == (3 if spec.fused or spec.form != "microsoft" else 2)
    for sizes in bytes_of:
        assert sum(sizes) == 4 * spec.experts * spec.inner * spec.hidden


def test_experts_of_shared_weights(tpcc, tmp_path):
    """Two layers with the same experts store them once. A weight that another op reads too is not
    packed.
    """
    spec = Experts(**WIDE, bias=True)
    model = single(spec)
    first = next(node for node in model.graph.node if node.op_type == "MoE")
    second = onnx.NodeProto()
    second.CopyFrom(first)
    second.name, second.input[0], second.output[0] = "second", first.output[0], "twice"
    result = model.graph.output[0]
    model.graph.node.append(second)
    for scaled in (False, True):
        if scaled:
            helper = onnx.helper.make_node
            model.graph.node.append(helper("Exp", [first.input[2]], ["exp"]))
            model.graph.node.append(helper("ReduceMax", ["exp"], ["largest"], keepdims=0))
            model.graph.node.append(helper("Mul", ["twice", "largest"], ["scaled"]))
        result.name = model.graph.node[-1].output[0]
        path = tmp_path / f"{result.name}.onnx"
        onnx.save(model, path)
        random = np.random.default_rng(5)
        feed = {
            "x": random.standard_normal((9, spec.hidden)).astype(np.float32),
            "logits": random.standard_normal((9, spec.experts)).astype(np.float32),
        }
        program = tpcc.compile(path, "ep2")
        wanted = Session(path, optimize=False).run({k: v.copy() for k, v in feed.items()})
        found = program.run(feed, [result.name])[result.name]
        assert difference(found, wanted[result.name]).relative < 2e-5
        uses = [(p["name"], p["use"]) for p in program.describe()["parameters"]]
        assert (first.input[2], "dense" if scaled else "experts") in uses
        assert uses.count((first.input[4], "experts")) == 1


def test_work_is_that_of_selected_experts(tpcc, tmp_path):
    """A weight of infinities has no effect if no token selects its expert."""
    spec = Experts(layers=1, form="mixtral", router_bias=(90, 80, 0, 0))
    model = onnx.load(spec.save(tmp_path / "model.onnx"))
    path, feed = tmp_path / "infinite.onnx", inputs(spec, 5, 0, 2)
    want = tpcc.compile(tmp_path / "model.onnx", "ep2").run(feed, ["logits"])["logits"]
    for tensor in model.graph.initializer:
        if tensor.name.endswith((".up", ".down")):
            value = onnx.numpy_helper.to_array(tensor).copy()
            value[2:] = np.inf
            tensor.CopyFrom(onnx.numpy_helper.from_array(value, tensor.name))
    onnx.save(model, path)
    assert np.array_equal(tpcc.compile(path, "ep2").run(feed, ["logits"])["logits"], want)


REFUSED = [
    ("ep4,dp6", Experts(), ["'ep4,dp6'", "the replicas of dp6", "dp6,ep3"]),
    ("tp2,ep2,dp2", None, ["ep2: the model has no mixture of experts"]),
    ("ep2,dp2,mb2", Experts(), ["ep over the replicas of dp2 with mb2", "remove mb or dp"]),
    ("tp4,ep2,etp3", Experts(), ["etp3 does not divide tp4", "fits is tp4,ep2"]),
    ("ep2", None, ["ep2: the model has no mixture of experts"]),
    ("tp1", Experts(moe=(("use_sparse_mixer", 1),)), ["MoE", "use_sparse_mixer = 1"]),
    ("tp1", Experts(activation="swiglu"), ["MoE", "swiglu_fusion = 0"]),
    ("tp1", Experts(activation="tanh"), ["MoE", "activation_type = 'tanh'"]),
    ("tp1", Experts(selected=5), ["MoE", "k = 5", "the number of experts, 4"]),
]


@pytest.mark.parametrize("grid, spec, words", REFUSED, ids=[w[0][:12] + g for g, _, w in REFUSED])
def test_errors(tpcc, tmp_path, grid, spec, words):
    path = (spec or GenAi()).save(tmp_path / "model.onnx")
    tpcc.call([path, f"--megatron-shard={grid}", "-o", tmp_path / "m"]).refused(*words)

"""Mixtures of experts on GPUs: ONNX Runtime's results, over the simulated libraries."""

import dataclasses
import json

import numpy as np
import onnx
import pytest

from expert_files import Experts, inputs, save_with_router, single
from halves import as_array, as_float, halve, rounded_weights, to_half
from models import MODELS as FOLDER
from simulator import FLAGS, UNOPTIMIZED, environment
from tpc.reference import Session, difference

SWIGLU = (("activation_alpha", 1.702), ("activation_beta", 1.0), ("swiglu_limit", 0.5))
OSS = dict(activation="swiglu", fused=1, bias=True, moe=SWIGLU)
EXPORTED = [
    path.stem for path in sorted((FOLDER / "experts").glob("*.onnx")) if path.stem != "looped"
]
SMALL = dict(layers=1, hidden=32, heads=2, kv_heads=2, size=16, rotary=16)
MODELS = [
    ("tp4,ep2,etp2", Experts(form="gpt_oss", bias=True, **SMALL)),
    ("ep4,dp4", Experts(experts=3, **OSS, **SMALL)),
]


@pytest.mark.parametrize("grid, spec", MODELS, ids=[grid for grid, _ in MODELS])
def test_models(tpcc, tmp_path, grid, spec):
    path = spec.save(tmp_path / "model.onnx")
    program, session = tpcc.compile(path, grid, *FLAGS), Session(path, optimize=False)
    feeds = [inputs(spec, 5, 3, 1), inputs(spec, 1, 6, 2)]
    found = program.run_all(feeds, list(session.outputs), env=environment())
    for feed, outputs in zip(feeds, found):
        for name, value in session.run(feed).items():
            error = difference(outputs[name], value)
            assert error.relative < 2e-5, (name, str(error))


ROUTED = [
    ("ep4,dp4", Experts(experts=5, bias=True, form="mixtral", **SMALL)),
    pytest.param(
        # Two groups of replicas; a rank without tokens.
        *("tp2,ep2,dp4", Experts(form="gpt_oss", router_bias=(90, 80, 0, 0), **SMALL)),
        marks=pytest.mark.long,
    ),
    # All tokens select one expert; all experts; a rank without experts; an expert on two ranks.
    *(
        pytest.param(*case, marks=pytest.mark.long)
        for case in (
            ("ep4,dp4", Experts(form="mixtral", selected=1, router_bias=(0, 0, 90, 0), **SMALL)),
            ("ep2,dp4,order=tp-ep-dp-pp", Experts(form="mixtral", selected=4, **SMALL)),
            ("ep4,dp4", Experts(experts=3, selected=3, form="mixtral", **SMALL)),
            ("tp2,dp2,ep4,etp1", Experts(**OSS, **SMALL)),
            ("tp4,ep4,etp2,dp2,sp", Experts(experts=5, **OSS, **SMALL)),
            ("pp2,ep2,dp2", Experts(form="mixtral", **(SMALL | {"layers": 2}))),
            ("tp2,ep2,dp2,sp", Experts(form="mixtral", **SMALL)),
        )
    ),
]


@pytest.mark.parametrize("grid, spec", ROUTED)
def test_all_to_all(tpcc, tmp_path, grid, spec):
    """Ranks send tokens to the ranks of their experts: the CPU's numbers and bytes."""
    path = spec.save(tmp_path / "model.onnx")
    feeds = [inputs(spec, 5, 3, 4), inputs(spec, 1, 6, 5), inputs(spec, 2, 0, 1)]
    check_all_to_all(tpcc, tmp_path, path, grid, feeds)


@pytest.mark.long
@pytest.mark.parametrize("grid", ["ep2,dp2", "ep4,dp4", "tp2,ep2,dp2"])
@pytest.mark.parametrize("name", EXPORTED)
def test_all_to_all_of_files(tpcc, tmp_path, name, grid):
    random = np.random.default_rng(8)
    feeds = [{"input_ids": random.integers(0, 60, shape)} for shape in ((4, 5), (1, 3))]
    check_all_to_all(tpcc, tmp_path, FOLDER / "experts" / f"{name}.onnx", grid, feeds)


@pytest.mark.long
@pytest.mark.parametrize("grid", ["tp1", "ep2", "ep4", "tp2,ep2", "tp2,ep4,etp1", "ep4,dp4"])
@pytest.mark.parametrize("name", EXPORTED)
def test_files(tpcc, name, grid):
    path, random = FOLDER / "experts" / f"{name}.onnx", np.random.default_rng(8)
    session, program = Session(path), tpcc.compile(path, grid, *FLAGS, "--expert-dispatch=gather")
    feeds = [{"input_ids": random.integers(0, 60, shape)} for shape in ((4, 5), (1, 3))]
    for feed, found in zip(feeds, program.run_all(feeds, ["logits"], env=environment())):
        assert difference(found["logits"], session.run(feed)["logits"]).relative < 2e-5


def check_all_to_all(tpcc, tmp_path, path, grid, feeds):
    flags, programs = ("--expert-dispatch=all-to-all",), []
    for more, env in (((), {}), (FLAGS, environment(TPC_SIM_SEED=3))):
        program = tpcc.compile(path, grid, *flags, *more)
        programs.append(dataclasses.replace(program, environment=env))
    session = Session(path, optimize=False)
    found = [program.run_all(feeds, ["logits"]) for program in programs]
    for feed, cpu, gpu in zip(feeds, *found):
        assert difference(gpu["logits"], cpu["logits"]).relative < 2e-5
        batch, tokens = feed["input_ids"].shape
        # ONNX Runtime's attention rejects other shapes with caches.
        if len(feed) == 1 or min(batch, tokens) == 1:
            assert difference(gpu["logits"], session.run(feed)["logits"]).relative < 2e-5
    # Ranks that share a GPU exchange tokens through the host.
    shared = dataclasses.replace(programs[1], environment=environment(TPC_SIM_DEVICES=1))
    for gpu, host in zip(found[1], shared.run_all(feeds, ["logits"], arguments=["--share-gpus"])):
        assert difference(host["logits"], gpu["logits"]).relative < 2e-5
    for name, value in feeds[0].items():
        np.save(tmp_path / f"{name}.npy", value)
    flags = [f"--input={name}={tmp_path / name}.npy" for name in feeds[0]]
    rows = []
    for program in programs:
        text = program.call(["--bench", *flags, "--warmup=0", "--repeat=1"]).check().stdout
        rows.append({row["kind"]: row for row in json.loads(text)["collectives"]})
    for kind in ("dispatch", "combine"):
        assert rows[0][kind]["sent_by_rank"] == rows[1][kind]["sent_by_rank"]


LAYERS = [
    Experts(activation="relu", selected=1),
    Experts(activation="gelu", bias=True, normalized=False),
    Experts(activation="identity", experts=6, selected=4),
    Experts(**OSS),
]


def run(tpcc, path, spec, logits):
    """Returns the results of the GPU and of ONNX Runtime."""
    model = onnx.load(path)
    x = np.random.default_rng(5).standard_normal((len(logits), spec.hidden))
    feed = {"x": x.astype(np.float32), "logits": logits.astype(np.float32)}
    name = model.graph.output[0].name
    found = tpcc.compile(path, "tp1", *FLAGS).run(feed, [name], env=environment())[name]
    return found, Session(path, optimize=False).run({k: v.copy() for k, v in feed.items()})[name]


@pytest.mark.parametrize("spec", LAYERS, ids=[f"{s.activation}-{s.fused}" for s in LAYERS])
def test_one_layer(tpcc, tmp_path, spec):
    path = tmp_path / "experts.onnx"
    onnx.save(single(spec), path)
    # Each expert has rows in several tiles.
    logits = np.random.default_rng(6).standard_normal((70, spec.experts))
    found, want = run(tpcc, path, spec, logits)
    assert difference(found, want).relative < 2e-5


def cast_matrices(model, kind):
    """Rounds the matrices of experts to 16 bits, and widens them by casts."""
    casts = []
    for tensor in model.graph.initializer:
        if len(tensor.dims) == 3:
            name, array = tensor.name, onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(to_half(array, f"{name}.half", kind))
            casts.append(onnx.helper.make_node("Cast", [tensor.name], [name], to=1))
    for node in reversed(casts):
        model.graph.node.insert(0, node)
    return model


def draw(spec, counts):
    """Returns inputs of one mixture of experts for each number of tokens."""
    random, shapes = np.random.default_rng(5), {"x": spec.hidden, "logits": spec.experts}
    return [
        {
            name: random.standard_normal((tokens, width)).astype(np.float32)
            for name, width in shapes.items()
        }
        for tokens in counts
    ]


@pytest.mark.parametrize(
    "kind, spec, counts",
    [
        # Rows of 33 chunks of 16 bytes, and rows that are not aligned.
        ("f16", Experts(activation="relu", bias=True, inner=264, hidden=16), (11, 40)),
        ("bf16", Experts(inner=27), (1, 40)),
        # Halves of one matrix, adjacent and interleaved.
        ("f16", Experts(form="mixtral"), (3,)),
        pytest.param("bf16", Experts(form="gpt_oss"), (3,), marks=pytest.mark.long),
        # The workspace has 127 rows; 128 tokens have 256 pairs of token and expert.
        pytest.param("bf16", Experts(inner=8192, hidden=8), (17, 128), marks=pytest.mark.long),
        pytest.param("bf16", Experts(inner=1048, bias=True), (1, 40), marks=pytest.mark.long),
        pytest.param("f16", Experts(hidden=33, bias=True), (1, 40), marks=pytest.mark.long),
    ],
)
def test_matrices_in_16_bits(tpcc, tmp_path, kind, spec, counts):
    """GPUs read matrices in 16 bits, and compute in f32."""
    path, feeds = tmp_path / "experts.onnx", draw(spec, counts)
    onnx.save(cast_matrices(single(spec), kind), path)
    exact = single(spec)
    for tensor in exact.graph.initializer:
        if len(tensor.dims) == 3:
            half = as_array(to_half(onnx.numpy_helper.to_array(tensor), tensor.name, kind))
            tensor.CopyFrom(onnx.numpy_helper.from_array(as_float(half), tensor.name))
    session, name = Session(exact.SerializeToString(), optimize=False), exact.graph.output[0].name
    program = tpcc.compile(path, "tp1", *FLAGS)
    sizes = [(2 if len(t.dims) == 3 else 4) * np.prod(t.dims) for t in exact.graph.initializer]
    assert program.describe()["ranks"][0]["weight_bytes"] <= sum(sizes)
    for feed, found in zip(feeds, program.run_all(feeds, [name], env=environment())):
        want = session.run({k: v.copy() for k, v in feed.items()})[name]
        assert difference(found[name], want).relative < 2e-5


@pytest.mark.parametrize(
    "kind, spec",
    [
        ("bf16", Experts(inner=72, hidden=40, **OSS)),
        pytest.param("f16", Experts(inner=72, hidden=40, **OSS), marks=pytest.mark.long),
        pytest.param("bf16", Experts(form="mixtral"), marks=pytest.mark.long),
        pytest.param("f16", Experts(form="mixtral"), marks=pytest.mark.long),
    ],
)
def test_layer_in_16_bits(tpcc, tmp_path, kind, spec):
    """Results of experts with gates are those of the same numbers in f32, rounded once."""
    model = rounded_weights(single(spec), kind)
    session, name = Session(model.SerializeToString(), optimize=False), model.graph.output[0].name
    onnx.save(halve(model, kind), tmp_path / "half.onnx")
    tensors = [
        {key: as_array(to_half(value, key, kind)) for key, value in feed.items()}
        for feed in draw(spec, (1, 11, 40))
    ]
    program = tpcc.compile(tmp_path / "half.onnx", "tp1", *FLAGS)
    for feed, found in zip(tensors, program.run_all(tensors, [name], env=environment())):
        want = session.run({key: as_float(value) for key, value in feed.items()})[name]
        off = difference(as_float(found[name]), want).relative
        assert off < (1e-3 if kind == "f16" else 6e-3)


def test_weights_of_other_experts_are_not_read(tpcc, tmp_path):
    """A weight of infinities has no effect if no token selects its expert."""
    spec, model = Experts(form="mixtral"), single(Experts(form="mixtral"))
    for tensor in model.graph.initializer:
        if tensor.name.endswith((".up", ".down")):
            value = onnx.numpy_helper.to_array(tensor).copy()
            value[2:] = np.inf
            tensor.CopyFrom(onnx.numpy_helper.from_array(value, tensor.name))
    onnx.save(model, tmp_path / "infinite.onnx")
    found, want = run(tpcc, tmp_path / "infinite.onnx", spec, np.array([[9, 8, 0, 0]] * 3))
    assert np.isfinite(found).all() and difference(found, want).relative < 2e-5


def test_memory_of_messages(tpcc, tmp_path):
    """The estimate before loading includes messages with room for all tokens."""
    save_with_router(Experts(experts=5, inner=8, hidden=256), tmp_path / "model.onnx")
    flags = (*UNOPTIMIZED, "--expert-dispatch=all-to-all")
    program = tpcc.compile(tmp_path / "model.onnx", "ep4,dp4", *flags)
    usage, flags = tmp_path / "usage", ["--bench", "--warmup=0", "--repeat=1"]
    # More than one page of tokens.
    flags += ["--shape", "batch=9,sequence=100"]
    program.call(flags, env=environment(TPC_SIM_USAGE=usage)).check()
    most = max(int(line.split()[1]) for line in usage.read_text().splitlines())
    program.call(flags, env=environment(TPC_SIM_MEMORY=most)).check()
    message = program.call(flags, env=environment(TPC_SIM_MEMORY=most - 1))
    message.refused(f"({most} bytes)", "Nothing was loaded")

"""Generations with mixtures of experts: ONNX Runtime's tokens."""

import dataclasses

import numpy as np
import onnx
import pytest

from expert_files import Experts
from generation import generate
from halves import HALVES, as_float, halve, rounded_weights
from models import MODELS
from simulator import UNOPTIMIZED, environment
from test_genai_files import greedy
from tpc.reference import TOLERANCE, Session, difference

CASES = [
    ("tp2,ep2,etp1", Experts(bias=True)),
    ("ep4", Experts(form="mixtral", experts=5)),
    ("tp2,pp2", Experts(form="gpt_oss", bias=True)),
    ("ep2,dp4", Experts(form="gpt_oss", router_bias=(90, 80, 0, 0))),  # a rank without tokens
]


@pytest.mark.parametrize("grid, spec", CASES, ids=[grid for grid, _ in CASES])
def test_generates(tpcc, tmp_path, grid, spec):
    check_tokens(tpcc, spec.save(tmp_path / "model.onnx"), grid, spec)


def check_tokens(tpcc, path, grid, spec):
    program, session = tpcc.compile(path, grid, "--generate"), Session(path, optimize=False)
    for prompt in ([12, 7, 33], [5, 60, 18, 66, 21, 4, 9, 40, 41]):
        tokens, margins = greedy(spec, session, prompt, 12)
        decided = next((i for i, margin in enumerate(margins) if margin < 1e-4), len(margins))
        assert decided > 3
        assert generate(program, prompt, 12).tokens[:decided] == tokens[:decided]


# Files of transformers' exporter, without caches.
FILES = [
    ("mixtral", "tp2,ep2"),
    ("gpt_oss", "ep2,dp2"),
    ("gpt_oss", "tp4,ep2,etp2"),
    pytest.param("deepseek_v3", "ep4", marks=pytest.mark.long),
    pytest.param("qwen2_moe", "tp2", marks=pytest.mark.long),
    pytest.param("phimoe", "ep2,dp2", marks=pytest.mark.long),
]


GRIDS = [
    "pp2,ep2,mb2",
    *("tp1", "tp2", "ep2", "ep4", "tp2,ep2", "tp2,ep4,etp1", "ep4,dp4", "ep2,dp4", "tp2,ep2,dp4"),
    *("tp2,ep2,order=tp-ep-dp-pp", "ep2,dp4,pp2,order=tp-ep-dp-pp"),
    *("tp4,ep2,etp2", "tp4,ep2,etp2,dp2", "tp2,ep4,etp1,dp2"),
]
FILES += [
    pytest.param(path.stem, grid, marks=pytest.mark.long)
    for path in sorted((MODELS / "experts").glob("*.onnx"))
    if path.stem != "looped"  # has caches
    for grid in GRIDS
]


def check_logits(tpcc, name, grid, *flags, **environment):
    path = MODELS / "experts" / f"{name}.onnx"
    program, session = tpcc.compile(path, grid, "--generate", *flags), Session(path)
    program = dataclasses.replace(program, environment=environment)
    prompt = [12, 7, 33, 5, 60]
    found = generate(program, prompt, 8, "--prefill-chunk", "3", logits=True)
    ids = np.array([[*prompt, *found.tokens[:-1]]])
    want = session.run({"input_ids": ids})["logits"][0, len(prompt) - 1 :]
    assert difference(found.logits, want).relative <= TOLERANCE


@pytest.mark.parametrize(
    "name, grid, target",
    [
        ("mixtral", "ep4,dp4", "cpu"),
        ("mixtral", "ep2,dp2", "cuda"),
        *(
            pytest.param(path.stem, grid, target, marks=pytest.mark.long)
            for path in sorted((MODELS / "experts").glob("*.onnx"))
            if path.stem != "looped"
            for grid in ("ep4,dp4", "tp2,ep2,dp4", "tp2,ep4,etp1,dp2")
            for target in ("cpu", "cuda")
        ),
    ],
)
def test_all_to_all(tpcc, name, grid, target):
    """Tokens are sent to the ranks of their experts in prefill and in each step."""
    options = (UNOPTIMIZED, environment()) if target == "cuda" else ((), {})
    check_logits(tpcc, name, grid, *options[0], "--expert-dispatch=all-to-all", **options[1])


@pytest.mark.long
@pytest.mark.parametrize("grid", GRIDS)
def test_loops(tpcc, grid):
    spec = Experts(hidden=16, heads=2, kv_heads=1, vocab=67)
    check_tokens(tpcc, MODELS / "experts" / "looped.onnx", grid, spec)


@pytest.mark.parametrize("name, grid", FILES)
def test_files(tpcc, name, grid):
    check_logits(tpcc, name, grid)


@pytest.mark.parametrize(
    "kind, grid",
    [
        pytest.param(kind, grid, marks=[] if (kind, grid) == ("f16", "ep2") else pytest.mark.long)
        for kind in HALVES
        for grid in ("tp1", "tp2", "ep2")
    ],
)
def test_generates_in_16_bits(tpcc, tmp_path, kind, grid):
    """The error of a Mixtral relative to f32 is that of the CPU's program."""
    spec, paths = Experts(form="mixtral"), (tmp_path / "f32.onnx", tmp_path / "half.onnx")
    onnx.save(rounded_weights(onnx.load(spec.save(paths[0])), kind), paths[0])
    onnx.save(halve(onnx.load(paths[0]), kind), paths[1])
    prompt, runs = [12, 7, 33, 5, 60, 18, 66, 21, 4, 9, 40, 41, 2, 3, 50, 51, 8, 70, 71], []
    cpu = (("-O0",), {})
    for path, (flags, env) in zip((*paths, paths[1]), (cpu, cpu, (UNOPTIMIZED, environment()))):
        program = tpcc.compile(path, grid, "--generate", *flags)
        program = dataclasses.replace(program, environment=env)
        runs.append(generate(program, prompt, 5, logits=True))
    tokens = [run.tokens for run in runs]
    same = next((i for i, step in enumerate(zip(*tokens)) if len(set(step)) > 1), 4) + 1
    logits = [as_float(run.logits).astype(np.float64)[:same] for run in runs]
    off = [np.sqrt(np.mean((one - logits[0]) ** 2)) for one in logits[1:]]
    assert same > 2 and 0 < off[1] <= 1.5 * off[0], (tokens, off)

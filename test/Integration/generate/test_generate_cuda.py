"""GPU programs that generate, over simulated devices.

Covers the tokens of transformers and of CPU programs, ONNX Runtime's logits, one graph for all
decode steps, and the same errors as on CPUs.
"""

import re
import sys

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import step_trace
from generation import CAUSAL, decided, expected, full_logits, generate
from halves import as_float, halve, rounded_weights
from harness import TOP, Grid, run, sanitized
from service import Service
from simulator import FLAGS, environment
from tpc.reference import TOLERANCE, Session, difference
from cuda_programs import MODEL, PROMPTS, compiled, no_assembler  # noqa: F401 (fixtures)

GRIDS = ["tp1", "tp2", "tp2,pp2", "dp2"]
MORE_GRIDS = ["pp2", "tp2,pp2,mb2", "tp4", "tp3", "tp2,sp", "tp2,dp2", "tp2x2", "pp3"]
# GPT-2, and a model with rotary embeddings and shared kv heads.
MODELS = ["gpt2-tiny", "llama-dynamo"]
CHOSEN = [
    ("gpt2-tiny", "tp1"),
    ("gpt2-tiny", "tp2,pp2"),
    ("llama-dynamo", "tp2"),
    ("gpt2-tiny", "dp2"),
]


def cases(chosen):
    return [
        pytest.param(
            CAUSAL[name],
            grid,
            id=f"{name}-{grid}",
            marks=[] if (name, grid) in chosen else pytest.mark.long,
        )
        for name in CAUSAL
        for grid in GRIDS + MORE_GRIDS
        if CAUSAL[name].layers >= Grid.parse(grid).pp
    ]


def seeds(request):
    return range(5 if request.config.getoption("tests") == "long" else 1)


@pytest.mark.parametrize("model,grid", cases(CHOSEN))
def test_greedy_ids(tpcc, request, model, grid):
    """Tokens equal those of transformers and of CPU programs. Prompts have different lengths, and
    there are more prompts than slots.
    """
    prompts = expected()[model.name]
    if request.config.getoption("tests") != "long":
        prompts = [{**one, "ids": one["ids"][: 4 + index]} for index, one in enumerate(prompts[:3])]
    program, host = compiled(tpcc, model.path, grid), tpcc.compile(model.path, grid, "--generate")
    for seed in seeds(request):
        answers = []
        for one, env in [(program, {"TPC_SIM_SEED": str(seed)}), (host, {})]:
            with Service(
                one,
                "--max-batch",
                "2" if len(prompts) < 8 else "4",
                "--max-sequence",
                "54",
                env=env,
            ) as service:
                names = [
                    service.ask(f"p{index}", asked["prompt"], len(asked["ids"]))
                    for index, asked in enumerate(prompts)
                ]
                answers.append([service.answer(name).tokens for name in names])
                assert service.close() == 0
        for ours, theirs, asked in zip(*answers, prompts):
            steps = decided(asked["margins"])
            assert ours[:steps] == theirs[:steps] == asked["ids"][:steps], asked["prompt"]
            assert len(ours) == len(theirs)


@pytest.mark.parametrize("model,grid", cases(CHOSEN[1:3]))
def test_logits(tpcc, model, grid):
    """Logits of every step are right, however the prompt is split."""
    program = compiled(tpcc, model.path, grid)
    random = np.random.default_rng([model.layers, Grid.parse(grid).ranks])
    prompt = random.integers(0, model.vocab, int(random.integers(8, 30)))
    for chunk in (len(prompt), int(random.integers(5, 8))):
        output = generate(program, prompt, 4, "--prefill-chunk", str(chunk), logits=True)
        wanted = full_logits(model, [[*prompt, *output.tokens[:-1]]])[0, len(prompt) - 1 :]
        distance = difference(output.logits.reshape(wanted.shape), wanted)
        assert distance.relative <= TOLERANCE, f"chunks of {chunk}: {distance}"


def test_all_positions(tpcc):
    program = compiled(tpcc, CAUSAL["llama-dynamo"].path, "tp2", "--generate=all")
    prompt = np.random.default_rng(1).integers(0, CAUSAL["llama-dynamo"].vocab, 11)
    output = generate(program, prompt, 5, logits=True)
    wanted = full_logits(CAUSAL["llama-dynamo"], [[*prompt, *output.tokens[:-1]]])[0]
    assert difference(output.logits.reshape(wanted.shape), wanted).relative <= TOLERANCE


@pytest.mark.parametrize(
    "file,kind,grid",
    [
        pytest.param(
            file,
            kind,
            grid,
            marks=(
                [] if (file, kind, grid) in (("llama-dynamo", "bf16", "tp2"),) else pytest.mark.long
            ),
        )
        for file in MODELS
        for kind in ("f16", "bf16")
        for grid in ("tp1", "tp2", "pp2")
    ],
)
def test_halves(tpcc, tmp_path, file, kind, grid):
    """Caches are 16-bit; the error relative to f32 equals that of one step over all tokens, which
    has no cache.
    """
    model, path = CAUSAL[file], tmp_path / f"{file}-{kind}.onnx"
    onnx.save(halve(onnx.load(model.path), kind), path)
    prompt = np.random.default_rng(3).integers(0, 60, 20)
    output = generate(compiled(tpcc, path, grid), prompt, 6, "--prefill-chunk", "15", logits=True)
    ids = np.array([[*prompt, *output.tokens[:-1]]], np.int64)
    exact = Session(rounded_weights(onnx.load(model.path), kind).SerializeToString())
    inputs = {**model.inputs(1, ids.shape[1]), "input_ids": ids}
    wanted = exact.run(inputs)["logits"][0, len(prompt) - 1 :]
    plain = tpcc.compile(path, grid, *FLAGS).run(inputs, ["logits"], env=environment())["logits"][
        0, len(prompt) - 1 :
    ]
    distance = lambda ours: float(
        np.sqrt(np.mean((as_float(ours).astype(np.float64) - wanted) ** 2))
    )
    assert 0 < distance(output.logits.reshape(wanted.shape)) <= 1.25 * distance(plain)


@pytest.mark.parametrize(
    "grid,transport",
    [
        ("tp2,pp2", "tcp"),
        pytest.param("dp2", "threads", marks=pytest.mark.long),
        pytest.param("tp2", "mpi", marks=pytest.mark.long),
    ],
)
def test_requests_in_slots(tpcc, request, grid, transport):
    """If some of eight requests in three slots are cancelled, the others get the same tokens."""
    if transport == "mpi":
        request.getfixturevalue("mpi")
    with Service(
        compiled(tpcc, MODEL.path, grid),
        "--max-batch",
        "3",
        "--max-sequence",
        "120",
        transport=transport,
    ) as service:
        alone = service.generate(PROMPTS[0], 8)
        names = [
            service.ask(f"p{index}", PROMPTS[index % 2], 8 if index % 3 else 90)
            for index in range(8)
        ]
        service.until(lambda: service.answers["p0"].tokens)
        for name in names[::3]:
            service.send({"cancel": name})
        for index, name in enumerate(names):
            answer = service.answer(name)
            assert answer.finish == "length" or (index % 3 == 0 and answer.finish == "cancelled")
            if index % 2 == 0:
                assert answer.tokens[:8] == alone[: len(answer.tokens)]
        assert service.close() == 0


def test_stale_cache_contents_are_not_read(tpcc, tmp_path):
    """Positions from 20 on are NaN, and so are keys, values and logits of longer sequences. The
    next request in the slot reads none of them.
    """
    model = onnx.load(MODEL.path)
    table = next(tensor for tensor in model.graph.initializer if "wpe" in tensor.name)
    values = numpy_helper.to_array(table).copy()
    values[20:] = np.nan
    table.CopyFrom(numpy_helper.from_array(values, table.name))
    onnx.save(model, tmp_path / "poisoned.onnx")
    clean = compiled(tpcc, MODEL.path, "tp2")
    alone = generate(clean, PROMPTS[1][:13], 7).tokens
    with Service(
        compiled(tpcc, tmp_path / "poisoned.onnx", "tp2"),
        "--max-batch",
        "1",
        "--max-sequence",
        "60",
    ) as service:
        answer = service.answer(service.ask("long", [5] * 40, 4))
        assert (
            answer.finish == "error"
            and "NaN" in answer.message
            and "after 40 tokens" in answer.message
        )
        assert service.generate(PROMPTS[1][:13], 7) == alone


# ===--- token selection
# ------------------------------------------------------------------------------------------------


def copied(output):
    """Returns the bytes of logits that are copied to the host, or of the tokens chosen from
    them."""
    return int(re.search(r"; (\d+) bytes of a rank's logits", output.result.stderr)[1])


@pytest.mark.parametrize(
    "grid",
    [
        "tp2",
        *(
            pytest.param(grid, marks=pytest.mark.long)
            for grid in ("tp1", "tp3", "pp2", "tp2,pp2", "dp2", "tp2x2")
        ),
    ],
)
def test_tokens_are_sampled_on_the_gpu(tpcc, grid):
    """Each row copies 8 bytes to the host; a filtered row also copies 8 bytes for each candidate.
    Sums of weights are copied if the candidates do not decide, and all scores if the sums do not.
    With --logits the host has all logits, and chooses the same tokens.
    """
    program, new = compiled(tpcc, MODEL.path, grid), 6
    shape = Grid.parse(grid)
    part = -(
        -MODEL.vocab // (shape.xy[0] if shape.xy else shape.tp)
    )  # one dimension of tp splits the vocabulary
    penalty = ["--repetition-penalty", "1.3"]
    sums, scores = 2 * 512 * 8, 4 * part
    for flags, shown, later in (
        (["--temperature", "0"], 0, 0),
        (["--temperature", "0.8", "--seed", "12345678901"], 0, 0),
        (penalty, 0, 0),
        (["--temperature", "0.9", *penalty], 0, 0),
        (["--temperature", "1", "--top-k", "9"], 9, 0),
        (["--temperature", "0.7", "--top-k", "20", "--top-p", "0.9", *penalty], 20, 0),
        (["--temperature", "0.5", "--top-p", "0.2"], 64, sums),
        (["--temperature", "30", "--top-p", "0.95"], 64, sums + scores),
    ):
        on_gpu = generate(program, PROMPTS[2], new, *flags, "--deterministic", "--verbose")
        on_host = generate(
            program, PROMPTS[2], new, *flags, "--deterministic", "--verbose", logits=True
        )
        assert on_gpu.tokens == on_host.tokens, flags
        assert copied(on_host) == 4 * new * part
        assert copied(on_gpu) == new * (8 + 8 * shown + later), flags


@pytest.mark.parametrize(
    "grid",
    [
        "tp2",
        *(
            pytest.param(grid, marks=pytest.mark.long)
            for grid in ("tp1", "pp2", "tp2,pp2,mb2", "dp2")
        ),
    ],
)
def test_rows_with_different_settings(tpcc, grid):
    """Filtered rows run together with others, and get the same tokens as on CPUs."""
    host = tpcc.compile(MODEL.path, grid, "--generate")
    drawn = [
        {},
        dict(temperature=0.9),
        dict(temperature=0.9, top_p=0.8),
        dict(temperature=1.0, top_k=7),
        dict(repetition_penalty=1.2),
        dict(temperature=0.9, top_k=300, top_p=0.9, repetition_penalty=1.3),
        dict(temperature=20.0, top_p=0.99),
    ]
    with Service(host, "--max-batch", "1", "--max-sequence", "40") as service:
        expected = [
            service.generate(PROMPTS[2], 8, seed=index, **settings)
            for index, settings in enumerate(drawn)
        ]
        assert service.close() == 0
    with Service(
        compiled(tpcc, MODEL.path, grid),
        "--max-batch",
        "3",
        "--max-sequence",
        "40",
        "--deterministic",
    ) as service:
        alone = [
            service.generate(PROMPTS[2], 8, seed=index, **settings)
            for index, settings in enumerate(drawn)
        ]
        assert alone == expected and len(set(map(tuple, alone))) == len(drawn)
        names = [
            (index, service.ask(f"p{index}", PROMPTS[2], 8, seed=index, **settings))
            for index, settings in enumerate(drawn)
        ]
        for index, name in names:
            # Other rows in the step change the order of additions in matmuls, which rarely affects
            # samples.
            assert service.answer(name).tokens[:4] == alone[index][:4]
        assert service.close() == 0


# ===--- graphs
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [pytest.param("tp1", marks=pytest.mark.long), "tp2,pp2"])
def test_decode_steps_are_one_graph(tpcc, tmp_path, grid):
    """The prompt's step is one graph launch. The first decode step runs call by call, the second is
    recorded, and each later one is one launch, which allocates nothing and waits once.
    """
    program, trace = compiled(tpcc, MODEL.path, grid), tmp_path / "trace"
    new = 12
    program.call(
        ["--prompt-ids", ",".join(map(str, PROMPTS[2])), "--max-new-tokens", str(new)],
        env=environment(TPC_SIM_TRACE=trace),
    ).check()
    order = ["prompt"] + ["decode"] * (new - 1)
    ranks = Grid.parse(grid).ranks
    assert step_trace.wrong(trace.read_text(), order, ranks) == ""
    assert trace.read_text().count(" cuGraphInstantiateWithFlags = 0") == ranks


def test_one_graph_for_all_settings(tpcc, tmp_path):
    """Settings are data. The second request records a prompt step and a decode step; filtered
    or penalized requests record none.
    """
    program, trace = compiled(tpcc, MODEL.path, "tp1"), tmp_path / "trace"
    with Service(
        program, "--max-batch", "1", "--max-sequence", "40", env={"TPC_SIM_TRACE": trace}
    ) as service:
        for settings in [
            {},
            {},
            dict(temperature=0.9),
            dict(temperature=0.9, top_p=0.8),
            dict(temperature=1.0, top_k=7),
            dict(repetition_penalty=1.2),
            dict(temperature=1.1, top_k=30, top_p=0.9, repetition_penalty=0.8),
        ]:
            service.generate(PROMPTS[2], 5, **settings)
        assert service.close() == 0
    assert trace.read_text().count(" cuGraphInstantiateWithFlags = 0") == 2
    assert trace.read_text().count(" cuGraphLaunch = 0") == 7 * 5 - 2


@pytest.mark.skipif(sanitized(), reason="sanitizers: the Python process needs them too")
def test_later_calls_replay_graphs(tpcc, tmp_path):
    """Steps that the first call recorded are replayed by later ones, with correct logits. Longer
    sequences are recorded again.
    """
    program, trace = compiled(tpcc, MODEL.path, "tp2"), tmp_path / "trace"
    run(
        [
            sys.executable,
            "-c",
            f"""
import tpc
prompts = {PROMPTS[1:3]}
with tpc.load({str(program.path)!r}) as session:
    generate = lambda: [session.generate(prompt, max_new_tokens=8).tolist() for prompt in prompts]
    logits = lambda: session.run({{"input_ids": prompts[:1]}})["logits"].tolist()
    alone, first = generate(), logits()
    assert generate() == alone and logits() == first
    assert session.generate(prompts[0], max_new_tokens=64).tolist()[:8] == alone[0]
    assert generate() == alone and logits() == first
""",
        ],
        env=environment(TPC_SIM_TRACE=trace) | {"PYTHONPATH": str(TOP / "python")},
        timeout=120,
    ).check()
    # Graphs for each capacity: decode steps, and steps of two prompts, one of which also returns
    # its logits.
    captured = trace.read_text().count(" cuGraphInstantiateWithFlags = 0") // 2
    launched = trace.read_text().count(" cuGraphLaunch = 0") // 2
    assert captured <= 8 and launched >= 4 * 7 + 63 + 2 * 7 - 2

"""Communication of a generation step, and the cache shards of each rank."""

import re

import pytest

from generation import CAUSAL
from harness import Grid

# Models that tp2 splits evenly, with a known number of all-reduces per layer.
SPLIT = [
    name
    for name, model in CAUSAL.items()
    if model.reductions
    and not model.norm_sums
    and model.heads % 2 == 0
    and (model.kv_heads or model.heads) % 2 == 0
]


def step_of(model):
    return {**model.shape(batch=4, sequence=1), "capacity": 32}


def plan_of(tpcc, model, grid):
    shape = step_of(model)
    shape.pop(model.past_name, None)
    return tpcc.plan(model.path, Grid.parse(grid), shape, "--generate")


def rows(plan, axis, kind):
    return [row for row in plan["collectives"] if (row["axis"], row["kind"]) == (axis, kind)]


@pytest.mark.parametrize("name", SPLIT)
def test_reductions_of_a_step(tpcc, name):
    """Two all-reduces per layer (one with a parallel residual, as in Phi), and one for the
    embedding. There are no other collectives over tp. Each sequence returns the logits of one
    token.
    """
    model = CAUSAL[name]
    plan = plan_of(tpcc, model, "tp2")
    over_tp = [row for row in plan["collectives"] if row["axis"] == "tp"]
    assert {row["kind"] for row in over_tp} == {"all_reduce"}
    assert sum(row["count"] for row in over_tp) == model.reductions * model.layers + 1
    assert [(row["count"], row["bytes"]) for row in rows(plan, "output", "gather")] == [
        (1, 4 * model.vocab * 4)
    ]


@pytest.mark.parametrize("name", SPLIT[::6])
def test_layers_keep_their_caches(tpcc, name):
    """With pp, each layer's caches are in its stage, and only the residual is sent."""
    model = CAUSAL[name]
    plan = plan_of(tpcc, model, "pp2")
    assert sum(row["count"] for row in rows(plan, "pp", "send")) == 1
    assert rows(plan, "pp", "send")[0]["bytes"] == 4 * model.hidden * 4


@pytest.mark.parametrize("grid", ["tp1", "tp2", "pp2", "dp2", "tp2,pp2", "tp2,pp2,dp2,mb2"])
@pytest.mark.parametrize("name", ["gpt2-tiny", "llama-dynamo", "falcon-past"])
def test_caches_are_split(tpcc, name, grid):
    """Heads are split over tp unless all ranks share one, sequences over dp, and layers over
    stages.
    """
    model, parsed = CAUSAL[name], Grid.parse(grid)
    caches = tpcc.compile(model.path, grid, "--generate").describe()["generation"]["caches"]
    heads = model.kv_heads or model.heads
    assert len(caches) == 2 * model.layers
    for cache in caches:
        assert cache["shape"][1:3] == [str(heads), "capacity"]
        assert cache["axes"] == [
            ["dp"] if parsed.dp > 1 else [],
            ["tp"] if parsed.tp > 1 and heads > 1 else [],
            [],
            [],
        ]
    stages = [cache["stage"] for cache in caches]
    assert [stages.count(stage) for stage in range(parsed.pp)] == [
        2 * model.layers // parsed.pp
    ] * parsed.pp


@pytest.mark.parametrize(
    "name,grid,heads",
    [
        ("llama-dynamo", "tp2", 1),
        ("llama-dynamo", "tp4", 1),
        ("llama-past", "tp8", 1),
        ("phi3-dynamo", "tp3", 2),
        ("mistral-past", "tp2", 3),
        ("mistral-dynamo", "tp2,pp3", 3),
        ("falcon-dynamo", "tp2", 1),
        ("llama-past", "tp4,dp2", 1),
        ("llama-past", "tp4,mb2", 1),
    ],
)
def test_ranks_store_the_caches_of_their_heads(tpcc, name, grid, heads):
    """A rank's weights produce exactly the kv heads of its cache, both in --describe and in the
    report: replicated heads need memory, but no communication.
    """
    model, parsed = CAUSAL[name], Grid.parse(grid)
    plan = plan_of(tpcc, model, grid)
    size = model.hidden // model.heads
    layers = model.layers // parsed.pp
    wanted = 2 * layers * (4 // parsed.dp) * heads * 32 * size * 4
    assert [rank["cache_bytes"] for rank in plan["weights"]] == [wanted] * parsed.ranks
    assert [stage["cache_bytes"] for stage in plan["stages"]] == [wanted] * parsed.pp
    assert sum(row["count"] for row in plan["collectives"] if row["axis"] == "tp") == parsed.mb * (
        model.reductions * model.layers + 1
    )
    program = tpcc.compile(model.path, grid, "--generate")
    caches = program.describe()["generation"]["caches"]
    for cache in caches:
        split = "tp" in cache["axes"][1]
        assert int(cache["shape"][1]) == (heads * parsed.tp if split else heads)
    # With 4 sequences of 32768 tokens the bytes are whole MiB. The cache of a 6-token window has
    # capacity for two windows and one prompt chunk (512).
    capacities = {cache["shape"][2] for cache in caches}
    assert capacities in ({"capacity"}, {"window_capacity"})
    tokens = 2 * 6 + 512 if capacities == {"window_capacity"} else 32768
    output = program.call(["--describe", "--max-sequence=32768", "--max-batch=4"]).check().stdout
    assert f"caches {wanted // 32 * tokens / 2**20:.1f} MiB" in output


ROTATES = ("falcon", "gemma2", "gpt_neox", "llama", "mistral", "olmo2", "phi", "qwen2")
# On these grids Falcon replicates its only kv head on all ranks; other models split their kv heads,
# or have two copies of each (tp4).
APPENDS = [
    pytest.param(name, grid, marks=pytest.mark.long if i % 2 == number else [])
    for i, name in enumerate(CAUSAL)
    if name.startswith(ROTATES)
    for number, grid in enumerate(["tp2", ["tp1", "pp2", "tp2,pp2", "tp4", "dp2", "tp2,sp"][i % 6]])
]


@pytest.mark.parametrize("name,grid", APPENDS)
def test_rotated_keys_are_written_once(tpcc, name, grid):
    """The kernel that rotates new keys writes them into the cache; new values come from a matmul
    and are copied there. Each layer's function does both, without transposes.
    """
    model = CAUSAL[name]
    text = (
        tpcc.call(
            [model.path, "--generate", f"--megatron-shard={grid}", "--emit=buffers", "-o", "-"]
        )
        .check()
        .stdout
    )
    layers = [
        part for part in re.split(r"(?=tpc_buffer\.func @)", text) if "tpc_buffer.attention" in part
    ]
    assert layers
    for layer in layers:
        attentions = layer.count("tpc_buffer.attention ")
        assert layer.count("tpc_buffer.append ") == attentions
        assert len(re.findall(r"tpc_buffer\.launch @kernel_\w*append", layer)) == attentions
        keys, values = zip(*re.findall(r"tpc_buffer\.attention %\w+, (%\w+), (%\w+) ", layer))
        assert set(re.findall(r"launch @kernel_\w*append\w*\(.*\) to \((%\w+)\)", layer)) == set(
            keys
        )
        assert set(re.findall(r"tpc_buffer\.append %\w+ at %\w+ to (%\w+) ", layer)) == set(values)

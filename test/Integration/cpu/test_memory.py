"""Memory of ranks and of the compiler: a rank stores only its shards, the compiler no weights."""

import collections

import onnx
import pytest

from harness import Grid, run, sanitized, tool
from models import COMMITTED, MODELS
from tpc import onnxfile

F32 = 4


def balanced(total, parts):
    return [total // parts + (index < total % parts) for index in range(parts)]


def shard_elements(name, dims, heads, hidden, tp, rank):
    """Returns the number of elements that a rank of a tp group has of one of GPT-2's tensors."""
    head_size = hidden // heads
    own_heads = balanced(heads, tp)[rank]
    if "attn.c_attn.weight" in name:
        return hidden * 3 * own_heads * head_size
    if "attn.c_attn.bias" in name:
        return 3 * own_heads * head_size
    if "attn.c_proj.weight" in name:
        return own_heads * head_size * hidden
    if "mlp.c_fc.weight" in name:
        return hidden * balanced(dims[1], tp)[rank]
    if "mlp.c_fc.bias" in name:
        return balanced(dims[0], tp)[rank]
    if "mlp.c_proj.weight" in name:
        return balanced(dims[0], tp)[rank] * hidden
    if "lm_head" in name or "wte" in name:
        return balanced(dims[0], tp)[rank] * hidden
    # Norms, position table, and the biases that are added after the reduction.
    size = 1
    for dim in dims:
        size *= dim
    return size


def expected_bytes(model, grid, stages, stage, rank):
    """Returns the bytes that a rank stores of its stage's tensors. If a stage has both the lookup
    and the matmul of a tied embedding, it stores the table once.
    """
    elements = 0
    for tensor in weights_of(model):
        if stage in stages[tensor.name]:
            elements += shard_elements(
                tensor.name, list(tensor.dims), model.heads, model.hidden, grid.tp, rank
            )
    return elements * F32


def weights_of(model):
    return [
        tensor
        for tensor in onnxfile.load_structure(model.path).graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT
        and ("transformer." in tensor.name or "lm_head" in tensor.name)
    ]


def stages_of_weights(description, model, grid):
    """Returns the stages of each tensor. Each tensor is in exactly one stage, except for the tied
    embedding, which is in the first and the last. Layers are in order.
    """
    stages = collections.defaultdict(set)
    for parameter in description["parameters"]:
        stages[parameter["name"]].add(parameter["stage"])
    last = 0
    for tensor in weights_of(model):
        tensor_stages = stages[tensor.name]
        if "lm_head" in tensor.name or "wte" in tensor.name:
            assert tensor_stages == {0, grid.pp - 1}
        else:
            assert len(tensor_stages) == 1, (tensor.name, tensor_stages)
        if ".h." in tensor.name:
            assert last <= min(tensor_stages), tensor.name
            last = min(tensor_stages)
    return stages


GRIDS = [
    Grid.parse(text)
    for text in ("tp1", "tp2", "tp3", "tp8", "tp2,pp2", "tp3,pp2,dp2,sp", "pp3", "tp2,pp4")
]


def check_weight_bytes(executable, model):
    description = executable.describe()
    grid = executable.grid
    stages = stages_of_weights(description, model, grid)
    assert len(description["ranks"]) == grid.ranks
    for rank in description["ranks"]:
        expected = expected_bytes(
            model, grid, stages, rank["coordinates"]["pp"], rank["coordinates"]["tp"]
        )
        assert rank["weight_bytes"] == expected, rank


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_weight_bytes_are_the_shards(tpcc, grid):
    model = COMMITTED["gpt2-odd-opset20"]
    check_weight_bytes(tpcc.compile(model.path, grid), model)


@pytest.mark.parametrize("grid", [Grid(tp=8, pp=4), Grid(tp=3)], ids=str)
def test_weight_bytes_of_124m(tpcc, grid):
    from test_numbers_124m import SHAPE
    import dataclasses

    model = dataclasses.replace(SHAPE, path=MODELS / "gpt2-124m.onnx")
    check_weight_bytes(tpcc.compile(model.path, grid), model)


def test_compiling_needs_no_weights(tpcc):
    """The model compiles without its 500 MB of weights."""
    assert not (MODELS / "gpt2-124m.onnx.data").exists()
    executable = tpcc.compile(MODELS / "gpt2-124m.onnx", Grid(tp=8, pp=4))
    assert executable.path.stat().st_size < 16 << 20
    executable.call(["--input", "input_ids=none.npy", "--output", "logits=none.npy"]).refused()


@pytest.mark.skipif(sanitized(), reason="sanitizers: they need memory of their own")
def test_memory_of_compilation(tpcc, tmp_path):
    """Compiling 124M for tp8,pp4 takes at most 500 MiB, independently of load and of this
    process's memory.
    """
    ballast = b"x" * (600 << 20)
    result = run(
        [
            tool("tpcc"),
            MODELS / "gpt2-124m.onnx",
            "--megatron-shard=tp8,pp4",
            "--timing",
            "-o",
            tmp_path / "gpt2",
        ]
    ).check()
    assert 10 << 20 <= result.peak_bytes <= 500 << 20 < len(ballast)

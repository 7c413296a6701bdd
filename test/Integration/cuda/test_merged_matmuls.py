"""GPU programs compute Q, K and V in one matmul, and gate and up in one.

Counts the calls in the plan and in the simulated library, and checks that no weight has a second
copy. test_generate_cuda.py compares tokens with CPU programs.
"""

import collections
import re

import numpy as np
import pytest

from harness import run, tool
from halves import as_float, halve
from models import COMMITTED, FAMILIES
from simulator import FLAGS, environment
from tpc.reference import TOLERANCE, difference

ALL = {**COMMITTED, **FAMILIES}


def plan(path, grid, *flags, folder):
    text = folder / "plan.mlir"
    run(
        [tool("tpcc"), path, f"--megatron-shard={grid}", "--emit=buffers", *flags, "-o", text]
    ).check()
    return text.read_text()


def layer_of(text):
    """Returns the calls of the first layer."""
    found = re.search(r"tpc_buffer\.func @layer\w*_on_buffers.*?\n  }\n", text, re.S)
    return found[0]


def count(layer):
    """Counts kernels of a decode step of the layer: matmuls, generated kernels, attention, appends.

    A `product` is one matmul if its results are columns of one buffer. A `fused` is one kernel.
    """
    layer = re.sub(r"\n +(?! |tpc_buffer|%\S+ =|})", " ", layer)  # continued lines
    columns = set(re.findall(r"(%\S+) = tpc_buffer\.columns", layer))
    kinds = collections.Counter()
    for product in re.findall(r"tpc_buffer\.product (.*)", layer):
        results = re.findall(r" to (%\S+) n", product)
        merged = len(results) > 1 and set(results) <= columns
        kinds["matmuls"] += 1 if merged else len(results)
        kinds["parameters"] += len(results)
    fused = re.findall(r"tpc_buffer\.fused .*?\n    }", layer, re.S)
    kinds["launches"] = layer.count("tpc_buffer.launch ") - "".join(fused).count(".launch ")
    kinds["attention"] = layer.count("tpc_buffer.attention ")
    kinds["appends"] = layer.count("tpc_buffer.append ")
    kinds["all"] = sum(kinds.values()) - kinds["parameters"]
    return kinds


@pytest.mark.parametrize(
    "name,grid,parameters,matmuls,kernels",
    [
        # Norm, Q, K, V | rotary embeddings, appends | attention | O | norm, gate, up, SiLU | down.
        ("llama-dynamo", "tp1", 7, 4, 6),
        # With tp, kernels add the residual after each all-reduce; the first has the norm too.
        ("llama-dynamo", "tp2", 7, 4, 8),
        # KV heads are replicated.
        ("llama-dynamo", "tp4", 7, 4, 8),
        # Norm, Q, K, V | appends | attention | O | norm, up, GELU | down.
        ("gpt2-tiny", "tp1", 6, 4, 6),
        ("gpt2-tiny", "tp2", 6, 4, 8),
        ("qwen2-dynamo", "tp1", 7, 4, 6),
    ],
)
def test_kernels_of_a_layer(tmp_path, name, grid, parameters, matmuls, kernels):
    """A layer of a decode step is few kernels, because each launch takes longer than most of them.
    """
    text = plan(ALL[name].path, grid, "--generate", *FLAGS, folder=tmp_path)
    calls = count(layer_of(text))
    assert (calls["parameters"], calls["matmuls"]) == (parameters, matmuls), calls
    assert calls["all"] == kernels, calls


@pytest.mark.parametrize("grid", ["tp1", "tp3", "tp2,pp2"])
def test_one_copy_of_each_weight(tmp_path, grid):
    """The plan's parameters are those of a CPU program: each weight is loaded once."""
    path = ALL["llama-dynamo"].path
    texts = [plan(path, grid, "--generate", *more, folder=tmp_path) for more in ([], FLAGS)]
    entries = [sorted(re.findall(r"tpc_buffer\.entry @\w+ stage (.*)", text)) for text in texts]
    assert entries[0] == entries[1] and len(set(entries[0])) == len(entries[0])


@pytest.mark.parametrize(
    "name,form,grid,widths",
    [
        # Q, K and V of 4 heads of 8, or at tp2 of 2 heads.
        ("gpt2-tiny", "", "tp1", [96]),
        ("gpt2-tiny", "", "tp2", [48]),
        # 8 query and 2 kv heads of 4; gate and up.
        ("llama-dynamo", "", "tp1", [48]),
        ("llama-dynamo", "bf16", "tp2", [24]),
    ],
)
def test_matmuls_of_a_step(tpcc, tmp_path, name, form, grid, widths):
    """Matmuls of prefill have merged widths, and none the width of a single weight; results are
    correct.
    """
    import onnx

    model = ALL[name]
    path = model.path
    if form:
        path = tmp_path / path.name
        onnx.save(halve(onnx.load(model.path), form), path)
    executable = tpcc.compile(path, grid, *FLAGS)
    given = model.inputs(2, 5, past=3)
    trace = tmp_path / "trace"
    found = executable.run(given, [model.output], env=environment(TPC_SIM_TRACE=trace))
    if not form:
        expected = model.reference.run(given)[model.output]
        assert difference(found[model.output], expected).relative <= TOLERANCE
    called = {
        tuple(map(int, shape.split("x")))
        for shape in re.findall(r"cublasLtMatmul (\d+x\d+x\d+) ", trace.read_text())
    }
    rows = {n: m for n, m, _ in called}
    assert all(rows.get(width) == 10 for width in widths), called
    # With tp1, the matmul after attention has the width of Q.
    heads = {width // 3 for width in widths} if name.startswith("gpt2") else set()
    heads -= {model.hidden}
    assert not any((n, 10, model.hidden) in called for n in heads), called
    assert np.isfinite(as_float(found[model.output])).all()

"""Steps of programs for GPUs, in one process: from the second step of a shape on each is one launch of a graph, which allocates
nothing and waits for nothing before its outputs. Counted in the trace of the simulated driver."""

import collections
import random

import pytest

from harness import BUILD
from models import COMMITTED, FAMILIES
from tpc.reference import TOLERANCE, difference

LIBRARIES = BUILD / "lib" / "simulator"
MODELS = {**COMMITTED, **FAMILIES}
WAITS = {"cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize", "cuStreamQuery"}
MAKES = {"cuMemAlloc_v2", "cuMemHostAlloc", "cuMemAllocHost_v2", "cuMemFree_v2", "cuMemFreeHost", "cuMemHostRegister_v2",
         "cuEventCreate", "cuStreamCreate", "cuModuleLoadDataEx", "cuGraphInstantiateWithFlags"}
# What is told a device behind one launch and before the next: outputs and status of the one, inputs and env of the other.
TELLS = {"cuGraphLaunch", "cuCtxSetCurrent", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemsetD8Async", "cuEventRecord"}


def steps(model, order, seed):
    """Inputs of other contents each time, of other padding where the model has that."""
    return [model.inputs(batch, sequence, ["none", "left", "right"][(seed + i) % 3] if model.padded else "none", seed=i,
                         past=past if model.past_name else 0)
            for i, (batch, sequence, past) in enumerate(order)]


def calls_of_ranks(trace):
    """What each thread that launched a graph called, in order."""
    threads = collections.defaultdict(list)
    for line in trace.read_text().splitlines():
        process, thread, name, *_ = line.split()
        threads[process, thread].append(name)
    return [calls for calls in threads.values() if "cuGraphLaunch" in calls]


def check(model, executable, order, seed, tmp_path, transport="threads"):
    trace = tmp_path / f"trace{seed}"
    many = steps(model, order, seed)
    results = executable.run_all(many, [model.output], transport=transport, env={
        "TPC_CUDA_LIBS": str(LIBRARIES), "TPC_SIM_SEED": str(seed), "TPC_SIM_TRACE": str(trace)})
    for given, actual in zip(many, results):
        distance = difference(actual[model.output], model.expected(given))
        assert distance.relative <= TOLERANCE, distance
    known = [shape in order[:i] for i, shape in enumerate(order)]
    ranks = calls_of_ranks(trace)
    assert len(ranks) == executable.grid.ranks
    for calls in ranks:
        launches = [i for i, name in enumerate(calls) if name == "cuGraphLaunch"]
        assert len(launches) == sum(known)
        place = {step: launches[sum(known[:step])] for step in range(len(order)) if known[step]}
        for step in range(1, len(order)):
            if not (known[step - 1] and known[step]):
                continue
            between = calls[place[step - 1]:place[step]]
            # A step that is captured says more: the second of a shape, or one behind another shape's first, which may have moved
            # memory.
            last = max(i for i in range(step) if order[i] == order[step])
            if all(known[last:step]):
                assert set(between) <= TELLS | WAITS
            assert not MAKES - {"cuGraphInstantiateWithFlags"} & set(between)
            assert [name for name in between if name in WAITS] == ["cuStreamSynchronize"]


A, B, C = (2, 5, 0), (1, 1, 0), (1, 9, 0)
ALTERNATING = [A, A, A, B, A, B, B, A, C, A, B, C, C, A]


@pytest.mark.parametrize("name,grid,order", [
    ("gpt2-tiny", "tp1", ALTERNATING),
    ("gpt2-tiny", "tp2", ALTERNATING),
    ("gpt2-tiny", "pp2,mb2", [A, A, A, B, B, A, B]),
    pytest.param("gpt2-tiny", "tp2,pp2,mb3", [A, B, A, B, A, B], marks=pytest.mark.long),
])
def test_a_step_is_one_launch(tpcc, tmp_path, name, grid, order):
    model = MODELS[name]
    check(model, tpcc.compile(model.path, grid, "--target=cuda"), order, 1, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("grid", ["tp1", "tp2", "tp3", "pp2,mb2", "tp2,pp2,mb3", "dp2", "tp2,sp"])
def test_steps_in_any_order(tpcc, tmp_path, grid):
    model = MODELS["gpt2-tiny"]
    executable = tpcc.compile(model.path, grid, "--target=cuda")
    for seed in range(10):
        draw = random.Random(seed)
        shapes = [(draw.randint(1, 3), draw.randint(1, 7), 0) for _ in range(4)]
        check(model, executable, [draw.choice(shapes) for _ in range(16)], seed, tmp_path)

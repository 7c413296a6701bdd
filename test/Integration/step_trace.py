"""Checks the simulator's trace: later steps of a shape are one graph launch each, which allocates
nothing and synchronizes only for its outputs; messages have streams of their own.
"""

from __future__ import annotations

import collections
import re

WAITS = {"cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize", "cuStreamQuery"}
MAKES = {
    "cuMemAlloc_v2",
    "cuMemHostAlloc",
    "cuMemAllocHost_v2",
    "cuMemFree_v2",
    "cuMemFreeHost",
    "cuMemHostRegister_v2",
    "cuEventCreate",
    "cuStreamCreate",
    "cuModuleLoadDataEx",
    "cuGraphInstantiateWithFlags",
}
# The calls between two launches copy outputs and status of the first, inputs and env of the second.
BETWEEN = {
    "cuGraphLaunch",
    "cuCtxSetCurrent",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemsetD8Async",
    "cuEventRecord",
}


def calls_of_ranks(trace: str) -> list[list[str]]:
    """Returns the calls, in order, of each thread that launched a graph."""
    threads = collections.defaultdict(list)
    for line in trace.splitlines():
        process, thread, name, *_ = line.split()
        threads[process, thread].append(name)
    return [calls for calls in threads.values() if "cuGraphLaunch" in calls]


def wrong(trace: str, order: list, ranks: int) -> str:
    """Returns an error, if any, in a run of steps of these shapes."""
    known = [shape in order[:i] for i, shape in enumerate(order)]
    found = calls_of_ranks(trace)
    if len(found) != ranks:
        return f"{len(found)} of {ranks} ranks launch graphs"
    for calls in found:
        launches = [i for i, name in enumerate(calls) if name == "cuGraphLaunch"]
        if len(launches) != sum(known):
            return (
                f"{len(launches)} launches of graphs in {sum(known)} steps of shapes that had"
                " steps before"
            )
        launch_of = {step: launches[sum(known[:step])] for step in range(len(order)) if known[step]}
        for step in range(1, len(order)):
            if not (known[step - 1] and known[step]):
                continue
            between = calls[launch_of[step - 1] : launch_of[step]]
            # A recorded step has additional calls: the second of a shape, or one after another
            # shape's first, which may have reallocated memory.
            last = max(i for i in range(step) if order[i] == order[step])
            unexpected = set(between) - BETWEEN - WAITS if all(known[last:step]) else set()
            if unexpected := unexpected | (MAKES - {"cuGraphInstantiateWithFlags"}) & set(between):
                return f"before step {step}: {', '.join(sorted(unexpected))}"
            if (waits := [name for name in between if name in WAITS]) != ["cuStreamSynchronize"]:
                return f"before step {step} it waits by {', '.join(waits)}"
    return ""


def streams_with_messages(trace: str) -> str:
    """Returns an error if a stream has messages and other operations, else an empty text. Messages
    must have a separate stream. The first call of a kind to a peer connects outside of steps.
    """
    line = re.compile(
        r"^(\d+) (\d+) nccl(\w+) .*?(?: (?:to|from) (\d+))? in communicator (\w+) of \d+ on stream"
        r" (\w+)$",
        re.M,
    )
    connected, kinds = set(), collections.defaultdict(set)
    for process, thread, name, peer, communicator, stream in line.findall(trace):
        call = process, thread, name, peer, communicator
        if call in connected:
            kinds[process, thread, stream].add(name in ("Send", "Recv"))
        connected.add(call)
    return next(
        (
            f"messages and collectives of thread {thread} are on one stream"
            for (_, thread, _), found in kinds.items()
            if len(found) > 1
        ),
        "" if kinds else "no call names its stream",
    )

"""Each rank's NCCL calls, traced by the simulated library, match the program's certificate.

They are the certificate's collectives and messages in its order. Each group over which ranks
communicate has a communicator. Communicators are created and used before the first step, in one
order on all ranks.
"""

import itertools
import json
import math
import re

import pytest

import step_trace
from harness import Grid, run
from models import COMMITTED, FAMILIES
from simulator import UNOPTIMIZED, environment

MODELS = {**COMMITTED, **FAMILIES}
# Sizes divisible by all grids: nothing is padded or sent in chunks.
BATCH, SEQUENCE, PAST = 8, 4, 4
SYMBOLS = {
    "batch": BATCH,
    "batch_size": BATCH,
    "sequence": SEQUENCE,
    "sequence_length": SEQUENCE,
    "past": PAST,
    "past_sequence_length": PAST,
}
FIRST_USES = ["AllReduce", "AllGather", "ReduceScatter", "Broadcast"]
TYPES = {"f32": ("float32", 4)}


def traced(path):
    """Maps a process to its calls, as (call, count, type, reduction, peer, communicator,
    number of members).
    """
    found = {}
    line = re.compile(
        r"(\d+) \d+ nccl(\w+) (?:(\w+) of (\d+) (\w+)(?:, (\w+))?(?:, root \d+)?(?: (?:to|from)"
        r" (\d+))? in )?"
        r"communicator (\w+) of (\d+)(?: on stream \w+)?$"
    )
    for text in path.read_text().splitlines():
        if match := line.match(text):
            process, call, _, count, dtype, reduction, peer, communicator, members = match.groups()
            found.setdefault(int(process), []).append(
                (
                    call,
                    count and int(count),
                    dtype,
                    reduction,
                    peer and int(peer),
                    communicator,
                    int(members),
                )
            )
    return found


def groups_of(op):
    """Returns the axes of each communicator. If a dimension is split over several axes, gathers and
    scatters use one axis at a time.
    """
    over = op.get("over", ["pp"])
    return [(axis,) for axis in over] if "dim" in op else [tuple(over)]


class Certificate:
    def __init__(self, path):
        schedule = json.loads(path.read_text())["schedule"]
        self.functions, self.stages = schedule["functions"], schedule["stages"]
        self.order, self.sizes = schedule["grid"]["order"], schedule["grid"]["sizes"]
        self.micro_batches = schedule["grid"]["micro_batches"]

    def coordinates(self, rank):
        found = {}
        for axis in self.order:
            rank, found[axis] = divmod(rank, self.sizes[axis])
        return found

    def rank_at(self, coordinates):
        return sum(
            coordinates[axis] * math.prod(self.sizes[before] for before in self.order[:position])
            for position, axis in enumerate(self.order)
        )

    def group(self, rank, axes):
        """Returns the ranks of a group in the world, in ascending order."""
        here = self.coordinates(rank)
        return tuple(
            sorted(
                self.rank_at({**here, **dict(zip(axes, at))})
                for at in itertools.product(*(range(self.sizes[axis]) for axis in axes))
            )
        )

    def operations(self, items):
        for item in items:
            if "body" in item:
                for _ in range(self.micro_batches):
                    yield from self.operations(item["body"])
            elif "call" in item:
                for _ in range(item["times"]):
                    yield from self.operations(self.functions[item["call"]])
            elif item["op"] != "output":
                yield item

    def elements(self, dims):
        """Returns the number of elements of a rank's shard."""

        def parts(axes):
            return math.prod(
                self.micro_batches if axis == "mb" else self.sizes[axis] for axis in axes
            )

        count = 1
        for dim in dims:
            if isinstance(dim, str):
                dim = {"axes": [], "factors": [{"axes": [], "size": dim}]}
            for factor in dim["factors"]:
                size = eval(factor["size"], {}, SYMBOLS)
                assert size % parts(factor["axes"]) == 0, factor
                count *= size // parts(factor["axes"])
            assert count % parts(dim["axes"]) == 0, dim
            count //= parts(dim["axes"])
        return count

    def calls(self, rank):
        """Yields the expected NCCL calls of a step: (call, count, type, reduction, peer, group)."""
        for op in self.operations(self.stages[self.coordinates(rank)["pp"]]):
            dtype, size = TYPES[op["type"]]
            count = self.elements(op["dims"])
            if op["op"] in ("send", "recv"):
                group, peer = self.group(rank, ["pp"]), op.get("to", op.get("from"))
                yield op["op"].capitalize(), count * size, "uint8", None, peer, group
                continue
            groups = [self.group(rank, axes) for axes in groups_of(op)]
            if op["op"] == "all_reduce":
                yield "AllReduce", count, dtype, op["reduction"], None, groups[0]
            elif op["op"] == "reduce_scatter":
                for group in groups:
                    count //= len(group)
                    yield "ReduceScatter", count, dtype, op["reduction"], None, group
            else:
                assert op["op"] == "all_gather", op
                count //= math.prod(map(len, groups))
                for group in reversed(groups):
                    yield "AllGather", count * size, "uint8", None, None, group
                    count *= len(group)

    def communicators(self):
        """Returns the axes of the groups that communicate, in the order in which communicators are
        created.
        """
        used = set()
        for stage in self.stages:
            for op in self.operations(stage):
                used.update(groups_of(op))
        several = [
            tuple(axis for axis in self.order if axis in axes and self.sizes[axis] > 1)
            for axes in used
        ]
        return sorted(
            set(several) - {()}, key=lambda axes: sum(1 << self.order.index(axis) for axis in axes)
        )


@pytest.mark.parametrize(
    "name,grid",
    [
        ("gpt2-tiny-nopast", "tp2,pp2,dp2,mb2,sp"),
        pytest.param("llama-past", "tp2x2", marks=pytest.mark.long),
        pytest.param("bloom-past", "tp2,pp2,mb4", marks=pytest.mark.long),
        pytest.param("gpt2-tiny", "tp4,pp2,mb2", marks=pytest.mark.long),
        pytest.param("mistral-dynamo", "tp2,dp2,order=pp-dp-tp", marks=pytest.mark.long),
    ],
)
def test_calls_equal_those_of_the_certificate(tpcc, tmp_path, name, grid):
    model = MODELS[name]
    proof, trace, pids = tmp_path / "proof.json", tmp_path / "trace", tmp_path / "pids"
    tpcc.call(
        [
            model.path,
            f"--megatron-shard={grid}",
            f"--certificate={proof}",
            "--emit=staged",
            "-o",
            tmp_path / "staged.mlir",
        ]
    ).check()
    certificate = Certificate(proof)
    executable = tpcc.compile(model.path, Grid.parse(grid), *UNOPTIMIZED)
    command = executable.command("tcp")
    command[command.index("-n") : command.index("-n")] = ["--pids", str(pids)]
    steps = 3
    shape = ",".join(
        f"{symbol}={size}" for symbol, size in model.shape(BATCH, SEQUENCE, PAST).items()
    )
    command = [*command, "--bench", "--shape", shape, "--warmup", "1", "--repeat", str(steps - 1)]
    run(command, env=environment(TPC_SIM_TRACE=trace)).check()
    assert not step_trace.streams_with_messages(trace.read_text())
    found = traced(trace)
    made = {}  # communicator -> (axes, ranks)
    for rank, process in enumerate(map(int, pids.read_text().split())):
        calls = found[process]
        wanted = certificate.communicators()
        names = [call[5] for call in calls if call[0] == "CommInitRank"]
        assert len(names) == len(wanted), (rank, names, wanted)
        groups = {}
        for axes, communicator in zip(wanted, names):
            members = certificate.group(rank, axes)
            groups[communicator] = members
            made.setdefault(communicator, set()).add(members)
            # Communicators are created, and each kind of call is made once, before anything else.
            first, calls = (
                calls[: 1 + len(FIRST_USES) + 2 * (len(members) - 1)],
                calls[1 + len(FIRST_USES) + 2 * (len(members) - 1) :],
            )
            assert {call[5] for call in first} == {communicator} and first[0][6] == len(members)
            assert [call[0] for call in first[:5]] == ["CommInitRank", *FIRST_USES]
            assert all(call[0] in ("Send", "Recv") for call in first[5:])
        called = [
            (call, count, dtype, reduction, peer, groups[communicator])
            for call, count, dtype, reduction, peer, communicator, _ in calls
            if not call.startswith("Comm")
        ]
        step = list(certificate.calls(rank))
        # A step that is recorded and replayed makes its calls once.
        count = max(1, min(steps, len(called) // max(1, len(step))))
        pairs = list(itertools.zip_longest(called, step * count))
        different = next((i for i, (actual, wanted) in enumerate(pairs) if actual != wanted), None)
        assert (
            different is None
        ), f"rank {rank}, call {different}: (is, should be) {pairs[different:different + 3]}"
    assert all(len(members) == 1 for members in made.values()), made

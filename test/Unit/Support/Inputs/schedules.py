"""Writes schedules.txt: orders of events by PyTorch's schedules. Needs torch 2.11 or later.

    python3 schedules.py > schedules.txt
"""

from torch.distributed.pipelining import schedules

PHASES = {"FORWARD": "F", "FULL_BACKWARD": "B", "BACKWARD_INPUT": "I", "BACKWARD_WEIGHT": "W"}

TITLE = """\
# Orders of events of pipeline ranks, one line for each rank, in PyTorch's notation: 2F1 is the
# forward of chunk 2 and micro-batch 1; B is the whole backward, I the gradients of inputs, W of
# weights. Written by schedules.py: the order of Schedule1F1B._step_microbatches, and pipeline_order
# (without its idle slots) of ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble and
# ScheduleZBVZeroBubble.
"""


def order_1f1b(ranks, count):
    """The loop of Schedule1F1B._step_microbatches, which has no table."""
    for rank in range(ranks):
        warm_up = min(count, ranks - rank)
        events = [f"{rank}F{i}" for i in range(warm_up)]
        for i in range(count):
            events.append(f"{rank}B{i}")
            if warm_up + i < count:
                events.append(f"{rank}F{warm_up + i}")
        yield events


def order(kind, ranks, chunks, count):
    """Events of each rank by PyTorch's class, without process groups and stages."""
    schedule = object.__new__(kind)
    schedule.pp_group_size, schedule._n_microbatches = ranks, count
    schedule.n_local_stages, schedule.num_stages = chunks, ranks * chunks
    schedule._num_stages = schedule.num_stages
    schedule.number_of_rounds = max(1, count // ranks)
    schedule.microbatches_per_round = count // schedule.number_of_rounds
    table = [schedule._calculate_single_rank_operations(rank) for rank in range(ranks)]
    if kind is schedules.ScheduleInterleavedZeroBubble:
        schedule.pipeline_order = dict(enumerate(table))
        table = schedule._add_bubbles_to_actions(schedule.num_stages).values()
    for actions in table:
        yield [
            f"{action.stage_index}{PHASES[action.computation_type.name]}{action.microbatch_index}"
            for action in actions
            if action is not None
        ]


def write(name, ranks, chunks, count, table):
    print(f"\n{name} pp{ranks} vpp{chunks} mb{count}")
    for events in table:
        print(" ".join(events))


print(TITLE, end="")
for ranks in (2, 4, 8):
    for count in (ranks, 2 * ranks, 3 * ranks + 1):
        write("1f1b", ranks, 1, count, order_1f1b(ranks, count))
        kind = schedules.ScheduleZBVZeroBubble
        write("zb-v", ranks, 2, count, order(kind, ranks, 2, count))
        if count % ranks == 0:
            kind = schedules.ScheduleInterleaved1F1B
            write("interleaved-1f1b", ranks, 2, count, order(kind, ranks, 2, count))
            kind = schedules.ScheduleInterleavedZeroBubble
            write("zb-h1", ranks, 1, count, order(kind, ranks, 1, count))

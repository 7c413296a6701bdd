"""tpc-verify-comms against an unbuffered simulation, on random correct and faulty pipelines.

A faulty pipeline has one wrong operation.
"""

import random
import re

import pytest

import harness

TYPES = ["tensor<4xf32>", "tensor<3xf32>"]
MICRO_BATCHES = 3


def random_stages(rng, stages):
    """Returns random event lists of the stages. They are correct, because they have one global
    order.
    """
    lists = [[] for _ in range(stages)]
    for _ in range(rng.randrange(1, 9)):
        kind = rng.choice(TYPES)
        if rng.random() < 0.15:
            for events in lists:
                events.append(("group", None, kind))
            continue
        sender, receiver = rng.sample(range(stages), 2)
        lists[sender].append(("send", receiver, kind))
        lists[receiver].append(("recv", sender, kind))
    return lists


def spoil(rng, lists):
    """Makes one fault. It may have no effect, for example if two equal messages are swapped."""
    events = rng.choice([events for events in lists if events])
    at = rng.randrange(len(events))
    what = rng.choice(["swap", "swap", "swap", "drop", "double", "type"])
    if what == "swap" and len(events) > 1:
        other = rng.randrange(len(events))
        events[at], events[other] = events[other], events[at]
    elif what == "double":
        events.insert(at, events[at])
    elif what == "type":
        verb, peer, kind = events[at]
        events[at] = (verb, peer, TYPES[TYPES.index(kind) - 1])
    else:
        events.pop(at)


def runs_to_its_end(programs):
    """Returns whether stages that synchronize at every event terminate. `programs`: events of each
    stage, in order.
    """
    at = [0] * len(programs)

    def now(stage):
        return programs[stage][at[stage]] if at[stage] < len(programs[stage]) else None

    while True:
        if all(now(stage) is None for stage in range(len(programs))):
            return True
        moved = False
        if all(now(stage) and now(stage)[0] == "group" for stage in range(len(programs))):
            if len({now(stage)[2] for stage in range(len(programs))}) > 1:
                return False
            at = [position + 1 for position in at]
            continue
        for stage in range(len(programs)):
            event = now(stage)
            if not event or event[0] != "send":
                continue
            peer = now(event[1])
            if peer and peer[:2] == ("recv", stage):
                if peer[2] != event[2]:
                    return False
                at[stage] += 1
                at[event[1]] += 1
                moved = True
        if not moved:
            return False


def text(phases):
    """Returns a module. `phases`: for each stage, (is a loop, events)."""
    lines = [
        (
            f"module attributes {{tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = {len(phases)}, mb ="
            f" {MICRO_BATCHES}>}} {{"
        ),
        "tpc.pipeline @main(%a: tensor<4xf32>, %b: tensor<3xf32>) inputs [{}, {}] outputs [] {",
    ]
    count = 0
    for stage, parts in enumerate(phases):
        lines.append(f"tpc.stage {stage} {{")
        for loop, events in parts:
            lines += ["tpc.micro_batches of #tpc.dim<batch{dp, mb}> {"] if loop else []
            for verb, peer, kind in events:
                value, count = "%a" if kind == TYPES[0] else "%b", count + 1
                lines.append(
                    {
                        "send": f"tpc.send {value} to {peer} : {kind}",
                        "recv": f"%r{count} = tpc.recv from {peer} : {kind}",
                        "group": (
                            f'%r{count} = tpc.broadcast {value} over ["pp"] root 0 : {kind} ->'
                            f" {kind}"
                        ),
                    }[verb]
                )
            lines += ["}"] if loop else []
        lines.append("}")
    return "\n".join([*lines, "}", "}"])


def refused(modules, tmp_path):
    """Returns the modules that tpc-verify-comms rejects."""
    file = tmp_path / "modules.mlir"
    starts, chunks, line = [], [], 1
    for module in modules:
        starts.append(line)
        chunks.append(module)
        line += module.count("\n") + 3
    file.write_text("\n// -----\n".join(chunk + "\n" for chunk in chunks))
    result = harness.run(
        [
            harness.tool("tpc-opt"),
            file,
            "--split-input-file",
            "--tpc-verify-comms",
            "-o",
            "/dev/null",
        ]
    )
    assert not result.timed_out and result.returncode in (0, 1), result
    error_lines = {
        int(number) for number in re.findall(r"modules\.mlir:(\d+):\d+: error:", result.stderr)
    }
    ends = [*starts[1:], line]
    return [any(begin <= at < end for at in error_lines) for begin, end in zip(starts, ends)]


@pytest.mark.parametrize("loop", [False, True])
def test_agrees_with_a_simulation(loop, tmp_path):
    rng = random.Random(int(loop))
    modules, right = [], []
    for case in range(400):
        lists = random_stages(rng, rng.randrange(2, 5))
        if case % 4:
            spoil(rng, lists)
        modules.append(text([[(loop, events)] for events in lists]))
        right.append(
            all(
                runs_to_its_end([events * turns for events in lists])
                for turns in (range(MICRO_BATCHES + 1) if loop else [1])
            )
        )
        assert case % 4 or right[-1]
    assert 100 < right.count(True) < 300
    verdicts = refused(modules, tmp_path)
    wrong = [i for i in range(len(modules)) if verdicts[i] == right[i]]
    assert not wrong, f"{len(wrong)} verdicts are wrong; the first:\n{modules[wrong[0]]}"


def test_accepted_programs_with_loops_terminate(tmp_path):
    """A program with consecutive loops and ops between them is accepted only if it terminates."""
    rng = random.Random(2)
    modules, cases = [], []
    for case in range(300):
        stages = rng.randrange(2, 4)
        parts = [
            (rng.random() < 0.6, random_stages(rng, stages)) for _ in range(rng.randrange(2, 4))
        ]
        if case % 3:
            spoil(rng, rng.choice(parts)[1])
        if case % 3 == 2:
            rng.shuffle(parts)
        phases = [[(loop, list(lists[stage])) for loop, lists in parts] for stage in range(stages)]
        if case % 5 == 4:  # one stage has its loops the other way round
            phases[-1].reverse()
        modules.append(text(phases))
        cases.append(phases)
    accepted = [i for i, no in enumerate(refused(modules, tmp_path)) if not no]
    assert len(accepted) > 60
    for i in accepted:
        for turns in range(MICRO_BATCHES + 1):
            programs = [
                [event for loop, events in parts for event in events * (turns if loop else 1)]
                for parts in cases[i]
            ]
            assert runs_to_its_end(programs), modules[i]

"""--simulate: text, JSON, trace and page have the same numbers, which obey laws of time."""

import json
import re
from collections import Counter, defaultdict

import pytest

from harness import TOP
from models import COMMITTED
from test_auto_shard import edit_machine, plan

MODEL = COMMITTED["gpt2-odd-opset20"]
SHAPE = "batch=8,sequence=16"
CAUSES = ("compute", "memory", "launch", "tensor", "pipeline")


def simulate(tpcc, grid, *flags, model=MODEL.path, machine="epyc-2core", shape=SHAPE):
    return (
        tpcc.call(
            [model, f"--megatron-shard={grid}", "--simulate", "--no-verify", f"--machine={machine}"]
            + ["--shape", shape, *flags]
        )
        .check()
        .stdout
    )


def simulate_json(*arguments, **options):
    return json.loads(simulate(*arguments, "--json", **options))


def read_trace(path):
    trace = json.loads(path.read_text())
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def check_times(step):
    assert sum(step[cause] for cause in CAUSES) == pytest.approx(step["seconds"])
    assert step["critical_path"] == pytest.approx(step["seconds"])
    busy = [stage["seconds"] for stage in step["stages"]]
    assert max(busy) <= step["seconds"] * (1 + 1e-9)
    idle = 1 - sum(busy) / (len(busy) * step["seconds"])
    assert idle == pytest.approx(step["bubble"], abs=1e-9)


def check_trace(events, step):
    """Runs of a class do not overlap, calls fill their runs, and sums are those of the JSON."""
    runs = defaultdict(list)
    calls = defaultdict(list)
    for event in events:
        if event["cat"] == "run":
            runs[event["pid"]].append(event)
        elif event["cat"] == "call":
            calls[event["pid"]].append(event)
    for stage, expected in enumerate(step["stages"]):
        end = 0
        for run in runs[stage]:
            assert run["ts"] >= end - 1e-6
            end = run["ts"] + run["dur"]
        assert end <= step["seconds"] * 1e6 * (1 + 1e-9)
        total = sum(run["dur"] for run in runs[stage])
        assert total == pytest.approx(expected["seconds"] * 1e6)
        assert sum(call["dur"] for call in calls[stage]) == pytest.approx(total)
    last = max(event["ts"] + event["dur"] for event in events)
    assert last == pytest.approx(step["seconds"] * 1e6)


@pytest.mark.parametrize(
    "grid,machine",
    [
        ("tp2,pp2,mb4", "epyc-2core"),
        ("pp3,dp2,mb3", "h100-sxm"),
        ("pp2,vpp2,mb4", "h100-sxm"),
        pytest.param("tp4,pp2,sp,mb2", "epyc-2core", marks=pytest.mark.long),
        pytest.param("tp2,pp5,mb8", "epyc-2core", marks=pytest.mark.long),
    ],
)
def test_text_json_trace_and_page_agree(tpcc, tmp_path, grid, machine):
    trace, page = tmp_path / "t.json", tmp_path / "r.html"
    files = [f"--trace={trace}", f"--report={page}"]
    text = simulate(tpcc, grid, *files, machine=machine)
    found = simulate_json(tpcc, grid, machine=machine)
    step = found["steps"][0]
    check_times(step)
    value, unit = re.search(r"\n\s+([\d.]+) (s|ms|us)", text).groups()
    scale = {"s": 1, "ms": 1e3, "us": 1e6}[unit]
    assert float(value) == pytest.approx(step["seconds"] * scale, abs=0.06)
    html = page.read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.S)[1])
    assert {key: data[key] for key in found} == found
    assert not re.search(r"(src|href)=", html) and "http" not in html
    events = read_trace(trace)
    check_trace(events, step)
    # The page's events are those of the trace.
    drawn = data["timelines"][0]["events"]
    assert len(drawn) == sum(event["cat"] != "call" for event in events)
    # Collectives of the buffers are those that the report counts in the staged program.
    counts, sizes = Counter(), Counter()
    for event in events:
        if "bytes" in event["args"]:
            kind, axis = event["name"].split(" ")
            counts[event["pid"], axis, kind] += 1
            sizes[event["pid"], axis, kind] += event["args"]["bytes"]
    expected = [row for row in step["collectives"] if row["axis"] != "output"]
    assert expected
    for row in expected:
        key = (row["stage"], row["axis"], row["kind"])
        assert (counts.pop(key), sizes[key]) == (row["count"], row["bytes"]), key
    assert not counts


def test_planner_has_the_simulated_step(tpcc):
    best = plan(tpcc, MODEL, devices=4, shape=["--shape", SHAPE])["best"]
    for row in (best[0], next(row for row in best if "pp" in row["grid"])):
        step = simulate_json(tpcc, row["grid"])["steps"][0]
        for name in (*CAUSES, "seconds", "bubble"):
            assert step[name] == pytest.approx(row["step"][name], abs=1e-12)


def test_bubble_vanishes_with_micro_batches(tpcc):
    bubbles = [
        simulate_json(tpcc, f"pp4,mb{mb}", machine="h100-sxm", shape="batch=64,sequence=16")[
            "steps"
        ][0]["bubble"]
        for mb in (1, 4, 64)
    ]
    assert bubbles == sorted(bubbles, reverse=True)
    assert bubbles[0] > 0.7 and bubbles[-1] < 0.3


def test_links_without_cost_leave_the_compute_time(tpcc, tmp_path):
    def remove_links(machine):
        for table in machine["collective"]:
            table["times"] = [[size, 1e-15] for size, _ in table["times"]]

    free = edit_machine(tmp_path / "free.json", "h100-sxm", remove_links)
    whole = simulate_json(tpcc, "tp2", machine="h100-sxm")["steps"][0]
    step = simulate_json(tpcc, "tp2", machine=free)["steps"][0]
    assert step["seconds"] == pytest.approx(whole["seconds"] - whole["tensor"])
    assert whole["tensor"] > 0


def test_names_have_no_effect(tpcc, tmp_path):
    program = tmp_path / "model.mlir"
    tpcc.call([MODEL.path, "--emit=model", "--no-verify", "-o", program]).check()
    text = program.read_text()
    renamed = tmp_path / "renamed.mlir"
    renamed.write_text(re.sub(r"\bsequence\b", "zeta", text).replace("c_attn", "other"))
    shapes = (SHAPE, SHAPE.replace("sequence", "zeta"))
    found = [
        simulate_json(tpcc, "tp2,pp2,mb2", model=path, shape=shape)
        for path, shape in zip((program, renamed), shapes)
    ]
    assert found[0]["steps"] == found[1]["steps"]


def test_generation(tpcc, tmp_path):
    arguments = ["tp2,pp2", "--generate"]
    shape = "batch=4,sequence=12,capacity=64"
    trace = tmp_path / "t.json"
    flags = ["--max-new-tokens=40", f"--trace={trace}"]
    found = simulate_json(tpcc, *arguments, *flags, shape=shape)
    prompt, token = found["steps"]
    assert (prompt["name"], token["name"]) == ("prompt", "token")
    whole = found["generation"]
    for step in (prompt, token):
        check_times(step)
    # Later tokens read more keys.
    assert whole["seconds"] >= prompt["seconds"] + 39 * token["seconds"] * (1 - 1e-9)
    assert whole["seconds"] <= 2 * (prompt["seconds"] + 39 * token["seconds"])
    ends = [event["ts"] + event["dur"] for event in read_trace(trace)]
    assert max(ends) == pytest.approx((prompt["seconds"] + token["seconds"]) * 1e6)
    words = ["12 tokens and 60 new tokens need caches of 71 tokens", "capacity=64"]
    command = [MODEL.path, f"--megatron-shard={arguments[0]}", "--generate", "--simulate"]
    tpcc.call(
        [*command, "--machine=epyc-2core", "--shape", shape, "--max-new-tokens=60"]
    ).refused(*words)


def test_overlap_hides_collectives_of_the_same_bytes(tpcc, tmp_path):
    """Started all-reduces take the time that calls before the wait do not cover."""
    model, shape = TOP / "test" / "Models" / "gpt2-124m.onnx", "batch=4,sequence=512"
    steps, sizes = [], []
    for overlap in ("off", "2"):
        trace = tmp_path / f"{overlap}.json"
        flags = [f"--overlap={overlap}", f"--trace={trace}"]
        found = simulate_json(tpcc, "tp2", *flags, model=model, machine="h100-sxm", shape=shape)
        steps.append(found["steps"][0])
        check_times(steps[-1])
        events = read_trace(trace)
        check_trace(events, steps[-1])
        sizes.append(sum(event["args"].get("bytes", 0) for event in events))
    blocking, overlapped = steps
    assert sizes[0] == sizes[1] > 0
    assert 0 < overlapped["tensor"] < blocking["tensor"]
    # The last chunk of each of the 24 all-reduces of layers has no call to hide behind.
    assert overlapped["tensor"] > 0.4 * blocking["tensor"]


@pytest.mark.parametrize(
    "flags,words",
    [
        (["--simulate"], "--simulate needs --machine"),
        (["--simulate", "--machine=h100-sxm"], "--simulate needs --shape"),
        (["--simulate", "--machine=h100-sxm", "--shape", "batch=1"], "must bind: sequence"),
        (["--simulate", "--machine=none", "--shape", SHAPE], "no file and no machine 'none'"),
        (["--simulate", "--machine=a100-sxm", "--shape", SHAPE], "no times of matmuls of f32"),
        (["--simulate", "--machine=h100-sxm", "--shape", SHAPE, "-o", "x"], "leave out -o"),
        (["--simulate", "--machine=h100-sxm", "--shape", SHAPE, "--max-new-tokens=3"], "needs --g"),
        (["--trace=t.json"], "--trace needs --simulate"),
        (["--report=r.html", "--shape", SHAPE], "--report=FILE.html needs --simulate"),
        (["--machine=h100-sxm"], "--machine is for --megatron-shard=auto and --simulate"),
    ],
)
def test_invalid_flags(tpcc, flags, words):
    tpcc.call([MODEL.path, *flags]).refused(words)

"""--simulate: text, JSON, trace and page have the same numbers, which obey laws of time."""

import json
import random
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict

import pytest

from harness import TOP
from models import COMMITTED
from test_auto_shard import edit_machine, plan
from test_plan_search import draw_machine, plan_models  # noqa: F401 (a fixture)

sys.path.append(str(TOP / "test" / "Benchmark"))

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


def check_format(path):
    """Rules of the trace event format, with times in nanoseconds as Perfetto reads them: slices of
    a thread are nested or disjoint.
    """
    threads = defaultdict(list)
    for event in json.loads(path.read_text())["traceEvents"]:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)
        elif event["ph"] == "C":
            assert event["ts"] >= 0 and isinstance(event["args"]["bytes"], int)
        else:
            assert event["ph"] == "X" and isinstance(event["cat"], str)
            begin, length = int(event["ts"] * 1000), int(event["dur"] * 1000)
            assert begin >= 0 and length >= 0
            threads[event["pid"], event["tid"]].append((begin, begin + length))
    for slices in threads.values():
        ends = []
        for begin, end in sorted(slices, key=lambda one: (one[0], -one[1])):
            while ends and ends[-1] <= begin:
                ends.pop()
            assert not ends or end <= ends[-1]
            ends.append(end)


def check_times(step):
    assert sum(step[cause] for cause in CAUSES) == pytest.approx(step["seconds"])
    assert step["critical_path"] == pytest.approx(step["seconds"])
    busy = [stage["seconds"] for stage in step["stages"]]
    assert max(busy) <= step["seconds"] * (1 + 1e-9)
    idle = 1 - sum(busy) / (len(busy) * step["seconds"])
    assert idle == pytest.approx(step["bubble"], abs=1e-9)


def check_trace(events, step):
    """Runs of a stage do not overlap, calls fill their runs, and sums are those of the JSON."""
    runs = defaultdict(list)
    calls = defaultdict(list)
    for event in events:
        if event["cat"] == "run":
            runs[event["pid"]].append(event)
        elif event["cat"] == "call":
            calls[event["pid"]].append(event)
    rounding = 1e-3 * len(events)  # to nanoseconds
    for stage, expected in enumerate(step["stages"]):
        end = 0
        for run in runs[stage]:
            assert run["ts"] >= end - 1e-6
            end = run["ts"] + run["dur"]
        assert end <= step["seconds"] * 1e6 + 1e-3
        total = sum(run["dur"] for run in runs[stage])
        assert total == pytest.approx(expected["seconds"] * 1e6, abs=rounding)
        assert sum(call["dur"] for call in calls[stage]) == pytest.approx(total, abs=rounding)
    last = max(event["ts"] + event["dur"] for event in events)
    assert last == pytest.approx(step["seconds"] * 1e6, abs=1e-3)


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
    check_format(trace)
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


def slow_down(machine, factor):
    """Multiplies all times of a machine."""
    for table in machine["matmul"]:
        table["peak"] /= factor
        table["bandwidth"] /= factor
        table["floor"] *= factor
    for table in machine["matmul"] + machine["kernel"] + machine["collective"]:
        table["times"] = [[*row[:-1], row[-1] * factor] for row in table["times"]]
    for table in machine["attention"]:
        for kind in ("few", "many"):
            table[kind] = [[work, seconds * factor] for work, seconds in table[kind]]
    machine["launch"] *= factor
    machine["network"]["latency"] *= factor
    machine["network"]["bandwidth"] /= factor


@pytest.mark.parametrize(
    "seed", [0, 1] + [pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 40)]
)
def test_laws_of_random_grids_and_machines(tpcc, plan_models, tmp_path, seed):
    """A slower network takes longer only where axes cross nodes, links without cost leave the work
    of the stages, and slower machines take longer by the same factor.
    """
    rng = random.Random(seed)
    model, shape = plan_models[("gpt2", "llama", "quantized", "deep")[seed % 4]]
    shape = shape.format(batch=rng.choice([4, 6, 8]), sequence=rng.choice([1, 7, 64]))
    grid = rng.choice(["tp2", "tp4", "tp2,sp", "tp4,sp", "tp1"])
    grid += rng.choice([",pp2,mb2", ",pp2,mb3", ",pp2"]) + rng.choice(["", ",dp2"])
    grid += f",gpus-per-node={rng.choice([2, 4, 8])}"
    whole = draw_machine(tmp_path / "whole.json", rng)

    def run(edit):
        path = tmp_path / "edited.json"
        machine = json.loads(whole.read_text())
        edit(machine)
        path.write_text(json.dumps(machine))
        return simulate_json(tpcc, grid, model=model, machine=path, shape=shape)

    found = run(lambda machine: None)
    step = found["steps"][0]
    check_times(step)
    crossing = {axis["name"] for axis in found["axes"] if axis["nodes"] > 1}

    def halve(machine):
        machine["network"]["bandwidth"] /= 2

    slow = run(halve)
    for before, after in zip(step["stages"], slow["steps"][0]["stages"]):
        for cause in ("compute", "memory", "launch"):
            assert after[cause] == before[cause]
        tensor = {row["axis"] for row in step["collectives"] if row["kind"] != "send"}
        if any(crossing & set(axis.split("-")) for axis in tensor):
            assert after["tensor"] >= before["tensor"]
        else:
            assert after["tensor"] == before["tensor"]
    assert slow["steps"][0]["seconds"] >= step["seconds"] * (1 - 1e-12)
    if not crossing:
        assert slow["steps"] == found["steps"]

    def remove_links(machine):
        for table in machine["collective"]:
            table["times"] = [[size, 1e-15] for size, _ in table["times"]]
        machine["network"] = {"latency": 0, "bandwidth": 1e18}

    free = run(remove_links)["steps"][0]
    check_times(free)
    for before, after in zip(step["stages"], free["stages"]):
        assert after["seconds"] == pytest.approx(before["seconds"] - before["tensor"], rel=1e-6)
    assert free["seconds"] <= step["seconds"] * (1 + 1e-12)

    slower = run(lambda machine: slow_down(machine, 3))["steps"][0]
    for cause in (*CAUSES, "seconds"):
        assert slower[cause] == pytest.approx(3 * step[cause], rel=1e-6, abs=1e-12)
    assert slower["bubble"] == pytest.approx(step["bubble"])


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("chromium"), reason="there is no Chromium")
def test_page_in_chromium(tpcc, tmp_path):
    """The page of 16,384 ranks is drawn within 2 seconds, without messages on the console."""
    import llama

    page = tmp_path / "r.html"
    simulate(
        tpcc,
        "tp8,pp16,vpp2,dp128,sp,mb16,gpus-per-node=8",
        f"--report={page}",
        model=llama.write(tmp_path / "llama.onnx"),
        machine="h100-sxm",
        shape="batch=2048,sequence=4096",
    )
    timer = "<script>document.title = `drawn ${performance.now()}`;</script></html>"
    page.write_text(page.read_text().replace("</html>", timer))
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", page.as_uri()]
    drawn = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ":CONSOLE" not in drawn.stderr, drawn.stderr
    assert "16384 ranks, 16 classes" in drawn.stdout
    assert float(re.search(r"<title>drawn ([\d.]+)", drawn.stdout)[1]) < 2000


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
    assert max(ends) == pytest.approx((prompt["seconds"] + token["seconds"]) * 1e6, abs=1e-3)
    words = ["12 tokens and 60 new tokens need caches of 71 tokens", "capacity=64"]
    command = [MODEL.path, f"--megatron-shard={arguments[0]}", "--generate", "--simulate"]
    tpcc.call(
        [*command, "--machine=epyc-2core", "--shape", shape, "--max-new-tokens=60"]
    ).refused(*words)


def test_overlap_hides_collectives_of_the_same_bytes(tpcc, tmp_path):
    """Asynchronous all-reduces take the time that calls before the wait do not cover."""
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
    # The last chunk of each of the 24 all-reduces of layers overlaps with no call.
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

"""GPU kernels in the PTX interpreter against the same kernels for CPUs.

Covers numbers, findings of the checkers, seeded faults, and memory sectors. The program
build/test/bin/tpc-compare-kernels reads the PTX and compares.
"""

import concurrent.futures
import re
import sys

import numpy as np
import onnx
import pytest

import harness
import kernel_survivors
from halves import halve
from kernel_forms import (
    LENGTHS,
    NUM_FORMS,
    NUM_ROTARY,
    ROTARY_OF_TOKENS,
    make_forms,
    make_rotary,
)
from models import COMMITTED, FAMILIES
from operation_graphs import GRAPHS, build

sys.path.append(str(harness.TOP / "tools"))

import kernel_faults  # noqa: E402

COMPARE = harness.BUILD / "test" / "bin" / "tpc-compare-kernels"
GRIDS = ["tp1", "tp2", "tp3", "pp2", "tp2,sp", "tp2x2"]
MODELS = COMMITTED | FAMILIES
HALVED = [
    "gpt2-tiny-nopast",
    "llama-past",
    "gemma2-dynamo",
    "olmo2-past",
    "bloom-dynamo",
    "phi-past",
    "mpt-past",
]


def compare(*arguments, timeout=3000):
    return harness.run([COMPARE, *arguments], timeout=timeout)


def totals(result):
    """Returns the counts in the last line."""
    found = re.search(
        r"(\d+) programs, (\d+) kernels, (\d+) distinct; (\d+) cases, "
        r"(\d+) kernels without cases, (\d+) kernels wrong",
        result.stdout,
    )
    return dict(
        zip(
            ("programs", "kernels", "distinct", "cases", "without", "wrong"),
            map(int, found.groups()),
            strict=True,
        )
    )


def compare_all(jobs, *flags):
    """Compares models in two processes. Similar models are in the same process, so that equal
    kernels are compared once.
    """
    jobs = [str(job) for job in jobs]
    half = len(jobs) // 2
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = list(
            pool.map(lambda part: compare(*part, *flags).check(), [jobs[:half], jobs[half:]])
        )
    counted = [totals(output) for output in both]
    return {name: sum(one[name] for one in counted) for name in counted[0]}


def test_kernels_of_models():
    """Every fifth model at one grid; `--long` has all models and grids."""
    models = list(MODELS.values())[::5]
    counted = compare_all(
        [f"{model.path}@{GRIDS[i % len(GRIDS)]}" for i, model in enumerate(models)]
    )
    assert counted["distinct"] >= 60 and counted["cases"] >= 10 * counted["distinct"] * 0.99


STEPS = [
    pytest.param(name, marks=[] if name in ("llama-dynamo", "gpt_neox-past") else pytest.mark.long)
    for name, model in FAMILIES.items()
    if name.startswith(
        ("falcon", "gemma2", "gpt_neox", "llama", "mistral", "olmo2", "phi", "qwen2")
    )
]


@pytest.mark.parametrize("name", STEPS)
def test_kernels_that_append(tmp_path, name):
    """Kernels append rotated keys to a cache, also at its end and beyond it, where nothing may be
    written.
    """
    path = tmp_path / "kernels.mlir"
    harness.run(
        [
            harness.tool("tpcc"),
            FAMILIES[name].path,
            "--generate",
            "--megatron-shard=tp2",
            "--emit=kernels",
            "-o",
            path,
        ]
    ).check()
    counted = totals(compare(path, "--kernel=append", "--seeds=40").check())
    assert counted["distinct"] >= 1 and counted["cases"] >= 39 * counted["distinct"]


@pytest.mark.long
def test_kernels_of_all_models_and_grids():
    counted = compare_all(
        [f"{model.path}@{grid}" for model in MODELS.values() for grid in GRIDS], "--seeds=30"
    )
    assert counted["distinct"] >= 800


@pytest.fixture(scope="session")
def halved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("halves")

    def make(name, kind):
        path = folder / kind / MODELS[name].path.name
        path.parent.mkdir(exist_ok=True)
        onnx.save(halve(onnx.load(MODELS[name].path), kind), path)
        return path

    return make


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_16_bit_kernels(halved, kind):
    jobs = [f"{halved(name, kind)}@{grid}" for name, grid in zip(HALVED, ("tp2", "tp3"))]
    assert totals(compare(*jobs, "--work=1000").check())["distinct"] >= 15


@pytest.mark.long
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_16_bit_kernels_of_all_families(halved, kind):
    compare_all(
        [f"{halved(name, kind)}@{grid}" for name in HALVED for grid in GRIDS], "--work=10000"
    )


@pytest.mark.parametrize(
    "kind", ["f32", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("f16", "bf16"))]
)
def test_rows_of_all_lengths(tmp_path, kind):
    """Rows are reduced by warps or blocks, in chunks or not, with static or dynamic length."""
    path = tmp_path / "forms.mlir"
    path.write_text(make_forms(types=[kind]))
    counted = totals(compare(path, "--work=100000" if kind == "f32" else "--work=12000").check())
    distinct = len(LENGTHS) * NUM_FORMS
    assert counted["distinct"] == distinct and counted["cases"] >= 9.5 * distinct


@pytest.mark.long
def test_kernels_of_all_operations(tmp_path):
    """Covers all operations of the importer, including those that no test model has."""
    for name in GRAPHS:
        build(name, tmp_path / f"{name}.onnx")
    jobs = [f"{tmp_path}/{name}.onnx@tp1" for name in GRAPHS]
    assert compare_all(jobs)["distinct"] >= 60


def test_functions_match_libm():
    """sin, cos and pow, for which CPUs call libm, have errors of at most 2 units in the last place,
    also for huge, tiny and hard arguments. Other functions have the CPU's bits.
    """
    result = compare("--functions").check()
    worst = {
        name: float(ulp)
        for name, ulp in re.findall(
            r"^math\.(\w+): \d+ arguments, worst ([\d.]+) ulp", result.stdout, re.M
        )
    }
    assert max(worst[name] for name in ("sin", "cos", "powf")) <= 2, result


# ---- seeded faults ----

FAULTED = ["gpt2-tiny@tp2", "llama-past@tp2"]
SAMPLE = 12, 6  # faults of each kind, and seeds, of the default suite
ALL_FAULTED = [
    *FAULTED,
    "gemma2-dynamo@tp3",
    "phi-past@pp2",
    "bloom-dynamo@tp2,sp",
    "olmo2-past@tp2x2",
]


def seed_faults(tmp_path, names, each, seeds):
    """Returns the rows of the table (seeded, detected, surviving) by kind, and the survivors."""
    path = tmp_path / "forms.mlir"
    path.write_text(make_forms(lengths=[1500, None], types=["f32"]))
    jobs = [f"{MODELS[name.split('@')[0]].path}@{name.split('@')[1]}" for name in names]
    result = compare(
        *jobs, path, f"--faults={each}", f"--seeds={seeds}", timeout=4 * 3600
    ).check()
    rows = {
        kind: tuple(map(int, counts))
        for kind, *counts in re.findall(
            r"^\| ([^|]+) \| (\d+) \| (\d+) \| (\d+) \|", result.stdout, re.M
        )
    }
    print(result.stdout)
    return rows, kernel_survivors.read(result.stdout)


def judge_faults(rows, left, least, of_each=True):
    """Checks that nearly all faults are detected. kernel_survivors.py explains equivalent ones.
    `of_each`: whether the important kinds were seeded; a sample may have none of a rare kind.
    """
    seeded, caught, remain = rows["all"]
    assert seeded >= least and seeded - caught == remain == len(left)
    missed = [
        survivor
        for survivor in left
        if not ((entry := kernel_survivors.find(survivor)) and entry.equal)
    ]
    text = "\n".join("\t".join(survivor) for survivor in missed)
    assert caught >= 0.99 * (caught + len(missed)), text
    # A kind of fault that rarely changes results may be detected less often.
    assert remain <= 0.2 * seeded, rows
    for kind in (
        "a barrier left out",
        "a warp's barrier for the block's",
        "a shuffle whose mask leaves out lanes",
        "all blocks do the same",
    ):
        number, found, _ = rows.get(kind, (0, 0, 0))
        assert (number or not of_each) and found >= 0.9 * number, kind
    print(f"{seeded} seeded, {caught} caught, {remain - len(missed)} equal, others:\n{text}")


def test_faults_are_found(tmp_path):
    rows, left = seed_faults(tmp_path, FAULTED, *SAMPLE)
    judge_faults(rows, left, 350, of_each=False)
    assert kernel_faults.page(rows) == kernel_faults.PAGE.read_text(), "run tools/kernel_faults.py"


@pytest.mark.long
def test_all_faults_are_found(tmp_path):
    rows, left = seed_faults(tmp_path, ALL_FAULTED, 10000, 10)
    judge_faults(rows, left, 5000)
    # The table has no entries that no longer survive.
    used = {kernel_survivors.find(survivor) for survivor in left}
    assert not [entry for entry in kernel_survivors.ENTRIES if entry not in used]


# ---- memory ----


def count_sectors(*arguments):
    """Returns for each kernel its rows, the sectors moved, and the sectors that its bytes need."""
    result = compare("--sectors", *arguments).check()
    rows = re.findall(
        r"^sectors: (\w+) rows=(\d+) moved=(\d+) needed=(\d+) .* shared=(\d+) conflicts=(\d+)$",
        result.stdout,
        re.M,
    )
    print(result.stdout)
    for name, _, _, _, shared, conflicts in rows:
        assert int(conflicts) <= 0.25 * int(shared), name
    return [(name, int(count), int(moved), int(needed)) for name, count, moved, needed, *_ in rows]


# Kernels that move more sectors, with reasons. All have sizes that occur only in test models.
MORE = {
    r"concat_mul_add_(transpose|concat)": (
        "rotary, heads of at most 8: a half is less than a sector, and each of its accesses moves"
        " whole ones"
    ),
    r"add_transpose_concat_(transpose|concat)": (
        "rotary of a part of a head: 2 elements from each of four operands, each less than a sector"
    ),
    r"(silu|gelu)_mul": (
        "rows of 12 in columns of one buffer: the columns of gate and up share a sector, which both"
        " move"
    ),
    r"transpose_concat_cos_sin": (
        "angles of a head of 4 are read along tokens and stored along the head: too few elements"
        " for a tile"
    ),
    r"embedding_.*layer_norm": (
        "rows of 24, or 3 sectors: a warp reads its row's id twice, which moves a sector each time"
    ),
}


def judge_sectors(rows):
    used = set()
    for name, _, moved, needed in rows:
        if moved > 1.1 * needed:
            reasons = [pattern for pattern in MORE if re.search(pattern, name)]
            assert reasons, (name, moved, needed)
            used.update(reasons)
    return used


def test_traffic_of_all_kernels():
    """Kernels of test models have rows of any length, including shorter than a sector."""
    names = ["gpt2-odd-nopast", "llama-past", "gpt_neox-past", "bloom-dynamo"]
    rows = count_sectors(*(f"{MODELS[name].path}@tp2" for name in names))
    judge_sectors(rows)
    assert len(rows) >= 30


@pytest.mark.long
def test_traffic_of_all_kernels_of_all_models():
    rows = count_sectors(
        *(f"{model.path}@{grid}" for grid in ("tp1", "tp2") for model in MODELS.values())
    )
    assert len(rows) >= 300 and judge_sectors(rows) == set(MORE)


@pytest.mark.parametrize(
    "kind,sizes",
    [
        ("f32", [64, 128]),
        pytest.param("f32", [16, 80, 96, 256], marks=pytest.mark.long),
        ("bf16", [128]),
        pytest.param("f16", [64, 96, 256], marks=pytest.mark.long),
    ],
)
def test_traffic_of_rotary_kernels(tmp_path, kind, sizes):
    """Heads share the cosines and sines of their token, and rotated elements are read once. Results
    are those of the CPU.
    """
    path = tmp_path / "rotary.mlir"
    path.write_text(make_rotary(sizes, kind))
    rows = count_sectors(path, "--work=100000")
    assert len(rows) == NUM_ROTARY * len(sizes)
    for name, _, moved, needed in rows:
        assert moved <= 1.1 * needed, (name, moved, needed)
    assert totals(compare(path).check())["cases"] >= 9 * len(rows)


@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_rotary_kernels_of_whole_tokens(tmp_path, kind):
    path = tmp_path / "rotary.mlir"
    path.write_text(make_rotary([32, 64], kind, ROTARY_OF_TOKENS))
    assert totals(compare(path).check())["cases"] >= 16


def test_traffic_of_kernels():
    """Kernels read and write at most 1.1 times the sectors that the bytes of their rows need. Those
    of a GPT-2 layer in f32 (two norms and a GELU) read and write at most 64 * hidden bytes per
    token. Sectors are counted per request, without a cache.
    """
    rows = count_sectors(f"{COMMITTED['gpt2-tiny'].path}@tp1", "--work=200000")
    assert len(rows) >= 3 and not judge_sectors(rows)
    of_token = {name: 32 * moved / count for name, count, moved, _ in rows}
    assert (
        2 * of_token["kernel_layer_norm"] + of_token["kernel_gelu"]
        <= 1.1 * 64 * COMMITTED["gpt2-tiny"].hidden
    )


@pytest.mark.parametrize(
    "kind,lengths",
    [
        ("f32", [768]),
        pytest.param("f32", [1600, 2048, 4096, 12288], marks=pytest.mark.long),
        pytest.param("f16", [768, 1600, 2048, 4096, 12288], marks=pytest.mark.long),
    ],
)
def test_traffic_of_row_kernels(tmp_path, kind, lengths):
    """Rows have lengths that occur in models."""
    path = tmp_path / "forms.mlir"
    path.write_text(make_forms(lengths=lengths, types=[kind]))
    rows = count_sectors(path, "--work=300000")
    assert len(rows) == NUM_FORMS * len(lengths)
    assert not judge_sectors(rows)


# ---- on a device ----

PTX = harness.TOP / "test" / "Simulator" / "Inputs" / "reverse.ptx"


def run_on_device(*arguments, **environment):
    """Runs tpc-ptx-run on the simulated driver, which it calls like a real one."""
    return harness.run(
        [harness.tool("tpc-ptx-run"), *arguments, "--device"],
        env={"LD_LIBRARY_PATH": str(harness.BUILD / "lib" / "simulator"), **environment},
    )


def test_ptx_run_on_a_device(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(256, dtype=np.float32))
    launch = [
        PTX,
        "--kernel",
        "reverse",
        "--grid",
        "2",
        "--block=128",
        "--param",
        f"{tmp_path}/x.npy,ro",
        "--param",
        "256:f32",
        "--param",
        "u32:256",
    ]
    result = run_on_device(*launch).check()
    assert "device: the same" in result.stdout
    failed = run_on_device(*launch, TPC_SIM_INJECT="fail@3")
    assert (
        failed.returncode == 2
        and "--device: " in failed.stderr
        and "CUDA_ERROR_LAUNCH_FAILED" in failed.stderr
    ), failed


def test_differences_on_a_device_are_found(tmp_path):
    """Errors of approximate instructions depend on the seed. Here no difference is allowed, so they
    are reported.
    """
    text = PTX.read_text().replace("st.global.b32", "ex2.approx.f32 %r8, %r8;\n  st.global.b32")
    path = tmp_path / "approximate.ptx"
    path.write_text(text)
    result = run_on_device(
        path,
        "--kernel",
        "reverse",
        "--grid",
        "2",
        "--block=128",
        "--param",
        "256:f32=random,ro",
        "--param",
        "256:f32",
        "--param",
        "u32:256",
        "--tolerance",
        "0",
        "--seed",
        "3",
        TPC_SIM_SEED="5",
    )
    assert (
        result.returncode == 1 and "elements differ; the largest difference" in result.stdout
    ), result

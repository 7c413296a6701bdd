"""GPU kernels: PTX, cubins where ptxas is installed, and their lines of --report."""

import json
import re
import subprocess

import numpy
import pytest

from harness import find_cuda_tool, tool
from models import COMMITTED, MODELS

TINY = COMMITTED["gpt2-tiny"]
ASSEMBLER = find_cuda_tool("ptxas")


def emit(tpcc, *flags, env=None, target="cuda"):
    return tpcc.call([TINY.path, "--megatron-shard=tp2", f"--target={target}", *flags], env=env)


def test_one_text_for_the_lowest_architecture(tpcc):
    path = tpcc.scratch / "kernels.ptx"
    emit(tpcc, "--emit=ptx", "--gpu-arch=sm_100,sm_90", "-o", path).check()
    text = path.read_text()
    assert ".version 7.8\n" in text and ".target sm_90\n" in text
    assert "kernel_layer_norm(" in text and "ld.global.v4" in text and "st.global.v4" in text
    # Each instruction states its rounding.
    assert re.search(r"\badd\.rn\.f32", text)
    assert not re.search(r"\b(?:add|sub|mul|div|sqrt|fma)\.f32|\.approx|\.ftz", text)


@pytest.mark.parametrize(
    "flags,words",
    [
        (["--emit=ptx", "--gpu-arch=sm_75"], "'sm_75' is too old: kernels need sm_80 or later"),
        (
            ["--emit=ptx", "--gpu-arch=sm_81"],
            "'sm_81' is not supported; supported are sm_80, sm_86",
        ),
        (
            ["--emit=ptx", "--gpu-arch=sm_90a"],
            "'sm_90a' runs on one architecture or family only; name sm_90",
        ),
        (["--emit=ptx", "--gpu-arch=ampere"], "'ampere' is not an architecture"),
        (["--emit=ptx", "--gpu-arch=sm_80,sm_80"], "'sm_80' is given twice"),
        (["--emit=ptx", "--gpu-arch=sm_70"], "'sm_70' is too old"),
        (["--emit=ptx", "--gpu-arch=80"], "'80' is not an architecture; supported are sm_80"),
        (["--emit=ptx", "--gpu-arch=sm_80, sm_90"], "' sm_90' is not an architecture"),
        (["--emit=ptx", "--gpu-arch=sm_80,"], "'' is not an architecture"),
        (["--emit=ptx", "--gpu-arch="], "--gpu-arch is empty"),
        (["--emit=ptx", "-o", "/dev/full"], "cannot write '/dev/full': No space left on device"),
    ],
)
def test_invalid_flags(tpcc, flags, words):
    result = emit(tpcc, *flags)
    assert result.returncode == 1 and words in result.stderr and not result.stdout, result


@pytest.mark.parametrize(
    "target,flags,words",
    [
        ("cpu", ["--emit=ptx"], "--emit=ptx needs --target=cuda"),
        ("cpu", ["--emit=kernels", "--gpu-arch=sm_80"], "--gpu-arch needs a target with GPUs"),
        ("gpu", ["--emit=kernels"], "there is no target 'gpu'; there are cpu, cuda"),
    ],
)
def test_other_targets(tpcc, target, flags, words):
    result = emit(tpcc, *flags, target=target)
    assert result.returncode == 1 and words in result.stderr, result


@pytest.mark.parametrize("toolkit", [True, False])
def test_report_of_kernel_resources(tpcc, toolkit):
    if toolkit and not ASSEMBLER:
        pytest.skip("ptxas: there is none")
    path = tpcc.scratch / "report.json"
    result = emit(
        tpcc,
        "--gpu-arch=sm_80,sm_90",
        f"--report={path}",
        "--shape",
        "batch=1,sequence=8",
        env=None if toolkit else {"CUDA_HOME": "/nonexistent"},
    ).check()
    assert ("there is no ptxas" in result.stderr) == (not toolkit), result
    kernels = json.loads(path.read_text())["kernels"]
    by_name = {kernel["name"]: kernel for kernel in kernels["kernels"]}
    norm = by_name["kernel_layer_norm"]
    assert (
        norm["shape"] == "warp per row"
        and norm["threads"] == 256
        and norm["elements_per_thread"] == 4
    )
    assert norm["rows"] == "batch*sequence"
    assert by_name["kernel_gelu"]["shape"] == "elements"
    for kernel in by_name.values():
        assert set(kernel["architectures"]) == ({"sm_80", "sm_90"} if toolkit else set())
        for needs in kernel["architectures"].values():
            # Attention keeps its sums and scores in registers; its blocks are of 128 or 256
            # threads.
            limit = 255 if kernel["name"].startswith("attention_") else 64
            assert needs["spill_bytes"] == 0 and 0 < needs["registers"] <= limit
    attention = kernels["attention"]
    assert len({entry["node"] for entry in attention}) == len(attention) > 0
    for entry in attention:
        assert (
            entry["computed_by"] == "generated kernels"
            and entry["library"] == "may not: f32: the library may compute in TF32"
        )
        tiles, split = (by_name[name] for name in entry["kernels"])
        assert tiles["dynamic_shared_bytes"] > split["dynamic_shared_bytes"] > 0
        assert [kernel["threads"] for kernel in (tiles, split)] == [128, 128]
    # Layers of one kind share kernels.
    assert sum(name.startswith("attention_") for name in by_name) == 2


def moved(tpcc, text, kernel, operands, results, blocks=4):
    """Returns the sector bytes that a kernel for 64 tokens reads and writes, counted by the
    interpreter."""
    env = tpcc.scratch / "env.npy"
    numpy.save(env, numpy.array([1, 64] + [0] * 14))
    threads = re.search(rf"entry {kernel}\(.*?reqntid (\d+)", text.read_text(), re.S)[1]
    ran = subprocess.run(
        [
            tool("tpc-ptx-run"),
            text,
            "--kernel",
            kernel,
            "--grid",
            str(blocks),
            "--block",
            threads,
            "--counters",
            "--param",
            f"{env},ro",
            "--param",
            "256:u8=0",
            *(word for shape in operands for word in ("--param", f"{shape}:f32=random,ro")),
            *(word for shape in results for word in ("--param", f"{shape}:f32")),
        ],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = re.search(r"global memory: reads (\d+) sectors .* writes (\d+) sectors", ran.stdout)
    return 32 * (int(found[1]) + int(found[2]))


@pytest.mark.parametrize(
    "tp,norm,operands,results,bytes_per_element",
    [
        # Matmuls add the residual, so kernels are two norms.
        (1, "kernel_layer_norm", ["64x768", "768", "768"], 1, 8),
        # Sums follow collectives: each norm kernel also adds the matmul's bias.
        (2, "kernel_add_add_layer_norm", ["64x768", "768", "64x768", "768", "768"], 2, 16),
    ],
)
def test_traffic_of_a_gpt2_layer(tpcc, tp, norm, operands, results, bytes_per_element):
    text, report, hidden = tpcc.scratch / "gpt2.ptx", tpcc.scratch / "gpt2.json", 768
    flags = [MODELS / "gpt2-124m.onnx", f"--megatron-shard=tp{tp}", "--target=cuda"]
    no_assembler = {"CUDA_HOME": "/nonexistent"}
    tpcc.call([*flags, "--emit=ptx", "-o", text], env=no_assembler).check()
    norms = moved(tpcc, text, norm, operands, [f"64x{hidden}"] * results)
    assert norms <= 1.1 * bytes_per_element * hidden * 64
    if tp == 1:
        gelu = moved(tpcc, text, "kernel_gelu", [f"64x{4 * hidden}"], [f"64x{4 * hidden}"])
        assert gelu <= 1.1 * 32 * hidden * 64
        # A layer has two norm kernels and a GELU: 48 bytes per element of the residual.
        assert 2 * norms + gelu <= 1.1 * 48 * hidden * 64
        tpcc.call(
            [*flags, f"--report={report}", "--shape", "batch=1,sequence=64"], env=no_assembler
        ).check()
        launches = json.loads(report.read_text())["kernels"]["launches"]
        assert launches["layer"] == 3, launches

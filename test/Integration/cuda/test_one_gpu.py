"""All parts of the single-GPU script (run) work over simulated libraries and report failures."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from harness import BUILD, run

SCRIPT = Path(__file__).resolve().with_name("run")
LIBRARIES = BUILD / "lib" / "simulator"
# Substitute of the toolkit's tool: runs a program and prints a given text.
SANITIZER = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift 2; done
"$@" || exit
cat "$(dirname "$0")/findings"
grep -q "SUMMARY: 0" "$(dirname "$0")/findings" || exit 86
"""
CLEAN = "========= ERROR SUMMARY: 0 errors\n"
FOUND = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at {kernel}+0x3c0
=========     by thread (0,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
"""


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    """Packs the minimum that exercises each part."""
    folder = tmp_path_factory.mktemp("pack") / "one-gpu"
    run(
        [sys.executable, SCRIPT, "pack", "--quick", "--gpu-arch=sm_90", "-o", folder],
        env={"CUDA_HOME": "/nonexistent"},
    ).check()
    assert folder.with_name("one-gpu.tar.xz").stat().st_size < 12 << 20
    return folder


def call(pack, results, *arguments, path="", **env):
    """Runs the packed script as on a machine without a build, LLVM and a toolkit."""
    script = pack / "run" if pack.is_dir() else SCRIPT
    where = [] if pack.is_dir() else ["--pack", pack]
    bare = {
        "TPC_CUDA_LIBS": str(LIBRARIES),
        "TPC_BUILD": "/nonexistent",
        "PATH": f"{path}:/usr/bin:/bin",
        "CUDA_HOME": "",
        **env,
    }
    output = run([sys.executable, "-E", script, *arguments, *where, "--results", results], env=bare)
    file = results / "results.json"
    return output, json.loads(file.read_text())["checks"] if file.exists() else []


def test_without_numpy(tmp_path):
    shutil.copy(SCRIPT, tmp_path / "run")
    run([sys.executable, "-S", tmp_path / "run", "machine"]).refused(
        "run: error: NumPy is not installed", "python3 -m pip install numpy"
    )


def states(checks, part):
    return [check["state"] for check in checks if check["part"] == part]


def sanitizer(folder, text):
    folder.mkdir()
    (folder / "compute-sanitizer").write_text(SANITIZER)
    (folder / "compute-sanitizer").chmod(0o755)
    (folder / "findings").write_text(text)
    return folder


def test_all_parts(pack, tmp_path):
    trace = tmp_path / "trace"
    result, checks = call(
        pack,
        tmp_path / "results",
        path=sanitizer(tmp_path / "bin", CLEAN),
        TPC_SIM_TRACE=str(trace),
    )
    result.check()
    for part in ("kernels", "correctness", "sanitizer"):
        assert states(checks, part) and set(states(checks, part)) == {"passed"}, result
    assert states(checks, "benchmark") == ["passed", "passed", "passed", "skipped"], result
    assert states(checks, "generation") == ["passed", "skipped", "skipped"], result
    assert states(checks, "training") == ["passed", "passed", "skipped"], result
    assert "ncclAllReduce" in trace.read_text()
    assert (
        "PyTorch with CUDA is not installed: benchmark: GPT-2 tiny PyTorch"
        in result.stdout.split("Not proved:")[1]
    )
    table = (
        run([sys.executable, SCRIPT, "table", tmp_path / "results" / "results.json"]).check().stdout
    )
    assert (
        "### Simulated GPU" in table
        and "| GPT-2 tiny | 4 |" in table
        and "| correctness | 7 | 0 | 0 |" in table
    )


def test_wrong_numbers_and_crashes_fail_alone(pack, tmp_path):
    own = tmp_path / "pack"
    shutil.copytree(pack, own)
    wrong = own / "expected" / "gpt2-tiny" / "logits" / "001.npy"
    np.save(wrong, np.load(wrong) + np.eye(1000, dtype=np.float32)[3] * 0.5)
    (own / "bin" / "gpt2-tiny-tp2").write_text("#!/bin/sh\nkill -SEGV $$\n")
    cases = own / "kernels" / "cases.txt"
    lines = cases.read_text().splitlines()
    cases.write_text("\n".join([lines[0].replace("env.npy", "gone.npy"), lines[1]]) + "\n")
    result, checks = call(own, tmp_path / "results", "kernels", "correctness")
    assert result.returncode == 1, result
    assert states(checks, "kernels") == ["failed", "passed"]
    by_name = {check["name"]: check for check in checks}
    note = by_name["gpt2-tiny tp1 threads"]["note"]
    assert (
        "logits, step 001" in note
        and "at [0, 0, 3]" in note
        and "with CUDA_LAUNCH_BLOCKING=1: wrong as well" in note
    )
    assert "SIGSEGV" in by_name["gpt2-tiny tp2 threads"]["note"]
    assert by_name["GPT-2 tiny tp1 against the CPU"]["state"] == "passed"
    assert "Failed:\n  kernels: " in result.stdout


def test_hanging_checks_end_at_their_limit(pack, tmp_path):
    own = tmp_path / "pack"
    shutil.copytree(pack, own)
    program = own / "bin" / "gpt2-tiny-tp2"
    program.rename(own / "bin" / "tp2")
    program.write_text('#!/bin/sh\nTPC_SIM_INJECT=hang@40 "$(dirname "$0")/tp2" "$@" & wait\n')
    program.chmod(0o755)
    result, checks = call(
        own, tmp_path / "results", "correctness", "--only=tp[12] threads$", "--limit=3"
    )
    assert result.returncode == 1 and states(checks, "correctness") == ["passed", "failed"], result
    assert checks[-1]["name"] == "gpt2-tiny tp2 threads" and checks[-1]["note"].startswith(
        "ran past its limit of 3 s"
    )
    assert not subprocess.run(
        ["pgrep", "-f", str(own / "bin")], capture_output=True, text=True
    ).stdout


def test_findings_in_vendor_kernels_are_separate(pack, tmp_path):
    for whose, kernel, state in (
        ("ours", "kernel_gelu", "failed"),
        ("theirs", "cutlass_80_simt_sgemm", "passed"),
    ):
        path = sanitizer(tmp_path / whose, FOUND.format(kernel=kernel))
        output, checks = call(
            pack, tmp_path / f"results-{whose}", "sanitizer", "--only=memcheck.*tp1", path=path
        )
        assert states(checks, "sanitizer") == [state], output
    assert checks[-1]["note"] == "1 findings in the vendor's kernels"


def test_a_machine_without_a_gpu(pack, tmp_path):
    result, checks = call(pack, tmp_path / "results", TPC_CUDA_LIBS="/nonexistent")
    assert result.returncode == 1 and "libcuda.so.1 was not found" in result.stdout, result
    assert {check["part"] for check in checks} == {"machine"}


def test_an_archive_is_unpacked(pack, tmp_path):
    archive = shutil.copy(pack.with_name("one-gpu.tar.xz"), tmp_path)
    result, checks = call(Path(archive), tmp_path / "results", "kernels", "--only=gelu")
    result.check()
    assert states(checks, "kernels") == ["passed", "passed"]


def test_unknown_part(pack, tmp_path):
    call(pack, tmp_path / "results", "machines")[0].refused("there is no part 'machines'")


def test_generation_is_compared_with_pytorch():
    """PyTorch without a result has an empty cell."""
    from one_gpu import generation_table

    def check(way, rows):
        return {"data": {"generation": "LLaMA", "way": way, "rows": rows}}

    checks = [
        {"data": {}},
        check("tpc", [{"prompt": 512, "prefill_seconds": 4e-3, "decode_seconds": 2e-3}]),
        check(
            "",
            [
                {"way": "eager", "phase": "decode", "tokens": 1, "seconds": 10e-3},
                {"way": "compiled", "phase": "prefill", "tokens": 2048, "seconds": 9e-3},
                {"way": "compiled", "phase": "prefill", "tokens": 512, "seconds": 3e-3},
                {"way": "eager", "phase": "prefill", "tokens": 512, "problem": "out of memory"},
            ],
        ),
    ]
    text = generation_table.render(checks)
    assert text.splitlines()[2:] == ["| LLaMA | 2 | 5.00 |  | 4 |  | 0.75 |"]
    assert generation_table.render(checks[:1]) == ""


def test_training_is_compared_with_pytorch():
    from one_gpu import training_table

    def check(*rows):
        return {"data": {"training": "GPT-2, 8 × 512", "rows": list(rows)}}

    own = {"way": "tpc", "seconds": 0.02, "tokens_per_second": 2e5, "share_of_products": 0.31}
    eager = {"way": "eager", "seconds": 0.03, "tokens_per_second": 1.4e5, "share_of_products": 0.2}
    checks = [{"data": {}}, check(own), check(eager, {"way": "compiled", "problem": "no Triton"})]
    text = training_table.render(checks)
    assert text.splitlines()[2:] == ["| GPT-2, 8 × 512 | 2e+05 | 1.50 |  | 31% | 20% |  |"]
    assert training_table.render(checks[:1]) == ""


def test_kernels_of_a_step_are_summed_by_class(tmp_path):
    from one_gpu import generation

    lines = [
        (30, 31, 1, "tpc_choose_bf16"),
        (0, 10, 4, "attention_bf16_64"),
        (9, 17, 8, "nvjet_sm90"),
        (40, 45, 8, "tpc_gemv_bf16"),
        (46, 47, 1, "tpc_choose_bf16"),
        (50, 51, 1, "kernel_rms_norm"),
    ]
    file = tmp_path / "kernels.tsv"
    file.write_text("".join("\t".join(map(str, line)) + "\n" for line in lines))
    steps = generation.steps_of(file)
    assert [len(step) for step in steps] == [3, 2, 1]
    first = generation.summarize([(1000 * b, 1000 * e, n, k) for b, e, n, k in steps[0]])
    assert first["microseconds"] == 18 and first["span"] == 31 and first["kernels"] == 3
    assert first["classes"] == {"attention": (1, 10.0), "matmul": (1, 7.0), "sampling": (1, 1.0)}
    assert [generation.is_prefill(step) for step in steps] == [True, False, False]


def test_page_is_current():
    from one_gpu import table

    page = (SCRIPT.parents[3] / "docs" / "reference" / "gpu-results.md").read_text()
    written = page.split(table.BEGIN)[1].split(table.END)[0].strip()
    assert written == table.NONE or written.startswith("### ")


@pytest.mark.long
def test_contents_of_the_pack(tmp_path):
    folder = tmp_path / "one-gpu"
    run([sys.executable, SCRIPT, "pack", "-o", folder], timeout=3600).check()
    result, checks = call(
        folder,
        tmp_path / "results",
        "kernels",
        "correctness",
        "--seconds",
        "3600",
        "--only=^(?!.*124M)",
    )
    result.check()
    assert len(states(checks, "kernels")) > 50 and len(states(checks, "correctness")) > 40

"""Failures of ptxas: missing, rejecting, crashing, hanging, and out of disk space."""

import fcntl
import os
import re
import sys
from pathlib import Path

import pytest

from harness import find_cuda_tool, run, tool
from models import COMMITTED

MLP, TINY = COMMITTED["gpt2-mlp"], COMMITTED["gpt2-tiny"]
ASSEMBLER = find_cuda_tool("ptxas")


def emit(tpcc, *flags, env=None):
    return tpcc.call([MLP.path, "--megatron-shard=tp2", "--target=cuda", *flags], env=env)


def test_without_a_toolkit_a_note_names_what_is_missing(tpcc):
    """Without ptxas, only the cubins are missing, and a note names them."""
    texts = {}
    for toolkit in ("", "/nonexistent"):
        path = tpcc.scratch / "kernels.ptx"
        result = emit(
            tpcc, "--emit=ptx", "--gpu-arch=sm_80,sm_100", "-o", path, env={"CUDA_HOME": toolkit}
        ).check()
        texts[toolkit] = path.read_text()
    assert (
        "there is no ptxas (in CUDA_HOME, which is '/nonexistent'): no cubins for sm_80, sm_100;"
        " the executable contains PTX" in result.stderr
    ), result
    assert texts[""] == texts["/nonexistent"]


def test_tests_pass_without_a_toolkit():
    """Without a toolkit, tests pass, except for those that need ptxas, which are skipped."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        Path(__file__).parent / "test_gpu_kernels.py",
        "-k",
        "report or text or other_targets",
    ]
    output = run(command, env={"CUDA_HOME": "/nonexistent"}).check().stdout
    assert re.search(r"^[0-9]+ passed, 1 skipped", output, re.M), output
    assert re.findall(r"^SKIPPED .*py:\d+: (.*)", output, re.M) == ["ptxas: there is none"]


# Replacements of ptxas, and the message of each.
ASSEMBLERS = {
    "refuses": (
        "echo 'ptxas fatal: no' >&2; exit 255",
        [
            "this is a bug in tpcc",
            "rejects its PTX for sm_80",
            "which is kept in",
            "ptxas fatal: no",
        ],
    ),
    "crashes": (
        "kill -SEGV $$",
        [
            "did not end by itself for sm_80: Segmentation fault",
            "select another ptxas by CUDA_HOME or PATH",
        ],
    ),
    "is killed": ("echo half; kill -KILL $$", ["did not end by itself for sm_80: Killed", "half"]),
    "writes nothing": ("exit 0", ["has written no cubin for sm_80"]),
    "writes something": (
        "while [ $# -gt 0 ]; do [ $1 = -o ] && echo cubin >$2; shift; done",
        ["has written no cubin"],
    ),
    "says nothing": (
        "while [ $# -gt 0 ]; do [ $1 = -o ] && cp /bin/true $2; shift; done",
        ["does not report the resources of kernel_", "on sm_80"],
    ),
    "starts one that has gone": (
        "exec /nonexistent/bin/ptxas",
        [
            "cannot be executed for sm_80: ",
            "/nonexistent/bin/ptxas",
            "select another ptxas by CUDA_HOME or PATH",
        ],
    ),
    "is no program": (None, ["cannot be started: ", "none by CUDA_HOME=/nonexistent"]),
}


@pytest.mark.parametrize("how", ASSEMBLERS)
def test_an_assembler_that(tpcc, tmp_path, how):
    script, words = ASSEMBLERS[how]
    path, scratch = tmp_path / "bin" / "ptxas", tmp_path / "scratch"
    path.parent.mkdir()
    scratch.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n" if script else "\0")
    path.chmod(0o755)
    result = emit(
        tpcc,
        "--emit=ptx",
        "--gpu-arch=sm_80",
        "-o",
        tmp_path / "out",
        env={"CUDA_HOME": tmp_path, "TMPDIR": scratch},
    )
    result.refused(str(path), *words)
    assert not (tmp_path / "out").exists()
    # Only a rejected PTX text is kept.
    assert [left.suffix for left in scratch.iterdir()] == ([".ptx"] if how == "refuses" else [])


def put_assembler(folder, script):
    path = folder / "bin" / "ptxas"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.skipif(not ASSEMBLER, reason="ptxas: there is none")
def test_a_cubin_whose_last_kernel_has_shared_memory(tpcc, tmp_path):
    """Shared memory is a section that has a size but no bytes in the file."""
    tpcc.call(
        [
            TINY.path.with_name("phi-dynamo.onnx"),
            "--target=cuda",
            "--gpu-arch=sm_80,sm_90",
            "-o",
            tmp_path / "out",
        ]
    ).check()


@pytest.mark.skipif(not ASSEMBLER, reason="ptxas: there is none")
@pytest.mark.parametrize(
    "does",
    [
        "head -c 100",
        "head -c 3000",
        "head -c -1",
        "LC_ALL=C sed s/[.]text[.]kernel_/.text.others_/g",
    ],
)
def test_truncated_cubin(tpcc, tmp_path, does):
    """A truncated cubin with status 0, as after a full disk, and a cubin of other kernels."""
    put_assembler(
        tmp_path,
        f"""{ASSEMBLER} "$@" || exit
while [ $# -gt 0 ]; do [ $1 = -o ] && cubin=$2; shift; done
{does} $cubin >$cubin.other && mv $cubin.other $cubin""",
    )
    result = emit(
        tpcc, "--emit=ptx", "--gpu-arch=sm_80", "-o", tmp_path / "out", env={"CUDA_HOME": tmp_path}
    )
    result.refused(
        "has written a cubin for sm_80 that is cut off, or lacks a kernel",
        "none by CUDA_HOME=/nonexistent",
    )


def test_files_of_a_killed_compiler_are_removed(tpcc, tmp_path):
    """The next compiler removes files of a killed one, but not files that another process uses or
    that belong to another user.
    """
    scratch = tmp_path / "scratch"
    (scratch / "tpc-ptxas-other").mkdir(parents=True)
    env = {"CUDA_HOME": tmp_path, "TMPDIR": scratch}
    put_assembler(tmp_path, "kill -KILL $PPID")
    assert (
        emit(tpcc, "--emit=ptx", "--gpu-arch=sm_80", "-o", tmp_path / "out", env=env).returncode
        != 0
    )
    (left,) = (folder for folder in scratch.iterdir() if folder.name != "tpc-ptxas-other")
    assert list(left.glob("sm_*.ptx"))
    put_assembler(tmp_path, f"ls {scratch} >{tmp_path}/seen; exit 1")
    with open(left / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        emit(tpcc, "--emit=ptx", "--gpu-arch=sm_80", "-o", tmp_path / "out", env=env).refused(
            "rejects its PTX"
        )
        assert left.name in (tmp_path / "seen").read_text()
    emit(tpcc, "--emit=ptx", "--gpu-arch=sm_80", "-o", tmp_path / "out", env=env).refused(
        "rejects its PTX"
    )
    assert left.name not in (tmp_path / "seen").read_text()
    assert [folder.name for folder in scratch.iterdir() if folder.is_dir()] == ["tpc-ptxas-other"]


@pytest.mark.long
@pytest.mark.parametrize(
    "does,words,flags",
    [
        ("exec sleep 1000", "s without CPU time for sm_80", []),
        ("while :; do :; done", "s of CPU time for sm_80", ["--gpu-arch=sm_80"]),
    ],
)
def test_hanging_assembler(tpcc, tmp_path, does, words, flags):
    """An idle ptxas is ended after a minute, and the others with it. A working one is ended after a
    minute of CPU time, even if others compete for the CPU.
    """
    path = tmp_path / "bin" / "ptxas"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\necho $$ >>{tmp_path}/started\n{does}\n")
    path.chmod(0o755)
    emit(tpcc, "--emit=ptx", *flags, "-o", tmp_path / "out", env={"CUDA_HOME": tmp_path}).refused(
        "has not ended after", words
    )
    started = (tmp_path / "started").read_text().split()
    assert started and not any(os.path.exists(f"/proc/{process}") for process in started)


@pytest.mark.parametrize(
    "folder,words",
    [
        ("/nonexistent", "no folder for ptxas can be made: No such file or directory"),
        ("/proc", "no folder for ptxas can be made"),
    ],
)
def test_no_folder_for_the_assembler(tpcc, folder, words):
    if not ASSEMBLER:
        pytest.skip("ptxas: there is none")
    emit(tpcc, "--emit=ptx", "-o", tpcc.scratch / "out", env={"TMPDIR": folder}).refused(
        words, "TMPDIR names its parent folder"
    )


def test_a_full_disk_for_the_assembler(tpcc, tmp_path):
    """A limit on file sizes, which every user may set, simulates a full disk."""
    if not ASSEMBLER:
        pytest.skip("ptxas: there is none")
    command = (
        f"trap '' XFSZ; ulimit -f 8; exec {tool('tpcc')} {TINY.path} --target=cuda"
        " --report=/dev/null --shape batch=1,sequence=8"
    )
    run(["bash", "-c", command], env={"TMPDIR": tmp_path}).refused(
        "cannot write", "sm_80.ptx' for ptxas: File too large"
    )
    assert not list(tmp_path.iterdir())

"""Writes folders for TPC_CUDA_LIBS with links to the simulator, or stubs of libraries."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from harness import TOP
from simulator import LIBRARIES

CUBLASLT = [
    f"cublasLt{name}"
    for name in (
        "Create",
        "Destroy",
        "MatmulDescCreate",
        "MatmulDescDestroy",
        "MatmulDescSetAttribute",
        "MatrixLayoutCreate",
        "MatrixLayoutDestroy",
        "MatrixLayoutSetAttribute",
        "MatmulPreferenceCreate",
        "MatmulPreferenceDestroy",
        "MatmulPreferenceSetAttribute",
        "MatmulAlgoGetHeuristic",
        "MatmulAlgoCheck",
        "Matmul",
    )
]
NCCL = (
    "GetUniqueId CommInitRankConfig CommDestroy CommAbort CommGetAsyncError AllReduce AllGather"
    " ReduceScatter Broadcast Send Recv GroupStart GroupEnd GetErrorString GetLastError"
).split()


def put(folder: Path, *names: str) -> Path:
    """Links to the simulator's libraries."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).symlink_to(LIBRARIES / name)
    return folder


def stub(folder: Path, name: str, source: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stub.c").write_text(source)
    subprocess.run(
        [
            "clang-22" if shutil.which("clang-22") else "cc",
            "-shared",
            "-fPIC",
            "-o",
            str(folder / name),
            str(folder / "stub.c"),
        ],
        check=True,
    )
    return folder


def functions(names) -> str:
    return "".join(f"int {name}(void) {{ return 0; }}\n" for name in names)


def cublaslt(folder: Path, file: str, version: int, leave=()) -> Path:
    return stub(
        folder,
        file,
        f"#include <stddef.h>\nsize_t cublasLtGetVersion(void) {{ return {version}; }}\n"
        + functions(name for name in CUBLASLT if name not in leave),
    )


def nccl(folder: Path, version: int) -> Path:
    return stub(
        folder,
        "libnccl.so.2",
        f"int ncclGetVersion(int *version) {{ *version = {version}; return 0; }}\n"
        + functions(f"nccl{name}" for name in NCCL),
    )


def driver(folder: Path, leave=(), **results: int) -> Path:
    """Writes a driver whose functions succeed and do nothing, except for those in `results`."""
    text = (TOP / "test" / "Simulator" / "Cuda" / "Functions.def").read_text()
    names = [name for name in re.findall(r"^FUNCTION\((\w+)", text, re.M) if name not in leave]
    return stub(
        folder,
        "libcuda.so.1",
        "".join(f"int {name}(void) {{ return {results.get(name, 0)}; }}\n" for name in names),
    )


def cudnn(folder: Path, version: int, create: int = 0) -> Path:
    names = (
        "Destroy SetStream BackendCreateDescriptor BackendDestroyDescriptor BackendFinalize"
        " BackendSetAttribute BackendGetAttribute BackendExecute"
    ).split()
    return stub(
        folder,
        "libcudnn.so.9",
        f"#include <stddef.h>\nsize_t cudnnGetVersion(void) {{ return {version}; }}\n"
        'const char *cudnnGetErrorString(int status) { return "not started"; }\n'
        f"int cudnnCreate(void **handle) {{ return {create}; }}\n"
        + functions(f"cudnn{name}" for name in names),
    )

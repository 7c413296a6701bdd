"""How tests give programs for GPUs the libraries that simulate the vendor's (test/Simulator): the
executables are those that users have.
"""

from __future__ import annotations

from harness import BUILD

LIBRARIES = BUILD / "lib" / "simulator"
# Its driver takes no machine code: nobody has to make any.
FLAGS = ("--target=cuda", "--gpu-arch=sm_80")


def environment(**more):
    return {"TPC_CUDA_LIBS": str(LIBRARIES), **{name: str(value) for name, value in more.items()}}

"""Environments in which GPU programs find the simulated libraries (test/Simulator)."""

from __future__ import annotations

from harness import BUILD

LIBRARIES = BUILD / "lib" / "simulator"
# The driver of the simulator accepts PTX only, so no machine code is compiled.
FLAGS = ("--target=cuda", "--gpu-arch=sm_80")
# For tests of the host side. Without optimization, a compilation takes a third of the time.
UNOPTIMIZED = (*FLAGS, "-O0")


def environment(**more):
    return {"TPC_CUDA_LIBS": str(LIBRARIES), **{name: str(value) for name, value in more.items()}}

"""The real cuDNN has plans for the attention cases that the compiler assigns to it.

Runs where cuDNN is installed, for three described GPU generations, without a GPU.
"""

import os
import sys
from pathlib import Path

import pytest

from harness import BUILD, run


def folders() -> list[Path]:
    """Returns folders that may contain cuDNN and NVRTC, which it loads."""
    given = [os.environ["TPC_CUDNN"]] if os.environ.get("TPC_CUDNN") else []
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    packages = sorted(Path(sys.prefix).glob("lib/python3*/site-packages/nvidia/*/lib"))
    return [
        Path(folder)
        for folder in [*given, f"{home}/lib64", f"{home}/lib", *packages]
        if Path(folder).is_dir()
    ]


@pytest.mark.parametrize(
    "few", [True, pytest.param(False, marks=pytest.mark.long)], ids=["few", "all"]
)
def test_plans(few):
    if not any((folder / "libcudnn.so.9").exists() for folder in folders()):
        pytest.skip("cuDNN: there is no libcudnn.so.9 in " + ", ".join(map(str, folders())))
    paths = ":".join(map(str, [BUILD / "test" / "no-device", *folders()]))
    result = run(
        [BUILD / "test" / "bin" / "tpc-cudnn-plans", *(["--few"] if few else [])],
        env={"LD_LIBRARY_PATH": paths},
        timeout=600,
    )
    lines = result.check().stdout.splitlines()[1:]
    assert len(lines) == (4 if few else 37)
    *wanted, refused = lines
    assert all(line.endswith(": accepted") for line in wanted), result.stdout
    assert ": refused" in refused, result.stdout

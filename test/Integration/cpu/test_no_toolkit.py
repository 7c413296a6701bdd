"""Build and tests without a CUDA toolkit: tests that need ptxas or a vendor library are skipped."""

import re
import sys
from pathlib import Path

import pytest

from harness import BUILD, TOP, run
from models import COMMITTED
from simulator import LIBRARIES

# Makes toolkit folders empty in a namespace, and their programs unusable.
HIDE = """
for folder in $(readlink -f /usr/local/cuda*); do
  [ ! -d "$folder" ] || mount -t tmpfs none "$folder" || exit 77; done
for name in ptxas nvdisasm nvcc; do for file in $(type -aP $name); do
  mount --bind /dev/null "$file" || exit 77; done; done
unset CUDA_HOME CUDA_PATH LD_LIBRARY_PATH LIBRARY_PATH CPATH
exec "$@"
"""
# Entries of OPTIONAL in test/run.py that may be missing.
MAY_LACK = {"long run", "ptxas", "nvdisasm", "cuDNN"}


def hidden(command):
    return ["unshare", "-rm", "bash", "-c", HIDE, "-", *command]


def toolkit(home, version):
    """Creates the files of a toolkit that CMake searches."""
    (home / "include").mkdir(parents=True)
    (home / "include" / "cuda.h").write_text(f"#define CUDA_VERSION {version}\n")
    (home / "include" / "cublasLt.h").write_text("#include <not_there.h>\n")
    return home


def configure(folder, wrap=lambda command: command, **env):
    result = run(
        wrap(["cmake", "--preset", "release", "-S", str(TOP), "-B", str(folder)]), env=env, cwd=TOP
    )
    if result.returncode == 77 or "unshare" in result.stderr:
        pytest.skip("mounting: no permission")
    return result.check().stdout


@pytest.fixture(params=["hidden", "CUDA_HOME", "older", "broken"])
def without(request, tmp_path):
    """Returns the output of CMake and the configured folder."""
    folder = tmp_path / "build"
    if request.param == "hidden":
        return configure(folder, hidden), folder
    home = {
        "CUDA_HOME": lambda: "/nonexistent",
        "older": lambda: toolkit(tmp_path / "home", 11080),
        "broken": lambda: toolkit(tmp_path / "home", 13000),
    }[request.param]()
    return configure(folder, CUDA_HOME=str(home)), folder


@pytest.mark.long
def test_nothing_is_compared(without, request):
    output, folder = without
    rules = (folder / "build.ninja").read_text()
    assert "TPCSimCublasLtHeaders" not in rules and "tpc_cuda_headers" not in rules
    how = request.node.callspec.params["without"]
    if how in ("hidden", "CUDA_HOME"):
        assert "CUDA toolkit: none" in output, output
        assert (
            "TPC_CUDA_HEADERS:PATH=TPC_CUDA_HEADERS-NOTFOUND"
            in (folder / "CMakeCache.txt").read_text()
        )
    else:
        assert "not compared with cublasLt.h of CUDA 13" in output, output
    # A header suffices for the comparison if its version is that of the declarations.
    if how in ("CUDA_HOME", "older"):
        assert "TPCSimCudaHeaders" not in rules


@pytest.mark.long
def test_gpu_parts_are_built(tmp_path):
    """The compiler searches for ptxas at run time and does not depend on a toolkit at build
    time."""
    folder = tmp_path / "build"
    configure(folder, hidden)
    targets = [
        "tpc_cuda",
        "TPCSimCuda",
        "TPCSimCublasLt",
        "TPCSimCudnn",
        "TPCSimNccl",
        "SimulatorTests",
    ]
    run(hidden(["ninja", "-C", str(folder), *targets]), timeout=3600).check()
    run(
        hidden([str(folder / "test" / "bin" / "SimulatorTests"), "--gtest_brief=1"]), timeout=1200
    ).check()


@pytest.mark.long
def test_tests_pass():
    files = [
        "cuda/test_cuda_programs.py",
        "cuda/test_cuda_loading.py",
        "cuda/test_steps.py",
        "cuda/test_one_gpu.py",
        "cuda/test_cuda_refusals.py",
        "cuda/test_cuda_faults.py",
        "generate/test_generate_cuda.py",
        "generate/test_generate_cuda_memory.py",
        "cpu/test_gpu_kernels.py",
        "cpu/test_gpu_gates.py",
        "cpu/test_ptxas.py",
    ]
    result = run(
        hidden(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-rs",
                "-p",
                "no:cacheprovider",
                *(str(Path(__file__).parents[1] / file) for file in files),
            ]
        ),
        env={"TPC_BUILD": str(BUILD)},
        timeout=3600,
    )
    if result.returncode == 77 or "unshare" in result.stderr:
        pytest.skip("mounting: no permission")
    assert re.search(r"^[0-9]+ passed", result.check().stdout, re.M), result
    lacks = {line.split(": ")[1] for line in re.findall(r"^SKIPPED .*", result.stdout, re.M)}
    assert lacks <= MAY_LACK, result


def test_driver_without_libraries(tpcc, tmp_path):
    """No library is loaded, and one line lists the searched libraries and folders."""
    program = tpcc.compile(COMMITTED["gpt2-mlp"].path, "tp2", "--target=cuda", "--gpu-arch=sm_80")
    (tmp_path / "libcuda.so.1").symlink_to(LIBRARIES / "libcuda.so.1")
    result = run(
        hidden([str(program.path), "--bench", "--shape", "batch=1,sequence=1"]),
        env={"TPC_CUDA_LIBS": str(tmp_path), "VIRTUAL_ENV": "", "CONDA_PREFIX": ""},
    )
    if result.returncode == 77 or "unshare" in result.stderr:
        pytest.skip("mounting: no permission")
    result.refused(
        "this program computes on GPUs, but libcublasLt.so.13 or libcublasLt.so.12 was not found"
        " (by TPC_CUDA_LIBS, the loader's path, CUDA_HOME, or in an active Python)"
    )
    assert result.stderr.count("\n") == 1

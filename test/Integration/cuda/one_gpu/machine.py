"""Properties of the machine, and the environment of programs."""

from __future__ import annotations

import json
import os
import platform
import shutil
import site
import sys
from pathlib import Path

from one_gpu.process import Ended, run as run_process
from one_gpu.report import Report, failed, passed, skipped

PROVES = "programs start, find the driver and the libraries, and compute a step"
# Time limit in seconds. The first use of a driver may be slow.
LIMIT = 90


class Machine:
    def __init__(self, pack: Path, listed: dict, torch: str):
        self.pack, self.listed, self.torch = pack, listed, torch
        self.env = {
            "TPC_CUDA_LIBS": ":".join(self.folders()),
            "NCCL_DEBUG": os.environ.get("NCCL_DEBUG", "WARN"),
            "TPC_CACHE": "",
        }

    def folders(self) -> list[str]:
        """Returns folders that may contain the vendor's libraries: TPC_CUDA_LIBS, packages of this
        Python (whose environment need not be active), and toolkits in /usr/local.
        """
        found = [folder for folder in os.environ.get("TPC_CUDA_LIBS", "").split(":") if folder]
        places = [*site.getsitepackages(), site.getusersitepackages(), *filter(None, sys.path)]
        for place in dict.fromkeys(places):
            found += sorted(str(path) for path in Path(place).glob("nvidia/*/lib"))
        found += sorted(
            (str(path) for path in Path("/usr/local").glob("cuda*/lib64")), reverse=True
        )
        return list(dict.fromkeys(found))

    def tool(self, name: str) -> str | None:
        """Returns the path of a program of the toolkit or of a Python package, if there is one."""
        homes = [
            os.environ.get("CUDA_HOME", ""),
            *map(str, sorted(Path("/usr/local").glob("cuda*"), reverse=True)),
        ]
        places = [
            f"{home}/{below}" for home in homes if home for below in ("bin", "compute-sanitizer")
        ]
        places += [
            str(Path(folder).parent / below)
            for folder in self.folders()
            for below in ("bin", "compute-sanitizer")
        ]
        return shutil.which(name) or shutil.which(name, path=":".join(places))

    def finds(self, library: str) -> bool:
        """Returns whether programs find the library, either in those folders or by the loader."""
        if any(
            (Path(folder) / library).exists() for folder in self.env["TPC_CUDA_LIBS"].split(":")
        ):
            return True
        return run_process(
            [sys.executable, "-c", f"import ctypes; ctypes.CDLL('{library}')"], 30
        ).ok

    def loader_env(self) -> dict[str, str]:
        """Returns the environment of programs that find libraries only through the loader. The
        caller's LD_LIBRARY_PATH comes first, so that its driver is found.
        """
        paths = [
            os.environ.get("LD_LIBRARY_PATH", ""),
            self.env.get("LD_LIBRARY_PATH", ""),
            self.env["TPC_CUDA_LIBS"],
        ]
        return {**self.env, "LD_LIBRARY_PATH": ":".join(filter(None, paths))}

    def run(self, command, limit: float, **env: str) -> Ended:
        """Runs a command, which begins with a program of the pack or a full path."""
        return run_process(
            [self.pack / command[0], *command[1:]], limit, {**self.env, **env}, cwd=self.pack
        )


def read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def ask_system(report: Report, here: Machine, limit: float):
    """Records the output of nvidia-smi, which may be missing, and of the system."""
    report.machine |= {
        "python": platform.python_version(),
        "system": platform.platform(),
        "libc": " ".join(platform.libc_ver()),
        "processors": len(os.sched_getaffinity(0)),
        "packed": here.listed["made"],
    }
    result = run_process(
        [
            "nvidia-smi",
            (
                "--query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,"
                "compute_mode,"
                "ecc.mode.current,mig.mode.current,power.limit"
            ),
            "--format=csv,noheader",
        ],
        limit,
    )
    report.machine["nvidia-smi"] = result.stdout.strip() if result.ok else result.why()
    version = read("/proc/driver/nvidia/version").split("\n")[0]
    report.machine["driver"] = version
    return (
        passed("; ".join(filter(None, [report.machine["nvidia-smi"], version])))
        if result.ok
        else skipped(result.why())
    )


def start(report: Report, here: Machine, limit: float):
    """Runs a program without GPU work: checks the CPU and the libraries against those that the pack
    was built for.
    """
    program = here.listed["programs"][0]["executable"]
    result = here.run([program, "--describe", "--json"], limit)
    if (
        not result.ok
        and "GLIBCXX" in result.stderr + result.stdout
        and (here.pack / "fallback").is_dir()
    ):
        here.env["LD_LIBRARY_PATH"] = (
            f"{here.pack / 'fallback'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        )
        result = here.run([program, "--describe", "--json"], limit)
    report.log("start", str(result))
    if not result.ok:
        return failed(
            result.why()
            + (
                "; compiled for another processor: run pack --march=…"
                if result.status == -4
                else ""
            )
        )
    json.loads(result.stdout)
    return passed("with the packed libstdc++" if "LD_LIBRARY_PATH" in here.env else "")


def step(report: Report, here: Machine, limit: float):
    """Runs one step of one program, without comparing results: tests the driver, cuBLASLt, and code
    for this architecture.
    """
    program = here.listed["programs"][0]
    described = here.run([program["executable"], "--describe-device"], limit)
    if described.ok:
        report.machine["described"] = described.stdout.strip()
    run_result = here.run(
        [
            program["executable"],
            "--bench",
            "--shape",
            program["shape"],
            "--warmup",
            "1",
            "--repeat",
            "1",
            "--weights",
            program["weights"],
            "--verbose",
        ],
        limit,
    )
    report.log("step", f"{described}\n{run_result}")
    if not run_result.ok:
        return failed(run_result.why())
    result = json.loads(run_result.stdout[run_result.stdout.index("{") :])
    report.machine |= {"kernels": result["kernels"], "products": result["products"]}
    return passed(
        f"{result['kernels']}, {result['products']}, loaded in {result['load_seconds']:.1f} s"
    )


def run(report: Report, here: Machine) -> bool:
    report.check(
        "machine", "system", lambda limit: ask_system(report, here, limit), 30, always=True
    )
    # Each check requires that the previous ones have passed.
    for name, function in (("a program starts", start), ("a step", step)):
        verdict = report.check(
            "machine", name, lambda limit: function(report, here, limit), LIMIT, always=True
        )
        if verdict.state != "passed":
            return False
    return True

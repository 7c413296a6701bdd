"""Calls the compiler and its executables, and describes grids."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import itertools
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

TOP = Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "test"))

from machine_time import LoadClock, scaled  # noqa: E402, F401

# Measurements of programs are not stored, unless a test sets a path.
os.environ.setdefault("TPC_CACHE", "")

BUILD = Path(os.environ.get("TPC_BUILD") or TOP / "build").resolve()
# The tool makes an executable of a staged program. Tests that need it fail if it was not built.
BUILD_STAGED = BUILD / "test" / "bin" / "tpc-build-staged"
# The launcher starts processes as torchrun does.
LAUNCH = [sys.executable, str(TOP / "runtime" / "conformance" / "launch.py")]
# The timeout in seconds of a clock that slows down on a busy machine (machine_time.LoadClock).
TIMEOUT_SECONDS = 300


def stale_tools() -> list[tuple[Path, Path]]:
    """Returns test tools that are older than the compiler, as after building only `tpc-product`."""
    library = BUILD / "lib" / "libTPCDialect.a"
    tools = [
        BUILD / "test" / "bin" / name
        for name in ("tpc-build-staged", "tpc-compare-kernels", "tpc-import-many")
    ]
    return [
        (path, library)
        for path in tools
        if library.exists() and path.exists() and path.stat().st_mtime < library.stat().st_mtime
    ]


def find_cuda_tool(name: str) -> Path | None:
    """Searches where tpcc searches ptxas: in CUDA_HOME/bin if CUDA_HOME is set, else in PATH and
    /usr/local/cuda/bin. Other tools may also be in PATH, or in a package of this Python.
    """
    home = os.environ.get("CUDA_HOME")
    found = shutil.which(name, path=f"{home}/bin" if home else None) or (
        None if home else shutil.which(name, path="/usr/local/cuda/bin")
    )
    if not found and name != "ptxas" and (not home or Path(home).is_dir()):
        found = shutil.which(name) or next(
            Path(sys.prefix).glob(f"lib/python*/site-packages/nvidia/*/bin/{name}"), None
        )
    return Path(found) if found else None


@dataclass(frozen=True)
class Grid:
    """A grid of ranks as --megatron-shard spells it."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    sp: bool = False
    mb: int = 1
    order: str = ""
    allow_reshard: bool = False
    manual: bool = False
    # Sizes of a two-dimensional tp: (2, 4) for tp2x4; tp is their product.
    xy: tuple[int, int] | None = None
    ep: int = 1
    etp: int | None = None  # default: tp
    vpp: int = 1

    @property
    def ranks(self) -> int:
        # Without dp, ep adds ranks to those of tp.
        experts = (self.etp or self.tp) * self.ep
        return (experts if self.dp == 1 else self.tp * self.dp) * self.pp

    def __str__(self) -> str:
        parts = [
            f"{name}{size}"
            for name, size in (("tp", self.tp), ("pp", self.pp), ("dp", self.dp), ("mb", self.mb))
            if size > 1 and not (name == "tp" and self.xy)
        ]
        parts += [f"vpp{self.vpp}"] if self.vpp > 1 else []
        parts += [f"ep{self.ep}"] if self.ep > 1 else []
        parts += [f"etp{self.etp}"] if self.etp else []
        parts = ([f"tp{self.xy[0]}x{self.xy[1]}"] if self.xy else []) + parts
        parts += ["sp"] if self.sp else []
        parts += [f"order={self.order}"] if self.order else []
        parts += ["manual"] if self.manual else []
        parts += ["allow-reshard"] if self.allow_reshard else []
        return ",".join(parts) or "tp1"

    @staticmethod
    def parse(text: str) -> Grid:
        values = {}
        for part in text.split(","):
            if part in ("sp", "manual", "allow-reshard"):
                values[part.replace("-", "_")] = True
            elif part.startswith("order="):
                values["order"] = part[len("order=") :]
            elif part.startswith("tp") and "x" in part:
                x, y = map(int, part[2:].split("x"))
                values |= {"tp": x * y, "xy": (x, y)}
            elif part.startswith(("etp", "vpp")):
                values[part[:3]] = int(part[3:])
            else:
                values[part[:2]] = int(part[2:])
        return Grid(**values)

    @staticmethod
    def all(max_ranks: int = 32) -> list[Grid]:
        """Returns all grids whose results must agree. Sequence parallelism needs tp > 1."""
        grids = [
            Grid(tp, pp, dp, sp, mb)
            for tp, pp, dp, sp, mb in itertools.product(
                (1, 2, 3, 4, 8), (1, 2, 4), (1, 2), (False, True), (1, 4)
            )
        ]
        return [
            grid for grid in grids if grid.ranks <= max_ranks and not (grid.sp and grid.tp == 1)
        ]


class Step(NamedTuple):
    """One line of `tpcc --timing`; the peak is the maximum of all steps so far."""

    seconds: float
    peak_bytes: int
    what: str


@dataclass
class Result:
    """The result of a process, and the resources that it used."""

    command: list[str]
    returncode: int
    stdout: str
    stderr: str
    cpu_seconds: float  # CPU time of all its processes; wall-clock time depends on the load
    timed_out: bool

    @property
    def steps(self) -> list[Step]:
        """Returns the steps printed by `tpcc --timing`."""
        return [
            Step(float(seconds), int(mebibytes) << 20, what)
            for seconds, mebibytes, what in re.findall(
                r"^tpcc: +([0-9.]+) s +(\d+) MiB +(.*)$", self.stderr, re.M
            )
        ]

    @property
    def peak_bytes(self) -> int:
        """The compiler's peak memory from --timing. (wait4's value includes the memory of this
        process.)
        """
        return max(step.peak_bytes for step in self.steps)

    def __str__(self) -> str:
        state = "timed out" if self.timed_out else f"exit status {self.returncode}"
        return f"$ {' '.join(self.command)}\n{state}\n{self.stdout[-4000:]}\n{self.stderr[-4000:]}"

    def check(self) -> Result:
        assert not self.timed_out and self.returncode == 0, str(self)
        return self

    def refused(self, *words: str) -> Result:
        """Checks for an ordinary nonzero exit status and a message with these words."""
        assert not self.timed_out, str(self)
        assert 0 < self.returncode < 126, f"ended by a signal or without an error\n{self}"
        assert self.stderr.strip(), f"no message\n{self}"
        for sign in (
            "PLEASE submit a bug report",
            "AddressSanitizer",
            "runtime error:",
            "terminate called",
            "Stack dump",
        ):
            assert sign not in self.stderr, str(self)
        for word in words:
            assert (
                word.lower() in self.stderr.lower()
            ), f"the message does not name '{word}'\n{self}"
        return self


def load_script(path: Path):
    """Imports a script under a name of its own: several folders have a make.py."""
    name = "_".join(path.relative_to(TOP).with_suffix("").parts)
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def run(
    command, *, timeout: float = TIMEOUT_SECONDS, cwd=None, env=None, limit_bytes: int | None = None
) -> Result:
    """Runs a command in a separate process group, which is killed on a timeout. `timeout` is in
    seconds of an idle machine.
    """
    command = [str(part) for part in command]
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        **(env or {}),
    }
    limit = None
    if limit_bytes:
        import resource

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=cwd,
            env=environment,
            start_new_session=True,
            preexec_fn=limit,
        )
        expired, ended, clock = threading.Event(), threading.Event(), LoadClock()

        def stop():
            while not ended.wait(max(0.05, min(5.0, timeout - clock.seconds()))):
                if clock.seconds() >= timeout:
                    expired.set()
                    os.killpg(process.pid, signal.SIGKILL)
                    return

        timer = threading.Thread(target=stop, daemon=True)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        ended.set()
        timer.join()
        text = []
        for stream in (out, err):
            stream.seek(0)
            text.append(stream.read().decode(errors="replace"))
    return Result(
        command, process.returncode, *text, usage.ru_utime + usage.ru_stime, expired.is_set()
    )


def tool(name: str) -> Path:
    return BUILD / "bin" / name


def configured(name: str) -> str:
    """Returns a CMake setting of the build, or an empty string."""
    cache = BUILD / "CMakeCache.txt"
    lines = cache.read_text().splitlines() if cache.exists() else []
    return next(
        (line.split("=", 1)[1].strip() for line in lines if line.startswith(f"{name}:")), ""
    )


def sanitized() -> bool:
    """Returns whether the build has sanitizers. These reserve terabytes of addresses and multiply
    memory, so memory limits are meaningless.
    """
    return bool(configured("TPC_SANITIZE"))


@dataclass
class Executable:
    """An executable compiled by tpcc. Every run writes into its own directory."""

    path: Path
    grid: Grid
    scratch: Path
    weights: Path | None = None
    compiled: Result | None = None
    environment: dict[str, str] = field(default_factory=dict)
    runs: itertools.count = field(default_factory=itertools.count)

    def command(self, transport: str = "threads") -> list[str]:
        if transport == "threads":
            return [str(self.path)]
        if transport == "tcp":
            return [*LAUNCH, "-n", str(self.grid.ranks), str(self.path)]
        return [
            "mpirun",
            "--oversubscribe",
            "--bind-to",
            "none",
            "-n",
            str(self.grid.ranks),
            str(self.path),
        ]

    def call(self, arguments, transport: str = "threads", **options) -> Result:
        environment = {**self.environment, **options.pop("env", {})}
        return run([*self.command(transport), *arguments], env=environment, **options)

    def run(
        self,
        inputs: dict[str, np.ndarray],
        outputs=("logits",),
        transport: str = "threads",
        arguments=(),
        **options,
    ) -> dict[str, np.ndarray]:
        """Runs on arrays and returns arrays."""
        directory = self.scratch / f"run{next(self.runs)}"
        directory.mkdir(parents=True)
        flags = []
        for name, array in inputs.items():
            file = directory / f"in.{name.replace('/', '.')}.npy"
            np.save(file, array)
            flags += ["--input", f"{name}={file}"]
        for name in outputs:
            flags += ["--output", f"{name}={directory}/{name}.npy"]
        self.call([*flags, *arguments], transport, **options).check()
        results = {name: np.load(directory / f"{name}.npy") for name in outputs}
        shutil.rmtree(directory)
        return results

    def run_all(
        self,
        many: list[dict[str, np.ndarray]],
        outputs,
        transport: str = "threads",
        arguments=(),
        **options,
    ) -> list[dict[str, np.ndarray]]:
        """Runs on many inputs, of any shapes, in one process."""
        directory = self.scratch / f"run{next(self.runs)}"
        for index, inputs in enumerate(many):
            (directory / "in" / f"{index:03}").mkdir(parents=True)
            for name, array in inputs.items():
                np.save(directory / "in" / f"{index:03}" / f"{name}.npy", array)
        flags = ["--batch-of", directory / "in"]
        for name in outputs:
            flags += ["--output", f"{name}={directory / 'out' / name}"]
        (directory / "out").mkdir()
        self.call([*flags, *arguments], transport, **options).check()
        results = [
            {name: np.load(directory / "out" / name / f"{index:03}.npy") for name in outputs}
            for index in range(len(many))
        ]
        shutil.rmtree(directory)
        return results

    def run_many(
        self, many: list[dict[str, np.ndarray]], output: str, transport: str = "threads"
    ) -> list[np.ndarray]:
        return [found[output] for found in self.run_all(many, [output], transport)]

    def describe(self) -> dict:
        return json.loads(self.call(["--describe", "--json"]).check().stdout)

    def bench(self, shape: dict[str, int], transport: str = "threads", arguments=()) -> dict:
        text = ",".join(f"{name}={size}" for name, size in shape.items())
        return json.loads(
            self.call(["--bench", "--shape", text, *arguments], transport).check().stdout
        )


def by_rank(program: Executable, folder: Path, text: str) -> Executable:
    """Returns the program, each of whose processes first runs the shell commands `text`."""
    path = folder / "program"
    path.write_text(f'#!/bin/sh\n{text}\nexec {program.path} "$@"\n')
    path.chmod(0o755)
    return Executable(path, program.grid, folder)


class Compiler:
    """Runs tpcc, with each distinct compilation done once per test session. Processes that
    are given the same folder `shared` share the programs of models that are in the repository.
    """

    def __init__(self, scratch: Path, shared: Path | None = None):
        self.scratch, self.shared = scratch, shared or scratch / "shared"
        self.made: dict[tuple, Executable] = {}
        self.failed: dict[tuple, AssertionError] = {}

    def call(self, arguments, **options) -> Result:
        return run([tool("tpcc"), *arguments], **options)

    def compile(self, model: Path, grid: Grid | str = Grid(), *arguments: str) -> Executable:
        grid = Grid.parse(grid) if isinstance(grid, str) else grid
        key = (Path(model), grid, arguments)
        if key in self.failed:
            raise self.failed[key]
        if key not in self.made:
            name = f"{Path(model).stem}-{len(self.made) + len(self.failed)}"
            (self.scratch / name).mkdir(parents=True)
            # Simulated devices accept no machine code, so none is generated.
            env = {"CUDA_HOME": "/nonexistent"} if "--target=cuda" in arguments else {}
            command = [model, f"--megatron-shard={grid}", *map(str, arguments)]
            try:
                path, result = self.compile_once(command, Path(model).stem, name, env)
                result.check()
                assert os.access(path, os.X_OK), f"no executable\n{result}"
            except AssertionError as error:
                self.failed[key] = error
                raise
            self.made[key] = Executable(path, grid, self.scratch / name, compiled=result)
        return self.made[key]

    def compile_once(self, command, stem: str, name: str, env) -> tuple[Path, Result]:
        """Returns the path of the executable and the compiler's result: those of another process of
        the session, if it has run the same command.
        """
        if not Path(command[0]).resolve().is_relative_to(TOP):
            path = self.scratch / name / stem
            return path, self.call([*command, "-o", path], env=env)
        variables = sorted(item for item in os.environ.items() if item[0].startswith("TPC_"))
        digest = hashlib.sha256(repr((command, variables, os.getcwd())).encode()).hexdigest()[:16]
        path, record = self.shared / digest / stem, self.shared / digest / "result"
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path.parent / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not record.exists():
                record.write_bytes(pickle.dumps(self.call([*command, "-o", path], env=env)))
            return path, pickle.loads(record.read_bytes())

    def plan(self, model: Path, grid: Grid, shape: dict[str, int], *arguments: str) -> dict:
        """Returns the --report of one step at `shape`, including warnings."""
        path = self.scratch / "report.json"
        path.unlink(missing_ok=True)
        text = ",".join(f"{name}={size}" for name, size in shape.items())
        result = self.call(
            [model, f"--megatron-shard={grid}", f"--report={path}", "--shape", text, *arguments]
        ).check()
        plan = json.loads(path.read_text())
        assert all(warning in result.stderr for warning in plan["warnings"]), result
        return plan

    def report(self, model: Path, grid: Grid, shape: dict[str, int], *arguments: str) -> list[dict]:
        """Returns the rows of --report for one step at `shape`."""
        return self.plan(model, grid, shape, *arguments)["collectives"]

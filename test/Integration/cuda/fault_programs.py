"""Programs over the simulated libraries, as checks for seeded faults run them."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import onnx

import harness
import matmul_trace
import step_trace
from halves import as_float, halve, rounded_weights
from models import COMMITTED, FAMILIES, MODELS, Model
from one_gpu.process import run
from tpc.reference import TOLERANCE, Session, difference

ALL = {**COMMITTED, **FAMILIES}
LIMIT = 60
# model, grid and flags, seed, devices. Ranks that share devices communicate over the host.
PROGRAMS = [
    ("gpt2-tiny", "tp1", 0, 8),
    ("gpt2-tiny", "tp2", 1, 8),
    ("gpt2-tiny", "pp2,mb2", 2, 8),
    ("llama-past", "tp2,sp", 3, 8),
    ("gpt2-odd-nopast", "tp3", 4, 8),
    ("bloom-past", "tp2,pp2", 5, 8),
    ("gpt2-tiny", "tp2", 6, 1),
    ("gpt2-tiny", "dp2", 7, 8),
    ("gpt2-tiny", "tp1", 8, 8),
    ("gpt2-tiny", "tp2", 9, 8),
    ("gemma2-past", "tp1", 10, 8),
    ("llama-deep-past", "tp1,mb6", 11, 8),
    ("llama-deep-past", "pp2,mb6", 12, 8),
    ("gpt2-tiny", "tp2 --overlap=2", 13, 8),
]
# batch, sequence, past. Inputs are padded on the left. Shapes repeat with other contents and after
# other shapes, one of which needs more memory for key blocks.
STEPS = [
    (2, 5, 3),
    (1, 1, 0),
    (2, 5, 3),
    (1, 70, 0),
    (2, 5, 3),
    (1, 1, 90),
    (1, 1, 91),
    (2, 8, 3),
    (2, 5, 3),
    (2, 5, 3),
]
# Steps of llama-deep-past, with a row for each of 6 micro-batches: 12 layers make 72 calls of
# attention, or a stage sends six messages, which are larger in the third step.
DEEP_STEPS = [(6, 3, 2), (6, 3, 2), (6, 9, 2), (6, 3, 2)]
# Steps in 16 bits. With these seeds, the simulated cuDNN does not reject attention.
HALF_STEPS, HALF_SEEDS, HALF_TOLERANCE = (
    [(2, 64), (1, 70), (2, 64), (2, 64)],
    {"f16": 4, "bf16": 1},
    {"f16": 4e-3, "bf16": 3e-2},
)
# Functions that create an object, and those that destroy it.
PAIRS = {
    "cuMemAlloc_v2": "cuMemFree_v2",
    "cuMemHostAlloc": "cuMemFreeHost",
    "cuMemHostRegister_v2": "cuMemHostUnregister",
    "cuStreamCreate": "cuStreamDestroy_v2",
    "cuEventCreate": "cuEventDestroy_v2",
    "cuModuleLoadDataEx": "cuModuleUnload",
    "ncclCommInitRankConfig": "ncclCommDestroy",
    "ncclMemAlloc": "ncclMemFree",
    "ncclCommRegister": "ncclCommDeregister",
    "cuDevicePrimaryCtxRetain": "cuDevicePrimaryCtxRelease_v2",
    "cublasLtCreate": "cublasLtDestroy",
    "cublasLtMatmulDescCreate": "cublasLtMatmulDescDestroy",
    "cublasLtMatrixLayoutCreate": "cublasLtMatrixLayoutDestroy",
    "cublasLtMatmulPreferenceCreate": "cublasLtMatmulPreferenceDestroy",
    "cuGraphInstantiateWithFlags": "cuGraphExecDestroy",
    "cudnnCreate": "cudnnDestroy",
    "cudnnBackendCreateDescriptor": "cudnnBackendDestroyDescriptor",
}
# Injected faults, and words of their messages.
INJECTED = [
    ("oom@2", "memory"),
    ("oom@4", r"weights take \d+ bytes, more than is available"),
    ("oom@6", "memory"),
    ("oom@10", "memory"),
    ("pinned@1", "pin host memory|memory"),
    ("pinned@3", "memory"),
    ("launch@2", "failed to compute a matmul"),
    ("launch@2 --deterministic", "to launch kernel"),
    ("fail@60", "launch failure|LAUNCH_FAILED"),
    ("ecc@40", "ECC"),
    ("address@80", "illegal|ILLEGAL"),
]
# Calls on the second of two GPUs that never return, in steps before, during and after the recorded
# one, and the expected operation of the other rank.
HANGS = [
    ("hang@90:1", "all_reduce 7 of 'node_addmm_1'"),
    ("hang@330:1", "all_reduce 32 of 'node_addmm_3'"),
    ("hang@360:1", "all_reduce 36 of 'node_addmm_1'"),
]


class Build:
    """A copy of the build for the checks, so that concurrent builds do not affect them."""

    libraries = Path()
    programs = Path()
    compiler = Path()

    @classmethod
    def keep(cls, scratch: Path) -> None:
        cls.libraries, cls.programs, cls.compiler = (
            scratch / "simulator",
            scratch / "bin",
            scratch / "tpcc",
        )
        shutil.copytree(harness.BUILD / "lib" / "simulator", cls.libraries)
        cls.programs.mkdir()
        for name in ("RuntimeDeviceConformance", "RuntimeConformance"):
            shutil.copy(harness.BUILD / "test" / "bin" / name, cls.programs)
        cls.compiler.mkdir()
        for name in ("bin/tpcc", "lib/tpc_start.o", "lib/tpc_shared.o"):
            shutil.copy(harness.BUILD / name, cls.compiler)


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {"TPC_CUDA_LIBS": str(Build.libraries), "TPC_RUNTIME_DIR": str(folder), **more}


class Program:
    """An executable, and folders of inputs and expected outputs, created on first use."""

    lock = threading.RLock()

    def __init__(
        self,
        compiler: harness.Compiler,
        scratch: Path,
        name: str,
        grid: str,
        architecture: str = "sm_90",
    ):
        self.compiler, self.scratch, self.name, self.grid, self.architecture = (
            compiler,
            scratch,
            name,
            grid,
            architecture,
        )
        self.model = ALL.get(name)
        self.tolerance, self.shapes = TOLERANCE, []

    def __getattr__(self, attribute: str):
        if attribute not in ("executable", "inputs", "expected"):
            raise AttributeError(attribute)
        with Program.lock:
            if "executable" not in self.__dict__:
                self.make()
        return self.__dict__[attribute]

    def make(self) -> None:
        model, many = self.model, []
        for index, (batch, sequence, past) in enumerate(DEEP_STEPS if model.layers > 6 else STEPS):
            past = min(past, model.positions // 2) if model.past_name else 0
            sequence = min(sequence, model.positions - past)
            self.shapes.append((batch, sequence, past))
            many.append(
                model.inputs(
                    batch, sequence, "left" if model.padded else "none", seed=index, past=past
                )
            )
        self.keep(self.scratch, self.name, many, model.reference.run)
        grid, *flags = self.grid.split()
        self.executable = self.compiler.compile(
            model.path, grid, *flags, "--target=cuda", f"--gpu-arch={self.architecture}"
        )

    def keep(self, scratch: Path, name: str, many: list[dict], reference) -> None:
        self.inputs, self.expected = scratch / "in" / name, scratch / "expected" / name
        if self.inputs.exists():
            return
        for index, given in enumerate(many):
            (self.inputs / f"{index:03}").mkdir(parents=True)
            for key, array in given.items():
                np.save(self.inputs / f"{index:03}" / f"{key}.npy", array)
            for key, array in reference(given).items():
                (self.expected / key).mkdir(parents=True, exist_ok=True)
                np.save(self.expected / key / f"{index:03}.npy", array)

    def flags(self, to: Path, limit: int = 20) -> list[str]:
        flags = ["--batch-of", str(self.inputs), "--timeout", str(limit)]
        for output in sorted(self.expected.iterdir()):
            flags += ["--output", f"{output.name}={to / output.name}"]
        return flags

    def compare(self, to: Path) -> str:
        for wanted in sorted(self.expected.glob("*/*.npy")):
            found = to / wanted.relative_to(self.expected)
            if not found.exists():
                return f"no {wanted.relative_to(self.expected)}"
            off = difference(as_float(np.load(found)), np.load(wanted))
            if not off.relative <= self.tolerance:
                return f"{wanted.parent.name} {wanted.stem}: {off}"
        return ""

    def check(self, folder: Path, seed: int, devices: int) -> str:
        """Checks the results and findings, and that steps are graph launches and release all
        resources."""
        with tempfile.TemporaryDirectory() as scratch:
            to, trace = Path(scratch), Path(scratch) / "trace"
            ranks = self.executable.grid.ranks
            env = environment(
                folder,
                TPC_SIM_SEED=str(seed),
                TPC_SIM_DEVICES=str(devices),
                TPC_SIM_TRACE=str(trace),
            )
            result = run(
                [
                    self.executable.path,
                    *self.flags(to),
                    *(["--share-gpus"] if ranks > devices else []),
                ],
                LIMIT,
                env,
            )
            if not result.ok:
                return result.why()
            # Ranks that start late on a busy machine are not a finding. Ranks that never start end
            # at the limit.
            findings = [
                line
                for line in result.stderr.splitlines()
                if line.startswith("simulator:") and ": stuck: " not in line
            ]
            if findings:
                return findings[0]
            if problem := (
                self.compare(to)
                or self.judge(result.stderr, trace.read_text())
                or matmul_trace.wrong(matmul_trace.ranks_of(trace.read_text()))
            ):
                return problem
            # Steps that communicate over the host are not recorded.
            if problem := left_behind(trace.read_text()) or (
                step_trace.wrong(trace.read_text(), self.shapes, ranks) if ranks <= devices else ""
            ):
                return problem
            return step_trace.streams_with_messages(trace.read_text()) if "pp" in self.grid else ""

    def judge(self, output: str, trace: str) -> str:
        return ""


class WideProgram(Program):
    """A program with heads of 128, whose attention exceeds the default limit of shared memory."""

    def make(self) -> None:
        sys.path.append(str(harness.TOP / "test" / "Benchmark"))
        import gpt
        from tpc.weights import write_weights

        folder = self.scratch / self.name
        folder.mkdir()
        path = gpt.write(
            folder / "wide.onnx", layers=1, hidden=256, heads=2, vocab=61, positions=128
        )
        write_weights(path, folder)
        self.model = Model(path, layers=1, hidden=256, heads=2, vocab=61, positions=128)
        super().make()


class HalfProgram(Program):
    """A program in 16 bits. Without a mask, cuDNN computes its attention."""

    def __init__(self, compiler: harness.Compiler, scratch: Path, name: str, grid: str, kind: str):
        super().__init__(compiler, scratch, name, grid)
        self.kind, self.tolerance, self.shapes = kind, HALF_TOLERANCE[kind], HALF_STEPS
        self.fused = not self.model.padded

    def make(self) -> None:
        source, path = MODELS / f"{self.name}.onnx", self.scratch / f"{self.name}-{self.kind}.onnx"
        exact = Session(
            rounded_weights(onnx.load(source), self.kind).SerializeToString(), optimize=False
        )
        many = [
            self.model.inputs(*shape, "none" if self.fused else "left", seed=index)
            for index, shape in enumerate(HALF_STEPS)
        ]
        self.keep(self.scratch, path.stem, many, exact.run)
        onnx.save(halve(onnx.load(source), self.kind), path)
        self.executable = self.compiler.compile(
            path, self.grid, "--target=cuda", "--gpu-arch=sm_90"
        )

    def judge(self, output: str, trace: str) -> str:
        if note := re.search("^note: .*", output, re.MULTILINE):
            return note[0]
        if ("cudnnBackendExecute" in trace) == self.fused:
            return ""
        return "cuDNN is not used" if self.fused else "cuDNN is used, which supports no mask"


def left_behind(trace: str) -> str:
    """Returns the first kind of object that is not destroyed as often as created; empty if none.

    Lines of the trace: process, thread, name = result.
    """
    calls = Counter(line.split()[2] for line in trace.splitlines() if line.endswith(" = 0"))
    for made, ended in PAIRS.items():
        if calls[made] != calls[ended]:
            return f"{calls[made]} {made}, {calls[ended]} {ended}"
    return ""

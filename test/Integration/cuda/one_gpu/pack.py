"""Compiles and collects the files for the GPU machine. Needs the build, ONNX Runtime and onnx."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import onnx

HERE = Path(__file__).resolve().parent
INTEGRATION = HERE.parents[1]
TOP = INTEGRATION.parents[1]
sys.path[:0] = [str(TOP / "python"), str(INTEGRATION), str(TOP / "test" / "Benchmark")]

import gpt  # noqa: E402
import halves  # noqa: E402
import harness  # noqa: E402
import llama  # noqa: E402
from models import COMMITTED, FAMILIES, MODELS  # noqa: E402
from one_gpu import gemv_cases  # noqa: E402
from tpc.reference import TOLERANCE  # noqa: E402

ALL = {**COMMITTED, **FAMILIES}
# Model -> grids of its programs.
PROGRAMS = {
    "gpt2-tiny": [
        "tp1",
        "tp2",
        "tp3",
        "tp4",
        "pp2",
        "pp3",
        "pp4",
        "dp2",
        "tp2,sp",
        "tp3,sp",
        "tp2,pp2,mb4",
        "tp2,dp2",
    ],
    "llama-past": ["tp1", "tp2", "tp3", "tp4", "pp2", "dp2", "tp2,sp"],
    "bloom-past": ["tp1", "tp4", "pp3"],
    "gpt2-odd-nopast": ["tp1", "tp2"],
}
QUICK = {"gpt2-tiny": ["tp1", "tp2"]}
# batch, sequence, past, padding. A repeated shape has other contents, and replays the recorded
# step.
STEPS = [
    (2, 5, 3, "left"),
    (1, 1, 7, "none"),
    (2, 5, 3, "right"),
    (1, 1, 7, "none"),
    (1, 1, 8, "none"),
    (3, 33, 0, "left"),
]
GPT2 = {"kind": "gpt", "vocab": 50257, "positions": 1024}
BENCHMARKS = {
    "GPT-2 124M": {**GPT2, "layers": 12, "hidden": 768, "heads": 12},
    "GPT-2 1.5B": {**GPT2, "layers": 48, "hidden": 1600, "heads": 25},
    "LLaMA 8B": {
        "kind": "llama",
        "layers": 32,
        "hidden": 4096,
        "heads": 32,
        "kv_heads": 8,
        "ffn": 14336,
        "vocab": 128256,
    },
}
LLAMA_1B = {
    "kind": "llama",
    "layers": 16,
    "hidden": 2048,
    "heads": 32,
    "kv_heads": 8,
    "ffn": 8192,
    "vocab": 128256,
}
# Name -> shape, capacity of caches, and lengths of the prompts of successive requests.
GENERATION = {
    "GPT-2 124M": (BENCHMARKS["GPT-2 124M"], 1024, [512] * 3),
    "LLaMA-3.2-1B shape": (LLAMA_1B, 2560, [512] * 3 + [2048] * 3),
    "LLaMA-3.1-8B shape": (BENCHMARKS["LLaMA 8B"], 2560, [512] * 3 + [2048] * 3),
}
QUICK_BENCHMARKS = {
    "GPT-2 tiny": {
        "kind": "gpt",
        "vocab": 61,
        "positions": 64,
        "layers": 1,
        "hidden": 16,
        "heads": 2,
    }
}
QUICK_GENERATION = {"GPT-2 tiny": (QUICK_BENCHMARKS["GPT-2 tiny"], 64, [8] * 3)}
# Name -> shape, batch and tokens of a sample.
TRAINING = {
    "GPT-2 124M": (BENCHMARKS["GPT-2 124M"], 8, 512),
    "LLaMA-3.2-1B shape": (LLAMA_1B, 2, 512),
}
QUICK_TRAINING = {"GPT-2 tiny": (QUICK_BENCHMARKS["GPT-2 tiny"], 2, 8)}
# Programs that also run on a CPU. Weights are generated, with the same bits on both.
PAIRS = {"GPT-2 124M": (["tp1", "tp2"], [(1, 64), (2, 17), (1, 1)])}
QUICK_PAIRS = {"GPT-2 tiny": (["tp1"], [(1, 3)])}
# The pack is transferred in at most 64 MiB.
MOST_BYTES = 64 << 20


def count_weights(g: dict) -> tuple[int, int]:
    """Returns the number of all weights, and of those that each token is multiplied by."""
    hidden, head = g["hidden"], g["vocab"] * g["hidden"]
    if g["kind"] == "gpt":
        multiplied = g["layers"] * 12 * hidden**2 + head
        return multiplied + head + g["positions"] * hidden + g["layers"] * 13 * hidden, multiplied
    kv = 2 * hidden * hidden * g["kv_heads"] // g["heads"]
    multiplied = g["layers"] * (2 * hidden**2 + kv + 3 * hidden * g["ffn"]) + head
    return multiplied + head + (2 * g["layers"] + 1) * hidden, multiplied


class Packer:
    def __init__(self, options):
        self.options = options
        self.folder = (options.output or harness.BUILD / "one-gpu").resolve()
        self.models: dict[str, Path] = {}

    def log(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def compile(self, model: Path, name: str, grid: str, target: str = "cuda", *more: str) -> str:
        """Returns a program's path in the pack."""
        path = f"bin/{name.replace(' ', '-')}-{grid.replace(',', '-')}" + (
            "" if target == "cuda" else f"-{target}"
        )
        if (self.folder / path).exists():
            return path
        flags = ["--target=cuda", f"--gpu-arch={self.options.gpu_arch}"] if target == "cuda" else []
        if self.options.quick:
            flags += ["-O0", "--no-verify"]
        result = harness.run(
            [
                harness.tool("tpcc"),
                model,
                f"--megatron-shard={grid}",
                f"--march={self.options.march}",
                *flags,
                *more,
                "-o",
                self.folder / path,
            ],
            timeout=900,
        )
        if result.returncode:
            raise SystemExit(f"run pack: {result}")
        self.log(f"{path}: {(self.folder / path).stat().st_size >> 10} KiB")
        return path

    def save(self, to: str, arrays: dict[str, np.ndarray]) -> None:
        (self.folder / to).mkdir(parents=True, exist_ok=True)
        for name, array in arrays.items():
            np.save(self.folder / to / f"{name}.npy", array)

    def pack_model(self, name: str, outputs: list[str]) -> None:
        """Writes a model's weights and inputs, and ONNX Runtime's results."""
        model = ALL[name]
        shutil.copy(model.path, self.folder / "models")
        steps = STEPS[:3] if self.options.quick else STEPS
        for index, (batch, sequence, past, padding) in enumerate(steps):
            given = model.inputs(
                batch,
                sequence,
                padding if model.padded else "none",
                seed=index,
                past=past if model.past_name else 0,
            )
            self.save(f"inputs/{name}/{index:03}", given)
            if index == 0:
                self.save(f"one/{name}/000", given)
            expected = model.reference.run(given)
            for output in outputs:
                self.save(f"expected/{name}/{output}", {f"{index:03}": expected[output]})

    def pack_programs(self) -> list[dict]:
        packed = []
        chosen = QUICK if self.options.quick else PROGRAMS
        for name in chosen:
            model = ALL[name]
            outputs = list(model.reference.run(model.inputs(1, 1)))
            self.pack_model(name, outputs)
            for grid in chosen[name]:
                packed.append(
                    {
                        "name": f"{name} {grid}",
                        "executable": self.compile(model.path, name, grid),
                        "ranks": harness.Grid.parse(grid).ranks,
                        "weights": f"models/{name}.onnx",
                        "inputs": f"inputs/{name}",
                        "one_input": f"one/{name}",
                        "expected": f"expected/{name}",
                        "outputs": outputs,
                        "shape": ",".join(
                            f"{key}={size}" for key, size in model.shape(2, 5, 3).items()
                        ),
                    }
                )
        return packed

    def structure(self, name: str, geometry: dict) -> Path:
        """Writes an ONNX file of the benchmark's shape. The program generates the weights."""
        if name not in self.models:
            path = self.folder / "structures" / f"{name.replace(' ', '-')}.onnx"
            path.parent.mkdir(exist_ok=True)
            sizes = {key: value for key, value in geometry.items() if key != "kind"}
            self.models[name] = (gpt if geometry["kind"] == "gpt" else llama).write(path, **sizes)
        return self.models[name]

    def pack_benchmarks(self, benchmarks: dict) -> list[dict]:
        packed = []
        for name, geometry in benchmarks.items():
            weights, multiplied = count_weights(geometry)
            packed.append(
                {
                    "name": name,
                    **geometry,
                    "weights": weights,
                    "multiplied": multiplied,
                    "executable": self.compile(self.structure(name, geometry), name, "tp1"),
                }
            )
        return packed

    def pack_generation(self) -> list[dict]:
        """Compiles programs that generate in bf16, and the library that measures their kernels."""
        packed = []
        for name, (geometry, capacity, prompts) in (
            QUICK_GENERATION if self.options.quick else GENERATION
        ).items():
            model = onnx.load(self.structure(name, geometry), load_external_data=False)
            halves.halve(model, "bf16")
            path = self.folder / "structures" / f"{name.replace(' ', '-')}-bf16.onnx"
            path.write_bytes(model.SerializeToString())
            packed.append(
                {
                    "name": name,
                    **geometry,
                    "capacity": capacity,
                    "prompts": prompts,
                    "tokens": 4 if self.options.quick else 65,
                    "executable": self.compile(
                        path, f"{name} bf16", "tp1", "cuda", "--generate"
                    ),
                }
            )
        self.build_kernel_times()
        return packed

    def pack_training(self) -> list[dict]:
        """Compiles programs that train: a small one in f32, also for CPUs, and others in bf16."""
        ((name, geometry),) = QUICK_BENCHMARKS.items()
        model = self.structure(name, geometry)
        programs = [
            self.compile(model, f"{name} train", "tp1", target, "--train")
            for target in ("cuda", "cpu")
        ]
        own = {"batch": 2, "sequence": 8, "steps": 4, "tolerance": TOLERANCE}
        own |= {"executable": programs[0], "cpu": programs[1]}
        packed = [{"name": name, **geometry, **own}]
        chosen = QUICK_TRAINING if self.options.quick else TRAINING
        for name, (geometry, batch, sequence) in chosen.items():
            program = programs[0]
            if not self.options.quick:
                model, flags = self.structure(name, geometry), ("--train", "--precision=bf16")
                program = self.compile(model, f"{name} train bf16", "tp1", "cuda", *flags)
            weights, multiplied = count_weights(geometry)
            steps = 5 if self.options.quick else 13
            own = {"batch": batch, "sequence": sequence, "steps": steps, "executable": program}
            own |= {"weights": weights, "multiplied": multiplied}
            packed.append({"name": f"{name}, {batch} × {sequence}", **geometry, **own})
        return packed

    def build_kernel_times(self) -> None:
        """Builds the CUPTI library, if the toolkit's headers are installed."""
        homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
        for home in filter(None, homes):
            for include in (Path(home) / "include", Path(home) / "extras/CUPTI/include"):
                if (include / "cupti.h").exists():
                    command = ["c++", "-std=c++17", "-O2", "-shared", "-fPIC", f"-I{home}/include"]
                    command += [f"-I{include}", str(HERE / "kernel_times.cpp"), "-ldl"]
                    library = str(self.folder / "bin" / "libkernel_times.so")
                    subprocess.run([*command, "-o", library], check=True)
                    return
        self.log("cupti.h was not found: times of kernels will not be measured")

    def pack_pairs(self, benchmarks: dict) -> list[dict]:
        packed = []
        for name, (grids, shapes) in (QUICK_PAIRS if self.options.quick else PAIRS).items():
            model, random = self.structure(name, benchmarks[name]), np.random.default_rng(0)
            inputs = f"inputs/{name.replace(' ', '-')}"
            for index, shape in enumerate(shapes):
                self.save(
                    f"{inputs}/{index:03}",
                    {"input_ids": random.integers(0, benchmarks[name]["vocab"], shape)},
                )
            cpu = self.compile(model, name, "tp1", "cpu")
            packed += [
                {
                    "name": f"{name} {grid} against the CPU",
                    "gpu": self.compile(model, name, grid),
                    "cpu": cpu,
                    "inputs": inputs,
                    "ranks": harness.Grid.parse(grid).ranks,
                    "tolerance": TOLERANCE,
                }
                for grid in grids
            ]
        return packed

    def pack_kernels(self) -> int:
        """Packs the kernels of every kind of packed program, each distinct text once."""
        programs = (
            ["gpt2-tiny@tp2"]
            if self.options.quick
            else [
                "gpt2-tiny@tp1",
                "gpt2-tiny@tp2,sp",
                "llama-past@tp2",
                "bloom-past@tp2",
                "gpt2-odd-nopast@tp2",
                "phi3-past@tp2",
                "gemma2-past@tp2",
                "mpt-past@tp2",
            ]
        )
        result = harness.run(
            [
                harness.BUILD / "test" / "bin" / "tpc-compare-kernels",
                f"--write-cases={self.folder}/kernels",
                *(f"{MODELS}/{'.onnx@'.join(program.split('@'))}" for program in programs),
            ],
            timeout=1800,
        )
        result.check()
        gemv_cases.write(
            harness.BUILD / "runtime" / "cuda" / "GemvText.cpp",
            self.folder / "kernels",
            self.options.quick,
        )
        shutil.copy(harness.tool("tpc-ptx-run"), self.folder / "bin")
        return len((self.folder / "kernels" / "cases.txt").read_text().splitlines())

    def copy_scripts(self) -> None:
        shutil.copy(HERE.parent / "run", self.folder)
        shutil.copytree(
            HERE, self.folder / "one_gpu", ignore=shutil.ignore_patterns("__pycache__", "pack.py")
        )
        shutil.copy(TOP / "runtime" / "conformance" / "launch.py", self.folder)
        (self.folder / "tpc").mkdir()
        for file in (TOP / "python" / "tpc").glob("*.py"):
            shutil.copy(file, self.folder / "tpc")
        shutil.copy(harness.BUILD / "lib" / "libtpc_cuda.so", self.folder / "bin")
        # Libraries of this machine, in case the other machine's are older.
        listed = subprocess.run(
            ["ldd", harness.tool("tpc-ptx-run")], capture_output=True, text=True, check=True
        ).stdout
        for line in listed.splitlines():
            if any(name in line for name in ("libstdc++", "libgcc_s")):
                shutil.copy(line.split("=>")[1].split()[0], self.folder / "fallback")

    def pack(self) -> int:
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("bin", "models", "kernels", "fallback"):
            (self.folder / name).mkdir(parents=True)
        quick = self.options.quick
        benchmarks = QUICK_BENCHMARKS if quick else BENCHMARKS
        self.copy_scripts()
        listed = {
            "made": f"{datetime.date.today()}, {self.options.gpu_arch}, {self.options.march}",
            "tolerance": TOLERANCE,
            "kernels": self.pack_kernels(),
            "programs": self.pack_programs(),
            "benchmarks": self.pack_benchmarks(benchmarks),
            "pairs": self.pack_pairs(benchmarks),
            "generation": self.pack_generation(),
            "training": self.pack_training(),
            "phases": {"prefill": 4, "step": 1} if quick else {"prefill": 512, "step": 1},
            "repeat": 2 if quick else 20,
            # Rows of the matmul, MiB of the copy.
            "rates": [32, 1] if quick else [8192, 1024],
        }
        (self.folder / "pack.json").write_text(json.dumps(listed, indent=1) + "\n")
        shutil.rmtree(self.folder / "structures", ignore_errors=True)
        archive = self.folder.with_name(self.folder.name + ".tar.xz")
        with tarfile.open(archive, "w:xz", preset=1 if quick else 6) as file:
            file.add(self.folder, arcname=self.folder.name)
        size = archive.stat().st_size
        self.log(
            f"{archive}: {size >> 20} MiB, {len(listed['programs'])} programs, {listed['kernels']}"
            " cases of kernels"
        )
        if size > MOST_BYTES:
            raise SystemExit(
                f"run pack: {archive} has {size >> 20} MiB, more than the limit of"
                f" {MOST_BYTES >> 20} MiB: pack fewer programs (PROGRAMS)"
            )
        return 0

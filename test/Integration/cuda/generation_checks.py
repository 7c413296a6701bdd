"""Checks that compare tokens of simulated GPUs with CPU tokens to find faults in generation."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import threading
from pathlib import Path

import harness
import step_trace
from fault_checks import ALL, LIMIT, Build, environment, left_behind
from one_gpu.process import run

RUNTIME = "lib/libtpc_runtime.a"
CAPACITY, CHUNK = 54, 5
LONG = 2 * 256  # tokens of the long prompt: several key blocks of attention
# More prompts than slots, so that slots are reused. Some lengths need chunks, one is a single
# token, and most exceed windows of 6 several times.
LENGTHS = (3, 17, 1, 9, 24, 6, 11, 12, 5)
GREEDY = {"temperature": 0.0}
# Sampling settings of the requests. Steps contain both rows that the GPU samples and rows that the
# host samples.
SETTINGS = (
    GREEDY,
    {"temperature": 0.8},
    {"temperature": 1.1, "seed": (7 << 33) + 1},
    {"temperature": 0.9, "top_k": 7, "seed": 3},
    {"temperature": 0.0, "repetition_penalty": 2.5},
    {"temperature": 1.0, "top_p": 0.8, "repetition_penalty": 1.2, "seed": 9},
    {"temperature": 0.7, "top_k": 5, "repetition_penalty": 1.9, "seed": 4},
    {"temperature": 1.0, "top_k": 900, "seed": 2},
    {"temperature": 0.0, "repetition_penalty": 1.5},
)
# model, grid, seed of the schedule, number of slots
PROGRAMS = [
    ("gpt2-tiny", "tp2", 1, 3),
    ("mistral-past", "tp1", 2, 3),
    ("llama-past", "tp2,pp2,mb2", 3, 4),
    ("mistral-dynamo", "dp2", 4, 4),
    ("gemma2-dynamo", "tp2", 5, 2),
]


def requests(vocabulary: int, plain: bool) -> list[dict]:
    """Returns requests of different lengths, so that they end at different steps."""
    return [
        {
            "id": f"p{i}",
            "ids": [(7 * i + 11 * j * j) % vocabulary for j in range(length)],
            "max_new_tokens": 9 + 3 * (i % 3),
            **(SETTINGS[i % 3] if plain else SETTINGS[i]),
        }
        for i, length in enumerate(LENGTHS)
    ]


def bytes_copied(output: str) -> int:
    """Returns the bytes of a rank's logits that are copied, from the output of --verbose."""
    found = re.search(r"; (\d+) bytes of a rank's logits", output)
    return int(found[1]) if found else -1


class GenerationCase:
    """A generating program and its expected output."""

    lock = threading.RLock()

    def __init__(self, compiler: harness.Compiler, name: str, grid: str, seed: int, slots: int):
        self.compiler, self.model, self.grid, self.seed, self.slots = (
            compiler,
            ALL[name],
            grid,
            seed,
            slots,
        )

    def __getattr__(self, attribute: str):
        if attribute not in ("executable", "expected", "copied", "prompt_outputs"):
            raise AttributeError(attribute)
        with GenerationCase.lock:
            if "executable" not in self.__dict__:
                cpu_program = self.compiler.compile(self.model.path, self.grid, "--generate").path
                self.expected = [
                    self.generate(cpu_program, plain, {})[0] for plain in (True, False)
                ]
                self.prompt_outputs = {
                    length: self.run_prompt(cpu_program, length, {}).stdout for length in (LONG, 3)
                }
                program = self.compiler.compile(
                    self.model.path, self.grid, "--generate", "--target=cuda", "--gpu-arch=sm_90"
                ).path
                self.copied = [
                    bytes_copied(
                        self.generate(program, plain, environment(harness.BUILD / "lib"))[1]
                    )
                    for plain in (True, False)
                ]
                self.executable = program
        return self.__dict__[attribute]

    def generate(
        self, executable: Path, plain: bool, env: dict[str, str]
    ) -> tuple[dict | str, str]:
        """Returns the answers or an error, and the program's log."""
        with tempfile.TemporaryDirectory() as scratch:
            asked = Path(scratch) / "requests"
            asked.write_text(
                "".join(json.dumps(one) + "\n" for one in requests(self.model.vocab, plain))
            )
            result = run(
                [
                    "sh",
                    "-c",
                    f'exec "$0" "$@" < {asked}',
                    executable,
                    "--serve-stdin",
                    "--max-batch",
                    self.slots,
                    "--max-sequence",
                    CAPACITY,
                    "--prefill-chunk",
                    CHUNK,
                    "--deterministic",
                    "--verbose",
                    "--timeout",
                    20,
                ],
                LIMIT,
                env,
            )
        if not result.ok:
            return result.why(), result.stderr
        answers: dict[str, list] = {}
        for line in map(json.loads, result.stdout.splitlines()):
            answers.setdefault(line["id"], []).append(
                line["token"] if "token" in line else line["finish"]
            )
        return answers, result.stderr

    def run_prompt(self, executable: Path, length: int, env: dict[str, str]):
        """Generates from one prompt. Decode steps read several key blocks, except with windows,
        which are smaller than one block.
        """
        ids = [(7 * i + 11 * i * i) % self.model.vocab for i in range(length)]
        return run(
            [
                executable,
                "--prompt-ids",
                ",".join(map(str, ids)),
                "--max-new-tokens",
                6,
                "--max-sequence",
                LONG + 6,
                "--prefill-chunk",
                40,
                "--deterministic",
                "--timeout",
                20,
            ],
            LIMIT,
            env,
        )

    def check_long(self, folder: Path, executable: Path | None = None) -> str:
        """Checks the tokens of a long and a short prompt."""
        for length, wanted in self.prompt_outputs.items():
            result = self.run_prompt(
                executable or self.executable,
                length,
                environment(folder, TPC_SIM_SEED=str(self.seed)),
            )
            if not result.ok:
                return result.why()
            if result.stdout != wanted:
                return f"prints {result.stdout} instead of {wanted}"
        return ""

    def check(self, folder: Path, executable: Path | None = None) -> str:
        for plain, expected, copied in zip((True, False), self.expected, self.copied):
            if problem := self.check_one(
                folder, executable or self.executable, plain, expected, copied
            ):
                return problem
        return ""

    def check_one(
        self, folder: Path, executable: Path, plain: bool, expected: dict, copied: int
    ) -> str:
        with tempfile.TemporaryDirectory() as scratch:
            trace = Path(scratch) / "trace"
            answers, output = self.generate(
                executable,
                plain,
                environment(folder, TPC_SIM_SEED=str(self.seed), TPC_SIM_TRACE=str(trace)),
            )
            if isinstance(answers, str):
                return answers
            for line in output.splitlines():
                if line.startswith("simulator:") and ": stuck: " not in line:
                    return line
            wrong = [name for name in expected if answers.get(name) != expected[name]]
            if wrong:
                return f"{wrong[0]}: {answers.get(wrong[0])} instead of {expected[wrong[0]]}"
            if bytes_copied(output) != copied:
                return f"reports copies of {bytes_copied(output)} bytes instead of {copied}"
            if plain and copied > 8 * 2 * sum(map(len, expected.values())):
                return f"copies {copied} bytes for tokens that the GPU samples"
            return left_behind(trace.read_text())


def check_graphs(case: GenerationCase, folder: Path, executable: Path | None = None) -> str:
    """For one prompt, checks that decode steps are one graph, each token copies 8 bytes, and memory
    use equals the estimate.
    """
    new = 10
    with tempfile.TemporaryDirectory() as scratch:
        trace, usage = Path(scratch) / "trace", Path(scratch) / "usage"
        flags = [
            executable or case.executable,
            "--prompt-ids",
            "5,6,7,8",
            "--max-new-tokens",
            new,
            "--max-sequence",
            20,
            "--verbose",
            "--deterministic",
        ]
        result = run(
            flags, LIMIT, environment(folder, TPC_SIM_TRACE=str(trace), TPC_SIM_USAGE=str(usage))
        )
        if not result.ok:
            return result.why()
        ranks = harness.Grid.parse(case.grid).ranks
        if problem := step_trace.wrong(
            trace.read_text(), ["prompt"] + ["decode"] * (new - 1), ranks
        ):
            return problem
        if f"; {8 * new} bytes of a rank's logits" not in result.stderr:
            return "copies more or less than the sampled tokens"
        peak = max(int(line.split()[1]) for line in usage.read_text().splitlines())
        less = run(flags, LIMIT, environment(folder, TPC_SIM_MEMORY=str(peak - 1)))
        needs = re.search(r"needs? (?:together )?[0-9.]+ [GM]iB \((\d+) bytes\)", less.stderr)
        if needs and int(needs[1]) == peak:
            return ""
        return f"uses {peak} bytes, but prints: {less.why()}"


def linked(case: GenerationCase, folder: Path) -> Path:
    """Builds the program with the runtime that contains the fault."""
    made = folder / "linked" / f"{case.model.name}-{case.grid}"
    if not made.exists():
        for place in ("bin", "lib"):
            (folder / "linked" / place).mkdir(parents=True, exist_ok=True)
        tpcc, lib = folder / "linked" / "bin" / "tpcc", folder / "linked" / "lib"
        if not tpcc.exists():
            shutil.copy(Build.compiler / "tpcc", tpcc)
            for name in ("tpc_start.o", "tpc_shared.o"):
                shutil.copy(Build.compiler / name, lib)
            os.symlink(folder / Path(RUNTIME).name, lib / Path(RUNTIME).name)
        result = run(
            [
                tpcc,
                case.model.path,
                f"--megatron-shard={case.grid}",
                "--generate",
                "--target=cuda",
                "--gpu-arch=sm_90",
                "-o",
                made,
            ],
            LIMIT,
        )
        assert result.ok, result
    return made


def cases_of(scratch: Path) -> list[GenerationCase]:
    compiler = harness.Compiler(scratch)
    return [GenerationCase(compiler, *program) for program in PROGRAMS]


def checks_of_devices(scratch: Path) -> list:
    """Returns the checks of the GPU library."""
    from fault_checks import LIBRARY, check_tests

    cases = cases_of(scratch)
    return [
        (f"generation on {one.grid}", LIBRARY, lambda folder, s=one: s.check(folder))
        for one in cases
    ] + [
        ("generation's graphs", LIBRARY, lambda folder: check_graphs(cases[0], folder)),
        (
            "generation from long prompts",
            LIBRARY,
            lambda folder: cases[-1].check_long(folder),
        ),
        (
            "own kernels",
            "test/bin/CudaKernelTests",
            lambda folder: check_tests(
                "CudaKernelTests",
                folder,
                True,
                "AppendKernels.M*New*:*.LeaveWhat*:SamplingKernels.Choose*:SamplingKernels.Leave*",
            ),
        ),
        (
            "counted memory",
            "test/bin/CudaKernelTests",
            lambda folder: check_tests("CudaKernelTests", folder, True, "DryRunMemory.*"),
        ),
    ]


def checks_of_loop(scratch: Path) -> list:
    """Returns the checks of the code that is linked into programs."""
    from fault_checks import check_tests

    cases = cases_of(scratch)
    library = harness.BUILD / "lib"
    return [
        (
            f"generation on {one.grid}",
            RUNTIME,
            lambda folder, s=one: s.check(library, linked(s, folder)),
        )
        for one in cases
    ] + [
        (
            "generation's graphs",
            RUNTIME,
            lambda folder: check_graphs(cases[0], library, linked(cases[0], folder)),
        ),
        (
            "the loop's own tests",
            "test/bin/RuntimeGenerateTests",
            lambda folder: check_tests(
                "RuntimeGenerateTests", folder, True, "Schedule.*:Windows.*"
            ),
        ),
    ]

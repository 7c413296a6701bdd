"""Programs on an adversarial device (runtime/conformance/LateDevice.h): results keep their bits.

The device runs work late and in ranges of rows. Its memory is inaccessible to the host, and
contains NaN until written.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from harness import BUILD, Executable, configured, run
from models import COMMITTED, FAMILIES

ALL = {**COMMITTED, **FAMILIES}


@dataclass
class LateExecutable(Executable):
    def command(self, transport="threads"):
        *launcher, program = super().command(transport)
        return [*launcher, str(BUILD / "test" / "bin" / "tpc-run-late"), program]


def make_late(tpcc, program, model, grid, folder, *arguments):
    late = LateExecutable(folder / "program.so", program.grid, folder)
    tpcc.call(
        [
            model.path,
            f"--megatron-shard={grid}",
            *arguments,
            "--emit=obj",
            "-o",
            folder / "program.o",
        ]
    ).check()
    run(
        [configured("CMAKE_CXX_COMPILER"), "-shared", folder / "program.o", "-o", late.path]
    ).check()
    return late


# With and without caches, two kinds of layers, ALiBi, grouped heads, and every collective that
# occurs in models.
@pytest.mark.parametrize(
    "name, grid, transport",
    [
        ("gpt2-tiny", "tp2,pp2,sp,mb2", "threads"),
        ("gpt2-tiny", "tp2,pp2", "mpi"),
        pytest.param("llama-past", "tp2,mb2", "threads", marks=pytest.mark.long),
        ("gemma2-past", "tp2,dp2", "threads"),
        ("bloom-dynamo", "tp3,sp", "threads"),
        ("falcon-past", "pp2,mb2", "threads"),
    ],
)
def test_a_late_device_computes_the_same_bits(tpcc, mpi, tmp_path, name, grid, transport):
    model = ALL[name]
    program = tpcc.compile(model.path, grid)
    outputs = [output["name"] for output in program.describe()["outputs"]]
    late = make_late(tpcc, program, model, grid, tmp_path)
    inputs = model.inputs(
        3, 5, padding="left" if model.padded else "none", past=4 if model.past_name else 0
    )
    expected = program.run(inputs, outputs, transport)
    for seed in (1, 2):
        found = late.run(
            inputs,
            outputs,
            transport,
            env={"TPC_LATE_SEED": str(seed), "TPC_RUNTIME_DIR": str(BUILD / "lib")},
        )
        for output in outputs:
            assert np.array_equal(found[output].view(np.uint8), expected[output].view(np.uint8)), (
                output,
                seed,
            )


# With and without a past, grouped heads, windows, ALiBi, rotary positions.
@pytest.mark.parametrize(
    "name, grid",
    [
        ("gpt2-tiny", "tp2,pp2"),
        ("gemma2-past", "tp2"),
        pytest.param("llama-dynamo", "tp1", marks=pytest.mark.long),
        pytest.param("bloom-dynamo", "pp2", marks=pytest.mark.long),
        ("gpt2-tiny-nopast", "dp2,mb2"),
    ],
)
def test_unwritten_cache_elements_are_never_read(tpcc, tmp_path, name, grid):
    """Caches are initially NaN, and the logits of all steps have the same bits."""
    model = ALL[name]
    program = tpcc.compile(model.path, grid, "--generate")
    late = make_late(tpcc, program, model, grid, tmp_path, "--generate")
    asked = [
        "--prompt-ids",
        "1,2,3,4,5,6,7",
        "--max-new-tokens=9",
        "--max-sequence=40",
        "--prefill-chunk=3",
        "--max-batch=4",
    ]
    output = []
    for each, logits in ((program, tmp_path / "cpu.npy"), (late, tmp_path / "late.npy")):
        result = each.call(
            [*asked, f"--logits={logits}"],
            env={"TPC_LATE_SEED": "1", "TPC_RUNTIME_DIR": str(BUILD / "lib")},
        ).check()
        output.append((result.stdout, np.load(logits).tobytes()))
    assert output[0] == output[1] and len(output[0][0].split()) == 9

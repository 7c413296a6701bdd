"""During generation, a rank needs memory for its weights and caches, and little else."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import TOP
from harness import Grid, sanitized
from liveness import processes_of
from service import Service
from test_written_accepted import ACCEPTED

sys.path.append(str(TOP / "test" / "Benchmark"))
import llama  # noqa: E402

SHAPE = dict(layers=4, hidden=512, heads=8, kv_heads=4, ffn=1408, vocab=32000)
SEQUENCE, PROMPT = 4096, 2048
CACHE_BYTES = (
    2 * SHAPE["layers"] * SHAPE["kv_heads"] * (SHAPE["hidden"] // SHAPE["heads"]) * SEQUENCE * 4
)
ALLOWED = 200 << 20


def peak_bytes(pid):
    return 1024 * int(
        re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M).group(1)
    )


@pytest.mark.slow
@pytest.mark.skipif(sanitized(), reason="sanitizers: they need memory of their own")
@pytest.mark.parametrize(
    "past",
    [
        pytest.param(False, id="derived", marks=pytest.mark.long),
        pytest.param(True, id="recognized"),
    ],
)
def test_a_prompt_of_two_thousand_tokens(tpcc, tmp_path, past):
    """The logits of all positions, which would take 262 MB, are not stored. A rank's peak
    exceeds its weights and caches by at most 200 MiB.
    """
    model = llama.write(tmp_path / f"llama-{past}.onnx", past=past, **SHAPE)
    program = tpcc.compile(model, Grid(tp=2), "--generate")
    ids = np.random.default_rng(0).integers(0, SHAPE["vocab"], PROMPT)
    with Service(
        program,
        "--weights=random:1",
        f"--max-sequence={SEQUENCE}",
        "--max-batch=1",
        transport="tcp",
    ) as service:
        service.generate(ids, 20)
        peaks = {rank: peak_bytes(pid) for rank, pid in processes_of(program.path).items()}
        assert service.close() == 0
    assert len(peaks) == 2
    for rank in program.describe()["ranks"]:
        predicted = rank["weight_bytes"] + CACHE_BYTES // 2
        assert peaks[rank["rank"]] <= predicted + ALLOWED, json.dumps(
            {"peak": peaks, "predicted": predicted}
        )


@pytest.mark.skipif(sanitized(), reason="sanitizers: they need memory of their own")
def test_unused_capacity(tpcc, tmp_path):
    """Caches for ten million tokens take 2.5 GB, little of which is used.

    The rest is never touched, so the start does not wait for it.
    """
    model = ACCEPTED["nowhere"]().write(tmp_path / "model.onnx")
    program = tpcc.compile(model, "tp2", "--generate")
    tokens, peaks = [], []
    for room in (64, 10**7):
        with Service(
            program, f"--max-sequence={room}", "--max-batch=1", transport="tcp"
        ) as service:
            tokens.append([service.generate([1, 2, 3], 40) for _ in range(2)])
            peaks.append(sum(peak_bytes(pid) for pid in processes_of(program.path).values()))
            assert service.close() == 0
    assert tokens[0] == tokens[1]
    assert peaks[1] - peaks[0] <= 100 << 20

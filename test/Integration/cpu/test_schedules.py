"""Pipelines with a schedule: several chunks of the model on each rank of pp."""

import json

import pytest

from harness import Grid, run, tool
from models import COMMITTED, FAMILIES
from tpc.reference import TOLERANCE, difference

GPT2 = COMMITTED["gpt2-tiny"]
DEEP = FAMILIES["llama-deep"]
long = pytest.mark.long


@pytest.mark.parametrize(
    "grid",
    [
        "tp2,pp2,vpp2,mb4",
        *(pytest.param(f"pp2,vpp2,mb{mb}", marks=long) for mb in (1, 3, 8)),
        pytest.param("pp2,vpp2,dp2,sp,tp2,mb4", marks=long),
    ],
)
def test_gpt2_equals_onnx_runtime(tpcc, grid):
    executable = tpcc.compile(GPT2.path, Grid.parse(grid))
    # Fewer samples than micro-batches, and a number that they do not divide.
    for batch in (1, 3, 4, 9):
        given = GPT2.inputs(batch, 6, "none")
        expected = GPT2.reference.run(given)["logits"]
        actual = executable.run(given)["logits"]
        assert difference(actual, expected).relative <= TOLERANCE, batch


@pytest.mark.parametrize("pp,vpp,mb", [(2, 2, 4), (2, 4, 6), (4, 2, 8), (4, 1, 4)])
def test_report_counts_idle_slots(tpcc, pp, vpp, mb):
    found = tpcc.plan(DEEP.path, Grid(pp=pp, vpp=vpp, mb=mb), DEEP.shape(4 * mb, 4))
    assert found["schedule"]["policy"] == ("interleaved" if vpp > 1 else "gpipe")
    assert found["schedule"]["busy"] == mb * vpp
    assert found["schedule"]["idle"] == pp - 1 + (0 if mb % pp == 0 or vpp == 1 else 1)
    chunks = [[row["chunk"] for row in stage["chunks"]] for stage in found["stages"]]
    assert chunks == [list(range(rank, pp * vpp, pp)) for rank in range(pp)]


def test_certificate(tpcc, tmp_path):
    proof, staged = tmp_path / "proof.json", tmp_path / "staged.mlir"
    tpcc.call(
        [
            GPT2.path,
            "--megatron-shard=pp2,vpp2,mb3",
            "--emit=staged",
            "-o",
            staged,
            f"--certificate={proof}",
        ]
    ).check()
    run([tool("tpc-check-certificate"), proof, staged]).check()
    events = json.loads(proof.read_text())["schedule"]["stages"]
    assert all("at" in item for stage in events for item in stage if "loop" in item)
    # Without the receive of micro-batch 1, the proof is not valid.
    changed = json.loads(proof.read_text())
    stage = changed["schedule"]["stages"][1]
    stage.remove(next(item for item in stage if item.get("at") == 1))
    proof.write_text(json.dumps(changed))
    run([tool("tpc-check-certificate"), proof]).refused()

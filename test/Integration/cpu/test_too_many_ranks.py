"""More ranks than work: errors and warnings state the largest useful number."""

import re

import pytest

from harness import Grid
from models import COMMITTED, FAMILIES, MODELS

TINY = COMMITTED["gpt2-tiny"]
LLAMA = FAMILIES["llama-dynamo"]


def advice(text):
    """Returns the recommendation of a message, such as "with tp4 all have …" or "use tp4"."""
    return re.search(r"(?:with|use) ([a-z]+[0-9x]+)", text)[1]


def try_out(tpcc, model, text):
    return tpcc.call(
        [
            model.path,
            f"--megatron-shard={text}",
            "--emit=staged",
            "-o",
            tpcc.scratch / "staged.mlir",
        ]
    )


@pytest.mark.parametrize(
    "model,text,words",
    [
        (TINY, "tp1000", ["996 have none of 4 heads", "872 have none of 128 of 'node_addmm_2'"]),
        (
            TINY,
            "tp1024",
            ["is larger than anything that can be split", "4 heads", "128 of ", "1000 of "],
        ),
        (LLAMA, "tp16", ["8 have none of 8 heads"]),
        (LLAMA, "tp5", ["1 have none of 4 groups of heads"]),
        (LLAMA, "tp2x7", ["along tpy 3 have none of 4 heads of each group"]),
        (LLAMA, "pp5", ["has none of 4 layers: there are fewer layers than stages"]),
        (LLAMA, "pp20", ["can be cut into at most"]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_recommended_grids_have_no_warning(tpcc, model, text, words):
    result = try_out(tpcc, model, text)
    assert ("error: " if result.returncode else "warning: ") in result.stderr, result
    for word in words:
        assert word in result.stderr, result
    better = try_out(tpcc, model, advice(result.stderr)).check()
    assert "warning" not in better.stderr, better


def test_one_part_per_rank_has_no_warning(tpcc):
    for text in ("tp4", "tp8", "dp64", "mb64"):
        assert "warning" not in try_out(tpcc, LLAMA, text).check().stderr


def test_replicas_and_micro_batches_without_samples(tpcc, tmp_path):
    import dataclasses

    import onnx

    # The batch of this file is 3.
    model = onnx.load(MODELS / "gpt2-mlp.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 3
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    static = dataclasses.replace(COMMITTED["gpt2-mlp"], path=path)
    for text, words in (
        ("dp4", "1 of 4 replicas have no sample of 3"),
        ("mb4", "1 of 4 micro-batches have no sample of 3"),
        ("dp2,mb3", "2 of 3 micro-batches have no sample of 3"),
    ):
        result = try_out(tpcc, static, text).check()
        assert words in result.stderr, result
        better = re.sub(r"[a-z]+\d+$", advice(result.stderr), text)
        assert "warning" not in try_out(tpcc, static, better).check().stderr, better


def test_more_ranks_than_threads_are_rejected(tpcc):
    executable = tpcc.compile(COMMITTED["gpt2-mlp"].path, Grid(dp=100000))
    assert "100000 ranks need one process each" in executable.compiled.stderr
    result = executable.call([])
    result.refused(
        "100000 ranks as threads of one process",
        "threads that this system allows",
        "compile for fewer ranks",
    )

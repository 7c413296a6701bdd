"""Loaded generating models give transformers' tokens and ONNX Runtime's logits in this process."""

import numpy as np
import pytest

import tpc
from generation import CAUSAL, decided, expected, full_logits
from harness import sanitized
from tpc.reference import TOLERANCE, difference

pytestmark = pytest.mark.skipif(
    sanitized(), reason="sanitizers: the Python process needs them too"
)


@pytest.mark.parametrize(
    "name,grid",
    [
        ("llama-past", "tp2"),
        ("mistral-dynamo", "tp3,pp2"),
        ("bloom-dynamo", "pp2"),
        ("gpt2-tiny-nopast", "dp2"),
    ],
)
def test_all_prompts_at_once(tpcc, name, grid):
    model, prompts = CAUSAL[name], expected()[name]
    with tpc.load(str(tpcc.compile(model.path, grid, "--generate").path)) as session:
        for _ in range(2):
            rows = session.generate([one["prompt"] for one in prompts], max_new_tokens=24)
            for found, one in zip(rows, prompts, strict=True):
                steps = decided(one["margins"])
                assert found.tolist()[:steps] == one["ids"][:steps], one["prompt"]
        for one in prompts[3:5]:
            logits = session.run({"input_ids": [one["prompt"]]})["logits"]
            wanted = full_logits(model, [one["prompt"]])[:, -1]
            assert difference(logits.reshape(wanted.shape), wanted).relative <= TOLERANCE


@pytest.mark.parametrize("every", ["last", "all"])
@pytest.mark.parametrize(
    "name,grid",
    [
        ("llama-dynamo", "tp2,pp2"),
        ("gemma2-past", "tp2"),
        ("gpt2-tiny-nopast", "dp2"),
        ("bloom-past", "pp2"),
        ("mistral-dynamo", "tp3"),
    ],
)
def test_rows_of_a_batch(tpcc, name, grid, every):
    """Results equal those of a single call and of ONNX Runtime, between calls that generate and
    calls of other sizes.
    """
    model = CAUSAL[name]
    random = np.random.default_rng(model.hidden)
    with tpc.load(str(tpcc.compile(model.path, grid, f"--generate={every}").path)) as session:
        good = session.generate([1, 2, 3], max_new_tokens=4).tolist()
        for batch, length in ((3, 9), (1, 1), (4, 20)):
            ids = random.integers(0, model.vocab, (batch, length))
            logits = session.run({"input_ids": ids})["logits"]
            wanted = full_logits(model, ids)
            assert (
                difference(logits, wanted if every == "all" else wanted[:, -1]).relative
                <= TOLERANCE
            )
            for row in range(batch):
                alone = session.run({"input_ids": ids[row : row + 1]})["logits"]
                assert difference(logits[row : row + 1], alone).relative <= TOLERANCE
            assert session.generate([1, 2, 3], max_new_tokens=4).tolist() == good


@pytest.mark.parametrize("name", ["llama-past", "gpt2-tiny-nopast"])
def test_masks_and_pasts_are_rejected(tpcc, name):
    """Programs track the length of each sequence, so that masks, which could contradict it, are
    errors, also for files with a mask input.
    """
    model = CAUSAL[name]
    with tpc.load(str(tpcc.compile(model.path, "tp2", "--generate").path)) as session:
        ids = np.array([[1, 2, 3]])
        first = session.run({"input_ids": ids})["logits"]
        for other in ("attention_mask", "position_ids"):
            for values in (np.ones_like(ids), np.array([[1, 0, 1]]), np.ones((1, 7), np.int64)):
                with pytest.raises(tpc.TpcError, match=f"(?s){other}.*input_ids") as error:
                    session.run({"input_ids": ids, other: values})
                assert not error.value.broken
        assert np.array_equal(session.run({"input_ids": ids})["logits"], first)

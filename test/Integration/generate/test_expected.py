"""For the committed models, ONNX Runtime chooses the tokens in expected.json."""

import numpy as np
import pytest

from generation import CAUSAL, decided, expected, full_logits, margins_of


def test_every_model_with_ids_has_eight_prompts():
    assert expected().keys() == CAUSAL.keys()
    assert {len(prompts) for prompts in expected().values()} == {8}


def test_nine_of_ten_prompts_are_decided():
    prompts = [one for prompts in expected().values() for one in prompts]
    num_decided = sum(decided(one["margins"]) == len(one["ids"]) for one in prompts)
    assert num_decided >= 0.9 * len(prompts)


@pytest.mark.parametrize("name", CAUSAL)
def test_greedy_ids_are_those_of_the_file(name):
    for one in expected()[name]:
        prompt, ids = one["prompt"], one["ids"]
        logits = full_logits(CAUSAL[name], [prompt + ids[:-1]])[0, len(prompt) - 1 :]
        steps = decided(one["margins"])
        assert logits.argmax(axis=-1)[:steps].tolist() == ids[:steps], prompt
        # The file has three digits.
        np.testing.assert_allclose(margins_of(logits), one["margins"], rtol=6e-3, atol=1e-4)

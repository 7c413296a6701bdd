"""tpc.load of compiled models that generate: the tokens of transformers, the logits of ONNX Runtime, in this process."""

import pytest

import tpc
from generation import CAUSAL, decided, expected, full_logits
from harness import sanitized
from tpc.reference import TOLERANCE, difference

pytestmark = pytest.mark.skipif(sanitized(), reason="sanitizers: who loads a program must have them itself")


@pytest.mark.parametrize("name,grid", [("llama-past", "tp2"), ("mistral-dynamo", "tp3,pp2"), ("bloom-dynamo", "pp2"),
                                       ("gpt2-tiny-nopast", "dp2")])
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

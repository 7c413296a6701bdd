"""python -m tpc.generate on compiled models prints the text of transformers' greedy `generate`."""

import importlib.util
import json
import sys

import pytest

from generation import CAUSAL, decided, expected
from harness import TOP, run, sanitized

if not importlib.util.find_spec("tokenizers"):
    pytest.skip("tokenizers: the package is not installed", allow_module_level=True)
pytestmark = pytest.mark.skipif(
    sanitized(), reason="sanitizers: the Python process needs them too"
)


@pytest.mark.parametrize(
    "name,grid", [("gpt2-tiny", "tp2,pp2"), ("llama-past", "tp2"), ("bloom-dynamo", "tp1")]
)
def test_prompts(tpcc, tmp_path, name, grid):
    """The tokenizer has one character for each id of the model, so texts and sequences of ids
    correspond one to one.
    """
    from tokenizers import Tokenizer, decoders, models

    model = CAUSAL[name]
    letters = {chr(0x4E00 + token): token for token in range(model.vocab)}
    tokenizer = Tokenizer(models.BPE(letters, []))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "generation_config.json").write_text(json.dumps({"do_sample": False}))
    program = tpcc.compile(model.path, grid, "--generate")
    for one in expected()[name][2:6]:
        prompt = "".join(chr(0x4E00 + token) for token in one["prompt"])
        result = run(
            [
                sys.executable,
                "-m",
                "tpc.generate",
                program.path,
                "--tokenizer",
                tmp_path,
                "--prompt",
                prompt,
                "--max-new-tokens",
                len(one["ids"]),
            ],
            env={"PYTHONPATH": str(TOP / "python")},
        ).check()
        output = [ord(letter) - 0x4E00 for letter in result.stdout.removesuffix("\n")]
        steps = decided(one["margins"])
        assert len(output) == len(one["ids"]) and output[:steps] == one["ids"][:steps]

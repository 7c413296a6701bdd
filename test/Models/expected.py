"""Writes expected.json: ids of transformers' greedy `generate` for eight prompts per model.

    PYTHONPATH=python python test/Models/expected.py [NAME …]

Needs torch and transformers; tests need neither. Each model is built from its seed as make.py does,
and first compared with the committed file in ONNX Runtime: different weights are an error. The seed
of a model's prompts is a hash of its name. Each step has its margin: the largest logit minus the
second largest. With a small margin, other summation orders may choose other ids.
"""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path

import numpy as np

import make
from tpc import defaults, export, reference

HERE = Path(__file__).resolve().parent
FILE = HERE / "expected.json"
PROMPT_LENGTHS = (1, 2, 3, 5, 9, 14, 20, 30)
NEW_TOKENS = 24
# Models without weights, and models whose input is not token ids.
LEFT_OUT = {"gpt2-124m", "gpt2-124m-past", "gpt2-layer", "gpt2-layer-opset23", "gpt2-mlp"}


def build(name: str):
    """Returns the model of transformers that the file was exported from."""
    from tpc import exporters, families

    args = export.parse_arguments([*make.MODELS[name].split(), "-o", str(HERE / f"{name}.onnx")])
    return exporters.build_random(
        args.model, families.families()[args.model], args.sizes, args.seed
    )


def draw_prompts(name: str, vocabulary: int) -> list[list[int]]:
    random = np.random.default_rng(zlib.crc32(name.encode()))
    return [random.integers(0, vocabulary, length).tolist() for length in PROMPT_LENGTHS]


def check_weights(name: str, model) -> None:
    """Exits if the logits of the file and of the model differ."""
    import torch

    session = reference.Session(HERE / f"{name}.onnx")
    ids = np.random.default_rng(0).integers(0, model.config.vocab_size, (2, 11))
    past = {
        port: np.zeros((len(ids), shape[1], 0, shape[3]), np.float32)
        for port, shape in session.inputs.items()
        if port.startswith("past_key_values.")
    }
    ports = defaults.conventional(session.inputs)
    found = session.run(
        defaults.fill(session.inputs, session.types, {"input_ids": ids, **past}, ports)
    )["logits"]
    with torch.no_grad():
        expected = model(torch.from_numpy(ids), use_cache=False).logits.numpy()
    distance = reference.difference(found, expected)
    if distance.relative > 1e-4:
        sys.exit(
            f"expected.py: {name}.onnx and the model built from its seed have different "
            f"weights: {distance}"
        )


def continue_prompt(model, prompt: list[int]) -> dict:
    """Returns an entry of the file: the prompt, its greedy continuation, and the margins."""
    import torch

    ids = torch.tensor([prompt])
    result = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=NEW_TOKENS,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_logits=True,
    )
    best = torch.stack(result.logits)[:, 0].topk(2).values
    return {
        "prompt": prompt,
        "ids": result.sequences[0, len(prompt) :].tolist(),
        "margins": [float(f"{margin:.3g}") for margin in (best[:, 0] - best[:, 1]).tolist()],
    }


def main() -> int:
    known = [name for name in make.MODELS if name not in LEFT_OUT]
    names = sys.argv[1:] or known
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(
            f"expected.py: no model with weights and token ids is named {', '.join(unknown)}; "
            f"these are: {', '.join(known)}"
        )
    output = json.loads(FILE.read_text()) if FILE.exists() and sys.argv[1:] else {}
    for name in names:
        model = build(name)
        check_weights(name, model)
        output[name] = [
            continue_prompt(model, prompt) for prompt in draw_prompts(name, model.config.vocab_size)
        ]
        print(
            f"{name}: smallest margin {min(min(one['margins']) for one in output[name]):.2g}",
            flush=True,
        )
    texts = [
        f'"{name}": [\n'
        + ",\n".join(json.dumps(one, separators=(",", ":")) for one in output[name])
        + "]"
        for name in known
        if name in output
    ]
    FILE.write_text("{" + ",\n".join(texts) + "}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

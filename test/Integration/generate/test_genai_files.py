"""Files of onnxruntime-genai's model builder give ONNX Runtime's outputs and tokens."""

from dataclasses import replace

import numpy as np
import onnx
import pytest

from genai_files import GenAi
from generation import generate, margins_of
from halves import as_float, halve
from simulator import FLAGS, environment
from tpc.reference import Session, difference

PACKED = GenAi()
# Separate q, k and v; windows in every second layer, softcap, and norms of heads (Qwen3).
SEPARATE = GenAi(
    sliding=True,
    packed=False,
    head_norms=True,
    windows=(5, -1),
    attributes=(("softcap", 4.0), ("scale", 0.3)),
)
HALF = GenAi(half=True, heads=8, kv_heads=2)
# Mistral: all caches are of windows, so that no type has the size `capacity`.
WINDOWS = GenAi(windows=(5,))


def reference(spec, folder):
    """Returns a session of the model with caches of all tokens. In ONNX Runtime, sliding-window
    caches have a fixed size.
    """
    return Session(replace(spec, sliding=False).save(folder / "reference.onnx"))


def inputs(spec, session, mask, tokens, past):
    random = np.random.default_rng(3)
    mask = np.array(mask, np.int64)
    element = np.float16 if spec.half else np.float32
    given = {
        name: random.standard_normal((len(mask), spec.kv_heads, past, spec.size)).astype(element)
        for name in session.inputs
        if name.startswith("past")
    }
    given["attention_mask"] = mask
    if spec.embeds:
        shape = (len(mask), tokens, spec.hidden)
        return given | {"inputs_embeds": random.standard_normal(shape).astype(element)}
    return given | {"input_ids": random.integers(0, spec.vocab, (len(mask), tokens))}


# Mask, new tokens, past tokens. The third sequence of the first case has 4 past tokens, then
# padding: its new token has position 4. Prompts are padded on the right.
CASES = {
    "decode": ([[1] * 7, [1] * 3 + [0] * 4, [1] * 5 + [0] * 2], 1, 6),
    "chunk": ([[1] * 8], 3, 5),
    "prompt": ([[1] * 5, [1] * 3 + [0] * 2], 5, 0),
}


def compiled(tpcc, path, grid, *flags):
    """Returns a program for CPUs or simulated GPUs, and the environment variables of its runs."""
    gpu = grid.startswith("gpu:")
    program = tpcc.compile(path, grid.removeprefix("gpu:"), *flags, *(FLAGS if gpu else ()))
    return program, environment() if gpu else {}


@pytest.mark.parametrize(
    "spec, grid",
    [
        (PACKED, "tp2,pp2"),
        (SEPARATE, "tp4"),
        (HALF, "tp2"),
        (GenAi(embeds=True), "dp2,tp2"),
        (PACKED, "gpu:tp2"),
    ],
    ids=["packed", "separate", "half", "embeds", "gpu"],
)
def test_runs(tpcc, tmp_path, spec, grid):
    path = spec.save(tmp_path / "genai.onnx")
    session = reference(spec, tmp_path)
    feeds = [inputs(spec, session, *case) for case in CASES.values()]
    program, variables = compiled(tpcc, path, grid)
    found = program.run_all(feeds, list(session.outputs), env=variables)
    for case, feed, outputs in zip(CASES, feeds, found):
        expected = session.run(feed)
        lengths = feed["attention_mask"].sum(axis=1)
        for name, value in expected.items():
            for row, length in enumerate(lengths):
                # Rows after the last token of a sequence are unspecified.
                part = (slice(int(length)),) if case == "prompt" or name != "logits" else ()
                part = part if name == "logits" else (slice(None), *part)
                error = difference(outputs[name][row][part], value[row][part])
                assert error.relative < (4e-3 if spec.half else 2e-5), (case, name, row, str(error))


def test_bf16(tpcc, tmp_path):
    """ONNX Runtime cannot run bf16 on CPUs; the reference is the f32 model."""
    path, half = PACKED.save(tmp_path / "genai.onnx"), tmp_path / "half.onnx"
    onnx.save(halve(onnx.load(path), "bf16"), half)
    session = Session(path)
    feed = inputs(PACKED, session, *CASES["prompt"])
    expected = session.run(feed)["logits"]
    past = {n: v.astype(np.float16).view("V2") for n, v in feed.items() if n.startswith("past")}
    found = as_float(tpcc.compile(half, "tp2").run(feed | past)["logits"])
    assert np.abs(found[0] - expected[0]).max() < 4e-2 * np.abs(expected[0]).max()


def greedy(spec, session, prompt, count):
    """Returns the tokens that ONNX Runtime decodes greedily with its caches, and their margins."""
    ids, given, tokens, margins = np.array([prompt]), {}, [], []
    element = np.float16 if spec.half else np.float32
    for name in session.inputs:
        if name.startswith("past"):
            given[name] = np.zeros((1, spec.kv_heads, 0, spec.size), element)
    total = 0
    for _ in range(count):
        total += ids.shape[1]
        given |= {"input_ids": ids, "attention_mask": np.ones((1, total), np.int64)}
        found = session.run(given)
        logits = found["logits"][0, -1].astype(np.float32)
        tokens.append(int(logits.argmax()))
        margins.append(float(margins_of(logits)))
        ids = np.array([tokens[-1:]])
        given = {
            name.replace("present", "past_key_values"): value
            for name, value in found.items()
            if name != "logits"
        }
    return tokens, margins


@pytest.mark.parametrize(
    "spec, grid",
    [
        (PACKED, "tp2,pp2"),
        (SEPARATE, "tp4"),
        (HALF, "tp2"),
        (WINDOWS, "tp2"),
        (PACKED, "gpu:tp2"),
    ],
    ids=["packed", "separate", "half", "windows", "gpu"],
)
def test_generates(tpcc, tmp_path, spec, grid):
    path = spec.save(tmp_path / "genai.onnx")
    program, variables = compiled(tpcc, path, grid, "--generate")
    program.environment |= variables
    session = reference(spec, tmp_path)
    for prompt in ([12, 7, 33], [5, 60, 18, 77, 21, 4, 9, 40, 41]):
        tokens, margins = greedy(spec, session, prompt, 12)
        # The comparison ends at the first token that rounding may change.
        near = 2e-2 if spec.half else 1e-4
        decided = next((i for i, margin in enumerate(margins) if margin < near), len(margins))
        assert decided > 3
        for flags in ([], ["--prefill-chunk=2"]):
            generated = generate(program, prompt, 12, *flags)
            assert generated.tokens[:decided] == tokens[:decided]


def test_embeddings_cannot_generate(tpcc, tmp_path):
    path = GenAi(embeds=True).save(tmp_path / "genai.onnx")
    tpcc.call([path, "--generate", "-o", tmp_path / "program"]).refused(
        "inputs_embeds", "exclude_embeds"
    )

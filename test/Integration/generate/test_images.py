"""Vision-language models generate: an encoder of images, an embedding and a decoder in one
program; features of an image replace the image tokens of a prompt."""

import numpy as np
import pytest

from generation import decided, margins_of
from harness import load_script
from models import MODELS
from service import Service
from tpc.reference import Session, difference

vision = load_script(MODELS / "vision.py")
FOLDER = MODELS / "vision" / "llava"
ENCODER, EMBEDDING, DECODER = (FOLDER / f"{part}.onnx" for part in vision.PARTS)
TOKEN, ROWS, NEW = vision.IMAGE_TOKEN, 4, 6


def images(count):
    random = np.random.default_rng(11)
    return random.standard_normal((count, 3, vision.IMAGE, vision.IMAGE), np.float32)


def prompt_of(*parts):
    """Returns ids: each part is a list of ids, or "image"."""
    return [id for part in parts for id in ([TOKEN] * ROWS if part == "image" else part)]


def expected(prompt, image=None, new=NEW):
    """Returns ONNX Runtime's greedy tokens and the logits of each, by hand from the three files."""
    encoder, embedding, decoder = (Session(file) for file in (ENCODER, EMBEDDING, DECODER))
    ids, rows = np.array([prompt]), []
    empty = {
        name: np.zeros((1, 2, 0, 8), np.float32)
        for name in decoder.inputs
        if name.startswith("past_key_values")
    }
    for _ in range(new):
        embedded = embedding.run({"input_ids": ids})["inputs_embeds"]
        if image is not None:
            embedded[ids == TOKEN] = encoder.run({"pixel_values": image[None]})["image_features"][0]
        given = {"inputs_embeds": embedded, "attention_mask": np.ones_like(ids), **empty}
        rows.append(decoder.run(given)["logits"][0, -1])
        ids = np.concatenate([ids, [[rows[-1].argmax()]]], 1)
    return ids[0, len(prompt) :].tolist(), np.array(rows)


def text_of(ids):
    return ",".join(str(one) for one in ids)


def generate(program, *arguments, new=NEW):
    flags = ["--max-new-tokens", str(new), *arguments]
    lines = program.call(flags, "threads").check().stdout.splitlines()
    return [[int(token) for token in line.split()] for line in lines]


def check(found, prompt, image=None):
    tokens, rows = expected(prompt, image)
    same = decided(margins_of(rows))
    assert same > 2 and found[:same] == tokens[:same]


PROMPTS = [
    prompt_of([3, 9], "image", [7, 12, 5]),
    prompt_of("image", [40]),
    prompt_of([8, 2, 77, 31]),
]


def compile_files(tpcc, grid, *flags):
    return tpcc.compile(
        DECODER, grid, "--encoder", ENCODER, "--embedding", EMBEDDING, "--generate", *flags
    )


@pytest.mark.parametrize(
    "grid", ["tp2", *(pytest.param(grid, marks=pytest.mark.long) for grid in ("tp1", "tp2,pp2"))]
)
def test_one_program(tpcc, grid, tmp_path):
    """Two slots: prompts with an image and without, in chunks that split an image's tokens."""
    program = compile_files(tpcc, grid)
    given = images(2)
    np.save(tmp_path / "images.npy", given)
    flags = [flag for prompt in PROMPTS for flag in ("--prompt-ids", text_of(prompt))]
    flags += ["--source", str(tmp_path / "images.npy"), "--max-batch", "2"]
    sources = [*given, None]
    for chunk in ([], ["--prefill-chunk", "3"]):
        found = generate(program, *flags, *chunk)
        for tokens, prompt, image in zip(found, PROMPTS, sources):
            check(tokens, prompt, image)
    np.save(tmp_path / "image.npy", given[0])
    logits = tmp_path / "logits.npy"
    flags = ["--source", str(tmp_path / "image.npy"), "--logits", str(logits)]
    generate(program, "--prompt-ids", text_of(PROMPTS[0]), *flags)
    wanted = expected(PROMPTS[0], given[0])[1]
    assert difference(np.load(logits)[:3], wanted[:3]).relative <= 2e-5

    prompt = ["--prompt-ids", text_of(PROMPTS[0])]
    program.call(prompt, "threads").refused("4 image tokens (id 150)", "its source has 0")
    short = ["--prompt-ids", text_of([3, TOKEN]), *flags[:2]]
    program.call(short, "threads").refused("1 image tokens", "its source has 4")
    with Service(program, "--max-batch", "2", "--max-sequence", "40") as service:
        service.ask("image", PROMPTS[0], NEW, source=str(tmp_path / "image.npy"))
        service.ask("text", PROMPTS[2], NEW)
        check(service.answer("image").tokens, PROMPTS[0], given[0])
        check(service.answer("text").tokens, PROMPTS[2])


def test_plain_run(tpcc):
    """An id of -1 - k is row k of the image's features; other ids out of bounds are errors."""
    program = tpcc.compile(DECODER, "tp2", "--encoder", ENCODER, "--embedding", EMBEDDING)
    image, prompt = images(1), PROMPTS[0]
    ids = np.array([prompt])
    ids[ids == TOKEN] = -1 - np.arange(ROWS)
    past = {
        f"past_key_values.{layer}.{kind}": np.zeros((1, 2, 0, 8), np.float32)
        for layer in range(2)
        for kind in ("key", "value")
    }
    given = {"input_ids": ids, "encoder_pixel_values": image, **past}
    wanted = expected(prompt, image[0], new=1)[1]
    assert difference(program.run(given)["logits"][:, -1], wanted).relative <= 2e-5
    for bad, message in ((151, "index 151 of 151"), (-1 - ROWS, f"index {ROWS} of {ROWS}")):
        with pytest.raises(AssertionError, match=message):
            program.run({**given, "input_ids": np.where(ids == 9, bad, ids)})


def test_refused(tpcc, tmp_path):
    """Flags and files that do not fit are named."""
    out = ["-o", tmp_path / "p"]
    tpcc.call([DECODER, "--encoder", ENCODER, *out]).refused("--embedding", "encoder_hidden_states")
    both = ["--encoder", ENCODER, "--embedding", EMBEDDING]
    tpcc.call([MODELS / "gpt2-tiny.onnx", *both, *out]).refused("no input 'inputs_embeds'")
    other = MODELS / "families" / "vit.onnx"
    tpcc.call(
        [DECODER, "--encoder", other, "--embedding", EMBEDDING, "--image-token=5", *out]
    ).refused("features of images")
    tpcc.call([DECODER, "--embedding", EMBEDDING, "--image-token=5", *out]).refused("--image-token")

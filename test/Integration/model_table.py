"""Measurements of docs/reference/models.md: files, grids, and differences from ONNX Runtime."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx

import simulator
from genai_files import GenAi
from generation import generate
from halves import as_float, halve, rounded_nodes, rounded_weights, widen
from harness import TOP, load_script
from models import COMMITTED, FAMILIES, MODELS
from quantized_files import Blocks, in_blocks
from tpc.reference import Session, difference

genai = load_script(MODELS / "genai.py")
make = load_script(MODELS / "make.py")
encoders = load_script(MODELS / "encoders.py")
vision = load_script(MODELS / "vision.py")

PAGE = TOP / "docs" / "reference" / "models.md"
COLUMNS = ("prefill", "generate", "tp2", "pp2,tp2", "GPU simulator")
SEQUENCE, STEPS = 7, 6
NAMES = {
    "gpt2": "GPT-2",
    "llama": "LLaMA",
    "mistral": "Mistral",
    "qwen2": "Qwen2",
    "phi": "Phi",
    "gpt_neox": "GPT-NeoX",
    "bloom": "BLOOM",
    "falcon": "Falcon",
    "olmo2": "OLMo2",
    "gemma2": "Gemma-2",
    "mpt": "MPT",
    "gpt_neo": "GPT-Neo",
    "phi3": "Phi-3",
    "opt": "OPT",
    "gptj": "GPT-J",
    "codegen": "CodeGen",
    "qwen3": "Qwen3",
    "smollm3": "SmolLM3",
    "granite": "Granite",
    "gemma3_text": "Gemma-3",
    "gemma": "Gemma",
    "stablelm": "StableLM",
    "starcoder2": "StarCoder2",
    "gpt_bigcode": "GPT-BigCode",
    "olmo": "OLMo",
    "olmo3": "OLMo3",
    "cohere": "Cohere",
    "nemotron": "Nemotron",
    "glm": "GLM",
    "glm4": "GLM-4",
    "ernie4_5": "ERNIE 4.5",
    "persimmon": "Persimmon",
    "arcee": "Arcee",
    "hunyuan_v1_dense": "Hunyuan",
    "seed_oss": "Seed-OSS",
    "biogpt": "BioGPT",
    "xglm": "XGLM",
    "diffllama": "DiffLlama",
    "bert": "BERT",
    "roberta": "RoBERTa",
    "distilbert": "DistilBERT",
    "modernbert": "ModernBERT",
    "vit": "ViT",
    "siglip": "SigLIP",
    "t5": "T5",
    "bart": "BART",
    "whisper": "Whisper",
    "mixtral": "Mixtral",
    "deepseek_v3": "DeepSeek-V3",
    "gpt_oss": "gpt-oss",
    "qwen2_moe": "Qwen2-MoE",
    "phimoe": "Phi-3.5-MoE",
    "granitemoe": "Granite-MoE",
    "llava": "LLaVA",
}
# Files of test/Models without a row, and the reason.
OTHERS = {
    "gpt2-124m": "weights are not in the repository",
    "gpt2-124m-past": "weights are not in the repository",
    "gpt2-layer": "part of a model",
    "gpt2-layer-opset23": "part of a model",
    "gpt2-mlp": "part of a model",
    "looped": "a loop written by hand: test_looped_experts.py",
    "stories": "its tests generate text",
    "vision_encoder": "part of `vision/llava`",
    "embed_tokens": "part of `vision/llava`",
    "decoder_model": "part of `vision/llava`, and of `t5`",
    "decoder_with_past_model": "part of `t5`",
}
TOLERANCE, FACTOR = 2e-5, 1.5
# Cells without a number: (file, type, column) -> reason, and words of the error.
REASONS = {
    ("opt-dynamo", "f16", "generate"): (
        "positions are summed in 16 bits",
        "sums values that are not 1 for each token",
    )
}

REASONS |= {
    (name, "f32", "generate"): ("attention is not causal", "tpc.attention")
    for name in encoders.NAMES
    if not name.endswith("-decoder")
}

@dataclass(frozen=True)
class Row:
    family: str
    exporter: str
    kind: str  # f32, f16, bf16, int8, int4
    name: str  # of the file, which is in test/Models or written by `spec`
    path: Path | None = None
    spec: GenAi | None = None
    parts: tuple[tuple[str, Path], ...] = ()  # further files of the program, with their flags

    @property
    def flags(self) -> list[str]:
        return [str(word) for part in self.parts for word in part]

    @property
    def image_token(self) -> int | None:
        return vision.IMAGE_TOKEN if dict(self.parts).get("--embedding") else None

    def write(self, folder: Path) -> Path:
        """Returns the path of the file, which is written first unless it is in test/Models."""
        if self.path and self.kind == "f32":
            return self.path
        path = folder / f"{self.name}-{self.kind}.onnx"
        if self.path:
            onnx.save(halve(onnx.load(self.path), self.kind), path)
            return path
        self.spec.save(path)
        if self.kind in BITS:
            blocks = Blocks(bits=BITS[self.kind], block=16, zeros="packed")
            onnx.save(in_blocks(onnx.load(path), blocks), path)
        return path


BITS = {"int4": 4, "int8": 8}
# Files that are also measured in bf16.
IN_BF16 = ("gpt2-tiny", "llama-dynamo", "qwen2-dynamo", "gemma2-dynamo", "phi3-dynamo")


def exporter_of(name: str) -> str:
    if "past" in name or "optimum" in name:
        past = FAMILIES[name].past_name if name in FAMILIES else ""
        return "torch, past" if past == "past" else "optimum, past"
    return "optimum" if "nopast" in name else "torch"


def committed_rows():
    for model in {**COMMITTED, **FAMILIES}.values():
        if not model.vocab:
            continue
        name, kinds = model.name, ["f32"]
        # One file of each family is enough for 16 bits.
        if name.endswith(("-dynamo", "tiny")):
            kinds.append("f16")
        if name in IN_BF16:
            kinds.append("bf16")
        for kind in kinds:
            yield Row(NAMES[name.split("-")[0]], exporter_of(name), kind, name, model.path)
    for name, settings in genai.MODELS.items():
        yield Row(
            NAMES[settings["model_type"]],
            "onnxruntime-genai",
            "f32",
            name,
            make.FAMILIES_FOLDER / f"{name}.onnx",
        )
    for name in encoders.NAMES:
        path = make.FAMILIES_FOLDER / f"{name}.onnx"
        yield Row(NAMES[name.split("-")[0]], "torch", "f32", name, path)
    for path in sorted((MODELS / "experts").glob("*.onnx")):
        if path.stem in OTHERS:
            continue
        exporter = "torch" if path.stem == "granitemoe" else "transformers"
        yield Row(NAMES[path.stem], exporter, "f32", path.stem, path)
    for name, words in make.MORE.items():
        exporter = "torch, past" if "past" in words else "torch"
        yield Row(NAMES[name], exporter, "f32", name, make.path_of(name))


def built_rows():
    specs = {
        "LLaMA": GenAi(),
        "Qwen3": GenAi(packed=False, head_norms=True),
        "Mistral": GenAi(windows=(5,)),
        "Gemma-3": GenAi(packed=False, head_norms=True, windows=(5, -1)),
    }
    for family, spec in specs.items():
        name = f"genai-{family.lower()}"
        yield Row(family, "onnxruntime-genai", "f32", name, spec=spec)
        yield Row(family, "onnxruntime-genai", "f16", name, spec=replace(spec, half=True))
        if not spec.packed or family == "LLaMA":
            for kind in BITS:
                wide = replace(spec, hidden=64, inner=96)
                yield Row(family, "onnxruntime-genai", kind, name, spec=wide)


def joined_rows():
    """Programs of several files."""
    for name in vision.MODELS:
        files = {part: vision.FOLDER / name / f"{part}.onnx" for part in vision.PARTS}
        yield Row(
            NAMES[name],
            "torch, past",
            "f32",
            f"vision/{name}",
            files["decoder_model"],
            parts=(
                ("--encoder", files["vision_encoder"]),
                ("--embedding", files["embed_tokens"]),
            ),
        )
    first, second = (MODELS / "t5" / f"decoder_{part}model.onnx" for part in ("", "with_past_"))
    parts = (("--encoder", first),)
    yield Row(NAMES["t5"], "optimum, past", "f32", "t5", second, parts=parts)


def rows() -> list[Row]:
    everything = [*committed_rows(), *built_rows(), *joined_rows()]
    return sorted(everything, key=lambda row: (row.family, row.exporter, row.kind, row.name))


# Inputs with the data of --source: images, audio, or an encoder's results.
SOURCES = ("pixel_values", "encoder_pixel_values", "input_features", "encoder_hidden_states")


class JoinedFiles:
    """ONNX Runtime's results of several files, with the inputs of the program made of them.

    An id of -1 - k is row k of an image's features. If another file computes a decoder's first
    caches (T5), that file computes the logits of all tokens.
    """

    def __init__(self, row: Row):
        parts = dict(row.parts)
        own = Session(row.path)
        self.inputs, self.types = dict(own.inputs), dict(own.types)
        self.encoder = Session(parts["--encoder"])
        self.embedding = None
        if row.image_token is None:
            self.decoder = self.encoder
            self.inputs = {n: s for n, s in self.inputs.items() if ".encoder." not in n}
        else:
            self.decoder, self.embedding = own, Session(parts["--embedding"])
            del self.inputs["inputs_embeds"]
        for other, prefix in ((self.embedding, ""), (self.encoder, "encoder_")):
            for name, shape in other.inputs.items() if other else ():
                full_name = name if name.startswith(prefix) else prefix + name
                if name == full_name or self.embedding:
                    self.inputs[full_name] = shape
                    self.types[full_name] = other.types[name]
        self.session = self.decoder.session

    def run(self, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        given = {name: feed[name] for name in self.decoder.inputs if name in feed}
        if self.embedding:
            ids = feed["input_ids"]
            embedded = self.embedding.run({"input_ids": np.maximum(ids, 0)})["inputs_embeds"]
            image = {"pixel_values": feed["encoder_pixel_values"]}
            features = self.encoder.run(image)["image_features"]
            for sequence, position in np.argwhere(ids < 0):
                embedded[sequence, position] = features[sequence, -1 - ids[sequence, position]]
            given["inputs_embeds"] = embedded
        return self.decoder.run(given)


def feed_of(session: Session, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the inputs of a prompt without a past."""
    batch, tokens = ids.shape
    given = {}
    for name, shape in session.inputs.items():
        kind = session.types[name]
        if name == "input_ids":
            given[name] = ids.astype(kind)
        elif name == "attention_mask":
            given[name] = np.ones((batch, tokens), kind)
        elif name == "position_ids":
            given[name] = np.tile(np.arange(tokens), (batch, 1)).astype(kind)
        elif name == "encoder_attention_mask":
            given[name] = np.ones((batch, 9), kind)
        elif name in SOURCES:
            sizes = [batch, *(9 if isinstance(size, str) else size for size in shape[1:])]
            given[name] = np.random.default_rng(6).standard_normal(sizes).astype(kind)
        else:
            sizes = [batch, *(0 if isinstance(size, str) else size for size in shape[1:])]
            given[name] = np.zeros(sizes, kind)
    return given


class Reference:
    """ONNX Runtime's logits of a file. A 16-bit file has two: `exact`, of the same numbers in f32,
    and `rounded`, of f32 nodes whose results are rounded, as ONNX specifies. (On CPUs, ONNX Runtime
    rounds fewer results.) Quantized weights are multiplied in f32.
    """

    def __init__(self, path: Path, row: Row, folder: Path):
        self.in_halves = row.kind in ("f16", "bf16")
        if row.parts:
            self.session = self.exact = JoinedFiles(row)
            return
        if not self.in_halves:
            self.session = self.exact = Session(path, optimize=row.kind == "f32")
            return
        wide, rounded = (folder / f"{path.stem}-{name}.onnx" for name in ("wide", "rounded"))
        # ONNX Runtime cannot load bf16 on CPUs.
        source = widen(onnx.load(path)) if row.kind == "f16" else onnx.load(row.path)
        onnx.save(source, wide)
        onnx.save(rounded_nodes(source, row.kind), rounded)
        onnx.save(rounded_weights(onnx.load(wide), row.kind), wide)
        self.exact, self.rounded = Session(wide), Session(rounded, optimize=False)
        self.session = Session(path) if row.kind == "f16" else self.exact

    def feed(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        return feed_of(self.session, ids)

    def error(self, ids: np.ndarray, found: np.ndarray, positions=slice(None)) -> float:
        """Returns, for f32, the largest relative difference; for 16 bits, the largest difference
        from the exact results, divided by that of ONNX Runtime's rounded results.
        """
        exact = self.exact.run(feed_of(self.exact, ids))["logits"][:, positions]
        own = difference(as_float(found).reshape(exact.shape), exact)
        if not self.in_halves:
            return own.relative
        theirs = self.rounded.run(feed_of(self.rounded, ids))["logits"][:, positions]
        return own.absolute / difference(theirs, exact).absolute


def place_image(row: Row, ids: np.ndarray, by_token: bool = False) -> np.ndarray:
    """Returns ids with an image after the first token, if the model takes images: with `by_token`
    the id of the image token, else -1 - k for row k of the image's features.
    """
    if row.image_token is None:
        return ids
    ids = np.where(ids == row.image_token, 0, ids)
    rows = (vision.IMAGE // vision.VISION["patch_size"]) ** 2
    ids[..., 1 : 1 + rows] = row.image_token if by_token else -1 - np.arange(rows)
    return ids


def measure(tpcc, row: Row, column: str, folder: Path) -> float:
    path = row.write(folder)
    reference = Reference(path, row, folder)
    vocabulary = reference.session.session.get_outputs()[0].shape[-1]
    random = np.random.default_rng(5)
    if column == "generate":
        prompt = random.integers(0, vocabulary, SEQUENCE)
        feed, flags = reference.feed(prompt[None]), []
        for name in SOURCES:
            if name in feed:
                np.save(folder / "source.npy", feed[name])
                flags = ["--source", str(folder / "source.npy")]
        given = place_image(row, prompt, by_token=True)
        program = tpcc.compile(path, "tp1", "--generate", *row.flags)
        found = generate(program, given, STEPS, *flags, logits=True)
        ids = np.array([[*place_image(row, prompt), *found.tokens[:-1]]])
        return reference.error(ids, found.logits, slice(SEQUENCE - 1, None))
    ids = place_image(row, random.integers(0, vocabulary, (2, SEQUENCE)))
    grid = {"prefill": "tp1", "GPU simulator": "tp2"}.get(column, column)
    gpu = column == "GPU simulator"
    program = tpcc.compile(path, grid, *row.flags, *(simulator.FLAGS if gpu else ()))
    env = simulator.environment() if gpu else {}
    return reference.error(ids, program.run(reference.feed(ids), env=env)["logits"])


def find_reason(row: Row, column: str) -> tuple[str, str] | None:
    return REASONS.get((row.name, row.kind, column))


def limit(row: Row) -> float:
    return FACTOR if row.kind in ("f16", "bf16") else TOLERANCE


def cell(row: Row, value: float) -> str:
    return f"{value:.2f}" if row.kind in ("f16", "bf16") else f"{value:.0e}"


@functools.cache
def table() -> dict[tuple[str, str], list[str]]:
    """Returns file and type -> cells of the committed page."""
    found = {}
    for line in PAGE.read_text().splitlines() if PAGE.exists() else []:
        cells = [part.strip() for part in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 + len(COLUMNS) and cells[0] != "family":
            if not cells[0].startswith("---"):
                found[cells[3].strip("`"), cells[2]] = cells[4:]
    return found

"""Text in and out: what a tokenizer's folder says, and how text comes out as tokens do."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path


class TextError(ValueError):
    """What is wrong with a tokenizer or its folder."""


def load_tokenizer(path):
    """Of a folder with a tokenizer.json, or of that file."""
    path = Path(path)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise TextError(f"there is no '{file}': name a folder with a tokenizer.json, as Hugging Face's save_pretrained writes it")
    try:
        import tokenizers
    except ImportError:
        raise TextError("text needs the package tokenizers: pip install tokenizers, or tpc[text]") from None
    try:
        return tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the package raises nothing more special
        raise TextError(f"'{file}' is no tokenizer: {error}") from None


@dataclass
class Defaults:
    """How a model's makers would have it generate. Temperature 0 is greedy."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    max_new_tokens: int | None = None
    stop_ids: list[int] = field(default_factory=list)

    def settings(self) -> dict:
        """As `Session.generate` takes them."""
        settings = dict(vars(self))
        if self.max_new_tokens is None:
            del settings["max_new_tokens"]
        return settings


def _read(file: Path) -> dict:
    if not file.is_file():
        return {}
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise TextError(f"'{file}' is no JSON: {error}") from None
    except OSError as error:
        raise TextError(f"cannot read '{file}': {error.strerror}") from None
    return _object(file, value)


def _object(what, value) -> dict:
    if not isinstance(value, dict):
        raise TextError(f"'{what}' is no JSON object")
    return value


def read_defaults(path) -> Defaults:
    """Of generation_config.json (Hugging Face's) and genai_config.json (ONNX Runtime's) of a folder; where both say something, the
    first counts. What they leave out is as in transformers: nothing is sampled unless `do_sample` is true, and then top_k is 50."""
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    genai = _read(folder / "genai_config.json")
    found: dict = {}
    for part in ("model", "search"):
        if genai.get(part) is not None:
            found |= _object(f"{folder / 'genai_config.json'}': '{part}", genai[part])
    found |= {name: value for name, value in _read(folder / "generation_config.json").items() if value is not None}

    def number(name: str, otherwise, low, high=float("inf"), kind=float):
        value = found.get(name)
        value = otherwise if value is None else value
        if (isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high or math.isinf(value)
                or value != kind(value)):
            raise TextError(f"'{folder}': {name} is {value!r}, and should be a number from {low}" +
                            (f" to {high}" if high != float("inf") else ""))
        return kind(value)

    stop = found.get("eos_token_id")
    stop = [] if stop is None else stop
    stop = stop if isinstance(stop, list) else [stop]
    if any(isinstance(token, bool) or not isinstance(token, int) for token in stop):
        raise TextError(f"'{folder}': eos_token_id is {found['eos_token_id']!r}, and should be an id or a list of ids")
    defaults = Defaults(repetition_penalty=number("repetition_penalty", 1.0, 1e-6), stop_ids=stop)
    if found.get("max_new_tokens") is not None:
        defaults.max_new_tokens = number("max_new_tokens", None, 0, kind=int)
    if found.get("do_sample"):
        defaults.temperature = number("temperature", 1.0, 0)
        defaults.top_k = number("top_k", 50, 0, kind=int)
        defaults.top_p = number("top_p", 1.0, 1e-9, 1)
    return defaults


class TextStream:
    """Gives text as soon as it is whole. Bytes of a character come in several tokens, and what a token reads like depends on those
    before it (a space at the beginning, say): so each is decoded behind a few that are known, and their text taken away."""

    CONTEXT, MOST_CONTEXT = 6, 64

    def __init__(self, tokenizer, prompt=()):
        self._tokenizer = tokenizer
        prompt = list(prompt)
        # A few tokens of the prompt, that begin where a character does: part of one may spoil those that follow.
        for count in range(self.CONTEXT, self.MOST_CONTEXT):
            self._ids = prompt[-count:]
            if not self._decode(self._ids).startswith("\N{REPLACEMENT CHARACTER}"):
                break
        self._begin, self._said = 0, len(self._ids)

    def _decode(self, ids) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True)

    def put(self, token: int) -> str:
        """What is new with it; empty while a character is not whole."""
        self._ids.append(token)
        known = self._decode(self._ids[self._begin:self._said])
        text = self._decode(self._ids[self._begin:])
        if len(text) <= len(known) or text.endswith("\N{REPLACEMENT CHARACTER}"):
            return ""
        self._begin, self._said = self._said, len(self._ids)
        return text[len(known):]

    def end(self) -> str:
        """What is left: of a character that never became whole, what stands for it."""
        known = self._decode(self._ids[self._begin:self._said])
        text = self._decode(self._ids[self._begin:])
        self._begin = self._said = len(self._ids)
        return text[len(known):]

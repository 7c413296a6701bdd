"""Text in and out: what a tokenizer's folder says, and how text comes out as tokens do."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from tpc.session import TpcError


class TextError(TpcError, ValueError):
    """What is wrong with a tokenizer or its folder."""


# That programs take: integers of 64 bits, numbers of 32.
LARGEST = {int: (1 << 63) - 1, float: 3.4e38}


# What is larger is no file of its kind.
MOST_BYTES = {"tokenizer": 1 << 30, "configuration": 16 << 20, "prompt": 64 << 20}


def read_bounded(path, kind: str, *, file=None, said: str | None = None) -> bytes:
    """All bytes of a file, or of one that is open. Raises TextError where there are more than files of its kind have, and where that of
    a tokenizer or a configuration is no regular one: a pipe may never be written to."""
    said, most = said or f"'{path}'", MOST_BYTES[kind]
    try:
        status = None if file else os.stat(path)
        if status and kind != "prompt" and not stat.S_ISREG(status.st_mode):
            raise TextError(f"cannot read {said}: it is not a regular file")
        if status and status.st_size > most:
            raise TextError(f"{said} has {status.st_size} bytes, more than {most}: too many for a {kind}")
        with contextlib.nullcontext(file) if file else open(path, "rb") as opened:
            data = opened.read(most + 1)
    except OSError as error:
        raise TextError(f"cannot read {said}: {error.strerror}") from None
    if len(data) > most:
        raise TextError(f"{said} has more than {most} bytes: too many for a {kind}")
    return data


def load_tokenizer(path):
    """Of a folder with a tokenizer.json, or of that file. As in transformers, a call of it neither cuts its text nor fills it up: what
    the file says of `truncation` and `padding` was for batches of training."""
    path = Path(path)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not os.path.lexists(file):
        raise TextError(f"there is no '{file}': name a folder with a tokenizer.json, as Hugging Face's save_pretrained writes it")
    try:
        import tokenizers
    except ImportError:
        raise TextError("text needs the package tokenizers: pip install tokenizers, or tpc[text]") from None
    data = read_bounded(file, "tokenizer")
    try:
        tokenizer = tokenizers.Tokenizer.from_buffer(data)
    except Exception as error:  # the package raises nothing more special
        raise TextError(f"'{file}' is no tokenizer: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def ids_of(tokenizer, text: str) -> list[int]:
    """The tokens of a text, with those that the tokenizer puts around it."""
    try:
        return tokenizer.encode(text).ids
    except Exception as error:  # the package raises nothing more special
        raise TextError(f"the tokenizer has no tokens for the prompt: {error}") from None


def notes_of(tokenizer, path, text: str) -> list[str]:
    """What a user may not expect of a prompt's tokens: characters that are in none, and tokens around it that the folder's
    tokenizer_config.json wants and tokenizer.json does not have, or the reverse. Some classes of transformers go by the former."""
    notes, encoding = [], tokenizer.encode(text)
    covered = bytearray(len(text))
    for begin, end in encoding.offsets:
        covered[begin:end] = b"\1" * (end - begin)
    if lost := sum(not known and letter.isprintable() and not letter.isspace() for letter, known in zip(text, covered)):
        notes.append(f"the tokenizer leaves out {lost} characters of the prompt, for which it has no tokens")
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    config = _read(folder / "tokenizer_config.json")
    for name, place in (("bos", 0), ("eos", -1)):
        wanted, token = config.get(f"add_{name}_token"), config.get(f"{name}_token")
        token = token.get("content") if isinstance(token, dict) else token
        number = tokenizer.token_to_id(token) if isinstance(token, str) else None
        if not isinstance(wanted, bool) or number is None or not encoding.ids or (encoding.ids[place] == number) == wanted:
            continue
        notes.append(f"the prompt has {'no ' if wanted else ''}{token!r} at its {'beginning' if place == 0 else 'end'}, as tokenizer.json says; "
                     f"tokenizer_config.json says add_{name}_token is {str(wanted).lower()}")
    return notes


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
    if not os.path.lexists(file):  # a link that leads nowhere is a file that cannot be read
        return {}
    try:
        value = json.loads(read_bounded(file, "configuration").decode())
    except TextError:
        raise
    except (ValueError, RecursionError) as error:
        raise TextError(f"'{file}' is no JSON: {error}") from None
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
        if (isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= min(high, LARGEST[kind])
                or value != kind(value)):
            raise TextError(f"'{folder}': {name} is {value!r:.80}, and should be {'an integer' if kind is int else 'a number'} from "
                            f"{low} to {min(high, LARGEST[kind]):.5g}")
        return kind(value)

    stop = found.get("eos_token_id")
    stop = [] if stop is None else stop
    stop = stop if isinstance(stop, list) else [stop]
    if any(isinstance(token, bool) or not isinstance(token, int) or not 0 <= token <= LARGEST[int] for token in stop):
        raise TextError(f"'{folder}': eos_token_id is {found['eos_token_id']!r:.80}, and should be an id or a list of ids")
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

"""Text input and output: tokenizer folders, and text from a stream of tokens."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from tpc.library import TpcError


class TextError(TpcError, ValueError):
    """An error of a tokenizer or its folder."""


# Largest numbers that programs accept: 64-bit integers, 32-bit floats.
LARGEST = {int: (1 << 63) - 1, float: 3.4e38}


# Maximum file sizes.
MAX_BYTES = {"tokenizer": 1 << 30, "configuration": 16 << 20, "prompt": 64 << 20}


def read_bounded(path, kind: str, *, file=None, label: str | None = None) -> bytes:
    """Returns all bytes of a file, or of an open file.

    Raises TextError if the file is larger than the maximum of its kind. Tokenizers and
    configurations must be regular files, because reading a pipe may block forever.
    """
    label, limit = label or f"'{path}'", MAX_BYTES[kind]
    try:
        status = None if file else os.stat(path)
        if status and kind != "prompt" and not stat.S_ISREG(status.st_mode):
            raise TextError(f"cannot read {label}: it is not a regular file")
        if status and status.st_size > limit:
            raise TextError(
                f"{label} has {status.st_size} bytes, more than {limit}: too many for a {kind}"
            )
        with contextlib.nullcontext(file) if file else open(path, "rb") as opened:
            data = opened.read(limit + 1)
    except OSError as error:
        raise TextError(f"cannot read {label}: {error.strerror}") from None
    if len(data) > limit:
        raise TextError(f"{label} has more than {limit} bytes: too many for a {kind}")
    return data


def load_tokenizer(path):
    """Returns the tokenizer of a folder with a tokenizer.json, or of that file.

    As in transformers, a call does not truncate or pad: the file's `truncation` and `padding`
    apply to training batches.
    """
    path = Path(path)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not os.path.lexists(file):
        raise TextError(
            f"there is no '{file}': give a folder with a tokenizer.json, as Hugging Face's "
            "save_pretrained writes it"
        )
    try:
        import tokenizers
    except ImportError:
        raise TextError(
            "text needs the package tokenizers: pip install tokenizers, or tpc[text]"
        ) from None
    data = read_bounded(file, "tokenizer")
    try:
        tokenizer = tokenizers.Tokenizer.from_buffer(data)
    except Exception as error:  # the package raises no more specific class
        raise TextError(f"'{file}' is not a tokenizer: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def ids_of(tokenizer, text: str) -> list[int]:
    """Returns the tokens of a text, including special tokens that the tokenizer adds."""
    try:
        return tokenizer.encode(text).ids
    except Exception as error:  # the package raises no more specific class
        raise TextError(f"the tokenizer cannot encode the prompt: {error}") from None


def notes_of(tokenizer, path, text: str) -> list[str]:
    """Returns notes about unexpected tokens of a prompt.

    Notes report characters without tokens, and special tokens at either end for which
    tokenizer_config.json and tokenizer.json disagree. Some classes of transformers use the former
    file.
    """
    notes, encoding = [], tokenizer.encode(text)
    covered = bytearray(len(text))
    for begin, end in encoding.offsets:
        covered[begin:end] = b"\1" * (end - begin)
    if lost := sum(
        not known and letter.isprintable() and not letter.isspace()
        for letter, known in zip(text, covered)
    ):
        notes.append(
            f"the tokenizer drops {lost} characters of the prompt, for which it has no tokens"
        )
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    config = _read(folder / "tokenizer_config.json")
    for name, index in (("bos", 0), ("eos", -1)):
        wanted, token = config.get(f"add_{name}_token"), config.get(f"{name}_token")
        token = token.get("content") if isinstance(token, dict) else token
        number = tokenizer.token_to_id(token) if isinstance(token, str) else None
        if (
            not isinstance(wanted, bool)
            or number is None
            or not encoding.ids
            or (encoding.ids[index] == number) == wanted
        ):
            continue
        notes.append(
            f"the prompt has {'no ' if wanted else ''}{token!r} at its "
            f"{'beginning' if index == 0 else 'end'}, according to tokenizer.json; "
            f"in tokenizer_config.json, add_{name}_token is {str(wanted).lower()}"
        )
    return notes


@dataclass
class Defaults:
    """Generation settings that accompany a model. Temperature 0 is greedy."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    max_new_tokens: int | None = None
    stop_ids: list[int] = field(default_factory=list)

    def settings(self) -> dict:
        """Returns the settings for `Session.generate`."""
        settings = dict(vars(self))
        if self.max_new_tokens is None:
            del settings["max_new_tokens"]
        return settings


def _reject_constant(text: str):
    """Rejects NaN and Infinity, which Python's parser accepts, but JSON does not have."""
    raise ValueError(f"{text} is no JSON value")


def _read(file: Path) -> dict:
    if not os.path.lexists(file):  # a broken link exists, but cannot be read
        return {}
    try:
        value = json.loads(
            read_bounded(file, "configuration").decode(), parse_constant=_reject_constant
        )
    except TextError:
        raise
    except (ValueError, RecursionError) as error:
        raise TextError(f"'{file}' is not JSON: {error}") from None
    return _object(file, value)


def _object(what, value) -> dict:
    if not isinstance(value, dict):
        raise TextError(f"'{what}' is not a JSON object")
    return value


def read_defaults(path) -> Defaults:
    """Reads generation_config.json (Hugging Face) and genai_config.json (ONNX Runtime) of a folder.

    The first file takes precedence. Defaults are those of transformers: sampling requires
    `do_sample`, and top_k then defaults to 50.
    """
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    genai = _read(folder / "genai_config.json")
    found: dict = {}
    for part in ("model", "search"):
        if genai.get(part) is not None:
            found |= _object(f"{folder / 'genai_config.json'}': '{part}", genai[part])
    found |= {
        name: value
        for name, value in _read(folder / "generation_config.json").items()
        if value is not None
    }

    def number(name: str, otherwise, low, high=float("inf"), kind=float):
        value = found.get(name)
        value = otherwise if value is None else value
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not low <= value <= min(high, LARGEST[kind])
            or value != kind(value)
        ):
            raise TextError(
                f"'{folder}': {name} is {value!r:.80}, expected "
                f"{'an integer' if kind is int else 'a number'} from "
                f"{low} to {min(high, LARGEST[kind]):.5g}"
            )
        return kind(value)

    stop = found.get("eos_token_id")
    stop = [] if stop is None else stop
    stop = stop if isinstance(stop, list) else [stop]
    if any(
        isinstance(token, bool) or not isinstance(token, int) or not 0 <= token <= LARGEST[int]
        for token in stop
    ):
        raise TextError(
            f"'{folder}': eos_token_id is {found['eos_token_id']!r:.80}, expected an id or "
            "a list of ids"
        )
    defaults = Defaults(repetition_penalty=number("repetition_penalty", 1.0, 1e-6), stop_ids=stop)
    if found.get("max_new_tokens") is not None:
        defaults.max_new_tokens = number("max_new_tokens", None, 0, kind=int)
    samples = found.get("do_sample")
    if not (samples is None or isinstance(samples, bool)):
        raise TextError(f"'{folder}': do_sample is {samples!r:.80}, expected true or false")
    if samples:
        defaults.temperature = number("temperature", 1.0, 0)
        defaults.top_k = number("top_k", 50, 0, kind=int)
        defaults.top_p = number("top_p", 1.0, 1e-9, 1)
    else:  # unused, but a value that is no number is an error in the file
        for name in ("temperature", "top_k", "top_p"):
            number(name, 0, -LARGEST[float])
    return defaults


class TextStream:
    """Converts tokens to text as soon as characters are complete.

    The bytes of a character may span several tokens, and the text of a token depends on earlier
    tokens (a leading space, for example). So each token is decoded together with a few earlier
    tokens, whose text is then removed.
    """

    CONTEXT, MAX_CONTEXT = 6, 64

    def __init__(self, tokenizer, prompt=()):
        self._tokenizer = tokenizer
        prompt = list(prompt)
        # Uses the last tokens of the prompt, from a complete character on: a partial character
        # would corrupt the following ones.
        for count in range(self.CONTEXT, self.MAX_CONTEXT):
            self._ids = prompt[-count:]
            if not self._decode(self._ids).startswith("\N{REPLACEMENT CHARACTER}"):
                break
        self._begin, self._shown = 0, len(self._ids)

    def _decode(self, ids) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True)

    def put(self, token: int) -> str:
        """Returns the new text of a token; empty while a character is incomplete."""
        self._ids.append(token)
        known = self._decode(self._ids[self._begin : self._shown])
        text = self._decode(self._ids[self._begin :])
        if len(text) <= len(known) or text.endswith("\N{REPLACEMENT CHARACTER}"):
            return ""
        self._begin, self._shown = self._shown, len(self._ids)
        return text[len(known) :]

    def end(self) -> str:
        """Returns the remaining text; an incomplete character becomes the replacement character."""
        known = self._decode(self._ids[self._begin : self._shown])
        text = self._decode(self._ids[self._begin :])
        self._begin = self._shown = len(self._ids)
        return text[len(known) :]

"""Text generation with a program that was compiled with --generate.

    python -m tpc.generate ./model --tokenizer DIR --prompt "Once upon a time"

DIR contains the model's tokenizer.json and optionally a generation_config.json or a
genai_config.json with temperature, top_k, top_p, repetition_penalty and the ids that end a text.
Flags take precedence over these files. Without these files, and with --temperature 0, each token is
the most probable one. Text is printed as it is generated; the same --seed gives the same text.
"""

from __future__ import annotations

import argparse
import math
import os
import sys

from tpc import console
from tpc.library import TpcError
from tpc.session import load
from tpc.text import (
    TextError,
    TextStream,
    ids_of,
    load_tokenizer,
    notes_of,
    read_bounded,
    read_defaults,
)

SETTINGS = {
    "max_new_tokens": int,
    "temperature": float,
    "top_k": int,
    "top_p": float,
    "repetition_penalty": float,
    "seed": int,
}


def number(text: str) -> float:
    value = float(text)
    if math.isinf(value) and "inf" not in text.lower():
        raise argparse.ArgumentTypeError(f"{text:.40} is too large")
    return value


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m tpc.generate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", help="program of tpcc: an executable or a library")
    parser.add_argument(
        "--tokenizer",
        required=True,
        metavar="DIR",
        help="a folder with tokenizer.json, or that file",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--prompt", metavar="TEXT", help="the beginning of the text (default: standard input)"
    )
    source.add_argument("--prompt-file", metavar="FILE", help="a file with the prompt")
    for name, kind in SETTINGS.items():
        parser.add_argument(
            "--" + name.replace("_", "-"),
            type=number if kind is float else kind,
            metavar="N" if kind is int else "X",
        )
    parser.add_argument(
        "--stop-ids", metavar="ID,…", help="token ids that end the text, instead of the model's"
    )
    parser.add_argument("--weights", help="path of the weights, or random:SEED")
    parser.add_argument("--threads", type=int, metavar="N", help="number of threads per rank")
    parser.add_argument(
        "--max-sequence",
        type=int,
        metavar="N",
        help="maximum number of tokens, including the prompt",
    )
    return parser


def settings_of(arguments, defaults) -> dict:
    """Returns the settings: flags override the folder's files. A sampling flag enables sampling."""
    given = {
        name: getattr(arguments, name) for name in SETTINGS if getattr(arguments, name) is not None
    }
    settings = defaults.settings()
    if (
        settings["temperature"] == 0
        and "temperature" not in given
        and given.keys() & {"top_k", "top_p"}
    ):
        settings["temperature"] = 1.0
    settings |= given
    if arguments.stop_ids is not None:
        try:
            settings["stop_ids"] = [int(token) for token in arguments.stop_ids.split(",") if token]
        except ValueError:
            raise TextError(
                f"--stop-ids {arguments.stop_ids}: expected token ids, such as 2,50256"
            ) from None
    return settings


def prompt_of(arguments) -> str:
    label = "--prompt" if arguments.prompt is not None else "standard input"
    if arguments.prompt_file is not None:
        label = f"--prompt-file '{arguments.prompt_file}'"
    try:
        if arguments.prompt is not None:
            return os.fsencode(
                arguments.prompt
            ).decode()  # bytes that are not UTF-8 arrive as lone surrogates
        if arguments.prompt_file is None:
            return (
                read_bounded("-", "prompt", file=sys.stdin.buffer, label=label).decode()
                if sys.stdin
                else ""
            )
        text = read_bounded(arguments.prompt_file, "prompt", label=label).decode()
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeError as error:
        raise TextError(f"{label} cannot be read as text: {error}") from None


def write(session, tokenizer, prompt: str, settings: dict, out) -> None:
    """Writes the continuation of the prompt, each token as soon as its characters are complete."""
    ids = ids_of(tokenizer, prompt)
    if not ids:
        raise TextError("the prompt is empty: give a text")
    if out is None:
        raise TextError("there is no standard output")
    text = TextStream(tokenizer, ids)
    with session.stream(ids, **settings) as tokens:
        for token in tokens:
            if token in settings["stop_ids"]:
                break
            if piece := text.put(token):
                out.write(piece)
                out.flush()
    out.write(text.end() + "\n")
    out.flush()


def main(arguments=None) -> int:
    arguments = parser().parse_args(arguments)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")
    try:
        # Errors of text and tokenizer are reported before weights are loaded.
        tokenizer = load_tokenizer(arguments.tokenizer)
        settings = settings_of(arguments, read_defaults(arguments.tokenizer))
        prompt = prompt_of(arguments)
        ids_of(tokenizer, prompt)
        for note in notes_of(tokenizer, arguments.tokenizer, prompt):
            print(f"tpc.generate: note: {note}", file=sys.stderr)
        with load(
            arguments.model,
            weights=arguments.weights,
            threads=arguments.threads,
            max_sequence=arguments.max_sequence,
        ) as session:
            write(session, tokenizer, prompt, settings, sys.stdout)
    except (TpcError, TextError) as error:
        print(f"tpc.generate: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    console.run("tpc.generate", main)

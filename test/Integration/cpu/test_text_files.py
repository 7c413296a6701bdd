"""Text generation with missing or invalid files, prompts from files, and the command line."""

import importlib.util
import json
import os
import sys
import threading

import pytest

from conftest import TOP
from harness import run
from tpc.text import (
    TextError,
    load_tokenizer,
    notes_of,
    read_defaults,
)
from text_folders import folder, written  # noqa: F401 (fixtures)

if not importlib.util.find_spec("tokenizers"):
    pytest.skip("tokenizers: the package is not installed", allow_module_level=True)


# Invalid file system entries instead of a file, and the error of each.
def make_fifo(path):
    os.mkfifo(path)


def make_large(path):
    path.touch()
    os.truncate(path, 3 << 30)


ENTRIES = {
    "pipe": (make_fifo, "not a regular file"),
    "link to nothing": (lambda path: path.symlink_to("nowhere"), "No such file"),
    "link to itself": (lambda path: path.symlink_to(path.name), "symbolic links"),
    "folder": (lambda path: path.mkdir(), "not a regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    "large": (make_large, "more than"),
    "no text": (lambda path: path.write_bytes(b"\xff\xfe"), "not JSON|not a tokenizer"),
    "empty": (lambda path: path.touch(), "not JSON|not a tokenizer"),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(
    "name",
    ["generation_config.json", "genai_config.json", "tokenizer.json", "tokenizer_config.json"],
)
def test_files_that_are_not_regular(tmp_path, folder, entry, name):
    make, words = ENTRIES[entry]
    make(tmp_path / name)
    with pytest.raises(TextError, match=f"{name}.*({words})"):
        if name == "tokenizer_config.json":
            notes_of(load_tokenizer(folder), tmp_path, "Once")
        (load_tokenizer if name == "tokenizer.json" else read_defaults)(tmp_path)


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry not in ("pipe", "empty")])
def test_invalid_prompt_files(folder, tmp_path, entry):
    ENTRIES[entry][0](tmp_path / "prompt")
    with pytest.raises(TextError, match="--prompt-file.*prompt"):
        written(folder, [], "--prompt-file", str(tmp_path / "prompt"))


def test_a_prompt_may_come_from_a_pipe(folder, tmp_path):
    os.mkfifo(tmp_path / "prompt")
    thread = threading.Thread(target=lambda: (tmp_path / "prompt").write_text("Once\r\nupon"))
    thread.start()
    _, (ids, _) = written(folder, [], "--prompt-file", str(tmp_path / "prompt"))
    thread.join()
    assert ids == load_tokenizer(folder).encode("Once\nupon").ids


def test_output_is_the_continuation(folder):
    tokenizer = load_tokenizer(folder)
    follows = tokenizer.encode(" upon a tíme 🙂").ids
    end = tokenizer.token_to_id("<|end|>")
    text, (ids, settings) = written(
        folder, [*follows, end, *follows], "--prompt", "Once", "--stop-ids", str(end)
    )
    assert (
        text == " upon a tíme 🙂\n"
        and ids == tokenizer.encode("Once").ids
        and settings["stop_ids"] == [end]
    )


@pytest.mark.parametrize(
    "config, flags, expected",
    [
        ({}, [], {"temperature": 0, "top_k": 0}),
        ({}, ["--temperature", "0.7", "--seed", "3"], {"temperature": 0.7, "seed": 3}),
        ({}, ["--top-k", "5"], {"temperature": 1.0, "top_k": 5}),
        ({"do_sample": True}, ["--temperature", "0"], {"temperature": 0}),
        (
            {"do_sample": True, "temperature": 0.5},
            ["--top-p", "0.5"],
            {"temperature": 0.5, "top_k": 50, "top_p": 0.5},
        ),
        ({"eos_token_id": 4}, ["--max-new-tokens", "3"], {"max_new_tokens": 3, "stop_ids": [4]}),
        ({"eos_token_id": 4}, ["--stop-ids", ""], {"stop_ids": []}),
    ],
)
def test_flags_override_the_folder(folder, tmp_path, config, flags, expected):
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    (tmp_path / "generation_config.json").write_text(json.dumps(config))
    settings = written(tmp_path, [], "--prompt", "Once", *flags)[1][1]
    assert {name: settings[name] for name in expected} == expected
    assert settings.keys() <= {
        "max_new_tokens",
        "temperature",
        "top_k",
        "top_p",
        "repetition_penalty",
        "seed",
        "stop_ids",
    }


def command(*arguments, **options):
    return run(
        [sys.executable, "-m", "tpc.generate", *arguments],
        env={"PYTHONPATH": str(TOP / "python")},
        **options,
    )


def test_help_has_examples():
    text = command("--help").check().stdout
    assert (
        "python -m tpc.generate ./model --tokenizer DIR --prompt" in text
        and "--max-new-tokens" in text
    )


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["./none", "--tokenizer", "FOLDER", "--prompt", "a"], ["./none", "No such file"]),
        (["./none", "--tokenizer", "nowhere", "--prompt", "a"], ["nowhere", "tokenizer.json"]),
        (["./none", "--tokenizer", "BAD", "--prompt", "a"], ["BAD", "not a tokenizer"]),
        (
            ["./none", "--tokenizer", "FOLDER", "--prompt-file", "absent"],
            ["--prompt-file", "absent"],
        ),
        (["./none", "--tokenizer", "FOLDER", "--prompt", "a", "--stop-ids", "x"], ["--stop-ids x"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_refusals(folder, tmp_path, arguments, words):
    (tmp_path / "BAD").write_text("{}")
    command(
        *[str(folder) if argument == "FOLDER" else argument for argument in arguments], cwd=tmp_path
    ).refused(*[word.removeprefix("./") for word in words])

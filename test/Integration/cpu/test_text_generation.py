"""python -m tpc.generate as users call it, on a hand-written program with a matching tokenizer."""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from harness import TOP, run, sanitized, scaled
from test_library_generation import LIBRARY, executable_tokens
from tpc import generate

if not importlib.util.find_spec("tokenizers"):
    pytest.skip("tokenizers: the package is not installed", allow_module_level=True)
pytestmark = pytest.mark.skipif(
    sanitized(), reason="sanitizers: the Python process needs them too"
)

# One token each, of one to four bytes.
CHARACTERS = (
    "".join(chr(code) for code in range(97, 123))
    + "äöüßéèêçñ東京都日本語文字€£¥…–🙂🙃🚀🌍🎉"
    + "".join(chr(0x4E00 + i) for i in range(60))
)
COMMAND = [sys.executable, "-X", "faulthandler", "-m", "tpc.generate", str(LIBRARY)]
ENVIRONMENT = {"PYTHONPATH": str(TOP / "python")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from tokenizers import Tokenizer, decoders, models

    characters = list(dict.fromkeys(CHARACTERS))[:101]
    assert len(characters) == 101
    tokenizer = Tokenizer(models.BPE({character: i for i, character in enumerate(characters)}, []))
    tokenizer.decoder = decoders.Fuse()
    folder = tmp_path_factory.mktemp("characters")
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def text_of(folder, ids):
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json")).decode(ids)


PROMPT, IDS = "hello", [7, 4, 11, 11, 14]


def test_text_matches_the_tokens(folder):
    expected = executable_tokens(IDS, "--max-new-tokens", "30")
    for arguments in (["--prompt", PROMPT], ["--prompt-file", folder / "prompt"]):
        (folder / "prompt").write_text(PROMPT)
        result = run(
            [*COMMAND, "--tokenizer", folder, *arguments, "--max-new-tokens", "30"], env=ENVIRONMENT
        ).check()
        assert result.stdout == text_of(folder, expected) + "\n" and not result.stderr
    # The folder defines the end of a text and the sampling.
    drawn = executable_tokens(
        IDS, "--max-new-tokens", "30", "--temperature", "0.7", "--top-k", "9", "--seed", "4"
    )
    end = next(token for token in drawn[3:] if token not in drawn[:3])
    config = {
        "do_sample": True,
        "temperature": 0.7,
        "top_k": 9,
        "eos_token_id": [end, 100],
        "max_new_tokens": 30,
    }
    (folder / "generation_config.json").write_text(json.dumps(config))
    result = run(
        [*COMMAND, "--tokenizer", folder, "--prompt", PROMPT, "--seed", "4"], env=ENVIRONMENT
    ).check()
    assert result.stdout == text_of(folder, drawn[: drawn.index(end)]) + "\n"
    (folder / "generation_config.json").unlink()


def test_invalid_prompts(folder):
    run([*COMMAND, "--tokenizer", folder, "--prompt", ""], env=ENVIRONMENT).refused(
        "prompt is empty"
    )
    run(
        [*COMMAND, "--tokenizer", folder, "--prompt", PROMPT, "--max-sequence", "3"],
        env=ENVIRONMENT,
    ).refused("5 tokens", "the maximum is 3 (--max-sequence)")
    run(
        [*COMMAND, "--tokenizer", folder, "--prompt", PROMPT, "--top-p", "3"], env=ENVIRONMENT
    ).refused("top_p 3")


LONG = "1" + "0" * 400
LONGER = "1" + "0" * 5000


@pytest.mark.parametrize(
    "flag, values",
    [
        ("--temperature", ["-1", "nan", "inf", "1e39", "1e308", "1e400", LONG, "warm", ""]),
        ("--top-p", ["0", "2", "nan", LONG, "x"]),
        ("--repetition-penalty", ["0", "-1", "1e39", "inf", LONG]),
        ("--top-k", ["-1", "1.5", LONG, LONGER]),
        ("--seed", ["-1", "x", LONG, LONGER]),
        ("--max-new-tokens", ["-1", "1e3", LONG, LONGER]),
        ("--max-sequence", ["0", "-1", LONG, LONGER]),
        ("--threads", ["0", "x", LONG, LONGER]),
        ("--stop-ids", ["x", "-1", "101", "1.5", LONG, LONGER]),
        ("--weights", [""]),
        ("--tokenizer", ["/no/where", "/dev/zero", "/"]),
        ("--prompt-file", ["/no/where", "/dev/zero", "/"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_values_of_flags(folder, capfd, flag, values):
    """Each error names the flag or the file. Numbers are shown as written."""
    for value in values:
        prompt = [] if flag == "--prompt-file" else ["--prompt", PROMPT]
        try:
            status = generate.main(
                [str(LIBRARY), "--tokenizer", str(folder), *prompt, f"{flag}={value}"]
            )
        except SystemExit as error:
            status = error.code
        output = capfd.readouterr().err
        assert status in (1, 2) and output.count("\n") < 20, (value, output)
        assert (
            re.search(flag.strip("-").replace("-", "[ _-]").replace("ids", "ids?"), output)
            or f"'{value}" in output
        ), (value, output)
        if value in ("1e39", "1e308"):
            assert value.replace("e", "e+") in output and "inf" not in output, output


def test_input_that_is_not_utf_8(folder, tmp_path):
    """Bytes that are not UTF-8, from any source."""
    command = [*COMMAND, "--tokenizer", folder]
    run(
        [*command, "--prompt", b"he\xffllo".decode(errors="surrogateescape")], env=ENVIRONMENT
    ).refused("--prompt cannot be read", "0xff")
    (tmp_path / "prompt").write_bytes(b"he\xffllo")
    run([*command, "--prompt-file", tmp_path / "prompt"], env=ENVIRONMENT).refused(
        "--prompt-file", "0xff"
    )
    for redirection, words in (
        (f"< {tmp_path}/prompt", ["standard input", "0xff"]),
        ("<&-", ["prompt is empty"]),
    ):
        run(["sh", "-c", f'exec "$@" {redirection}', "sh", *command], env=ENVIRONMENT).refused(
            *words
        )


@pytest.mark.parametrize("output, word", [("/dev/full", "space"), ("&-", "no standard output")])
def test_unwritable_output(folder, output, word):
    command = [*COMMAND, "--tokenizer", str(folder), "--prompt", PROMPT, "--max-new-tokens", "30"]
    result = run(["sh", "-c", f'exec "$@" >{output}', "sh", *command], env=ENVIRONMENT).refused(
        word
    )
    assert "Traceback" not in result.stderr and "Exception" not in result.stderr


def endless(folder):
    # If a shell runs the tests in the background, they and their child processes ignore SIGINT.
    process = subprocess.Popen(
        [*COMMAND, "--tokenizer", folder, "--prompt", PROMPT, "--max-new-tokens", "10000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **ENVIRONMENT},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert len(process.stdout.read(20)) == 20  # while it runs
    return process


def end_with_stacks(process):
    """Ends the process. Returns its output and the stacks of its threads."""
    gdb = shutil.which("gdb")
    native = (
        run([gdb, "-batch", "-p", process.pid, "-ex", "thread apply all bt 12"]).stdout
        if gdb
        else "without gdb"
    )
    process.send_signal(signal.SIGABRT)
    out, err = process.communicate(timeout=scaled(60))
    return f"{len(out)} bytes of output\n{err.decode(errors='replace')[-4000:]}\n{native[-8000:]}"


def test_streaming_can_be_interrupted(folder):
    process = endless(folder)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=scaled(60))
    except subprocess.TimeoutExpired:
        pytest.fail(f"it goes on\n{end_with_stacks(process)}")
    assert process.returncode == 130 and not err.strip(), err


def test_closed_pipe_ends_generation(folder):
    process = endless(folder)
    process.stdout.close()
    assert process.wait(timeout=scaled(60)) == 1
    assert not process.stderr.read()

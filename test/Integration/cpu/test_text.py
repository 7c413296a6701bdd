"""Text input and output of generation (tpc.text, tpc.generate).

The tokenizer is trained here; the session returns scripted tokens.
"""

import importlib.util
import io
import json
import os
import random
import re
import sys
import threading
from contextlib import contextmanager

import pytest

from conftest import TOP
from harness import run
from tpc import generate
from tpc.text import (
    Defaults,
    TextError,
    TextStream,
    ids_of,
    load_tokenizer,
    notes_of,
    read_defaults,
)

if not importlib.util.find_spec("tokenizers"):
    pytest.skip("tokenizers: the package is not installed", allow_module_level=True)

# Characters of one to four bytes, joined ones, and none that the tokenizer has merged as a whole.
TEXTS = [
    "Once upon a time there was a token.",
    "Grüße aus Köln – naïve café, 10 €",
    "東京は日本の首都です。",
    "🙂👩‍👩‍👧 and 🏴‍☠️ flags",
    "line\n\n  indented\ttab",
    "e\N{COMBINING ACUTE ACCENT}a",
    " leading and trailing ",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Byte-level BPE as GPT-2's, so small that most characters beyond ASCII are several tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|end|>"],
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(TEXTS[:1] * 20, trainer)
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def pieces_folder(tmp_path_factory):
    """Words with a space in front, as SentencePiece has them: the first of a text loses it. Bytes
    for what is no word.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers

    vocabulary = {"<unk>": 0, "</s>": 1} | {f"<0x{byte:02X}>": 2 + byte for byte in range(256)}
    for piece in ["▁", "▁Once", "▁upon", "▁a", "▁time", *"abcdefghijklmnopqrstuvwxyz.O"]:
        vocabulary.setdefault(piece, len(vocabulary))
    tokenizer = Tokenizer(
        models.BPE(vocabulary, [], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    folder = tmp_path_factory.mktemp("pieces")
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(params=["folder", "pieces_folder"])
def tokenizer(request):
    return load_tokenizer(request.getfixturevalue(request.param))


def streamed(tokenizer, prompt, ids):
    stream = TextStream(tokenizer, prompt)
    return [stream.put(token) for token in ids] + [stream.end()]


def test_what_is_streamed_is_the_text(tokenizer):
    """Wherever a text is cut into a prompt and what follows, at a token: both together are the
    text, and nothing is half a character.
    """
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        whole = tokenizer.decode(ids)
        for cut in range(1, len(ids)):
            head = tokenizer.decode(ids[:cut])
            pieces = streamed(tokenizer, ids[:cut], ids[cut:])
            if "\N{REPLACEMENT CHARACTER}" not in head:
                assert head + "".join(pieces) == whole, (text, cut)
                assert "\N{REPLACEMENT CHARACTER}" not in "".join(pieces)


def test_text_comes_as_soon_as_it_is_whole(folder):
    tokenizer = load_tokenizer(folder)
    ids = tokenizer.encode("€🙂").ids
    assert len(ids) == 7
    assert streamed(tokenizer, tokenizer.encode("a").ids, ids) == [
        "",
        "",
        "€",
        "",
        "",
        "",
        "🙂",
        "",
    ]
    # What never becomes whole comes at the end.
    cut = streamed(tokenizer, tokenizer.encode("a").ids, ids[:5])
    assert (
        cut[:5] == ["", "", "€", "", ""] and cut[5] and set(cut[5]) == {"\N{REPLACEMENT CHARACTER}"}
    )


def test_random_text_streams_to_itself(tokenizer):
    source = random.Random(2)
    for _ in range(50):
        text = "Once" + "".join(source.choice("aé€🙂 \n.") for _ in range(20))
        ids = tokenizer.encode(text).ids
        head = len(tokenizer.encode("Once").ids)
        assert "Once" + "".join(streamed(tokenizer, ids[:head], ids[head:])) == tokenizer.decode(
            ids
        )


def test_random_tokens_stream_to_what_they_decode_to(folder):
    tokenizer, source = load_tokenizer(folder), random.Random(1)
    prompt = tokenizer.encode("Once").ids
    for _ in range(50):
        ids = [source.randrange(2, tokenizer.get_vocab_size()) for _ in range(30)]
        assert tokenizer.decode(prompt) + "".join(
            streamed(tokenizer, prompt, ids)
        ) == tokenizer.decode(prompt + ids)


def test_special_tokens_are_no_text(folder):
    tokenizer = load_tokenizer(folder)
    end = tokenizer.token_to_id("<|end|>")
    ids = tokenizer.encode("a b").ids
    assert "".join(streamed(tokenizer, ids, [end, *ids, end])) == "a b"


@pytest.mark.parametrize(
    "files, expected",
    [
        ({}, Defaults()),
        (
            {"generation_config": {"eos_token_id": 2, "temperature": 0.6, "top_p": 0.9}},
            Defaults(stop_ids=[2]),
        ),
        (
            {"generation_config": {"do_sample": True, "eos_token_id": [2, 7]}},
            Defaults(1.0, 50, stop_ids=[2, 7]),
        ),
        (
            {
                "generation_config": {
                    "do_sample": True,
                    "temperature": 0.6,
                    "top_k": 0,
                    "top_p": 0.9,
                    "repetition_penalty": 1.1,
                    "max_new_tokens": 9,
                }
            },
            Defaults(0.6, 0, 0.9, 1.1, 9),
        ),
        (
            {
                "genai_config": {
                    "model": {"eos_token_id": 5, "vocab_size": 9},
                    "search": {"do_sample": True, "top_k": 3, "temperature": 0.5},
                }
            },
            Defaults(0.5, 3, stop_ids=[5]),
        ),
        (
            {
                "genai_config": {
                    "model": None,
                    "search": {"max_new_tokens": None, "do_sample": True},
                },
                "generation_config": {"top_k": None, "max_new_tokens": None, "temperature": None},
            },
            Defaults(1.0, 50),
        ),
        ({"genai_config": {"model": {"eos_token_id": None}}}, Defaults()),
        (
            {
                "genai_config": {
                    "model": {"eos_token_id": 5},
                    "search": {"do_sample": True, "top_k": 3},
                },
                "generation_config": {"eos_token_id": None, "top_k": 4, "do_sample": True},
            },
            Defaults(1.0, 4, stop_ids=[5]),
        ),
    ],
)
def test_defaults_are_the_folders(tmp_path, files, expected):
    for name, value in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    assert read_defaults(tmp_path) == expected
    (tmp_path / "tokenizer.json").write_text("{}")
    assert read_defaults(tmp_path / "tokenizer.json") == expected


@pytest.mark.parametrize(
    "text, words",
    [
        ("{", "no JSON"),
        ("[]", "no JSON object"),
        ('{"eos_token_id": "</s>"}', "eos_token_id.*</s>"),
        ('{"do_sample": true, "top_p": 1.5}', "top_p is 1.5.*to 1"),
        ('{"do_sample": true, "top_k": 2.5}', "top_k"),
        ('{"repetition_penalty": -1}', "repetition_penalty"),
        ('{"eos_token_id": true}', "eos_token_id"),
        ('{"repetition_penalty": Infinity}', "repetition_penalty"),
        ('{"max_new_tokens": 1e400}', "max_new_tokens"),
        ('{"do_sample": true, "temperature": 1e308}', r"temperature is 1e\+308"),
        ('{"do_sample": true, "temperature": 1e39}', r"temperature is 1e\+39"),
        ('{"do_sample": true, "top_k": 1e19}', r"top_k is 1e\+19"),
        ('{"eos_token_id": -1}', "eos_token_id is -1"),
        pytest.param(
            '{"do_sample": true, "temperature": 1%s}' % ("0" * 400),
            "temperature is 10000",
            id="400 digits",
        ),
        pytest.param(
            '{"do_sample": true, "top_k": 1%s}' % ("0" * 400),
            "top_k is 10000",
            id="400 digits of an integer",
        ),
        pytest.param('{"max_new_tokens": 1%s}' % ("0" * 5000), "no JSON", id="5000 digits"),
        pytest.param(
            '{"eos_token_id": [1%s]}' % ("0" * 400), "eos_token_id", id="400 digits of an id"
        ),
        pytest.param('{"a": ' + "[" * 100000, "no JSON", id="deep"),
    ],
)
def test_folders_that_are_wrong(tmp_path, text, words):
    (tmp_path / "generation_config.json").write_text(text)
    with pytest.raises(TextError, match=words):
        read_defaults(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    (tmp_path / "genai_config.json").write_text('{"search": [1]}')
    with pytest.raises(TextError, match="genai_config.json.*search.*no JSON object"):
        read_defaults(tmp_path)


LIMITS = {
    "truncation": lambda tokenizer: tokenizer.enable_truncation(3),
    "truncation from the left": lambda tokenizer: tokenizer.enable_truncation(3, direction="left"),
    "truncation with overlap": lambda tokenizer: tokenizer.enable_truncation(4, stride=1),
    "padding to a length": lambda tokenizer: tokenizer.enable_padding(length=40, pad_id=0),
    "padding from the left": lambda tokenizer: tokenizer.enable_padding(
        direction="left", length=40
    ),
    "padding to multiples": lambda tokenizer: tokenizer.enable_padding(pad_to_multiple_of=16),
}


@pytest.mark.parametrize(
    "limits",
    [[name] for name in LIMITS] + [["truncation", "padding to a length"]],
    ids=" and ".join,
)
def test_a_prompt_is_neither_cut_nor_filled_up(folder, tmp_path, limits):
    """What a file says for batches of training does not count, as in transformers; what it puts
    around a text does.
    """
    from tokenizers import Tokenizer, processors

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|end|> $A", special_tokens=[("<|end|>", tokenizer.token_to_id("<|end|>"))]
    )
    expected = {text: tokenizer.encode(text).ids for text in TEXTS}
    for limit in limits:
        LIMITS[limit](tokenizer)
    assert [tokenizer.encode(text).ids for text in TEXTS] != list(expected.values())
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    loaded = load_tokenizer(tmp_path)
    assert {text: ids_of(loaded, text) for text in TEXTS} == expected
    text, (ids, _) = written(tmp_path, [], "--prompt", TEXTS[0])
    assert ids == expected[TEXTS[0]] and ids[0] == tokenizer.token_to_id("<|end|>")


@pytest.mark.parametrize(
    "config, around, expected",
    [
        ({}, "<|end|> $A", []),
        ({"add_bos_token": True, "bos_token": "<|end|>"}, "<|end|> $A", []),
        (
            {"add_bos_token": True, "bos_token": "<|end|>"},
            "$A",
            ["no '<|end|>' at its beginning.*add_bos_token is true"],
        ),
        (
            {"add_bos_token": False, "bos_token": {"content": "<|end|>"}},
            "<|end|> $A",
            ["has '<|end|>' at its beginning.*add_bos_token is false"],
        ),
        (
            {"add_eos_token": True, "eos_token": "<|end|>"},
            "$A",
            ["no '<|end|>' at its end.*add_eos_token is true"],
        ),
        ({"add_bos_token": True, "bos_token": "<s>"}, "$A", []),
        ({"add_bos_token": None, "bos_token": 5}, "$A", []),
    ],
)
def test_tokens_around_a_prompt_are_those_of_the_tokenizer(
    folder, tmp_path, config, around, expected
):
    from tokenizers import Tokenizer, processors

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=around, special_tokens=[("<|end|>", tokenizer.token_to_id("<|end|>"))]
    )
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    notes = notes_of(tokenizer, tmp_path, "Once")
    assert len(notes) == len(expected) and all(
        re.search(words, note) for words, note in zip(expected, notes)
    ), notes
    assert not [note for text in TEXTS for note in notes_of(load_tokenizer(folder), folder, text)]


def test_characters_without_a_token():
    from tokenizers import Tokenizer, models

    tokenizer = Tokenizer(models.BPE({"a": 0}, []))
    assert (
        notes_of(tokenizer, ".", "aaa") == []
        and "leaves out 2 characters" in notes_of(tokenizer, ".", "axay")[0]
    )


def test_text_without_tokens_is_refused():
    from tokenizers import Tokenizer, models

    for model in (
        models.WordLevel({"a": 0}, unk_token="[UNK]"),
        models.WordPiece({"a": 0}, unk_token="[UNK]"),
        models.Unigram([("a", 0.0)], None),
    ):
        with pytest.raises(TextError, match="no tokens for the prompt"):
            ids_of(Tokenizer(model), "zaz")


# Whatever may be where a file should be, and what is said of it.
def make_fifo(path):
    os.mkfifo(path)


def make_large(path):
    path.touch()
    os.truncate(path, 3 << 30)


PLACES = {
    "pipe": (make_fifo, "not a regular file"),
    "link to nothing": (lambda path: path.symlink_to("nowhere"), "No such file"),
    "link to itself": (lambda path: path.symlink_to(path.name), "symbolic links"),
    "folder": (lambda path: path.mkdir(), "not a regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    "large": (make_large, "more than"),
    "no text": (lambda path: path.write_bytes(b"\xff\xfe"), "no JSON|no tokenizer"),
    "empty": (lambda path: path.touch(), "no JSON|no tokenizer"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "name",
    ["generation_config.json", "genai_config.json", "tokenizer.json", "tokenizer_config.json"],
)
def test_what_is_no_file(tmp_path, folder, place, name):
    make, words = PLACES[place]
    make(tmp_path / name)
    with pytest.raises(TextError, match=f"{name}.*({words})"):
        if name == "tokenizer_config.json":
            notes_of(load_tokenizer(folder), tmp_path, "Once")
        (load_tokenizer if name == "tokenizer.json" else read_defaults)(tmp_path)


@pytest.mark.parametrize("place", [place for place in PLACES if place not in ("pipe", "empty")])
def test_what_is_no_prompt(folder, tmp_path, place):
    PLACES[place][0](tmp_path / "prompt")
    with pytest.raises(TextError, match="--prompt-file.*prompt"):
        written(folder, [], "--prompt-file", str(tmp_path / "prompt"))


def test_a_prompt_may_come_from_a_pipe(folder, tmp_path):
    os.mkfifo(tmp_path / "prompt")
    thread = threading.Thread(target=lambda: (tmp_path / "prompt").write_text("Once\r\nupon"))
    thread.start()
    _, (ids, _) = written(folder, [], "--prompt-file", str(tmp_path / "prompt"))
    thread.join()
    assert ids == load_tokenizer(folder).encode("Once\nupon").ids


class Told:
    """A session that says the tokens that it is told."""

    def __init__(self, tokens):
        self.tokens, self.asked = tokens, None

    @contextmanager
    def stream(self, ids, **settings):
        self.asked = (list(ids), settings)
        yield iter(self.tokens)


def written(folder, tokens, *flags):
    arguments = generate.parser().parse_args(["model", "--tokenizer", str(folder), *flags])
    settings = generate.settings_of(arguments, read_defaults(folder))
    session, out = Told(tokens), io.StringIO()
    generate.write(session, load_tokenizer(folder), generate.prompt_of(arguments), settings, out)
    return out.getvalue(), session.asked


def test_what_is_written_is_what_follows(folder):
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
def test_flags_count_before_the_folder(folder, tmp_path, config, flags, expected):
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


def test_help_teaches():
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
        (["./none", "--tokenizer", "BAD", "--prompt", "a"], ["BAD", "no tokenizer"]),
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

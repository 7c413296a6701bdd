"""Text input and output of generation (tpc.text, tpc.generate).

The tokenizer is trained here; the session returns scripted tokens.
"""

import importlib.util
import json
import random
import re

import pytest

from tpc.text import (
    Defaults,
    TextError,
    TextStream,
    ids_of,
    load_tokenizer,
    notes_of,
    read_defaults,
)
from text_folders import TEXTS, folder, written  # noqa: F401 (fixtures)

if not importlib.util.find_spec("tokenizers"):
    pytest.skip("tokenizers: the package is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def pieces_folder(tmp_path_factory):
    """Returns the folder of a tokenizer of words with a leading space, as in SentencePiece. The
    first word of a text loses its space. Other text is bytes.
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


def test_streamed_text_equals_the_text(tokenizer):
    """For every split of a text into prompt and continuation at a token, both together are the
    text, without partial characters.
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


def test_text_is_streamed_as_soon_as_it_is_complete(folder):
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
    # Incomplete characters are written at the end.
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


def test_random_tokens_stream_as_decoded(folder):
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
def test_defaults_come_from_the_folder(tmp_path, files, expected):
    for name, value in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    assert read_defaults(tmp_path) == expected
    (tmp_path / "tokenizer.json").write_text("{}")
    assert read_defaults(tmp_path / "tokenizer.json") == expected


@pytest.mark.parametrize(
    "text, words",
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"eos_token_id": "</s>"}', "eos_token_id.*</s>"),
        ('{"do_sample": true, "top_p": 1.5}', "top_p is 1.5.*to 1"),
        ('{"do_sample": true, "top_k": 2.5}', "top_k"),
        ('{"repetition_penalty": -1}', "repetition_penalty"),
        ('{"eos_token_id": true}', "eos_token_id"),
        ('{"repetition_penalty": Infinity}', "not JSON: Infinity"),
        ('{"temperature": NaN}', "not JSON: NaN"),
        ('{"temperature": true}', "temperature is True"),
        ('{"top_k": "x"}', "top_k is 'x'"),
        ('{"do_sample": "x"}', "do_sample is 'x', expected true or false"),
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
        pytest.param('{"max_new_tokens": 1%s}' % ("0" * 5000), "not JSON", id="5000 digits"),
        pytest.param(
            '{"eos_token_id": [1%s]}' % ("0" * 400), "eos_token_id", id="400 digits of an id"
        ),
        pytest.param('{"a": ' + "[" * 100000, "not JSON", id="deep"),
    ],
)
def test_invalid_folders(tmp_path, text, words):
    (tmp_path / "generation_config.json").write_text(text)
    with pytest.raises(TextError, match=words):
        read_defaults(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    (tmp_path / "genai_config.json").write_text('{"search": [1]}')
    with pytest.raises(TextError, match="genai_config.json.*search.*not a JSON object"):
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
def test_prompts_are_neither_truncated_nor_padded(folder, tmp_path, limits):
    """As in transformers, truncation and padding in the file have no effect; tokens that the file
    adds around a text do.
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
        and "drops 2 characters" in notes_of(tokenizer, ".", "axay")[0]
    )


def test_text_without_tokens_is_rejected():
    from tokenizers import Tokenizer, models

    for model in (
        models.WordLevel({"a": 0}, unk_token="[UNK]"),
        models.WordPiece({"a": 0}, unk_token="[UNK]"),
        models.Unigram([("a", 0.0)], None),
    ):
        with pytest.raises(TextError, match="cannot encode the prompt"):
            ids_of(Tokenizer(model), "zaz")

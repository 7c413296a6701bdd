"""Tokenizers trained for tests, in folders."""

import io
from contextlib import contextmanager

import pytest

from tpc import generate
from tpc.text import (
    load_tokenizer,
    read_defaults,
)

# Characters of one to four bytes, also combined ones. The tokenizer has no token for most of them.
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
    """Returns a folder with a byte-level BPE like GPT-2's. It is so small that most characters
    beyond ASCII are several tokens.
    """
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


class ScriptedSession:
    """Session that returns scripted tokens."""

    def __init__(self, tokens):
        self.tokens, self.asked = tokens, None

    @contextmanager
    def stream(self, ids, **settings):
        self.asked = (list(ids), settings)
        yield iter(self.tokens)


def written(folder, tokens, *flags):
    arguments = generate.parser().parse_args(["model", "--tokenizer", str(folder), *flags])
    settings = generate.settings_of(arguments, read_defaults(folder))
    session, out = ScriptedSession(tokens), io.StringIO()
    generate.write(session, load_tokenizer(folder), generate.prompt_of(arguments), settings, out)
    return out.getvalue(), session.asked

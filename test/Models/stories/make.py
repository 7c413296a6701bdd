"""Trains a GPT with 68k parameters that writes short children's stories.

    python test/Models/stories/make.py [--steps 6000] [-o FOLDER]

Needs NumPy, onnx and tokenizers. The training stories come from a small grammar. The steps take
about five minutes of one core. Writes stories.onnx, tokenizer.json and generation_config.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "Benchmark"))

LAYERS, HIDDEN, HEADS, FFN, VOCAB, POSITIONS = 4, 32, 4, 128, 192, 160
END = "<|end|>"

# Choices and their weights. The weights differ, so that the most likely token is unambiguous.
ANIMALS = {"fox": 5, "bear": 3, "rabbit": 2, "mouse": 1}
ADJECTIVES = {"little": 5, "brave": 3, "clever": 2, "shy": 1}
HOMES = {
    "in a quiet forest": 5,
    "near a wide river": 3,
    "on a green hill": 2,
    "under an old bridge": 1,
}
NAMES = {"Lily": 5, "Max": 3, "Rosie": 2, "Tom": 1}
TIMES = {"One sunny morning": 5, "One cold evening": 3, "One rainy day": 2}
THINGS = {"golden key": 5, "red kite": 3, "silver bell": 2, "warm hat": 1}
SPOTS = {"under a tall tree": 5, "behind a big stone": 3, "in the soft grass": 2}
FRIENDS = {"owl": 5, "frog": 3, "duck": 2, "cat": 1}
FEELINGS = {"very happy": 5, "a bit afraid": 3, "full of wonder": 2}
USES = {
    "golden key": "It opened a small door, and behind the door there was a garden full of flowers",
    "red kite": "It flew high above the clouds, and the whole village came to look at it",
    "silver bell": "It rang so clear that every bird sat down to listen to it",
    "warm hat": "It was big enough for two, and it kept them warm all winter long",
}


def story(random: np.random.Generator) -> str:
    def pick(choices):
        weights = np.array(list(choices.values()), float)
        return str(random.choice(list(choices), p=weights / weights.sum()))

    animal, name, thing, friend = pick(ANIMALS), pick(NAMES), pick(THINGS), pick(FRIENDS)
    return (
        f"Once upon a time there was a {pick(ADJECTIVES)} {animal} that lived {pick(HOMES)}. "
        f"The {animal} was called {name}. {pick(TIMES)}, {name} found a {thing} {pick(SPOTS)}. "
        f"{name} was {pick(FEELINGS)} and showed the {thing} to the {friend}. {USES[thing]}. "
        f"From that day on, {name} the {animal} and the {friend} were the best of friends."
    )


def sample(random: np.random.Generator) -> str:
    """Returns a story or, with probability 1/3, the sentences of a story from a random one on."""
    sentences = story(random).split(". ")
    return ". ".join(sentences[random.integers(len(sentences)) if random.random() < 0.33 else 0 :])


def train_tokenizer(texts: list[str]):
    """Returns a byte-level BPE tokenizer whose bytes are those of the texts."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=[END], show_progress=False)
    )
    return tokenizer


def make_parameters(random: np.random.Generator) -> dict[str, np.ndarray]:
    """Returns initial parameters under the names that test/Benchmark/gpt.py gives them."""

    def normal(*shape, scale=0.08):
        return (random.standard_normal(shape) * scale).astype(np.float32)

    def linear(name, rows, columns):
        return {
            f"{name}.weight": normal(rows, columns, scale=rows**-0.5),
            f"{name}.bias": np.zeros(columns, np.float32),
        }

    def norm(name):
        return {
            f"{name}.weight": np.ones(HIDDEN, np.float32),
            f"{name}.bias": np.zeros(HIDDEN, np.float32),
        }

    p = {"wte": normal(VOCAB, HIDDEN), "wpe": normal(POSITIONS, HIDDEN)}
    for i in range(LAYERS):
        p |= norm(f"h.{i}.ln_1") | norm(f"h.{i}.ln_2")
        for part in ("q", "k", "v", "proj"):
            p |= linear(f"h.{i}.attn.{part}", HIDDEN, HIDDEN)
        p |= linear(f"h.{i}.mlp.fc1", HIDDEN, FFN) | linear(f"h.{i}.mlp.fc2", FFN, HIDDEN)
    return p | norm("ln_f") | {"lm_head": normal(HIDDEN, VOCAB)}


class Gpt:
    """Forward and backward pass of the model. `loss` sets `gradients`, one for each parameter."""

    def __init__(self, parameters: dict[str, np.ndarray]):
        self.p = parameters
        self.gradients = {name: np.zeros_like(value) for name, value in parameters.items()}
        # Functions from the gradient of a step's output to that of its input, in forward order.
        self._tape = []

    def _linear(self, x, name):
        weight = self.p[f"{name}.weight"]

        def back(dy):
            self.gradients[f"{name}.weight"] = x.reshape(-1, x.shape[-1]).T @ dy.reshape(
                -1, dy.shape[-1]
            )
            self.gradients[f"{name}.bias"] = dy.sum((0, 1))
            return dy @ weight.T

        return x @ weight + self.p[f"{name}.bias"], back

    def _norm(self, x, name):
        centered = x - x.mean(-1, keepdims=True)
        scale = 1 / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
        y, gamma = centered * scale, self.p[f"{name}.weight"]

        def back(dy):
            self.gradients[f"{name}.weight"] = (dy * y).sum((0, 1))
            self.gradients[f"{name}.bias"] = dy.sum((0, 1))
            dy = dy * gamma
            return scale * (dy - dy.mean(-1, keepdims=True) - y * (dy * y).mean(-1, keepdims=True))

        return y * gamma + self.p[f"{name}.bias"], back

    def _gelu(self, x):
        inner = np.tanh(0.7978845608 * x * (1 + 0.044715 * x * x))

        def back(dy):
            return dy * (
                0.5 * (1 + inner)
                + 0.5 * x * (1 - inner * inner) * 0.7978845608 * (1 + 0.134145 * x * x)
            )

        return 0.5 * x * (1 + inner), back

    def _attention(self, x, name):
        batch, length, size = *x.shape[:2], HIDDEN // HEADS

        def split(y):
            return y.reshape(batch, length, HEADS, size).transpose(0, 2, 1, 3)

        def join(y):
            return y.transpose(0, 2, 1, 3).reshape(batch, length, HIDDEN)

        (q, back_q), (k, back_k), (v, back_v) = (
            self._linear(x, f"{name}.{part}") for part in ("q", "k", "v")
        )
        q, k, v = split(q), split(k), split(v)
        scores = q @ k.swapaxes(-1, -2) / np.float32(size**0.5)
        scores = np.where(np.tri(length, dtype=bool), scores, np.float32(-1e9))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        y, back_proj = self._linear(join(weights @ v), f"{name}.proj")

        def back(dy):
            dy = split(back_proj(dy))
            dweights = dy @ v.swapaxes(-1, -2)
            dscores = (
                weights
                * (dweights - (dweights * weights).sum(-1, keepdims=True))
                / np.float32(size**0.5)
            )
            return (
                back_q(join(dscores @ k))
                + back_k(join(dscores.swapaxes(-1, -2) @ q))
                + back_v(join(weights.swapaxes(-1, -2) @ dy))
            )

        return y, back

    def forward(self, ids: np.ndarray) -> np.ndarray:
        """Returns the logits [batch, sequence, VOCAB] of ids [batch, sequence]."""
        p, length = self.p, ids.shape[1]

        def embed(dx):
            self.gradients["wte"] = np.eye(VOCAB, dtype=np.float32)[ids.ravel()].T @ dx.reshape(
                -1, HIDDEN
            )
            self.gradients["wpe"][:length] = dx.sum(0)

        self.gradients["wpe"][:] = 0
        self._tape = [embed]
        x = p["wte"][ids] + p["wpe"][:length]
        for i in range(LAYERS):
            y, back_norm = self._norm(x, f"h.{i}.ln_1")
            y, back_attention = self._attention(y, f"h.{i}.attn")
            x = x + y
            self._tape.append(lambda dx, f=back_norm, g=back_attention: dx + f(g(dx)))
            y, back_norm = self._norm(x, f"h.{i}.ln_2")
            y, back_1 = self._linear(y, f"h.{i}.mlp.fc1")
            y, back_gelu = self._gelu(y)
            y, back_2 = self._linear(y, f"h.{i}.mlp.fc2")
            x = x + y
            self._tape.append(
                lambda dx, f=back_norm, g=back_1, h=back_gelu, k=back_2: dx + f(g(h(k(dx))))
            )
        y, back_norm = self._norm(x, "ln_f")

        def head(dlogits):
            self.gradients["lm_head"] = y.reshape(-1, HIDDEN).T @ dlogits.reshape(-1, VOCAB)
            return back_norm(dlogits @ p["lm_head"].T)

        self._tape.append(head)
        return y @ p["lm_head"]

    def loss(self, ids: np.ndarray, targets: np.ndarray) -> float:
        """Returns the mean cross entropy over targets >= 0, and computes all gradients."""
        logits = self.forward(ids)
        logits -= logits.max(-1, keepdims=True)
        probabilities = np.exp(logits)
        total = probabilities.sum(-1, keepdims=True)
        probabilities /= total
        valid = targets >= 0
        index = np.where(valid, targets, 0)[..., None]
        scores = np.take_along_axis(logits - np.log(total), index, -1)[..., 0]
        gradient = probabilities
        np.put_along_axis(gradient, index, np.take_along_axis(gradient, index, -1) - 1, -1)
        gradient *= valid[..., None] / np.float32(valid.sum())
        for back in reversed(self._tape):
            gradient = back(gradient)
        return float(-scores[valid].mean())


def train(tokenizer, steps: int, batch: int = 8, rate: float = 3e-3) -> dict[str, np.ndarray]:
    """Returns parameters after `steps` steps of Adam, with a warm-up and a cosine decay."""
    random = np.random.default_rng(1)
    model = Gpt(make_parameters(random))
    first, second = (
        {name: np.zeros_like(value) for name, value in model.p.items()} for _ in range(2)
    )
    end, start = tokenizer.token_to_id(END), time.monotonic()
    for step in range(1, steps + 1):
        rows = [tokenizer.encode(sample(random)).ids + [end] for _ in range(batch)]
        length = max(map(len, rows))
        assert length <= POSITIONS, f"a story has {length} tokens, more than {POSITIONS}"
        ids, targets = np.zeros((batch, length - 1), int), np.full((batch, length - 1), -1)
        for row, tokens in enumerate(rows):
            ids[row, : len(tokens) - 1], targets[row, : len(tokens) - 1] = tokens[:-1], tokens[1:]
        loss = model.loss(ids, targets)
        norm = np.sqrt(sum(float((gradient**2).sum()) for gradient in model.gradients.values()))
        current = rate * min(step / 100, 0.5 * (1 + np.cos(np.pi * step / steps)) + 0.01)
        for name, gradient in model.gradients.items():
            gradient = gradient * np.float32(min(1, 1 / norm))
            first[name] += 0.1 * (gradient - first[name])
            second[name] += 0.01 * (gradient**2 - second[name])
            update = (
                first[name] / (1 - 0.9**step) / (np.sqrt(second[name] / (1 - 0.99**step)) + 1e-8)
            )
            model.p[name] -= np.float32(current) * update.astype(np.float32)
        if step % 100 == 0 or step == 1:
            print(f"step {step}: loss {loss:.4f}, {time.monotonic() - start:.0f} s", flush=True)
    return model.p


def write_model(parameters: dict[str, np.ndarray], path: Path) -> None:
    """Writes the graph of test/Benchmark/gpt.py with the parameters inside the file."""
    import gpt
    from onnx import numpy_helper

    model = gpt.build(LAYERS, HIDDEN, HEADS, FFN, VOCAB, POSITIONS, "serial", "")
    model.graph.name = "stories"
    for tensor in model.graph.initializer:
        if tensor.name in parameters:
            tensor.CopyFrom(numpy_helper.from_array(parameters[tensor.name], tensor.name))
    path.write_bytes(model.SerializeToString())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("-o", "--output", type=Path, default=HERE)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    tokenizer = train_tokenizer([story(random) for _ in range(1000)])
    options.output.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(options.output / "tokenizer.json"), pretty=False)
    (options.output / "generation_config.json").write_text(
        json.dumps({"eos_token_id": tokenizer.token_to_id(END), "max_new_tokens": 140}) + "\n"
    )
    write_model(train(tokenizer, options.steps), options.output / "stories.onnx")


if __name__ == "__main__":
    main()

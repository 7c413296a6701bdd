"""Configurations of transformers from sizes in flags, for all families of causal language models.

Families have different names for the same sizes. transformers maps most of them (`attribute_map`);
SIZES has the others. No function needs torch, and only `families` needs transformers.
"""

from __future__ import annotations

import difflib
import inspect
import json
from dataclasses import dataclass, field
from pathlib import Path

# Configuration names of the size of each flag: transformers' standard name, then names that
# attribute_map does not map to it.
SIZES = {
    "layers": ("num_hidden_layers",),
    "hidden": ("hidden_size",),
    "heads": ("num_attention_heads",),
    "kv-heads": ("num_key_value_heads", "num_kv_heads"),
    "head-size": ("head_dim",),
    "ffn": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "vocab": ("vocab_size",),
    "positions": ("max_position_embeddings", "max_seq_len"),
    "activation": ("hidden_act", "activation_function", "hidden_activation", "activation"),
}


class ConfigurationError(ValueError):
    """An error of sizes or settings."""


@dataclass
class Sizes:
    """Requested sizes by flag (`ffn` may have one per layer) and settings by configuration name."""

    given: dict[str, object] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)


def families() -> dict[str, type]:
    """Returns model_type -> configuration class of all families with a causal language model."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return {
        name: CONFIG_MAPPING[name]
        for name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        if name in CONFIG_MAPPING
    }


def unknown_family(name: str, known) -> ConfigurationError:
    near = difflib.get_close_matches(name.lower(), known, n=4, cutoff=0.5)
    return ConfigurationError(
        f"{name}: neither a folder with a config.json nor a family of causal language models; "
        + (f"similar names: {', '.join(near)}" if near else "--list prints all families")
    )


def parameters(config_class: type) -> dict[str, object]:
    """Returns the settings of a configuration class, with their defaults."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(config_class.__init__).parameters.items()
        if name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }


def size_field(config_class: type, flag: str) -> str | None:
    """Returns the configuration's name of the size, or None if it has none."""
    renamed, taken = getattr(config_class, "attribute_map", {}), parameters(config_class)
    names = [renamed.get(name, name) for name in SIZES[flag]]
    return next((name for name in names if name in taken), None)


def describe(family: str, config_class: type) -> str:
    """Returns text with the sizes of a family by flag, and all settings of --set, with defaults."""
    defaults = config_class()
    fields = {flag: size_field(config_class, flag) for flag in SIZES}
    lines = [f"{family} ({config_class.__name__})"]
    lines += [
        f"  --{flag:12} {name} = {getattr(defaults, name, None)}"
        for flag, name in fields.items()
        if name
    ]
    lines += ["", "  --set NAME=VALUE"]
    lines += [
        f"    {name} = {json.dumps(getattr(defaults, name, value), default=str)}"
        for name, value in parameters(config_class).items()
        if name not in fields.values()
    ]
    return "\n".join(lines)


def parse_setting(text: str) -> tuple[str, object]:
    """Parses NAME=VALUE; a value that is not JSON is a string."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigurationError(f"--set {text}: expected NAME=VALUE")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def configure(family: str, config_class: type, sizes: Sizes):
    """Returns the configuration.

    Sizes that depend on given sizes are scaled: with the family's ratios of key heads to heads and
    of the MLP to the hidden size, and with heads that share the hidden size.
    """
    fields = {flag: size_field(config_class, flag) for flag in SIZES}
    missing = [flag for flag in sizes.given if not fields[flag]]
    if missing:
        raise ConfigurationError(
            f"--{missing[0]}: {config_class.__name__} has no {' or '.join(SIZES[missing[0]])}; "
            "its sizes are "
            + ", ".join(f"--{flag}" for flag in SIZES if fields[flag])
            + "; --set NAME=VALUE sets other fields"
        )
    defaults = config_class()
    known = set(parameters(config_class)) | set(vars(defaults))
    for name in sizes.settings:
        if name not in known and name != "attn_implementation":
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
            raise ConfigurationError(
                f"--set {name}: {config_class.__name__} has no such setting"
                + (f"; similar names: {', '.join(near)}" if near else "")
            )

    def default(flag: str):
        return getattr(defaults, fields[flag], None) if fields[flag] else None

    def chosen(flag: str):
        value = sizes.given.get(flag, default(flag))
        return value[0] if isinstance(value, list) else value

    hidden, heads = chosen("hidden"), chosen("heads")
    values = {fields[flag]: chosen(flag) for flag in sizes.given}
    own_head_size = bool(fields["head-size"])
    if "head-size" not in sizes.given and not own_head_size and hidden and heads and hidden % heads:
        raise ConfigurationError(
            f"--hidden {hidden} is not a multiple of --heads {heads}, and {family} has no "
            "--head-size"
        )
    if own_head_size and "head-size" not in sizes.given and {"hidden", "heads"} & set(sizes.given):
        if hidden % heads:
            raise ConfigurationError(
                f"--hidden {hidden} is not a multiple of --heads {heads}: give --head-size"
            )
        values[fields["head-size"]] = hidden // heads
    if default("kv-heads") and "heads" in sizes.given and "kv-heads" not in sizes.given:
        values[fields["kv-heads"]] = max(1, heads * default("kv-heads") // default("heads"))
    if default("ffn") and "hidden" in sizes.given and "ffn" not in sizes.given:
        values[fields["ffn"]] = max(1, hidden * default("ffn") // default("hidden"))
    values |= sizes.settings
    kv_heads = values.get(fields["kv-heads"]) or (
        default("kv-heads") if fields["kv-heads"] else None
    )
    if kv_heads and heads and heads % kv_heads:
        raise ConfigurationError(f"--heads {heads} is not a multiple of --kv-heads {kv_heads}")
    try:
        config = config_class(**values)
    except Exception as error:  # configurations raise different exceptions
        raise ConfigurationError(f"{config_class.__name__}: {error}") from error
    # The ids of the family's special tokens exceed a smaller vocabulary.
    vocabulary = getattr(config, "vocab_size", None)
    for name, value in list(vars(config).items()):
        if (
            vocabulary
            and name.endswith("_token_id")
            and isinstance(value, int)
            and value >= vocabulary
        ):
            setattr(config, name, vocabulary - 1)
    return config


def untouched_sizes(config_class: type, config) -> str:
    """Returns size-like settings that still have the family's default, as hints for errors."""
    sized = {size_field(config_class, flag) for flag in SIZES}
    left = [
        f"{name}={value}"
        for name, value in parameters(config_class).items()
        if isinstance(value, int)
        and not isinstance(value, bool)
        and value > 1
        and name not in sized
        and not name.endswith("_token_id")
        and getattr(config, name, None) == value
    ]
    return ", ".join(left)


def is_checkpoint(path: Path) -> bool:
    return (path / "config.json").is_file()

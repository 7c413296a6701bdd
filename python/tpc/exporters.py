"""Models of transformers and their export. Needs torch and transformers."""

from __future__ import annotations

import copy
import logging
import math
import os
import tempfile
from pathlib import Path

from tpc import families


def randomize(model, seed: int) -> None:
    """Sets every parameter; `python -m tpc.export --help` explains how and why."""
    import torch
    from transformers.pytorch_utils import Conv1D

    generator = torch.Generator().manual_seed(seed)
    # Conv1D stores [in, out]; Linear and Embedding store the input, or the embedding vector, last.
    fan_in_first = {id(module.weight) for module in model.modules() if isinstance(module, Conv1D)}
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 1:
                parameter.add_(0.2 * noise)
            else:
                fan_in = parameter.shape[0 if id(parameter) in fan_in_first else 1]
                parameter.copy_(noise / fan_in**0.5)


def layers_of(model):
    """Returns the list of layers: the outermost list with one entry per layer."""
    import torch

    depth = model.config.get_text_config().num_hidden_layers
    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == depth:
            return module
    raise families.ConfigurationError(f"{type(model).__name__} has no list of {depth} layers")


def from_config(config):
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_config(config).eval()
    except Exception as error:
        left = families.untouched_sizes(type(config), config)
        raise families.ConfigurationError(
            f"{type(config).__name__} with these sizes is not a valid model: "
            f"{type(error).__name__}: {error}"
            + (f"\nsizes that were not given: {left} (--set NAME=VALUE)" if left else "")
        ) from error


def shapes(config) -> list[tuple[int, ...]]:
    """Returns the shapes of all parameters, without allocating them."""
    import torch

    with torch.device("meta"):
        return [
            tuple(parameter.shape) for parameter in from_config(copy.deepcopy(config)).parameters()
        ]


def check_sizes(family: str, config_class: type, config, given) -> None:
    """Checks that each size changes the model, and that the model fits into memory.

    Falcon, for example, ignores the number of key heads unless another setting is set. By default,
    many families have billions of parameters.
    """
    wanted = shapes(config)
    for flag in ("kv-heads", "head-size", "ffn"):
        name = families.size_field(config_class, flag)
        if flag not in given or getattr(config_class(), name, None) == getattr(config, name):
            continue
        other, value = copy.deepcopy(config), getattr(config, name)
        # One key head divides any number of heads.
        setattr(other, name, 1 if flag == "kv-heads" and value > 1 else 2 * value)
        try:
            ignored = shapes(other) == wanted
        except families.ConfigurationError:
            ignored = False
        if ignored:
            raise families.ConfigurationError(
                f"--{flag} {value} has no effect in {family} with its other settings; see "
                "--list and --set"
            )
    size = 4 * sum(math.prod(shape) for shape in wanted)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # The model, the exporter's copy, and the file's copy.
    if 3 * size > memory:
        raise families.ConfigurationError(
            f"{family} of this size has {size / 2**30:.1f} GiB of weights, and the export takes "
            f"three times that: more than the {memory / 2**30:.0f} GiB of this machine; give "
            "smaller sizes (--layers, --hidden, --vocab, …)"
        )


def build_random(family: str, config_class: type, sizes: families.Sizes, seed: int):
    import torch

    config = families.configure(family, config_class, sizes)
    check_sizes(family, config_class, config, sizes.given)
    torch.manual_seed(seed)
    model = from_config(config)
    widths = sizes.given.get("ffn")
    if isinstance(widths, list) and len(set(widths)) > 1:
        layers = layers_of(model)
        for index, width in enumerate(widths):
            if width != widths[0]:
                other = copy.deepcopy(config)
                setattr(other, families.size_field(config_class, "ffn"), width)
                layers[index] = layers_of(from_config(other))[index]
    randomize(model, seed)
    return model


def load_checkpoint(path: Path):
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(
        path, local_files_only=True, dtype=torch.float32
    ).eval()


def cache_shapes(model) -> list[tuple[int, int]]:
    """Returns the number and the size of heads in each layer's cache, from a run of one token."""
    import torch

    with torch.no_grad():
        cache = getattr(
            model(torch.zeros((1, 1), dtype=torch.int64), use_cache=True), "past_key_values", None
        )
    try:
        layers = [(cache[index][0], cache[index][1]) for index in range(len(cache))]
    except (TypeError, KeyError, IndexError) as error:
        raise families.ConfigurationError(
            f"the cache of {type(model).__name__} is not a list of keys and values"
        ) from error
    if any(key.dim() != 4 or key.shape != value.shape for key, value in layers):
        raise families.ConfigurationError(
            f"the cache of {type(model).__name__} does not have keys and values of the same shape"
        )
    return [(key.shape[1], key.shape[3]) for key, _ in layers]


def export_dynamo(model, opset: int, path: Path, part: str = "model", past: bool = False) -> None:
    import torch

    class Whole(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, input_ids):
            return self.model(input_ids, use_cache=False).logits

    class WithPast(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, input_ids, past):
            from transformers import DynamicCache

            cache = DynamicCache()
            for layer in range(len(past) // 2):
                cache.update(past[2 * layer], past[2 * layer + 1], layer)
            result = self.model(input_ids, past_key_values=cache, use_cache=True)
            present = result.past_key_values
            return result.logits, *(
                present[layer][part] for layer in range(len(past) // 2) for part in (0, 1)
            )

    class Part(torch.nn.Module):
        def __init__(self, part):
            super().__init__()
            self.part = part

        def forward(self, hidden_states):
            result = self.part(hidden_states)
            return result[0] if isinstance(result, tuple) else result

    ids = torch.zeros((2, 5), dtype=torch.int64)
    tokens = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")}
    if part != "model":
        block = layers_of(model)[0]
        if part == "mlp" and not hasattr(block, "mlp"):
            raise families.ConfigurationError(
                f"--part mlp: a layer of {type(model).__name__} has no module of this name; it has "
                + ", ".join(name for name, _ in block.named_children())
            )
        wrapper, names, results = (
            Part(block if part == "layer" else block.mlp),
            ["hidden_states"],
            ["output"],
        )
        arguments, dims = (torch.zeros((2, 5, model.config.hidden_size)),), (tokens,)
    elif past:
        heads = cache_shapes(model)
        keys = [name for layer in range(len(heads)) for name in (f"{layer}.key", f"{layer}.value")]
        cache = [torch.zeros((2, count, 3, size)) for count, size in heads for _ in range(2)]
        wrapper, names, results = WithPast(model), ["input_ids"], ["logits"]
        names, results = names + [f"past_key_values.{key}" for key in keys], results + [
            f"present.{key}" for key in keys
        ]
        cache_dims = {0: tokens[0], 2: torch.export.Dim("past")}
        arguments, dims = (ids, cache), (tokens, [cache_dims] * len(cache))
    else:
        wrapper, names, results = Whole(model), ["input_ids"], ["logits"]
        arguments, dims = (ids,), (tokens,)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    torch.onnx.export(
        wrapper.eval(),
        arguments,
        str(path),
        dynamo=True,
        opset_version=opset,
        input_names=names,
        output_names=results,
        external_data=True,
        verbose=False,
        dynamic_shapes=dims,
    )


def optimum_task(past: bool) -> str:
    return "text-generation-with-past" if past else "text-generation"


def check_optimum(family: str, past: bool) -> None:
    """Raises an error early if optimum has no exporter for the family."""
    import optimum.exporters.onnx.model_configs  # noqa: F401  (registers the families)
    from optimum.exporters.tasks import TasksManager

    try:
        tasks = TasksManager.get_supported_tasks_for_model_type(family, "onnx")
    except KeyError:
        tasks = {}
    if optimum_task(past) not in tasks:
        raise families.ConfigurationError(
            f"optimum has no exporter of {family} for {optimum_task(past)}: try --flavor dynamo"
        )


def export_optimum(model, opset: int, path: Path, past: bool = False) -> None:
    import onnx
    from optimum.exporters.onnx import onnx_export_from_model

    with tempfile.TemporaryDirectory() as directory:
        onnx_export_from_model(
            model, directory, opset=opset, task=optimum_task(past), do_validation=False
        )
        exported = onnx.load(str(Path(directory) / "model.onnx"))
        onnx.save(exported, str(path), save_as_external_data=True, location=path.name + ".data")


def verify(model, path: Path, part: str = "model") -> None:
    """Compares the file in ONNX Runtime with the model, at other sizes than the traced ones.

    The second run uses the cache of the first.
    """
    import numpy as np
    import torch

    from tpc import defaults, reference

    session = reference.Session(path)
    ports = defaults.conventional(session.inputs)
    with torch.no_grad():
        if part != "model":
            hidden = torch.randn(
                (1, 7, model.config.hidden_size), generator=torch.Generator().manual_seed(0)
            )
            module = layers_of(model)[0]
            expected = (module if part == "layer" else module.mlp)(hidden)
            expected = (expected[0] if isinstance(expected, tuple) else expected).numpy()
            actual = session.run({"hidden_states": hidden.numpy()})["output"]
        else:
            vocabulary = model.config.get_text_config().vocab_size
            ids = torch.randint(0, vocabulary, (3, 7), generator=torch.Generator().manual_seed(0))
            expected = model(ids, use_cache=False).logits.numpy()
            past = {
                name: np.zeros((len(ids), shape[1], 0, shape[3]), np.float32)
                for name, shape in session.inputs.items()
                if name.startswith("past_key_values.")
            }
            parts, begin = [], 0
            for end in (4, 7) if past else (7,):
                given = {"input_ids": ids[:, begin:end].numpy(), **past}
                results = session.run(defaults.fill(session.inputs, session.types, given, ports))
                parts.append(results["logits"])
                past = {name: results[name.replace("past_key_values", "present")] for name in past}
                begin = end
            actual = np.concatenate(parts, axis=1)
    distance = reference.difference(actual, expected)
    if not distance.relative <= 1e-4:
        raise families.ConfigurationError(
            f"the exported file has a different result than the model: {distance}"
        )

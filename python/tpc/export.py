"""Export of language models to ONNX with common exporters: `python -m tpc.export --help`."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
import traceback
from pathlib import Path

from tpc import console, families

# Flavors and their default opsets.
FLAVORS = {
    "dynamo": 20,
    "dynamo-past": 20,
    "optimum-nopast": 18,
    "optimum-past": 18,
}

EPILOG = """\
models
  A family is a model_type of transformers: gpt2, llama, mistral, qwen2, phi, gpt_neox, bloom,
  falcon, olmo2, gemma2, … --list lists all; `FAMILY --list` lists its names of sizes, their
  defaults, and all other settings. A folder with config.json and model.safetensors, as
  save_pretrained writes them, is exported unchanged. Nothing is downloaded.

flavors
  dynamo          torch.onnx.export(dynamo=True): input_ids -> logits. The causal mask is built
                  inside the file; from opset 23 on, attention is ONNX's Attention op.
  dynamo-past     the same with a KV cache: input_ids, past_key_values.* -> logits, present.*
  optimum-nopast  optimum's TorchScript export for text generation without a KV cache: input_ids,
                  attention_mask (0 for padding) and, if the family has them, position_ids -> logits
  optimum-past    the same with a KV cache: also past_key_values.* -> logits, present.*

weights
  Every parameter is random, and set before the export: matrices ~ N(0, 1/sqrt(fan-in)), and
  N(0, 0.2) is added to biases and norms. A freshly initialized model has zero biases, unit norms
  and flat attention, and exporters drop or merge zeros and ones. With such a file, a lost bias or
  wrong attention would not change the logits.

examples
  python -m tpc.export gpt2 -o tiny.onnx --layers 2 --hidden 64 --heads 4 --vocab 1000 \\
      --positions 128
  python -m tpc.export llama -o llama.onnx --layers 2 --hidden 64 --heads 8 --kv-heads 2 \\
      --vocab 1000 --flavor optimum-past
  python -m tpc.export falcon -o falcon.onnx --layers 2 --hidden 64 --heads 8 --vocab 1000 \\
      --set alibi=true
  python -m tpc.export gpt2 -o gpt2.onnx --external-data              # 124M parameters, random
  python -m tpc.export ~/checkpoints/gpt2 -o gpt2.onnx
  tpcc tiny.onnx --megatron-shard=tp2,pp2 -o tiny
"""


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tpc.export",
        description="Exports a causal language model of transformers, with random or local "
        "weights, to ONNX.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "model", nargs="?", metavar="FAMILY|DIR", help="a family of models, or a local checkpoint"
    )
    parser.add_argument(
        "--list",
        action="store_true",
        help="list families, or the sizes and settings of one, and exit",
    )
    parser.add_argument("-o", "--output", metavar="FILE.onnx", type=Path, help="the file to write")
    parser.add_argument("--flavor", choices=FLAVORS, default="dynamo", help="the exporter")
    parser.add_argument(
        "--opset", type=int, default=None, help="18 to 23 (default: 20; with optimum: 18)"
    )
    parser.add_argument(
        "--part",
        choices=["model", "layer", "mlp"],
        default="model",
        help="the whole model, or one layer or one MLP from hidden states to hidden states "
        "(dynamo only)",
    )
    size = parser.add_argument_group(
        "sizes (defaults: the family's, see --list; not for a checkpoint)"
    )
    size.add_argument("--layers", type=int, help="number of layers")
    size.add_argument("--hidden", type=int, help="hidden size")
    size.add_argument("--heads", type=int, help="attention heads")
    size.add_argument(
        "--kv-heads",
        type=int,
        help="heads of keys and values (default: the family's ratio of heads)",
    )
    size.add_argument("--head-size", type=int, help="columns of a head (default: hidden / heads)")
    size.add_argument(
        "--ffn",
        help="inner size of the MLP (default: the family's multiple of hidden); a list such as "
        "140,96,128 has one size for each layer",
    )
    size.add_argument("--vocab", type=int, help="vocabulary")
    size.add_argument("--positions", type=int, help="longest sequence")
    size.add_argument(
        "--activation",
        help="activation of the MLP: gelu_new (tanh, decomposed), gelu (erf), gelu_pytorch_tanh "
        "(as one operation), silu, relu, …",
    )
    size.add_argument(
        "--untied-head",
        action="store_true",
        help="use a separate matrix for the head instead of the embedding's",
    )
    size.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other setting of the family's configuration; can be repeated",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the random weights (default: 0)"
    )
    parser.add_argument(
        "--external-data",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="weights in FILE.onnx.data (default: from 64 MiB on)",
    )
    parser.add_argument(
        "--structure-only",
        action="store_true",
        help="refer to FILE.onnx.data but do not write it; `python -m tpc.weights` makes it",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="show the whole stack trace of a failing exporter"
    )
    args = parser.parse_args(argv)

    if args.list:
        return args
    if not args.model:
        parser.error("expected a family or the folder of a checkpoint; --list names families")
    if not args.output:
        parser.error("expected --output FILE.onnx")
    args.opset = args.opset or FLAVORS[args.flavor]
    if not 18 <= args.opset <= 23:
        parser.error(f"--opset {args.opset}: the exporters write opsets 18 to 23")
    if args.part != "model" and args.flavor != "dynamo":
        parser.error(f"--part {args.part} needs --flavor dynamo")
    if not args.output.parent.is_dir():
        parser.error(f"--output {args.output}: no directory {args.output.parent}")
    if args.output.is_dir() or not os.access(args.output.parent, os.W_OK | os.X_OK):
        parser.error(
            f"--output {args.output}: "
            + ("it is a directory" if args.output.is_dir() else "its directory cannot be written")
        )
    try:
        args.sizes = parse_sizes(args)
    except families.ConfigurationError as error:
        parser.error(str(error))
    args.checkpoint = families.is_checkpoint(Path(args.model))
    if args.checkpoint and (args.sizes.given or args.sizes.settings):
        given = [f"--{flag}" for flag in args.sizes.given] + [
            f"--set {name}" for name in args.sizes.settings
        ]
        parser.error(f"{', '.join(given)}: the checkpoint {args.model} defines its sizes itself")
    if not args.checkpoint and ("/" in args.model or Path(args.model).is_dir()):
        parser.error(f"{args.model}: no config.json in this folder")
    return args


def parse_sizes(args: argparse.Namespace) -> families.Sizes:
    sizes = families.Sizes()
    for flag in families.SIZES:
        value = getattr(args, flag.replace("-", "_"))
        if value is None:
            continue
        if flag != "activation" and flag != "ffn" and value < 1:
            raise families.ConfigurationError(f"--{flag} {value}: must be positive")
        sizes.given[flag] = value
    if args.ffn is not None:
        try:
            widths = [int(width) for width in args.ffn.split(",")]
        except ValueError:
            raise families.ConfigurationError(
                f"--ffn {args.ffn}: expected a number or a list of numbers"
            ) from None
        if len(widths) > 1 and len(widths) != args.layers or min(widths) < 1:
            raise families.ConfigurationError(
                f"--ffn {args.ffn}: expected one size or, with --layers {args.layers}, one for "
                "each layer, all positive"
            )
        sizes.given["ffn"] = widths if len(widths) > 1 else widths[0]
    sizes.settings = dict(families.parse_setting(text) for text in args.set)
    if args.untied_head:
        sizes.settings["tie_word_embeddings"] = False
    return sizes


def require_packages(*names: str) -> None:
    """Exits with instructions if large packages, which are imported when needed, are missing."""
    requirements = {
        "transformers": "transformers==4.57.6",
        "optimum": "optimum==2.1.0 optimum-onnx==0.1.0",
    }
    missing = [requirements.get(name, name) for name in names if not importlib.util.find_spec(name)]
    if missing:
        sys.exit(
            "tpc.export: exporting needs packages that are not installed (torch is about 7 GB). "
            "To install them:\n"
            f"  {sys.executable} -m pip install {' '.join(missing)}"
        )


def list_families(name: str | None) -> None:
    known = families.families()
    if name is None:
        print("\n".join(known))
    elif name in known:
        print(families.describe(name, known[name]))
    else:
        raise families.unknown_family(name, known)


def export(args: argparse.Namespace, path: Path) -> None:
    """Writes the exporter's file and prints all messages of the exporter."""
    from tpc import exporters

    optimum, past = args.flavor.startswith("optimum"), args.flavor.endswith("-past")
    if args.checkpoint:
        model = exporters.load_checkpoint(Path(args.model))
        family = model.config.model_type
    else:
        family, known = args.model, families.families()
        if family not in known:
            raise families.unknown_family(family, known)
        model = exporters.build_random(family, known[family], args.sizes, args.seed)
    if optimum:
        exporters.check_optimum(family, past)
    try:
        if optimum:
            exporters.export_optimum(model, args.opset, path, past)
        else:
            exporters.export_dynamo(model, args.opset, path, args.part, past)
        if importlib.util.find_spec("onnxruntime"):
            exporters.verify(model, path, args.part)
        else:
            print(
                "tpc.export: onnxruntime is not installed, so the file was not compared with the "
                "model",
                file=sys.stderr,
            )
    except families.ConfigurationError:
        raise
    except Exception as error:  # any error of torch, transformers or optimum
        if args.verbose:
            traceback.print_exc()
        raise failure(args, family, type(model.config), model.config, error) from error


def failure(
    args, family: str, config_class: type, config, error: Exception
) -> families.ConfigurationError:
    """Returns an error with the failure and other settings to try."""
    lines = [line for line in str(error).splitlines() if line.strip()][:4]
    left = families.untouched_sizes(config_class, config)
    others = [flavor for flavor in FLAVORS if flavor != args.flavor and args.part == "model"]
    advice = [f"try --flavor {', '.join(others)}"] if others else []
    advice += (
        [f"sizes that were not given: {left} (--set NAME=VALUE)"]
        if left and not args.checkpoint
        else []
    )
    advice += (
        ["other attention: --set attn_implementation=eager"]
        if "attn_implementation" not in args.sizes.settings
        else []
    )
    advice += ["--verbose shows where it failed"] if not args.verbose else []
    what = f"flavor {args.flavor}" + ("" if args.part == "model" else f", --part {args.part},")
    return families.ConfigurationError(
        f"{what} fails on {family}: {type(error).__name__}: "
        + "\n  ".join(lines)
        + "\n"
        + "\n".join(advice)
    )


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    # Without accelerate, optimum writes a tied head twice.
    optimum = ["optimum", "accelerate"] if args.flavor.startswith("optimum") else []
    require_packages(
        "transformers", *([] if args.list else ["torch", "onnx", "onnxscript", *optimum])
    )
    try:
        if args.list:
            list_families(args.model)
            return 0
        import onnx

        from tpc import onnxfile

        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "model.onnx"
            export(args, path)
            exported = onnx.load(str(path))
    except families.ConfigurationError as error:
        sys.exit(f"tpc.export: {error}")
    onnxfile.strip_metadata(exported)
    exported.graph.name = args.output.stem
    weight_bytes = sum(onnxfile.tensor_bytes(tensor) for tensor in exported.graph.initializer)
    external = args.external_data if args.external_data is not None else weight_bytes >= 64 << 20
    onnxfile.save(exported, args.output, external_data=external, structure_only=args.structure_only)
    print(
        f"{args.output}: {len(exported.graph.node)} nodes, {args.output.stat().st_size:,} bytes, "
        f"weights "
        f"{weight_bytes:,} bytes"
        + (f" in {args.output.name}.data" if external or args.structure_only else "")
    )
    return 0


if __name__ == "__main__":
    console.run("tpc.export", main)

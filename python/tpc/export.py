"""Makes ONNX files of GPT-2, the ways people do: see `python -m tpc.export --help`."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path

EPILOG = """\
flavors
  dynamo          torch.onnx.export(dynamo=True) of Hugging Face's model: input_ids -> logits. The causal mask is built
                  inside the file; from opset 23 on attention is ONNX's own Attention op.
  optimum-nopast  optimum's TorchScript export for text generation without a KV cache: input_ids, attention_mask (0 for
                  padding) and position_ids -> logits.

weights
  By default every parameter is random, and set before the export: matrices ~ N(0, 1/sqrt(fan-in)), and N(0, 0.2) is
  added to biases and norms. A freshly initialized model has zero biases, unit norms and flat attention, and exporters
  drop or merge what is zero or one: such a file cannot show a lost bias or a wrong attention.
  --weights DIR takes a local checkpoint instead (config.json and model.safetensors, as save_pretrained writes them).

examples
  python -m tpc.export gpt2 -o tiny.onnx --layers 2 --hidden 64 --heads 4 --vocab 1000 --positions 128
  python -m tpc.export gpt2 -o masked.onnx --flavor optimum-nopast --opset 18 --layers 2 --hidden 64 --heads 4
  python -m tpc.export gpt2 -o gpt2.onnx --external-data              # 124M parameters, random
  python -m tpc.export gpt2 -o gpt2.onnx --weights ~/checkpoints/gpt2
  tpcc tiny.onnx --megatron-shard=tp2,pp2 -o tiny
"""


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tpc.export",
        description="Exports a GPT-2 with random or local weights to ONNX.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("family", choices=["gpt2"], help="the architecture")
    parser.add_argument("-o", "--output", required=True, metavar="FILE.onnx", type=Path, help="the file to write")
    parser.add_argument("--flavor", choices=["dynamo", "optimum-nopast"], default="dynamo", help="the exporter")
    parser.add_argument("--opset", type=int, default=None, help="18 to 23 (default: 20; optimum-nopast: 18)")
    parser.add_argument("--part", choices=["model", "layer", "mlp"], default="model",
                        help="the whole model, or one layer or one MLP from hidden states to hidden states (dynamo only)")
    size = parser.add_argument_group("sizes (defaults: GPT-2 124M; not with --weights)")
    size.add_argument("--layers", type=int, help="number of layers (12)")
    size.add_argument("--hidden", type=int, help="hidden size, a multiple of the number of heads (768)")
    size.add_argument("--heads", type=int, help="attention heads (12)")
    size.add_argument("--ffn", help="inner size of the MLP (4 x hidden); a list such as 140,96,128 gives each layer its own")
    size.add_argument("--vocab", type=int, help="vocabulary (50257)")
    size.add_argument("--positions", type=int, help="rows of the position table (1024)")
    size.add_argument("--activation", choices=["gelu_new", "gelu", "gelu_pytorch_tanh"],
                      help="gelu_new: tanh, spelled out (default); gelu: erf; gelu_pytorch_tanh: tanh, as one operation")
    size.add_argument("--untied-head", action="store_true", help="the head has its own matrix, not the embedding's")
    parser.add_argument("--weights", metavar="DIR", type=Path, help="a local checkpoint instead of random weights")
    parser.add_argument("--seed", type=int, default=0, help="of the random weights (0)")
    parser.add_argument("--external-data", action=argparse.BooleanOptionalAction, default=None,
                        help="weights in FILE.onnx.data (default: from 64 MiB on)")
    parser.add_argument("--structure-only", action="store_true",
                        help="refer to FILE.onnx.data but do not write it; `python -m tpc.weights` makes it")
    args = parser.parse_args(argv)

    dynamo = args.flavor == "dynamo"
    args.opset = args.opset or (20 if dynamo else 18)
    if not 18 <= args.opset <= 23:
        parser.error(f"--opset {args.opset}: the exporters write opsets 18 to 23")
    if args.part != "model" and not dynamo:
        parser.error(f"--part {args.part} needs --flavor dynamo")
    if not args.output.parent.is_dir():
        parser.error(f"--output {args.output}: no directory {args.output.parent}")
    sizes = ("layers", "hidden", "heads", "ffn", "vocab", "positions", "activation")
    if args.weights:
        given = [f"--{name}" for name in sizes if getattr(args, name) is not None]
        given += ["--untied-head"] if args.untied_head else []
        if given:
            parser.error(f"{', '.join(given)}: a checkpoint has its own; leave out or do without --weights")
        if not (args.weights / "config.json").is_file():
            parser.error(f"--weights {args.weights}: no config.json there")
        return args

    defaults = dict(layers=12, hidden=768, heads=12, vocab=50257, positions=1024, activation="gelu_new")
    for name, value in defaults.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
        elif name != "activation" and getattr(args, name) < 1:
            parser.error(f"--{name} {getattr(args, name)}: must be positive")
    if args.hidden % args.heads:
        parser.error(f"--hidden {args.hidden} is not a multiple of --heads {args.heads}")
    try:
        widths = [int(width) for width in args.ffn.split(",")] if args.ffn else [4 * args.hidden]
    except ValueError:
        parser.error(f"--ffn {args.ffn}: expected a number or a list of numbers")
    if len(widths) not in (1, args.layers) or min(widths) < 1:
        parser.error(f"--ffn {args.ffn}: expected one size or {args.layers}, one for each layer, all positive")
    args.ffn = widths * (args.layers if len(widths) == 1 else 1)
    return args


def require_exporters(flavor: str) -> None:
    """The exporters are large, so they are imported when they are needed and missed with advice."""
    missing = []
    try:
        import torch  # noqa: F401
    except ImportError:
        missing.append("torch")
    try:
        import transformers  # noqa: F401
    except ImportError:
        missing.append("transformers==4.57.6")
    try:
        import onnxscript  # noqa: F401
    except ImportError:
        missing.append("onnxscript")
    if flavor == "optimum-nopast":
        try:
            import optimum.exporters.onnx  # noqa: F401
        except ImportError:
            missing += ["optimum==2.1.0", "optimum-onnx==0.1.0"]
        try:
            import accelerate  # noqa: F401  (without it optimum writes a tied head twice)
        except ImportError:
            missing.append("accelerate")
    if missing:
        sys.exit("tpc.export: exporting needs packages that are not installed (torch is about 7 GB). To install them:\n"
                 f"  {sys.executable} -m pip install {' '.join(missing)}")


def randomize(model, seed: int) -> None:
    """Sets every parameter: see EPILOG for how and why."""
    import torch
    from transformers.pytorch_utils import Conv1D

    generator = torch.Generator().manual_seed(seed)
    # Conv1D keeps [in, out]; Linear and Embedding keep the input, or the vector that is looked up, last.
    fan_in_first = {id(module.weight) for module in model.modules() if isinstance(module, Conv1D)}
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 1:
                parameter.add_(0.2 * noise)
            else:
                fan_in = parameter.shape[0 if id(parameter) in fan_in_first else 1]
                parameter.copy_(noise / fan_in**0.5)


def build_model(args: argparse.Namespace):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.models.gpt2.modeling_gpt2 import GPT2MLP

    if args.weights:
        return GPT2LMHeadModel.from_pretrained(args.weights, local_files_only=True, dtype=torch.float32).eval()
    config = GPT2Config(n_layer=args.layers, n_embd=args.hidden, n_head=args.heads, n_inner=args.ffn[0],
                        vocab_size=args.vocab, n_positions=args.positions, activation_function=args.activation,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
                        tie_word_embeddings=not args.untied_head)
    torch.manual_seed(args.seed)
    model = GPT2LMHeadModel(config).eval()
    for block, width in zip(model.transformer.h, args.ffn):
        if width != args.ffn[0]:
            block.mlp = GPT2MLP(width, config).eval()
    randomize(model, args.seed)
    return model


def export_dynamo(model, args: argparse.Namespace, path: Path) -> None:
    import torch

    class Whole(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, input_ids):
            return self.model(input_ids, use_cache=False).logits

    class Part(torch.nn.Module):
        def __init__(self, part):
            super().__init__()
            self.part = part

        def forward(self, hidden_states):
            result = self.part(hidden_states)
            return result[0] if isinstance(result, tuple) else result

    if args.part == "model":
        wrapper, name, result = Whole(model), "input_ids", "logits"
        example = torch.zeros((2, 5), dtype=torch.int64)
    else:
        block = model.transformer.h[0]
        wrapper, name, result = Part(block if args.part == "layer" else block.mlp), "hidden_states", "output"
        example = torch.zeros((2, 5, model.config.n_embd))
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    torch.onnx.export(
        wrapper.eval(), (example,), str(path), dynamo=True, opset_version=args.opset, input_names=[name],
        output_names=[result], external_data=True, verbose=False,
        dynamic_shapes=({0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")},),
    )


def export_optimum(model, args: argparse.Namespace, path: Path) -> None:
    from optimum.exporters.onnx import onnx_export_from_model

    with tempfile.TemporaryDirectory() as directory:
        onnx_export_from_model(model, directory, opset=args.opset, task="text-generation", do_validation=False)
        import onnx

        exported = onnx.load(str(Path(directory) / "model.onnx"))
        onnx.save(exported, str(path), save_as_external_data=True, location=path.name + ".data")


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    require_exporters(args.flavor)
    import onnx

    from tpc import onnxfile

    model = build_model(args)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.onnx"
        (export_dynamo if args.flavor == "dynamo" else export_optimum)(model, args, path)
        exported = onnx.load(str(path))
    onnxfile.strip_metadata(exported)
    exported.graph.name = args.output.stem
    weight_bytes = sum(onnxfile.tensor_bytes(tensor) for tensor in exported.graph.initializer)
    external = args.external_data if args.external_data is not None else weight_bytes >= 64 << 20
    onnxfile.save(exported, args.output, external_data=external, structure_only=args.structure_only)
    print(f"{args.output}: {len(exported.graph.node)} nodes, {args.output.stat().st_size:,} bytes, weights "
          f"{weight_bytes:,} bytes" + (f" in {args.output.name}.data" if external or args.structure_only else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())

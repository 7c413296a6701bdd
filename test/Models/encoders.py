"""Makes the encoders and encoder-decoders of families/, with random weights.

pip install torch transformers==4.57.6 onnxscript
python test/Models/encoders.py [NAME …]
"""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "families"
VOCABULARY, HIDDEN, IMAGE, FRAMES = 151, 32, 32, 100

SIZES = dict(
    vocab_size=VOCABULARY,
    hidden_size=HIDDEN,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
)
VISION = dict(
    hidden_size=HIDDEN,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    image_size=IMAGE,
    patch_size=8,
)
PAIR = dict(
    vocab_size=VOCABULARY,
    d_model=HIDDEN,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=64,
    decoder_ffn_dim=64,
)
# Class of transformers, and its configuration, by name.
MODELS = {
    "bert": ("BertForMaskedLM", dict(SIZES, max_position_embeddings=64)),
    "roberta": ("RobertaForMaskedLM", dict(SIZES, max_position_embeddings=66)),
    "distilbert": (
        "DistilBertForMaskedLM",
        dict(
            vocab_size=VOCABULARY,
            dim=HIDDEN,
            n_layers=2,
            n_heads=4,
            hidden_dim=64,
            max_position_embeddings=64,
        ),
    ),
    # Every other layer is local.
    "modernbert": (
        "ModernBertForMaskedLM",
        dict(
            SIZES,
            max_position_embeddings=64,
            global_attn_every_n_layers=2,
            local_attention=8,
            pad_token_id=0,
            reference_compile=False,
        ),
    ),
    "vit": ("ViTForImageClassification", dict(VISION, num_labels=10)),
    "siglip": ("SiglipVisionModel", VISION),
    "t5": (
        "T5ForConditionalGeneration",
        dict(
            vocab_size=VOCABULARY,
            d_model=HIDDEN,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_decoder_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
            feed_forward_proj="gated-gelu",
            tie_word_embeddings=False,
        ),
    ),
    "bart": ("BartForConditionalGeneration", dict(PAIR, max_position_embeddings=64)),
    "whisper": (
        "WhisperForConditionalGeneration",
        dict(
            PAIR,
            max_source_positions=FRAMES // 2,
            max_target_positions=64,
            num_mel_bins=16,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        ),
    ),
}
PAIRS = ("t5", "bart", "whisper")
# Files of families/.
NAMES = [name for name in MODELS if name not in PAIRS] + [
    f"{name}-{part}" for name in PAIRS for part in ("encoder", "decoder")
]


def build(name: str):
    """Returns a model with random weights that are neither zero nor one."""
    import torch
    import transformers

    kind, settings = MODELS[name]
    model = getattr(transformers, kind)
    torch.manual_seed(list(MODELS).index(name))
    model = model(model.config_class(**settings)).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(0, parameter.shape[-1] ** -0.5)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def export(name: str, path: Path) -> None:
    import onnx
    import torch

    family, _, part = name.partition("-")
    model = build(family)
    if part == "encoder":
        model = model.get_encoder()

    class First(torch.nn.Module):
        """The first result of a model, for inputs in order."""

        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *values):
            if part == "decoder":
                states = (values[1],)
                return self.model(
                    decoder_input_ids=values[0], encoder_outputs=states, use_cache=False
                )[0]
            return self.model(**dict(zip(inputs, values)))[0]

    ids = torch.randint(2, VOCABULARY, (2, 7))
    batch, sequence, other = (
        torch.export.Dim(size, min=2, max=60)
        for size in ("batch", "sequence", "encoder_sequence")
    )
    frames = {0: batch} if family == "whisper" else {0: batch, 1: other}
    if part == "decoder":
        length = FRAMES // 2 if family == "whisper" else 9
        inputs = {
            "input_ids": (ids, {0: batch, 1: sequence}),
            "encoder_hidden_states": (torch.randn(2, length, HIDDEN), frames),
        }
    elif family == "whisper":
        inputs = {"input_features": (torch.randn(2, 16, FRAMES), {0: batch})}
    elif family in ("vit", "siglip"):
        inputs = {"pixel_values": (torch.randn(2, 3, IMAGE, IMAGE), {0: batch})}
    else:
        inputs = {
            "input_ids": (ids, {0: batch, 1: sequence}),
            "attention_mask": (torch.ones_like(ids), {0: batch, 1: sequence}),
        }
    program = torch.onnx.export(
        First(),
        tuple(value for value, _ in inputs.values()),
        dynamo=True,
        opset_version=20,
        input_names=list(inputs),
        output_names=["logits"],
        dynamic_shapes=(tuple(sizes for _, sizes in inputs.values()),),
    )
    proto = program.model_proto
    for node in proto.graph.node:
        del node.metadata_props[:]
    for value in (proto, proto.graph, *proto.graph.input, *proto.graph.output):
        del value.metadata_props[:]
    del proto.graph.value_info[:]
    onnx.save(proto, path)


def main() -> int:
    names = sys.argv[1:] or NAMES
    if unknown := [name for name in names if name not in NAMES]:
        sys.exit(f"encoders.py: no model named {', '.join(unknown)}; there are {', '.join(NAMES)}")
    for name in names:
        export(name, FOLDER / f"{name}.onnx")
    return 0


if __name__ == "__main__":
    sys.exit(main())

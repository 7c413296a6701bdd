"""Makes the vision-language models of vision/, with random weights, in the three files of
transformers.js: an encoder of images, an embedding of tokens and a decoder with caches.

pip install torch transformers==4.57.6 onnxscript
python test/Models/vision.py [NAME …]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "vision"
VOCABULARY, HIDDEN, IMAGE, IMAGE_TOKEN = 151, 32, 8, 150

VISION = dict(
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    image_size=IMAGE,
    patch_size=4,
)
TEXT = dict(
    vocab_size=VOCABULARY,
    hidden_size=HIDDEN,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=64,
    max_position_embeddings=64,
)
# Class of transformers, and its configuration, by name.
MODELS = {
    "llava": (
        "LlavaForConditionalGeneration",
        dict(
            vision_config=dict(VISION, model_type="clip_vision_model"),
            text_config=dict(TEXT, model_type="llama"),
            image_token_index=IMAGE_TOKEN,
        ),
    ),
}
PARTS = ("vision_encoder", "embed_tokens", "decoder_model")


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
                parameter.normal_(0, parameter[0].numel() ** -0.5)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.2)
        # Embeddings of tokens and features of images have one scale.
        model.get_input_embeddings().weight.normal_()
    return model


def export(model, part: str, path: Path) -> None:
    import onnx
    import torch
    from transformers import DynamicCache

    text = model.config.text_config
    heads, size = text.num_key_value_heads, text.hidden_size // text.num_attention_heads
    batch, sequence, past = (
        torch.export.Dim(name, min=2, max=60) for name in ("batch", "sequence", "past")
    )

    class Part(torch.nn.Module):
        """One file, for inputs in order."""

        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *values):
            if part == "vision_encoder":
                states = self.model.model.vision_tower(values[0], output_hidden_states=True)
                features = states.hidden_states[self.model.config.vision_feature_layer][:, 1:]
                return self.model.model.multi_modal_projector(features)
            if part == "embed_tokens":
                return self.model.get_input_embeddings()(values[0])
            embeds, mask, *caches = values
            cache = DynamicCache()
            for layer in range(text.num_hidden_layers):
                cache.update(caches[2 * layer], caches[2 * layer + 1], layer)
            found = self.model(
                inputs_embeds=embeds, attention_mask=mask, past_key_values=cache, use_cache=True
            )
            layers = found.past_key_values.layers
            return found.logits, *(x for layer in layers for x in (layer.keys, layer.values))

    outputs = ["image_features" if part == "vision_encoder" else "inputs_embeds"]
    if part == "vision_encoder":
        inputs = {"pixel_values": (torch.randn(2, 3, IMAGE, IMAGE), {0: batch})}
    elif part == "embed_tokens":
        inputs = {"input_ids": (torch.randint(2, 99, (2, 7)), {0: batch, 1: sequence})}
    else:
        layers = range(text.num_hidden_layers)
        ports = [f"{layer}.{kind}" for layer in layers for kind in ("key", "value")]
        inputs = {
            "inputs_embeds": (torch.randn(2, 7, HIDDEN), {0: batch, 1: sequence}),
            "attention_mask": (
                torch.ones(2, 12, dtype=torch.int64),
                {0: batch, 1: torch.export.Dim.DYNAMIC},
            ),
        } | {
            f"past_key_values.{port}": (torch.randn(2, heads, 5, size), {0: batch, 2: past})
            for port in ports
        }
        outputs = ["logits"] + [f"present.{port}" for port in ports]
    program = torch.onnx.export(
        Part(),
        tuple(value for value, _ in inputs.values()),
        dynamo=True,
        opset_version=20,
        input_names=list(inputs),
        output_names=outputs,
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
    names = sys.argv[1:] or list(MODELS)
    if unknown := [name for name in names if name not in MODELS]:
        sys.exit(f"vision.py: no model named {', '.join(unknown)}; there are {', '.join(MODELS)}")
    for name in names:
        folder = FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        model = build(name)
        for part in PARTS:
            export(model, part, folder / f"{part}.onnx")
        keys = {"image_token_index": IMAGE_TOKEN, "model_type": model.config.model_type}
        (folder / "config.json").write_text(json.dumps(keys, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

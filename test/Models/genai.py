"""Makes the files of families/ that end in -genai, with onnxruntime-genai's model builder.

Weights are random, and the tokenizer has numbered words.

pip install torch transformers==4.57.6 onnxruntime-genai==0.11.4 onnx_ir
python test/Models/genai.py [NAME …]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

SIZES = dict(
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=48,
    vocab_size=151,
    max_position_embeddings=64,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)
PHI3 = dict(model_type="phi3", architectures=["Phi3ForCausalLM"])
GEMMA = dict(head_dim=16, sliding_window=8, query_pre_attn_scalar=16)
# Configurations by name. ONNX Runtime needs heads of 16 elements, and rotates as many.
MODELS = {
    "gemma2-genai": dict(model_type="gemma2", **GEMMA),
    "gemma3-genai": dict(model_type="gemma3_text", sliding_window_pattern=2, **GEMMA),
    "granite-genai": dict(model_type="granite"),
    "mistral-genai": dict(model_type="mistral", sliding_window=8, head_dim=16),
    "phi3-genai": dict(PHI3, sliding_window=8, original_max_position_embeddings=64),
    # Half of each head is rotated, and the head is tied to the table.
    "phi4-genai": dict(
        PHI3,
        num_attention_heads=2,
        num_key_value_heads=1,
        partial_rotary_factor=0.5,
        tie_word_embeddings=True,
        sliding_window=None,
        original_max_position_embeddings=64,
    ),
    "qwen3-genai": dict(model_type="qwen3", head_dim=16),
}


def save(settings: dict, folder: Path) -> None:
    """Writes a checkpoint with random weights that are neither zero nor one."""
    import torch
    from tokenizers import Tokenizer, models
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedTokenizerFast

    settings = {**SIZES, **settings}
    family = settings.pop("model_type")
    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[family](**settings)).float()
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_matrix = parameter.ndim > 1
            scale = parameter.shape[-1] ** -0.5 if is_matrix else 0.2
            # Gemma adds one to the scales of norms.
            shift = 0 if is_matrix or "norm" not in name or "gemma" in family else 1
            parameter.copy_(shift + scale * torch.randn_like(parameter))
    model.save_pretrained(folder)
    words = {f"t{index}": index for index in range(settings["vocab_size"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="t3"))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="t1",
        eos_token="t2",
        pad_token="t0",
        unk_token="t3",
    ).save_pretrained(folder)


def main() -> None:
    import onnx

    for name in sys.argv[1:] or MODELS:
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            save(MODELS[name], folder / "checkpoint")
            command = [sys.executable, "-m", "onnxruntime_genai.models.builder"]
            command += ["-i", folder / "checkpoint", "-o", folder / "built", "-c", folder / "cache"]
            subprocess.run([*command, "-p", "fp32", "-e", "cpu"], check=True)
            onnx.save(
                onnx.load(folder / "built" / "model.onnx"), HERE / "families" / f"{name}.onnx"
            )


if __name__ == "__main__":
    main()

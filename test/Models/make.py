"""Makes the ONNX files of this directory, with the packages that `python -m tpc.export` needs.

PYTHONPATH=python python test/Models/make.py [NAME …]
"""

from __future__ import annotations

import sys
from pathlib import Path

from tpc import export

HERE = Path(__file__).resolve().parent
FAMILIES_FOLDER = HERE / "families"

# All sizes are divisible by two and four.
TINY = "--layers 4 --hidden 32 --heads 4 --vocab 1000 --positions 128"
# Heads, vocabulary and layers are not divisible by two.
ODD = "--layers 3 --hidden 40 --heads 5 --ffn 140 --vocab 1009 --positions 64"

ERF = "--layers 2 --hidden 24 --heads 3 --vocab 257 --positions 64 --activation gelu"
# No two layers have the same sizes, so no layer is outlined as a repeated function.
DIFFERING = (
    "--layers 3 --hidden 32 --heads 4 --ffn 128,96,70 --vocab 503 --positions 64 --activation"
    " gelu_pytorch_tanh"
)

MODELS = {
    "gpt2-tiny": f"--opset 20 {TINY} --seed 1",
    "gpt2-odd-opset18": f"--opset 18 {ODD} --seed 2",
    "gpt2-odd-opset20": f"--opset 20 {ODD} --seed 3",
    "gpt2-odd-opset23": f"--opset 23 {ODD} --seed 4",
    "gpt2-odd-nopast": f"--flavor optimum-nopast --opset 18 {ODD} --ffn 131 --seed 5",
    "gpt2-tiny-nopast": (
        f"--flavor optimum-nopast --opset 18 {TINY} --layers 2 --untied-head --seed 6"
    ),
    # GELU by Erf and, from opset 20 on, as ONNX's own Gelu.
    "gpt2-erf-opset18": f"--opset 18 {ERF} --seed 7",
    "gpt2-erf-opset20": f"--opset 20 {ERF} --seed 12",
    "gpt2-differing-layers": f"--opset 20 {DIFFERING} --seed 8",
    "gpt2-layer": (
        "--opset 20 --part layer --layers 1 --hidden 40 --heads 5 --ffn 140 --vocab 8 --positions"
        " 64 --seed 9"
    ),
    "gpt2-layer-opset23": (
        "--opset 23 --part layer --layers 1 --hidden 40 --heads 5 --ffn 140 --vocab 8 --positions"
        " 64 --seed 10"
    ),
    "gpt2-mlp": (
        "--opset 20 --part mlp --layers 1 --hidden 40 --heads 5 --ffn 140 --vocab 8 --positions 64"
        " --seed 11"
    ),
    # 124M parameters: the structure alone. `python -m tpc.weights` makes gpt2-124m.onnx.data.
    "gpt2-124m": "--opset 20 --structure-only",
    "gpt2-124m-past": "--flavor dynamo-past --opset 20 --structure-only",
}


# Other families, each as two exporters write it: NAME-dynamo, and NAME-past with a KV cache (and,
# from optimum, a mask). Some of the depths, heads and widths are divisible by two and four, some by
# neither. Windows are shorter than the tests' sequences.
FAMILIES = {
    "llama": "--layers 4 --hidden 32 --heads 8 --kv-heads 2 --ffn 24 --vocab 151 --positions 64",
    "mistral": (
        "--layers 3 --hidden 24 --heads 6 --kv-heads 3 --ffn 40 --vocab 210 --positions 64 --set"
        " sliding_window=6"
    ),
    "qwen2": (
        "--layers 4 --hidden 24 --heads 4 --kv-heads 2 --ffn 36 --vocab 211 --positions 64 --set"
        " tie_word_embeddings=true"
    ),
    "phi": "--layers 4 --hidden 24 --heads 6 --ffn 48 --vocab 199 --positions 64",
    "gpt_neox": (
        "--layers 4 --hidden 30 --heads 5 --ffn 50 --vocab 197 --positions 64 --set rotary_pct=0.4"
    ),
    "bloom": "--layers 4 --hidden 24 --heads 6 --vocab 223",
    "falcon": "--layers 4 --hidden 32 --heads 8 --ffn 48 --vocab 200 --positions 64",
    "olmo2": "--layers 4 --hidden 24 --heads 4 --ffn 34 --vocab 160 --positions 64",
    "gemma2": (
        "--layers 4 --hidden 24 --heads 4 --kv-heads 2 --head-size 8 --ffn 32 --vocab 229"
        " --positions 64 --set query_pre_attn_scalar=8 --set sliding_window=6"
    ),
    # ALiBi: the exported graph computes eight slopes, of which the six heads use six.
    "mpt": "--layers 3 --hidden 24 --heads 6 --vocab 191 --positions 64",
    # Every other layer is local, with a mask that is stored as a buffer.
    "gpt_neo": (
        "--layers 4 --hidden 24 --heads 6 --ffn 40 --vocab 181 --positions 64 --set window_size=6 "
        '--set attention_types=[[["global","local"],2]]'
    ),
    # Queries, keys and values are one matmul, and so are gate and up.
    "phi3": (
        "--layers 3 --hidden 24 --heads 6 --kv-heads 2 --ffn 28 --vocab 173 --positions 64 --set"
        " sliding_window=6"
    ),
    # Positions are counted in f32, and begin at row 2.
    "opt": "--layers 4 --hidden 24 --heads 6 --ffn 40 --vocab 157 --positions 64",
    # Every other column of half a head is rotated; sine and cosine are rows of one table.
    "gptj": (
        "--layers 3 --hidden 32 --heads 4 --ffn 44 --vocab 167 --positions 64 --set rotary_dim=4"
    ),
    # Queries, values and keys are one matmul of four blocks.
    "codegen": (
        "--layers 4 --hidden 32 --heads 4 --ffn 36 --vocab 163 --positions 64 --set rotary_dim=4"
    ),
}
MODELS = {name: f"gpt2 {arguments}" for name, arguments in MODELS.items()}
for index, (family, sizes) in enumerate(FAMILIES.items()):
    MODELS[f"{family}-dynamo"] = f"{family} --opset 20 {sizes} --seed {20 + index}"
    past = (
        "dynamo-past --opset 20"
        if family in ("bloom", "falcon", "gpt_neo", "codegen")
        else "optimum-past --opset 18"
    )
    MODELS[f"{family}-past"] = f"{family} --flavor {past} {sizes} --seed {40 + index}"
# BLOOM: ALiBi from a running sum of the mask. GPT-Neo: a window and a mask, both additive.
for index, family in enumerate(("bloom", "gpt_neo")):
    MODELS[f"{family}-optimum"] = (
        f"{family} --flavor optimum-past --opset 18 {FAMILIES[family]} --seed {80 + index}"
    )
# Deep enough for many stages.
MODELS["llama-deep"] = (
    "llama --layers 12 --hidden 16 --heads 4 --kv-heads 2 --ffn 24 --vocab 203 --positions 64"
    " --seed 60"
)
MODELS["llama-deep-past"] = MODELS["llama-deep"] + " --flavor dynamo-past"

# Families with a file of one exporter. Tests run it and generate with it
# (docs/reference/models.md).
SMALL = "--layers 3 --hidden 24 --heads 6 --ffn 40 --vocab 151 --positions 64"
GROUPED = "--layers 3 --hidden 24 --heads 6 --kv-heads 3 --ffn 40 --vocab 151 --positions 64"
SIZED = f"{GROUPED} --head-size 8"
MORE = {
    "granite": f"granite {GROUPED} --opset 20 --seed 101",
    "gemma3_text": (
        f"gemma3_text {SIZED} --set sliding_window=6 --set query_pre_attn_scalar=8 --opset 20"
        " --seed 102"
    ),
    "gemma": f"gemma {SIZED} --flavor dynamo-past --opset 20 --seed 103",
    "stablelm": f"stablelm {GROUPED} --opset 20 --seed 104",
    "gpt_bigcode": f"gpt_bigcode {SMALL} --opset 20 --seed 106",
    "olmo": f"olmo {SMALL} --flavor dynamo-past --opset 20 --seed 107",
    "cohere": f"cohere {GROUPED} --opset 20 --seed 108",
    "nemotron": f"nemotron {SIZED} --opset 20 --seed 109",
    "glm": f"glm {SIZED} --opset 20 --seed 110",
    "ernie4_5": f"ernie4_5 {SIZED} --flavor dynamo-past --opset 23 --seed 111",
    "persimmon": f"persimmon {SMALL} --opset 20 --seed 113",
    "olmo3": f"olmo3 {GROUPED} --set sliding_window=6 --opset 20 --seed 114",
    "arcee": f"arcee {GROUPED} --opset 20 --seed 115",
    "hunyuan_v1_dense": f"hunyuan_v1_dense {SIZED} --opset 20 --seed 116",
    "seed_oss": f"seed_oss {SIZED} --opset 20 --seed 118",
    "biogpt": f"biogpt {SMALL} --opset 20 --seed 119",
    "xglm": f"xglm {SMALL} --opset 20 --seed 120",
    "glm4": f"glm4 {SIZED} --opset 20 --seed 122",
    "diffllama": f"diffllama {GROUPED} --opset 20 --seed 126",
    "smollm3": f"smollm3 {GROUPED} --flavor dynamo-past --opset 20 --seed 100",
    "starcoder2": f"starcoder2 {GROUPED} --flavor dynamo-past --opset 20 --seed 105",
    "qwen3": f"qwen3 {SIZED} --flavor dynamo-past --opset 20 --seed 127",
}


def path_of(name: str) -> Path:
    return (HERE if name in MODELS else FAMILIES_FOLDER) / f"{name}.onnx"


def main() -> int:
    every = {**MODELS, **MORE}
    names = sys.argv[1:] or list(every)
    unknown = [name for name in names if name not in every]
    if unknown:
        sys.exit(f"make.py: no model named {', '.join(unknown)}; there are {', '.join(every)}")
    for name in names:
        export.main([*every[name].split(), "-o", str(path_of(name))])
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Makes the ONNX files of this directory. Needs what `python -m tpc.export` needs; tests need none of it.

    PYTHONPATH=python python test/Models/make.py [NAME …]
"""

from __future__ import annotations

import sys
from pathlib import Path

from tpc import export

HERE = Path(__file__).resolve().parent

# Everything divides by two and four.
TINY = "--layers 4 --hidden 32 --heads 4 --vocab 1000 --positions 128"
# Nothing does.
ODD = "--layers 3 --hidden 40 --heads 5 --ffn 140 --vocab 1009 --positions 64"

ERF = "--layers 2 --hidden 24 --heads 3 --vocab 257 --positions 64 --activation gelu"
# No two layers are the same function, so nothing repeats.
DIFFERING = "--layers 3 --hidden 32 --heads 4 --ffn 128,96,70 --vocab 503 --positions 64 --activation gelu_pytorch_tanh"

MODELS = {
    "gpt2-tiny": f"--opset 20 {TINY} --seed 1",
    "gpt2-odd-opset18": f"--opset 18 {ODD} --seed 2",
    "gpt2-odd-opset20": f"--opset 20 {ODD} --seed 3",
    "gpt2-odd-opset23": f"--opset 23 {ODD} --seed 4",
    "gpt2-odd-nopast": f"--flavor optimum-nopast --opset 18 {ODD} --ffn 131 --seed 5",
    "gpt2-tiny-nopast": f"--flavor optimum-nopast --opset 18 {TINY} --layers 2 --untied-head --seed 6",
    # GELU by Erf and, from opset 20 on, as ONNX's own Gelu.
    "gpt2-erf-opset18": f"--opset 18 {ERF} --seed 7",
    "gpt2-erf-opset20": f"--opset 20 {ERF} --seed 12",
    "gpt2-differing-layers": f"--opset 20 {DIFFERING} --seed 8",
    "gpt2-layer": "--opset 20 --part layer --layers 1 --hidden 40 --heads 5 --ffn 140 --vocab 8 --positions 64 --seed 9",
    "gpt2-layer-opset23": "--opset 23 --part layer --layers 1 --hidden 40 --heads 5 --ffn 140 --vocab 8 --positions 64 --seed 10",
    "gpt2-mlp": "--opset 20 --part mlp --layers 1 --hidden 40 --heads 5 --ffn 140 --vocab 8 --positions 64 --seed 11",
    # 124M parameters: the structure alone. `python -m tpc.weights` makes gpt2-124m.onnx.data.
    "gpt2-124m": "--opset 20 --structure-only",
}


def main() -> int:
    names = sys.argv[1:] or list(MODELS)
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        sys.exit(f"make.py: no model named {', '.join(unknown)}; there are {', '.join(MODELS)}")
    for name in names:
        export.main(["gpt2", "-o", str(HERE / f"{name}.onnx"), *MODELS[name].split()])
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Makes the files of experts/: mixtures of experts with random weights. Layers: 1; "looped": 2.

The exporter of transformers 5 sorts the rows of tokens by expert, and writes one MatMul per expert.
"looped" is written without torch, as torch's tracing exporter writes the loop of older models.
"granitemoe" is written by torch's dynamo exporter, which divides sorted rows by computed counts.

pip install torch transformers==5.24.0 onnx onnxscript  # granitemoe: transformers==4.57.6
python test/Models/experts.py [NAME …]
"""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "experts"

SIZES = dict(
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=2,
    intermediate_size=12,
    vocab_size=67,
    max_position_embeddings=64,
)
LATENT = dict(
    q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=8
)
# Sigmoid scores with a bias, groups of experts, a shared expert.
DEEPSEEK = dict(
    LATENT,
    moe_intermediate_size=12,
    n_routed_experts=8,
    num_experts_per_tok=3,
    n_group=4,
    topk_group=2,
    n_shared_experts=1,
    first_k_dense_replace=0,
    routed_scaling_factor=1.5,
)
MODELS = {
    "mixtral": dict(num_local_experts=5, num_experts_per_tok=2),
    "deepseek_v3": DEEPSEEK,
    # Biases, clamped activations, gate and up interleaved.
    "gpt_oss": dict(head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=4),
    # A shared expert with its own gate.
    "qwen2_moe": dict(
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=12,
        shared_expert_intermediate_size=20,
    ),
    # The router is two ArgMax.
    "phimoe": dict(num_local_experts=4, num_experts_per_tok=2),
}


GRANITE = dict(num_local_experts=4, num_experts_per_tok=2, residual_multiplier=0.7)


def make_model(name: str, sizes: dict):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(sum(map(ord, name)))
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(name, **SIZES, **sizes)
    ).eval()
    with torch.no_grad():
        for key, value in [*model.named_parameters(), *model.named_buffers()]:
            if value.dim() == 1 and "inv_freq" not in key or key.endswith("bias"):
                value.add_(0.2 * torch.randn_like(value))
            elif value.dim() > 1:
                scale = 0.5 if "gate.weight" in key or "router" in key else 0.25
                value.copy_(scale * torch.randn_like(value))
    shapes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence", min=2, max=60)}
    return model, shapes


def save(file, name: str) -> None:
    import onnx

    for item in (file, file.graph, *file.graph.node, *file.graph.value_info):
        del item.metadata_props[:]  # paths of this machine
        item.doc_string = ""
    onnx.save(file, FOLDER / f"{name}.onnx")


def make(name: str) -> None:
    import onnx_ir
    import torch
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    model, shapes = make_model(name, MODELS[name])
    inputs = dict(input_ids=torch.randint(0, SIZES["vocab_size"], (2, 9)), use_cache=False)
    config = OnnxConfig(dynamic=True, dynamic_shapes=dict(input_ids=shapes))
    save(onnx_ir.to_proto(OnnxExporter().export(model, inputs, config=config).program), name)


def make_granite() -> None:
    import onnx_ir
    import torch

    model, shapes = make_model("granitemoe", GRANITE)

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids):
            return self.model(input_ids=input_ids, use_cache=False).logits

    ids = torch.randint(0, SIZES["vocab_size"], (2, 9))
    options = dict(
        input_names=["input_ids"],
        output_names=["logits"],
        dynamic_shapes=dict(input_ids=shapes),
        opset_version=20,
    )
    program = torch.onnx.export(Logits().eval(), (ids,), dynamo=True, **options)
    save(onnx_ir.to_proto(program.model), "granitemoe")


def make_looped() -> None:
    root = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(root / "Integration"), str(root.parent / "python")]
    from expert_files import Experts
    from loop_files import save_looped

    spec = Experts(form="traced", experts=5, layers=2, hidden=16, heads=2, kv_heads=1, size=16,
                   inner=12, vocab=67)
    save_looped(spec, FOLDER / "looped.onnx")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    special = {"looped": make_looped, "granitemoe": make_granite}
    for name in sys.argv[1:] or [*MODELS, *special]:
        special[name]() if name in special else make(name)
        print(f"{name}: {(FOLDER / name).with_suffix('.onnx').stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()

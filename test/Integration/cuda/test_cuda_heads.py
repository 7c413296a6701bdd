"""Generation with the head sizes of real models. Those of the test models are smaller, so that
their rotary kernels do not compute pairs of whole sectors.
"""

import sys

import onnx
import pytest

from halves import halve
from harness import TOP, run
from simulator import FLAGS, environment

sys.path.append(str(TOP / "test" / "Benchmark"))
import gpt  # noqa: E402
import llama  # noqa: E402

LLAMA = {"layers": 2, "ffn": 64, "vocab": 100}
MODELS = {
    "llama, heads of 64": (llama, {**LLAMA, "hidden": 256, "heads": 4, "kv_heads": 2}),
    "llama, heads of 128": (llama, {**LLAMA, "hidden": 384, "heads": 3, "kv_heads": 1}),
    "gpt, heads of 64": (gpt, {"layers": 2, "hidden": 128, "heads": 2, "vocab": 100}),
}
RUN = ["--weights=random:1", f"--prompt-ids={','.join(map(str, range(1, 28, 3)))}"]


@pytest.mark.parametrize(
    "name,kind,grid",
    [
        ("llama, heads of 64", "f32", "tp1"),
        pytest.param("llama, heads of 64", "bf16", "tp1", marks=pytest.mark.long),
        *(
            pytest.param(name, kind, grid, marks=pytest.mark.long)
            for name in MODELS
            for kind in ("f32", "bf16")
            for grid in ("tp1", "tp2")
            if (name, grid) not in (("llama, heads of 64", "tp1"), ("llama, heads of 128", "tp2"))
        ),
    ],
)
def test_tokens_are_those_of_the_cpu(tpcc, tmp_path, name, kind, grid):
    """Weights are generated, with the same bits on both. bf16 is compared with itself on a grid of
    two ranks, because CPUs compute in f32.
    """
    module, sizes = MODELS[name]
    model = module.write(tmp_path / "model.onnx", **sizes)
    if kind != "f32":
        halved = halve(onnx.load(model, load_external_data=False), kind)
        model.write_bytes(halved.SerializeToString())

    def generate(shard, *flags, **env):
        program = tpcc.compile(model, shard, "--generate", *flags)
        ids = run([program.path, *RUN, "--max-new-tokens=3"], env=env).check().stdout
        assert len(ids.replace(",", " ").split()) >= 3, ids
        return ids

    ours = generate(grid, *FLAGS, **environment())
    other = generate("tp1") if kind == "f32" else generate("pp2", *FLAGS, **environment())
    assert ours == other

"""Communication of a GPT on 8 host devices: JAX (GSPMD) against tpc.

    pip install jax onnx numpy
    python test/Benchmark/compare_with_jax.py --tpcc build/bin/tpcc [--write]

--write writes docs/reference/jax-comparison.md. Its counts and bytes are the same on every machine.

JAX gets Megatron-LM's shardings of the weights and, with dp, of the ids. With sp it also gets a
sharding of the residual, which does not follow from weight shardings. JAX's collectives are parsed
from the compiled HLO.

JAX cannot split 50257 rows over 8 devices, so it replicates the embedding table and the head. tpc
is compiled with both annotated as replicated, and also with its own choice. The program fails if
tpc sends more than JAX with the same splits.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 " + os.environ.get(
    "XLA_FLAGS", ""
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import gpt  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "jax-comparison.md"
INTRODUCTION = """\
<!-- Written by test/Benchmark/compare_with_jax.py --write; do not edit. -->

# Collectives compared with JAX

[Communication](../design/communication.md#compared-with-jax) describes the comparison.

"""
LAYERS, HIDDEN, HEADS, POSITIONS = 2, 256, 8, 64
BATCH, SEQUENCE = 8, 32
KINDS = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "collective-permute": "permute",
}
BYTES = {"f32": 4, "s32": 4, "u32": 4, "pred": 1, "s64": 8, "bf16": 2, "f16": 2}


def make_weights(vocab: int, vocab_axis: str | None):
    """Returns name -> (shape, sharding)."""
    weights = {
        "wte": ((vocab, HIDDEN), P(vocab_axis, None)),
        "wpe": ((POSITIONS, HIDDEN), P()),
        "lm_head": ((HIDDEN, vocab), P(None, vocab_axis)),
        "ln_f.w": ((HIDDEN,), P()),
        "ln_f.b": ((HIDDEN,), P()),
    }
    for i in range(LAYERS):
        for part in "qkv":
            weights[f"{i}.{part}.w"] = (HIDDEN, HIDDEN), P(None, "tp")
            weights[f"{i}.{part}.b"] = (HIDDEN,), P("tp")
        weights[f"{i}.proj.w"] = (HIDDEN, HIDDEN), P("tp", None)
        weights[f"{i}.fc1.w"] = (HIDDEN, 4 * HIDDEN), P(None, "tp")
        weights[f"{i}.fc1.b"] = (4 * HIDDEN,), P("tp")
        weights[f"{i}.fc2.w"] = (4 * HIDDEN, HIDDEN), P("tp", None)
        for name in ("proj.b", "fc2.b", "ln1.w", "ln1.b", "ln2.w", "ln2.b"):
            weights[f"{i}.{name}"] = (HIDDEN,), P()
    return weights


def forward(w, ids, residual: str, constrain):
    def norm(x, name):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * w[f"{name}.w"] + w[f"{name}.b"]

    def linear(x, name):
        return x @ w[f"{name}.w"] + w[f"{name}.b"]

    batch, length = ids.shape
    mask = jnp.where(jnp.tril(jnp.ones((length, length), bool)), 0.0, -jnp.inf)

    def attention(x, i):
        q, k, v = (
            linear(x, f"{i}.{part}").reshape(batch, length, HEADS, -1).transpose(0, 2, 1, 3)
            for part in "qkv"
        )
        scores = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(HIDDEN // HEADS) + mask, -1)
        return linear(
            (scores @ v).transpose(0, 2, 1, 3).reshape(batch, length, HIDDEN), f"{i}.proj"
        )

    def mlp(x, i):
        return linear(jax.nn.gelu(linear(x, f"{i}.fc1"), approximate=True), f"{i}.fc2")

    x = constrain(w["wte"][ids] + w["wpe"][:length])
    for i in range(LAYERS):
        if residual == "serial":
            x = constrain(x + attention(norm(x, f"{i}.ln1"), i))
            x = constrain(x + mlp(norm(x, f"{i}.ln2"), i))
        else:
            y = norm(x, f"{i}.ln1")
            x = constrain(
                mlp(y if residual == "shared" else norm(x, f"{i}.ln2"), i) + attention(y, i) + x
            )
    return norm(x, "ln_f") @ w["lm_head"]


def group_size(attributes: str) -> int:
    """Returns the members of a group in HLO's syntax: a list, a tiling, or axes of a mesh."""
    if listed := re.search(r"replica_groups=\{\{([\d,]+)\}", attributes):
        return len(listed.group(1).split(","))
    if tiling := re.search(r"replica_groups=\[\d+,(\d+)\]", attributes):
        return int(tiling.group(1))
    if mesh := re.search(
        r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\([^ ]*\))? \{([^}]*)\}", attributes
    ):
        sizes = dict(re.findall(r"('\w+')=(\d+)", mesh.group(1)))
        parts = re.findall(r"('\w+')(?::\(\d+\)(\d+))?", mesh.group(2))
        return int(np.prod([int(part or sizes[axis]) for axis, part in parts]))
    raise ValueError(f"cannot read the groups of: {attributes}")


def sent_share(kind: str, members: int) -> float:
    """Returns the share of the whole buffer that a rank sends (include/tpc/Support/Links.h)."""
    if kind == "permute":
        return 1
    return (2 if kind == "all_reduce" else 1) * (members - 1) / members


def jax_collectives(hlo: str):
    """Yields (kind, operands, buffer bytes, bytes that a device sends) of each collective."""
    pattern = re.compile(
        r"= (\(?[^=]*?\)?) (" + "|".join(KINDS) + r")(?:-start)?\((.*)$", re.MULTILINE
    )
    # Long tuples contain comments.
    for types, name, rest in pattern.findall(re.sub(r"/\*index=\d+\*/", "", hlo)):
        kind = KINDS[name]
        members = 1 if kind == "permute" else group_size(rest)
        shapes = re.findall(r"(\w+)\[([\d,]*)\]", types)
        sizes = [
            BYTES[dtype] * int(np.prod([int(n) for n in dims.split(",") if n] or [1]))
            for dtype, dims in shapes
        ]
        whole = sum(sizes) * (members if kind == "reduce_scatter" else 1)
        yield kind, len(sizes), whole, whole * sent_share(kind, members)


def run_jax(grid: dict, sp: bool, vocab: int, residual: str):
    devices = np.array(jax.devices()[:8]).reshape(grid["dp"], grid["tp"])
    mesh = Mesh(devices, ("dp", "tp"))
    splits = vocab % grid["tp"] == 0
    weights = make_weights(vocab, "tp" if splits else None)
    shapes = {
        name: jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, split))
        for name, (shape, split) in weights.items()
    }
    ids = jax.ShapeDtypeStruct(
        (BATCH, SEQUENCE), jnp.int32, sharding=NamedSharding(mesh, P("dp", None))
    )

    def constrain(x):
        return (
            jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("dp", "tp", None)))
            if sp
            else x
        )

    hlo = (
        jax.jit(lambda w, ids: forward(w, ids, residual, constrain))
        .lower(shapes, ids)
        .compile()
        .as_text()
    )
    return list(jax_collectives(hlo)), splits


def run_tpc(tpcc: Path, shard: str, vocab: int, residual: str, whole_vocab: bool):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model = gpt.write(
            folder / "gpt.onnx",
            layers=LAYERS,
            hidden=HIDDEN,
            heads=HEADS,
            vocab=vocab,
            positions=POSITIONS,
            residual=residual,
        )
        arguments = [
            tpcc,
            model,
            f"--megatron-shard={shard}",
            f"--report={folder / 'report.json'}",
            "--shape",
            f"batch={BATCH},sequence={SEQUENCE}",
        ]
        if whole_vocab:
            (folder / "whole.txt").write_text("wte: [-, -]\nlm_head: [-, -]\n")
            arguments.append(f"--annotations={folder / 'whole.txt'}")
        subprocess.run(arguments, check=True)
        rows = json.loads((folder / "report.json").read_text())["collectives"]
    sizes = {name: int(size) for name, size in re.findall(r"(tp|dp)(\d+)", shard)}
    # Collectives have one operand. Logits stay sharded, in JAX too.
    return [
        (
            row["kind"],
            row["count"],
            row["bytes"],
            row["bytes"] * sent_share(row["kind"], sizes[row["axis"]]),
        )
        for row in rows
        if row["axis"] != "output"
    ]


def describe(collectives, counts_are_operands: bool) -> tuple[str, str, float]:
    """Returns table cells: kinds, KiB of whole buffers, bytes sent."""
    operations, operands = Counter(), Counter()
    for kind, count, _, _ in collectives:
        operations[kind] += count if counts_are_operands else 1
        operands[kind] += count
    text = (
        ", ".join(
            f"{operations[kind]} {kind}"
            + (f" of {operands[kind]} operands" if operands[kind] != operations[kind] else "")
            for kind in sorted(operations)
        )
        or "none"
    )
    return text, f"{sum(c[2] for c in collectives) / 1024:g}", sum(c[3] for c in collectives)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tpcc", type=Path, required=True)
    parser.add_argument("--write", action="store_true", help="write the page of the table")
    args = parser.parse_args()
    version = subprocess.run(
        [args.tpcc, "--version"], capture_output=True, text=True, check=True
    ).stdout.split("\n")[0]
    lines = [
        textwrap.fill(
            f"jax {jax.__version__}, jaxlib {jax.lib.__version__}; {version.strip()}. {LAYERS}"
            f" layers, width {HIDDEN}, {HEADS} heads, batch {BATCH}, sequence {SEQUENCE}, f32. KiB:"
            " whole buffers; sent: KiB that one rank sends, counted as rings.",
            100,
        ),
        "",
        "| residual | grid | vocabulary | JAX | KiB | sent | tpc | KiB | sent |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    above = []
    for residual in gpt.RESIDUALS:
        for shard in ("tp8", "tp4,dp2", "tp8,sp", "tp4,dp2,sp"):
            for vocab in (50304, 50257):
                grid = {"dp": 2 if "dp2" in shard else 1, "tp": 4 if "tp4" in shard else 8}
                collectives, splits = run_jax(grid, "sp" in shard, vocab, residual)
                text, size, sent = describe(collectives, False)
                for whole in [False] if splits else [True, False]:
                    mine, my_size, my_sent = describe(
                        run_tpc(args.tpcc, shard, vocab, residual, whole), True
                    )
                    comparable = splits or whole
                    note = (
                        "split"
                        if splits
                        else "whole in both" if whole else "whole in JAX, split in tpc"
                    )
                    lines.append(
                        f"| {residual} | {shard} | {vocab}, {note} | {text} | {size} |"
                        f" {sent / 1024:g} | {mine} | {my_size} | {my_sent / 1024:g} |"
                    )
                    print(lines[-1], flush=True)
                    if comparable and my_sent > sent * 1.000001:
                        above.append(lines[-1])
    if args.write:
        PAGE.write_text(INTRODUCTION + "\n".join(lines) + "\n")
    for line in above:
        print("tpc sends more:", line, file=sys.stderr)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())

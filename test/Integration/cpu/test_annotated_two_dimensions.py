"""Annotations over tpx and tpy, in any order and on any tensor: results equal ONNX Runtime's.

No combination causes an endless search or splits an operand that a norm needs whole.
"""

import itertools

import pytest

from models import FAMILIES, COMMITTED
from tpc.reference import TOLERANCE, difference

ENTRIES = ["-", "?", "tpx", "tpy", "tpx+tpy", "tpy+tpx"]
# Pattern -> number of dimensions. Tensors are a head, a table, matmuls of both kinds, a norm, and
# biases of both kinds.
TENSORS = {
    "gpt2-tiny-nopast": {
        "onnx::MatMul_659": 2,
        "transformer.wte.weight": 2,
        "transformer.wpe.weight": 2,
        "*.attn.c_attn.weight": 2,
        "*.attn.c_proj.weight": 2,
        "*.mlp.c_fc.weight": 2,
        "*.mlp.c_proj.weight": 2,
        "*.ln_1.weight": 1,
        "*.mlp.c_fc.bias": 1,
        "*.attn.c_proj.bias": 1,
    },
    "llama-dynamo": {
        "val_879": 2,
        "model.model.embed_tokens.weight": 2,
        "val_144": 2,
        "val_312": 2,
    },
    "olmo2-past": {"*.q_norm.weight": 1},
}
DEFAULT = [
    ("gpt2-tiny-nopast", "*.mlp.c_fc.weight", "?, tpx+tpy"),
    ("gpt2-tiny-nopast", "transformer.wpe.weight", "tpx+tpy, ?"),
    ("gpt2-tiny-nopast", "*.mlp.c_fc.bias", "tpx+tpy"),
    ("gpt2-tiny-nopast", "*.attn.c_attn.weight", "tpy, tpx"),
    ("llama-dynamo", "val_879", "tpx, tpy"),
    ("llama-dynamo", "val_879", "tpy, tpx"),
    ("llama-dynamo", "val_879", "tpy, ?"),
    ("llama-dynamo", "model.model.embed_tokens.weight", "tpx, tpy"),
    ("olmo2-past", "*.q_norm.weight", "tpx+tpy"),
]


def combinations():
    for name, tensors in TENSORS.items():
        for pattern, rank in tensors.items():
            for entries in itertools.product(ENTRIES, repeat=rank):
                used = [
                    axis for entry in entries for axis in entry.split("+") if axis.startswith("tp")
                ]
                if used and len(used) == len(set(used)):
                    yield name, pattern, ", ".join(entries)


CASES = list(combinations())


@pytest.mark.parametrize(
    "name, pattern, entries",
    [pytest.param(*case, marks=[] if case in DEFAULT else pytest.mark.long) for case in CASES],
)
@pytest.mark.parametrize("grid", ["tp2x2", pytest.param("tp2x2,manual", marks=pytest.mark.long)])
def test_numbers(tpcc, tmp_path, name, pattern, entries, grid):
    model = {**COMMITTED, **FAMILIES}[name]
    (tmp_path / "a.txt").write_text(f"{pattern}: [{entries}]\n")
    inputs = model.inputs(2, 5)
    program = tpcc.compile(model.path, grid, f"--annotations={tmp_path / 'a.txt'}", "-O0")
    assert (
        difference(program.run(inputs)[model.output], model.expected(inputs)).relative <= TOLERANCE
    )


def test_default_cases_exist():
    assert set(DEFAULT) <= set(CASES)


def test_one_axis_on_two_dimensions(tpcc, tmp_path):
    """The message names the line and both positions in it."""
    (tmp_path / "a.txt").write_text("# head\nval_879: [tpx+tpy, tpy]\n")
    tpcc.call(
        [
            FAMILIES["llama-dynamo"].path,
            "--megatron-shard=tp2x2",
            f"--annotations={tmp_path / 'a.txt'}",
            "-o",
            tmp_path / "x",
        ]
    ).refused("a.txt:2:20", "'tpy' splits two dimensions", "column 15")

"""Bytes that a device sends for a reshard of a matrix: JAX (GSPMD) against tpc.

    pip install "jax[cpu]" numpy pytest
    TPC_BUILD=build python test/Benchmark/reshards_with_jax.py

Covers all 110 ordered pairs of layouts over two axes, on grids of 2x2 and 2x4. JAX's collectives
are parsed from the compiled HLO; tpc's are counted by the running program. Prints the pairs in
which tpc sends more than JAX, or more than the lower bound (the bytes that the rank with the most
missing elements receives). Fails if tpc sends more than JAX for any pair.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
import tempfile
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 " + os.environ.get(
    "XLA_FLAGS", ""
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path[:0] = [
    str(Path(__file__).resolve().parents[1] / "Integration" / part) for part in ("", "cpu")
]

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P  # noqa: E402

from compare_with_jax import jax_collectives  # noqa: E402
from test_annotated_layouts import LAYOUTS, SIZES  # noqa: E402
from test_reshards import GRIDS, bound_of, received_of  # noqa: E402


def jax_sent(first, second, grid):
    devices = np.array(jax.devices()[: grid["tp"] * grid["dp"]]).reshape(grid["dp"], grid["tp"])
    mesh = Mesh(devices, ("dp", "tp"))
    first, second = (
        NamedSharding(
            mesh, P(*(None if entry == "-" else tuple(entry.split("+")) for entry in layout))
        )
        for layout in (first, second)
    )
    x = jax.ShapeDtypeStruct(SIZES, jnp.float32, sharding=first)
    hlo = (
        jax.jit(lambda x: -x, in_shardings=first, out_shardings=second).lower(x).compile().as_text()
    )
    # A permute that moves no data does not count as communication.
    pairs = r"collective-permute\([^\n]*source_target_pairs=\{((?:\{(\d+),\2\},?)*)\}"
    hlo = "\n".join(line for line in hlo.splitlines() if not re.search(pairs, line))
    return sum(sent for *_, sent in jax_collectives(hlo))


def main() -> int:
    num_more = 0
    for name, grid in GRIDS.items():
        total, num_less = [0, 0, 0], 0
        for pair in itertools.permutations(LAYOUTS, 2):
            with tempfile.TemporaryDirectory() as folder:
                sent = received_of(Path(folder), name, [pair])
            sent_by_jax, bound = jax_sent(*pair, grid), bound_of(*pair, grid)
            total = [a + b for a, b in zip(total, (sent, sent_by_jax, bound))]
            num_less += sent < sent_by_jax
            if sent > bound or sent > sent_by_jax:
                print(
                    f"{name}: {pair[0]} to {pair[1]}: tpc {sent} B, JAX {sent_by_jax:.0f} B, bound"
                    f" {bound} B"
                )
            num_more += sent > sent_by_jax
        print(
            f"{name}: tpc {total[0]} B, JAX {total[1]:.0f} B, bound {total[2]} B in all; tpc sends"
            f" less in {num_less} pairs"
        )
    print(f"tpc sends more than JAX in {num_more} pairs")
    return 1 if num_more else 0


if __name__ == "__main__":
    sys.exit(main())

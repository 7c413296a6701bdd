"""Programs with `--overlap` on GPU ranks: all-reduces of chunks run on a second stream."""

import collections

import pytest

from harness import Grid
from models import COMMITTED
from simulator import FLAGS, environment
from test_cuda_families import check

TINY = COMMITTED["gpt2-tiny"]
ROWS = (8, 16)  # enough for four chunks


@pytest.mark.parametrize(
    "grid,chunks",
    [
        ("tp2", "on"),
        pytest.param("tp3", "2", marks=pytest.mark.long),
        pytest.param("tp2,pp2,mb2", "8", marks=pytest.mark.long),
        pytest.param("tp2x2", "3", marks=pytest.mark.long),
    ],
)
def test_numbers(tpcc, request, grid, chunks):
    """Equal to ONNX Runtime on streams that the simulator delays, in first and replayed steps."""
    executable = tpcc.compile(TINY.path, Grid.parse(grid), *FLAGS, f"--overlap={chunks}")
    for seed in range(10 if request.config.getoption("tests") == "long" else 3):
        check(executable, TINY, seed, "tcp" if seed == 1 else "threads")


@pytest.mark.parametrize("overlap", ["off", "on"])
def test_streams(tpcc, tmp_path, overlap):
    """All-reduces of chunks are on another stream than that of the embedding."""
    executable = tpcc.compile(TINY.path, Grid(tp=2), *FLAGS, f"--overlap={overlap}")
    trace = tmp_path / "trace"
    executable.run_all([TINY.inputs(*ROWS)], ["logits"], env=environment(TPC_SIM_TRACE=trace))
    ranks = collections.defaultdict(collections.Counter)
    for line in trace.read_text().splitlines():
        process, thread, call, *_, stream = line.split()
        if call == "ncclAllReduce":
            ranks[process, thread][stream] += 1
    assert len(ranks) == 2
    for counts in ranks.values():
        # Two all-reduces in each layer, of four chunks with the flag. That of the embedding and the
        # first use of the communicator are on the stream of kernels.
        chunked = [4 * 2 * TINY.layers] if overlap == "on" else []
        others = 2 if chunked else 2 + 2 * TINY.layers
        assert sorted(counts.values()) == [others, *chunked]

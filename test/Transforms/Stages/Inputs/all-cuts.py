"""Comparison of the chosen stage cuts with all others.

    all-cuts.py SPMD.mlir STAGES

Runs tpc-split-stages with its own choice, then with every set of cuts. Fails if one of these has a
faster slowest stage.
"""

import itertools
import re
import subprocess
import sys


def slowest(path, cuts=None):
    option = "" if cuts is None else "=cuts=" + ",".join(map(str, cuts))
    run = subprocess.run(
        ["tpc-opt", path, "--tpc-split-stages" + option], capture_output=True, text=True
    )
    if run.returncode != 0:
        assert "cut points" in run.stderr, run.stderr
        return None
    return max(float(s) for s in re.findall(r"tpc.seconds = ([-+.eE0-9]+)", run.stdout))


path, stages = sys.argv[1], int(sys.argv[2])
chosen = slowest(path)
places = 0
while slowest(path, [*range(stages - 2), stages - 2 + places]) is not None:
    places += 1
places += stages - 2
others = [slowest(path, cuts) for cuts in itertools.combinations(range(places), stages - 1)]
assert len(others) > 1 and chosen <= min(others) * (1 + 1e-9), (chosen, min(others))
assert max(others) > chosen, "all ways are equal: this shows nothing"
print(f"best of {len(others)} ways")

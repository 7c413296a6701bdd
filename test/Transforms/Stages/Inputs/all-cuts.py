"""Compares the stage cuts that tpc-split-stages chooses with all others.

    all-cuts.py SPMD.mlir STAGES

Runs tpc-split-stages with its own choice, then with every set of cuts. Fails if another set has a
slowest stage that takes less time.
"""

import itertools
import re
import subprocess
import sys


def slowest_stage(path, cuts=None):
    """Returns the seconds of the slowest stage, or None if there are no such cut positions."""
    option = "" if cuts is None else "=cuts=" + ",".join(map(str, cuts))
    run = subprocess.run(
        ["tpc-opt", path, "--tpc-split-stages" + option], capture_output=True, text=True
    )
    if run.returncode != 0:
        assert "cut points" in run.stderr, run.stderr
        return None
    return max(float(s) for s in re.findall(r"tpc.seconds = ([-+.eE0-9]+)", run.stdout))


path, stages = sys.argv[1], int(sys.argv[2])
chosen = slowest_stage(path)
positions = 0
while slowest_stage(path, [*range(stages - 2), stages - 2 + positions]) is not None:
    positions += 1
positions += stages - 2
others = [
    slowest_stage(path, cuts) for cuts in itertools.combinations(range(positions), stages - 1)
]
assert len(others) > 1 and chosen <= min(others) * (1 + 1e-9), (chosen, min(others))
assert max(others) > chosen, "all sets of cuts are equal, so this test shows nothing"
print(f"best of {len(others)} ways")

"""Passes name no axis, except tactics about an axis, and do not parse grids."""

import re

from harness import TOP

AXES = "tp|cp|ep|dp|pp|etp|edp|tpx|tpy|mb"
# Parsers and printers of --megatron-shard are in Support, Driver and Plan; seeded faults in Mutate.
OUTSIDE = ("lib/Support", "include/tpc/Support", "lib/Driver", "lib/Plan", "lib/Verify/Mutate")
EXPECTED = {
    # Constants for the axes of tpc.pipeline and for the view of replicas.
    "include/tpc/Dialect/Tpc": {"dp", "mb", "pp"},
    # Tactics, and what they prepare.
    "AnnotationTactic": {"tp", "tpy"},
    "DataTactic": {"dp", "ep", "mb"},
    "DecomposeNorms": {"tp"},
    "ExpertsTactic": {"dp", "ep"},
    "RegroupSums": {"tp", "tpy"},
    "RepeatKvHeads": {"tp"},
    "RowsTactic": {"tp", "tpx", "tpy"},
    "SequenceTactic": {"tp"},
    "Tactic": {"dp", "ep", "tp"},  # names of tactics
    "TensorTactic": {"etp", "tp", "tpy"},
}


def test_axis_names():
    found = {}
    for path in sorted([*(TOP / "lib").rglob("*"), *(TOP / "include").rglob("*")]):
        name = path.relative_to(TOP).with_suffix("").as_posix()
        if path.suffix not in (".cpp", ".h") or name.startswith(OUTSIDE):
            continue
        code = re.sub(r"//.*", "", path.read_text())
        if names := set(re.findall(f'"({AXES})"', code)):
            found.setdefault(name.removeprefix("lib/Transforms/Tactics/"), set()).update(names)
    assert found == EXPECTED


def test_parser():
    """Passes have options of type ShardSpec (ShardOption.h)."""
    folders = {
        path.relative_to(TOP / "lib").parts[0]
        for path in (TOP / "lib").rglob("*.cpp")
        if "ShardSpec::parse(" in path.read_text()
    }
    assert folders == {"Driver", "Support"}

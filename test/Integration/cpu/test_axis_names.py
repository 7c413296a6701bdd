"""Passes name no axis, except tactics and reports about an axis, and do not parse grids."""

import re

from harness import TOP

# The axes pp and mb are those of tpc.pipeline and of its schedule.
AXES = "tp|cp|ep|dp|etp|edp|tpx|tpy"
# Parsers and printers of --megatron-shard are in Support, Driver and Plan; seeded faults in Mutate.
OUTSIDE = ("Support", "Driver", "Plan", "Verify/Mutate")
TACTICS = {
    "AnnotatedHeads": {"tp"},
    "AnnotationTactic": {"tp", "tpy"},
    "DataTactic": {"dp", "ep"},
    "DecomposeNorms": {"tp"},
    "ExpertsTactic": {"dp", "ep"},
    "RegroupSums": {"tp", "tpy"},
    "RepeatKvHeads": {"tp"},
    "RowsTactic": {"tp", "tpx", "tpy"},
    "SequenceTactic": {"tp"},
    "Tactic": {"dp", "ep", "tp"},  # names of tactics
    "TensorTactic": {"etp", "tp", "tpy"},
}
OTHERS = {
    "Analysis/CheckLinks": {"tp", "tpx"},  # warns of groups of tp
    "Analysis/Nominal": {"dp"},  # one sample for each replica
    "Conversion/Manifest": {"tp", "tpx"},  # the label sequence_parallel
    "Verify/Equivalence/SmallSizes": {"dp"},  # replicas run the same program
    "Verify/Lowered/CompareLowered": {"tpx", "tpy"},  # which split no tokens
}


def test_axis_names():
    found = {}
    for path in sorted((TOP / "lib").rglob("*")):
        name = path.relative_to(TOP / "lib").with_suffix("").as_posix()
        if path.suffix not in (".cpp", ".h") or name.startswith(OUTSIDE):
            continue
        code = re.sub(r"//.*", "", path.read_text())
        if names := set(re.findall(f'"({AXES})"', code)):
            found.setdefault(name, set()).update(names)
    expected = {f"Transforms/Tactics/{name}": axes for name, axes in TACTICS.items()} | OTHERS
    assert found == expected


def test_parser():
    """Passes have options of type ShardSpec (ShardOption.h)."""
    folders = {
        path.relative_to(TOP / "lib").parts[0]
        for path in (TOP / "lib").rglob("*.cpp")
        if "ShardSpec::parse(" in path.read_text()
    }
    assert folders == {"Driver", "Support"}

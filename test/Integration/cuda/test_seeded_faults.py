"""Seeded faults in the GPU runtime (seeded_faults.py): the checks over the simulator find them."""

import os
import sys
from pathlib import Path

import pytest

from harness import run

TOOL = Path(__file__).resolve().with_name("seeded_faults.py")


def read_and_locate():
    """Returns the listed faults, and errors of edits that do not match the sources exactly once."""
    import seeded_faults

    texts, stale = seeded_faults.all_texts(), []
    chosen = seeded_faults.read_list(seeded_faults.LIST.read_text())
    for fault in chosen:
        try:
            seeded_faults.find(fault, texts)
        except LookupError as error:
            stale.append(str(error))
    return chosen, stale


def test_edits_apply():
    """Each edit applies to the current sources of the runtime."""
    chosen, stale = read_and_locate()
    assert not stale, "\n".join(stale)
    assert len(chosen) >= 200
    assert len({(fault.old, fault.new) for fault in chosen}) == len(chosen)


def test_an_edit_applies_once():
    import seeded_faults

    file = seeded_faults.files_of("links")[0]
    texts = {path: "" for path in seeded_faults.files_of("links")} | {
        file: "if (a == // reason\n    b)\n  return xb; // b\n"
    }
    (one,) = seeded_faults.read_list("[links test]\n# no\na == b => a != b\n= why\n")
    assert one.equal_because == "why" and seeded_faults.find(one, texts) == (
        file,
        "if (a != b)\n  return xb; // b\n",
    )
    for line, count in (("c => d", 0), ("b => d", 2)):
        with pytest.raises(LookupError, match=f"occurs {count} times"):
            seeded_faults.find(seeded_faults.read_list(f"[links test]\n{line}\n")[0], texts)


@pytest.mark.long
def test_faults_are_found():
    """Seeded faults cause findings of the simulator, so findings must not fail this test."""
    assert not read_and_locate()[1]
    run(
        [sys.executable, TOOL, "--jobs", "2"],
        timeout=4 * 3600,
        env={"TPC_SIM_FINDINGS": os.devnull},
    ).check()

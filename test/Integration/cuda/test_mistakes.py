"""Seeded faults in the GPU runtime (mistakes.py): the checks over the simulator find them."""

import os
import sys
from pathlib import Path

import pytest

from harness import run

TOOL = Path(__file__).resolve().with_name("mistakes.py")


def apply():
    import mistakes

    texts, stale = mistakes.all_texts(), []
    chosen = mistakes.read_list(mistakes.LIST.read_text())
    for mistake in chosen:
        try:
            mistakes.find(mistake, texts)
        except LookupError as error:
            stale.append(str(error))
    return chosen, stale


def test_edits_apply():
    """Each edit applies to the current sources of the runtime."""
    chosen, stale = apply()
    assert not stale, "\n".join(stale)
    assert len(chosen) >= 200
    assert len({(mistake.old, mistake.new) for mistake in chosen}) == len(chosen)


def test_an_edit_applies_once():
    import mistakes

    file = mistakes.files_of("links")[0]
    texts = {path: "" for path in mistakes.files_of("links")} | {
        file: "if (a == // reason\n    b)\n  return xb; // b\n"
    }
    (one,) = mistakes.read_list("[links test]\n# no\na == b => a != b\n= why\n")
    assert one.equal == "why" and mistakes.find(one, texts) == (
        file,
        "if (a != b)\n  return xb; // b\n",
    )
    for line, count in (("c => d", 0), ("b => d", 2)):
        with pytest.raises(LookupError, match=f"occurs {count} times"):
            mistakes.find(mistakes.read_list(f"[links test]\n{line}\n")[0], texts)


@pytest.mark.long
def test_faults_are_found():
    """The simulator's findings show that faults are detected, and do not fail this test."""
    assert not apply()[1]
    run(
        [sys.executable, TOOL, "--jobs", "2"],
        timeout=4 * 3600,
        env={"TPC_SIM_FINDINGS": os.devnull},
    ).check()

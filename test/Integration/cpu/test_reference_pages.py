"""Pages of docs/reference: a program of the repository writes each page, and the page names it."""

import re

import pytest

from harness import TOP

PAGES = sorted((TOP / "docs" / "reference").glob("*.md"))
# A page that also has text by hand has marks around the table that the program writes.
MARKS = r"<!-- (?:Written by|\w+:) (\S+\.py|test/Integration/cuda/run)\b"
# Tables of measurements, with the pattern of the machine that they must state.
MEASURED = {"gpu-results.md": r"H100|H200", "gpu-kernel-resources.md": r"sm_80, sm_90, sm_100"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_program_writes_the_page(page):
    found = re.search(MARKS, page.read_text())
    assert found, "no program writes it: move it to docs/dev or docs/design"
    program = TOP / found[1]
    assert program.is_file(), f"there is no {found[1]}"
    sources = [program, *program.parent.glob("one_gpu/*.py")]
    assert any(page.name in source.read_text() for source in sources), f"{found[1]}: another page"


@pytest.mark.parametrize("name", MEASURED)
def test_measurements_state_their_conditions(name):
    text = (TOP / "docs" / "reference" / name).read_text()
    assert re.search(MEASURED[name], text)
    assert name != "gpu-results.md" or re.search(r"\b20\d\d-\d\d-\d\d\b", text)

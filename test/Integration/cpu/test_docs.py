"""What README.md and docs/ show of a terminal is what is to be seen there; what they name is there; lines fit."""

import re
import shutil
import sys

import numpy as np
import pytest

from harness import BUILD, TOP, run
from models import COMMITTED

WRITTEN = [path for path in [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").rglob("*.md"))]
           if "do not edit" not in path.read_text()[:200]]
PAGES = [path for path in WRITTEN if re.search(r"^    \$ ", path.read_text(), re.M)]


def terminals(text):
    """(command, what it prints) of the indented blocks, in the page's order. Commands without a `$` only succeed."""
    for block in re.findall(r"(?:^    .*\n)+", re.sub(r"\\\n +", "", text), re.M):
        if "    $ " not in block:
            yield from ((line.strip(), []) for line in block.splitlines() if re.match(r"    (build/bin/|\./model|mpirun)", line))
        for command, printed in re.findall(r"^    \$ (.*)\n((?:    (?!\$ ).*\n)*)", block, re.M):
            yield command, [line[4:] for line in printed.splitlines()]


def pattern(lines):
    """`…` stands for anything, here and in the page; the noise of rounding may be another."""
    text = re.sub(r"(?<=max \|difference\| ).*?\]", "…", "\n".join(lines).replace("\n…\n", "…"))
    return re.escape(text.replace("…", "\0")).replace("\0", "(?s:.*)")


def test_there_are_such_pages():
    assert {path.name for path in PAGES} >= {"README.md", "getting-started.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_terminals(tpcc, mpi, tmp_path, page):
    """In a folder where everything is where the page says: the repository's, and a model.onnx with its ids."""
    for name, target in [("build", BUILD), ("test", TOP / "test"), ("python", TOP / "python"), (".venv", sys.prefix)]:
        (tmp_path / name).symlink_to(target)
    model = COMMITTED["gpt2-tiny"]
    shutil.copy(model.path, tmp_path / "model.onnx")
    np.save(tmp_path / "ids.npy", model.inputs(2, 7)["input_ids"])
    for command, lines in terminals(page.read_text()):
        result = run(["bash", "-c", f"PATH=$PWD/build/bin:$PATH; {command}"], cwd=tmp_path)
        if not any("error" in line for line in lines):
            result.check()
        shown = result.stdout + result.stderr
        assert re.search(pattern(lines), shown), f"{page.name} shows for\n$ {command}\n" + "\n".join(lines) + f"\nand it is\n{shown}"


def anchors(page):
    """What `#…` may follow a link to the page: its headings, as GitHub spells them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", page.read_text(), re.M)}


@pytest.mark.parametrize("page", sorted({*WRITTEN, *(TOP / "docs").rglob("*.md")}), ids=lambda path: path.name)
def test_links(page):
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not name.startswith("http") and not (target.exists() and (not anchor or anchor in anchors(target))):
            wrong.append(link)
    assert not wrong, f"{page.name} links to what is not there: {', '.join(wrong)}"


@pytest.mark.parametrize("page", WRITTEN, ids=lambda path: path.name)
def test_lines_fit_and_files_are_there(page):
    """Tables may be wider. `X` in a path stands for any folder; paths with braces or `…` are not looked at."""
    text = page.read_text()
    wide = [line for line in text.splitlines() if len(line) > 100 and not line.startswith("|")]
    assert not wide, f"{page.name} has lines of more than 100 columns:\n" + "\n".join(wide)
    paths = re.findall(r"`((?:lib|include|test|tools|runtime|docs|python)/[\w./*-]+)`", text)
    files = re.findall(r"`(\w+\.(?:cpp|h|td|py|mlir|test|md))`", text)
    sources = {path.name for top in ("lib", "include", "runtime", "test", "tools", "docs") for path in (TOP / top).rglob("*")}
    missing = [path for path in paths if "X" not in path.split("/") and not any(TOP.glob(path))]
    missing += [name for name in files if name not in sources]
    assert not missing, f"{page.name} names what is not there: {', '.join(missing)}"

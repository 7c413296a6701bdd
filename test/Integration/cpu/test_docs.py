"""What README.md and docs/ show of a terminal is what is to be seen there."""

import re
import shutil
import sys

import numpy as np
import pytest

from harness import BUILD, TOP, run
from models import COMMITTED

PAGES = [path for path in [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]
         if re.search(r"^    \$ ", path.read_text(), re.M)]


def terminals(text):
    """(command, what it prints) of the indented blocks, in the page's order. Commands without a `$` only succeed."""
    for block in re.findall(r"(?:^    .*\n)+", text, re.M):
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

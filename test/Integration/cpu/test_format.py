"""Formatting of C++ sources (.clang-format). test_layering.py checks includes."""

import shutil
import subprocess

from harness import TOP

FOLDERS = ("include", "lib", "runtime", "test", "tools")


def sources(*suffixes):
    found = [
        path
        for folder in FOLDERS
        for path in sorted((TOP / folder).rglob("*"))
        if path.suffix in suffixes
    ]
    assert found
    return found


def test_clang_format():
    """clang-format-22 -i FILE fixes it."""
    tool = shutil.which("clang-format-22")
    assert tool, "clang-format-22 is not installed: ./setup installs it"
    run = subprocess.run(
        [tool, "--dry-run", "-Werror", *sources(".cpp", ".h", ".c")], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr

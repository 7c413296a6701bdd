"""Formatting of C++ sources (.clang-format). test_layering.py checks includes."""

import hashlib
import shutil
import subprocess

from harness import BUILD, TOP

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
    """clang-format-22 -i FILE fixes it. The build folder records the digests of formatted files."""
    tool = shutil.which("clang-format-22")
    assert tool, "clang-format-22 is not installed: ./setup installs it"
    style = subprocess.run([tool, "--version"], capture_output=True, check=True).stdout
    style += (TOP / ".clang-format").read_bytes()
    digests = {
        path: hashlib.sha256(style + path.suffix.encode() + path.read_bytes()).hexdigest()
        for path in sources(".cpp", ".h", ".c")
    }
    record = BUILD / "test" / "formatted"
    known = set(record.read_text().split()) if record.exists() else set()
    changed = [path for path, digest in digests.items() if digest not in known]
    if changed:
        run = subprocess.run(
            [tool, "--dry-run", "-Werror", *changed], capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        record.write_text("\n".join(digests.values()))

"""Builds C libraries that trigger an event at a deterministic moment of a program."""

from __future__ import annotations

from pathlib import Path

from harness import TOP, configured, run


def build(name: str, folder: Path) -> Path:
    """Compiles `name`.c in the folder of this file to a library."""
    library = folder / f"{name}.so"
    source = Path(__file__).with_name(f"{name}.c")
    run(
        [
            configured("CMAKE_C_COMPILER") or "cc",
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
            f"-I{TOP / 'runtime'}",
            source,
            "-o",
            library,
        ]
    ).check()
    return library


def meddle(
    library: Path, file: Path, action: str, other: Path | None = None, turn: int = 1
) -> dict[str, str]:
    """Returns the environment of a program in which `action` (meddle.c) changes `file` before the
    program maps it for the `turn`-th time.
    """
    return {
        "LD_PRELOAD": str(library),
        "MEDDLE_FILE": str(file.resolve()),
        "MEDDLE_ACTION": action,
        "MEDDLE_TURN": str(turn),
        "MEDDLE_OTHER": str(other or ""),
    }

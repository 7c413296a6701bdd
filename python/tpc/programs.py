"""Cache of the programs that `tpc.compile` makes: its folder, keys by content, and its size."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from tpc.library import path_of

# Maximum number of cached programs; the least recently used ones are removed.
_KEPT_PROGRAMS = 32
# Options of tpcc that name an input file.
FILE_OPTIONS = ("annotations", "links", "machine", "reference", "weights_map")
# The entry `location` of an external tensor, with the length of its text (one or two bytes).
_LOCATION = re.compile(rb"\x0a\x08location\x12([\x80-\xff]?[\x01-\x7f])")


def folder_of_programs() -> Path | None:
    """Returns the folder of cached programs, or None if TPC_CACHE is empty.

    It is in $TPC_CACHE, else in $XDG_CACHE_HOME/tpc or ~/.cache/tpc.
    """
    own = os.environ.get("TPC_CACHE")
    if own is not None:
        return Path(own) / "programs" if own else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "tpc" / "programs"


def _data_files(model: Path, weights) -> list[Path]:
    """Returns the files with the weights of a model: its external data, or those of `weights`."""
    if weights is not None:
        path = Path(path_of("weights", weights))
        return sorted(path.iterdir()) if path.is_dir() else [path]
    content, names = model.read_bytes(), set()
    for match in _LOCATION.finditer(content):
        *low, high = match[1]
        length = high << 7 | low[0] & 0x7F if low else high
        names.add(content[match.end() : match.end() + length].decode(errors="surrogateescape"))
    return [model.parent / name for name in sorted(names)]


def key_of(tpcc: Path, model: Path, arguments: list[str], options: Mapping) -> str:
    """Returns the key of a program.

    It covers the compiler, the command line, and the bytes of the model and of option files. If the
    compiler packs weights, it also covers sizes and time stamps of the files with the weights.
    (Programs compare weights that are not packed with those at compile time.)
    """
    status = tpcc.stat()
    key = hashlib.blake2b(
        json.dumps([str(tpcc), status.st_size, status.st_mtime_ns, arguments]).encode(),
        digest_size=20,
    )
    for path in (model, *(options.get(name) for name in FILE_OPTIONS)):
        # tpcc reports unreadable files.
        if path is not None and os.path.isfile(path):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                for piece in iter(lambda: file.read(1 << 20), b""):
                    key.update(piece)
        key.update(b"\0")
    if options.get("quantize"):
        with contextlib.suppress(OSError, ValueError):
            for path in _data_files(model, options.get("weights")):
                status = path.stat()
                state = f"{path.name} {status.st_size} {status.st_mtime_ns}"
                key.update(state.encode(errors="surrogateescape") + b"\0")
    return key.hexdigest()


def trim(folder: Path) -> None:
    """Removes the least recently used programs of the cache."""

    def used(path: Path) -> int:
        with contextlib.suppress(OSError):
            return path.stat().st_mtime_ns
        return 0

    paths = set(folder.iterdir())
    weights = {path: path.with_name(path.name + ".weights") for path in paths}  # of `quantize`
    programs = paths - set(weights.values())
    for path in sorted(programs, key=used, reverse=True)[_KEPT_PROGRAMS:]:
        for file in (path, weights[path]):
            with contextlib.suppress(OSError):
                file.unlink()

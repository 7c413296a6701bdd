"""Loading of program libraries through ctypes, with types and errors.

The C interface is runtime/include/tpc/session.h.
"""

from __future__ import annotations

import ctypes
import difflib
import os
import stat
import struct
import threading
from collections.abc import Iterable, Mapping

import numpy as np


class TpcError(RuntimeError):
    """An error of a program or of an argument. `broken`: a step failed after it had started;
    otherwise the session is unchanged."""

    def __init__(self, message: str, broken: bool = False):
        super().__init__(message)
        self.broken = broken


class Tensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("data", ctypes.c_void_p),
    ]


class Request(ctypes.Structure):
    _fields_ = [
        ("ids", ctypes.POINTER(ctypes.c_int64)),
        ("count", ctypes.c_int64),
        ("max_new_tokens", ctypes.c_int64),
        ("temperature", ctypes.c_double),
        ("top_k", ctypes.c_int64),
        ("top_p", ctypes.c_double),
        ("repetition_penalty", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        ("stop_ids", ctypes.POINTER(ctypes.c_int64)),
        ("num_stop_ids", ctypes.c_int64),
    ]


class Event(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("request", ctypes.c_int32),
        ("index", ctypes.c_int64),
        ("token", ctypes.c_int64),
    ]


class Results(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("tensors", ctypes.POINTER(Tensor))]


def bfloat16() -> np.dtype:
    """Returns the type of ml_dtypes, else uint16: numpy itself has no bfloat16."""
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(np.uint16)
    return np.dtype(ml_dtypes.bfloat16)


# Indexed by tpc_dtype: names in programs and in onnxruntime, and numpy's type.
DTYPES = [
    ("f32", "float", np.float32),
    ("f64", "double", np.float64),
    ("f16", "float16", np.float16),
    ("bf16", "bfloat16", None),
    ("i8", "int8", np.int8),
    ("i16", "int16", np.int16),
    ("i32", "int32", np.int32),
    ("i64", "int64", np.int64),
    ("bool", "bool", np.bool_),
    ("u8", "uint8", np.uint8),
]
BF16 = 3
CODES = {np.dtype(kind): code for code, (_, _, kind) in enumerate(DTYPES) if kind}
BROKEN = 2


def dtype_of(code: int) -> np.dtype:
    return bfloat16() if code == BF16 else np.dtype(DTYPES[code][2])


_loaded: dict[str, list[tuple[int, int]]] = {}
_loading = threading.Lock()


def type_name(value) -> str:
    return type(value).__name__


def shorten(value) -> str:
    """Returns the beginning of repr(value), for messages."""
    try:
        return repr(value)[:80]
    except Exception:  # such as integers with too many digits
        return f"a value of type {type_name(value)}"


def encode(what: str, text: str) -> bytes:
    """Returns text as bytes for C; rejects zero bytes, which end C strings."""
    try:
        encoded = os.fsencode(text)
    except UnicodeError:
        raise TpcError(f"{what} {shorten(text)}: it cannot be encoded") from None
    if b"\0" in encoded:
        raise TpcError(f"{what} {shorten(text)}: it has a zero byte")
    return encoded


def path_of(what: str, path) -> str:
    """Returns a path (text, bytes or a Path) as text."""
    try:
        path = os.fsdecode(path)
    except TypeError:
        raise TpcError(
            f"{what}: expected a path, not {shorten(path)} ({type_name(path)})"
        ) from None
    encode(what, path)
    return path


def _is_whole(path: str, size: int) -> bool:
    """Returns whether an ELF file has its section headers, which are at its end.

    The dynamic linker maps truncated files, and access to missing pages kills the process. Other
    invalid files are rejected by the linker itself.
    """
    with open(path, "rb") as file:
        header = file.read(64)
    if header[:5] != b"\x7fELF\x02" or len(header) < 64:
        return True
    (offset,) = struct.unpack_from("<Q", header, 40)
    entry, count = struct.unpack_from("<HH", header, 58)
    return offset + entry * count <= size


def open_library(path) -> ctypes.CDLL:
    path = path_of("cannot load", path)
    try:
        path = os.path.abspath(path)
        status = os.stat(path)
        if stat.S_ISREG(status.st_mode) and not _is_whole(path, status.st_size):
            raise TpcError(
                f"cannot load '{path}': the file is not complete; copy or compile it again"
            )
    except OSError as error:
        raise TpcError(f"cannot load '{path}': {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise TpcError(f"cannot load '{path}': it is not a regular file")
    with _loading:
        # The dynamic linker identifies libraries by path, and would return the old library after a
        # file was replaced. So each replacement is loaded by a path with one more "./".
        files = _loaded.setdefault(path, [])
        if (status.st_dev, status.st_ino) not in files:
            files.append((status.st_dev, status.st_ino))
        replacements = files.index((status.st_dev, status.st_ino))
    folder, name = os.path.split(path)
    try:
        library = ctypes.CDLL(os.path.join(folder, *["."] * replacements, name))
        library.tpc_session_version.restype = ctypes.c_int
        version = library.tpc_session_version()
    except OSError as error:
        old = "position-independent executable" in str(error)
        raise TpcError(
            f"cannot load '{path}': "
            + (
                "it was not made by tpcc, or by a version whose executables are not "
                "libraries: recompile it"
                if old
                else str(error).removeprefix(f"{path}: ")
            )
        ) from None
    except AttributeError:
        raise TpcError(
            f"cannot load '{path}': it is a library, but not one of tpcc " "(--emit=lib, or exe)"
        ) from None
    assert version >= 1
    pointer = ctypes.c_void_p
    for function, result, *arguments in (
        ("last_error", ctypes.c_char_p),
        ("describe", ctypes.c_char_p),
        (
            "model_open",
            ctypes.c_int,
            ctypes.c_int32,
            ctypes.POINTER(ctypes.c_char_p),
            ctypes.POINTER(pointer),
        ),
        ("model_close", None, pointer),
        ("model_notes", ctypes.c_char_p, pointer),
        (
            "model_run",
            ctypes.c_int,
            pointer,
            ctypes.POINTER(Tensor),
            ctypes.c_int32,
            ctypes.POINTER(ctypes.POINTER(Results)),
        ),
        ("results_free", None, ctypes.POINTER(Results)),
    ):
        entry = getattr(library, f"tpc_{function}")
        entry.restype, entry.argtypes = result, arguments
    if hasattr(library, "tpc_model_generate"):
        library.tpc_model_generate.argtypes = (
            pointer,
            ctypes.POINTER(Request),
            ctypes.c_int32,
            ctypes.POINTER(pointer),
        )
        library.tpc_generation_next.argtypes = pointer, ctypes.POINTER(Event)
        library.tpc_generation_free.restype, library.tpc_generation_free.argtypes = None, [pointer]
    if hasattr(library, "tpc_model_save"):
        library.tpc_model_save.argtypes = pointer, ctypes.c_char_p, ctypes.c_int64
        library.tpc_model_resume.argtypes = (
            pointer,
            ctypes.c_char_p,
            ctypes.POINTER(ctypes.c_int64),
        )
    return library


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns " (did you mean 'NAME'?)" for the most similar known name, or an empty text."""
    found = difflib.get_close_matches(name, list(known), 1)
    return f" (did you mean '{found[0]}'?)" if found else ""


def flag_of(name: str, value) -> list[str]:
    """Returns flags: --deterministic for `deterministic=True`, --shape=batch=1 for a mapping."""
    name = "--" + name.replace("_", "-")
    if value is None or value is False:
        return []
    if value is True:
        return [name]
    try:
        if isinstance(value, Mapping):
            value = ",".join(f"{key}={size}" for key, size in value.items())
        return [
            f"{name}={os.fsdecode(value) if isinstance(value, (os.PathLike, bytes)) else value}"
        ]
    except Exception:  # such as integers with too many digits
        raise TpcError(f"flag {name}: {shorten(value)} is not a text") from None

"""Programs that tpcc has made, in this process.

    session = tpc.load("./model", weights="model.onnx.data", threads=2)
    logits = session.run({"input_ids": ids})["logits"]

What tpcc makes is a shared library, whether it can be started as well or not. All ranks are threads of this process. This module
is runtime/include/tpc/session.h by ctypes: arrays go in and come out where they are.
"""

from __future__ import annotations

import ctypes
import difflib
import inspect
import json
import operator
import os
import stat
import struct
import threading
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np


class TpcError(RuntimeError):
    """The program says why. `broken`: a step had begun; else nothing has changed."""

    def __init__(self, message: str, broken: bool = False):
        super().__init__(message)
        self.broken = broken


class _Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int32),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("data", ctypes.c_void_p)]


class _Request(ctypes.Structure):
    _fields_ = [("ids", ctypes.POINTER(ctypes.c_int64)), ("count", ctypes.c_int64), ("max_new_tokens", ctypes.c_int64),
                ("temperature", ctypes.c_double), ("top_k", ctypes.c_int64), ("top_p", ctypes.c_double),
                ("repetition_penalty", ctypes.c_double), ("seed", ctypes.c_uint64),
                ("stop_ids", ctypes.POINTER(ctypes.c_int64)), ("num_stop_ids", ctypes.c_int64)]


class _Event(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("request", ctypes.c_int32), ("index", ctypes.c_int64), ("token", ctypes.c_int64)]


# By the values of an event's kind.
_TOKEN, _FAILED, _END = 0, 4, 5
_FINISHED = {1: "stop", 2: "length", 3: "cancelled", _FAILED: "error"}


class _Results(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("tensors", ctypes.POINTER(_Tensor))]


def _bfloat16() -> np.dtype:
    """numpy has none of its own."""
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(np.uint16)
    return np.dtype(ml_dtypes.bfloat16)


# By the values of tpc_dtype: the program's name, onnxruntime's, numpy's.
_DTYPES = [("f32", "float", np.float32), ("f64", "double", np.float64), ("f16", "float16", np.float16),
           ("bf16", "bfloat16", None), ("i8", "int8", np.int8), ("i16", "int16", np.int16), ("i32", "int32", np.int32),
           ("i64", "int64", np.int64), ("bool", "bool", np.bool_), ("u8", "uint8", np.uint8)]
_BF16, _BOOL = 3, 8
_MOST = (1 << 63) - 1
_CODES = {np.dtype(kind): code for code, (_, _, kind) in enumerate(_DTYPES) if kind}
_BROKEN = 2


def _dtype(code: int) -> np.dtype:
    return _bfloat16() if code == _BF16 else np.dtype(_DTYPES[code][2])


@dataclass(frozen=True)
class Port:
    """An input or an output. A size that is no number is a formula over the model's own, such as `batch`."""

    name: str
    shape: tuple[int | str, ...]
    type: str  # as onnxruntime writes it: tensor(int64)
    dtype: np.dtype
    optional: bool = False  # of an input: it may be left out

    @staticmethod
    def of(described: dict) -> Port:
        code = next(code for code, names in enumerate(_DTYPES) if names[0] == described["dtype"])
        return Port(described["name"], tuple(described["shape"]), f"tensor({_DTYPES[code][1]})", _dtype(code),
                    described.get("optional", False))


_loaded: dict[str, list[tuple[int, int]]] = {}
_loading = threading.Lock()


def _type(value) -> str:
    return type(value).__name__


def _short(value) -> str:
    """For messages: the beginning of it, where it has words for itself."""
    try:
        return repr(value)[:80]
    except Exception:  # such as integers of too many digits
        return f"one of type {_type(value)}"


def encode(what: str, text: str) -> bytes:
    """For C, which reads up to the first zero."""
    try:
        encoded = os.fsencode(text)
    except UnicodeError:
        raise TpcError(f"{what} {_short(text)}: it is no text that can be encoded") from None
    if b"\0" in encoded:
        raise TpcError(f"{what} {_short(text)}: it has a zero byte")
    return encoded


def path_of(what: str, path) -> str:
    """A path as text, of text, bytes or a Path."""
    try:
        path = os.fsdecode(path)
    except TypeError:
        raise TpcError(f"{what}: expected a path, and not {_short(path)} ({_type(path)})") from None
    encode(what, path)
    return path


def _is_whole(path: str, size: int) -> bool:
    """Whether an ELF file has its section headers, which come last: pages of a file that was cut off are there to the dynamic
    linker, and end the process when they are read. Files of other kinds are left to the linker."""
    with open(path, "rb") as file:
        header = file.read(64)
    if header[:5] != b"\x7fELF\x02" or len(header) < 64:
        return True
    offset, = struct.unpack_from("<Q", header, 40)
    entry, count = struct.unpack_from("<HH", header, 58)
    return offset + entry * count <= size


def _library(path) -> ctypes.CDLL:
    path = path_of("cannot load", path)
    try:
        path = os.path.abspath(path)
        status = os.stat(path)
        if stat.S_ISREG(status.st_mode) and not _is_whole(path, status.st_size):
            raise TpcError(f"cannot load '{path}': the file is not complete; copy or compile it again")
    except OSError as error:
        raise TpcError(f"cannot load '{path}': {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise TpcError(f"cannot load '{path}': it is not a regular file")
    with _loading:
        # The dynamic linker takes the same name for the same file, also where a new one has come in its place.
        files = _loaded.setdefault(path, [])
        if (status.st_dev, status.st_ino) not in files:
            files.append((status.st_dev, status.st_ino))
        turn = files.index((status.st_dev, status.st_ino))
    folder, name = os.path.split(path)
    try:
        library = ctypes.CDLL(os.path.join(folder, *["."] * turn, name))
        library.tpc_session_version.restype = ctypes.c_int
        version = library.tpc_session_version()
    except OSError as error:
        old = "position-independent executable" in str(error)
        raise TpcError(f"cannot load '{path}': " + (
            "it was not made by tpcc, or by an older one that made no libraries of executables: compile it again" if old
            else str(error).removeprefix(f"{path}: "))) from None
    except AttributeError:
        raise TpcError(f"cannot load '{path}': it is a library, but none that tpcc has made (--emit=lib, or exe)") from None
    assert version >= 1
    pointer = ctypes.c_void_p
    for function, result, *arguments in (
            ("last_error", ctypes.c_char_p), ("describe", ctypes.c_char_p),
            ("model_open", ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(pointer)),
            ("model_close", None, pointer), ("model_notes", ctypes.c_char_p, pointer),
            ("model_run", ctypes.c_int, pointer, ctypes.POINTER(_Tensor), ctypes.c_int32,
             ctypes.POINTER(ctypes.POINTER(_Results))),
            ("results_free", None, ctypes.POINTER(_Results))):
        entry = getattr(library, f"tpc_{function}")
        entry.restype, entry.argtypes = result, arguments
    if hasattr(library, "tpc_model_generate"):
        library.tpc_model_generate.argtypes = pointer, ctypes.POINTER(_Request), ctypes.c_int32, ctypes.POINTER(pointer)
        library.tpc_generation_next.argtypes = pointer, ctypes.POINTER(_Event)
        library.tpc_generation_free.restype, library.tpc_generation_free.argtypes = None, [pointer]
    return library


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns " (did you mean 'NAME'?)" for the most similar of the known names, or nothing."""
    found = difflib.get_close_matches(name, list(known), 1)
    return f" (did you mean '{found[0]}'?)" if found else ""


def flag_of(name: str, value) -> list[str]:
    """`deterministic=True` is --deterministic, `shape={"batch": 1}` is --shape=batch=1."""
    name = "--" + name.replace("_", "-")
    if value is None or value is False:
        return []
    if value is True:
        return [name]
    try:
        if isinstance(value, Mapping):
            value = ",".join(f"{key}={size}" for key, size in value.items())
        return [f"{name}={os.fsdecode(value) if isinstance(value, (os.PathLike, bytes)) else value}"]
    except Exception:  # such as integers of too many digits
        raise TpcError(f"flag {name}: {_short(value)} has no text") from None


def load(path, *, weights=None, threads: int | None = None, **flags) -> Session:
    """Opens what `tpcc` has made, an executable or a library (`--emit=lib`), and loads its weights.

    `weights`: where they are, if not where they were when it was compiled nor beside it; or `"random:SEED"`. `threads`: of each
    rank. Further flags are the executable's, with underscores: `deterministic=True`, `shape={"batch": 1}`.
    """
    return Session(path, weights=weights, threads=threads, **flags)


class Session:
    """A program with its weights loaded. See `load`."""

    def __init__(self, path, *, weights=None, threads=None, **flags):
        self._library = _library(path)
        self._lock = threading.Lock()  # nobody closes what somebody uses
        text = self._library.tpc_describe()
        if text is None:
            raise TpcError(self._error())
        # Sizes, grid, groups of ranks, bytes of weights: what the executable's --describe --json prints.
        self.description: dict = json.loads(text)
        self._check_flags(flags)
        texts = flag_of("weights", weights) + flag_of("threads_per_rank", threads)
        for name, value in flags.items():
            texts += flag_of(name, value)
        argv = (ctypes.c_char_p * len(texts))(*(encode("flag", text) for text in texts))
        model = ctypes.c_void_p()
        self._check(self._library.tpc_model_open(len(texts), argv, ctypes.byref(model)))
        self._model = model
        self._close = weakref.finalize(self, self._library.tpc_model_close, model)
        self._generations: weakref.WeakSet[Generation] = weakref.WeakSet()
        self.inputs = [Port.of(port) for port in self.description["inputs"]]
        self.outputs = [Port.of(port) for port in self.description["outputs"]]
        if generation := self.description.get("generation"):
            # Others are what the program tells itself: how many tokens there are.
            self.inputs = [port for port in self.inputs if port.name == generation["tokens"]]

    def _check_flags(self, flags: Mapping) -> None:
        """Flags that are None or False are not passed on: the program would not report unknown ones."""
        known = [flag.removeprefix("--").replace("-", "_") for flag in self.description.get("flags", ())]
        for name in flags:
            if known and name not in known:
                raise TpcError(f"load() has no flag '{name}'{nearest(name, known)}; the program's --help lists them")

    def _error(self) -> str:
        return self._library.tpc_last_error().decode(errors="replace")

    def _check(self, status: int) -> None:
        if status:
            raise TpcError(self._error(), status == _BROKEN)

    def _opened(self) -> ctypes.c_void_p:
        if not self._close.alive:
            raise TpcError("the session is closed")
        return self._model

    def close(self) -> None:
        """Ends the ranks and gives back their memory. Arrays that came out stay."""
        for generation in list(self._generations):
            generation._close("the session is closed")
        with self._lock:
            self._close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    @property
    def notes(self) -> list[str]:
        """What the executable would have printed as notes."""
        with self._lock:
            return self._library.tpc_model_notes(self._opened()).decode().splitlines()

    def _array(self, name: str, value) -> tuple[np.ndarray, int]:
        """As the program reads it: in place where it is dense and of a type that there is."""
        port = next((port for port in self.inputs if port.name == name), None)
        if _has_mask(value):
            raise TpcError(f"input '{name}' has a mask, which no program reads: give an array without one, such as x.filled(0)")
        if not isinstance(value, np.ndarray):
            value = _made(f"input '{name}'", value, port.dtype if port else None)
        wanted = port and port.dtype
        if value.dtype.itemsize == 2 and port and port.type == "tensor(bfloat16)" and (
                value.dtype == wanted or value.dtype.kind in "uV"):
            return np.asarray(value, order="C"), _BF16
        code = _CODES.get(value.dtype.newbyteorder("="))
        if code is None:
            raise TpcError(f"input '{name}' is {wanted if port else 'unknown'}, but what is given is {value.dtype}")
        return np.asarray(value, value.dtype.newbyteorder("="), order="C"), code

    def run(self, inputs: Mapping[str, np.ndarray], outputs=None) -> dict[str, np.ndarray]:
        """Runs one step. Gives all outputs, or those that are named, by name. Inputs with a default may be left out."""
        names = {port.name for port in self.outputs}
        if outputs is not None:
            if isinstance(outputs, (str, bytes)) or not isinstance(outputs, Iterable):
                raise TpcError(f"outputs are a list of names, such as {sorted(names)[:1]}, and not {_short(outputs)}")
            outputs = list(outputs)
            if unknown := [name for name in outputs if not isinstance(name, str) or name not in names]:
                raise TpcError(f"there is no output {_short(unknown[0])}; the program gives " + ", ".join(f"'{name}'" for name in names))
        if not isinstance(inputs, Mapping):
            raise TpcError(f"inputs are arrays by name, such as {{'{self.inputs[0].name if self.inputs else 'x'}': array}}, and not "
                           f"{_type(inputs)}")
        given, kept = (_Tensor * len(inputs))(), []
        for tensor, (name, value) in zip(given, inputs.items()):
            if not isinstance(name, str):
                raise TpcError(f"the name of an input is text, and not {_short(name)}")
            encoded = encode("the name of an input", name)
            array, code = self._array(name, value)
            shape = (ctypes.c_int64 * array.ndim)(*array.shape)
            kept += [array, shape, encoded]
            tensor.name, tensor.dtype, tensor.rank, tensor.data = encoded, code, array.ndim, array.ctypes.data
            tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        found = ctypes.POINTER(_Results)()
        with self._lock:
            self._check(self._library.tpc_model_run(self._opened(), given, len(given), ctypes.byref(found)))
        owner = _Owner(self._library, found)
        tensors = found.contents.tensors[:found.contents.count]
        arrays = {tensor.name.decode(): owner.array(tensor) for tensor in tensors}
        return {name: arrays[name] for name in outputs} if outputs is not None else arrays

    def stream(self, ids, **settings) -> Generation:
        """Tokens as they come: of one prompt (a row of ids) just these, of several the row and the token. Settings are those of
        `generate`. What is not asked for any more ends with `close()`, or `with`."""
        self._check_settings("stream", settings)
        return Generation(self, ids, **settings)

    @staticmethod
    def _check_settings(function: str, settings: Mapping) -> None:
        known = [name for name, parameter in inspect.signature(Generation.__init__).parameters.items()
                 if parameter.kind is parameter.KEYWORD_ONLY]
        for name in settings:
            if name not in known:
                raise TpcError(f"{function}() has no setting '{name}'{nearest(name, known)}; it has " + ", ".join(known))

    def generate(self, ids, **settings):
        """What follows a prompt (a row of ids): a row of ids. Of several prompts, a list of such rows.

        `max_new_tokens`: at most so many (64). `temperature`: 0 takes the most probable token (the default), else scores are divided
        by it and tokens drawn, with `seed`; of the `top_k` most probable, and of as few of these as have the probability `top_p`.
        `repetition_penalty`: 1 is none. `stop_ids`: tokens that end a row, which has them as its last.
        """
        self._check_settings("generate", settings)
        with self.stream(ids, **settings) as tokens:
            rows: list[list[int]] = [[] for _ in tokens.finish]
            for row, token in tokens.pairs():
                rows[row].append(token)
            found = [np.array(row, np.int64) for row in rows]
        return found[0] if tokens.is_single else found


def _has_mask(value, depth: int = 64) -> bool:
    """Whether an array, or one in a list, hides elements."""
    if isinstance(value, np.ma.MaskedArray):
        return bool(np.ma.is_masked(value))
    return depth > 0 and isinstance(value, (list, tuple)) and any(_has_mask(each, depth - 1) for each in value)


def _has_bool(value, depth: int = 64) -> bool:
    """Whether a list has True or False in it, which numpy takes for 1 and 0 among numbers."""
    if isinstance(value, (bool, np.bool_)):
        return True
    return depth > 0 and isinstance(value, (list, tuple)) and any(_has_bool(each, depth - 1) for each in value)


def _made(what: str, value, wanted: np.dtype | None) -> np.ndarray:
    """An array of what is none, of the type that is wanted if that has the same values."""
    try:
        found = np.asarray(value)
    except Exception as error:  # also what objects raise that are to make an array of themselves
        raise TpcError(f"{what} is no array: {error}") from None
    if wanted is None or found.dtype == wanted:
        if wanted is None or wanted.kind == "b" or not _has_bool(value):
            return found
    if wanted.kind != "b" and _has_bool(value):
        raise TpcError(f"{what} is {wanted}, and what is given has True or False in it: give numbers")
    exact = found.size == 0 or found.dtype.kind in "biu" and (wanted.kind in "iu" or wanted.kind == "b" and ((found == 0) | (found == 1)).all())
    if not exact and (wanted.kind in "biu" or found.dtype.kind not in "biuf"):
        return found  # the program has more to say about it
    with np.errstate(over="ignore"):
        made = found.astype(wanted)
    if not ((made == found).all() if exact else np.array_equal(np.isfinite(made), np.isfinite(found))):
        raise TpcError(f"{what} has a number that {wanted} does not: the largest is {found.max()}, the smallest {found.min()}")
    return made


def _integer(name: str, value, low: int, high: int) -> int:
    """ctypes would keep the lowest 64 bits of any."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TpcError(f"{name} {_short(value)}: expected an integer") from None
    if not low <= number <= high:
        text = str(number) if abs(number) < 10**80 else "of so many digits"
        raise TpcError(f"{name} {text}: expected an integer from {low} to {high}")
    return number


def _number(name: str, value) -> float:
    try:
        if isinstance(value, (str, bytes, bool, np.bool_)):
            raise TypeError
        return float(value)
    except OverflowError:
        raise TpcError(f"{name}: expected a number of 64 bits, and it has too many digits for that") from None
    except (TypeError, ValueError):
        raise TpcError(f"{name} {_short(value)} is no number") from None


def _check_row(what: str, ids) -> None:
    if (isinstance(ids, (str, bytes, bytearray, Mapping)) or not hasattr(ids, "__iter__")
            or isinstance(ids, np.ndarray) and ids.ndim == 0):
        raise TpcError(f"{what} is a row of token ids, and not {_short(ids)}")
    if _has_mask(ids):
        raise TpcError(f"{what} has a mask, which is not read: give the ids that count, such as x.compressed()")


def _row(what: str, ids) -> np.ndarray:
    """Ids of tokens, one after the other."""
    _check_row(what, ids)
    try:
        ids = ids if isinstance(ids, np.ndarray) else list(ids)
        if _has_bool(ids):
            raise TpcError(f"{what} is a row of token ids, and has True or False in it")
        array = np.asarray(ids)
    except TpcError:
        raise
    except Exception:  # rows of several lengths, and objects that make no array
        raise TpcError(f"{what} is a row of token ids, and not one of rows") from None
    if array.ndim != 1 or array.size and array.dtype.kind not in "iu":
        raise TpcError(f"{what} is a row of token ids, and not {array.dtype} of shape {list(array.shape)}")
    if array.dtype.kind == "u" and array.size and array.max() > _MOST:
        raise TpcError(f"{what} has token {array.max()}, which there cannot be")
    return np.ascontiguousarray(array, np.int64)


def _prompts(ids) -> tuple[list[np.ndarray], bool]:
    """Rows of ids, and whether there is one that is not in a list."""
    _check_row("a prompt", ids)
    rows = ids if isinstance(ids, np.ndarray) else list(ids)
    is_single = rows.ndim == 1 if isinstance(rows, np.ndarray) else not any(hasattr(row, "__len__") for row in rows)
    return [_row("a prompt", row) for row in ([rows] if is_single else rows)], is_single


class Generation:
    """An iterator over tokens. `finish` says of each row why it ended: "stop", "length", "cancelled", "error", or None so far. An error
    of one row is raised when the others have ended."""

    def __init__(self, session: Session, ids, *, max_new_tokens: int = 64, temperature: float = 0.0, top_k: int = 0, top_p: float = 1.0,
                 repetition_penalty: float = 1.0, seed: int = 0, stop_ids=()):
        prompts, self.is_single = _prompts(ids)
        self.finish: list[str | None] = [None] * len(prompts)
        self.errors: dict[int, str] = {}
        self._session, self._library = session, session._library
        if not hasattr(self._library, "tpc_model_generate"):
            raise TpcError("this program was made by a tpcc that knew no generation: compile the model again, with --generate")
        seed = _integer("seed", seed, 0, (1 << 64) - 1)
        max_new_tokens, top_k = (_integer(name, value, 0, _MOST) for name, value in
                                 (("max_new_tokens", max_new_tokens), ("top_k", top_k)))
        temperature, top_p, repetition_penalty = (_number(name, value) for name, value in (
            ("temperature", temperature), ("top_p", top_p), ("repetition_penalty", repetition_penalty)))
        stop = _row("stop_ids", stop_ids)
        pointer = ctypes.POINTER(ctypes.c_int64)
        requests = (_Request * len(prompts))(*[
            _Request(prompt.ctypes.data_as(pointer), len(prompt), max_new_tokens, temperature, top_k, top_p, repetition_penalty, seed,
                     stop.ctypes.data_as(pointer), len(stop)) for prompt in prompts])
        handle = ctypes.c_void_p()
        with session._lock:
            session._check(self._library.tpc_model_generate(session._opened(), requests, len(prompts), ctypes.byref(handle)))
        self._handle = handle
        self._lock = threading.Lock()
        self._why_closed = ""
        self._free = weakref.finalize(self, self._library.tpc_generation_free, handle)
        session._generations.add(self)

    def pairs(self):
        """Rows and tokens, also where there is one row."""
        event = _Event()
        while True:
            with self._lock:
                if not self._free.alive:
                    if self._why_closed:
                        raise TpcError(self._why_closed)
                    return
                self._session._check(self._library.tpc_generation_next(self._handle, ctypes.byref(event)))
                if event.kind == _FAILED:
                    self.errors[event.request] = self._session._error()
            if event.kind == _END:
                break
            if event.kind == _TOKEN:
                yield event.request, event.token
            else:
                self.finish[event.request] = _FINISHED[event.kind]
        for row, message in self.errors.items():
            raise TpcError(message if self.is_single else f"prompt {row}: {message}")

    def __iter__(self):
        return self

    def __next__(self):
        if not hasattr(self, "_pairs"):
            self._pairs = self.pairs()
        row, token = next(self._pairs)
        return token if self.is_single else (row, token)

    def close(self) -> None:
        """Ends what still runs, after its step."""
        self._close("")

    def _close(self, why: str) -> None:
        with self._lock:
            if self._free.alive:
                self._why_closed = why
                self._free()

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *_) -> None:
        self.close()


class _Owner:
    """Gives back the memory of results with the last of their arrays."""

    def __init__(self, library, results):
        weakref.finalize(self, library.tpc_results_free, results).atexit = False

    def array(self, tensor: _Tensor) -> np.ndarray:
        shape, dtype = tensor.shape[:tensor.rank], _dtype(tensor.dtype)
        count = int(np.prod(shape, dtype=np.int64))
        if count == 0:
            return np.empty(shape, dtype)
        memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(tensor.data)
        memory.owner = self
        return np.frombuffer(memory, dtype).reshape(shape)

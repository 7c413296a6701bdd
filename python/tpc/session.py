"""Sessions: compiled programs that run in this process.

    session = tpc.load("./model", weights="model.onnx.data", threads=2)
    logits = session.run({"input_ids": ids})["logits"]

Executables and libraries of tpcc are both shared libraries. All ranks are threads of this process.
Arrays are returned without copies, and passed without copies if their layout and type permit.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tpc.arguments import has_mask, make_array
from tpc.calls import Calls
from tpc.generation import Generation
from tpc.library import (
    BF16,
    BROKEN,
    CODES,
    DTYPES,
    Results,
    Tensor,
    TpcError,
    dtype_of,
    encode,
    flag_of,
    nearest,
    open_library,
    path_of,
    shorten,
    type_name,
)
from tpc.training import StepResult, Training


@dataclass(frozen=True)
class Port:
    """An input or an output. Symbolic sizes are formulas over the model's sizes (`batch`)."""

    name: str
    shape: tuple[int | str, ...]
    type: str  # in onnxruntime's format: tensor(int64)
    dtype: np.dtype
    optional: bool = False  # whether an input may be omitted

    @staticmethod
    def of(described: dict) -> Port:
        code = next(code for code, names in enumerate(DTYPES) if names[0] == described["dtype"])
        return Port(
            described["name"],
            tuple(described["shape"]),
            f"tensor({DTYPES[code][1]})",
            dtype_of(code),
            described.get("optional", False),
        )


def load(path, *, weights=None, threads: int | None = None, **flags) -> Session:
    """Opens a program of `tpcc`, an executable or a library (`--emit=lib`), and loads its weights.

    `weights` is the path of the weights, if they are neither at their path at compile time nor next
    to the program, or `"random:SEED"`. `threads` is the number of threads per rank. Further flags
    are the executable's, with underscores: `deterministic=True`, `shape={"batch": 1}`.
    """
    return Session(path, weights=weights, threads=threads, **flags)


class Session:
    """A program with loaded weights. See `load`."""

    def __init__(self, path, *, weights=None, threads=None, **flags):
        self._library = open_library(path)
        self._lock = threading.Lock()  # prevents close() during other calls
        text = self._library.tpc_describe()
        if text is None:
            raise TpcError(self._error())
        # Sizes, grid, groups, bytes of weights: output of the executable's --describe --json.
        self.description: dict = json.loads(text)
        self._check_flags(flags)
        texts = flag_of("weights", weights) + flag_of("threads_per_rank", threads)
        for name, value in flags.items():
            texts += flag_of(name, value)
        argv = (ctypes.c_char_p * len(texts))(*(encode("flag", text) for text in texts))

        def start() -> _Model:
            handle = ctypes.c_void_p()
            self._check(self._library.tpc_model_open(len(texts), argv, ctypes.byref(handle)))
            return _Model(self._library, handle)

        self._calls = Calls()
        self._model = self._calls.run(start)
        self._generations: weakref.WeakSet[Generation] = weakref.WeakSet()
        self.inputs = [Port.of(port) for port in self.description["inputs"]]
        self.outputs = [Port.of(port) for port in self.description["outputs"]]
        if generation := self.description.get("generation"):
            # The program supplies other inputs itself, such as the number of tokens.
            self.inputs = [port for port in self.inputs if port.name == generation["tokens"]]
        self._training = Training(self) if "training" in self.description else None

    def _check_flags(self, flags: Mapping) -> None:
        """Rejects unknown flags, also those with the value None or False, which are not passed."""
        known = [
            flag.removeprefix("--").replace("-", "_") for flag in self.description.get("flags", ())
        ]
        for name in flags:
            if known and name not in known:
                raise TpcError(
                    f"load() has no flag '{name}'{nearest(name, known)}; the program's --help "
                    "lists them"
                )

    def _error(self) -> str:
        return self._library.tpc_last_error().decode(errors="replace")

    def _check(self, status: int) -> None:
        if status:
            raise TpcError(self._error(), status == BROKEN)

    def _opened(self) -> ctypes.c_void_p:
        if not self._model.close.alive:
            raise TpcError("the session is closed")
        return self._model.handle

    def close(self) -> None:
        """Stops the ranks and frees their memory. Returned arrays remain valid."""
        for generation in list(self._generations):
            generation._close("the session is closed")

        def close() -> None:
            with self._lock:
                self._model.close()

        self._calls.end(close)
        self._calls.stop()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    @property
    def notes(self) -> list[str]:
        """The notes that the executable would print."""
        with self._lock:
            return self._library.tpc_model_notes(self._opened()).decode().splitlines()

    def _array(self, name: str, value) -> tuple[np.ndarray, int]:
        """Returns an array for the program, without a copy if its layout and type permit."""
        port = next((port for port in self.inputs if port.name == name), None)
        if has_mask(value):
            raise TpcError(
                f"input '{name}' has a mask, which is not supported: give an array without one, "
                "such as x.filled(0)"
            )
        if not isinstance(value, np.ndarray):
            value = make_array(f"input '{name}'", value, port.dtype if port else None)
        wanted = port and port.dtype
        if (
            value.dtype.itemsize == 2
            and port
            and port.type == "tensor(bfloat16)"
            and (value.dtype == wanted or value.dtype.kind in "uV")
        ):
            return np.asarray(value, order="C"), BF16
        code = CODES.get(value.dtype.newbyteorder("="))
        if code is None:
            raise TpcError(
                f"input '{name}' is {wanted if port else 'unknown'}, but the argument is "
                f"{value.dtype}"
            )
        return np.asarray(value, value.dtype.newbyteorder("="), order="C"), code

    def run(self, inputs: Mapping[str, np.ndarray], outputs=None) -> dict[str, np.ndarray]:
        """Runs one step. Returns all or the named outputs, by name.

        Inputs with a default may be omitted.
        """
        names = {port.name for port in self.outputs}
        if outputs is not None:
            if isinstance(outputs, (str, bytes)) or not isinstance(outputs, Iterable):
                raise TpcError(
                    f"outputs must be a list of names, such as {sorted(names)[:1]}, not "
                    f"{shorten(outputs)}"
                )
            outputs = list(outputs)
            if unknown := [
                name for name in outputs if not isinstance(name, str) or name not in names
            ]:
                raise TpcError(
                    f"there is no output {shorten(unknown[0])}; the outputs are "
                    + ", ".join(f"'{name}'" for name in names)
                )
        if not isinstance(inputs, Mapping):
            raise TpcError(
                "inputs must be arrays by name, such as "
                f"{{'{self.inputs[0].name if self.inputs else 'x'}': array}}, not "
                f"{type_name(inputs)}"
            )
        arrays = self._run(inputs)
        return {name: arrays[name] for name in outputs} if outputs is not None else arrays

    def _tensors(self, inputs: Mapping[str, np.ndarray]) -> tuple[ctypes.Array, list]:
        """Returns the inputs for the library, and the objects that they refer to."""
        tensors, referenced = (Tensor * len(inputs))(), []
        for tensor, (name, value) in zip(tensors, inputs.items()):
            if not isinstance(name, str):
                raise TpcError(f"the name of an input must be text, not {shorten(name)}")
            encoded = encode("the name of an input", name)
            array, code = self._array(name, value)
            shape = (ctypes.c_int64 * array.ndim)(*array.shape)
            referenced += [array, shape, encoded]
            tensor.name, tensor.dtype, tensor.rank, tensor.data = (
                encoded,
                code,
                array.ndim,
                array.ctypes.data,
            )
            tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        return tensors, referenced

    def _run(
        self, inputs: Mapping[str, np.ndarray], on_begin: Callable[[], Mapping] | None = None
    ) -> dict[str, np.ndarray]:
        """Runs one step. Returns all outputs by name. `on_begin` returns more inputs; it is called
        after all earlier steps, also those whose callers were interrupted.
        """
        tensors, referenced = self._tensors(inputs)

        def step() -> _Owner:
            found = ctypes.POINTER(Results)()
            with self._lock:
                if on_begin:
                    all_tensors, all_referenced = self._tensors({**inputs, **on_begin()})
                else:
                    all_tensors, all_referenced = tensors, referenced
                self._check(
                    self._library.tpc_model_run(
                        self._opened(), all_tensors, len(all_tensors), ctypes.byref(found)
                    )
                )
            del referenced[:], all_referenced[:]  # the arrays that the inputs refer to
            return _Owner(self._library, found)

        return self._calls.run(step).arrays()

    def stream(self, ids, **settings) -> Generation:
        """Returns an iterator over tokens as they are generated.

        For one prompt (a row of ids) it yields tokens, for several prompts (row, token). The
        settings are those of `generate`. `close()` or `with` cancels the rest.
        """
        self._check_settings("stream", settings)
        return Generation(self, ids, **settings)

    @staticmethod
    def _check_settings(function: str, settings: Mapping) -> None:
        known = [
            name
            for name, parameter in inspect.signature(Generation.__init__).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        ]
        for name in settings:
            if name not in known:
                raise TpcError(
                    f"{function}() has no setting '{name}'{nearest(name, known)}; it has "
                    + ", ".join(known)
                )

    def generate(self, ids, **settings):
        """Returns the continuation of a prompt (a row of ids) as a row of ids.

        Returns a list of rows for several prompts.

        * `max_new_tokens`: maximum number of tokens (64).
        * `temperature`: 0 selects the most probable token (the default); otherwise scores are
          divided by it, and tokens are sampled with `seed`.
        * `top_k`, `top_p`: sample from the `top_k` most probable tokens, and from the fewest of
          these whose total probability is at least `top_p`.
        * `repetition_penalty`: 1 disables it.
        * `stop_ids`: tokens that end a row, which contains them as its last token.
        """
        self._check_settings("generate", settings)
        with self.stream(ids, **settings) as tokens:
            rows: list[list[int]] = [[] for _ in tokens.finish]
            for row, token in tokens.pairs():
                rows[row].append(token)
            found = [np.array(row, np.int64) for row in rows]
        return found[0] if tokens.is_single else found

    def _trained(self, function: str) -> Training:
        if self._training is None:
            raise TpcError(
                f"{function}() needs a program that trains: compile the model with train=True, or "
                "tpcc --train"
            )
        return self._training

    @property
    def steps(self) -> int:
        """Number of training steps so far."""
        return self._trained("steps").steps

    def step(self, ids, labels=None, *, lr: float = 1e-3) -> StepResult:
        """Runs a training step. Returns the loss and the norm of the gradients.

            loss, grad_norm = session.step(ids, lr=3e-4)

        * `ids`: token ids [batch, tokens]. A batch must be a multiple of the micro-batches.
        * `labels`: the id after each token; -100 is ignored. By default, the label of each token
          is the next one, and the last token is only a label.
        * `lr`: the learning rate.

        Raises TpcError for ids that the model does not have, if all labels are ignored, and if the
        loss is not finite.
        """
        return self._trained("step").step(ids, labels, lr)

    def save(self, folder) -> str:
        """Writes a checkpoint to the new folder `step-N` in `folder`. Returns its path.

        A failure leaves earlier checkpoints unchanged. `python -m tpc.checkpoint` exports weights.
        """
        training, folder = self._trained("save"), path_of("save", folder)
        self._calls.run(lambda: self._save(folder, training.steps))
        return os.path.join(folder, f"step-{training.steps}")

    def _save(self, folder: str, steps: int) -> None:
        with self._lock:
            self._check(self._library.tpc_model_save(self._opened(), os.fsencode(folder), steps))

    def resume(self, folder) -> int:
        """Loads the last checkpoint in `folder`. Returns its number of steps.

        The checkpoint must be of the same model, optimizer and grid.
        """
        training, folder = self._trained("resume"), path_of("resume", folder)

        def load() -> None:
            steps = ctypes.c_int64()
            with self._lock:
                self._check(
                    self._library.tpc_model_resume(
                        self._opened(), os.fsencode(folder), ctypes.byref(steps)
                    )
                )
            training.resumed(steps.value)

        self._calls.run(load)
        return training.steps


class _Model:
    """Owner of a program with loaded weights."""

    def __init__(self, library, handle: ctypes.c_void_p):
        self.handle = handle
        self.close = weakref.finalize(self, library.tpc_model_close, handle)


class _Owner:
    """Owner of results: frees their memory after the last array is released."""

    def __init__(self, library, results):
        self._results = results
        weakref.finalize(self, library.tpc_results_free, results).atexit = False

    def arrays(self) -> dict[str, np.ndarray]:
        results = self._results.contents
        return {
            tensor.name.decode(): self._array(tensor) for tensor in results.tensors[: results.count]
        }

    def _array(self, tensor: Tensor) -> np.ndarray:
        shape, dtype = tensor.shape[: tensor.rank], dtype_of(tensor.dtype)
        count = int(np.prod(shape, dtype=np.int64))
        if count == 0:
            return np.empty(shape, dtype)
        memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(tensor.data)
        memory.owner = self
        return np.frombuffer(memory, dtype).reshape(shape)

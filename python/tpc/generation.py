"""Tokens of running generation requests."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import TYPE_CHECKING

from tpc.arguments import MAX_INT64, to_float, to_integer, to_prompts, to_row
from tpc.library import Event, Request, TpcError

if TYPE_CHECKING:
    from tpc.session import Session

# Values of an event's kind.
_TOKEN, _FAILED, _END = 0, 4, 5
_FINISHED = {1: "stop", 2: "length", 3: "cancelled", _FAILED: "error"}


class Generation:
    """An iterator over tokens.

    `finish` has for each row the reason of its end: "stop", "length", "cancelled" or "error", or
    None while it runs. The error of a row is raised after the other rows have ended.
    """

    def __init__(
        self,
        session: Session,
        ids,
        *,
        max_new_tokens: int = 64,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        stop_ids=(),
    ):
        prompts, self.is_single = to_prompts(ids)
        self.finish: list[str | None] = [None] * len(prompts)
        self.errors: dict[int, str] = {}
        self._session, self._library = session, session._library
        if not hasattr(self._library, "tpc_model_generate"):
            raise TpcError(
                "this program was made by a version of tpcc without generation: recompile the "
                "model, with --generate"
            )
        seed = to_integer("seed", seed, 0, (1 << 64) - 1)
        max_new_tokens, top_k = (
            to_integer(name, value, 0, MAX_INT64)
            for name, value in (("max_new_tokens", max_new_tokens), ("top_k", top_k))
        )
        temperature, top_p, repetition_penalty = (
            to_float(name, value)
            for name, value in (
                ("temperature", temperature),
                ("top_p", top_p),
                ("repetition_penalty", repetition_penalty),
            )
        )
        stop = to_row("stop_ids", stop_ids)
        pointer = ctypes.POINTER(ctypes.c_int64)
        requests = (Request * len(prompts))(
            *[
                Request(
                    prompt.ctypes.data_as(pointer),
                    len(prompt),
                    max_new_tokens,
                    temperature,
                    top_k,
                    top_p,
                    repetition_penalty,
                    seed,
                    stop.ctypes.data_as(pointer),
                    len(stop),
                )
                for prompt in prompts
            ]
        )
        handle = ctypes.c_void_p()
        with session._lock:
            session._check(
                self._library.tpc_model_generate(
                    session._opened(), requests, len(prompts), ctypes.byref(handle)
                )
            )
        self._handle = handle
        self._lock = threading.Lock()
        self._why_closed = ""
        self._free = weakref.finalize(self, self._library.tpc_generation_free, handle)
        session._generations.add(self)

    def pairs(self):
        """Yields (row, token), also for a single row."""
        while (event := self._session._calls.run(self._next)) is not None:
            if event.kind == _END:
                break
            if event.kind == _TOKEN:
                yield event.request, event.token
            else:
                self.finish[event.request] = _FINISHED[event.kind]
        for row, message in self.errors.items():
            raise TpcError(message if self.is_single else f"prompt {row}: {message}")

    def _next(self) -> Event | None:
        """Returns the next event, or None if the generation was closed."""
        event = Event()
        with self._lock:
            if not self._free.alive:
                if self._why_closed:
                    raise TpcError(self._why_closed)
                return None
            self._session._check(
                self._library.tpc_generation_next(self._handle, ctypes.byref(event))
            )
            if event.kind == _FAILED:
                self.errors[event.request] = self._session._error()
        return event

    def __iter__(self):
        return self

    def __next__(self):
        if not hasattr(self, "_pairs"):
            self._pairs = self.pairs()
        row, token = next(self._pairs)
        return token if self.is_single else (row, token)

    def close(self) -> None:
        """Cancels running rows after their current step."""
        self._close("")

    def _close(self, why: str) -> None:
        def close() -> None:
            with self._lock:
                if self._free.alive:
                    self._why_closed = why
                    self._free()

        self._session._calls.end(close)

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *_) -> None:
        self.close()

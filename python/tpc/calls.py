"""Calls of a program that an interrupt of the main thread does not have to wait for."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue


class _Call:
    """A call in the thread of a session, and its result or exception."""

    def __init__(self, function: Callable):
        self._function, self._ended = function, threading.Lock()
        self._result, self._error = None, None
        self.is_done = self.is_dropped = False
        self._ended.acquire()

    def run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:
            self._error = error
        self._function = None
        self.is_done = True
        if self.is_dropped:
            self._result = self._error = None
        self._ended.release()

    def drop(self) -> None:
        """Frees the result, now or at the end of the call."""
        self.is_dropped = True
        if self.is_done:
            self._result = self._error = None

    def wait(self):
        self._ended.acquire()
        if self._error is None:
            return self._result
        try:
            raise self._error
        finally:
            self._error = None  # its traceback refers to this call


def _work(queue: SimpleQueue) -> None:
    while (call := queue.get()) is not None:
        call.run()
        del call  # and the result of an interrupted call


class Calls:
    """Calls of a session.

    Python handles signals in the main thread between its own instructions. A call of C code delays
    an interrupt until it returns: after a step, the loading of weights, or the timeout of a device
    that hangs. So calls of the main thread run in a thread of the session. An interrupted call
    continues there, its result is dropped, and later calls start after it.
    """

    def __init__(self):
        self._queue: SimpleQueue | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()  # guards starting and stopping the thread
        self._process = os.getpid()
        self._interrupted: _Call | None = None

    def _post(self, function: Callable) -> _Call:
        if self._process != os.getpid():  # a fork has no threads, and may have a locked lock
            self.__init__()
        call = _Call(function)
        with self._lock:
            if self._queue is None:
                self._queue = SimpleQueue()
                self._thread = threading.Thread(
                    target=_work, args=(self._queue,), name="tpc calls", daemon=True
                )
                self._thread.start()
                weakref.finalize(self, self._queue.put, None).atexit = False
            self._queue.put(call)
        return call

    def run(self, function: Callable):
        """Returns function()."""
        if threading.current_thread() is not threading.main_thread():
            return function()
        call = self._post(function)
        try:
            return call.wait()
        except BaseException:
            call.drop()
            self._interrupted = call
            raise

    def end(self, function: Callable) -> None:
        """Calls function(). While an interrupted call runs, queues function() and returns."""
        if self._interrupted and not self._interrupted.is_done:
            self._post(function)
        else:
            self.run(function)

    def stop(self) -> None:
        """Ends the thread after the queued calls."""
        if self._process != os.getpid():
            return
        with self._lock:
            if self._queue is None:
                return
            self._queue.put(None)
            self._queue = None
        if not self._interrupted or self._interrupted.is_done:
            self._thread.join()

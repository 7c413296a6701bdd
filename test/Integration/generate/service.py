"""A client of `--serve-stdin`, which exchanges JSON lines and records their arrival times."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from harness import LoadClock

TOKEN, LAST, ERROR = {"id", "token", "index"}, {"id", "finish"}, {"id", "finish", "message"}
REASONS = {"stop", "length", "cancelled", "error"}


@dataclass
class Answer:
    """The answer to one id. Times are seconds of time.monotonic(), and positions are line numbers
    of the program's output.
    """

    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    finish: str = ""
    message: str = ""
    asked: float = 0

    @property
    def gaps(self) -> list[float]:
        """Returns the seconds between tokens."""
        return [late - early for early, late in zip(self.times, self.times[1:])]


class Service:
    """A serving program. Output lines that violate the protocol raise an error at the next call."""

    def __init__(
        self,
        program,
        *arguments: str,
        transport: str = "threads",
        log: Path | None = None,
        env=None,
    ):
        self.program, self.answers, self.wrong = program, {}, []
        self.buffers = False  # whether requests are buffered
        self.reused = False  # whether an id may be requested again before its answer was read
        self.changed = threading.Condition()
        self.log = log or program.scratch / f"serve{next(program.runs)}.log"
        environment = {
            **os.environ,
            **program.environment,
            **(env or {}),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        with open(self.log, "wb") as errors:
            self.process = subprocess.Popen(
                [*program.command(transport), "--serve-stdin", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=True,
            )
        self.lines = 0
        self.wake_read, self.wake_write = os.pipe()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        """Reads until the program closes its output or hang_up() is called, because a pipe cannot
        be closed while a thread reads it.
        """
        output, rest = self.process.stdout.fileno(), b""
        while self.wake_read not in select.select([output, self.wake_read], [], [])[0]:
            data = os.read(output, 1 << 16)
            when = time.monotonic()
            *lines, rest = (rest + data).split(b"\n")
            lines = [line + b"\n" for line in lines]
            if not data and rest:
                lines.append(rest)
            with self.changed:
                for line in lines:
                    if problem := self._take(line, when):
                        self.wrong.append(f"{problem}: {line!r}")
                self.changed.notify_all()
            if not data:
                break
        with self.changed:
            self.changed.notify_all()

    def hang_up(self) -> None:
        """Closes the client's end of the output pipe."""
        if self.wake_write is not None:
            os.close(self.wake_write)
            self.wake_write = None
            self.reader.join()
            os.close(self.wake_read)
            self.process.stdout.close()

    def _take(self, raw: bytes, when: float) -> str:
        """Returns the error in the line, if any."""
        self.lines += 1
        if not raw.endswith(b"\n"):
            return "the last line is not complete"
        try:
            line = json.loads(raw)
        except ValueError:
            return "no JSON"
        if not isinstance(line, dict) or line.keys() not in (TOKEN, LAST, ERROR):
            return "neither a token nor the last line of a request"
        answer = self.answers.setdefault(line["id"], Answer())
        if line["id"] is None:  # errors of a line rather than a request, in order
            answer = self.answers[None] = Answer()
        elif answer.finish and self.reused:
            answer = self.answers[line["id"]] = Answer()
        if answer.finish:
            return "after the last line of its request"
        if "token" in line:
            if line["index"] != len(answer.tokens):
                return f"index {len(answer.tokens)} was next"
            answer.tokens.append(line["token"])
            answer.times.append(when)
            answer.positions.append(self.lines)
            return ""
        answer.finish, answer.message = line["finish"], line.get("message", "")
        if answer.finish not in REASONS:
            return "not a reason in the protocol"
        return "" if answer.message or answer.finish != "error" else "an error without a message"

    def printed(self) -> str:
        return self.log.read_text(errors="replace")

    def send(self, line: dict | str | bytes) -> None:
        data = (
            line
            if isinstance(line, bytes)
            else (line if isinstance(line, str) else json.dumps(line)).encode() + b"\n"
        )
        self.process.stdin.write(data)
        if not self.buffers:
            self.process.stdin.flush()

    @contextlib.contextmanager
    def at_once(self):
        """Sends all requests made inside in one write, so that none is answered before the last has
        arrived.
        """
        self.buffers = True
        yield
        self.buffers = False
        self.process.stdin.flush()

    def ask(self, id: str, ids, new: int, **settings) -> str:
        with self.changed:
            # A completed id may be used again.
            self.answers[id] = Answer(asked=time.monotonic())
        self.send({"id": id, "ids": [int(one) for one in ids], "max_new_tokens": new, **settings})
        return id

    def until(self, condition, seconds: float = 120) -> None:
        """Waits for `condition` on the received answers; raises an error if the program ends or
        violates the protocol before.
        """
        clock = LoadClock()
        with self.changed:
            while not condition():
                assert not self.wrong, f"{self.wrong[:5]}\n{self.printed()[-4000:]}"
                assert (
                    self.reader.is_alive() or condition()
                ), f"the program ended\n{self.printed()[-4000:]}"
                assert clock.seconds() < seconds, (
                    f"the condition does not hold within {seconds} s\n{self.answers}\n"
                    f"{self.printed()[-4000:]}"
                )
                self.changed.wait(0.1)
            assert not self.wrong, self.wrong[:5]

    def answer(self, id: str | None, seconds: float = 120) -> Answer:
        """Waits for the complete answer."""
        self.until(lambda: id in self.answers and self.answers[id].finish, seconds)
        return self.answers[id]

    def generate(self, ids, new: int, **settings) -> list[int]:
        answer = self.answer(self.ask(f"generate-{len(self.answers)}", ids, new, **settings))
        assert answer.finish == "length" and len(answer.tokens) == new, answer
        return answer.tokens

    def close(self, seconds: float = 120) -> int:
        """Closes the input; returns the exit status."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
        status = self.process.wait(seconds)
        self.reader.join(seconds)
        assert not self.wrong, self.wrong[:5]
        return status

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.hang_up()
        try:
            self.process.stdin.close()
        except OSError:
            pass

"""Runner of programs that may hang or crash."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass


@dataclass
class Ended:
    """Result of a command. `status`: None if it exceeded its limit."""

    command: list[str]
    status: int | None
    stdout: str
    stderr: str
    seconds: float

    @property
    def ok(self) -> bool:
        return self.status == 0

    @property
    def how(self) -> str:
        if self.status is None:
            return f"ran past its limit of {self.seconds:.0f} s"
        return (
            f"signal {signal.Signals(-self.status).name}"
            if self.status < 0
            else f"exit status {self.status}"
        )

    def why(self) -> str:
        """Returns the command's result and its last output."""
        output = [
            line
            for line in (self.stderr.strip() or self.stdout.strip()).splitlines()
            if line.strip()
        ]
        return "; ".join([self.how, *output[-6:]])

    def __str__(self) -> str:
        return (
            f"$ {shlex.join(self.command)}\n{self.how}, {self.seconds:.1f}"
            f" s\n{self.stdout}\n{self.stderr}\n"
        )


def run(command, limit: float, env: dict[str, str] | None = None, cwd=None) -> Ended:
    """Runs in a separate process group, which is killed at the end."""
    command, begin = [str(part) for part in command], time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=cwd,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        except OSError as error:
            return Ended(command, 127, "", str(error), 0)
        try:
            status = process.wait(timeout=max(limit, 1))
        except subprocess.TimeoutExpired:
            status = None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
    return Ended(command, status, *texts, time.monotonic() - begin)

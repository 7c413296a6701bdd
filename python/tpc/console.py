"""How modules end that are called as commands."""

from __future__ import annotations

import sys


def run(name: str, main) -> None:
    """Ends the process with the status of `main`, or with 1 and a message where standard output could not be written. Python itself
    would print a traceback, after it has flushed too late."""
    try:
        try:
            status = main()
        finally:
            if sys.stdout:
                sys.stdout.flush()
    except OSError as error:
        # Where the reader has gone there is no one to tell. Python would flush again at its end.
        if not isinstance(error, BrokenPipeError):
            print(f"{name}: cannot write to standard output: {error.strerror}", file=sys.stderr)
        sys.stdout = None
        status = 1
    sys.exit(status)

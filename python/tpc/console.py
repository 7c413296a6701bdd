"""Exit of modules that run as commands."""

from __future__ import annotations

import sys


def run(name: str, main) -> None:
    """Exits with the status of `main`, or with 1 if standard output is not writable.

    Prints a message in that case. Python itself would flush too late and print a traceback.
    """
    try:
        try:
            status = main()
        finally:
            if sys.stdout:
                sys.stdout.flush()
    except OSError as error:
        # A closed pipe needs no message. Without the reset, Python would flush again at exit.
        if not isinstance(error, BrokenPipeError):
            print(f"{name}: cannot write to standard output: {error.strerror}", file=sys.stderr)
        sys.stdout = None
        status = 1
    sys.exit(status)

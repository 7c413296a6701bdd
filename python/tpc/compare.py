"""Compares outputs with those of ONNX Runtime for the same inputs.

    python -m tpc.compare gpt2.onnx --input input_ids=ids.npy --output logits=logits.npy

prints one line for each output and fails if the largest difference exceeds the tolerance times the
largest magnitude of ONNX Runtime's output. Without --output it runs ONNX Runtime with and without
its optimizer and compares the two: that difference is a lower bound for any tolerance.

Omitted inputs get the executable's defaults: an attention_mask of ones, position_ids that follow
the mask or begin after the past. With --program, the executable lists its inputs with defaults.
Needs numpy and onnxruntime.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from tpc import console, defaults, reference


def parse_pairs(pairs: list[str], what: str) -> dict[str, np.ndarray]:
    arrays = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals or not name or not path:
            raise ValueError(f"--{what} {pair}: expected NAME=FILE.npy")
        if Path(path).exists() and not Path(path).is_file():  # a pipe may never get data
            raise ValueError(f"--{what} {pair}: '{path}' is not a regular file")
        try:
            arrays[name] = np.load(path, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"--{what} {pair}: '{path}' is not a .npy file: {error}") from None
        if not isinstance(arrays[name], np.ndarray):
            raise ValueError(
                f"--{what} {pair}: '{path}' contains several arrays; expected a .npy file with one"
            )
    return arrays


def with_defaults(
    session: reference.Session, given: dict[str, np.ndarray], program: Path | None
) -> dict[str, np.ndarray]:
    ports = defaults.described(program) if program else defaults.conventional(session.inputs)
    inputs = defaults.fill(session.inputs, session.types, given, ports)
    for port in ports:
        if port["name"] in inputs and port["name"] not in given:
            what = port["default"] + (
                f" of the tokens visible in {port['mask']}" if "mask" in port else ""
            )
            print(
                f"{port['name']} {list(inputs[port['name']].shape)}: omitted, so {what}",
                file=sys.stderr,
            )
    return inputs


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tpc.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, help="the ONNX file")
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE.npy", help="can be repeated"
    )
    parser.add_argument(
        "--output", action="append", default=[], metavar="NAME=FILE.npy", help="can be repeated"
    )
    parser.add_argument(
        "--program", type=Path, metavar="FILE", help="the executable that supplies the defaults"
    )
    parser.add_argument("--tolerance", type=float, default=reference.TOLERANCE)
    args = parser.parse_args(argv)
    try:
        if not args.model.is_file():
            raise ValueError(
                f"there is no file '{args.model}'"
                if not args.model.exists()
                else f"'{args.model}' is not a regular file"
            )
        inputs, outputs = parse_pairs(args.input, "input"), parse_pairs(args.output, "output")
        try:
            session = reference.Session(args.model)
        except ImportError:
            sys.exit(
                "tpc.compare: onnxruntime is not installed: "
                f"{sys.executable} -m pip install onnxruntime"
            )
        inputs = with_defaults(session, inputs, args.program)
        missing = sorted(set(session.inputs) - set(inputs))
        if missing:
            raise ValueError(f"{args.model} also needs --input for {', '.join(missing)}")
        unknown = sorted(set(outputs) - set(session.outputs))
        if unknown:
            raise ValueError(
                f"{args.model} has no output {', '.join(unknown)}; "
                f"it has {', '.join(session.outputs)}"
            )
        expected = session.run(inputs)
        actual = outputs or reference.Session(args.model, optimize=False).run(inputs)
        failed = False
        for name, value in actual.items():
            distance = reference.difference(value, expected[name])
            ok = distance.relative <= args.tolerance
            failed |= not ok
            print(
                f"{name} {list(value.shape)}: {distance}: {'ok' if ok else 'MORE THAN'} "
                f"{args.tolerance:g}"
            )
        return 1 if failed else 0
    except (ValueError, OSError) as error:
        sys.exit(f"tpc.compare: {error}")
    except Exception as error:  # onnxruntime's exceptions have no more specific base class
        if "onnxruntime" not in type(error).__module__:
            raise
        sys.exit(f"tpc.compare: ONNX Runtime: {error}")


if __name__ == "__main__":
    console.run("tpc.compare", main)

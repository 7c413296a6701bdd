#!/usr/bin/env python3
"""Writes the README's terminal recording, an animated SVG, from the output of commands.

tools/recording.py [--check] [--build DIR]      # writes docs/recording.svg
"""

import argparse
import os
import subprocess
import sys
import tempfile
import textwrap
from html import escape
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
STORIES = "test/Models/stories"
COMMANDS = [
    f"tpcc {STORIES}/stories.onnx --megatron-shard=tp2,pp2 --generate -o stories",
    "./stories --describe | grep -A2 Grid",
    f'python -m tpc.generate ./stories --tokenizer {STORIES} --prompt "Once upon a time"',
]

COLUMNS, CELL, LINE, MARGIN = 96, 8.05, 19, 18
# Durations in seconds: per typed character, before the output, per line of output, at the end.
TYPING, WAIT, PRINTING, HOLD = 0.025, 0.6, 0.25, 6.0


def run(command: str, folder: Path, build: Path) -> str:
    """Returns the output of a command with the tools on the path. Exits if it fails."""
    path = os.pathsep.join(
        [str(build / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    )
    environment = {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(TOP / "python"),
        "LC_ALL": "C.UTF-8",
    }
    result = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if result.returncode:
        sys.exit(f"recording: '{command}' failed with status {result.returncode}:\n{result.stdout}")
    return result.stdout


def record(build: Path) -> list[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test").symlink_to(TOP / "test")
        return [(command, run(command, Path(folder), build)) for command in COMMANDS]


def wrap(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        COLUMNS,
        subsequent_indent=indent,
        break_on_hyphens=False,
        drop_whitespace=True,
        replace_whitespace=False,
    ) or [""]


def lay_out(session: list[tuple[str, str]]) -> tuple[list[tuple[float, str, str]], float]:
    """Returns lines as (seconds until shown, class, text), and the seconds of the recording."""
    lines, now = [], 0.3
    for command, output in session:
        for part in wrap(f"$ {command}", "    "):
            lines.append((now, "command", part))
            now += TYPING * len(part)
        now += WAIT
        for line in output.rstrip("\n").split("\n") if output.strip() else []:
            for part in wrap(line):
                lines.append((now, "output", part))
                now += PRINTING
        now += WAIT
    return lines, now + HOLD


def draw(session: list[tuple[str, str]]) -> str:
    """Returns the SVG. Without animation support, all lines are visible."""
    lines, total = lay_out(session)
    width, height = round(COLUMNS * CELL + 2 * MARGIN), len(lines) * LINE + 2 * MARGIN + 24
    style = [
        "text { font: 13.4px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; "
        f"white-space: pre; "
        f"animation-duration: {total:.1f}s; animation-iteration-count: infinite }}",
        ".command { fill: #9ecbff } .output { fill: #e6edf3 }",
    ]
    body = []
    for number, (start, kind, text) in enumerate(lines):
        percent = 100 * start / total
        style.append(
            f"@keyframes l{number} {{ 0%, {percent:.2f}% {{ opacity: 0 }} "
            f"{percent + 0.01:.2f}%, 100% {{ opacity: 1 }} }} "
            f"#l{number} {{ animation-name: l{number} }}"
        )
        y = MARGIN + 24 + (number + 0.8) * LINE
        body.append(
            f'<text id="l{number}" class="{kind}" x="{MARGIN}" y="{y:.1f}" xml:space="preserve">'
            f"{escape(text)}</text>"
        )
    dots = "".join(
        f'<circle cx="{MARGIN + 4 + 18 * i}" cy="18" r="5" fill="{color}"/>'
        for i, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}">',
            "<!-- Written by tools/recording.py; do not edit. -->",
            "<style>",
            *style,
            "@media (prefers-reduced-motion: reduce) { text { animation: none } }",
            "</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
            dots,
            *body,
            "</svg>",
            "",
        ]
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if docs/recording.svg is stale"
    )
    parser.add_argument("--build", type=Path, default=TOP / "build")
    options = parser.parse_args()
    output = TOP / "docs" / "recording.svg"
    text = draw(record(options.build.resolve()))
    if not options.check:
        output.write_text(text)
        print(f"wrote {output.relative_to(TOP)}")
    elif not output.exists() or output.read_text() != text:
        sys.exit("docs/recording.svg is stale: run tools/recording.py")


if __name__ == "__main__":
    main()

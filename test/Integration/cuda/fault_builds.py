"""Builds of the runtime with one changed file, for seeded_faults.py."""

from __future__ import annotations

import re
import shlex
import subprocess
import threading
from pathlib import Path

import harness
from one_gpu.process import run as run_process

TOP = Path(__file__).resolve().parents[3]
# Headers that take most of the time to parse.
STANDARD = [
    "algorithm",
    "array",
    "compare",
    "cstring",
    "deque",
    "functional",
    "list",
    "map",
    "memory",
    "mutex",
    "numeric",
    "set",
    "span",
    "stdexcept",
    "string",
    "thread",
    "vector",
]


class Build:
    """Targets rebuilt outside of the build folder, with one file changed."""

    def __init__(self, scratch: Path, scopes):
        self.scratch, self.lock, self.precompiled = scratch, threading.Lock(), {}
        self.commands: dict[str, list[str]] = {}
        places = [TOP / place for places, _ in scopes.values() for place in places]
        self.folders = {str(place.parent if place.is_file() else place) for place in places}
        for target in {target for _, targets in scopes.values() for target in targets}:
            result = subprocess.run(
                ["ninja", "-C", harness.BUILD, "-t", "commands", target],
                capture_output=True,
                text=True,
                check=True,
            )
            self.commands[target] = [
                line for line in result.stdout.splitlines() if not line.startswith("ninja:")
            ]

    def standard(self, words: list[str]) -> str:
        """Returns headers of the standard library, compiled with these flags."""
        flags = [words[0], *(word for word in words[1:] if not word.startswith(("-D", "-I")))]
        with self.lock:
            key = " ".join(flags)
            if key not in self.precompiled:
                header = self.scratch / f"standard-{len(self.precompiled)}.h"
                header.write_text("".join(f"#include <{name}>\n" for name in STANDARD))
                run_process(
                    [*flags, "-x", "c++-header", str(header), "-o", f"{header}.pch"],
                    180,
                    cwd=harness.BUILD,
                )
                self.precompiled[key] = f"{header}.pch"
            return self.precompiled[key]

    def objects(self, target: str, file: Path) -> dict[str, str]:
        """Returns the object and the compile command of the file or, for a header, of each source
        in the folders that includes it.
        """
        found = {}
        for command in self.commands[target]:
            made = re.search(r" -o (\S+\.o) -c (\S+\.c(?:pp|xx))$", command)
            if not made:
                continue
            unity = Path(made[2]).read_text() if made[2].endswith("_cxx.cxx") else ""
            sources = re.findall(r'#include "(\S+\.cpp)"', unity) or [made[2]]
            if not any(str(Path(source).parent) in self.folders for source in sources):
                continue
            if file.suffix == ".cpp":
                wanted = str(file) in sources
            else:
                deps = subprocess.run(
                    ["ninja", "-C", harness.BUILD, "-t", "deps", made[1]],
                    capture_output=True,
                    text=True,
                )
                wanted = any(
                    line.strip().endswith(str(file.relative_to(TOP)))
                    for line in deps.stdout.splitlines()
                )
            if wanted:
                found[made[1]] = command
        return found

    def make(self, target: str, file: Path, text: str, to: Path) -> str:
        """Builds into `to`; returns the compiler's errors if it rejects the code."""
        copy = to / "overlay" / file.relative_to(TOP / "runtime")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
        changed = {}
        for object_file, command in self.objects(target, file).items():
            own = to / object_file.replace("/", "_")
            changed[object_file] = str(own)
            if own.exists():  # of another target
                continue
            words = shlex.split(command)
            words = words[
                next(i for i, word in enumerate(words) if re.search(r"\+\+(-\d+)?$", word)) :
            ]  # without ccache
            source = str(copy) if words[-1] == str(file) else words[-1]
            if source.endswith("_cxx.cxx"):  # includes the sources of a folder
                unity = to / Path(source).name
                text = Path(source).read_text().replace(f'"{file}"', f'"{copy}"')
                unity.write_text(text)
                source = str(unity)
            # The precompiled header of the build has other flags.
            words = re.sub(r" -Winvalid-pch( -Xclang \S+)*", "", " ".join(map(shlex.quote, words)))
            words = shlex.split(words)
            at = words.index("-o")
            words = [words[0], f"-I{to / 'overlay'}", *words[1:at], "-O0", "-w"]
            # ninja does not track these dependencies.
            for flag in ("-MD", "-MT", "-MF"):
                if flag in words:
                    i = words.index(flag)
                    del words[i : i + (1 if flag == "-MD" else 2)]
            words += ["-include-pch", self.standard(words), "-o", str(own), "-c", source]
            result = run_process(words, 180, cwd=harness.BUILD)
            if not result.ok:
                return next(
                    (line for line in result.stderr.splitlines() if "error:" in line), result.why()
                )
        link = self.commands[target][-1]
        made = to / Path(target).name
        link = (
            link.replace(target, str(made))
            if target.endswith(".a")
            else link.replace(f" -o {target}", f" -o {made}")
        )
        for object_file, own in changed.items():
            if f" {object_file}" in link:
                link = link.replace(f" {object_file}", f" {own}")
            else:
                # The object replaces a member of an archive, which the linker then skips. It comes
                # first, so that its inline functions are used.
                link = re.sub(r" \S+\.o ", rf" {own}\g<0>", link, count=1)
        result = run_process(["sh", "-c", link], 180, cwd=harness.BUILD)
        return "" if result.ok else result.why()

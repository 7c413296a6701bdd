"""Compile ONNX models from Python: `tpc.compile` runs tpcc and opens its program as a session."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tpc import programs
from tpc.library import TpcError, encode, flag_of, nearest, path_of
from tpc.session import Session
from tpc.text import ids_of, load_tokenizer, read_defaults
from tpc.training import train_options

# Default sizes of a report: one sequence of this many tokens.
_REPORT_TOKENS = 128
# Options of tpcc that compile() rejects.
_COMMAND_OPTIONS = (
    "emit",
    "o",
    "megatron_shard",
    "report",
    "routing",
    "certificate",
    "explain",
    "why",
    "memory_plan",
    "simulate",
    "trace",
    "max_new_tokens",
    "print_groups",
    "plain",
    "json",
    "diagnostics",
    "help",
    "help_list",
    "version",
)


@dataclass(frozen=True)
class Message:
    """An error, warning, note or remark of the compiler. Unknown fields are empty or None."""

    severity: str
    text: str
    node: str = ""  # of the ONNX graph
    file: str = ""
    line: int | None = None
    notes: tuple[Message, ...] = field(default=())

    @classmethod
    def of(cls, value: Mapping) -> Message:
        notes = tuple(cls.of(note) for note in value.get("notes", ()))
        return cls(
            value["severity"],
            value["message"],
            value.get("node", ""),
            value.get("file", ""),
            value.get("line"),
            notes,
        )

    def __str__(self) -> str:
        location = f"node '{self.node}'" if self.node else self.file
        location += f":{self.line}" if self.file and self.line and not self.node else ""
        text = (
            self.text
            if not location or self.text.startswith(location.removeprefix("node "))
            else f"{location}: {self.text}"
        )
        return "\n".join([f"{self.severity}: {text}", *(f"  {note}" for note in self.notes)])


class CompileError(TpcError):
    """An error of tpcc for a model.

    `messages` has all messages of tpcc. `node`, `file` and `remedy` belong to the first error: the
    ONNX node, the file with the error, and the remedy (the text after the message's last
    semicolon). Each is empty if unknown.
    """

    def __init__(self, messages: list[Message], status: int):
        errors = [message for message in messages if message.severity == "error"]
        shown = errors or messages
        super().__init__(
            "\n".join(map(str, shown)) or f"tpcc ended with status {status} without a message"
        )
        first = shown[0] if shown else Message("error", "")
        self.messages = messages
        self.node, self.file = first.node, first.file
        notes = [note.text for note in first.notes]
        self.remedy = (
            first.text.rpartition(";")[2].strip()
            if ";" in first.text
            else (notes[-1] if notes else "")
        )


def find_tpcc() -> Path:
    """Returns the compiler: the package's own, the repository's build, or the one on PATH."""
    here = Path(__file__).resolve().parent
    for path in (here / "_compiler" / "bin" / "tpcc", here.parents[1] / "build" / "bin" / "tpcc"):
        if path.is_file():
            return path
    found = shutil.which("tpcc")
    if found is None:
        raise TpcError(
            "there is no tpcc: this package was installed without the compiler; run "
            "`pip install .` in the repository, "
            "or put tpcc on PATH"
        )
    return Path(found)


def run_tpcc() -> None:
    """Entry point `tpcc` of an installed package: replaces this process by the compiler."""
    tpcc = find_tpcc()
    os.execv(tpcc, [str(tpcc), *sys.argv[1:]])


def _flags(options: Mapping) -> list[str]:
    """Returns tpcc's flags: --emit=staged for `emit="staged"`, --digest-weights for True."""
    flags = []
    for name, value in options.items():
        for flag in flag_of(name, value):
            encode("option", flag)
            flags.append(flag[1:] if name in ("O", "o") else flag)
    return flags


@functools.cache
def _options(tpcc: str, changed: int) -> tuple[str, ...]:
    """Returns the names of tpcc's options in Python spelling, from its --help-list.

    Returns none if tpcc prints no list. `changed` is the time stamp of the file.
    """
    listed = subprocess.run(
        [tpcc, "--help-list"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    return tuple(
        name.replace("-", "_")
        for name in re.findall(
            r"^  --?([A-Za-z][\w-]*)", listed.stdout.partition("\nEXAMPLES")[0], re.M
        )
    )


def _listed() -> tuple[str, ...]:
    """Returns the names of options of the compiler that find_tpcc() finds."""
    tpcc = find_tpcc()
    return _options(str(tpcc), tpcc.stat().st_mtime_ns)


def option_names() -> list[str]:
    """Returns the keywords of `compile`: its own, and the options of tpcc."""
    keywords = [
        name
        for name, parameter in inspect.signature(compile).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    listed = [name for name in _listed() if name not in (*keywords, *_COMMAND_OPTIONS)]
    return keywords + listed


def _check_options(options: Mapping) -> None:
    """Rejects unknown options, also those with the value None or False, which are not passed."""
    known = option_names() if options else ()
    for name in options:
        if name in _COMMAND_OPTIONS:
            raise TpcError(
                f"{name} is spelled {'out' if name == 'o' else 'shard'} here"
                if name in ("o", "megatron_shard")
                else f"compile() makes a program and opens it: {name} is an option of the command "
                "tpcc alone"
            )
        if name not in known and _listed():
            raise TpcError(
                f"compile() has no option '{name}'{nearest(name, known)}; tpcc --help lists them"
            )


def _run(arguments: list[str], verbose: bool) -> tuple[str, list[Message]]:
    """Runs tpcc. Returns its standard output and its messages.

    tpcc ends on an interrupt and at the end of this process.
    """
    process = subprocess.Popen(
        [find_tpcc(), *arguments, "--diagnostics=json", f"--end-with={os.getpid()}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, errors = process.communicate()
    except BaseException:
        process.kill()
        process.wait()
        raise
    messages, rest = [], []
    for line in errors.splitlines():
        try:
            messages.append(Message.of(json.loads(line)))
        except (ValueError, KeyError, TypeError):
            rest.append(line)
    if rest:  # an invalid command line, or a crash
        messages.append(
            Message(
                "error" if process.returncode else "note",
                "\n".join(rest).removeprefix("tpcc: ").removeprefix("error: "),
            )
        )
    if verbose:
        for message in messages:
            print(f"tpcc: {message}", file=sys.stderr)
    if process.returncode:
        raise CompileError(messages, process.returncode)
    return output, messages


def _absolute(what: str, path) -> Path:
    path = Path(path_of(what, path))
    try:
        return path.absolute()
    except OSError as error:
        raise TpcError(
            f"{what} '{path}': the working directory cannot be found ({error.strerror}); give an "
            "absolute path"
        ) from None


def compile(
    model,
    *,
    shard: str = "tp1",
    generate: bool | str = False,
    train: bool | Mapping = False,
    weights=None,
    out=None,
    cache: bool = True,
    verbose: bool = False,
    threads: int | None = None,
    session: Mapping | None = None,
    **options,
) -> CompiledSession:
    """Compiles an ONNX model and opens the program, with all ranks as threads of this process.

        model = tpc.compile("gpt2.onnx", shard="tp2,pp2", generate=True)
        print(model.generate("Once upon a time", max_new_tokens=40))
        model.report()["collectives"]

    * `shard`: ranks per axis, in the syntax of --megatron-shard.
    * `generate`: compile for generation (True, or "all" for the logits of all tokens).
    * `train`: compile for training (True, or options: `dict(optimizer="adamw:clip=1")`); see
      `Session.step`.
    * `weights`: the model's external data, if not next to the model; a checkpoint of safetensors;
      or "random:SEED".
    * `out`: path of the program. By default, a cache keeps programs by content, so that the same
      call does not compile again (`cache=False`: a temporary file).
    * `threads`: number of threads per rank.
    * `session`: further flags of `tpc.load`.
    * `verbose`: prints tpcc's messages.

    Other options are passed to tpcc, with underscores in place of hyphens: `target="cuda"`,
    `quantize="int4:32"`, `no_verify=True`, `annotations="split.txt"`; `tpcc --help` lists them.

    Raises CompileError with the ONNX node, the file and the remedy, or TpcError if the program
    cannot be opened.
    """
    _check_options(options)
    model = _absolute("the model", model)
    # Python would open an integer as a file descriptor.
    options |= {
        name: path_of(name, options[name])
        for name in programs.FILE_OPTIONS
        if options.get(name) is not None
    }
    flags = {} if session is None else session
    if not isinstance(flags, Mapping) or not all(isinstance(name, str) for name in flags):
        raise TpcError(
            f"session: expected flags of tpc.load by name, not {type(session).__name__} "
            f"{session!r:.60}"
        )
    for name in flags.keys() & {"path", "weights", "threads"}:
        raise TpcError(
            f"session: {name} is an argument of compile() itself"
            if name != "path"
            else "session: the program's path is out=, an argument of compile() itself"
        )
    if not model.is_file():
        raise TpcError(f"no such model: '{model}'")
    is_random = isinstance(weights, str) and weights.startswith("random:")
    options = {
        "megatron_shard": shard,
        "generate": generate,
        **train_options(train, options),
        "weights": None if is_random else weights,
        **options,
    }
    arguments = [str(model), *_flags(options)]

    def build(path: Path) -> list[Message]:
        return _run([*arguments, "-o", str(path)], verbose)[1]

    def load(path: Path, messages: list[Message]) -> CompiledSession:
        # The program contains the paths of other weights, which may be in several folders.
        drawn = weights if is_random else None
        return CompiledSession(
            path, model, arguments, messages, weights=drawn, threads=threads, **flags
        )

    if out is not None:
        path = _absolute("out", out)
        return load(path, build(path))
    folder = programs.folder_of_programs() if cache else None
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="tpc-") as temporary:
            path = Path(temporary) / model.stem
            return load(path, build(path))
    other = "set TPC_CACHE to another folder, or disable the cache with cache=False"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TpcError(
            f"cannot make the cache folder '{folder}': {error.strerror}; {other}"
        ) from None
    path = folder / f"{programs.key_of(find_tpcc(), model, arguments, options)}-{model.stem}"
    if path.exists():
        try:
            opened = load(path, [])
        except TpcError:  # such as changed weights: compiling again reports the error
            pass
        else:
            with contextlib.suppress(OSError):
                os.utime(path)
            return opened
    try:
        messages = build(path)
    except CompileError as error:
        if f"'{path}'" not in str(error):
            raise
        raise CompileError(
            [
                Message(
                    "error",
                    "the program cannot be kept in the cache: "
                    f"{str(error).removeprefix('error: ')}; {other}",
                )
            ],
            1,
        ) from None
    programs.trim(folder)
    return load(path, messages)


class CompiledSession(Session):
    """A session with its model: makes reports, and generates text if there is a tokenizer."""

    def __init__(self, path, model: Path, arguments: list[str], messages: list[Message], **flags):
        super().__init__(path, **flags)
        self.path, self.model, self.messages = Path(path), model, messages
        self._arguments = arguments
        self._tokenizer = None

    def report(self, **sizes: int) -> dict:
        """Returns the output of `tpcc --report`: communication and memory of one step.

        `sizes` bind the model's symbols (`description["symbols"]`). Default sizes are 1 for
        batches; for others 128, or the largest smaller power of two that the model accepts.
        """
        symbols = self.description["symbols"]
        if unknown := [name for name in sizes if name not in symbols]:
            raise TpcError(f"the model has no size '{unknown[0]}'; it has " + ", ".join(symbols))
        tokens = _REPORT_TOKENS
        while True:
            bound = {name: 1 if "batch" in name else tokens for name in symbols} | sizes
            shape = (
                [f"--shape={','.join(f'{name}={size}' for name, size in bound.items())}"]
                if bound
                else []
            )
            try:
                output, _ = _run([*self._arguments, "--report=-", *shape], verbose=False)
            except CompileError as error:
                if tokens == 1 or bound == sizes or "does not fit the model" not in str(error):
                    raise
                tokens //= 2
            else:
                return json.loads(output)

    def why(self, name: str) -> list[dict]:
        """Returns the output of `tpcc --why`: reasons for the splits of the values of an ONNX node.

        `name` may also be that of a value, weight, input or output. Each entry has the value's
        type, and for each split its tactic and the ops from the value to the tactic's seed.
        """
        flag = f"--why={name}"
        encode("option", flag)
        return json.loads(_run([*self._arguments, flag, "--json"], verbose=False)[0])

    @property
    def tokenizer(self):
        """The tokenizer.json next to the model, as a `tokenizers` object; None without the file."""
        if self._tokenizer is None and (self.model.parent / "tokenizer.json").is_file():
            self._tokenizer = load_tokenizer(self.model.parent)
        return self._tokenizer

    def generate(self, prompt, **settings):
        """Returns the continuation of a prompt: text for text, ids for ids (`Session.generate`).

        Returns a list of continuations for a list of prompts. Text needs a tokenizer.json next to
        the model, and uses the settings of the generation_config.json or genai_config.json there;
        settings of this call take precedence.
        """
        texts = [prompt] if isinstance(prompt, str) else prompt
        if (
            not isinstance(texts, (list, tuple))
            or not texts
            or not all(isinstance(text, str) for text in texts)
        ):
            return super().generate(prompt, **settings)
        if self.tokenizer is None:
            raise TpcError(
                f"there is no tokenizer.json next to '{self.model}': give token ids, or put the "
                "model's tokenizer.json there"
            )
        settings = read_defaults(self.model.parent).settings() | settings
        rows = super().generate([ids_of(self.tokenizer, text) for text in texts], **settings)
        found = [self.tokenizer.decode(row.tolist(), skip_special_tokens=True) for row in rows]
        return found[0] if isinstance(prompt, str) else found

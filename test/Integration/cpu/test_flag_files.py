"""Files that flags name, for every tool: size limits, early checks of outputs, write errors."""

import os
import subprocess
import sys

import numpy as np
import pytest

from harness import BUILD, TOP, run, sanitized, tool
from models import COMMITTED

MODEL = COMMITTED["gpt2-mlp"].path
STAGED = ["--megatron-shard=tp2", "--emit=staged"]
GENERATES = BUILD / "test" / "bin" / "tpc-generate-test-program"
PYTHON = {"PYTHONPATH": str(TOP / "python")}
GIB = 1 << 30


@pytest.fixture(scope="module")
def program(tpcc):
    return tpcc.compile(MODEL, "tp2")


@pytest.fixture(scope="module")
def made(tpcc, tmp_path_factory):
    """Inputs of tools: textual programs, a certificate, arrays."""
    folder = tmp_path_factory.mktemp("made")
    tpcc.call(
        [
            MODEL,
            *STAGED,
            "-o",
            folder / "staged.mlir",
            f"--certificate={folder / 'certificate.json'}",
        ]
    ).check()
    tpcc.call([MODEL, "--emit=import", "-o", folder / "import.mlir"]).check()
    np.save(folder / "x.npy", np.zeros((1, 2, 40), np.float32))
    (folder / "text").write_text("text")
    return folder


def commands(made, program):
    """Returns a command of each tool. The test replaces READ by a file to read, and WRITTEN by a
    file to write.
    """
    opt, reduce, translate = tool("tpc-opt"), tool("tpc-reduce"), tool("tpc-translate")
    run_it = [program.path, "--input", f"hidden_states={made / 'x.npy'}"]
    return {
        "tpcc": [tool("tpcc"), "READ", "-o", "WRITTEN"],
        "tpcc --annotations": [tool("tpcc"), MODEL, "--annotations=READ", "-o", "WRITTEN"],
        "tpcc --links": [tool("tpcc"), MODEL, "--links=READ", *STAGED, "-o", "WRITTEN"],
        "tpcc --reference": [
            tool("tpcc"),
            made / "staged.mlir",
            "--reference=READ",
            "-o",
            "WRITTEN",
        ],
        "tpcc --weights": [
            tool("tpcc"),
            TOP / "test" / "Models" / "gpt2-124m.onnx",
            "--weights=READ",
            *STAGED,
            "-o",
            "WRITTEN",
        ],
        "tpcc --report": [tool("tpcc"), MODEL, "--report=WRITTEN", "--shape", "batch=1,sequence=2"],
        "tpcc --trace": [
            *[tool("tpcc"), MODEL, "--simulate", "--machine=epyc-2core", "--trace=WRITTEN"],
            *["--shape", "batch=1,sequence=2"],
        ],
        "tpcc --certificate": [tool("tpcc"), MODEL, "--certificate=WRITTEN"],
        "tpcc --emit=lib": [tool("tpcc"), MODEL, "--emit=lib", "-o", "WRITTEN"],
        "tpcc --emit=obj": [tool("tpcc"), MODEL, "--emit=obj", "-o", "WRITTEN"],
        "tpcc --emit=staged": [tool("tpcc"), MODEL, *STAGED, "-o", "WRITTEN"],
        "tpc-opt": [opt, "READ", "-o", "WRITTEN"],
        "tpc-opt annotations": [
            opt,
            made / "import.mlir",
            "--tpc-apply-annotations=file=READ",
            "-o",
            "WRITTEN",
        ],
        "tpc-opt equivalence": [
            opt,
            made / "staged.mlir",
            "--tpc-verify-equivalence=reference=READ",
            "-o",
            "WRITTEN",
        ],
        "tpc-opt generation": [
            opt,
            made / "import.mlir",
            "--tpc-verify-generation=reference=READ",
            "-o",
            "WRITTEN",
        ],
        "tpc-opt lowered": [
            opt,
            made / "import.mlir",
            "--tpc-verify-lowered=reference=READ",
            "-o",
            "WRITTEN",
        ],
        "tpc-translate": [translate, "--import-onnx", "READ", "-o", "WRITTEN"],
        "tpc-reduce": [reduce, "READ", "--reduction-tree", "-o", "WRITTEN"],
        "tpc-check-certificate": [tool("tpc-check-certificate"), "READ"],
        "tpc-check-certificate program": [
            tool("tpc-check-certificate"),
            made / "certificate.json",
            "READ",
        ],
        "program --input": [
            program.path,
            "--input",
            "hidden_states=READ",
            "--output",
            "output=WRITTEN",
        ],
        "program --weights": [*run_it, "--weights=READ", "--output", "output=WRITTEN"],
        "program --prompt-ids json": [
            GENERATES,
            "--prompt-ids",
            "READ.json",
            "--logits",
            "WRITTEN",
        ],
        "program --prompt-ids npy": [GENERATES, "--prompt-ids", "READ.npy", "--logits", "WRITTEN"],
    }


def with_files(command, read=None, written=None):
    words = [str(word) for word in command]
    for placeholder, path in (("READ", read), ("WRITTEN", written)):
        words = [word.replace(placeholder, str(path)) if path else word for word in words]
    return words


NO_PROGRAM = type("Program", (), {"path": TOP})  # for the names of commands; never run
NAMES = list(commands(TOP, NO_PROGRAM))


def make_huge(path):
    path.touch()
    os.truncate(path, 1 << 40)


BAD_INPUTS = {
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
    "huge": make_huge,
    "link": lambda path: path.symlink_to("nowhere"),
    "absent": lambda path: None,
    "pipe": os.mkfifo,
}


@pytest.mark.parametrize("name", NAMES)
def test_inputs_have_size_limits(made, program, tmp_path, name):
    command = commands(made, program)[name]
    word = next((str(word) for word in command if "READ" in str(word)), None)
    if word is None:
        return
    end = word[word.index("READ") + len("READ") :]
    for kind, make in BAD_INPUTS.items():
        if (name, kind) in (
            ("tpcc --weights", "folder"),
            ("tpcc --weights", "huge"),
            ("tpcc --annotations", "pipe"),
            ("tpcc --links", "pipe"),
        ):
            continue  # weights are in a folder and have no limit; a read from a pipe waits
        folder = tmp_path / kind
        folder.mkdir()
        make(folder / f"read{end}")
        # Limits memory, so that the test does not exhaust the machine's memory.
        result = run(
            with_files(command, folder / "read", tmp_path / "written"),
            timeout=60,
            limit_bytes=None if sanitized() else 40 * GIB,
        )
        result.refused("read")
        assert result.cpu_seconds < 20 and not any(
            word in result.stderr for word in ("LLVM ERROR", "alloc", "Traceback")
        ), result
        assert not (tmp_path / "written").exists()


def test_annotations_and_links_from_pipes(tpcc, tmp_path):
    """A finite stream is accepted instead of a file."""
    text = (
        "exec \"$@\" --annotations=<(printf '# nothing\\n') --links=<(printf"
        " '{}') -o "
    )
    run(
        ["bash", "-c", text + str(tmp_path / "out.mlir"), "bash", tool("tpcc"), MODEL, *STAGED]
    ).check()


BAD_OUTPUTS = ["absent/folder/file", "file/below", "folder", "link", "/proc/nowhere"]


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in NAMES
        if any("WRITTEN" in str(word) for word in commands(TOP, NO_PROGRAM)[name])
    ],
)
def test_outputs_are_checked_first(made, program, tmp_path, name):
    """Outputs are checked first: no weights exist here, and inputs of the compiler are no programs,
    so any work would fail with another message.
    """
    command = commands(made, program)[name]
    if command[0] == program.path and "--weights=READ" not in command:
        command = [*command, "--weights=/no/weights"]
    (tmp_path / "prompt.json").write_text("[1, 2]")
    np.save(tmp_path / "prompt.npy", np.array([1, 2]))
    (tmp_path / "file").write_text("a file")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("no/folder/file")
    before = sorted(tmp_path.rglob("*"))
    read = (
        tmp_path / "prompt"
        if "prompt" in name
        else made / ("x.npy" if "--input" in name else "text")
    )
    for path in BAD_OUTPUTS:
        result = run(
            with_files(command, read, path if path[0] == "/" else tmp_path / path), timeout=60
        ).refused()
        assert path in result.stderr and any(
            word in result.stderr for word in ("cannot write", "is a folder")
        ), result
        assert sorted(tmp_path.rglob("*")) == before, result


def test_batches_are_checked_first(program, tmp_path):
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "a.npy", np.zeros((1, 2, 40), np.float32))
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below", "/proc/nowhere"):
        result = program.call(
            ["--batch-of", tmp_path / "in", "--output", path, "--weights=/no/weights"]
        )
        result.refused("cannot", str(path))
    program.call(["--batch-of", tmp_path / "in", "--output", tmp_path / "new" / "folders"]).check()
    assert (tmp_path / "new" / "folders" / "a.npy").exists()


def outputs(made, program):
    """Returns commands whose output is on standard output, for each tool."""
    opt, check = tool("tpc-opt"), tool("tpc-check-certificate")
    shape = ["--shape", "batch=1,sequence=2"]
    run_it = [program.path, "--input", f"hidden_states={made / 'x.npy'}"]
    return {
        **{
            f"{name} --help": [tool(name), "--help"]
            for name in (
                "tpcc",
                "tpc-opt",
                "tpc-translate",
                "tpc-reduce",
                "tpc-check-certificate",
                "tpc-library-kernels",
                "tpc-lsp-server",
                "tpc-probe",
                "tpc-ptx-run",
                "tpc-rt-bench",
            )
        },
        "tpc-rt-bench": [tool("tpc-rt-bench"), "--repeat", "1"],
        "tpcc --version": [tool("tpcc"), "--version"],
        "tpc-opt --version": [opt, "--version"],
        "tpcc --emit": [tool("tpcc"), MODEL, *STAGED],
        "tpcc --explain": [tool("tpcc"), MODEL, "--megatron-shard=tp2", "--explain"],
        "tpcc --memory-plan": [tool("tpcc"), MODEL, "--memory-plan=1GiB", *shape],
        "tpcc --print-groups": [tool("tpcc"), "--print-groups=tp", "--megatron-shard=tp2"],
        "tpcc --report": [tool("tpcc"), MODEL, "--report=-", *shape],
        "tpcc --certificate": [tool("tpcc"), MODEL, "--certificate=-"],
        "tpc-opt": [opt, made / "staged.mlir"],
        "tpc-opt --show-dialects": [opt, "--show-dialects"],
        "tpc-opt --print-coverage": [opt, "--print-coverage"],
        "tpc-opt certificate": [
            opt,
            made / "staged.mlir",
            "-o",
            "/dev/null",
            "--tpc-verify-comms=certificate=-",
        ],
        "tpc-opt certificate file": [
            opt,
            made / "staged.mlir",
            "-o",
            "/dev/null",
            "--tpc-verify-comms=certificate=/dev/stdout",
        ],
        "tpc-translate": [tool("tpc-translate"), "--import-onnx", MODEL],
        "tpc-check-certificate": [check, made / "certificate.json", made / "staged.mlir"],
        "program": run_it,
        "program --output": [*run_it, "--output", "output=/dev/stdout"],
        "program --help": [program.path, "--help"],
        "program --describe": [program.path, "--describe"],
        "program --describe --json": [program.path, "--describe", "--json"],
        "program --describe-device": [program.path, "--describe-device"],
        "program --bench": [program.path, "--bench", *shape, "--repeat", "1", "--warmup", "0"],
        "program --prompt-ids": [GENERATES, "--prompt-ids", "1,2"],
        "program --logits": [GENERATES, "--prompt-ids", "1,2", "--logits", "/dev/stdout"],
        **{
            f"{module} --help": [sys.executable, "-m", f"tpc.{module}", "--help"]
            for module in ("compare", "export", "generate", "weights")
        },
        "compare": [
            sys.executable,
            "-m",
            "tpc.compare",
            MODEL,
            "--input",
            f"hidden_states={made / 'x.npy'}",
        ],
    }


@pytest.mark.parametrize("name", list(outputs(TOP, NO_PROGRAM)))
def test_full_standard_output(made, program, name):
    command = [str(word) for word in outputs(made, program)[name]]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **PYTHON},
        )
    assert 0 < ended.returncode < 126 and (
        "No space left" in ended.stderr or "cannot write to standard output" in ended.stderr
    ), ended
    assert "Traceback" not in ended.stderr and "Stack dump" not in ended.stderr, ended
    # The same command succeeds, with output, if standard output is writable.
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, env={**os.environ, **PYTHON}
    )
    assert ended.returncode == 0 and ended.stdout, ended


@pytest.mark.parametrize("reads", [True, pytest.param(False, marks=pytest.mark.long)])
def test_logits_to_a_pipe(tmp_path, reads):
    """A pipe is written once it has a reader; without one, the program fails."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [GENERATES, "--prompt-ids", "1,2", "--max-new-tokens", "1", "--logits", pipe]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        data = pipe.read_bytes() if reads else b""
        error = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    if reads:
        assert process.returncode == 0 and data.startswith(b"\x93NUMPY"), error
    else:
        assert process.returncode == 1 and "no process reads this pipe" in error, error


def test_full_output_of_a_service():
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [GENERATES, "--serve-stdin"],
            input='{"id":"a","ids":[1],"max_new_tokens":2}\n',
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert 0 < ended.returncode < 126 and ended.stderr, ended

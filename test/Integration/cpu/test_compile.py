"""`tpc.compile`: models compiled and opened in this process, tpcc options, errors with remedies."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tpc
from conftest import TOP
from harness import BUILD, run, tool
from liveness import is_there, until
from models import COMMITTED
from tpc import compiler, programs, reference

MODEL = COMMITTED["gpt2-tiny"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A private cache, and the compiler of the tested build."""
    monkeypatch.setattr(compiler, "find_tpcc", lambda: tool("tpcc"))
    monkeypatch.setenv("TPC_CACHE", str(tmp_path / "cache"))
    yield tmp_path / "cache" / "programs"
    gc.collect()  # ends ranks of sessions that were left open, before another test counts threads


def make_unknown(path):
    """Writes a model with a node that tpc does not import."""
    node = helper.make_node("Det", ["x"], ["y"], name="/layer/Det")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)
    return path


@pytest.mark.parametrize("shard", ["tp1", "tp2,pp2"])
def test_runs_equal_onnx_runtime(shard):
    inputs = MODEL.inputs(2, 7)
    with tpc.compile(MODEL.path, shard=shard, threads=1) as session:
        found = session.run(inputs)
    expected = reference.Session(MODEL.path).run(inputs)
    assert reference.difference(found["logits"], expected["logits"]).relative <= reference.TOLERANCE


def test_generates_and_reports():
    with tpc.compile(MODEL.path, shard="tp2,pp2", generate=True) as session:
        ids = session.generate([1, 2, 3], max_new_tokens=4)
        report = session.report(sequence=16)
        assert session.description["world_size"] == 4
    assert len(ids) == 4
    kinds = {(row["axis"], row["kind"]) for row in report["collectives"]}
    assert {("tp", "all_reduce"), ("pp", "send")} <= kinds
    with tpc.compile(MODEL.path) as session, pytest.raises(tpc.TpcError, match="--generate"):
        session.generate([1, 2, 3])


def test_report_sizes_fit_the_model():
    """Default sizes of reports fit models with few positions, such as gpt2-tiny with 128."""
    for name in ("gpt2-tiny", "gpt2-layer", "gpt2-mlp"):
        with tpc.compile(COMMITTED[name].path) as session:
            assert session.report()["collectives"]
    with tpc.compile(MODEL.path) as session:
        with pytest.raises(tpc.CompileError, match="sequence=5000 does not fit"):
            session.report(sequence=5000)
        with pytest.raises(tpc.TpcError, match="no size 'rows'"):
            session.report(rows=1)


def test_generates_text_from_text(tmp_path):
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers: it is not installed")
    model = tmp_path / "model.onnx"
    model.write_bytes(MODEL.path.read_bytes())
    with (
        tpc.compile(model, generate=True) as session,
        pytest.raises(tpc.TpcError, match="no tokenizer.json next to"),
    ):
        session.generate("a")
    words = {chr(97 + i % 26) * (1 + i // 26): i for i in range(1000)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="a"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with tpc.compile(model, generate=True) as session:
        text = session.generate("b c d", max_new_tokens=3)
        ids = session.generate([1, 2, 3], max_new_tokens=3)
        assert session.generate(["b c d", "e"], max_new_tokens=3)[0] == text
    assert text.split() == [list(words)[token] for token in ids]
    (tmp_path / "generation_config.json").write_text(json.dumps({"max_new_tokens": 2}))
    with tpc.compile(model, generate=True) as session:
        assert len(session.generate("b c d").split()) == 2


def test_the_same_call_compiles_once(cache, monkeypatch):
    first = tpc.compile(MODEL.path, shard="tp2")
    calls = []
    original = compiler._run
    monkeypatch.setattr(
        compiler, "_run", lambda *arguments: calls.append(arguments) or original(*arguments)
    )
    second = tpc.compile(MODEL.path, shard="tp2")
    assert second.path == first.path and not calls
    assert (
        tpc.compile(MODEL.path, shard="tp2", residual="same").path != first.path and len(calls) == 1
    )
    # A cache entry that cannot be opened is compiled again.
    third = next(path for path in cache.iterdir() if path != first.path)
    third.unlink()  # it is mapped: its bytes are not touched
    third.write_bytes(b"")
    tpc.compile(MODEL.path, shard="tp2", residual="same")
    assert len(calls) == 2
    monkeypatch.setattr(programs, "_KEPT_PROGRAMS", 1)
    tpc.compile(MODEL.path, shard="tp3")
    assert len(list(cache.iterdir())) == 1


def test_a_changed_model_is_compiled_again(tmp_path):
    """The cache key is the content: the same path with other bytes is another program."""
    model = tmp_path / "model.onnx"
    paths = set()
    for name in ("gpt2-tiny", "gpt2-mlp"):
        model.write_bytes(COMMITTED[name].path.read_bytes())
        paths.add(tpc.compile(model).path)
    assert len(paths) == 2


@pytest.mark.parametrize("name", ["data", "d" * 200])  # lengths of 1 and 2 bytes
def test_changed_weights_are_packed_again(tmp_path, cache, name):
    """A quantized program has packed weights, which must follow the model's weight file."""
    model, w = tmp_path / "model.onnx", np.eye(16, dtype=np.float32)
    describe = helper.make_tensor_value_info
    ports = [describe(port, TensorProto.FLOAT, ["batch", 16]) for port in "xy"]
    weights = [onnx.numpy_helper.from_array(w, "w")]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", ports[:1], ports[1:], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(made, model, save_as_external_data=True, location=name, size_threshold=0)
    for factor, num_entries in ((1, 1), (1, 1), (3, 2)):
        if factor != 1:
            (factor * w).tofile(tmp_path / name)
        with tpc.compile(model, quantize="int8") as session:
            assert np.allclose(session.run({"x": w})["y"], factor * w, atol=0.01)
        assert len(list(cache.glob("*-model"))) == num_entries


def test_output_path(tmp_path, cache):
    with tpc.compile(MODEL.path, out=tmp_path / "program", cache=False) as session:
        assert session.path == tmp_path / "program"
    assert run([tmp_path / "program", "--describe"]).check()
    with tpc.compile(MODEL.path, cache=False) as session:
        assert session.run(MODEL.inputs(1, 3))["logits"].shape == (1, 3, 1000)
    assert not cache.exists()


def test_random_weights():
    with (
        tpc.compile(MODEL.path, weights="random:1") as one,
        tpc.compile(MODEL.path, weights="random:2") as two,
    ):
        inputs = MODEL.inputs(1, 3)
        assert not np.allclose(one.run(inputs)["logits"], two.run(inputs)["logits"])


def test_gpu_programs_need_a_gpu():
    """Compiling for CUDA needs no GPU. Opening the program without a GPU is an error."""
    with pytest.raises(tpc.TpcError) as caught:
        tpc.compile(MODEL.path, target="cuda", shard="tp2")
    assert not isinstance(caught.value, tpc.CompileError) and "libcuda" in str(caught.value)


@pytest.mark.parametrize(
    "options,words",
    [
        ({"shard": "tp0"}, "number must be at least 1"),
        ({"shard": "tp2,xy3"}, "xy3"),
        ({"generate": "some"}, "--generate=some"),
        ({"target": "tpu"}, "tpu"),
        ({"weights": "/nowhere"}, "/nowhere"),
        ({"precision": "f8", "target": "cuda"}, "f8"),
        ({"O": 7}, "-O7"),
        ({"annotations": "/nowhere"}, "/nowhere"),
    ],
    ids=str,
)
def test_options_that_tpcc_rejects(options, words):
    with pytest.raises(tpc.CompileError, match=words) as caught:
        tpc.compile(MODEL.path, **options)
    assert caught.value.messages and "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "options,words",
    [
        ({"emit": "obj"}, "emit is an option of the command tpcc"),
        ({"megatron_shard": "tp2"}, "spelled shard"),
        ({"o": "x"}, "spelled out"),
        *(
            ({name: value}, f"no option '{name}' .did you mean '{meant}'")
            for name, meant in (("no_verfy", "no_verify"), ("genarate", "generate"))
            for value in (None, False, True, "x")
        ),
        (
            {"session": {"determinstic": False}},
            "no flag 'determinstic' .did you mean 'deterministic'",
        ),
        ({"colour": None}, "no option 'colour';"),
    ],
    ids=str,
)
def test_unknown_options(options, words):
    with pytest.raises(tpc.TpcError, match=words):
        tpc.compile(MODEL.path, **options)


@pytest.mark.parametrize(
    "model, options, words",
    [
        (None, {}, "NoneType"),
        (5, {}, "int"),
        ([], {}, "list"),
        (MODEL, {}, "Model"),
        ("a\0b", {}, "zero byte"),
        ("\ud800", {}, "encoded"),
        ("", {}, "no such model"),
        (b"/no/where", {}, "no such model"),
        ("/", {}, "no such model"),
        ("/dev/null", {}, "no such model"),
        *(
            (MODEL.path, options, words)
            for options, words in (
                ({"out": 5}, "out.*int"),
                ({"out": "a\0b"}, "zero byte"),
                ({"shard": 5}, "megatron-shard"),
                ({"shard": ["tp2"]}, "megatron-shard"),
                ({"generate": 5}, "generate=5"),
                ({"generate": "a\0b"}, "zero byte"),
                ({"name": "\ud800"}, "encoded"),
                ({"name": 10**5000}, "not a text"),
                ({"session": 5}, "session.*int"),
                ({"session": {"threads_per_rank": "x"}}, "threads-per-rank"),
                ({"threads": "two"}, "two"),
                ({"annotations": "/dev/zero"}, "it is a device"),
            )
        ),
    ],
    ids=lambda value: (
        ascii(value)[-30:]
        if isinstance(value, (str, bytes))
        else ",".join(value) if isinstance(value, dict) else type(value).__name__
    ),
)
def test_arguments_of_any_type(model, options, words):
    with pytest.raises(tpc.TpcError, match=f"(?s){words}"):
        tpc.compile(model, **options)


@pytest.mark.parametrize("name", ["annotations", "links", "reference"])
@pytest.mark.parametrize("value", [0, 1, 2, [], {}, 3.5], ids=str)
def test_integers_are_not_files(capfd, name, value):
    """An integer is not a path: Python would open descriptor 1, standard output, and close it
    again.
    """
    with pytest.raises(tpc.TpcError, match=name):
        tpc.compile(MODEL.path, **{name: value})
    for descriptor in range(3):
        os.fstat(descriptor)


@pytest.mark.parametrize(
    "session", [{"weights": "x"}, {"threads": 1}, {"path": "x"}, {3: 1}, [], 5], ids=str
)
def test_invalid_flags_of_the_session(session):
    with pytest.raises(tpc.TpcError, match="session"):
        tpc.compile(MODEL.path, session=session)


def test_truncated_program(tmp_path, cache):
    """The dynamic linker would map missing pages, and SIGBUS would end the process, so this runs in
    a separate process.
    """
    with tpc.compile(MODEL.path) as session:
        whole, path = session.path.read_bytes(), session.path
    for size in (0, 20, 64, 4096, len(whole) // 3, len(whole) * 2 // 3, len(whole) - 1):
        cut = tmp_path / f"cut{size}"
        cut.write_bytes(whole[:size])
        text = (
            f"import tpc\ntry:\n    tpc.load({str(cut)!r})\nexcept tpc.TpcError as error:\n   "
            " print('refused', error)\n"
        )
        output = (
            run([sys.executable, "-c", text], env={"PYTHONPATH": str(TOP / "python")})
            .check()
            .stdout
        )
        assert output.startswith("refused"), output
    # A damaged cache entry is compiled again.
    path.unlink()
    path.write_bytes(whole[: len(whole) // 2])
    with tpc.compile(MODEL.path) as session:
        assert session.run(MODEL.inputs(1, 3))["logits"].shape == (1, 3, 1000)


def test_errors_have_the_node_and_the_remedy(tmp_path):
    with pytest.raises(tpc.CompileError, match="Det") as caught:
        tpc.compile(make_unknown(tmp_path / "model.onnx"))
    assert caught.value.node == "/layer/Det"
    with pytest.raises(tpc.CompileError) as caught:
        tpc.compile(MODEL.path, shard="tp0")
    assert caught.value.remedy == "write tp and a number, such as tp2"
    (tmp_path / "no.onnx").write_bytes(b"no such model")
    with pytest.raises(tpc.CompileError, match="no.onnx"):
        tpc.compile(tmp_path / "no.onnx")
    with pytest.raises(tpc.TpcError, match="no such model"):
        tpc.compile(tmp_path / "nowhere.onnx")


def test_messages_are_one_json_object_a_line(tmp_path):
    result = run(
        [
            tool("tpcc"),
            make_unknown(tmp_path / "model.onnx"),
            "-o",
            tmp_path / "out",
            "--diagnostics=json",
        ]
    )
    assert result.returncode == 1
    first = json.loads(result.stderr.splitlines()[0])
    assert (
        first["severity"] == "error" and first["node"] == "/layer/Det" and "Det" in first["message"]
    )
    result = run(
        [tool("tpcc"), tmp_path / "none\x1b.onnx", "-o", tmp_path / "out", "--diagnostics=json"]
    )
    assert "none\x1b" in json.loads(result.stderr)["message"]


def test_nothing_is_printed_by_default(capfd, tmp_path):
    with tpc.compile(MODEL.path, shard="tp2", no_verify=True) as session:
        session.run(MODEL.inputs(1, 3))
    assert capfd.readouterr() == ("", "")
    assert any("--no-verify" in message.text for message in session.messages)
    tpc.compile(MODEL.path, shard="tp2", no_verify=True, verbose=True, cache=False)
    out, err = capfd.readouterr()
    assert out == "" and "--no-verify" in err


def test_two_sessions_at_once():
    inputs, results = MODEL.inputs(2, 5), {}

    def work(shard):
        with tpc.compile(MODEL.path, shard=shard) as session:
            results[shard] = session.run(inputs)["logits"]

    threads = [threading.Thread(target=work, args=(shard,)) for shard in ("tp2", "pp2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.allclose(results["tp2"], results["pp2"], atol=1e-4)


def test_unwritable_cache(tmp_path):
    """A limit on file sizes simulates a full disk."""
    text = (
        "import resource, sys, tpc\nresource.setrlimit(resource.RLIMIT_FSIZE, (60000, 60000))\nfor"
        f" options in ({{}}, {{'out': {str(tmp_path / 'own')!r}}}):\n    try:\n       "
        f" tpc.compile({str(MODEL.path)!r}, **options)\n    except tpc.CompileError as error:\n    "
        "    print(error)\n"
    )
    output = (
        run(
            [sys.executable, "-c", text],
            env={"PYTHONPATH": str(TOP / "python"), "TPC_CACHE": str(tmp_path)},
        )
        .check()
        .stdout.splitlines()
    )
    assert output[0].startswith(
        "error: the program cannot be kept in the cache: cannot write '"
    ) and output[0].endswith("with cache=False")
    assert output[1] == f"error: cannot write '{tmp_path / 'own'}': File too large"


def test_removed_working_directory(tmp_path):
    """Absolute paths work; relative ones are errors that name the path."""
    tpc.compile(MODEL.path, out=tmp_path / "program").close()
    (tmp_path / "gone").mkdir()
    text = (
        "import os, sys,"
        f" tpc\nos.rmdir(os.getcwd())\ntpc.load({str(tmp_path / 'program')!r})\n"
        f"tpc.compile({str(MODEL.path)!r},"
        " cache=False)\nfor call in (lambda: tpc.load('x'), lambda: tpc.compile('x'), lambda:"
        f" tpc.compile({str(MODEL.path)!r}, out='x')):\n    try:\n        call()\n    except"
        " tpc.TpcError as error:\n        print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", text],
        cwd=tmp_path / "gone",
        env={**os.environ, "PYTHONPATH": str(TOP / "python")},
        capture_output=True,
        text=True,
    )
    assert (
        result.returncode == 0
        and len(re.findall("'x': .*(No such file|absolute path)", result.stdout)) == 3
    ), result


def test_the_compiler_ends_with_its_caller(tmp_path):
    """Python is killed while tpcc writes to a pipe without a reader, which simulates long work."""
    os.mkfifo(tmp_path / "pipe")
    text = (
        f"from tpc import compiler\ncompiler._run([{str(MODEL.path)!r}, '--emit=model', '-o',"
        f" {str(tmp_path / 'pipe')!r}], False)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": str(TOP / "python")}
    )

    def compilers():
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            return [int(word) for word in file.read().split()]

    until(lambda: process.poll() is not None or compilers())
    (child,) = compilers()
    time.sleep(0.5)  # until the compiler works
    assert is_there(child)
    process.kill()
    process.wait()
    until(lambda: not is_there(child))
    assert (
        run([tool("tpcc"), MODEL.path, "--end-with=1", "-o", tmp_path / "program"]).returncode == 1
    )


def test_an_interrupt_ends_the_compiler(tmp_path):
    """Notebooks send SIGINT to Python only. A compiler that never ends simulates a slow one."""
    slow = tmp_path / "tpcc"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 1000\n")
    slow.chmod(0o755)
    # The parent of the tests may ignore the signal, and child processes inherit this.
    text = (
        "import tpc, pathlib, signal\nfrom tpc import compiler\nsignal.signal(signal.SIGINT,"
        " signal.default_int_handler)\ncompiler.find_tpcc = lambda:"
        f" pathlib.Path({str(slow)!r})\ntry:\n    tpc.compile({str(MODEL.path)!r})\nexcept"
        " KeyboardInterrupt:\n    print('interrupted')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TOP / "python")},
    )
    while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text().endswith("\n"):
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.5)  # until the caller waits
    process.send_signal(signal.SIGINT)
    assert process.communicate()[0] == "interrupted\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_installation_in_another_folder(tmp_path):
    """`cmake --install` copies all files that the tools need. The installed tools link programs
    with the installed runtime.
    """
    run(["cmake", "--install", BUILD, "--prefix", tmp_path / "usr", "--component", "tpc"]).check()
    assert (tmp_path / "usr/include/tpc/session.h").is_file()
    run(
        [tmp_path / "usr/bin/tpcc", MODEL.path, "--megatron-shard=tp2", "-o", tmp_path / "program"]
    ).check()
    assert str(tmp_path / "usr/lib").encode() in (tmp_path / "program").read_bytes()
    with tpc.load(tmp_path / "program") as session:
        assert session.run(MODEL.inputs(1, 3))["logits"].shape == (1, 3, 1000)

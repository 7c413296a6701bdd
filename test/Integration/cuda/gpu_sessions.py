"""Checks of tpc.compile and Session for GPUs, over the simulator.

    gpu_sessions.py CHECK [ARGUMENT…]

Each check runs in a separate process, because the simulator and NVIDIA's libraries are initialized
once per process. It prints nothing, and a failed check raises an exception.
"""

import asyncio
import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

import session_options
import tpc
from harness import tool
from models import COMMITTED
from tpc import compiler, reference

MODEL = COMMITTED["gpt2-tiny"]
PROMPTS = [[12, 7, 99, 4], [3], [5, 4, 3, 2, 1, 0, 9]]
IDS = MODEL.inputs(2, 7)["input_ids"]
# Without optimization, a compilation takes a third of the time.
GPU = {"target": "cuda", "gpu_arch": "sm_80", "O": 0, "session": {"deterministic": True}}
# Settings of generate: greedy, sampled, filtered, penalized.
SETTINGS = [
    {},
    {"temperature": 0.9, "seed": 7},
    {"temperature": 1.0, "top_k": 9, "seed": 12345678901},
    {"temperature": 0.8, "top_p": 0.8, "seed": 3},
    {"repetition_penalty": 1.3},
    {"temperature": 0.9, "top_k": 300, "top_p": 0.9, "repetition_penalty": 1.3, "seed": 5},
]


def on_gpus(shard="tp2", model=MODEL.path, **options):
    return tpc.compile(model, shard=shard, **{**GPU, **options})


def error_of(call):
    """Returns the TpcError of call()."""
    try:
        call()
    except tpc.TpcError as error:
        return error
    raise AssertionError("no error")


def rows_of(rows):
    return [row.tolist() for row in rows]


# ===--- results -----------------------------------------------------------------------------------


def same_tokens(shard):
    """Greedy and sampled tokens, streams, stop tokens and batches equal those on a CPU."""
    with (
        on_gpus(shard, generate=True) as gpu,
        tpc.compile(MODEL.path, shard=shard, generate=True) as cpu,
    ):
        for settings in SETTINGS:
            wanted = rows_of(cpu.generate(PROMPTS, max_new_tokens=6, **settings))
            assert rows_of(gpu.generate(PROMPTS, max_new_tokens=6, **settings)) == wanted, settings
        wanted = cpu.generate(PROMPTS[2], max_new_tokens=6).tolist()
        alone = gpu.generate(np.array(PROMPTS[2]), max_new_tokens=6)
        assert alone.dtype == np.int64 and alone.tolist() == wanted
        stop = wanted[3]
        ended = wanted[: wanted.index(stop) + 1]
        with gpu.stream(PROMPTS[2], max_new_tokens=6, stop_ids=[stop]) as tokens:
            assert list(tokens) == ended and tokens.finish == ["stop"]
        with gpu.stream(PROMPTS, max_new_tokens=6) as tokens:
            rows = [[] for _ in PROMPTS]
            for row, token in tokens:
                rows[row].append(token)
            assert rows[2] == wanted and tokens.finish == ["length"] * 3
        with gpu.stream(PROMPTS[0], max_new_tokens=100) as tokens:
            next(tokens)
        assert tokens.finish == [None] and gpu.generate(PROMPTS[0], max_new_tokens=0).size == 0
        assert gpu.generate(PROMPTS[2], max_new_tokens=6).tolist() == wanted
        logits = [session.run({"input_ids": PROMPTS[2:]})["logits"] for session in (gpu, cpu)]
        assert reference.difference(*logits).relative <= reference.TOLERANCE


def same_outputs(shard):
    """Outputs of a step equal ONNX Runtime's. The report equals the CPU's, plus kernels."""
    wanted = reference.Session(MODEL.path).run({"input_ids": IDS})["logits"]
    with on_gpus(shard, threads=1) as gpu, tpc.compile(MODEL.path, shard=shard) as cpu:
        for ids in (IDS, IDS[:1, :3], IDS):
            found = gpu.run({"input_ids": ids}, outputs=["logits"])["logits"]
            rows, columns = ids.shape
            distance = reference.difference(found, wanted[:rows, :columns])
            assert distance.relative <= reference.TOLERANCE, distance
        kept = found.copy()
        reports = [session.report(sequence=16) for session in (gpu, cpu)]
        assert reports[0]["collectives"] == reports[1]["collectives"]
        assert reports[0]["kernels"] and "kernels" not in reports[1]
        assert [vars(port) for port in gpu.inputs] == [vars(port) for port in cpu.inputs]
    assert np.array_equal(found, kept)
    for call in (lambda: gpu.run({"input_ids": IDS}), lambda: gpu.notes):
        assert "closed" in str(error_of(call))


def large_results(shard):
    """Results of more than 1 MiB stay valid after the caller frees other ones."""
    many = [MODEL.inputs(9, 30, seed=seed) for seed in range(4)]
    wanted = [MODEL.expected(given) for given in many]
    with on_gpus(shard) as session:
        kept = [(seed, session.run(many[seed])["logits"]) for seed in (0, 1, 2, 3, 0, 1, 2)]
        del kept[1:5]
        gc.collect()
        kept += [(seed, session.run(many[seed])["logits"]) for seed in (3, 2, 0)]
    for seed, logits in kept:
        assert reference.difference(logits, wanted[seed]).relative <= reference.TOLERANCE


def every_option(folder):
    """All options have an effect, except those of the importer, which are tested on CPUs only."""
    of_importer = [session_options.make_configured, session_options.fixed_input]
    programs = [make for make in session_options.PROGRAMS if make not in of_importer]
    covered = session_options.check(Path(folder), "cuda", programs)
    of_cpus = {"device_configuration", "weights_map", "fix_input", "quantize"}
    assert covered == set(compiler.option_names()) - of_cpus, covered


# ===--- several sessions --------------------------------------------------------------------------


def two_threads():
    """Two threads compile, run and close programs on the same GPUs."""
    wanted = reference.Session(MODEL.path).run({"input_ids": IDS})["logits"]
    problems = []

    def work(shard):
        try:
            for _ in range(2):
                with on_gpus(shard, generate="all") as session:
                    found = session.run({"input_ids": IDS})["logits"]
                    assert reference.difference(found, wanted).relative <= reference.TOLERANCE
                    tokens = session.generate(PROMPTS, max_new_tokens=4)
                    assert [len(row) for row in tokens] == [4] * 3
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(shard,)) for shard in ("tp2", "pp2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems


def one_process(shard):
    """Runs as one of several processes that compile the same program."""
    with on_gpus(shard) as session:
        session.run({"input_ids": IDS})


def open_and_close():
    """Closing a session frees the memory of its GPUs, which fit only one session at a time."""
    for turn in range(3):
        with on_gpus("tp2", generate=True) as session:
            session.generate(PROMPTS, max_new_tokens=3)
            assert turn or "need" in str(error_of(lambda: on_gpus("tp2", generate=True)))
    session = on_gpus("tp2", generate=True)
    session.generate(PROMPTS, max_new_tokens=3)
    del session
    gc.collect()
    on_gpus("tp2", generate=True).close()


# ===--- errors ------------------------------------------------------------------------------------


def not_opened(*words):
    """The program does not start, and the error names the reason. CPU programs still run."""
    for _ in range(2):
        error = error_of(lambda: on_gpus("tp2"))
        assert not isinstance(error, tpc.CompileError) and not error.broken
        assert all(word in str(error) for word in words), error
    with tpc.compile(MODEL.path, shard="tp2") as session:
        assert session.run({"input_ids": IDS})["logits"].shape == (2, 7, 1000)


def shared_gpus():
    """Two ranks share one GPU if the session permits it."""
    assert "has 1 GPU" in str(error_of(lambda: on_gpus("tp2")))
    with on_gpus("tp2", session={"share_gpus": True, "deterministic": True}) as session:
        assert session.run({"input_ids": IDS})["logits"].shape == (2, 7, 1000)


def fails_in_a_step(*words):
    """The error names a failed GPU, after which the session can only be closed, without delay."""
    session = on_gpus("tp2")

    def steps():
        for _ in range(1000):
            session.run({"input_ids": IDS})

    error = error_of(steps)
    assert error.broken and all(word in str(error) for word in words), error
    again = error_of(lambda: session.run({"input_ids": IDS}))
    assert "nothing can be run any more" in str(again) and not again.broken, again
    began = time.monotonic()
    session.close()
    assert time.monotonic() - began < 5
    with tpc.compile(MODEL.path, shard="tp2") as session:
        session.run({"input_ids": IDS})


def hangs():
    session = on_gpus("tp2", session={"timeout": 2, "deterministic": True})
    while True:
        session.run({"input_ids": IDS})


def wrong_requests():
    """Errors before a step change nothing."""
    with on_gpus("tp2", generate=True) as session:
        wanted = session.generate(PROMPTS[0], max_new_tokens=4).tolist()
        for words, call in (
            ("1000", lambda: session.generate([1000])),
            ("prompt", lambda: session.generate([])),
            ("no setting 'temprature'", lambda: session.generate([1], temprature=1)),
            ("top_p", lambda: session.generate([1], top_p=2.0)),
            ("tokenizer.json", lambda: session.generate("text")),
            ("no output", lambda: session.run({"input_ids": IDS}, ["logit"])),
            ("input_ids", lambda: session.run({"ids": IDS})),
            ("no size 'rows'", lambda: session.report(rows=1)),
        ):
            error = error_of(call)
            assert words in str(error) and not error.broken, error
            assert session.generate(PROMPTS[0], max_new_tokens=4).tolist() == wanted


# ===--- notebooks ---------------------------------------------------------------------------------


def in_a_loop():
    """Sessions work within a running event loop, on its thread and others, as in a notebook."""

    async def cell():
        session = on_gpus("tp2", generate=True)
        here = session.generate(PROMPTS[0], max_new_tokens=4).tolist()
        there = await asyncio.to_thread(session.generate, PROMPTS[0], max_new_tokens=4)
        assert there.tolist() == here
        session.close()

    asyncio.run(cell())


def without_descriptors():
    """If standard input, output and error are closed, files of the program must not get their
    descriptors and be written to.
    """
    for descriptor in range(3):
        os.close(descriptor)
    with on_gpus("tp2", cache=False, no_verify=True) as session:
        session.run({"input_ids": IDS})
        assert session.report(sequence=8)["collectives"]


def interrupted():
    """An interrupt ends generation at once, and the session is usable afterwards."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with on_gpus("tp2", generate=True) as session:
        wanted = session.generate(PROMPTS[0], max_new_tokens=4).tolist()
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            session.generate(PROMPTS, max_new_tokens=100)
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("not interrupted")
        assert session.generate(PROMPTS[0], max_new_tokens=4).tolist() == wanted


def interrupted_hang():
    """An interrupt does not wait for a GPU that hangs."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    session = on_gpus("tp2", session={"timeout": 4, "deterministic": True})
    began = time.monotonic()
    threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        while True:
            session.run({"input_ids": IDS})
    except KeyboardInterrupt:
        assert time.monotonic() - began < 3
    session.close()
    os._exit(0)


def kept_notes():
    with on_gpus("tp2") as session:
        session.run({"input_ids": IDS})
        (note,) = [note for note in session.notes if "register" in note]
        assert "NCCL" in note and "system error" in note


if __name__ == "__main__":
    compiler.find_tpcc = lambda: tool("tpcc")
    globals()[sys.argv[1]](*sys.argv[2:])

"""Ranks as processes without MPI: environments of torchrun, scripts and srun, and their errors.

test_liveness.py and runtime/conformance/ProcessTest.cpp cover the ends of processes.
"""

import os
import re
import shutil
import socket
import subprocess
import threading
import time

import numpy as np
import pytest

from harness import LAUNCH, Grid, run, scaled
from models import MODELS
from tpc.reference import Session, difference

IDS = np.arange(14).reshape(2, 7)
TORCHRUN = os.environ.get("TPC_TORCHRUN") or shutil.which("torchrun")


@pytest.fixture(scope="module")
def program(tpcc):
    return tpcc.compile(MODELS / "gpt2-tiny.onnx", Grid(tp=2, pp=2))


@pytest.fixture(scope="module")
def expected(program):
    logits = program.run({"input_ids": IDS})["logits"]
    assert (
        difference(
            logits, Session(MODELS / "gpt2-tiny.onnx").run({"input_ids": IDS})["logits"]
        ).relative
        <= 2e-5
    )
    return logits


def outcome(launch, program, tmp_path, **options):
    np.save(tmp_path / "in.npy", IDS)
    result = run(
        [
            *launch,
            program.path,
            "--input",
            tmp_path / "in.npy",
            "--output",
            f"logits={tmp_path / 'out.npy'}",
            "--verbose",
        ],
        **options,
    ).check()
    assert "4 ranks (tcp)" in result.stderr, result
    return np.load(tmp_path / "out.npy")


@pytest.mark.parametrize("style", ["torch", "plain", "slurm"])
def test_launchers(program, expected, tmp_path, style):
    np.testing.assert_array_equal(
        outcome([*LAUNCH, "--as", style, "-n", 4], program, tmp_path), expected
    )


@pytest.mark.slow
def test_torchrun(program, expected, tmp_path):
    if not TORCHRUN:
        pytest.skip("torch: torchrun is not installed (set TPC_TORCHRUN)")
    launch = [TORCHRUN, "--standalone", "--nproc-per-node", 4, "--no-python"]
    np.testing.assert_array_equal(outcome(launch, program, tmp_path), expected)
    refused = run(
        [
            TORCHRUN,
            "--standalone",
            "--nproc-per-node",
            2,
            "--no-python",
            program.path,
            "--bench",
            "--shape",
            "batch=1,sequence=4",
        ]
    )
    refused.refused(
        "compiled for 4 ranks, but 2 were started", "torchrun --nproc-per-node 4 --no-python"
    )


def test_single_slurm_task_has_all_ranks(program):
    alone = {
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": "0",
        "SLURM_STEP_NUM_TASKS": "1",
        "SLURM_NTASKS": "4",
    }
    # Environment of a batch script, which is not a job step, and of a shell that salloc starts.
    batch = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}
    shell = {**batch, "SLURM_STEP_ID": "4294967290"}
    for environment in (alone, batch, shell):
        result = program.call(
            ["--bench", "--shape", "batch=1,sequence=2", "--repeat", 1, "--verbose"],
            env=environment,
        ).check()
        assert "4 ranks (threads)" in result.stderr


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment_of(rank, size, port, **more):
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port - 1),
        **more,
    }


class Ranks:
    """Processes with the given variables."""

    ARGUMENTS = ("--bench", "--shape", "batch=1,sequence=2", "--repeat", "1", "--warmup", "0")

    def __init__(self, program):
        self.program, self.running = program, []

    def start(self, environment, *arguments, first=ARGUMENTS):
        self.running.append(
            subprocess.Popen(
                [self.program.path, *first, *arguments],
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return self.running[-1]

    def end(self):
        for process in self.running:
            process.kill()
            process.communicate()


@pytest.fixture
def ranks(program):
    ranks = Ranks(program)
    yield ranks
    ranks.end()


def output_of(process, status=1):
    _, error = process.communicate(timeout=scaled(120))
    assert process.returncode == status, error
    return error


def test_missing_rank(ranks):
    port = free_port()
    first, second = (ranks.start(environment_of(rank, 4, port), "--timeout=3") for rank in (0, 2))
    assert (
        f"error: rank 0: ranks 1, 3 have not connected to 127.0.0.1:{port} within 3 s"
        in output_of(first)
    )
    output_of(second)
    # The missing rank is rank 0.
    error = output_of(ranks.start(environment_of(1, 4, port), "--timeout=2"))
    assert (
        f"error: rank 1: cannot reach rank 0 at 127.0.0.1:{port} within 2 s (127.0.0.1:{port}:"
        " Connection refused)" in error
    )


def test_mismatched_numbers_of_ranks(ranks):
    """A rejected process receives the reason. If the process belongs to the same run, the run
    cannot start, so rank 0 reports this and exits at once.
    """
    port = free_port()
    first = ranks.start(environment_of(0, 4, port))
    other = output_of(ranks.start(environment_of(1, 4, port, TORCHELASTIC_RUN_ID="another")))
    assert re.search(
        r"error: rank 1: rank 0 at .* refuses this rank: it belongs to another run: rank 0 has no"
        r" id, rank 1 the id 'another'",
        other,
    )
    assert first.poll() is None
    why = (
        "rank 0 was started as the first of 4 ranks, rank 3 as one of 8: the number of ranks"
        " (WORLD_SIZE) must be the same everywhere"
    )
    second = ranks.start(
        environment_of(2, 4, port), "--timeout=10"
    )  # which may come after rank 0 has ended
    assert "error: rank 3: the program was compiled for 4 ranks, but 8 were started" in output_of(
        ranks.start(environment_of(3, 8, port))
    )
    assert (
        f"error: rank 0: a process that connected to 127.0.0.1:{port} as rank 3 was refused: {why}"
        in output_of(first)
    )
    output_of(second)
    # The same rank twice. A rank that has exited may be restarted.
    port = free_port()
    first = ranks.start(environment_of(0, 4, port))
    again = ranks.start(environment_of(1, 4, port))
    time.sleep(0.5)
    again.kill()
    again.wait()
    time.sleep(1)  # until rank 0, on a busy machine, has read that the connection is closed
    second = ranks.start(environment_of(1, 4, port), "--timeout=10")
    time.sleep(0.5)
    assert first.poll() is None and second.poll() is None
    why = "there is already a rank 1: each process must have a different RANK"
    refused = ranks.start(environment_of(1, 4, port), "--timeout=10")
    # Either of the two may have connected first.
    assert (
        f"error: rank 0: a process that connected to 127.0.0.1:{port} as rank 1 was refused: {why}"
        in output_of(first)
    )
    assert why in output_of(second) + output_of(refused)


def test_occupied_port(ranks):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert re.search(
            rf"rank 0 cannot listen on 127.0.0.1:{port}: Address already in use; TPC_PORT chooses"
            r" another port",
            output_of(ranks.start(environment_of(0, 4, port))),
        )


@pytest.mark.parametrize(
    "environment, words",
    [
        ({"RANK": "0", "WORLD_SIZE": "4"}, "MASTER_ADDR, the host of rank 0, is not set"),
        (
            {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1"},
            "neither MASTER_PORT nor TPC_PORT is set",
        ),
        (
            {"RANK": "4", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "5"},
            "there is no such rank: RANK=4 of 4",
        ),
        ({"PMI_RANK": "5", "PMI_SIZE": "4"}, "there is no such rank: PMI_RANK=5 of 4"),
        (
            {"OMPI_COMM_WORLD_RANK": "4", "OMPI_COMM_WORLD_SIZE": "4"},
            "there is no such rank: OMPI_COMM_WORLD_RANK=4 of 4",
        ),
        (
            {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "65535"},
            "MASTER_PORT=65535: expected a number from 1 to 65534",
        ),
        (
            {
                "RANK": "0",
                "WORLD_SIZE": "4",
                "MASTER_ADDR": "no.such.host.invalid",
                "MASTER_PORT": "5",
            },
            "the host 'no.such.host.invalid' is not known",
        ),
        (
            {
                "RANK": "0",
                "WORLD_SIZE": "4",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": "28999",
                "TPC_INTERFACE": "eth77",
            },
            "TPC_INTERFACE=eth77: this host has no such interface that is up; it has",
        ),
    ],
)
def test_invalid_variables(ranks, environment, words):
    assert words in output_of(ranks.start(environment))


@pytest.mark.parametrize(
    "size", ["1", "5", *(pytest.param(size, marks=pytest.mark.long) for size in ("3", "4000"))]
)
def test_wrong_number_of_ranks(ranks, size):
    """A wrong number of ranks is reported at once, without a wait for ranks that cannot exist."""
    port = free_port()
    words = f"the program was compiled for 4 ranks, but {size} were started"
    assert words in output_of(ranks.start({**environment_of(0, 4, port), "WORLD_SIZE": size}))
    mpi = {"OMPI_COMM_WORLD_SIZE": size, "OMPI_COMM_WORLD_RANK": "0"}
    assert words in output_of(ranks.start(mpi))


@pytest.mark.parametrize(
    "theirs,words",
    [
        (["--input", "IN"], r"another task (rank 0 has to measure (--bench), rank 2 has to run)"),
        (
            ["--bench", "--shape", "batch=2,sequence=2"],
            "another --shape (rank 0 has batch=1,sequence=2, rank 2 has batch=2,sequence=2)",
        ),
        (
            ["--bench", "--shape", "batch=1,sequence=2", "--repeat", "7"],
            (
                "another number of steps (rank 0 has 0 with --warmup, 1 with --repeat, rank 2 has 2"
                " with --warmup, 7 with --repeat)"
            ),
        ),
    ],
)
def test_other_task_than_rank_0(ranks, tmp_path, theirs, words):
    np.save(tmp_path / "IN", IDS)
    port = free_port()
    processes = [ranks.start(environment_of(rank, 4, port), "--timeout=60") for rank in (0, 1, 3)]
    processes.append(
        ranks.start(
            environment_of(2, 4, port),
            "--timeout=60",
            first=[str(tmp_path / "IN.npy") if word == "IN" else word for word in theirs],
        )
    )
    assert f"rank 2 does not run the same as rank 0: {words}" in "".join(map(output_of, processes))


def test_other_inputs_than_rank_0(ranks, tmp_path):
    for name, sequence in (("a", 7), ("b", 5)):
        np.save(tmp_path / name, IDS[:, :sequence])
    (tmp_path / "more").mkdir()
    for name in "ab":
        np.save(tmp_path / "more" / name, IDS)
    for rank_1, words in (
        (
            ["--input", tmp_path / "b.npy"],
            "another set of input sizes (rank 0 has input_ids [2,7], rank 1 has input_ids [2,5])",
        ),
        (
            ["--input", f"input_ids={tmp_path / 'a.npy'}"],
            "another set of inputs with files (rank 0 has 1 without a name, rank 1 has input_ids)",
        ),
        (
            ["--batch-of", tmp_path / "more", "--output", f"logits={tmp_path / 'out'}"],
            "another set of inputs with files (rank 0 has ",
        ),
    ):
        port = free_port()
        processes = [
            ranks.start(
                environment_of(rank, 4, port),
                "--timeout=60",
                first=rank_1 if rank == 1 else ["--input", tmp_path / "a.npy"],
            )
            for rank in range(4)
        ]
        assert f"rank 1 does not run the same as rank 0: {words}" in "".join(
            map(output_of, processes)
        )
    # Different numbers of files.
    (tmp_path / "less").mkdir()
    np.save(tmp_path / "less" / "a", IDS)
    port = free_port()
    processes = [
        ranks.start(
            environment_of(rank, 4, port),
            "--timeout=60",
            first=[
                "--batch-of",
                tmp_path / ("less" if rank == 3 else "more"),
                "--output",
                f"logits={tmp_path / 'out'}",
            ],
        )
        for rank in range(4)
    ]
    assert (
        "another number of runs, one for each set of input files (rank 0 has 2, rank 3 has 1)"
        in "".join(map(output_of, processes))
    )


def test_ranks_with_other_kernels_agree(program, ranks, tmp_path):
    """All ranks use kernels that all of them support, so that replicated computations have the same
    bits.
    """
    np.save(tmp_path / "in", IDS)
    port = free_port()
    first = ["--input", tmp_path / "in.npy", "--output", f"logits={tmp_path / 'out.npy'}"]
    processes = [
        ranks.start(
            environment_of(rank, 4, port, **({"TPC_CPU": "generic"} if rank == 2 else {})),
            first=first,
        )
        for rank in range(4)
    ]
    text = "".join(output_of(process, status=0) for process in processes)
    generic = program.run({"input_ids": IDS}, env={"TPC_CPU": "generic"})["logits"]
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), generic)
    if "avx2" in open("/proc/cpuinfo").read():
        assert re.search(
            r"note: rank 0 has avx\w+ kernels and rank 2 has generic \(by its processor, or"
            r" TPC_CPU\): all ranks use the generic kernels",
            text,
        ), text


def test_strangers_are_ignored(program, ranks):
    """Other processes connect all the time: with garbage, without data, slowly, or with the
    beginning of a greeting.
    """
    port, over = free_port(), threading.Event()
    strangers = []

    def visit():
        greetings = [
            b"GET / HTTP/1.1\r\n\r\n",
            b"",
            b"tpc-run2",
            bytes(range(256)) * 64,
            b"tpc-run2" + b"\xff" * 600,
        ]
        while not over.is_set():
            for greeting in greetings:
                try:
                    stranger = socket.create_connection(("127.0.0.1", port), timeout=1)
                    stranger.sendall(greeting)
                    strangers.append(stranger)  # open, and silent from now on
                except OSError:
                    pass
            if len(strangers) > 400:
                strangers.pop(0).close()
            time.sleep(0.005)

    visitor = threading.Thread(target=visit)
    visitor.start()
    try:
        processes = []
        for rank in range(4):
            processes.append(ranks.start(environment_of(rank, 4, port)))
            time.sleep(0.3)
        for process in processes:
            output_of(process, status=0)
        # If ranks are missing, the error counts them.
        assert re.search(
            r"ranks 1, 2, 3 have not connected .*; \d+ unknown connections were ignored,"
            r" the last from 127.0.0.1",
            output_of(ranks.start(environment_of(0, 4, port), "--timeout=3")),
        )
    finally:
        over.set()
        visitor.join()
        for stranger in strangers:
            stranger.close()


def test_small_shared_memory_is_noted(program, expected, tmp_path):
    small = [
        "unshare",
        "-rm",
        "bash",
        "-c",
        'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"',
        "-",
    ]
    if run([*small, "true"]).returncode:
        pytest.skip("mounting: no permission")
    np.save(tmp_path / "in.npy", IDS)
    command = [
        *LAUNCH,
        "-n",
        4,
        program.path,
        "--input",
        tmp_path / "in.npy",
        "--output",
        f"logits={tmp_path / 'out.npy'}",
    ]
    result = run([*small, *command]).check()
    assert re.search(
        r"note: the 4 ranks of a host communicate over sockets, .*: /dev/shm has no \d+ KiB"
        r" for their rings \(No space left on device, "
        r"\d+ KiB are free",
        result.stderr,
    ), result
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)
    assert "note" not in run(command).check().stderr
    assert "note" not in run(command, env={"TPC_SHARED_MEMORY": "0"}).check().stderr
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)

"""Rendezvous of ranks that are processes, and its failures.

Covers listeners other than rank 0, ranks that exit or freeze before all have connected, and
launchers that exit. The processes have no model; test_liveness.py has whole programs.
"""

import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from harness import BUILD, LAUNCH, Grid, LoadClock, run
from liveness import is_there, until
from models import COMMITTED

SCENARIO = BUILD / "test" / "bin" / "tpc-rt-scenario"
MAGIC, ANSWER_MAGIC = b"tpc-run2", b"tpc-ans2"
# Timeout of a run, and the limit for its end, in seconds. The limit is far above the timeout,
# because machines may be busy, and far below the time of a wait that restarts its clock.
TIMEOUT, GENEROUS = 3, 18


class Ranks:
    """Processes of ranks, started with the environment variables of torchrun."""

    def __init__(self):
        self.running = []

    def start(self, rank, size, port, *arguments, **variables):
        environment = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "TPC_PORT": str(port),
            **variables,
        }
        arguments = arguments or ("end", "0", str(TIMEOUT))
        self.running.append(
            subprocess.Popen(
                [SCENARIO, *map(str, arguments)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return self.running[-1]


@pytest.fixture
def ranks():
    ranks = Ranks()
    yield ranks
    for process in ranks.running:
        process.kill()
        process.communicate()


def output_of(process, status=1):
    _, error = process.communicate(timeout=120)
    assert process.returncode == status, error
    return error


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    """Returns whether a process listens at the port, without connecting to it."""
    return any(
        line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
        for line in open("/proc/net/tcp").readlines()[1:]
    )


def connected(port):
    found = []

    def attempt():
        try:
            found.append(socket.create_connection(("127.0.0.1", port)))
        except OSError:
            return False
        return True

    until(attempt)
    return found[0]


def greeting(rank, size, process=0):
    """Returns a greeting of RendezvousServer.h, without a run id, and with one address without a
    family.
    """
    run = 0xCBF29CE484222325  # the hash of no id
    attendee = struct.pack("<QqI", 0, process, 0) + bytes(4 * 24 + 128 + 60)
    text = (
        MAGIC
        + struct.pack("<4IQ", 1, 0, rank, size, run)
        + bytes(64 + 16)
        + attendee
        + bytes(-len(attendee) % 8)
    )
    return text[:12] + struct.pack("<I", len(text)) + text[16:]


class Listener:
    """Listens in place of rank 0. `behave` handles each connection; None accepts none."""

    def __init__(self, behave, backlog=16):
        self.behave, self.over, self.connections = behave, False, []
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=backlog)
        self.port = self.listening.getsockname()[1]
        if behave:
            threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while not self.over:
            try:
                connection = self.listening.accept()[0]
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.attempt, args=(connection,), daemon=True).start()

    def attempt(self, connection):
        try:
            self.behave(connection, lambda: self.over)
        except OSError:
            pass

    def end(self):
        self.over = True
        self.listening.close()
        for connection in self.connections:
            connection.close()


def drip(connection, over, text=b"", then=b"\0"):
    """Sends a text and then further bytes, byte by byte, without end."""
    for byte in text:
        connection.sendall(bytes([byte]))
        time.sleep(0.02)
    while not over():
        connection.sendall(then)
        time.sleep(0.02)


def echo(connection):
    while data := connection.recv(4096):
        connection.sendall(data)


ANSWER = ANSWER_MAGIC + struct.pack("<I", 1) + bytes(228) + struct.pack("<Qq", 0, 0)
BEAT = struct.pack("<2I", 0, 0)
LISTENERS = {
    "accepts and is silent": lambda connection, over: None,
    "closes at once": lambda connection, over: connection.close(),
    "sends garbage byte by byte": drip,
    "sends the beginning of an answer byte by byte": lambda connection, over: drip(
        connection, over, ANSWER_MAGIC
    ),
    "sends half of an answer": lambda connection, over: connection.sendall(ANSWER[:100]),
    "sends much garbage": lambda connection, over: connection.sendall(
        b"HTTP/1.1 200 OK\r\n" * 5000
    ),
    "reads the greeting and closes": lambda connection, over: (
        connection.recv(4096),
        connection.close(),
    ),
    "sends everything back": lambda connection, over: echo(connection),
    "never accepts": None,
    "welcomes and is silent": lambda connection, over: connection.sendall(ANSWER),
    "welcomes and only sends heartbeats": lambda connection, over: (
        connection.sendall(ANSWER),
        drip(connection, over, then=BEAT),
    ),
    "welcomes and ends": lambda connection, over: (connection.sendall(ANSWER), connection.close()),
    "welcomes and sends garbage": lambda connection, over: (
        connection.sendall(ANSWER),
        connection.sendall(os.urandom(5000)),
    ),
}


def test_wrong_listeners_in_place_of_rank_0(ranks):
    """All waits share one clock, so that a run ends at its timeout, whatever process listens."""
    listeners = {
        name: Listener(behave, backlog=0 if behave is None else 16)
        for name, behave in LISTENERS.items()
    }
    clock = LoadClock()
    try:
        processes = {name: ranks.start(1, 2, listener.port) for name, listener in listeners.items()}
        texts = {name: output_of(process) for name, process in processes.items()}
        assert clock.seconds() < GENEROUS
    finally:
        for listener in listeners.values():
            listener.end()
    for name, text in texts.items():
        port = listeners[name].port
        if name.startswith("welcomes"):
            assert re.search(
                rf"^error: rank 1: not all ranks have connected to rank 0 at 127.0.0.1:{port}"
                rf" within {TIMEOUT} s"
                r"|^error: rank 0 has ended before all ranks were connected",
                text,
                re.M,
            ), (name, text)
        else:
            assert (
                f"error: rank 1: cannot reach rank 0 at 127.0.0.1:{port} within {TIMEOUT} s ("
                in text
            ), (name, text)
    for name in ("sends everything back", "sends garbage byte by byte", "sends much garbage"):
        other = "the process that listens there is not rank 0 of a tpc program"
        assert other in texts[name], texts[name]
    for name in ("accepts and is silent", "never accepts"):
        assert (
            "a process listens there and does not respond: rank 0 is stopped, or that is another"
            " program" in texts[name]
        ), texts[name]


@pytest.mark.parametrize(
    "then,words",
    [
        ("close", "has ended before all ranks were connected"),
        pytest.param(
            "be silent",
            "is frozen or cut off: nothing was received from 127.0.0.1",
            marks=pytest.mark.long,
        ),
    ],
)
def test_rank_that_leaves_after_connecting(ranks, then, words):
    """No rank waits for the start-up timeout, and connected ranks receive the reason."""
    port = free_port()
    first, third = ranks.start(0, 4, port, "end", 0, 120), ranks.start(2, 4, port, "end", 0, 120)
    second = connected(port)
    second.sendall(greeting(1, 4))
    if then == "close":
        assert second.recv(1) == b"t"
        second.close()
    clock = LoadClock()
    assert re.search(rf"^error: rank 1 {words}", output_of(first), re.M)
    output_of(third)
    assert clock.seconds() < 60
    second.close()


def test_rank_0_ends_while_others_connect(ranks):
    port = free_port()
    first, second, third = (ranks.start(rank, 4, port, "end", 0, 120) for rank in range(3))
    time.sleep(1)
    first.kill()
    texts = output_of(second) + output_of(third)
    assert (
        len(re.findall(r"^error: rank 0 has ended before all ranks were connected", texts, re.M))
        == 1
    ), texts


def test_late_ranks_receive_the_reason(ranks):
    """Rank 0 rejects a rank of the run, and waits briefly for other ranks to inform them."""
    port = free_port()
    first, stranger = ranks.start(0, 4, port, "end", 0, 120), ranks.start(3, 8, port, "end", 0, 120)
    assert "refuses this rank" in output_of(stranger)
    late = [ranks.start(rank, 4, port, "end", 0, 120) for rank in (1, 2, 3)]
    assert (
        "as rank 3 was refused: rank 0 was started as the first of 4 ranks, rank 3 as one of 8"
        in output_of(first)
    )
    # On each host one rank reports the reason, unless it has ended.
    texts = "".join(output_of(process) for process in late)
    assert re.search(r"refuses this rank: the run has ended: .* was refused", texts), texts


@pytest.mark.parametrize(
    "variables,words",
    [
        ({"RANK": "4", "WORLD_SIZE": "4"}, "there is no such rank: RANK=4 of 4"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "there is no such rank: RANK=0 of 0"),
        ({"RANK": "0", "WORLD_SIZE": ""}, "RANK is set, and WORLD_SIZE is not"),
        ({"RANK": "", "WORLD_SIZE": "4"}, "WORLD_SIZE is set, and RANK is not"),
        (
            {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "2"},
            "there is no such rank: OMPI_COMM_WORLD_RANK=2 of 2",
        ),
        ({"PMI_RANK": "3", "PMI_SIZE": "3"}, "there is no such rank: PMI_RANK=3 of 3"),
        (
            {"RANK": "0x1", "WORLD_SIZE": "2"},
            "RANK=0x1: expected a number from 0 to 16777216, in decimal digits",
        ),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "RANK=-1: expected a number"),
        ({"RANK": "0", "WORLD_SIZE": "2 "}, "WORLD_SIZE=2 : expected a number"),
        (
            {"RANK": "0", "WORLD_SIZE": "99999999999999999999"},
            "WORLD_SIZE=99999999999999999999: expected a number",
        ),
        ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "x"}, "LOCAL_RANK=x: expected a number"),
        ({"PMI_RANK": "x", "PMI_SIZE": "3"}, "PMI_RANK=x: expected a number"),
        (
            {"OMPI_COMM_WORLD_SIZE": "99999999999", "OMPI_COMM_WORLD_RANK": "1"},
            "OMPI_COMM_WORLD_SIZE=99999999999: expected a number",
        ),
    ],
)
def test_invalid_ranks(ranks, variables, words):
    assert words in output_of(ranks.start(0, 4, 29999, "end", 0, 120, **variables))


def test_two_processes_as_rank_0(ranks):
    """The second process names the first, which continues."""
    port = free_port()
    first = ranks.start(0, 2, port, "end", 0, 120)
    connected(port).close()
    text = output_of(ranks.start(0, 2, port, "end", 0, 120))
    assert (
        f"another process ({first.pid}) is rank 0 there already; each process of a run must have a"
        " different RANK" in text
    ), text
    ranks.start(1, 2, port, "end", 0, 120)
    assert "2 ranks" in first.communicate(timeout=120)[0] and first.returncode == 0


@pytest.mark.parametrize("launcher", ["mpi", "torch"])
@pytest.mark.parametrize("victim", [0, pytest.param(2, marks=pytest.mark.long)])
def test_rank_that_does_not_participate(launcher, victim):
    """A rank ends with status 0 before the others look for it; the launcher sees a success."""
    variable = "OMPI_COMM_WORLD_RANK" if launcher == "mpi" else "RANK"
    start = (
        ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "3"]
        if launcher == "mpi"
        else [*LAUNCH, "--as", "torch", "-n", "3"]
    )
    clock = LoadClock()
    result = run(
        [*start, "sh", "-c", f'[ "${variable}" = {victim} ] || exec {SCENARIO} end 0 100'],
        env={"TPC_RUNTIME_DIR": str(BUILD / "lib")},
    )
    assert result.returncode != 0 and clock.seconds() < 30
    assert re.findall("^error: (.*)", result.stderr, re.M) == [
        f"rank {victim} has ended before all ranks were connected, without taking part: all"
        " processes must run this program, and none with --help or --describe"
    ], result.stderr


def test_wrong_world_size(tpcc):
    """A wrong number of ranks is reported without a detectable launcher and without rank 0."""
    program = tpcc.compile(COMMITTED["gpt2-mlp"].path, Grid(tp=2)).path
    for variables in (
        {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "1"},
        {"PMI_SIZE": "3", "PMI_RANK": "2"},
    ):
        result = run([program, "--bench"], env=variables)
        assert result.returncode == 1 and re.search(
            "^error: rank [12]: the program was compiled for 2 ranks, but 3 were started",
            result.stderr,
        ), result


class Proxy:
    """Proxy between rank 1 and rank 0 that cuts the link.

    `mode`: drops bytes from rank 0 (down), from rank 1 (up) or both, or closes both connections
    (close).
    """

    def __init__(self, target, mode):
        self.target, self.mode, self.is_cut = target, mode, False
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                near = self.listening.accept()[0]
            except OSError:
                return
            far = connected(self.target)
            for name, source, sink in (("up", near, far), ("down", far, near)):
                threading.Thread(target=self.pump, args=(name, source, sink), daemon=True).start()

    def pump(self, name, source, sink):
        try:
            while data := source.recv(65536):
                if self.is_cut and self.mode == "close":
                    break
                if not self.is_cut or self.mode not in (name, "both"):
                    sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def test_cut_link_between_running_processes(ranks):
    """If a link between two running processes is cut, neither is killed or reported as ended."""
    cases = []
    for mode in ("down", "up", "both", "close"):
        port = free_port()
        first = ranks.start(0, 2, port, "deadlock", 0, 300)
        until(lambda: listens(port))
        proxy = Proxy(port, mode)
        cases.append((mode, proxy, first, ranks.start(1, 2, proxy.port, "deadlock", 0, 300)))
    time.sleep(1)
    for _, proxy, *_ in cases:
        proxy.is_cut = True
    for mode, proxy, *pair in cases:
        text = "".join(output_of(process) for process in pair)
        assert re.search(
            r"^error: rank [01] \(tp [01]\) is cut off: its process runs, but (nothing was received"
            r" from it for \d s"
            "|the connection to it was closed)",
            text,
            re.M,
        ), (mode, text)
        assert len(re.findall("^error", text, re.M)) == 1, (mode, text)
        proxy.listening.close()


def descendants(process):
    children = []
    for task in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{task}/children") as file:
            children += [int(word) for word in file.read().split()]
    return children + [below for child in children for below in descendants(child)]


@pytest.mark.parametrize(
    "wrapped", [True, pytest.param(False, marks=pytest.mark.long)], ids=["in a script", ""]
)
def test_the_launcher_is_killed(tmp_path, wrapped):
    """No rank remains, even with a script between launcher and ranks."""
    program = [SCENARIO, "slow", "1", "60"]
    if wrapped:
        (tmp_path / "script").write_text(f"#!/bin/sh\n{SCENARIO} slow 1 60\ntrue\n")
        (tmp_path / "script").chmod(0o755)
        program = [tmp_path / "script"]
    with open(tmp_path / "log", "w") as log:
        launcher = subprocess.Popen(
            [*LAUNCH, "--pids", tmp_path / "pids", "-n", "3", *map(str, program)],
            stdout=log,
            stderr=log,
        )
    until((tmp_path / "pids").exists)
    time.sleep(0.5)
    ranks = descendants(launcher.pid)
    os.kill(launcher.pid, signal.SIGKILL)
    launcher.wait()
    until(lambda: not any(is_there(rank) for rank in ranks))
    text = (tmp_path / "log").read_text()
    assert (
        len(re.findall(rf"^error: the launcher \(process {launcher.pid}\) has ended", text, re.M))
        == 1
    ), text
    assert len(re.findall("^error", text, re.M)) == 1, text


def test_background_ranks_of_a_script_continue(ranks):
    """Background ranks of a shell continue after the shell has ended."""
    port = free_port()
    script = " & ".join(
        f"RANK={rank} WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 TPC_PORT={port} {SCENARIO} late 1 60"
        for rank in range(2)
    )
    result = subprocess.run(
        ["sh", "-c", f"({script} &) ; exit 3"], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 3 and result.stdout == "tcp: 2 ranks, 64\n", result


@pytest.mark.parametrize("style,victim", [("plain", 0), ("torch", 1)])
def test_sigterm_to_one_rank_is_reported(style, victim):
    """A rank that alone receives SIGTERM reports this, and another rank names it."""
    result = run([*LAUNCH, "--as", style, "-n", "3", SCENARIO, "term", victim, "60"])
    assert result.returncode != 0
    text = result.stderr
    assert re.search(
        rf"^error: rank {victim} \(tp {victim}\) alone received SIGTERM",
        text,
        re.M,
    ), text
    assert re.search(rf"^note: rank {victim} \(tp {victim}\) received SIGTERM", text, re.M), text
    assert len(re.findall("^error", text, re.M)) == 1, text

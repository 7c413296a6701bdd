"""Runs programs whose processes are killed or frozen, during a step or during start-up.

Hosts are network namespaces, and tests cut the links between them.
"""

import contextlib
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import time
from pathlib import Path

import pytest

from harness import LoadClock, scaled

# Limits in seconds on an idle machine: until a message names the rank, and until all processes have
# ended.
PROMISED = {("tcp", "kill"): 1, ("mpi", "kill"): 3, ("tcp", "freeze"): 5, ("mpi", "freeze"): 5}
PROMISED_AT_START = PROMISED_OF_GROUPS = PROMISED_OF_CUTS = 5
START_TIMEOUT = 60
FATES = {
    "kill": (signal.SIGKILL, "has ended without an error message"),
    "freeze": (signal.SIGSTOP, "is frozen"),
}
BENCH = ("--bench", "--shape", "batch=1,sequence=8", "--warmup", "1000000", "--weights=random:1")


# Marks processes that this one starts: other tests may run the same program at the same time.
MARK = "LIVENESS_TEST_PROCESS"
os.environ[MARK] = str(os.getpid())


def processes_of(program: Path) -> dict[int, int]:
    """Returns rank -> process, of the processes that this process has started."""
    mark = f"{MARK}={os.getpid()}".encode()
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if (directory / "exe").resolve() != program.resolve():
                continue
            environment = (directory / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for entry in environment if mark in environment else []:
            if entry.startswith((b"OMPI_COMM_WORLD_RANK=", b"RANK=")):
                found[int(entry.split(b"=")[1])] = int(directory.name)
    return found


def is_there(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def until(condition, seconds=120):
    clock = LoadClock()
    while not condition():
        assert clock.seconds() < seconds, f"the condition does not hold within {seconds} s"
        time.sleep(0.01)


class Steps:
    """Starts processes that run steps in an endless loop, or with the given arguments."""

    def __init__(self, program, transport, log, more=None, arguments=BENCH, waits=True):
        """`transport`: tcp, mpi, or torch, whose agent ends all processes when one ends. `waits`:
        waits until weights are loaded.
        """
        self.program, self.log, self.waits = program, log, waits
        environment = {
            **os.environ,
            **(more or {}),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        command = program.command("tcp" if transport == "torch" else transport)
        if transport == "tcp":
            command[-3:-3] = ["--as", "plain"]  # the launcher must not end the processes
        with open(log, "w") as file:
            self.run = subprocess.Popen(
                [*command, "--verbose", "--timeout=60", *arguments],
                stdout=file,
                stderr=file,
                env=environment,
                start_new_session=True,
            )

    def __enter__(self):
        if not self.waits:
            return self
        until(lambda: self.run.poll() is not None or "loaded" in self.printed())
        assert self.run.poll() is None, self.printed()
        self.ranks = processes_of(self.program.path)
        assert len(self.ranks) == self.program.grid.ranks
        return self

    def printed(self):
        return self.log.read_text()

    def __exit__(self, *_):
        if self.run.poll() is None:
            self.run.kill()
            self.run.wait()
        for pid in processes_of(self.program.path).values():
            os.kill(pid, signal.SIGKILL)


def check(program, transport, fate, seed, log, more=None, arguments=BENCH):
    """Kills or freezes a random rank. Returns the seconds until a message names it, and until all
    processes have ended. `more`: environment variables."""
    draw = random.Random(seed)
    number, words = FATES[fate]
    with Steps(program, transport, log, more, arguments) as steps:
        time.sleep(draw.uniform(0.3, 0.8))
        victim = draw.randrange(program.grid.ranks)
        os.kill(steps.ranks[victim], number)
        begin = time.monotonic()
        named = re.compile(rf"^error: rank {victim} \(.*\) {words}", re.M)
        until(lambda: named.search(steps.printed()))
        seconds = time.monotonic() - begin
        until(lambda: steps.run.poll() is not None and not processes_of(program.path))
        gone = time.monotonic() - begin
        assert steps.run.wait() != 0
        output = steps.printed()
    # Last reported operation: communication of the program's node, or between the steps of --bench.
    assert re.search(
        r"last seen (in|computing, after) (\w+( \d+)? of '/?\w[^']*' over '|a barrier of all"
        r" ranks|the assembling of outputs)"
        r"|last seen computing on its device, in (one of \d+ calls, from )?(kernel|a"
        r" (measured )?matmul|communication)",
        output,
    ), output
    assert len(re.findall(r"^error: ", output, re.M)) == 1, output
    return seconds, gone


def check_start(program, transport, fate, seed, log, more=None):
    """Kills or freezes a rank in the first second, in any state of the connections. Both returned
    times are the seconds until all ranks have ended, or 0 if the start timed out.
    """
    draw = random.Random(seed)
    victim, moment = draw.randrange(program.grid.ranks), draw.uniform(0, 1)
    begin = time.monotonic()
    with Steps(program, transport, log, more, waits=False) as steps:
        until(lambda: victim in processes_of(program.path))
        time.sleep(max(0, begin + moment - time.monotonic()))
        os.kill(processes_of(program.path)[victim], FATES[fate][0])
        begin = time.monotonic()
        words = "is frozen" if fate == "freeze" else "has ended"
        # Without a launcher, a rank that ends before it connects is reported only when the start
        # times out.
        never = rf"^error: rank {victim} has not connected to .* within {START_TIMEOUT} s"
        # If mpirun detects the killed rank first, it ends the others and names the rank.
        named = re.compile(
            rf"^error: rank {victim}( \(.*\))? {words}|process rank {victim} with PID|Process rank:"
            rf" +{victim}\b"
            rf"|\[\[.*,{victim}\]|{never}",
            re.M,
        )
        until(lambda: named.search(steps.printed()))
        until(lambda: not processes_of(program.path))
        gone = time.monotonic() - begin
        if transport == "tcp" and re.search(never, steps.printed(), re.M):
            assert gone <= START_TIMEOUT + 1
            gone = 0
        end_launcher(steps.run, may_hang=(transport, fate) == ("mpi", "kill"))
        assert steps.run.wait() != 0
    # The message may come from connected and from unconnected ranks; it names no other rank.
    assert set(re.findall(r"^error: rank (\d+)", steps.printed(), re.M)) <= {
        str(victim)
    }, steps.printed()
    return gone, gone


def end_launcher(run, may_hang):
    """Waits until the launcher ends. mpirun of Open MPI 4.1 never ends, for any MPI program, if a
    rank is killed while it connects to mpirun; then it is killed.
    """
    try:
        run.wait(scaled(20))
    except subprocess.TimeoutExpired:
        assert may_hang, "the launcher does not end"
        run.kill()


@contextlib.contextmanager
def control_group(version):
    """Makes a control group, and yields functions: one moves a process to it and freezes it, the
    other thaws it.
    """
    root = {1: "/sys/fs/cgroup/freezer", 2: "/sys/fs/cgroup/unified"}[version]
    if version == 2 and os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        root = "/sys/fs/cgroup"
    group = Path(root) / f"tpc-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        group.mkdir()
        if not (group / ("freezer.state" if version == 1 else "cgroup.freeze")).exists():
            raise OSError("it has no freezer")
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"control groups: {root} cannot be used: {error}")

    def freeze(process):
        (group / "cgroup.procs").write_text(str(process))
        (
            (group / "freezer.state").write_text("FROZEN")
            if version == 1
            else (group / "cgroup.freeze").write_text("1")
        )

    def thaw():
        (
            (group / "freezer.state").write_text("THAWED")
            if version == 1
            else (group / "cgroup.freeze").write_text("0")
        )

    try:
        yield freeze, thaw
    finally:
        thaw()
        for process in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                os.kill(int(process), signal.SIGKILL)
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def check_group(program, transport, version, seed, log):
    """Checks a rank that is frozen by its control group, as `docker pause` does."""
    draw = random.Random(seed)
    with control_group(version) as (freeze, thaw), Steps(program, transport, log) as steps:
        time.sleep(draw.uniform(0.1, 0.5))
        victim = draw.randrange(program.grid.ranks)
        freeze(steps.ranks[victim])
        begin = time.monotonic()
        named = re.compile(
            rf"^error: rank {victim} \(.*\) is frozen: its control group was frozen", re.M
        )
        until(lambda: named.search(steps.printed()))
        seconds = time.monotonic() - begin
        if version == 1:
            # A process that version 1 has frozen ends only after a thaw, even by SIGKILL.
            until(lambda: set(processes_of(program.path)) <= {victim})
            thaw()
        until(lambda: steps.run.poll() is not None and not processes_of(program.path))
        gone = time.monotonic() - begin
        assert len(re.findall(r"^error: ", steps.printed(), re.M)) == 1, steps.printed()
    return seconds, gone


class Hosts:
    """Network namespaces on one bridge. With `shares_name`, all have the name of this host, as
    containers may; else each has its own.
    """

    def __init__(self, count, shares_name=False):
        self.name, self.count = f"tpc{os.getpid()}x{time.monotonic_ns() % 10**6}", count
        self.shares_name = shares_name
        self.network = f"10.{random.randrange(64, 250)}.{random.randrange(250)}"

    def ip(self, *words):
        subprocess.run(["ip", *map(str, words)], check=True, capture_output=True, text=True)

    def __enter__(self):
        try:
            self.ip("netns", "add", f"{self.name}-r")
            bridge = ("-n", f"{self.name}-r", "link")
            self.ip(*bridge, "add", "br0", "type", "bridge")
            self.ip(*bridge, "set", "br0", "up")
            for i in range(self.count):
                host = f"{self.name}-{i}"
                self.ip("netns", "add", host)
                self.ip(
                    *bridge, "add", f"p{i}", "type", "veth", "peer", "name", "eth0", "netns", host
                )
                self.ip(*bridge, "set", f"p{i}", "master", "br0", "up")
                self.ip("-n", host, "address", "add", f"{self.network}.{i + 1}/24", "dev", "eth0")
                self.ip("-n", host, "link", "set", "eth0", "up")
                self.ip("-n", host, "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            pytest.skip(
                f"namespaces: this user cannot make networks: {getattr(error, 'stderr', error)}"
            )
        return self

    def __exit__(self, *_):
        for end in [*range(self.count), "r"]:
            subprocess.run(["ip", "netns", "del", f"{self.name}-{end}"], capture_output=True)

    def address(self, host):
        return f"{self.network}.{host + 1}"

    def host_name(self, host):
        return socket.gethostname() if self.shares_name else f"host{host}"

    def command(self, host, command):
        enter = ["ip", "netns", "exec", f"{self.name}-{host}"]
        if self.shares_name:
            return [*enter, *map(str, command)]
        return [
            *enter,
            "unshare",
            "--uts",
            "sh",
            "-c",
            f'hostname host{host} && exec "$@"',
            "-",
            *map(str, command),
        ]

    def cut(self, first, second):
        """Drops all packets between the two hosts, in both directions; other hosts reach both."""
        for host in (first, second):
            subprocess.run(
                [
                    "ip",
                    "netns",
                    "exec",
                    f"{self.name}-r",
                    "bridge",
                    "link",
                    "set",
                    "dev",
                    f"p{host}",
                    "isolated",
                    "on",
                ],
                check=True,
            )

    def cut_off(self, host):
        self.ip("-n", f"{self.name}-r", "link", "set", f"p{host}", "down")


def check_cut(program, what, seed, log):
    """Runs each rank on its own host. `what`, the fault: "link" (or "link, one name", between hosts
    of the same name) cuts a link, "host" disconnects a host, and "stop" freezes a rank.
    """
    draw = random.Random(seed)
    ranks = range(program.grid.ranks)
    with (
        Hosts(len(ranks), shares_name=what == "link, one name") as hosts,
        open(log, "w") as file,
    ):
        environment = {
            "WORLD_SIZE": str(len(ranks)),
            "MASTER_ADDR": hosts.address(0),
            "MASTER_PORT": "29000",
            "TPC_INTERFACE": "eth0",
            "TPC_SHARED_MEMORY": "0",  # hosts of one name may see each other's memory
        }
        running = [
            subprocess.Popen(
                hosts.command(rank, [program.path, "--verbose", "--timeout=60", *BENCH]),
                stdout=file,
                stderr=file,
                env={**os.environ, **environment, "RANK": str(rank)},
                start_new_session=True,
            )
            for rank in ranks
        ]
        try:
            until(
                lambda: "loaded" in log.read_text()
                or any(process.poll() is not None for process in running)
            )
            time.sleep(draw.uniform(0.1, 0.5))
            assert all(process.poll() is None for process in running), log.read_text()
            if what.startswith("link"):
                # Links that the grid's ranks use in each step (tp, pp), except those of rank 0.
                first, second = draw.choice([(1, 3), (2, 3)])
                hosts.cut(first, second)
                named = "|".join(
                    rf"error: rank {a}( \(.*\))?: the link to rank {b} is cut: nothing was received"
                    rf" from {hosts.host_name(b)} \({hosts.address(b)}:\d+\) to"
                    rf" {hosts.host_name(a)} \({hosts.address(a)}:\d+\)"
                    for a, b in ((first, second), (second, first))
                )
            else:
                victim = draw.randrange(1, len(ranks))
                if what == "host":
                    hosts.cut_off(victim)
                else:
                    os.kill(running[victim].pid, signal.SIGSTOP)
                # Reported by rank 0, which receives no heartbeat, or by a rank that waits for it.
                named = (
                    rf"error: rank {victim} \(.*\) is frozen or cut off: nothing was received from"
                    rf" {hosts.address(victim)} for 4 s"
                    rf"|error: rank \d.*: the link to rank {victim} is cut: nothing was received"
                    rf" from host{victim} "
                    rf"|error: rank {victim}( \(.*\))?: the link to rank \d is cut: nothing was"
                    r" received from host\d "
                )
            begin = time.monotonic()
            until(lambda: re.search(named, log.read_text()))
            seconds = time.monotonic() - begin
            # A stopped rank remains if its host has no other rank that could end it.
            until(
                lambda: all(
                    process.poll() is not None
                    for rank, process in enumerate(running)
                    if what != "stop" or rank != victim
                )
            )
            return seconds, time.monotonic() - begin
        finally:
            for process in running:
                process.kill()
                process.wait()


def repeat(limit, check, path):
    """Calls `check` until its first time is within the limit, at most three times, because the
    machine may be busy. Times are of the wall clock, because the limit is documented.
    """
    tries = []
    while not tries or (tries[-1][0] > limit and len(tries) < 3):
        tries.append((*check(path / f"log{len(tries)}"), os.getloadavg()[0]))
    assert tries[-1][0] <= limit, tries
    return tries


def check_times(program, transport, fate, seed, path, more=None):
    return repeat(
        PROMISED[transport, fate],
        lambda log: check(program, transport, fate, seed, log, more),
        path,
    )


def say_times(transport, fate, tries):
    for what, times in (("named", [a for a, _, _ in tries]), ("gone", [b for _, b, _ in tries])):
        print(
            f"{transport} {fate}: {what} after {statistics.median(times):.2f} s, at most"
            f" {max(times):.2f} s"
        )
    for a, _, load in tries:
        if a > PROMISED[transport, fate]:
            print(
                f"{transport} {fate}: named after {a:.2f} s, with a load of {load:.1f} on"
                f" {os.cpu_count()} cores"
            )

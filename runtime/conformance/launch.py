#!/usr/bin/env python3
"""Launches ranks as processes, in the style of launchers that are not installed here.

    launch.py -n 4 [--as torch|plain|slurm] [--port N] [--pids FILE] COMMAND…

torch: the agent itself listens on MASTER_PORT, and ends all ranks as soon as one has failed.
plain: a shell script that sets RANK, WORLD_SIZE, … and waits for all ranks unconditionally.
slurm: a step of srun without MPI.
The exit status is that of the first process that failed; 128 + n after signal n."""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time


def environment_of(style, rank, ranks, port):
    if style == "slurm":
        # The first node of the list is this host.
        return {
            "SLURM_JOB_ID": str(os.getpid()),
            "SLURM_STEP_ID": "3",
            "SLURM_PROCID": str(rank),
            "SLURM_NTASKS": str(ranks),
            "SLURM_STEP_NUM_TASKS": str(ranks),
            "SLURM_LOCALID": str(rank),
            "SLURM_STEP_NODELIST": "127.0.0.[1-2,7],login",
            "TPC_PORT": str(port),
        }
    values = {
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "localhost" if style == "torch" else "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    if style == "torch":
        values |= {
            "GROUP_RANK": "0",
            "TORCHELASTIC_RUN_ID": f"fake-{os.getpid()}",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
    else:
        values["TPC_PORT"] = str(port)
    return values


def reserve_port(style, port):
    """Returns a free port, and the agent's listening socket on it for style torch.

    For that style the next port, which the ranks use, is also free."""
    for attempt in range(100):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        port_here = listener.getsockname()[1]
        if style != "torch":
            listener.close()
            return port_here, None
        listener.listen()
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port_here + 1))
                return port_here, listener
            except (OSError, OverflowError):
                listener.close()
    raise SystemExit("no two ports are free")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, required=True)
    parser.add_argument("--as", dest="style", choices=["torch", "plain", "slurm"], default="torch")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--pids")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    port, listener = reserve_port(options.style, options.port)
    processes = []
    for rank in range(options.n):
        environment = os.environ | environment_of(options.style, rank, options.n, port)
        processes.append(subprocess.Popen(options.command, env=environment))
    if options.pids:
        with open(options.pids + ".part", "w") as file:
            file.write("\n".join(str(process.pid) for process in processes))
        os.rename(options.pids + ".part", options.pids)
    status, running, ended = 0, list(processes), None
    signal.signal(signal.SIGTERM, lambda *_: [process.terminate() for process in running])
    while running:
        for process in [process for process in running if process.poll() is not None]:
            running.remove(process)
            code = process.returncode if process.returncode >= 0 else 128 - process.returncode
            if code and not status:
                status = code
                if options.style == "torch":
                    ended = time.monotonic()
                    for other in running:
                        other.terminate()
        if ended and time.monotonic() > ended + 3:  # torchrun: 30
            for other in running:
                other.kill()
        time.sleep(0.02)
    return status


if __name__ == "__main__":
    sys.exit(main())

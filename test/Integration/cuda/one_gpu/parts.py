"""Parts of a run in their order, and properties that none of them checks."""

from __future__ import annotations

import json
import tarfile
import tempfile
from pathlib import Path

from one_gpu import benchmark, correctness, generation, kernels, machine, sanitizer, training
from one_gpu.report import Report

PARTS = {
    "machine": machine,
    "kernels": kernels,
    "correctness": correctness,
    "sanitizer": sanitizer,
    "benchmark": benchmark,
    "generation": generation,
    "training": training,
}
# Properties that one GPU cannot show.
NEVER = [
    "anything across GPUs: NVLink, NCCL's transports between devices and hosts, their speed,"
    " mixed models of GPUs"
]


def unpack(pack: Path) -> Path:
    """Returns the folder of a pack. An archive is unpacked next to itself, or into a temporary
    folder if its own folder is read-only.
    """
    if pack.is_dir():
        return pack
    for parent in (pack.parent, None):
        try:
            folder = Path(tempfile.mkdtemp(prefix="one-gpu-", dir=parent))
        except OSError:
            continue
        with tarfile.open(pack) as archive:
            (
                archive.extractall(folder, filter="data")
                if hasattr(tarfile, "data_filter")
                else archive.extractall(folder)
            )
        return next(path.parent for path in folder.glob("**/pack.json"))
    raise SystemExit(f"run: {pack} cannot be unpacked: no folder can be written")


def main(options) -> int:
    pack = unpack(options.pack).resolve()
    listed = json.loads((pack / "pack.json").read_text())
    report = Report(options.results.resolve(), options.seconds, options.limit, options.only)
    here = machine.Machine(pack, listed, options.torch)
    chosen = [part for part in PARTS if not options.part or part in options.part]
    # The machine part runs first: all others need it, and its messages are the clearest.
    works = machine.run(report, here)
    for part in chosen if works else []:
        if part != "machine":
            PARTS[part].run(report, here)
    if not works:
        print("\nNo program runs on a GPU here: the other checks did not run.")
    return report.conclude({part: PARTS[part].PROVES for part in chosen}, NEVER)

"""Checks all keywords of tpc.compile, on CPUs and on GPUs (over the simulator).

The programs take all keywords between them. A new keyword needs a value in one of them, and a
check of its effect: `covered` is compared with the list that tpc.compile itself uses.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx

import tpc
from expert_files import Experts, save_with_router
from halves import halve
from harness import tool
from models import COMMITTED
from tpc import reference

MODEL = COMMITTED["gpt2-tiny"]
IDS = MODEL.inputs(2, 7)["input_ids"]
EXPERTS = Experts(experts=5, selected=2, bias=True)
TF32 = 2e-3  # largest relative difference with matmuls in TF32


def all_reduce(session):
    """Returns the all-reduces of a step of 2 x 8 tokens."""
    report = session.report(batch=2, sequence=8)
    return [row for row in report["collectives"] if row["kind"] == "all_reduce"]


def make_file(folder: Path, target: str):
    """Checks external data in another folder, and options of the compiled program."""
    model = onnx.load(MODEL.path)
    onnx.save(
        model, folder / "model.onnx", save_as_external_data=True, location="w", size_threshold=0
    )
    (folder / "data").mkdir()
    shutil.move(folder / "w", folder / "data" / "w")
    gpu = {"gpu_arch": "sm_80", "precision": "tf32"} if target == "cuda" else {}
    options = {
        "shard": "tp2",
        "generate": "all",
        "weights": folder / "data",
        "out": folder / "program",
        "cache": False,
        "verbose": True,
        "threads": 3,
        "session": {"verify_weights": True, "max_sequence": 9},
        "O": 1,
        "march": "x86-64-v3",
        "name": "a name",
        "digest_weights": True,
        "timing": True,
        "no_verify": True,
        "target": target,
        **gpu,
    }
    printed = io.StringIO()
    gc.collect()  # ends the ranks of sessions that were left open
    before = len(os.listdir("/proc/self/task"))
    with contextlib.redirect_stderr(printed):
        session = tpc.compile(folder / "model.onnx", **options)
    texts = "\n".join(message.text for message in session.messages)
    wanted = reference.Session(MODEL.path).run({"input_ids": IDS})["logits"]
    tolerance = TF32 if target == "cuda" else reference.TOLERANCE
    with session:
        description, program = session.description, (folder / "program").read_bytes()
        logits = session.run({"input_ids": IDS})["logits"]
        flags = session._arguments
        checks = {
            "shard": description["world_size"] == 2,
            "generate": logits.shape == (2, 7, 1000),  # "all": logits of all tokens
            "weights": reference.difference(logits, wanted).relative <= tolerance,
            "out": session.path == folder / "program" and os.access(session.path, os.X_OK),
            "cache": not list(Path(os.environ["TPC_CACHE"]).glob("programs/*")),
            "verbose": "--no-verify" in printed.getvalue(),
            "threads": target == "cuda" or len(os.listdir("/proc/self/task")) >= before + 5,
            "session": session.generate([1], max_new_tokens=20).size < 10,
            "O": "-O=1" in flags and "-O7" in error_of(lambda: tpc.compile(MODEL.path, O=7)),
            "march": "--march=x86-64-v3" in flags
            and "x86-64-v3" in error_of(lambda: tpc.compile(MODEL.path, march="z80")),
            "name": description["name"] == "a name",
            "digest_weights": session.notes == [],  # verify_weights would note that there are none
            "timing": "linking" in texts and "MiB" in texts,
            "no_verify": description["not_verified"] and "--no-verify" in texts,
            "target": ("kernels" in session.report(sequence=8)) == (target == "cuda"),
            "encoder": "the decoder has no input"
            in error_of(lambda: tpc.compile(MODEL.path, encoder=MODEL.path)),
            "embedding": "no input 'inputs_embeds'"
            in error_of(lambda: tpc.compile(MODEL.path, embedding=MODEL.path)),
            "image_token": "--image-token needs --encoder"
            in error_of(lambda: tpc.compile(MODEL.path, image_token=5)),
        }
        if target == "cuda":
            checks |= {
                "gpu_arch": b"sm_80" in program,
                "precision": not reference.difference(logits, wanted).relative <= 1e-6,
            }
        else:
            checks |= {
                name: "--target=cuda" in error_of(lambda: tpc.compile(MODEL.path, **{name: value}))
                for name, value in (("gpu_arch", "sm_80"), ("precision", "tf32"))
            }
    return checks


def make_halves(folder: Path, target: str):
    """Checks a model in f16: residual, annotations, costs of links, proof against another file."""
    onnx.save(halve(onnx.load(MODEL.path), "f16"), folder / "half.onnx")
    (folder / "whole.txt").write_text("model.lm_head.weight: [-, -]\n")
    (folder / "links.json").write_text(json.dumps({"axes": {"tp": {"alpha": 1, "beta": 0}}}))
    gpu = {"target": "cuda", "gpu_arch": "sm_80", "O": 0} if target == "cuda" else {}
    with (
        tpc.compile(folder / "half.onnx", shard="tp2", **gpu) as plain,
        tpc.compile(
            folder / "half.onnx",
            shard="tp2",
            residual="same",
            annotations=folder / "whole.txt",
            links=folder / "links.json",
            reference=folder / "half.onnx",
            **gpu,
        ) as session,
    ):
        reduced = [sum(row["bytes"] for row in all_reduce(one)) for one in (session, plain)]
        splits = [" ".join(one.report(sequence=8)["splits"]) for one in (session, plain)]
        seconds = [one.report(sequence=8)["stages"][0] for one in (session, plain)]
        rows = [one.why("model.lm_head.weight")[0]["splits"][0] for one in (session, plain)]
        wanted, found = (one.run({"input_ids": IDS})["logits"] for one in (plain, session))
        difference = np.abs(wanted.astype(np.float32) - found.astype(np.float32))
        assert difference.max() <= 0.1 * np.abs(wanted).max()
    other = COMMITTED["gpt2-mlp"].path
    return {
        "residual": reduced[0] < 0.7 * reduced[1],
        "annotations": "lm_head" not in splits[0]
        and splits[0] != splits[1]
        and [row["tactic"] for row in rows] == ["", "vocabulary"]
        and rows[0]["why"] == "annotations leave it unsplit",
        "links": seconds[0] != seconds[1],
        "reference": "model's is" in error_of(lambda: tpc.compile(MODEL.path, reference=other)),
    }


def make_configured(folder: Path, target: str):
    """Checks a file with device configurations."""
    path = folder / "sharded.onnx"
    command = [tool("tpcc"), MODEL.path, "--megatron-shard=tp2", "--emit=onnx-sharded", "-o", path]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    (name,) = [configuration.name for configuration in onnx.load(path).configuration]
    gpu = {"target": "cuda", "gpu_arch": "sm_80", "O": 0} if target == "cuda" else {}
    with tpc.compile(path, shard="tp2,manual", device_configuration=name, **gpu) as session:
        split = bool(all_reduce(session))
    error = error_of(lambda: tpc.compile(path, shard="tp2,manual", device_configuration="none"))
    return {"device_configuration": split and name in error}


def error_of(call) -> str:
    try:
        call()
    except tpc.TpcError as error:
        return str(error)
    raise AssertionError("no error")


def fixed_input(folder: Path, target: str):
    """Checks an input whose value is fixed at compile time (the program has no such input),
    quantized weights, and weights of a checkpoint.
    """
    w = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["product"]),
        onnx.helper.make_node("Cast", ["count"], ["factor"], to=onnx.TensorProto.FLOAT),
        onnx.helper.make_node("Mul", ["product", "factor"], ["y"]),
    ]
    describe = onnx.helper.make_tensor_value_info
    inputs = [
        describe("x", onnx.TensorProto.FLOAT, ["batch", 4]),
        describe("count", onnx.TensorProto.INT64, []),
    ]
    outputs = [describe("y", onnx.TensorProto.FLOAT, ["batch", 6])]
    weights = [onnx.numpy_helper.from_array(w, "w")]
    graph = onnx.helper.make_graph(nodes, "scaled", inputs, outputs, weights)
    opsets = [onnx.helper.make_opsetid("", 18)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "m.onnx")
    x = np.ones((2, 4), np.float32)
    with tpc.compile(folder / "m.onnx", target=target, fix_input="count=3", cache=False) as session:
        names = [port.name for port in session.inputs]
        y = session.run({"x": x})["y"]
    options = {"target": target, "fix_input": "count=3", "cache": False}
    with tpc.compile(folder / "m.onnx", quantize="int8", **options) as session:
        error = reference.difference(session.run({"x": x})["y"], 3 * x @ w)
    header = {"v": {"dtype": "F32", "shape": [4, 6], "data_offsets": [0, w.nbytes]}}
    text = json.dumps(header).encode()
    checkpoint = folder / "model.safetensors"
    checkpoint.write_bytes(len(text).to_bytes(8, "little") + text + (2 * w).tobytes())
    (folder / "map.json").write_text('{"w": "v"}')
    options |= {"weights": checkpoint, "weights_map": folder / "map.json"}
    with tpc.compile(folder / "m.onnx", **options) as session:
        doubled = reference.difference(session.run({"x": x})["y"], 6 * x @ w)
    return {
        "weights_map": doubled.relative <= 1e-5,
        "fix_input": names == ["x"] and reference.difference(y, 3 * x @ w).relative <= 1e-5,
        "quantize": 1e-5 < error.relative < 2e-2,
    }


def chosen_grid(folder: Path, target: str):
    """Checks a grid that tpcc chooses for a machine."""
    options = {
        "shard": "auto",
        "shape": "batch=2,sequence=7",
        "devices": 2,
        "machine": "h100-sxm" if target == "cuda" else "epyc-2core",
        "goal": "throughput",
        "price": 2.5,
        "search": 2,
        "memory": "1GiB",
        "gpus_per_node": 2,
        "target": target,
    }
    wanted = reference.Session(MODEL.path).run({"input_ids": IDS})["logits"]
    with tpc.compile(MODEL.path, **options) as session:
        distance = reference.difference(session.run({"input_ids": IDS})["logits"], wanted)
        fits = distance.relative <= reference.TOLERANCE and session.description["world_size"] <= 2

    def error_with(name, value, *words):
        error = error_of(lambda: tpc.compile(MODEL.path, **options | {name: value}))
        return all(word in error for word in words)

    return {
        "shape": fits and error_with("shape", None, "--shape"),
        "devices": error_with("devices", 0, "--devices"),
        "machine": error_with("machine", "none", "h100-sxm"),
        "goal": error_with("goal", "speed", "latency"),
        "price": error_with("price", -1, "--price"),
        "search": error_with("search", "all", "--search"),
        "memory": error_with("memory", "0.1MB", "fit"),
        "gpus_per_node": error_with("gpus_per_node", "two", "gpus-per-node"),
    }


def changed_program(folder: Path, target: str):
    """Checks options that change the program: chunks of all-reduces keep the bits, gradients are
    outputs, and a capacity drops tokens of experts.
    """
    options = {"shard": "tp2", "target": target}
    with (
        tpc.compile(MODEL.path, **options) as plain,
        tpc.compile(MODEL.path, overlap="2", **options) as chunked,
    ):
        logits = [one.run({"input_ids": IDS})["logits"] for one in (plain, chunked)]
        flags = chunked._arguments  # test_overlap.py tests the effect
    path = COMMITTED["gpt2-tiny-nopast"].path
    with tpc.compile(path, gradients=True, loss="next-token", **options) as session:
        found = session.run({"input_ids": IDS, "labels": IDS})
    names = [name for name in found if name.startswith("grad.")]
    gradients = found["loss"].shape == () and len(names) > 10 and found["loss"] > 0
    save_with_router(EXPERTS, folder / "experts.onnx")
    x = np.random.default_rng(0).standard_normal((2, 9, EXPERTS.hidden), np.float32)
    results = []
    for capacity in (None, "0.5"):
        with tpc.compile(
            folder / "experts.onnx", target=target, expert_capacity=capacity
        ) as session:
            results.append(session.run({"x": x})["y"])
    routed = {"shard": "ep2,dp2", "target": target, "expert_dispatch": "all-to-all"}
    with tpc.compile(folder / "experts.onnx", **routed) as session:
        rows = session.report(batch=2, sequence=3)["collectives"]
        dispatches = "dispatch" in {row["kind"] for row in rows}
    return {
        "expert_dispatch": dispatches,
        "overlap": np.array_equal(*logits)
        and "--overlap=2" in flags
        and "--overlap" in error_of(lambda: tpc.compile(MODEL.path, overlap="9")),
        "gradients": gradients,
        "loss": "next-token" in error_of(lambda: tpc.compile(path, gradients=True, loss="mse")),
        "expert_capacity": not np.array_equal(*results),
    }


def trained(folder: Path, target: str):
    """Checks options of training: terms of the loss, the optimizer, weights that do not decay."""
    path, ids = COMMITTED["gpt2-tiny-nopast"].path, np.arange(18).reshape(2, 9)
    if target == "cuda":
        error = error_of(lambda: tpc.compile(path, train=True, target=target))
        names = ("train", "label_smoothing", "z_loss", "optimizer", "no_decay")
        return dict.fromkeys(names, "--target=cuda" in error)

    def losses(**options):
        options = {"loss": "next-token"} | options
        with tpc.compile(path, train=options) as session:
            return [session.step(ids, lr=0.1).loss for _ in range(2)]

    decayed, plain = losses(optimizer="sgd:decay=1"), losses()
    return {
        "train": plain[1] < plain[0],
        "label_smoothing": losses(label_smoothing=0.5)[0] != plain[0],
        "z_loss": losses(z_loss=1)[0] > plain[0] + 10,
        "optimizer": losses(optimizer="sgd")[1] != decayed[1],
        "no_decay": losses(optimizer="sgd:decay=1", no_decay="*")[1] == losses(optimizer="sgd")[1],
    }


PROGRAMS = [
    *(make_file, make_halves, make_configured, fixed_input, chosen_grid, changed_program, trained)
]


def check(folder: Path, target: str, programs=PROGRAMS) -> set[str]:
    """Checks programs, and returns the keywords that they cover."""
    covered = set()
    for make in programs:
        (folder / make.__name__).mkdir()
        checks = make(folder / make.__name__, target)
        failed = [name for name, holds in checks.items() if not holds]
        assert not failed, f"{failed} have no effect on {target}"
        covered |= set(checks)
    return covered

"""Commands of the documentation as a user types them."""

import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import helper

from harness import Grid, run, tool
from models import COMMITTED, MODELS
from tpc.reference import TOLERANCE, difference

TINY = COMMITTED["gpt2-tiny"]
NOPAST = COMMITTED["gpt2-odd-nopast"]


def emit(tpcc, path, level, out, *flags, shard="tp2,pp2"):
    tpcc.call([path, f"--megatron-shard={shard}", f"--emit={level}", *flags, "-o", out]).check()
    return out


def test_import_and_partition_by_hand(tpcc, tmp_path):
    run([tool("tpc-translate"), "--import-onnx", TINY.path, "-o", tmp_path / "gpt2.mlir"]).check()
    imported = (tmp_path / "gpt2.mlir").read_text()
    assert "tpc.matmul" in imported and "tpc.weight" in imported
    printed = (
        run([tool("tpc-opt"), tmp_path / "gpt2.mlir", "--megatron-shard=tp8,pp4"]).check().stdout
    )
    assert "tpc.all_reduce" in printed and "tpc.send" in printed


@pytest.mark.parametrize(
    "level,ops",
    [
        ("model", ["tpc.attention", "tpc.gelu", "tpc.layer_norm", "tpc.embedding"]),
        ("sharded", ["tpc.mesh", "sum{tp}"]),
        ("spmd", ["tpc.all_reduce", "local"]),
        ("staged", ["tpc.send", "tpc.recv", "@stage_1"]),
    ],
)
def test_every_level_prints_and_reads_back(tpcc, tmp_path, level, ops):
    path = emit(tpcc, TINY.path, level, tmp_path / "out.mlir")
    text = path.read_text()
    for op in ops:
        assert op in text
    again = run([tool("tpc-opt"), path]).check().stdout
    once = tmp_path / "again.mlir"
    once.write_text(again)
    assert run([tool("tpc-opt"), once]).check().stdout == again


def test_late_levels(tpcc, tmp_path):
    assert "llvm." in emit(tpcc, TINY.path, "llvm", tmp_path / "out.mlir").read_text() or (
        "define" in (tmp_path / "out.mlir").read_text()
    )
    assert emit(tpcc, TINY.path, "obj", tmp_path / "out.o").read_bytes()[:4] == b"\x7fELF"
    made = emit(tpcc, TINY.path, "exe", tmp_path / "out")
    assert run([made, "--describe"]).check().stdout


def test_a_deep_model_prints_on_a_page(tpcc, tmp_path):
    """Repeated layers are one function, so twelve layers have only more calls and weights than
    four.
    """
    texts = [
        emit(
            tpcc, MODELS / f"{name}.onnx", "model", tmp_path / f"{name}.mlir", "--plain"
        ).read_text()
        for name in ("gpt2-tiny", "gpt2-124m")
    ]
    assert [text.count("tpc.attention") for text in texts] == [1, 1]
    bodies = [
        [
            line
            for line in text.splitlines()
            if "tpc.weight" not in line and "tpc.parameter" not in line
        ]
        for text in texts
    ]
    assert len(bodies[1]) - len(bodies[0]) <= 8 + 8 * 2


def test_compiling_twice_gives_the_same_bytes(tpcc, tmp_path):
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made.append(emit(tpcc, TINY.path, "exe", tmp_path / name / "gpt2").read_bytes())
    assert made[0] == made[1], "not reproducible"


def test_executables_need_neither_mpi_nor_mlir(tpcc):
    executable = tpcc.compile(TINY.path, Grid(tp=2, pp=2))
    needed = subprocess.run(
        ["readelf", "-d", executable.path], check=True, capture_output=True, text=True
    ).stdout
    libraries = re.findall(r"NEEDED.*\[(.*)\]", needed)
    assert not [name for name in libraries if re.search("mpi|MLIR|LLVM", name)], libraries


def test_describe(tpcc):
    executable = tpcc.compile(NOPAST.path, Grid(tp=2, pp=2))
    text = executable.call(["--describe"]).check().stdout
    for word in (
        "input_ids",
        "attention_mask",
        "position_ids",
        "logits",
        "tp",
        "pp",
        "batch_size",
        "sequence_length",
    ):
        assert word in text, word
    description = executable.describe()
    assert {value["name"]: value["optional"] for value in description["inputs"]} == {
        "input_ids": False,
        "attention_mask": True,
        "position_ids": True,
    }
    assert description["groups"]["tp"] == [[0, 1], [2, 3]] and description["groups"]["pp"] == [
        [0, 2],
        [1, 3],
    ]


def test_bench(tpcc):
    executable = tpcc.compile(TINY.path, Grid(tp=2, pp=2))
    result = executable.bench(
        TINY.shape(1, 16), arguments=["--weights=random:1", "--threads-per-rank", "1"]
    )
    assert 0 < result["seconds"] < 60 and result["collectives"]


def test_one_input_needs_no_name(tpcc, tmp_path):
    executable = tpcc.compile(TINY.path, Grid(tp=2))
    inputs = TINY.inputs(2, 5)
    np.save(tmp_path / "ids.npy", inputs["input_ids"])
    executable.call(
        ["--input", tmp_path / "ids.npy", "--output", f"logits={tmp_path / 'logits.npy'}"]
    ).check()
    assert difference(np.load(tmp_path / "logits.npy"), TINY.expected(inputs)).relative <= TOLERANCE


def test_unrecognized_patterns_are_remarks(tpcc, tmp_path):
    """At most eight remarks name their nodes; one more states the number of further remarks."""
    for count in (3, 11):
        names = ["x", *(f"h{i}" for i in range(count))]
        nodes = [
            helper.make_node("Softmax", [a], [b], name=f"soft{i}")
            for i, (a, b) in enumerate(zip(names, names[1:]))
        ]
        values = [
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 6])
            for name in (names[0], names[-1])
        ]
        graph = helper.make_graph(nodes, "softmaxes", values[:1], values[1:])
        path = tmp_path / f"softmaxes{count}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
        output = tpcc.call([path, "--megatron-shard=dp2", "-o", tmp_path / "out"]).check().stderr
        assert output.count("is not part of a recognized attention") == min(count, 8)
        assert "node 'soft0'" in output
        assert ("3 more remarks" in output) == (count == 11)

"""Processes of different programs: start-up fails and names the rank and the difference."""

import re
import shutil

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import harness
from models import MODELS

MODEL = MODELS / "gpt2-mlp.onnx"


@pytest.fixture(scope="module")
def ids(tmp_path_factory):
    path = tmp_path_factory.mktemp("ids") / "in.npy"
    np.save(path, np.zeros((2, 3, 40), np.float32))
    return path


def together(ids, one, other, other_flags=()):
    """Runs one executable on rank 0 and another on rank 1."""
    return harness.run(
        [
            "mpirun",
            "--oversubscribe",
            "--bind-to",
            "none",
            "-n",
            "1",
            one,
            "--input",
            ids,
            ":",
            "-n",
            "1",
            other,
            "--input",
            ids,
            *other_flags,
        ]
    )


def refused(result, what):
    result.refused(f"rank 1 does not run the same as rank 0: another {what} (rank 0 has ")
    errors = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1, f"reported more than once\n{result}"


def test_other_grid_and_schedule(tpcc, mpi, ids):
    one = tpcc.compile(MODEL, "tp2").path
    together(ids, one, one).check()
    refused(together(ids, one, tpcc.compile(MODEL, "dp2").path), "grid")
    together(ids, one, tpcc.compile(MODEL, "tp4").path).refused(
        "rank 1: the program was compiled for 4 ranks, but 2 were started"
    )
    refused(together(ids, one, tpcc.compile(MODEL, "tp2,mb2").path), "grid")
    refused(together(ids, one, tpcc.compile(MODEL, "tp2,sp").path), "schedule")


def test_other_build(tpcc, mpi, ids, tmp_path):
    one = tpcc.compile(MODEL, "tp2").path
    old = tmp_path / "old"
    data = one.read_bytes()
    version = re.search(rb'"compiler":"tpc ([0-9.]+)"', data)
    assert version
    at = version.start(1)
    old.write_bytes(data[:at] + b"9" + data[at + 1 :])
    old.chmod(0o755)
    refused(together(ids, one, old), "build")


def change(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x40
    path.write_bytes(data)


def test_other_weights(tpcc, mpi, ids, tmp_path):
    """Bytes at the end of a tensor are in the digest's samples; bytes in the middle are checked
    only by --verify-weights.
    """
    text = harness.run([harness.tool("tpcc"), MODEL, "--emit=import", "--plain"]).check().stdout
    offset, rows, columns = max(
        (
            tuple(map(int, match))
            for match in re.findall(r"tpc\.weight .* at (\d+) : tensor<(\d+)x(\d+)xf32>", text)
        ),
        key=lambda w: w[1] * w[2],
    )
    one = tpcc.compile(MODEL, "tp2").path
    middle, first = tmp_path / "middle" / MODEL.name, tmp_path / "first" / MODEL.name
    for path, where in ((middle, offset + rows * columns * 2 + 1), (first, offset + 1)):
        path.parent.mkdir()
        shutil.copyfile(MODEL, path)
        change(path, where)
    result = together(ids, one, one, [f"--weights={first}"])
    result.refused("rank 1: weight file", "is not the one that the program was compiled with")
    together(ids, one, one, [f"--weights={middle}"]).check()
    both = harness.run(
        [
            "mpirun",
            "--oversubscribe",
            "--bind-to",
            "none",
            "-n",
            "1",
            one,
            "--input",
            ids,
            "--verify-weights",
            ":",
            "-n",
            "1",
            one,
            "--input",
            ids,
            f"--weights={middle}",
            "--verify-weights",
        ]
    )
    refused(both, "set of weights")
    same = harness.run(
        [
            "mpirun",
            "--oversubscribe",
            "--bind-to",
            "none",
            "-n",
            "2",
            one,
            "--input",
            ids,
            "--verify-weights",
        ]
    )
    same.check()

    # With compile-time digests of all weights, a single process also detects the change and names
    # the tensor.
    digested = tpcc.compile(MODEL, "tp2", "--digest-weights")
    digested.call(["--input", ids, "--verify-weights"]).check()
    digested.call(["--input", ids, f"--weights={middle}"]).check()
    wrong = digested.call(["--input", ids, f"--weights={middle}", "--verify-weights"])
    wrong.refused(
        f"weight file '{middle}' is not the one that the program was compiled with (the size and"
        " the samples are the same, but '",
        "' differs)",
    )
    third = harness.run(
        [
            "mpirun",
            "--oversubscribe",
            "--bind-to",
            "none",
            "-n",
            "1",
            digested.path,
            "--input",
            ids,
            "--verify-weights",
            ":",
            "-n",
            "1",
            digested.path,
            "--input",
            ids,
            f"--weights={middle}",
            "--verify-weights",
        ]
    )
    third.refused("rank 1: weight file", "' differs)")

    # A program with other weights, at the same path or not, counts as a different program.
    refused(together(ids, one, tpcc.compile(first, "tp2").path), "weight digest")


def test_skipped_verifiers_are_reported(tpcc):
    executable = tpcc.compile(MODEL, "tp2", "--no-verify")
    assert "--no-verify: skips tpc-verify-" in executable.compiled.stderr
    skipped = executable.describe()["not_verified"]
    assert "tpc-verify-comms" in skipped and "tpc-verify-equivalence" in skipped
    assert f"NOT VERIFIED: compiled without {skipped}" in executable.call(["--describe"]).stdout
    verified = tpcc.compile(MODEL, "tp2")
    assert verified.describe()["not_verified"] == ""
    assert verified.describe()["schedule"] == executable.describe()["schedule"]
    assert "NOT VERIFIED" not in verified.call(["--describe"]).stdout
    tpcc.call([MODEL, "--no-verify", "--certificate=-"]).refused("--certificate", "--no-verify")


def test_skipped_randomized_check_is_reported(tpcc, tmp_path):
    """A size with a strided slice cannot be reduced, so only the proof covers the program."""

    def compiled(size):
        weight = TensorProto(
            name="w",
            data_type=TensorProto.FLOAT,
            dims=[size, size],
            data_location=TensorProto.EXTERNAL,
        )
        for key, value in (
            ("location", "absent.data"),
            ("offset", "0"),
            ("length", str(4 * size * size)),
        ):
            weight.external_data.add(key=key, value=value)
        bounds = [
            numpy_helper.from_array(np.array([value]), name)
            for name, value in (("start", 0), ("end", size), ("axis", 1), ("step", 2))
        ]
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("MatMul", ["h", "w"], ["z"]),
            helper.make_node("Softmax", ["z"], ["p"]),
            helper.make_node("Slice", ["p", "start", "end", "axis", "step"], ["y"]),
        ]
        value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        graph = helper.make_graph(
            nodes, "g", [value("x", ["batch", size])], [value("y", None)], [weight, *bounds]
        )
        path = tmp_path / f"{size}.onnx"
        path.write_bytes(
            helper.make_model(
                graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10
            ).SerializeToString()
        )
        return tpcc.compile(path, "tp2,dp2")

    alone, both = compiled(2503), compiled(19)
    assert (
        "tpc-verify-equivalence: proved, but not run at small sizes as well"
        in alone.compiled.stderr
    )
    why = alone.describe()["no_randomized_check"]
    assert why.startswith("its sizes cannot be made small")
    assert (
        f"Verified only by proof, not by a run at small sizes: {why}"
        in alone.call(["--describe"]).stdout
    )
    assert "warning" not in both.compiled.stderr and both.describe()["no_randomized_check"] == ""
    assert "only by proof" not in both.call(["--describe"]).stdout

"""Large graphs, and graphs that expand to large ones: nested sums, long chains, many outputs."""

import onnx
import pytest
from onnx import TensorProto, helper

import harness


def save(path, nodes, outputs):
    info = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8])
        for name in ("x0", *outputs)
    ]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path
    )
    return path


def chain(path, op, count, operands=lambda i: [f"x{i}"]):
    return save(
        path,
        [helper.make_node(op, operands(i), [f"x{i + 1}"]) for i in range(count)],
        [f"x{count}"],
    )


def residual(path, count):
    """Writes a graph in which each sum has one addend more than the one before."""
    nodes = [
        node
        for i in range(count)
        for node in (
            helper.make_node("Relu", [f"x{i}"], [f"r{i}"]),
            helper.make_node("Add", [f"x{i}", f"r{i}"], [f"x{i + 1}"]),
        )
    ]
    return save(path, nodes, [f"x{count}"])


def fan(path, count):
    return save(
        path,
        [helper.make_node("Relu", ["x0"], [f"y{i}"]) for i in range(count)],
        [f"y{i}" for i in range(count)],
    )


def compile(model, tmp_path):
    return harness.run(
        [
            harness.tool("tpcc"),
            model,
            "--megatron-shard=dp2",
            "--emit=staged",
            "--timing",
            "-o",
            tmp_path / "staged.mlir",
        ]
    ).check()


def twice(i):
    return [f"x{i}", f"x{i}"]


@pytest.mark.skipif(harness.sanitized(), reason="sanitizers: they need memory of their own")
@pytest.mark.parametrize("op, count", [("Add", 60), ("Add", 200), ("Sub", 60), ("Mul", 200)])
def test_doubled(op, count, tmp_path):
    """A value that is added to itself n times has 2^n addends, which must not be enumerated."""
    assert compile(chain(tmp_path / "m.onnx", op, count, twice), tmp_path).peak_bytes <= 200 << 20


def test_fibonacci(tmp_path):
    """Multiplicities of addends are not powers of two, and exceed 62 bits."""
    compile(
        chain(tmp_path / "m.onnx", "Add", 120, lambda i: [f"x{i}", f"x{max(i - 1, 0)}"]), tmp_path
    )


@pytest.mark.skipif(harness.sanitized(), reason="sanitizers: they need memory of their own")
def test_residual(tmp_path):
    def peak(count):
        return compile(residual(tmp_path / "m.onnx", count), tmp_path).peak_bytes

    # If there were a list for each sum, memory above tpcc's base would be 16 times as large.
    base, quarter, whole = peak(1), peak(500), peak(2000)
    assert whole - base <= 8 * max(quarter - base, 4 << 20)


@pytest.mark.long  # times
@pytest.mark.skipif(harness.sanitized(), reason="sanitizers: they take their time")
@pytest.mark.parametrize(
    "make, count",
    [(lambda path, n: chain(path, "Relu", n), 100_000), (fan, 10_000), (residual, 20_000)],
)
def test_time_is_linear(make, count, tmp_path):
    def seconds(n):
        return min(compile(make(tmp_path / "m.onnx", n), tmp_path).cpu_seconds for _ in range(2))

    assert any(seconds(count) <= 16 * seconds(count // 10) for _ in range(3))

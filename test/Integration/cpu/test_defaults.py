"""Omitted inputs: logits equal ONNX Runtime's with the defaults of Hugging Face."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness import Grid
from models import COMMITTED, CORPUS, MODELS
from tpc.reference import TOLERANCE, Session, difference


def positions_of(mask: np.ndarray, sequence: int) -> np.ndarray:
    """Returns positions as transformers' prepare_inputs_for_generation does."""
    positions = np.cumsum(mask, axis=-1) - 1
    positions[mask == 0] = 1
    return positions[:, -sequence:]


def mask_of(batch: int, past: int, sequence: int, padding: str) -> np.ndarray:
    mask = np.ones((batch, past + sequence), np.int64)
    for row in range(batch if padding != "none" else 0):
        count = min(past + sequence - 1, row + 1 + row * past // 2)
        mask[row, :count] = 0
        if padding == "right":
            mask[row] = mask[row, ::-1]
    return mask


def inputs_of(
    model: onnx.ModelProto, mask: np.ndarray, past: int, sequence: int, vocabulary: int
) -> dict[str, np.ndarray]:
    """Returns ids and, if the file has them, caches, the mask and its positions."""
    random = np.random.default_rng(1)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = {}
    for port in model.graph.input:
        if port.name in weights:
            continue
        dims = [dim.dim_value or dim.dim_param for dim in port.type.tensor_type.shape.dim]
        if port.name == "attention_mask":
            inputs[port.name] = mask
        elif port.name == "position_ids":
            inputs[port.name] = positions_of(mask, sequence)
        elif port.name == "input_ids":
            inputs[port.name] = random.integers(0, vocabulary, (len(mask), sequence))
        else:
            sizes = [
                dim if isinstance(dim, int) else past if "past" in dim else len(mask)
                for dim in dims
            ]
            inputs[port.name] = random.standard_normal(sizes, dtype=np.float32)
    return inputs


def check(program, path, vocabulary: int, past: int, transport: str = "threads"):
    model, sequence, batch = onnx.load(path, load_external_data=False), 3, 3
    session = Session(path)
    for padding in ("none", "left", "right"):
        mask = mask_of(batch, past, sequence, padding)
        inputs = inputs_of(model, mask, past, sequence, vocabulary)
        expected = session.run(inputs)["logits"]
        seen = mask[:, past:] != 0
        omitted = ["position_ids"] + (["attention_mask"] if padding == "none" else [])
        given = {name: array for name, array in inputs.items() if name not in omitted}
        actual = program.run(given, transport=transport)["logits"]
        # Results of masked rows are not used, so they are not compared.
        assert difference(actual[seen], expected[seen]).relative <= TOLERANCE, padding
        # Other positions give other logits, so the test can fail. (Rotations depend only on
        # distances, so they do not count.)
        inputs["position_ids"] = np.broadcast_to(np.arange(sequence), (batch, sequence))
        if past or (padding == "left" and "gpt2" in path.stem):
            assert (
                difference(session.run(inputs)["logits"][seen], expected[seen]).relative
                > 100 * TOLERANCE
            )


@pytest.mark.parametrize("transport", ["threads", "mpi"])
def test_without_a_past(tpcc, request, transport):
    if transport == "mpi":
        request.getfixturevalue("mpi")
    model = COMMITTED["gpt2-odd-nopast"]
    check(tpcc.compile(model.path, "tp2"), model.path, model.vocab, past=0, transport=transport)


def vocabulary_of(path) -> int:
    outputs = onnx.load(path, load_external_data=False).graph.output
    return next(o for o in outputs if o.name == "logits").type.tensor_type.shape.dim[2].dim_value


def has_past(path) -> bool:
    ports = onnx.load(path, load_external_data=False).graph.input
    return "position_ids" in {p.name for p in ports} and any(
        "past" in dim.dim_param for p in ports for dim in p.type.tensor_type.shape.dim
    )


WITH_PAST = [path for path in sorted(MODELS.glob("*past*.onnx")) if has_past(path)]


@pytest.mark.parametrize(
    "path",
    [
        (
            path
            if path.stem in ("llama-past", "phi-past")
            else pytest.param(path, marks=pytest.mark.long)
        )
        for path in WITH_PAST
    ],
    ids=lambda path: path.stem,
)
def test_after_a_past(tpcc, path):
    program = tpcc.compile(path, "tp2")
    for past in (5, 0):
        check(program, path, vocabulary_of(path), past)


@pytest.mark.long
@pytest.mark.parametrize("grid", [Grid(tp=2), Grid(pp=2)], ids=str)
@pytest.mark.parametrize(
    "name",
    [
        "gpt2-past",
        "gpt2-past-ortoptimized",
        "llama-past",
        "mistral-past",
        "phi-past",
        "qwen2-past",
        "gpt_neox-past",
    ],
)
def test_exports_by_other_tools(tpcc, corpus, name, grid):
    path = CORPUS / f"exported-{name}.onnx"
    program = tpcc.compile(path, grid)
    for past in (5, 0):
        check(program, path, vocabulary_of(path), past)


def positions_only(tmp_path, positions=("s",), mask=("b", "s"), mask_type=TensorProto.INT64):
    """Writes a model whose outputs are its inputs."""
    ports = [
        helper.make_tensor_value_info("attention_mask", mask_type, mask),
        helper.make_tensor_value_info("position_ids", TensorProto.INT32, positions),
    ]
    outputs = [
        helper.make_tensor_value_info("x", TensorProto.INT64, mask),
        helper.make_tensor_value_info("y", TensorProto.INT32, positions),
    ]
    zero = [
        numpy_helper.from_array(np.array(0, dtype), name)
        for name, dtype in (("zero", np.int64), ("none", np.int32))
    ]
    nodes = [
        helper.make_node("Cast", ["attention_mask"], ["m"], to=TensorProto.INT64),
        helper.make_node("Sub", ["m", "zero"], ["x"]),
        helper.make_node("Sub", ["position_ids", "none"], ["y"]),
    ]
    path = tmp_path / "positions.onnx"
    onnx.save(
        helper.make_model(
            helper.make_graph(nodes, "g", ports, outputs, zero),
            ir_version=10,
            opset_imports=[helper.make_opsetid("", 17)],
        ),
        path,
    )
    return path


@pytest.mark.parametrize(
    "positions, mask_type",
    [
        (("s",), TensorProto.INT64),
        ((1, "s"), TensorProto.BOOL),
        (("b", "s"), TensorProto.BOOL),
        (("b", "s"), TensorProto.INT8),
    ],
)
def test_shared_positions(tpcc, tmp_path, positions, mask_type):
    program = tpcc.compile(positions_only(tmp_path, positions, mask_type=mask_type))
    dtype = helper.tensor_dtype_to_np_dtype(mask_type)
    for rows in (
        [[0, 0, 1, 1, 0], [0, 0, 1, 1, 0]],
        [[0, 1, 1, 0, 1]],
        np.ones((2, 0)),
        np.ones((0, 3)),
    ):
        mask = np.asarray(rows, dtype)
        expected = positions_of(mask.astype(np.int64), mask.shape[1])
        if positions[0] != "b":
            expected = (expected if len(mask) else np.arange(mask.shape[1])[None])[:1].reshape(
                mask.shape[1:] if len(positions) == 1 else (1, -1)
            )
        np.testing.assert_array_equal(
            program.run({"attention_mask": mask}, outputs=["y"])["y"], expected
        )
    different = np.array([[0, 1, 1], [1, 1, 1]], dtype)
    if positions[0] == "b":
        np.testing.assert_array_equal(
            program.run({"attention_mask": different}, outputs=["y"])["y"],
            positions_of(different.astype(int), 3),
        )
    else:
        np.save(tmp_path / "mask.npy", different)
        program.call(["--input", f"attention_mask={tmp_path / 'mask.npy'}"]).refused(
            "position_ids", "attention_mask", "must be given"
        )


def test_required_positions(tpcc, tmp_path):
    """The mask does not cover the tokens of the positions, so positions are required."""
    path = positions_only(tmp_path, ("b", "s"), ("b", "t"))
    program = tpcc.compile(path)
    why = "'attention_mask' has t tokens, but past and new tokens are s"
    program.call(["--shape", "b=1,s=2,t=3"]).refused("missing input 'position_ids'", why)
    assert why in program.call(["--describe"]).check().stdout
    ports = {port["name"]: port for port in program.describe()["inputs"]}
    assert ports["position_ids"]["required"] == why and not ports["position_ids"]["optional"]
    assert ports["attention_mask"]["default"] == "ones"


def test_defaults_are_described(tpcc, tmp_path):
    program = tpcc.compile(COMMITTED["gpt2-odd-nopast"].path, "tp2")
    for flag in ("--help", "--describe"):
        assert (
            "positions of the visible tokens of 'attention_mask'"
            in program.call([flag]).check().stdout
        )
    ports = {port["name"]: port for port in program.describe()["inputs"]}
    assert (
        ports["position_ids"]["default"] == "positions"
        and ports["position_ids"]["mask"] == "attention_mask"
    )

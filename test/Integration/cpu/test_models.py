"""Properties that the committed models need for the tests that use them."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from conftest import TOP
from models import FAMILIES
from tpc import onnxfile, weights

MODELS = sorted((TOP / "test" / "Models").glob("*.onnx"))
WITH_WEIGHTS = [
    path
    for path in MODELS
    if path.stem.startswith("gpt2") and not path.stem.startswith("gpt2-124m")
]


def floats(model):
    return {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT
    }


def vectors_are_distinct_and_non_zero(arrays):
    """Checks that biases and norms have no 0, 1 or equal values, and that no two are equal."""
    vectors = {name: array for name, array in arrays.items() if array.ndim == 1 and array.size > 1}
    assert vectors
    for name, array in vectors.items():
        assert np.all(array != 0) and np.all(array != 1), name
        assert array.std() > 0.1, name
        assert np.unique(array).size >= 0.99 * array.size, name
    assert len({array.tobytes() for array in vectors.values()}) == len(vectors)
    return vectors


@pytest.mark.parametrize("path", WITH_WEIGHTS, ids=lambda path: path.stem)
def test_biases_and_norms_are_distinct_and_non_zero(path):
    model = onnx.load(path)
    vectors = vectors_are_distinct_and_non_zero(floats(model))
    # No vector was dropped by the export: every layer has two norms of two vectors each and four
    # biases, and the model has one more norm.
    norms = sum(node.op_type == "LayerNormalization" for node in model.graph.node)
    products = sum(node.op_type == "Gemm" for node in model.graph.node)
    assert len(vectors) == 2 * norms + products


@pytest.mark.parametrize("model", FAMILIES.values(), ids=lambda model: model.name)
def test_descriptions_match_the_files(model):
    """Files have the sizes of models.py, an output per cache, and distinct non-zero vectors."""
    file = onnx.load(model.path)
    arrays = floats(file)
    vectors_are_distinct_and_non_zero(
        {
            name: array
            for name, array in arrays.items()
            if name.endswith((".weight", ".bias")) or array.shape == (model.hidden,)
        }
    )
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in [*file.graph.input, *file.graph.output]
    }
    batch, sequence = model.batch_name, model.sequence_name
    assert shapes["input_ids"] == [batch, sequence]
    if model.name in ("gpt_neo-dynamo", "gpt_neo-past"):
        # The masks of this model are slices of a buffer. For these, torch writes the batch as an
        # expression of itself.
        formula = shapes["logits"].pop(0)
        assert formula.startswith(f"(({batch}*") and formula.endswith(f")//{sequence})")
        assert shapes["logits"] == [sequence, model.vocab]
    else:
        assert shapes["logits"] == [batch, sequence, model.vocab]
    assert any(array.shape == (model.vocab, model.hidden) for array in arrays.values())
    caches = [shape for name, shape in shapes.items() if name.startswith("past")]
    assert len(caches) == (2 * model.layers if model.past_name else 0)
    assert all(
        shape[:3] == [batch, model.kv_heads or model.heads, model.past_name] for shape in caches
    )
    assert len([name for name in shapes if name.startswith("present")]) == len(caches)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_files_are_small_and_anonymous(path):
    assert path.stat().st_size <= (500_000 if path.stem.startswith("gpt2") else 300_000)
    model = onnxfile.load_structure(path)
    assert not model.metadata_props and not model.doc_string
    assert not any(node.metadata_props or node.doc_string for node in model.graph.node)


def test_124m_structure_refers_to_one_weight_file():
    model = onnxfile.load_structure(TOP / "test" / "Models" / "gpt2-124m.onnx")
    external = [tensor for tensor in model.graph.initializer if onnxfile.is_external(tensor)]
    assert {onnxfile.external_entry(tensor)["location"] for tensor in external} == {
        "gpt2-124m.onnx.data"
    }
    # 12 layers of 12 tensors, two tables and the last norm.
    assert len(external) == 12 * 12 + 4
    assert sum(onnxfile.tensor_bytes(tensor) for tensor in external) == 4 * 124_439_808


def test_seeded_weights(tmp_path):
    """The script writes the described model, and the same model for the same seed."""
    odd = TOP / "test" / "Models" / "gpt2-odd-opset20.onnx"
    structure = tmp_path / "small.onnx"
    onnxfile.save(onnx.load(odd), structure, structure_only=True)
    assert not structure.with_name("small.onnx.data").exists()

    one = weights.write_weights(structure, tmp_path / "one", seed=7)
    again = weights.write_weights(structure, tmp_path / "again", seed=7)
    other = weights.write_weights(structure, tmp_path / "other", seed=8)
    data = [path.with_name("small.onnx.data").read_bytes() for path in (one, again, other)]
    assert data[0] == data[1] != data[2]

    arrays = floats(onnx.load(one))
    vectors_are_distinct_and_non_zero(arrays)
    matrices = {name: array for name, array in arrays.items() if array.ndim == 2}
    for name, array in matrices.items():
        fan_in = array.shape[1] if "wpe" in name or "lm_head" in name else array.shape[0]
        assert abs(array.std() * fan_in**0.5 - 1) < 0.1, name
    assert not list((tmp_path / "one").glob("*.partial"))


def test_seeded_weights_reject_a_complete_file(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        weights.main([str(TOP / "test" / "Models" / "gpt2-mlp.onnx"), "-o", str(tmp_path)])
    assert "no tensor refers to external data" in str(stopped.value)
    assert not list(tmp_path.iterdir())

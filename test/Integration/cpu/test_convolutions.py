"""Depthwise and causal convolutions: numbers of onnx's reference evaluator, split by channels."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

from tpc.reference import difference

HIDDEN, CHANNELS, TAPS = 8, 12, 4
TEXT = f"""<ir_version: 10, opset_import: ["" : 27]>
g (float[batch, sequence, {HIDDEN}] x, float[batch, {CHANNELS}, {TAPS - 1}] past)
  => (float[batch, sequence, {HIDDEN}] out, float[batch, {CHANNELS}, {TAPS - 1}] present) {{
  p = MatMul(x, wi)
  t = Transpose<perm = [0, 2, 1]>(p)
  [conv] c, present = CausalConvWithState<activation = "silu">(t, wc, wb, past)
  d = Conv<group = {CHANNELS}>(c, wd)
  u = Transpose<perm = [0, 2, 1]>(d)
  out = MatMul(u, wo)
}}"""


@pytest.fixture(scope="module")
def model():
    parsed = onnx.parser.parse_model(TEXT)
    random = np.random.default_rng(1)
    shapes = dict(
        wi=(HIDDEN, CHANNELS),
        wc=(CHANNELS, 1, TAPS),
        wb=(CHANNELS,),
        wd=(CHANNELS, 1, 1),
        wo=(CHANNELS, HIDDEN),
    )
    parsed.graph.initializer.extend(
        onnx.numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    )
    return parsed


def test_states(tpcc, tmp_path, model):
    """Two steps equal one; the second has fewer tokens than the kernel."""
    onnx.save(model, tmp_path / "m.onnx")
    program = tpcc.compile(tmp_path / "m.onnx", "tp2")
    random = np.random.default_rng(2)
    x = random.standard_normal((2, 7, HIDDEN)).astype(np.float32)
    state = np.zeros((2, CHANNELS, TAPS - 1), np.float32)
    wanted, last = ReferenceEvaluator(model).run(None, {"x": x, "past": state})
    rows = []
    for part in (x[:, :5], x[:, 5:]):
        found = program.run({"x": part, "past": state}, outputs=("out", "present"))
        rows.append(found["out"])
        state = found["present"]
    assert difference(np.concatenate(rows, 1), wanted).relative <= 2e-5
    assert difference(state, last).relative <= 2e-5

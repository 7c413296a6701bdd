"""Imports the tests of single ops that the onnx package carries, and compares with their expected outputs.

    backend.py [--tool tpc-translate] [--list] NAME-PATTERN...

Shapes, axes and the like are inputs there. Importing needs them known, so that all integer inputs
which are small become initializers where the import asks for it.
"""
import argparse
import fnmatch
import os
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

import interpret

# What the importer refuses on purpose, by a part of its message.
REFUSED = ["cannot import", "which tpc does not have", "does not compute", "key-value cache",
           "training_mode = 1", "a product of data", "is not a tensor",
           "that is computed from data", "pads with a constant only", "which tpc does not read", "tpc has float16"]


def cases(patterns):
    """Node tests are generated, those of PyTorch's exporter are files of the package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = load_model_tests(kind="node")
    for test in tests:
        name = test.name[len("test_"):]
        if any(fnmatch.fnmatch(name, p) for p in patterns):
            yield name, test.model, test.data_sets[0]
    for kind in ("pytorch-operator", "simple"):
        for test in load_model_tests(kind=kind):
            name = test.name[len("test_"):]
            if any(fnmatch.fnmatch(name, p) for p in patterns):
                model = onnx.load(os.path.join(test.model_dir, "model.onnx"))
                data = os.path.join(test.model_dir, "test_data_set_0")
                yield name, model, [
                    [load(f"{data}/{what}_{i}.pb", v.type) for i, v in enumerate(values)]
                    for what, values in (("input", model.graph.input), ("output", model.graph.output))]


def load(path, type):
    if type.WhichOneof("value") != "tensor_type" or not os.path.exists(path):
        return None
    with open(path, "rb") as f:
        return numpy_helper.to_array(onnx.TensorProto.FromString(f.read()))


def run(model, data, tool):
    graph = model.graph
    inputs, outputs = data
    if any(not isinstance(x, np.ndarray) or x.dtype.type not in interpret.DTYPES.values()
           for x in [*inputs, *outputs]):
        return "refused", "types that tpc does not have"
    feeds = {v.name: x for v, x in zip(graph.input, map(np.asarray, inputs))}
    for known in (False, True):
        if known:
            for name, x in feeds.items():
                if x.dtype.kind in "ib" and x.size <= 64 or x.size == 1:
                    graph.initializer.append(numpy_helper.from_array(x, name))
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            file.write(model.SerializeToString())
            file.flush()
            try:
                program = interpret.Program(file.name, tool)
                got = program.run(feeds)
            except interpret.ImportFailed as failure:
                message = str(failure)
                if "computed from data" in message or "depends on the model's inputs" in message:
                    continue
                status = "refused" if any(r in message for r in REFUSED) else "failed"
                return status, message
            break
    else:
        return "refused", message
    for v, want in zip(graph.output, outputs):
        if v.name not in got:
            return "failed", f"no output {v.name}"
        have = got[v.name]
        if have.shape != want.shape or have.dtype != want.dtype:
            return "failed", f"{v.name}: {have.dtype}{have.shape} is not {want.dtype}{want.shape}"
        tolerance = 2e-3 if want.dtype == np.float16 else 1e-5
        if not np.allclose(have, want, rtol=10 * tolerance, atol=tolerance, equal_nan=True):
            return "failed", f"{v.name}: off by {np.nanmax(np.abs(have.astype(float) - want)):.3g}"
    return "passed", ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", default="tpc-translate")
    parser.add_argument("--list", action="store_true", help="print a line for each test")
    parser.add_argument("patterns", nargs="+")
    args = parser.parse_args()
    counts = {"passed": 0, "refused": 0, "failed": 0}
    for name, model, data in cases(args.patterns):
        status, message = run(model, data, args.tool)
        counts[status] += 1
        if args.list or status == "failed":
            print(f"{status} {name} {' '.join(message.split())[:400]}")
    print(", ".join(f"{n} {status}" for status, n in counts.items()))
    sys.exit(counts["failed"] > 0 or counts["passed"] == 0)


if __name__ == "__main__":
    main()

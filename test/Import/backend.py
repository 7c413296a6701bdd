"""Imports the single-op tests of the onnx package and compares results with their expected outputs.

    backend.py [--list] GROUP: NAME-PATTERN... GROUP: NAME-PATTERN...

Prints for each group the number of tests that pass, and the number rejected with each message.
Shapes, axes and the like are inputs in these tests, but the importer needs their values. Therefore
small inputs of integers or booleans, and single numbers, become initializers where the importer
requires it.
"""

import argparse
import collections
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

BFLOAT16 = np.dtype(interpret.DTYPES["bf16"])
# A substring of each error that the importer reports by design.
REJECTED = [
    "cannot import",
    "which tpc does not have",
    "does not compute",
    "tpc selects 1 to 64",
    "takes no diagonals",
    "are not a box of",
    "training_mode = 1",
    "a product of data",
    "is not a tensor",
    "that is computed from data",
    "pads with a constant only",
    "which tpc does not read",
    "tpc has float16",
]


def cases():
    """Yields name, model and data of all tests. Node tests are generated; tests of PyTorch's
    exporter are files of the package.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for test in load_model_tests(kind="node"):
            yield test.name, test.model, test.data_sets[0]
    for kind in ("pytorch-operator", "simple"):
        for test in load_model_tests(kind=kind):
            model = onnx.load(os.path.join(test.model_dir, "model.onnx"))
            data = os.path.join(test.model_dir, "test_data_set_0")
            yield (
                test.name,
                model,
                [
                    [load(f"{data}/{what}_{i}.pb", v.type) for i, v in enumerate(values)]
                    for what, values in (
                        ("input", model.graph.input),
                        ("output", model.graph.output),
                    )
                ],
            )


def load(path, type):
    if type.WhichOneof("value") != "tensor_type" or not os.path.exists(path):
        return None
    with open(path, "rb") as f:
        return numpy_helper.to_array(onnx.TensorProto.FromString(f.read()))


def run(model, data, importer):
    """Returns "passed", "refused" (an error by design) or "failed", and the reason."""
    graph = model.graph
    inputs, outputs = (
        [np.asarray(x) if isinstance(x, np.generic) else x for x in each] for each in data
    )
    if any(
        not isinstance(x, np.ndarray) or x.dtype.type not in interpret.DTYPES.values()
        for x in [*inputs, *outputs]
    ):
        return "refused", "types that tpc does not have"
    feeds = {v.name: x for v, x in zip(graph.input, map(np.asarray, inputs))}
    for with_initializers in (False, True):
        if with_initializers:
            for name, x in feeds.items():
                if x.dtype.kind in "iub" and x.size <= 64 or x.size == 1:
                    graph.initializer.append(numpy_helper.from_array(x, name))
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            file.write(model.SerializeToString())
            file.flush()
            try:
                program = interpret.Program(file.name, importer)
                got = program.run(feeds)
            except interpret.ImportFailed as failure:
                message = str(failure)
                if "computed from data" in message or "depends on the model's inputs" in message:
                    continue
                why = next((r for r in REJECTED if r in message), None)
                return ("refused", why) if why else ("failed", message)
            break
    else:
        return "refused", "is computed from data"
    for v, want in zip(graph.output, outputs):
        if v.name not in got:
            return "failed", f"no output {v.name}"
        have = got[v.name]
        if have.shape != want.shape or have.dtype != want.dtype:
            return "failed", f"{v.name}: {have.dtype}{have.shape} is not {want.dtype}{want.shape}"
        tolerance = {np.dtype("float16"): 2e-3, BFLOAT16: 1e-2}.get(want.dtype, 1e-5)
        if want.dtype == BFLOAT16:
            have, want = have.astype(np.float32), want.astype(np.float32)
        if not np.allclose(have, want, rtol=10 * tolerance, atol=tolerance, equal_nan=True):
            return "failed", f"{v.name}: off by {np.nanmax(np.abs(have.astype(float) - want)):.3g}"
    return "passed", ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true", help="print a line for each test")
    parser.add_argument("patterns", nargs="+")
    args = parser.parse_args()
    groups = {}
    for word in args.patterns:
        if word.endswith(":"):
            patterns = groups.setdefault(word[:-1], [])
        else:
            patterns.append(f"test_{word}")
    importer = interpret.Importer()
    counts = {group: collections.Counter() for group in groups}
    for name, model, data in cases():
        chosen = [
            group
            for group, patterns in groups.items()
            if any(fnmatch.fnmatch(name, p) for p in patterns)
        ]
        if not chosen:
            continue
        status, message = run(model, data, importer)
        for group in chosen:
            counts[group][status, message if status == "refused" else ""] += 1
        if args.list or status == "failed":
            print(f"{status} {name} {' '.join(message.split())[:400]}")
    for group, count in counts.items():
        for (status, message), n in sorted(count.items()):
            print(f"{group}: {n} {status} {message}".rstrip())
        print(f"{group}: {sum(count.values())} in all")
    sys.exit(
        any(
            not count or any(status == "failed" for status, _ in count) for count in counts.values()
        )
    )


if __name__ == "__main__":
    main()

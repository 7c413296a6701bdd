"""Small ONNX files with an unrolled loop over experts, each of which has weights of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from dense_files import DenseBuilder
from expert_files import Experts


def save_looped(spec: Experts, path: Path) -> Path:
    """Forms: "masked" (all tokens, times a gate), "shared" (also a shared expert), "traced"
    (torch.onnx of transformers 4.3x to 4.5x: the tokens at the positions of a mask), "assigned"
    (the same in opset 17, with sizes of dynamic shapes), "nd" (torch's dynamo exporter: GatherND
    and ScatterND), and "uncounted" (results are not weighted: Switch Transformers without
    scaling)."""
    onnx.save(LoopBuilder(spec).model(), path)
    return path


class LoopBuilder(DenseBuilder):
    def mlp(self, layer, x):
        path, spec = f"/model/layers.{layer}/moe", self.spec
        op = self.in_folder(path)
        rows = op("Reshape", "rows", [x, self.ints(path, "flat", [-1, spec.hidden])])
        scores = op("Softmax", "p", [self.router(path, x)], axis=-1)
        found = [f"{path}/values", f"{path}/ids"]
        k = self.ints(path, "k", [spec.selected])
        self.node("TopK", f"{path}/TopK", [scores, k], outputs=found, axis=-1)
        last = self.ints(path, "last", [-1])
        weights = op("Div", "w", [found[0], op("ReduceSum", "t", [found[0], last], keepdims=1)])
        if spec.form in ("masked", "shared"):
            y = self.masked(path, rows, weights, found[1])
        else:
            y = self.traced(path, rows, weights, found[1])
        if spec.form == "shared":
            y = op("Add", "all", [y, self.shared(f"{path}/shared", rows)])
        return op("Reshape", "as_x", [y, self.node("Shape", f"{path}/Shape", [x])])

    def in_folder(self, path):
        return lambda kind, name, inputs, **attributes: self.node(
            kind, f"{path}/{name}", inputs, **attributes
        )

    def shared(self, path, rows):
        """An expert of all tokens, with a gate of its own (Qwen2-MoE)."""
        gate = self.matmul(f"{path}/gate", rows, self.spec.hidden, 1)
        gate = self.node("Sigmoid", f"{path}/gate/sigmoid", [gate])
        y = self.expert(path, rows, inner=self.spec.inner + 8)
        return self.node("Mul", f"{path}/gated", [gate, y])

    def expert(self, path, rows, inner=None):
        """One expert, with weights as torch's exporter transposes them."""
        spec, op = self.spec, self.in_folder(path)
        inner = inner or spec.inner

        def project(name, v, n, k):
            y = op("MatMul", name, [v, self.weight(f"{path}.{name}", k, n)])
            if not spec.bias:
                return y
            return op("Add", f"{name}b", [y, self.vectors(f"{path}.{name}b", n)])

        gate = project("w1", rows, inner, spec.hidden)
        gate = op("Mul", "act", [gate, op("Sigmoid", "sigmoid", [gate])])
        h = op("Mul", "h", [gate, project("w3", rows, inner, spec.hidden)])
        return project("w2", h, spec.hidden, inner)

    def masked(self, path, rows, weights, ids):
        result = None
        for e in range(self.spec.experts):
            here = f"{path}/experts.{e}"
            op = self.in_folder(here)
            mine = op("Equal", "mine", [ids, self.ints(here, "e", e)])
            zero = self.tensor(f"{here}.zero", 0.0)
            gate = op("Where", "picked", [mine, weights, zero])
            gate = op("ReduceSum", "gate", [gate, self.ints(here, "axis", [-1])], keepdims=1)
            y = op("Mul", "weighted", [self.expert(here, rows), gate])
            result = y if result is None else op("Add", "sum", [result, y])
        return result

    def traced(self, path, rows, weights, ids):
        spec, op = self.spec, self.in_folder(path)
        ints = lambda name, value: self.ints(path, name, value)
        values = ints("values", [0, 1])
        hot = op("OneHot", "hot", [ids, ints("depth", spec.experts), values], axis=-1)
        masks = op("Transpose", "masks", [hot], perm=[2, 1, 0])
        shape = op("Shape", "shape_of_rows", [rows])
        result = op("ConstantOfShape", "zeros", [shape])
        batch = op("Unsqueeze", "batch", [rows, ints("first", [0])])
        column = op("Unsqueeze", "weights", [weights, ints("third", [2])])
        one, many = ints("second", [1]), ints("rows_shape", [-1, spec.hidden])
        zero, two, swap = ints("zero", [0]), ints("two", [2]), [1, 0, 2]
        if spec.form == "assigned":
            width = op("Gather", "width", [shape, ints("column", 1)], axis=0)
            width = op("Unsqueeze", "widths", [width, zero])
            many = op("Concat", "many", [ints("all", [-1]), width], axis=0)
        if spec.form == "nd":
            batch = op("Transpose", "tokens_first", [batch], perm=swap)
        for e in range(spec.experts):
            here = f"{path}/experts.{e}"
            op = self.in_folder(here)
            mask = op("Gather", "mask", [masks, self.ints(here, "e", e)], axis=0)
            mask = op("Cast", "bool", [mask], to=onnx.TensorProto.BOOL)
            positions = op("NonZero", "nonzero", [mask])
            positions = op("Transpose", "positions", [positions], perm=[1, 0])
            parts = [f"{here}/slots", f"{here}/tokens"]
            if spec.form == "nd":
                for part, start, end in zip(parts, (zero, one), (one, two)):
                    self.node("Slice", part, [positions, start, end, one, one], outputs=[part])
            else:
                ones = ints(f"{e}.ones", [1, 1])
                self.node("Split", f"{here}/Split", [positions, ones], outputs=parts, axis=1)
            slot, token = (op("Squeeze", f"squeezed{i}", [p, one]) for i, p in enumerate(parts))
            if spec.form == "nd":
                index = op("Unsqueeze", "at", [token, one])
                mine = op("Transpose", "mine", [op("GatherND", "rows", [batch, index])], perm=swap)
                mine = op("Reshape", "flat", [mine, many])
                pair = op("Concat", "pair", [index, op("Unsqueeze", "s", [slot, one])], axis=1)
                gate = op("GatherND", "gate", [column, pair])
            else:
                mine = op("Gather", "rows", [batch, token], axis=1)
                mine = op("Reshape", "flat", [mine, many])
                flat = op("Flatten", "flatten", [column], axis=2)
                k = self.ints(here, "k", spec.selected)
                if spec.form == "assigned":
                    sizes = op("Shape", "shape_of_weights", [column])
                    k = op("Gather", "slots_of_token", [sizes, ints("dim", 1)], axis=0)
                linear = op("Mul", "scaled", [token, k])
                gate = op("Gather", "gate", [flat, op("Add", "linear", [slot, linear])], axis=0)
            y = self.expert(here, mine)
            if spec.form != "uncounted":
                y = op("Mul", "weighted", [y, gate])
            at = op("Unsqueeze", "where", [token, one])
            if spec.form == "nd":
                result = op("ScatterND", "sum", [result, at, y], reduction="add")
                continue
            if spec.form == "assigned":
                corner = [ints("corner", [0, 0]), ints("end", [1, 2**62]), ints("axes", [0, 1])]
                first = op("Shape", "row", [op("Slice", "first_row", [result, *corner])])
                y = op("Expand", "expanded", [y, first])
                at = op("Expand", "all", [at, op("Shape", "shape", [y])])
                zeros = op("ConstantOfShape", "zeros", [op("Shape", "result_shape", [result])])
                y = op("ScatterElements", "assigned", [zeros, at, y], axis=0)
                result = op("Add", "sum", [result, y])
                continue
            at = op("Expand", "all", [at, op("Shape", "shape", [y])])
            result = op("ScatterElements", "sum", [result, at, y], axis=0, reduction="add")
        return result

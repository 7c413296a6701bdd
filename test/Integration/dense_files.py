"""Small ONNX files whose mixtures of experts compute all experts for each token."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from expert_files import ExpertBuilder, Experts


def save_dense(spec: Experts, path: Path) -> Path:
    """Forms: "einsum" (tokens first), "stacked" (experts first, gpt-oss), "scaled" (Llama 4)."""
    onnx.save(DenseBuilder(spec).model(), path)
    return path


class DenseBuilder(ExpertBuilder):
    def mlp(self, layer, x):
        path = f"/model/layers.{layer}/moe"
        logits, form = self.router(path, x), self.spec.form
        op = lambda kind, name, inputs, **attributes: self.node(
            kind, f"{path}/{name}", inputs, **attributes
        )
        rows = op("Reshape", "rows", [x, self.ints(path, "flat", [-1, self.spec.hidden])])
        if form == "einsum":
            y = self.by_token(path, op, rows, logits)
        else:
            y = self.by_expert(path, op, rows, logits)
        return op("Reshape", "as_x", [y, self.node("Shape", f"{path}/Shape", [x])])

    def ints(self, path, name, value):
        return self.tensor(f"{path}.{name}", value, np.int64)

    def scatter(self, path, op, scores, values, base):
        """Returns the k values of each row at the indices of its k largest scores."""
        spec = self.spec
        found = [f"{path}/values", f"{path}/ids"]
        k = self.ints(path, "k", [spec.selected])
        self.node("TopK", f"{path}/TopK", [scores, k], outputs=found, axis=-1)
        shape = op("Shape", "shape", [scores])
        full = op("Expand", "full", [self.tensor(f"{path}.base", base), shape])
        return op("ScatterElements", "scattered", [full, found[1], values(found[0])], axis=1)

    def by_token(self, path, op, rows, logits):
        spec = self.spec
        count, hidden, inner = spec.experts, spec.hidden, spec.inner
        last = self.ints(path, "last", [-1])
        normalize = lambda v: op("Div", "gates", [v, op("ReduceSum", "t", [v, last], keepdims=1)])
        weights = self.scatter(
            path, op, op("Softmax", "p", [logits], axis=-1), normalize, 0.0
        )

        def project(name, v, n, k, equation):
            weight = self.stack(f"{path}.{name}", count, n, k)
            y = op("Einsum", name, [v, weight], equation=equation)
            if not spec.bias:
                return y
            return op("Add", f"{name}b", [y, self.vectors(f"{path}.{name}b", count, n)])

        gate = project("fc1", rows, inner, hidden, "th,eih->tei")
        gate = op("Mul", "act", [gate, op("Sigmoid", "sigmoid", [gate])])
        h = op("Mul", "h", [gate, project("fc3", rows, inner, hidden, "th,eih->tei")])
        y = project("fc2", h, hidden, inner, "tei,ehi->teh")
        column = op("Unsqueeze", "column", [weights, self.ints(path, "two", [2])])
        y = op("Mul", "weighted", [y, column])
        return op("ReduceSum", "sum", [y, self.ints(path, "one", [1])], keepdims=0)

    def by_expert(self, path, op, rows, logits):
        spec = self.spec
        count, hidden, inner = spec.experts, spec.hidden, spec.inner
        is_scaled = spec.form == "scaled"
        if is_scaled:
            weights = self.scatter(path, op, logits, lambda v: v, -np.inf)
            weights = op("Sigmoid", "scores", [weights])
        else:
            softmax = lambda v: op("Softmax", "gates", [v], axis=-1)
            weights = self.scatter(path, op, logits, softmax, 0.0)
        repeated = op("Tile", "tile", [rows, self.ints(path, "times", [count, 1])])
        weights = op("Transpose", "by_expert", [weights], perm=[1, 0])
        if is_scaled:
            column = op("Reshape", "column", [weights, self.ints(path, "c", [-1, 1])])
            repeated = op("Mul", "scaled", [repeated, column])
        x = op("Reshape", "x", [repeated, self.ints(path, "e", [count, -1, hidden])])

        def project(name, v, n, k):
            y = op("MatMul", name, [v, self.stack(f"{path}.{name}", count, k, n)])
            if not spec.bias:
                return y
            bias = self.vectors(f"{path}.{name}b", count, n)
            bias = op("Unsqueeze", f"{name}u", [bias, self.ints(path, f"{name}a", [1])])
            return op("Add", f"{name}b", [y, bias])

        both, halves = project("up", x, 2 * inner, hidden), [f"{path}/gate", f"{path}/linear"]
        self.node("Split", f"{path}/Split", [both], outputs=halves, axis=2, num_outputs=2)
        act = op("Mul", "act", [halves[0], op("Sigmoid", "sigmoid", [halves[0]])])
        y = project("down", op("Mul", "h", [halves[1], act]), hidden, inner)
        if is_scaled:
            y = op("Reshape", "all", [y, self.ints(path, "f", [-1, hidden])])
            y = op("Reshape", "each", [y, self.ints(path, "g", [count, -1, hidden])])
        else:
            column = op("Reshape", "column", [weights, self.ints(path, "w", [count, -1, 1])])
            y = op("Mul", "weighted", [y, column])
        return op("ReduceSum", "sum", [y, self.ints(path, "zero", [0])], keepdims=0)

"""Writer of ONNX graphs: w("Add", a, b) adds a node and returns the name of its output."""

from __future__ import annotations

import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Writer:
    def __init__(self, spec):
        self.spec = spec
        self.judges: list[tuple[onnx.NodeProto, onnx.ValueInfoProto]] = []
        self.nodes, self.inputs, self.outputs = [], [], []
        self.tensors: dict[str, onnx.TensorProto] = {}
        self.constants: set[str] = set()
        self.tables: dict[tuple, tuple[str, str]] = {}
        self.masks: dict[tuple[str, int], str] = {}
        self.far: dict[bool, str] = {}
        # An input with batch and sequence; the keys and the MLP's inner values of the last layer.
        self.source = self.keys = self.inner = ""
        # For chains only: the input that determines each symbol, the generators of inputs, and the
        # required accuracy of outputs (random_pairs.judge).
        self.sources: dict[str, tuple[str, int]] = {}
        self.fills: dict[str, tuple[str, list, list]] = {}
        self.judged: dict[str, str] = {}
        self.features: set[str] = set()
        self.arrangement: tuple[list, list] | None = None
        self.loose = False
        self.position_row = self.past = ""
        self.layer = 0

    def __call__(self, op: str, *inputs: str, outputs: int = 1, **attributes):
        names = [
            f"v{len(self.nodes)}" if i == 0 else f"v{len(self.nodes)}_{i}" for i in range(outputs)
        ]
        self.nodes.append(
            helper.make_node(op, list(inputs), names, f"node_{op}_{len(self.nodes)}", **attributes)
        )
        return names[0] if outputs == 1 else names

    # Inputs, outputs
    # --------------------------------------------------------------------------------------------

    def input(self, name: str, shape, integers: bool = True) -> None:
        kind = TensorProto.INT64 if integers else TensorProto.FLOAT
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))

    def free_input(self, name: str, atoms: list, kind: str, bounds=()) -> str:
        """Adds an input of a chain: dyadic or special floats, booleans, or indices below the bounds
        (one per column).
        """
        self.input(name, atoms, integers=kind in ("indices", "bits"))
        self.fills[name] = (kind, list(atoms), list(bounds))
        for i, atom in enumerate(atoms):
            if isinstance(atom, str):
                self.sources.setdefault(atom, (name, i))
        return name

    def free_output(self, name: str, value) -> None:
        """Adds an output of a chain. Dimensions whose size is not in the graph get names of their
        own.
        """
        self.nodes.append(helper.make_node("Identity", [value.name], [name], f"output_{name}"))
        shape = [
            (
                dim[0]
                if len(dim) == 1 and isinstance(dim[0], str)
                else n if n is not None else f"{name}_{i}"
            )
            for i, (dim, n) in enumerate(zip(value.dims, value.sizes))
        ]
        self.outputs.append(helper.make_tensor_value_info(name, self.type_of(value.type), shape))
        self.judged[name] = (
            "loose"
            if value.loose
            else "close" if not value.exact else "sum" if value.summed else "exact"
        )

    def output(self, name: str, value: str, shape, integers: bool = False) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name], f"output_{name}"))
        kind = TensorProto.INT64 if integers else TensorProto.FLOAT
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def reference_only(self, name: str, value: str, shape) -> None:
        """Adds an output that only model(reference=True) has."""
        self.output(name, value, shape)
        self.judges.append((self.nodes.pop(), self.outputs.pop()))

    # Weights: a tensor's values depend on its name and the seed alone
    # ---------------------------------------------

    def tensor(self, name: str, array: np.ndarray, node: bool | None = None) -> str:
        """Adds an initializer or, if the spec or the caller requests it, a Constant node."""
        if name not in self.tensors and name not in self.constants:
            tensor = numpy_helper.from_array(np.array(array, order="C"), name)
            if node is None:
                node = self.spec.store == "node" or (
                    self.spec.store == "mixed" and zlib.crc32(name.encode()) % 2 == 1
                )
            if node:
                self.constants.add(name)
                self.nodes.append(
                    helper.make_node("Constant", [], [name], f"constant_{name}", value=tensor)
                )
            else:
                self.tensors[name] = tensor
        return name

    def draw(self, name: str, shape) -> np.ndarray:
        return np.random.default_rng([self.spec.seed, zlib.crc32(name.encode())]).standard_normal(
            shape, dtype=np.float32
        )

    def matrix(
        self,
        name: str,
        inputs: int,
        outputs: int,
        transposed: bool = False,
        fan_in: int | None = None,
    ) -> str:
        """Adds a weight that is scaled so that a matmul preserves the magnitude of its operand."""
        array = self.draw(name, (inputs, outputs)) / np.float32((fan_in or inputs) ** 0.5)
        if self.spec.depth == 0:  # exact, for the chains
            array = np.clip(np.round(array * 4), -8, 8) / np.float32(4) + np.float32(
                0
            )  # no -0: 0 + -0 is 0
        return self.tensor(name, array.T if transposed else array)

    def vector(self, name: str, size: int, mean: float = 0.0) -> str:
        return self.tensor(name, np.float32(mean) + np.float32(0.2) * self.draw(name, (size,)))

    def zeros(self, name: str, size: int) -> str:
        return self.tensor(name, np.zeros(size, np.float32))

    def number(self, value: float) -> str:
        return self.tensor(f"number_{value!r}", np.array(value, np.float32))

    def scalar(self, value: int) -> str:
        return self.tensor(f"scalar_{value}", np.array(value, np.int64))

    def ints(self, values: list[int]) -> str:
        return self.tensor("ints_" + "_".join(map(str, values)), np.array(values, np.int64))

    @staticmethod
    def type_of(name: str) -> int:
        return {
            "float32": TensorProto.FLOAT,
            "float16": TensorProto.FLOAT16,
            "float64": TensorProto.DOUBLE,
            "bfloat16": TensorProto.BFLOAT16,
            "int64": TensorProto.INT64,
            "int32": TensorProto.INT32,
            "int8": TensorProto.INT8,
            "bool": TensorProto.BOOL,
        }[name]

    # Shapes
    # --------------------------------------------------------------------------------------------

    def size(self, value: str, dim: int) -> str:
        """Returns the size of a dimension as a vector of one element."""
        shape = self("Shape", value)
        return self("Unsqueeze", self("Gather", shape, self.scalar(dim), axis=0), self.ints([0]))

    def reshape(self, x: str, shape: list[int]) -> str:
        """Reshapes a value. 0 copies a dimension, and -1 is inferred."""
        if self.spec.sizes == "static" or 0 not in shape:
            return self("Reshape", x, self.ints(shape))
        parts = [self.size(x, i) if n == 0 else self.ints([n]) for i, n in enumerate(shape)]
        return self("Reshape", x, self("Concat", *parts, axis=0))

    def dim_vector(self, dim: tuple) -> str:
        """Returns the size of a chain's dimension as a vector of one element."""
        symbols = [atom for atom in dim if isinstance(atom, str)]
        number = int(np.prod([atom for atom in dim if not isinstance(atom, str)], dtype=np.int64))
        factors = [self.size(*self.sources[symbol]) for symbol in symbols]
        if number != 1 or not factors:
            factors.append(self.ints([number]))
        product = factors[0]
        for factor in factors[1:]:
            product = self("Mul", product, factor)
        return product

    def reshape_to(self, x: str, old, new) -> str:
        """Reshapes a chain's value to other dimensions: by constants with 0 and one -1 if these
        suffice, otherwise by computed sizes.
        """
        old, new = list(old), list(new)
        if old == new:
            return x
        shape = []
        for i, dim in enumerate(new):
            symbolic = any(isinstance(atom, str) for atom in dim)
            same = symbolic and i < len(old) and old[i] == dim
            shape.append(0 if same else -1 if symbolic else int(np.prod(dim, dtype=np.int64)))
        if shape.count(-1) > 1 or (self.spec.sizes == "computed" and {0, -1} & set(shape)):
            return self(
                "Reshape", x, self("Concat", *[self.dim_vector(dim) for dim in new], axis=0)
            )
        return self("Reshape", x, self.ints(shape))

    def reshape_like_rows(self, rows: str, like: str, columns: int) -> str:
        """[b*s, columns] -> [b, s, columns] with the sizes of `like`."""
        sizes = self("Concat", self.size(like, 0), self.size(like, 1), self.ints([columns]), axis=0)
        return self("Reshape", rows, sizes)

    def split(self, x: str, sizes: list[int], axis: int) -> list[str]:
        return self("Split", x, self.ints(sizes), outputs=len(sizes), axis=axis)

    def slice(self, x: str, begin: int, end: int, axis: int, step: int = 1) -> str:
        steps = [self.ints([step])] if step != 1 else []
        return self("Slice", x, self.ints([begin]), self.ints([end]), self.ints([axis]), *steps)

    def repeat_heads(self, x: str, kv: int, group: int, size: int) -> str:
        """[b, kv, s, d] -> [b, kv * group, s, d], like Hugging Face's repeat_kv."""
        x = self("Unsqueeze", x, self.ints([2]))
        sizes = [self.size(x, 0), self.ints([kv, group]), self.size(x, 3), self.ints([size])]
        return self.reshape(
            self("Expand", x, self("Concat", *sizes, axis=0)), [0, kv * group, -1, size]
        )

    # Positions and masks, created once
    # ---------------------------------------------------------------------------------

    def range(self, begin: str, end: str) -> str:
        return self("Unsqueeze", self("Range", begin, end, self.scalar(1)), self.ints([0]))

    def ends(self) -> tuple[str, str]:
        """Returns the first position of the new tokens, and the position after the last."""
        count = self("Gather", self("Shape", self.source), self.scalar(1), axis=0)
        if not self.past:
            return self.scalar(0), count
        begin = self("Gather", self("Shape", self.past), self.scalar(2), axis=0)
        return begin, self("Add", begin, count)

    def positions(self) -> str:
        """Returns the positions of the new tokens, [1, s]."""
        if not self.position_row:
            self.position_row = self.range(*self.ends())
        return self.position_row

    def with_past(self, x: str, part: str, kv: int, size: int) -> str:
        """Appends [b, kv, s, size] to the cache of earlier tokens; the result is an output."""
        whole = self("Concat", f"past.{self.layer}.{part}", x, axis=2)
        self.output(
            f"present.{self.layer}.{part}", whole, ["batch", kv, f"{part}s_of_{self.layer}", size]
        )
        return whole

    def rotary_tables(self, size: int, interleaved: bool) -> tuple[str, str]:
        """Returns cos and sin, [1 or b, 1, s, size] or, if interleaved, [.., size / 2]."""
        key = (size, interleaved)
        if key not in self.tables:
            frequencies = (10000.0 ** (-np.arange(0, size, 2) / size)).astype(np.float32)
            row = "position_ids" if self.spec.positions == "given" else self.positions()
            column = self("Unsqueeze", self("Cast", row, to=TensorProto.FLOAT), self.ints([-1]))
            angles = self(
                "Mul", column, self.tensor(f"frequencies_{size}", frequencies[None, None])
            )
            if not interleaved:
                angles = self("Concat", angles, angles, axis=-1)
            self.tables[key] = tuple(
                self("Unsqueeze", self(f, angles), self.ints([1])) for f in ("Cos", "Sin")
            )
        return self.tables[key]

    def key_positions(self) -> str:
        """Returns the positions of all keys, [1, past + s]."""
        return self.range(self.scalar(0), self.ends()[1]) if self.past else self.positions()

    def distances(self, of_keys_alone: bool) -> str:
        """Returns positions of keys [1, keys], or their distances from queries [s, keys], as
        floats.
        """
        if of_keys_alone not in self.far:
            keys = self.key_positions()
            far = (
                keys
                if of_keys_alone
                else self("Sub", keys, self("Transpose", self.positions(), perm=[1, 0]))
            )
            self.far[of_keys_alone] = self("Cast", far, to=TensorProto.FLOAT)
        return self.far[of_keys_alone]

    def full_mask(self, spec, window: int = 0) -> str:
        """Returns the mask with a row for each query, as Attention requires."""
        keys = self("Unsqueeze", self.ends()[1], self.ints([0]))
        sizes = [self.size(self.source, 0), self.ints([1]), self.size(self.source, 1), keys]
        return self("Expand", self.mask(spec, window), self("Concat", *sizes, axis=0))

    def mask(self, spec, window: int = 0) -> str:
        """Returns the visible keys of each query as booleans [1 or b, 1, s or 1, s]. A causal mask
        may have a window; 0 is none.
        """
        key = (spec.mask, window)
        if key not in self.masks:
            parts = []
            if "causal" in spec.mask:
                keys = self("Unsqueeze", self.key_positions(), self.ints([1]))
                queries = self("Unsqueeze", self.positions(), self.ints([2]))
                seen = self("LessOrEqual", keys, queries)
                if window:
                    seen = self(
                        "And",
                        seen,
                        self("Greater", keys, self("Sub", queries, self.ints([window]))),
                    )
                parts.append(self("Unsqueeze", seen, self.ints([1])))
            if "padded" in spec.mask:
                some = self("Cast", "attention_mask", to=TensorProto.BOOL)
                parts.append(self("Unsqueeze", some, self.ints([1, 2])))
            self.masks[key] = self("And", *parts) if len(parts) == 2 else parts[0]
        return self.masks[key]

    def model(self, reference: bool = False) -> onnx.ModelProto:
        if not self.arrangement:
            self.arrangement = self.arranged()
        nodes, outputs = self.arrangement
        for node, value in self.judges if reference else ():
            nodes, outputs = [*nodes, node], [*outputs, value]
        graph = helper.make_graph(
            nodes, "random", self.inputs, outputs, list(self.tensors.values())
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.spec.opset)], ir_version=10
        )

    def arranged(self) -> tuple[list[onnx.NodeProto], list[onnx.ValueInfoProto]]:
        """Returns nodes and outputs as the spec requests: in another order, without Identity
        nodes, or with the same value twice.
        """
        nodes, outputs, how = list(self.nodes), list(self.outputs), self.spec.outputs
        if how == "twice" and outputs:
            again = onnx.ValueInfoProto()
            again.CopyFrom(outputs[0])
            again.name = f"again_{outputs[0].name}"
            source = next(node for node in nodes if outputs[0].name in node.output)
            nodes.append(
                helper.make_node("Identity", list(source.input), [again.name], "output_again")
            )
            outputs.append(again)
            self.judged[again.name] = self.judged.get(outputs[0].name, "")
        if how == "shuffled":
            outputs = [
                outputs[i] for i in np.random.default_rng(self.spec.seed).permutation(len(outputs))
            ]
        if how == "direct" and not self.judges:
            made = {
                name
                for node in nodes
                if node.op_type not in ("Identity", "Constant")
                for name in node.output
            }
            names: dict[str, str] = {}
            for node in nodes:
                if node.name.startswith("output_") and node.input[0] in made:
                    names.setdefault(node.input[0], node.output[0])
            nodes = [
                node
                for node in nodes
                if not (
                    node.name.startswith("output_") and names.get(node.input[0]) == node.output[0]
                )
            ]
            for node in nodes:
                if names.keys() & {*node.input, *node.output}:
                    node.input[:] = [names.get(name, name) for name in node.input]
                    node.output[:] = [names.get(name, name) for name in node.output]
        return nodes, outputs

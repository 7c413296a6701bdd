"""Forms of files that exporters write for generation: logits of the last token alone, ids in their
place, caches of 16 bits, wrong names of sizes, ONNX's attention op. Each generates the tokens that
ONNX Runtime chooses step by step, from whole sequences with empty caches.
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from generation import generate, margins_of
from harness import Grid
from tpc.reference import Session, difference
from written import Gpt
from written_variants import F32, FAR, I64, WithPast, variant

F16 = TensorProto.FLOAT16


def last_slice(self, value):
    return self.op("Slice", value, self.integers(-1), self.integers(FAR), self.integers(1))


def last_row(self, value):
    """Returns [batch, hidden], without a dimension of tokens."""
    return self.op("Gather", value, self.constant(np.int64(-1)), axis=1)


def last_of_list(self, value):
    """nanoGPT's x[:, [-1], :]."""
    return self.op("Gather", value, self.integers(-1), axis=1)


def last_before_norm(self, value):
    return self.norm(last_slice(self, value))


def kept_logits(self, value):
    count = self.input("num_logits_to_keep", [], I64)
    start = self.op("Reshape", self.op("Neg", count), self.integers(-1))
    return self.op("Slice", value, start, self.integers(FAR), self.integers(1))


def give_ids(self, value):
    logits = self.op("MatMul", value, self.weight(self.hidden, self.VOCABULARY, scale=1))
    last = self.op("Gather", logits, self.constant(np.int64(-1)), axis=1)
    self.output(self.op("ArgMax", last, axis=-1, keepdims=1), "next", I64)


def give_all_ids(self, value):
    logits = self.op("MatMul", value, self.weight(self.hidden, self.VOCABULARY, scale=1))
    self.output(self.op("ArgMax", logits, axis=-1, keepdims=0), "logits", I64)


class HalfCaches(WithPast):
    """optimum's float16: caches of 16 bits, attention in 32."""

    CACHE = F16

    def join(self, past, new):
        return super().join(past, self.op("Cast", new, to=F16))

    def read(self, joined):
        return self.op("Cast", joined, to=F32)


class WideCaches(WithPast):
    """onnxconverter-common's keep_io_types: caches of 32 bits, joined in 16."""

    def join(self, past, new):
        past, new = (self.op("Cast", each, to=F16) for each in (past, new))
        return super().join(past, new)

    def present(self, keys, values):
        return tuple(self.op("Cast", each, to=F32) for each in (keys, values))

    def read(self, joined):
        return self.op("Cast", joined, to=F32)


class RoundedCaches(WithPast):
    """Caches of 16 bits that are joined in 32."""

    CACHE = F16

    def join(self, past, new):
        return super().join(self.op("Cast", past, to=F32), new)

    def present(self, keys, values):
        return tuple(self.op("Cast", each, to=F16) for each in (keys, values))


class OpAttention(WithPast):
    """torch's exporter at operator set 23: keys repeated for groups of heads, then the op, with a
    mask of booleans.
    """

    OPSET, HEADS, KV = 23, 4, 2

    def keys_and_values(self, keys, values):
        return tuple(
            self.op("Slice", each, self.integers(0), self.integers(self.KV), self.integers(1))
            for each in (keys, values)
        )

    def pasts(self):
        shape = [self.BATCH, self.KV, "past", self.SIZE]
        return [
            (self.input(f"past_k{layer}", shape), self.input(f"past_v{layer}", shape))
            for layer in range(self.LAYERS)
        ]

    def repeat(self, value):
        sizes = self.op("Shape", value)
        part = lambda begin: self.op(
            "Slice", sizes, self.integers(begin), self.integers(begin + 1), self.integers(0)
        )
        groups, size = self.integers(self.HEADS // self.KV), self.integers(self.SIZE)
        wide = self.op("Concat", part(0), part(1), groups, part(2), size, axis=0)
        flat = self.op("Concat", part(0), self.integers(self.HEADS), part(2), size, axis=0)
        repeated = self.op("Expand", self.op("Unsqueeze", value, self.integers(2)), wide)
        return self.op("Reshape", repeated, flat)

    def mix(self, queries, keys, values):
        mask = self.op("Unsqueeze", self.sees(), self.integers(0, 1))
        return self.op(
            "Attention", queries, self.repeat(keys), self.repeat(values), mask, name="attention"
        )


class Masked(WithPast):
    """A mask that is gathered by indices, as optimum 2 writes it; its size has a wrong name."""

    MASK, KIND = "past + 1", I64

    def sees(self):
        if self.layer == 0:
            self.input("attention_mask", [self.BATCH, self.MASK], self.KIND)
        real = self.op("Gather", "attention_mask", self.count(self.zero, self.end), axis=1)
        real = self.op("Cast", self.op("Unsqueeze", real, self.integers(1, 2)), to=TensorProto.BOOL)
        return self.op("And", Gpt.sees(self), real)


class OwnNames(WithPast):
    """Each size of each input has its own name, as in torch's exporter without names."""

    def write(self, path):
        model = onnx.load(super().write(path))
        for value in [*model.graph.input, *model.graph.output]:
            for i, dim in enumerate(value.type.tensor_type.shape.dim):
                if dim.dim_param:
                    dim.dim_param = f"{value.name}_dim_{i}"
        onnx.save(model, path)
        return path


FORMS = {
    "last": variant(last=last_slice),
    "last-past": variant(WithPast, last=last_slice),
    "last-row": variant(WithPast, last=last_row),
    "last-of-list": variant(last=last_of_list),
    "last-before-norm": variant(last=last_before_norm),
    "kept-logits": variant(WithPast, last=kept_logits),
    "ids": variant(WithPast, head=give_ids),
    "all-ids": variant(head=give_all_ids),
    "half-caches": HalfCaches,
    "wide-caches": WideCaches,
    "rounded-caches": RoundedCaches,
    "op-attention": OpAttention,
    "mask-plus-1": Masked,
    "mask-total": variant(Masked, MASK="total"),
    "mask-sequence": variant(Masked, MASK="sequence"),
    "mask-float": variant(Masked, MASK="past + sequence", KIND=F32),
    "own-names": OwnNames,
}


def next_logits(reference, ids):
    """Returns the logits of the last token, or the id in their place."""
    given = {}
    for name, shape in reference.inputs.items():
        kind = reference.types[name]
        if name == "input_ids":
            given[name] = ids[None]
        elif name == "attention_mask":
            given[name] = np.ones((1, len(ids)), kind)
        elif name == "num_logits_to_keep":
            given[name] = np.array(1, kind)
        else:
            sizes = [1 if i == 0 else size for i, size in enumerate(shape)]
            sizes = [size if isinstance(size, int) else 0 for size in sizes]
            given[name] = np.zeros(sizes, kind)
    found = next(iter(reference.run(given).values()))
    return found.reshape(-1, found.shape[-1])[-1]


@pytest.mark.parametrize("grid", ["tp2", pytest.param("tp2,pp2", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", FORMS)
def test_tokens(tpcc, tmp_path, name, grid):
    written = FORMS[name]()
    path = written.write(tmp_path / "model.onnx")
    reference, program = Session(path), tpcc.compile(path, grid, "--generate")
    tolerance = 2e-3 if "caches" in name else 2e-5
    for prompt in ([3], [36, 1, 2, 7, 30, 5, 9]):
        ids = np.array(prompt)
        generated = generate(program, prompt, 8, "--prefill-chunk", "5", logits=True)
        assert len(generated.tokens) == 8
        for token, logits in zip(generated.tokens, generated.logits):
            wanted = next_logits(reference, ids)
            if wanted.dtype.kind == "f":
                assert difference(logits, wanted).relative <= tolerance
                assert logits[token] >= wanted.max() - 2 * tolerance * abs(wanted).max()
            elif margins_of(logits) > 1e-3:
                assert token == wanted[-1]
            ids = np.append(ids, token)


def test_fixed_sizes(tpcc, tmp_path):
    """A file with fixed sizes, as for devices that support no others: one token after a past of 31.
    """

    class Fixed(WithPast):
        def write(self, path):
            model = onnx.load(super().write(path))
            sizes = {"batch": 1, "sequence": 1, "past": 31}
            for value in [*model.graph.input, *model.graph.output]:
                for dim in value.type.tensor_type.shape.dim:
                    if dim.dim_param:
                        dim.dim_value = sizes.get(dim.dim_param, 32)
            del model.graph.value_info[:]
            onnx.save(model, path)
            return path

    path = Fixed().write(tmp_path / "model.onnx")
    tpcc.call([path, "--generate", "-o", tmp_path / "program"]).refused(
        "31 past tokens", "exported with fixed sizes", "dynamic axes"
    )


def test_inputs_that_become_constants(tpcc, tmp_path):
    path = variant(WithPast, last=kept_logits)().write(tmp_path / "model.onnx")
    tpcc.call([path, "-o", tmp_path / "program"]).refused(
        "starts", "--fix-input=num_logits_to_keep=VALUE"
    )
    reference = Session(path)
    ids = np.array([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])
    caches = {
        name: np.zeros((2, Gpt.HEADS, 0, Gpt.SIZE), np.float32)
        for name in reference.inputs
        if "past" in name
    }
    for count in (0, 1, 3):
        program = tpcc.compile(path, "tp2", f"--fix-input=num_logits_to_keep={count}")
        wanted = reference.run({"input_ids": ids, "num_logits_to_keep": np.array(count), **caches})[
            "logits"
        ]
        found = program.run({"input_ids": ids, **caches})["logits"]
        assert difference(found, wanted).relative <= 2e-5
    for flag, words in (
        ("nothing=1", ["no input 'nothing'"]),
        ("input_ids=1", ["'input_ids'", "fixed shape"]),
        ("num_logits_to_keep", ["NAME=VALUE"]),
        ("num_logits_to_keep=all", ["NAME=VALUE"]),
    ):
        tpcc.call([path, f"--fix-input={flag}", "-o", tmp_path / "program"]).refused(*words)


def merge(path, other, without_past=()):
    """Writes optimum's merged decoder: an If on whether there is a cache. The branch without a past
    has the further nodes `without_past`.
    """
    model = onnx.load(path)
    graph = model.graph
    results = [helper.make_value_info(output.name, output.type) for output in graph.output]
    bodies = [
        helper.make_graph([*graph.node, *more], "branch", [], results)
        for more in ((), without_past)
    ]
    branch = helper.make_node(
        "If",
        ["use_cache_branch"],
        [f"{o.name}_merged" for o in graph.output],
        name="optimum::if",
        then_branch=bodies[0],
        else_branch=bodies[1],
    )
    outputs = [
        helper.make_tensor_value_info(name, port.type.tensor_type.elem_type, None)
        for name, port in zip(branch.output, graph.output)
    ]
    use_cache = helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1])
    inputs = [*graph.input, use_cache]
    if without_past:
        inputs.append(helper.make_tensor_value_info("encoder_hidden_states", F32, ["b", 4]))
    merged = helper.make_model(
        helper.make_graph([branch], "merged", inputs, outputs, list(graph.initializer)),
        opset_imports=model.opset_import,
        ir_version=10,
    )
    onnx.save(merged, other)
    return other


def test_merged_decoder(tpcc, tmp_path):
    """The branch with a past also computes prompts, unless it does not read all inputs."""
    alone = WithPast().write(tmp_path / "with_past.onnx")
    path = merge(alone, tmp_path / "merged.onnx")
    program, wanted = tpcc.compile(path, "tp2"), tpcc.compile(alone, "tp2")
    assert "'use_cache_branch' is 1" in program.compiled.stderr
    assert "--fix-input=use_cache_branch=0" in program.compiled.stderr
    ports = [port["name"] for port in program.describe()["inputs"]]
    assert "use_cache_branch" not in ports
    ids = np.array([[1, 2, 3]])
    sizes = {port["name"]: port for port in program.describe()["inputs"]}
    empty = np.zeros((1, Gpt.HEADS, 0, Gpt.SIZE), np.float32)
    past = {name: empty for name in ports if name.startswith("past")}
    found = program.run({"input_ids": ids, **past}, ["logits_merged"])["logits_merged"]
    np.testing.assert_array_equal(found, wanted.run({"input_ids": ids, **past})["logits"])
    wanted = generate(tpcc.compile(alone, "tp2", "--generate"), [1, 2], 6).tokens
    assert generate(tpcc.compile(path, "tp2", "--generate"), [1, 2], 6).tokens == wanted
    use = helper.make_node("Identity", ["encoder_hidden_states"], ["unused"])
    path = merge(alone, tmp_path / "encoder.onnx", [use])
    tpcc.call([path, "-o", tmp_path / "program"]).refused(
        "'optimum::if'", "--fix-input=use_cache_branch=VALUE"
    )

"""Random pair of a graph and a grid: drawn, compiled, run, and compared with ONNX Runtime.

random_run.py runs many of them, or one by its seed or by the text that a failure printed.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import random
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

sys.path[:0] = [
    str(Path(__file__).resolve().parents[3] / "python"),
    str(Path(__file__).resolve().parents[1]),
]

from graph_writer import Writer  # noqa: E402
from harness import Grid, Result, run, tool  # noqa: E402
from random_graphs import Spec, build, draw, draw_shapes  # noqa: E402
from random_inputs import make_inputs  # noqa: E402
from tpc.reference import TOLERANCE, Session, difference  # noqa: E402

# Absolute error that is always allowed. Intermediate values are near 1, and a result that is near
# zero by chance is no more accurate than its operands.
NOISE = 2e-6
# Tolerance if intermediate results are 16-bit, relative to the largest value, or to
# 1 if that is larger: a sum in another order may be rounded differently.
LOOSE = 1e-2
# Number of runs on perturbed numbers, which show how much a graph amplifies rounding.
DISTURBED = 4


@dataclass(frozen=True)
class Pair:
    spec: Spec
    grid: Grid
    shapes: tuple[tuple[int, int], ...] = ((2, 3),)
    level: int = (
        0  # optimization level; 0 takes half the time, and few bugs depend on LLVM's optimizations
    )

    def __str__(self) -> str:
        fields = {
            "grid": str(self.grid),
            "shapes": self.shapes,
            "level": self.level,
            **self.spec.json(),
        }
        return json.dumps(fields, separators=(",", ":"))

    @staticmethod
    def parse(text: str) -> Pair:
        fields = json.loads(text)
        grid, shapes = Grid.parse(fields.pop("grid")), fields.pop("shapes")
        level = fields.pop("level", 0)
        return Pair(Spec.parse(fields), grid, tuple(tuple(shape) for shape in shapes), level)

    @property
    def command(self) -> str:
        return f"python test/Integration/cpu/random_run.py '{self}'"


def draw_grid(r: random.Random, spec: Spec) -> Grid:
    """Draws a grid for a graph. Half of the grids have tensor parallelism in two dimensions. Half
    have replicas, and half micro-batches, unless a chain needs the whole batch.
    """
    limit = 32 if r.random() < 0.02 else 16
    two = r.random() < 0.5
    while True:
        x, y = r.choice(
            ((1, 2), (2, 1), (2, 2), (2, 2), (2, 2), (2, 3), (3, 2), (2, 4), (4, 1), (1, 4), (3, 3))
        )
        tp = x * y if two else r.choice((1, 2, 2, 2, 2, 3, 3, 4, 4, 5, 8))
        pp = (
            r.choice((1, 1, 2, 2, 3, 4))
            if spec.depth > 1
            else 1 if spec.depth == 0 else r.choice((1,) * 12 + (2,))
        )
        reshard = r.random() < (0.8 if spec.chains else 0.1)
        # With replicas or micro-batches, no rank has the whole batch.
        one = any(chain.whole for chain in spec.chains) and r.random() < 0.9
        dp, mb = (1, 1) if one else (r.choice((1, 1, 1, 2, 2, 3)), r.choice((1, 1, 1, 2, 2, 4)))
        grid = Grid(
            tp,
            pp,
            dp,
            tp > 1 and not two and r.random() < 0.4,
            mb,
            r.choice(("",) * 4 + ("dp-tp-pp", "pp-dp-tp", "tp-dp-pp")),
            reshard,
            xy=(x, y) if two else None,
        )
        # Grids with more stages than layers, or more shards than any weight has, are rare.
        if grid.ranks <= limit and (
            (grid.pp <= spec.depth and grid.tp <= widest(spec)) or r.random() < 0.05
        ):
            return grid


def draw_pair(seed: int) -> Pair:
    r = random.Random(seed ^ 0x5EED)
    spec = draw(seed)
    grid = draw_grid(r, spec)
    return Pair(spec, grid, tuple(draw_shapes(r)), r.choice((0, 0, 0, 0, 0, 0, 3)))


def widest(spec: Spec) -> int:
    """Returns the maximum number of shards of any weight. Dimensions that norms need whole do not
    count."""
    sizes = [1]
    for layer in spec.used:
        if layer.attention != "none":
            sizes += [layer.kv, layer.heads // layer.kv]
        if layer.mlp != "none":
            sizes.append(layer.ffn)
    if spec.ids or spec.head != "none":
        sizes.append(spec.vocab)
    sizes += [chain.width for chain in spec.chains if chain.product]
    return max(sizes)


def may_refuse(pair: Pair) -> list[str]:
    """Returns substrings of the only messages with which tpcc may reject the pair."""
    spec, grid, words = pair.spec, pair.grid, []
    if grid.xy:
        # The first of the two tensor-parallel axes (tpXxY) splits the residual's width.
        if spec.hidden == 1:
            words.append("no matrix of the model can be split in two dimensions")
        if grid.xy[0] > spec.hidden:
            words.append("the first dimension has more ranks than a matrix has rows")
        # Steps on the hidden states without a matmul before them may need the whole width.
        if any(chain.base == "stream" and not chain.product for chain in spec.chains):
            words.append("no matrix of the model can be split in two dimensions")
    if (grid.xy[1] if grid.xy else grid.tp) > widest(spec):
        words += [
            "is larger than anything that can be split",
            "no weight of the model can be split",
        ]
    if (
        spec.depth == 0
        or spec.store != "initializer"
        or any(chain.store == "node" for chain in spec.chains)
    ):
        # Small constants are not weights, and chains may need a whole dimension that is split
        # elsewhere.
        words += [
            "is larger than anything that can be split",
            "no weight of the model can be split",
            "no matrix of the model can be split in two dimensions",
            "the first dimension has more ranks than a matrix has rows",
        ]
    if spec.hidden == 1 or any(
        layer.mlp != "none" and layer.ffn < spec.hidden for layer in spec.used
    ):
        # An MLP that is narrower inside than outside, or weights with one row: the partial sums are
        # larger than the savings of a rank.
        words.append("in parts would send")
    if grid.dp * grid.mb > 1 and any(
        chain.whole or chain.base in ("static", "plain") for chain in spec.chains
    ):
        words += [
            "needs all of it",
            "shifts along it",
            "shifts across micro-batches",
            "combines micro-batches",
            "combines samples",
        ]
    if spec.chains:
        # Matmuls of all tokens with all tokens, at the maximum sizes.
        words.append("combinations of its indices")
    if grid.pp > spec.depth:
        words.append("the model can be cut into at most")
    return words


@dataclass
class Outcome:
    """Result of a pair. kind: ok, refused (correctly), unjudged (ONNX Runtime does not support an
    op), or a kind of failure: wrong, run, unexpected (an error of tpcc), crash.
    """

    kind: str
    text: str = ""
    features: frozenset[str] = frozenset()

    @property
    def failed(self) -> bool:
        return self.kind not in ("ok", "refused", "unjudged")


def features_of(pair: Pair, w: Writer) -> set[str]:
    grid, spec = pair.grid, pair.spec
    found = set(w.features)
    found |= {f"base {chain.base}" for chain in spec.chains} | {
        f"end {chain.end}" for chain in spec.chains
    }
    found |= {f"attention {layer.attention}" for layer in spec.used} | {
        f"core {layer.core}" for layer in spec.used
    }
    found |= {
        f"store {spec.store}",
        f"outputs {spec.outputs}",
        f"layers {spec.depth}",
        f"chains {len(spec.chains)}",
    }
    found |= {f"judged {how}" for how in w.judged.values() if how} | {f"opt level {pair.level}"}
    found |= {f"mask {spec.mask}"} if spec.depth else set()
    found |= {"window" for layer in spec.used if layer.window and "causal" in spec.mask}
    found |= {f"slopes {layer.slopes}" for layer in spec.used if layer.slopes != "none"}
    found.add(f"grid tp{'XxY' if grid.xy else 'N' if grid.tp > 1 else '1'}")
    found |= {
        f"grid {name}"
        for name, used in (
            ("pp", grid.pp > 1),
            ("dp", grid.dp > 1),
            ("mb", grid.mb > 1),
            ("sp", grid.sp),
            ("dp,mb", grid.dp > 1 and grid.mb > 1),
            ("pp,mb", grid.pp > 1 and grid.mb > 1),
            ("XxY,mb", grid.xy and grid.mb > 1),
            ("allow-reshard", grid.allow_reshard),
        )
        if used
    }
    found.add(
        "groups fewer than ranks"
        if any(
            layer.attention != "none" and layer.kv < grid.tp and layer.kv < layer.heads
            for layer in spec.used
        )
        else ""
    )
    return found - {""}


def check(pair: Pair, directory: Path) -> Outcome:
    """Compiles the pair, runs it, and compares."""
    w = build(pair.spec)
    features = features_of(pair, w)

    def outcome(kind: str, text: str = "") -> Outcome:
        return Outcome(kind, text, frozenset(features))

    model = w.model()
    path = directory / "graph.onnx"
    path.write_bytes(model.SerializeToString())
    inputs = [make_inputs(w, *shape) for shape in pair.shapes]
    try:
        reference = Session(w.model(reference=True).SerializeToString(), optimize=False)
        expected = [reference.run(given) for given in inputs]
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
        return outcome("unjudged", str(error))
    compiled = compile_graph(pair, path)
    if (
        "allow-reshard" in compiled.stderr
        and compiled.returncode == 1
        and not pair.grid.allow_reshard
    ):
        # No tactic expects one of the collectives. If the grid allows it, the program must work.
        features.add("asked for allow-reshard")
        pair = dataclasses.replace(pair, grid=dataclasses.replace(pair.grid, allow_reshard=True))
        compiled = compile_graph(pair, path)
    if compiled.timed_out or compiled.returncode:
        signs = (
            "PLEASE submit",
            "Sanitizer",
            "runtime error:",
            "terminate called",
            "Stack dump",
            "assert",
        )
        crashed = (
            compiled.timed_out
            or compiled.returncode != 1
            or any(sign in compiled.stderr for sign in signs)
        )
        if not crashed and any(word in compiled.stderr for word in may_refuse(pair)):
            return outcome("refused", compiled.stderr)
        return outcome("crash" if crashed else "unexpected", str(compiled))
    names = [value.name for value in model.graph.output]
    try:
        results = run_graph(path.with_suffix(""), inputs, names)
    except AssertionError as error:
        return outcome("run", str(error))
    for shape, given, wanted, actual in zip(pair.shapes, inputs, expected, results):
        noise = Noise(w, given, wanted)
        for name in names:
            wrong = compare(actual[name], wanted[name], judge(w, name), wanted.get("logits"))
            if wrong and not (
                judge(w, name) in ("", "close") and noise.explains(name, actual[name])
            ):
                return outcome(
                    "wrong",
                    f"{name} ({judge(w, name)}) at batch {shape[0]}, sequence {shape[1]}: {wrong}",
                )
    return outcome("ok")


def compile_graph(pair: Pair, path: Path) -> Result:
    return run(
        [
            tool("tpcc"),
            path,
            f"--megatron-shard={pair.grid}",
            f"-O{pair.level}",
            "-o",
            path.with_suffix(""),
        ]
    )


def run_graph(
    executable: Path, many: list[dict[str, np.ndarray]], names: list[str]
) -> list[dict[str, np.ndarray]]:
    """Runs all shapes in one process."""
    directory = executable.parent
    flags = [flag for name in names for flag in ("--output", f"{name}={directory / 'out' / name}")]
    if not many[0]:
        flags = [flag for name in names for flag in ("--output", f"{name}={directory / name}.npy")]
        run([executable, *flags]).check()
        return [{name: np.load(directory / f"{name}.npy") for name in names}] * len(many)
    for index, inputs in enumerate(many):
        (directory / "in" / str(index)).mkdir(parents=True, exist_ok=True)
        for name, array in inputs.items():
            np.save(directory / "in" / str(index) / f"{name}.npy", array)
    run([executable, "--batch-of", directory / "in", *flags]).check()
    return [
        {name: np.load(directory / "out" / name / f"{index}.npy") for name in names}
        for index in range(len(many))
    ]


def judge(w: Writer, name: str) -> str:
    """Returns the required accuracy of an output: exact (to the bit), sum (except for the sign of
    zero), close, loose (after rounding to 16 bits), or empty (layers: close, or an
    index of the largest logit).
    """
    return w.judged.get(name) or ("loose" if w.loose else "")


def compare(
    actual: np.ndarray, wanted: np.ndarray, how: str, logits: np.ndarray | None
) -> str | None:
    if actual.shape != wanted.shape or actual.dtype != wanted.dtype:
        return f"{actual.dtype} {actual.shape}, not {wanted.dtype} {wanted.shape}"
    if wanted.dtype == np.int64 and not how:
        # For the index of the largest logit, another index with an equal logit is also correct.
        def value(index):
            return np.take_along_axis(logits, np.asarray(index)[..., None], -1)

        inside = (actual >= 0) & (actual < logits.shape[-1])
        if not inside.all():
            return f"{actual[~inside][:4]} are no indices"
        actual, wanted = value(actual), value(wanted)
    distance = difference(actual, wanted)
    allowed = max(TOLERANCE * distance.scale, NOISE) if how in ("", "close") else 0.0
    if how == "loose":
        allowed = LOOSE * max(distance.scale, 1.0)
    signs = how != "exact" or np.array_equal(
        np.signbit(actual) & ~np.isnan(actual), np.signbit(wanted) & ~np.isnan(wanted)
    )
    if distance.absolute <= allowed and signs:
        return None
    return f"{distance}\nactual   {actual.ravel()[:8]}\nexpected {wanted.ravel()[:8]}"


def in_double(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the same graph on 64-bit floats."""

    def widen(tensor: onnx.TensorProto) -> None:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            array = onnx.numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))

    for tensor in model.graph.initializer:
        widen(tensor)
    for value in [*model.graph.input, *model.graph.output]:
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                widen(attribute.t)
            elif (node.op_type, attribute.name, attribute.i) == (
                "Cast",
                "to",
                onnx.TensorProto.FLOAT,
            ):
                attribute.i = onnx.TensorProto.DOUBLE
    return model


class GatherElements(OpRun):
    """GatherElements as ONNX defines it. The evaluator's own implementation requires as many
    indices as elements along the other dimensions.
    """

    def _run(self, data, indices, axis=0):
        where = list(np.indices(indices.shape, sparse=True))
        where[axis] = indices
        return (data[tuple(where)],)


def run_in_double(model: onnx.ModelProto, given: dict) -> dict[str, np.ndarray]:
    """Runs the graph in onnx's reference evaluator, because ONNX Runtime does not support all ops
    in double precision. If the evaluator fails, runs it in ONNX Runtime.
    """
    model = in_double(model)
    doubles = {
        key: value.astype(np.float64) if value.dtype == np.float32 else value
        for key, value in given.items()
    }
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model, new_ops=[GatherElements]).run(None, doubles)
    except Exception:  # of any type: an error of both is raised by ONNX Runtime
        return Session(model.SerializeToString()).run(doubles)
    return {value.name: np.asarray(result) for value, result in zip(model.graph.output, results)}


def disturb(model: onnx.ModelProto, given: dict, seed: int) -> tuple[onnx.ModelProto, dict]:
    """Returns the graph and its inputs with floats changed by up to one unit in the last place."""
    r = np.random.default_rng(seed)

    def other(array: np.ndarray) -> np.ndarray:
        if (
            array.dtype != np.float32 or array.size <= 1
        ):  # an exponent, an epsilon: part of the formula
            return array
        moved = array.astype(np.float64) * (1 + r.uniform(-1, 1, array.shape) * 2.0**-23)
        # Numbers that represent infinity in masks do not change.
        return np.where(np.abs(array) < 1e30, moved, array).astype(np.float32)

    attributes = (attribute.t for node in model.graph.node for attribute in node.attribute)
    for tensor in [*model.graph.initializer, *attributes]:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.CopyFrom(
                onnx.numpy_helper.from_array(other(onnx.numpy_helper.to_array(tensor)), tensor.name)
            )
    return model, {name: other(array) for name, array in given.items()}


class Noise:
    """Effect of rounding on an output. A norm of nearly equal numbers amplifies rounding errors,
    and so do layers without norms and a softmax of large numbers. Rounding intermediate values has
    as much effect as rounding inputs. So the error of a result, against doubles, may be up to ten
    times that of ONNX Runtime on the same numbers or on numbers that differ in the last place.
    Errors of real faults are larger by orders of magnitude (test_faults_exceed_the_noise).
    """

    def __init__(self, w: Writer, given: dict, wanted: dict):
        self.w, self.given, self.wanted = w, given, wanted

    @functools.cached_property
    def exact(self) -> dict[str, np.ndarray]:
        return run_in_double(self.w.model(reference=True), self.given)

    @functools.cached_property
    def runs(self) -> list[dict[str, np.ndarray]]:
        found = [self.wanted]
        for seed in range(DISTURBED):
            model, given = disturb(self.w.model(reference=True), self.given, seed)
            found.append(Session(model.SerializeToString(), optimize=False).run(given))
        return found

    def explains(self, name: str, actual: np.ndarray) -> bool:
        if self.wanted[name].dtype != np.float32:
            return False
        error = max(difference(run[name], self.exact[name]).relative for run in self.runs)
        return error < 1e-2 and difference(actual, self.exact[name]).relative <= 10 * error


def attempt(pair: Pair) -> Outcome:
    directory = Path(
        tempfile.mkdtemp(
            prefix="tpc-random-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        )
    )
    try:
        return check(pair, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)

"""One random pair of a graph and a grid: drawn, compiled, run, compared with ONNX Runtime, and made smaller if it fails.

    python test/Integration/cpu/random_pairs.py --seed 17           # the pair of seed 17
    python test/Integration/cpu/random_pairs.py '{"grid":"tp2",…}'  # the pair that a failure printed
"""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

sys.path[:0] = [str(Path(__file__).resolve().parents[3] / "python"), str(Path(__file__).resolve().parents[1])]

from harness import Executable, Grid, run, tool  # noqa: E402
from random_graphs import Layer, Spec, build, draw, draw_shapes, make_inputs  # noqa: E402
from tpc.reference import TOLERANCE, Session, difference  # noqa: E402

# All values are near 1 on the way; a result near zero by chance is no more exact than what it comes from.
NOISE = 2e-6
REFUSED = "rightly refused"


@dataclass(frozen=True)
class Pair:
    spec: Spec
    grid: Grid
    shapes: tuple[tuple[int, int], ...] = ((2, 3),)

    def __str__(self) -> str:
        fields = {"grid": str(self.grid), "shapes": self.shapes, **self.spec.json()}
        return json.dumps(fields, separators=(",", ":"))

    @staticmethod
    def parse(text: str) -> Pair:
        fields = json.loads(text)
        grid, shapes = Grid.parse(fields.pop("grid")), fields.pop("shapes")
        return Pair(Spec.parse(fields), grid, tuple(tuple(shape) for shape in shapes))

    @property
    def command(self) -> str:
        return f"python test/Integration/cpu/random_pairs.py '{self}'"


def draw_grid(r: random.Random, spec: Spec) -> Grid:
    limit = 32 if r.random() < 0.02 else 16
    while True:
        tp = r.choice((1, 2, 2, 2, 3, 3, 4, 4, 5, 8))
        grid = Grid(tp, r.choice((1, 1, 1, 2, 2, 3, 4)), r.choice((1, 1, 1, 2, 3)), tp > 1 and r.random() < 0.4,
                    r.choice((1, 1, 1, 2, 4)), r.choice(("",) * 4 + ("dp-tp-pp", "pp-dp-tp", "tp-dp-pp")))
        # Seldom more of anything than there is.
        if grid.ranks <= limit and ((grid.pp <= spec.depth and grid.tp <= widest(spec)) or r.random() < 0.1):
            return grid


def draw_two_dimensions(r: random.Random, grid: Grid) -> Grid:
    """Now and then, tp of two dimensions in the place of one."""
    x, y = r.choice(((1, 2), (2, 1), (2, 2), (2, 2), (2, 3), (3, 2), (2, 4), (4, 1), (1, 4), (3, 3)))
    if r.random() >= 0.15 or x * y * grid.pp * grid.dp > 16:
        return grid
    return dataclasses.replace(grid, tp=x * y, xy=(x, y), sp=False)


def draw_pair(seed: int) -> Pair:
    r = random.Random(seed ^ 0x5EED)
    spec = draw(seed)
    grid = draw_two_dimensions(random.Random(seed ^ 0x2D2D), draw_grid(r, spec))
    return Pair(spec, grid, tuple(draw_shapes(r)))


def widest(spec: Spec) -> int:
    """The most parts that any weight of the model has. What norms need whole does not count."""
    sizes = [1]
    for layer in spec.used:
        if layer.attention != "none":
            sizes += [layer.kv, layer.heads // layer.kv]
        if layer.mlp != "none":
            sizes.append(layer.ffn)
    if spec.ids or spec.head != "none":
        sizes.append(spec.vocab)
    return max(sizes)


def may_refuse(pair: Pair) -> list[str]:
    """What tpcc may say instead of compiling: words of its messages. Nothing else is a reason."""
    spec, grid, words = pair.spec, pair.grid, []
    if grid.xy:
        # The first dimension splits what matrices have on their other side: the width of the residual.
        if spec.hidden == 1:
            words.append("no matrix of the model can be split in two dimensions")
        if grid.xy[0] > spec.hidden:
            words.append("the first dimension is larger than what it splits")
    if (grid.xy[1] if grid.xy else grid.tp) > widest(spec):
        words += ["is larger than anything that can be split", "no weight of the model can be split"]
    if grid.pp > spec.depth:
        words.append("the model can be cut into at most")
    return words


def check(pair: Pair, directory: Path) -> str:
    """What is wrong with the pair: a kind of failure, and a text that says more. Empty if nothing is, REFUSED if tpcc
    rightly says that the model cannot be split so."""
    path = directory / "graph.onnx"
    onnx.save(build(pair.spec), path)
    reference = Session(build(pair.spec, reference=True).SerializeToString())
    inputs = [make_inputs(pair.spec, *shape) for shape in pair.shapes]
    expected = [reference.run(given) for given in inputs]
    executable = Executable(directory / "graph", pair.grid, directory)
    compiled = run([tool("tpcc"), path, f"--megatron-shard={pair.grid}", "-o", executable.path])
    if compiled.timed_out or compiled.returncode:
        signs = ("PLEASE submit", "Sanitizer", "runtime error:", "terminate called", "Stack dump", "assert")
        crashed = compiled.timed_out or compiled.returncode != 1 or any(sign in compiled.stderr for sign in signs)
        if not crashed and any(word in compiled.stderr for word in may_refuse(pair)):
            return REFUSED
        return f"{'crash' if crashed else 'refused'}: {compiled}"
    names = [value.name for value in build(pair.spec).graph.output]
    for shape, given, wanted in zip(pair.shapes, inputs, expected):
        try:
            actual = executable.run(given, names)
        except AssertionError as error:
            return f"run: at batch {shape[0]}, sequence {shape[1]}: {error}"
        for name in names:
            wrong = compare(actual[name], wanted[name], wanted.get("logits"))
            if wrong and not is_noise(pair.spec, given, wanted, name, actual[name]):
                return f"wrong: {name} at batch {shape[0]}, sequence {shape[1]}: {wrong}"
    return ""


def compare(actual: np.ndarray, wanted: np.ndarray, logits: np.ndarray | None) -> str | None:
    if actual.shape != wanted.shape:
        return f"shape {actual.shape}, not {wanted.shape}"
    if wanted.dtype != np.float32:
        # The best of logits: another one is as good where it is as large.
        def value(index):
            return np.take_along_axis(logits, np.asarray(index)[..., None], -1)

        inside = (actual >= 0) & (actual < logits.shape[-1])
        if not inside.all():
            return f"{actual[~inside][:4]} are no indices"
        actual, wanted = value(actual), value(wanted)
    distance = difference(actual, wanted)
    if distance.absolute <= max(TOLERANCE * distance.scale, NOISE):
        return None
    return f"{distance}\nactual   {actual.ravel()[:8]}\nexpected {wanted.ravel()[:8]}"


def in_double(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph on 64-bit floats."""
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            array = onnx.numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    for value in [*model.graph.input, *model.graph.output]:
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for node in model.graph.node:
        for attribute in node.attribute:
            if (node.op_type, attribute.name, attribute.i) == ("Cast", "to", onnx.TensorProto.FLOAT):
                attribute.i = onnx.TensorProto.DOUBLE
    return model


def is_noise(spec: Spec, given: dict, wanted: dict, name: str, actual: np.ndarray) -> bool:
    """A norm of nearly equal numbers enlarges rounding. Where it does, ONNX Runtime itself is off from what doubles
    give; being off by up to ten times as much is no mistake. Mistakes are larger by orders of magnitude."""
    doubles = {key: value.astype(np.float64) if value.dtype == np.float32 else value for key, value in given.items()}
    try:
        exact = Session(in_double(build(spec, reference=True)).SerializeToString()).run(doubles)
    except Exception:  # an op that ONNX Runtime has in single precision only
        return False
    own = max(difference(wanted[key], exact[key]).relative for key in wanted if wanted[key].dtype == np.float32)
    return wanted[name].dtype == np.float32 and difference(actual, exact[name]).relative <= 10 * own < 1e-3


def smaller(pair: Pair):
    """Pairs that are smaller in one respect, the most promising first."""
    spec, grid = pair.spec, pair.grid
    for shape in pair.shapes if len(pair.shapes) > 1 else ():
        yield dataclasses.replace(pair, shapes=(shape,))
    for depth in range(1, spec.depth):
        yield dataclasses.replace(pair, spec=dataclasses.replace(spec, depth=depth))
    for layer in spec.layers if len(spec.layers) > 1 else ():
        yield dataclasses.replace(pair, spec=dataclasses.replace(spec, layers=(layer,)))
    plain = Grid()
    if grid.xy:
        for x, y in ((1, grid.xy[1]), (grid.xy[0], 1), (grid.xy[0] - 1, grid.xy[1]), (grid.xy[0], grid.xy[1] - 1)):
            if 1 < x * y < grid.tp:
                yield dataclasses.replace(pair, grid=dataclasses.replace(grid, tp=x * y, xy=(x, y)))
        yield dataclasses.replace(pair, grid=dataclasses.replace(grid, xy=None))
    for name in ("pp", "dp", "mb", "sp", "order", "tp"):
        values = {getattr(plain, name)}
        if name in ("pp", "dp", "mb", "tp"):
            values |= set(range(1, getattr(grid, name)))
        for value in sorted(values):
            if value != getattr(grid, name) and not (name == "tp" and (grid.xy or (value == 1 and grid.sp))):
                yield dataclasses.replace(pair, grid=dataclasses.replace(grid, **{name: value}))
    for shape in {(1, 1), (1, pair.shapes[0][1]), (pair.shapes[0][0], 1), (2, 3)} - set(pair.shapes):
        if len(pair.shapes) == 1 and shape[0] * shape[1] < pair.shapes[0][0] * pair.shapes[0][1]:
            yield dataclasses.replace(pair, shapes=(shape,))
    for field in dataclasses.fields(Spec):
        if field.name in ("layers", "depth", "seed") or getattr(spec, field.name) == field.default:
            continue
        yield dataclasses.replace(pair, spec=dataclasses.replace(spec, **{field.name: field.default}))
    for i, layer in enumerate(spec.layers):
        for field in dataclasses.fields(Layer):
            values = [field.default] if getattr(layer, field.name) != field.default else []
            if field.name in ("attention", "mlp") and "none" not in (layer.attention, layer.mlp):
                values.insert(0, "none")
            if field.name == "heads":
                values = [n for n in (layer.kv, 2 * layer.kv) if n < layer.heads]
            if field.name == "kv":
                values = [n for n in (1, 2) if n < layer.kv]
            for value in values:
                changed = {field.name: value}
                if field.name == "kv":
                    changed["heads"] = layer.heads // layer.kv * value
                layers = list(spec.layers)
                layers[i] = dataclasses.replace(layer, **changed)
                yield dataclasses.replace(pair, spec=dataclasses.replace(spec, layers=tuple(layers)))


def is_sensible(spec: Spec) -> bool:
    return all(layer.rotary == "none" or (layer.size % 2 == 0 and (layer.rotary != "partial" or layer.size >= 4))
               for layer in spec.layers) and (not spec.tied or (spec.ids and spec.head != "none"))


def attempt(pair: Pair) -> str:
    directory = Path(tempfile.mkdtemp(prefix="tpc-random-"))
    try:
        return check(pair, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def shrink(pair: Pair, failure: str, tries: int = 80) -> tuple[Pair, str]:
    """Makes a failing pair smaller as long as it fails in the same way. Each step removes something: it ends."""
    kind = failure.split(":")[0]
    progress = True
    while progress and tries > 0:
        progress = False
        for other in smaller(pair):
            if not is_sensible(other.spec):
                continue
            tries -= 1
            found = attempt(other)
            if found != REFUSED and found.split(":")[0] == kind:
                pair, failure, progress = other, found, True
                break
            if tries <= 0:
                break
    return pair, failure


def main() -> int:
    import argparse

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pair", nargs="?", help="a pair, as a failure prints it")
    parser.add_argument("--seed", type=int, help="the pair that is drawn from this seed")
    parser.add_argument("--to", type=int, help="all seeds from --seed to this one, without shrinking")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the ONNX file and the executable there")
    parser.add_argument("--shrink", action="store_true", help="make a failing pair smaller")
    args = parser.parse_args()
    if (args.pair is None) == (args.seed is None):
        parser.error("give a pair or --seed")
    if args.to is not None:
        failures = refused = 0
        for seed in range(args.seed, args.to):
            failure = attempt(draw_pair(seed))
            refused += failure == REFUSED
            if failure and failure != REFUSED:
                failures += 1
                print(f"seed {seed}: {failure[:1500]}\n{draw_pair(seed).command}\n", flush=True)
        print(f"{args.to - args.seed} pairs: {failures} failures, {refused} rightly refused")
        return 1 if failures else 0
    pair = Pair.parse(args.pair) if args.pair else draw_pair(args.seed)
    print(pair.command)
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    failure = check(pair, args.keep) if args.keep else attempt(pair)
    if failure not in ("", REFUSED) and args.shrink:
        pair, failure = shrink(pair, failure)
        print(pair.command)
    print(failure or "ok")
    return 0 if failure in ("", REFUSED) else 1


if __name__ == "__main__":
    sys.exit(main())

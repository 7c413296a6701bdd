"""Programs of single model ops, and their comparison with numpy."""

import subprocess

import numpy as np

from harness import BUILD_STAGED

ELEMENT = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "i64": np.int64,
    "i32": np.int32,
    "ui8": np.uint8,
    "bool": np.bool_,
}


def tensor(element: str, *dims) -> str:
    shape = "".join(f"{d}x" if isinstance(d, int) else "?x" for d in dims)
    element = {"bool": "i1"}.get(element, element)
    if all(isinstance(d, int) for d in dims):
        return f"tensor<{shape}{element}>"
    sizes = ", ".join(f'"{d}"' if " " in str(d) else str(d) for d in dims)
    return f"tensor<{shape}{element}, #tpc.dist<[{sizes}]>>"


class Program:
    """A program with one stage. Inputs are in order of creation; outputs are o0, o1, … with
    references.
    """

    def __init__(self):
        self.inputs, self.lines, self.outputs = [], [], []

    def input(self, element, *dims):
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, element, dims))
        return name

    def type_of(self, name):
        return next(tensor(e, *d) for n, e, d in self.inputs if n == name)

    def op(self, text, element, dims, reference):
        """Adds an op whose result is an output. In `text`, {0}, {1}, … are inputs, {t0}, {t1}, …
        are their types, and {r} is the type of the result.
        """
        result = tensor(element, *dims)
        names = {f"t{i}": tensor(e, *d) for i, (_, e, d) in enumerate(self.inputs)}
        values = [f"%{n}" for n, _, _ in self.inputs]
        index = len(self.outputs)
        self.lines.append(f"%r{index} = {text.format(*values, r=result, **names)}")
        self.outputs.append((result, reference))

    def text(self):
        args = ", ".join(f"%{n}: {tensor(e, *d)}" for n, e, d in self.inputs)
        types = ", ".join(tensor(e, *d) for _, e, d in self.inputs)
        results = ", ".join(r for r, _ in self.outputs)
        returned = ", ".join(f"%r{i}" for i in range(len(self.outputs)))
        names = ", ".join(f'{{tpc.name = "{n}"}}' for n, _, _ in self.inputs)
        outputs = ", ".join(
            f'{{name = "o{i}", type = {r}}}' for i, (r, _) in enumerate(self.outputs)
        )
        body = "\n  ".join(self.lines)
        delivered = "\n      ".join(
            f"tpc.output {i}, %r#{i} : {r}" for i, (r, _) in enumerate(self.outputs)
        )
        return f"""
func.func private @stage_0({args}) -> ({results}) {{
  {body}
  return {returned} : {results}
}}
tpc.pipeline @main({args}) inputs [{names}] outputs [{outputs}] {{
  tpc.stage 0 {{
    tpc.micro_batches {{
      %r:{len(self.outputs)} = func.call @stage_0(
          {", ".join("%" + n for n, _, _ in self.inputs)}) : ({types}) -> ({results})
      {delivered}
    }}
  }}
}}
"""


def check(tmp_path, program, sizes, make=None, tolerance=2e-6):
    """Compiles the program once, then runs and compares it for each binding of the symbols."""
    source, exe = tmp_path / "program.mlir", tmp_path / "program"
    source.write_text(program.text())
    built = subprocess.run([BUILD_STAGED, source, "-o", exe], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr + source.read_text()
    for binding in sizes:
        random = np.random.default_rng(7)
        arrays, args = [], []
        for i, (name, element, dims) in enumerate(program.inputs):
            shape = [d if isinstance(d, int) else binding[d] for d in dims]
            array = make(i, random, shape) if make else None
            if array is None:
                array = random.normal(size=shape) * 3
                if element == "bool":
                    array = array > 0
            array = np.asarray(array).astype(ELEMENT[element])
            np.save(tmp_path / f"{name}.npy", array)
            arrays.append(array)
            args += ["--input", f"{name}={tmp_path / name}.npy"]
        for i in range(len(program.outputs)):
            args += ["--output", f"o{i}={tmp_path}/o{i}.npy"]
        run = subprocess.run([exe, *args], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        for i, (_, reference) in enumerate(program.outputs):
            got = np.load(tmp_path / f"o{i}.npy")
            wanted = np.asarray(
                reference(*(a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays))
            )
            assert got.shape == wanted.shape, (program.lines[i], binding)
            # Errors are relative to the element, or to 1 if the element is smaller.
            with np.errstate(invalid="ignore", over="ignore"):
                close = np.isclose(
                    got.astype(np.float64),
                    wanted.astype(got.dtype).astype(np.float64),
                    rtol=tolerance,
                    atol=tolerance,
                    equal_nan=True,
                )
            assert close.all(), (program.lines[i], binding, got[~close][:4], wanted[~close][:4])


TWO = [dict(n=3, m=5), dict(n=1, m=1), dict(n=0, m=4), dict(n=2, m=0), dict(n=17, m=40)]

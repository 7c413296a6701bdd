"""Small training programs: one whose gradients are written by hand, with its optimizers in NumPy,
and GPT-2 with PyTorch's losses and weights (test/Models/training.py).
"""

import json

import numpy as np

import harness
import training_data
from tpc import checkpoint

MODELS = harness.TOP / "test" / "Models"
PROGRAM = harness.TOP / "test" / "Transforms" / "Inputs" / "training.mlir"
SHAPES = {"table": (16, 8), "up": (8, 12), "down": (12, 4), "shift": (4,)}
BATCH, SEQUENCE = 4, 3
DATA = np.random.default_rng(1).integers(0, 16, 60).astype(np.uint16)


def batch_of(step):
    ids, labels = training_data.batch_of(DATA, step, BATCH, SEQUENCE)
    return ids.reshape(-1), labels.reshape(-1)


class Reference:
    """The program in NumPy, in double precision, and PyTorch's formulas of optimizers."""

    def __init__(self, weights, optimizer, **settings):
        self.weights = {name: values.astype(float) for name, values in weights.items()}
        self.optimizer, self.settings = optimizer, settings
        self.moments = {name: [0.0, 0.0] for name in weights}

    def gradients(self, ids, labels):
        w = self.weights
        x = w["table"][ids]
        hidden = x @ w["up"]
        y = hidden @ w["down"] + w["shift"]
        valid = (labels >= 0)[:, None]
        difference = (y - 0.1 * labels[:, None]) * valid
        dy = difference * 2 / valid.sum()
        dhidden = dy @ w["down"].T
        loss = (difference**2).sum() / valid.sum()
        return loss, {"up": x.T @ dhidden, "down": hidden.T @ dy, "shift": dy.sum(0)}

    def step(self, ids, labels, step, rate):
        settings = self.settings
        loss, gradients = self.gradients(ids, labels)
        norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
        factor = min(1, settings["clip"] / (norm + 1e-6)) if settings.get("clip") else 1
        for name, gradient in gradients.items():
            gradient, weight, moments = gradient * factor, self.weights[name], self.moments[name]
            decay = settings.get("decay", 0) if weight.ndim > 1 else 0
            if self.optimizer == "sgd":
                gradient = gradient + decay * weight
                moments[0] = settings.get("momentum", 0) * moments[0] + gradient
                self.weights[name] = weight - rate * moments[0]
                continue
            b1, b2 = settings.get("beta1", 0.9), settings.get("beta2", 0.999)
            moments[0] = b1 * moments[0] + (1 - b1) * gradient
            moments[1] = b2 * moments[1] + (1 - b2) * gradient**2
            scale = np.sqrt(moments[1]) / np.sqrt(1 - b2**step) + 1e-8
            weight = weight * (1 - rate * decay)
            self.weights[name] = weight - rate / (1 - b1**step) * moments[0] / scale
        return loss, norm


class Training:
    """Compiled training programs, their weights and their data."""

    def __init__(self, tpcc, folder):
        self.tpcc, self.folder = tpcc, folder
        random = np.random.default_rng(0)
        self.weights = {
            name: random.normal(0, 0.5, shape).astype(np.float32) for name, shape in SHAPES.items()
        }
        flat = np.concatenate([values.reshape(-1) for values in self.weights.values()])
        flat.tofile(folder / "linear.bin")
        DATA.tofile(folder / "data.bin")
        self.steps = {}

    def compile(self, optimizer, grid="tp1", *arguments):
        if optimizer not in self.steps:
            path = self.folder / f"step{len(self.steps)}.mlir"
            options = f"--tpc-add-optimizer=optimizer={optimizer}"
            text = harness.run([harness.tool("tpc-opt"), PROGRAM, options]).check().stdout
            path.write_text(text)
            self.steps[optimizer] = path
        return self.tpcc.compile(self.steps[optimizer], grid, *arguments)

    def flags(self, steps, rate=0.1, data="data.bin", **more):
        flags = ["--data", self.folder / data, "--steps", str(steps), "--lr", str(rate)]
        more = {"batch": BATCH, "sequence": SEQUENCE, **more}
        for name, value in more.items():
            flags += [f"--{name.replace('_', '-')}", str(value)]
        return flags

    def run(self, program, steps, transport="threads", env=None, **more):
        result = program.call(self.flags(steps, **more), transport, env=env or {}).check()
        return [json.loads(line) for line in result.stdout.splitlines()]


def compare(training, lines, optimizer, rates, **settings):
    reference = Reference(training.weights, optimizer, **settings)
    for step, (line, rate) in enumerate(zip(lines, rates, strict=True), 1):
        loss, norm = reference.step(*batch_of(step), step, rate)
        assert line["step"] == step
        np.testing.assert_allclose(line["loss"], loss, rtol=2e-5)
        np.testing.assert_allclose(line["grad_norm"], norm, rtol=2e-5)
        np.testing.assert_allclose(line["lr"], rate, rtol=1e-6)
    return reference


def without_speed(lines):
    return [{k: v for k, v in line.items() if k != "tokens_per_second"} for line in lines]


def fail(training, program, *messages, steps=2, env=None, **more):
    result = program.call(training.flags(steps, **more), env=env or {})
    assert result.returncode == 1, result
    for message in messages:
        assert message in result.stderr, result


def train_gpt2(tpcc, grid, optimizer, folder, *arguments, env=None):
    """Returns the log of 50 steps, and PyTorch's losses and weights."""
    name = "gpt2-tiny-nopast"
    expected = json.loads((MODELS / "training" / f"{name}.json").read_text())[optimizer]
    arguments = ("--train", f"--optimizer={optimizer}", *arguments)
    program = tpcc.compile(MODELS / f"{name}.onnx", grid, *arguments)
    training_data.make_data(1000).tofile(folder / "data.u16")
    flags = ["--data", folder / "data.u16", "--batch", str(training_data.BATCH)]
    flags += ["--sequence", str(training_data.SEQUENCE), "--steps", str(training_data.STEPS)]
    flags += ["--lr", str(expected["rate"]), "--save", folder / "saved"]
    result = program.call(flags, env=env or {}).check()
    return [json.loads(line) for line in result.stdout.splitlines()], expected


def check_gpt2(tpcc, grid, optimizer, folder, *arguments, env=None):
    """Checks losses and weights of 50 steps against PyTorch's."""
    lines, expected = train_gpt2(tpcc, grid, optimizer, folder, *arguments, env=env)
    limit = 1e-5 if optimizer.startswith("sgd") else 1e-4
    np.testing.assert_allclose(
        [line["loss"] for line in lines], expected["losses"], rtol=limit, atol=limit
    )
    weights = checkpoint.read_tensors(folder / "saved")
    assert set(weights) == set(expected["weights"])
    for key, values in expected["weights"].items():
        found = np.array(training_data.pick(weights[key]))
        if key.endswith("c_attn.bias") and optimizer.startswith("adamw"):
            # These are of the keys' bias, which changes no probability. Its gradient is rounding
            # noise, which AdamW scales to steps of full size.
            found[6:11] = values[6:11]
        np.testing.assert_allclose(found, values, atol=limit)

"""Seeded faults in training steps: a verifier rejects each, or the results are the same.

Faults of "steps" are in the partitioned program; the reference is the model's training step. Faults
of "gradients" are in the model's backward program, before it is a reference: only
tpc-verify-gradients, which compares gradients with differences of the loss, can reject them.
"""

import functools
import random

import pytest

import harness
import mutants
from models import MODELS
from mutants import tpc_opt

ADAMW, SGD = "adamw:decay=0.1,clip=1", "sgd:momentum=0.9,decay=0.1"
STEPS = [
    ("gpt2-tiny-nopast", "tp2,dp2,mb2", ADAMW),
    ("gpt2-tiny-nopast", "tp2,sp", SGD),
    ("gpt2-tiny-nopast", "mb3,dp3", SGD),
    ("qwen2-dynamo", "tp2,dp2", ADAMW),
    ("olmo2-dynamo", "tp2,sp,dp2,mb2", ADAMW),
    ("falcon-dynamo", "tp4", SGD),
]
LOSS = ["--label-smoothing=0.1", "--z-loss=0.01"]
# Models, and types of their matmuls. GPT-2 is not in f16: the gradient of its bias of keys is 0, so
# another scale of that gradient changes nothing.
GRADIENTS = [("gemma2-dynamo", "f16"), ("qwen2-dynamo", "f32"), ("gpt2-tiny-nopast", "f32")]
# Kinds that change a partitioned program or its computation, and apply to training steps.
OTHERS = (
    *("drop-collective", "duplicate-collective", "sum-to-max", "wrong-axis", "drop-residual"),
    *("shift-shard", "bias-everywhere", "wrong-epsilon", "stale-tied-weight"),
    *("gradient-attention-scale", "gradient-attention-mask", "gradient-attention-operand"),
    "gradient-attention-tensors",
)


def kinds() -> list[str]:
    return [*mutants.kinds("train-"), *OTHERS]


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Returns a folder with a training step as a model and partitioned."""

    @functools.cache
    def make(name, grid, optimizer):
        folder = tmp_path_factory.mktemp("steps")
        command = [harness.tool("tpcc"), MODELS / f"{name}.onnx", f"--megatron-shard={grid}"]
        command += ["--train", f"--optimizer={optimizer}", *LOSS]
        for level in ("model", "staged"):
            harness.run([*command, f"--emit={level}", "-o", folder / f"{level}.mlir"]).check()
        return folder

    return make


@pytest.fixture(scope="session")
def backwards(tmp_path_factory):
    """Returns a folder with the backward program of a model."""

    @functools.cache
    def make(name, precision):
        folder = tmp_path_factory.mktemp("backwards")
        command = [harness.tool("tpcc"), MODELS / f"{name}.onnx", "--gradients", *LOSS]
        command.append(f"--precision={precision}")
        harness.run([*command, "--emit=model", "-o", folder / "gradients.mlir"]).check()
        return folder

    return make


def judge_step(folder, kind, seed):
    text, reference = folder / "staged.mlir", f"reference={folder / 'model.mlir'}"
    mutate = mutants.mutation(kind, seed)
    if refused := mutants.refuses(text, mutate):
        return None if mutants.does_not_apply(refused) else {"ops"}
    checks = {
        "equivalence": f"--tpc-verify-equivalence={reference}",
        "comms": "--tpc-verify-comms",
        "facts": f"--tpc-verify-facts={reference}",
    }
    found = {name for name, check in checks.items() if mutants.refuses(text, mutate, check)}
    if not found and same_text(text, mutate):
        return mutants.SAME_CODE
    return found or mutants.ACCEPTED


def same_text(text, mutate):
    """Whether the fault changes nothing after common subexpressions are merged."""
    return tpc_opt(text, mutate, "--cse").stdout == tpc_opt(text, "--cse").stdout


def judge_gradients(folder, kind, seed):
    file, mutate = folder / "gradients.mlir", mutants.mutation(kind, seed)
    if refused := mutants.refuses(file, mutate):
        return None if mutants.does_not_apply(refused) else {"ops"}
    if mutants.refuses(file, mutate, "--tpc-verify-gradients"):
        return {"gradients"}
    return mutants.SAME_CODE if same_text(file, mutate) else mutants.ACCEPTED


def judge_steps(programs, cases, name):
    folders = {case[:3]: programs(*case[:3]) for case in cases}
    table = mutants.Table(kinds())
    table.judge(
        lambda case: judge_step(folders[case[:3]], *case[3:]),
        cases,
        lambda case: ("staged", case[3], case),
    )
    return table.report(name)


def judge_backwards(backwards, cases, name):
    folders = {case[:2]: backwards(*case[:2]) for case in cases}
    table = mutants.Table(mutants.kinds("gradient-"))
    table.judge(
        lambda case: judge_gradients(folders[case[:2]], *case[2:]),
        cases,
        lambda case: ("model", case[2], case),
    )
    return table.report(name)


def test_sample(programs, backwards):
    """Each kind of faults of training in one program."""
    pick = random.Random(1)
    cases = [(*STEPS[0], kind, pick.randrange(1000)) for kind in kinds()]
    table = judge_steps(programs, cases, "sample_of_training")
    assert [kind for kind in mutants.kinds("train-") if not table.mutants(kind)] == []
    gradients = mutants.kinds("gradient-")
    cases = [(*GRADIENTS[0], kind, pick.randrange(1000)) for kind in gradients]
    assert judge_backwards(backwards, cases, "sample_of_gradients").refused() == len(gradients)


@pytest.mark.long
def test_all(programs, backwards):
    cases = [(*step, kind, seed) for step in STEPS for kind in kinds() for seed in range(4)]
    steps = judge_steps(programs, cases, "training")
    cases = [
        (*model, kind, seed)
        for model in GRADIENTS
        for kind in mutants.kinds("gradient-")
        for seed in range(12)
    ]
    gradients = judge_backwards(backwards, cases, "gradients")
    assert steps.mutants() + gradients.mutants() >= 300

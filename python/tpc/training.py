"""Training by steps of a session, whose program was compiled with `tpcc --train`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tpc.arguments import make_array, to_float
from tpc.library import TpcError, nearest, shorten

# Labels that the loss ignores.
IGNORED = -100
# Options of tpcc that train={…} of tpc.compile may contain.
OPTIONS = ("loss", "label_smoothing", "z_loss", "optimizer", "no_decay")


def train_options(train, options: Mapping) -> dict:
    """Returns the options of tpcc for the argument `train` of tpc.compile."""
    if isinstance(train, bool):
        return {"train": train}
    if not isinstance(train, Mapping):
        raise TpcError(f"train: expected True or options by name, not {shorten(train)}")
    for name in train:
        if name not in OPTIONS:
            raise TpcError(
                f"train: there is no option {shorten(name)}{nearest(str(name), OPTIONS)}; it has "
                + ", ".join(OPTIONS)
            )
        if name in options:
            raise TpcError(f"{name} is given twice, also in train")
    return {"train": True, **train}


class StepResult(NamedTuple):
    """Loss and norm of the gradients of a training step, for the weights before its update."""

    loss: float
    grad_norm: float  # of all gradients together


class Training:
    """Steps of a session, which update its weights. `steps` is their number."""

    def __init__(self, session):
        self._session, self._about = session, session.description["training"]
        self.steps = 0
        self._lost = False  # whether a failed step has lost the updates

    @staticmethod
    def _ids(what: str, ids) -> np.ndarray:
        array = make_array(what, ids, np.dtype(np.int64))
        if array.ndim != 2 or array.dtype.kind not in "iu":
            raise TpcError(
                f"{what} must be integers [batch, tokens], not {array.dtype} of shape "
                f"{list(array.shape)}"
            )
        return array.astype(np.int64)

    def _check_labels(self, labels: np.ndarray) -> None:
        last = self._about["last_token"]
        wrong = (labels != IGNORED) & ((labels < 0) | (labels > last))
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise TpcError(
                f"labels[{row}, {column}] is {labels[row, column]}, but the model has ids from 0 "
                f"to {last}; {IGNORED} is ignored"
            )
        if (labels == IGNORED).all():
            raise TpcError("all labels are ignored, so the batch has no loss")

    def step(self, ids, labels, lr) -> StepResult:
        about = self._about
        if self._lost:
            raise TpcError(
                "a step failed, and the updates of the steps before it are lost: call resume(), or "
                "open the program again"
            )
        if any(port["name"] == "loss_scale" for port in self._session.description["inputs"]):
            raise TpcError("sessions do not train with precision='f16': run the executable")
        rate = to_float("lr", lr)
        if not (math.isfinite(rate) and rate >= 0):
            raise TpcError(f"lr {shorten(lr)}: expected a number of 0 or more")
        ids = self._ids("ids", ids)
        if labels is None:
            if ids.shape[1] < 2:
                raise TpcError("ids must have at least two tokens in a row: the last is a label")
            ids, labels = ids[:, :-1], ids[:, 1:]
        else:
            labels = self._ids("labels", labels)
            if labels.shape != ids.shape:
                raise TpcError(
                    f"labels have the shape {list(labels.shape)}, and ids {list(ids.shape)}"
                )
        self._check_labels(labels)
        ids = np.where(ids == IGNORED, 0, ids)  # tokens without labels, such as padding
        inputs = {about["tokens"]: ids, about["labels"]: labels, about["rate"]: np.float32(rate)}
        number = 0

        def begin() -> dict[str, np.ndarray]:
            nonlocal number
            self.steps += 1
            number = self.steps
            betas = {about[f"correction{i}"]: about[f"beta{i}"] for i in (1, 2)}
            return {name: np.float32(1 - beta**number) for name, beta in betas.items() if name}

        try:
            outputs = self._session._run(inputs, begin)
        except TpcError as error:
            self._lost = error.broken
            self.steps -= number > 0
            raise
        result = StepResult(float(outputs["loss"]), float(outputs["grad_norm"]))
        if not all(map(math.isfinite, result)):
            self.steps -= 1
            raise TpcError(
                f"step {number}: the loss is {result.loss}, and the norm of the gradients "
                f"{result.grad_norm}; the step is not applied: resume() from a checkpoint with a "
                "smaller lr, or clip gradients (optimizer='adamw:clip=1')"
            )
        return result

    def resumed(self, steps: int) -> None:
        """Continues after `steps` steps, whose weights were loaded."""
        self.steps, self._lost = steps, False


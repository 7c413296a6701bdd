"""Variants of the small GPT in written.py."""

import numpy as np
from onnx import TensorProto

from written import Gpt

I64, F32 = TensorProto.INT64, TensorProto.FLOAT
FAR = 2**62


class WithPast(Gpt):
    PAST = True


def variant(base=Gpt, **parts):
    return type("Written", (base,), parts)


def hidden_beside(name):
    def head(self, value):
        self.output(value, "hidden")
        self.output(
            self.op("MatMul", value, self.weight(self.hidden, self.VOCABULARY, scale=1)), name
        )

    return head


def window(self):
    far = self.op(
        "Sub", self.column(self.count(self.start, self.end)), self.count(self.zero, self.end)
    )
    return self.op("And", Gpt.sees(self), self.op("Less", far, self.constant(np.int64(4))))

"""Stale cache contents of earlier sequences are never read, even if they are NaN."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from generation import CAUSAL
from harness import Grid
from service import Service

GRIDS = ["tp1", "tp2", "pp2", "tp2,pp2,mb2", "dp2"]
CHOSEN = {
    ("gpt2-tiny", "tp2"),
    ("llama-past", "tp1"),
    ("mistral-dynamo", "pp2"),
    ("gemma2-past", "tp2,pp2,mb2"),
    ("bloom-dynamo", "dp2"),
    ("falcon-past", "tp2"),
}
CASES = [
    pytest.param(
        name, grid, id=f"{name}-{grid}", marks=[] if (name, grid) in CHOSEN else pytest.mark.long
    )
    for name in CAUSAL
    for grid in GRIDS
]
POISON = 11


def poisoned(path, to):
    """Writes the model with one token that makes keys and values NaN in all layers: its own, and
    those of all later tokens.
    """
    model = onnx.load(path)
    graph = model.graph
    ids = {"input_ids"}
    for node in graph.node:
        if node.op_type in ("Reshape", "Cast", "Identity") and node.input[0] in ids:
            ids.add(node.output[0])
    at, embed = next(
        (at, node)
        for at, node in enumerate(graph.node)
        if node.op_type == "Gather" and node.input[1] in ids
    )
    kind = next(
        value.type.tensor_type.elem_type for value in graph.input if value.name == "input_ids"
    )
    constants = {
        "poison": np.array(POISON, helper.tensor_dtype_to_np_dtype(kind)),
        "last": np.array([-1], np.int64),
        "nan": np.float32(np.nan),
    }
    for name, value in constants.items():
        graph.initializer.append(numpy_helper.from_array(np.asarray(value), f"test.{name}"))
    clean, embed.output[0] = embed.output[0], "test.clean"
    made = [
        helper.make_node("Equal", [embed.input[1], "test.poison"], ["test.is"], name="test.is"),
        helper.make_node("Unsqueeze", ["test.is", "test.last"], ["test.row"], name="test.row"),
        helper.make_node(
            "Where", ["test.row", "test.nan", "test.clean"], [clean], name="test.where"
        ),
    ]
    for offset, node in enumerate(made):
        graph.node.insert(at + 1 + offset, node)
    onnx.save(model, to)
    return to


@pytest.mark.parametrize("name,grid", CASES)
def test_keys_that_are_nan(tpcc, tmp_path, name, grid):
    """Steps read no NaN keys of an earlier sequence in the same slot, or of a concurrent one in the
    next slot.
    """
    model = CAUSAL[name]
    program = tpcc.compile(poisoned(model.path, tmp_path / model.path.name), grid, "--generate")
    random = np.random.default_rng(0)
    prompts = [
        [token for token in random.integers(0, model.vocab, length).tolist() if token != POISON]
        for length in (2, 7, 19)
    ]
    slots = Grid.parse(grid).dp * 2
    flags = ["--max-batch", str(slots), "--max-sequence", "54", "--prefill-chunk", "4"]
    with Service(program, *flags, log=tmp_path / "log") as service:
        alone = [
            service.answer(service.ask(f"alone{index}", prompt, 12, stop_ids=[POISON])).tokens
            for index, prompt in enumerate(prompts)
        ]
        for round in range(2):
            names = [
                service.ask(f"p{round}{index}", prompt, 12, stop_ids=[POISON])
                for index, prompt in enumerate(prompts)
            ]
            bad = [service.ask(f"bad{round}{index}", [POISON] * 40, 4) for index in range(slots)]
            again = [
                service.ask(f"again{round}{index}", prompt, 12, stop_ids=[POISON])
                for index, prompt in enumerate(prompts)
            ]
            for one in bad:
                answer = service.answer(one)
                assert (
                    answer.finish == "error"
                    and "after 40 tokens" in answer.message
                    and not answer.tokens
                )
            for each in (names, again):
                assert [service.answer(one).tokens for one in each] == alone
        assert service.close() == 0

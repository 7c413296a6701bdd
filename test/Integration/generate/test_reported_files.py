"""ONNX files from public reports about exporters, $TPC_CORPUS/reports: each run and generation has
the right values, or is refused for the reason that its case lists.
"""

import re
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest

from generation import generate
from tpc.reference import Session, difference

GRIDS = ("tp1", "tp2,pp2")
PROMPT = [12, 7, 99]


@dataclass(frozen=True)
class Case:
    """Files and flags of a folder; default: model.onnx, ids.npy, expected.npy and expected.txt."""

    file: str = "model.onnx"
    # Input -> file of its value, unless the file has the input's name.
    values: dict = field(default_factory=lambda: {"input_ids": "ids.npy"})
    # Inputs whose elements count from 0 along the last dimension.
    counted: tuple = ()
    output: str = "logits"
    expected: str = "expected.npy"
    tolerance: float = 2e-5
    # Words of the error of a run, or of a generation, that is refused.
    refused: tuple = ()
    generation_refused: tuple = ()
    # Whether ONNX Runtime rounded activations to 8 bits for expected.npy and expected.txt. Results
    # are then compared with its matmuls in f32 (in_f32).
    is_rounded: bool = False
    # Words of an error that is accepted until the file is supported.
    until_then: tuple = ()
    # None if expected.txt has no tokens and they are not compared.
    tokens: str | None = "expected.txt"
    flags: tuple = ()
    encoder: str = ""  # file


TOKENS = "4,36,166,4,210,4,36,166,4,185"
CASES = {
    "argmax-head": Case(output="next_token", tokens=TOKENS),
    "decl-logits-name-1": Case(),
    "decl-mask-plus-1": Case(),
    "decl-names-inconsistent": Case(),
    "decl-output-static-wrong": Case(),
    "decl-past-plus-1": Case(),
    "decl-total": Case(),
    "decl-total-unused-mask": Case(),
    "f16-keep-io": Case(tolerance=3e-3),
    # The second token has a margin of 0.001, half a unit in the last place.
    "f16-optimum": Case(tolerance=3e-3, tokens="4"),
    "genai-exclude-embeds": Case(
        values={"inputs_embeds": "embeds.npy"},
        generation_refused=("inputs_embeds", "exclude_embeds"),
    ),
    "genai-fp16-cpu": Case(tolerance=3e-3),
    "genai-fp16-cuda": Case(tolerance=3e-3),
    "genai-fp32-gqa": Case(),
    "git-lfs-pointer": Case(
        refused=("pointer of Git LFS", "git lfs pull"),
        generation_refused=("pointer of Git LFS", "git lfs pull"),
    ),
    "logits-last": Case(),
    "logits-to-keep": Case(refused=("num_logits_to_keep", "--fix-input")),
    "logits-to-keep/one": Case(flags=("--fix-input=num_logits_to_keep=1",)),
    "logits-to-keep/all": Case(
        flags=("--fix-input=num_logits_to_keep=0",), expected="expected_all.npy"
    ),
    "lora-inputs-required": Case(generation_refused=("lora_A", "store it in the file")),
    "loss-out": Case(
        output="loss",
        counted=("position_ids",),
        generation_refused=("position_ids", "labels"),
    ),
    "mask-float": Case(),
    "merged-decoder": Case(),
    "moe-qwen3-optimum": Case(until_then=("NonZero", "not known while importing")),
    "moe-topk-dense": Case(),
    "nanogpt": Case(),
    "opset10-3d-ids": Case(output="output1", generation_refused=("'input1'", "token ids [batch")),
    "q4-nbits": Case(is_rounded=True),
    # The tokens of ONNX's reference implementation, which gets one token at a time.
    "q8-dynamic-past": Case(tokens="4,36,166,4,185,4,36,166,4,4"),
    "q8-weight-only": Case(is_rounded=True, tokens="4,36,166,4,185,41,156,204,46,158"),
    "static-past": Case(generation_refused=("fixed sizes", "dynamic axes")),
    "t5-decoder/encoder": Case(
        file="encoder_model.onnx",
        values={"input_ids": "ids.npy", "attention_mask": "mask.npy"},
        output="last_hidden_state",
        expected="expected_encoder.npy",
        generation_refused=("keys",),
    ),
    "t5-decoder/decoder": Case(
        file="decoder_model.onnx",
        values={
            "input_ids": "dec_ids.npy",
            "encoder_attention_mask": "mask.npy",
            "encoder_hidden_states": "expected_encoder.npy",
        },
        expected="expected_decoder.npy",
        encoder="encoder_model.onnx",
    ),
    "tensorscatter": Case(tokens=None),
    "vit": Case(generation_refused=("Without a past",)),
}


@pytest.fixture
def reports(corpus):
    folder = corpus / "reports"
    if not folder.is_dir():
        pytest.skip("corpus: the folder of reported files is absent (set TPC_CORPUS)")
    return folder


def test_every_folder_has_a_case(reports):
    names = {path.name for path in reports.iterdir() if path.is_dir()}
    assert names == {name.split("/")[0] for name in CASES} | {"launch-left-over"}


def inputs_of(folder, case):
    graph = onnx.load(folder / case.file).graph
    weights = {tensor.name for tensor in graph.initializer}
    given, batch = {}, None
    for port in graph.input:
        own = folder / (port.name.strip("/").replace("/", ".") + ".npy")
        file = own if own.exists() else folder / case.values.get(port.name, own.name)
        if file.exists() and port.name not in weights:
            given[port.name] = np.load(file)
            batch = batch or len(given[port.name])
    shape = next(iter(given.values())).shape
    for port in graph.input:
        sizes = [size.dim_value or size.dim_param for size in port.type.tensor_type.shape.dim]
        if port.name in case.counted:
            given[port.name] = np.tile(np.arange(shape[-1]), (batch, 1))
        elif "past" in port.name and port.name not in given:
            # `kv_cache_dim` of onnxruntime-genai.
            numbers = [16 if size == "kv_cache_dim" else size for size in sizes[1:]]
            empty = [batch, *(0 if isinstance(size, str) else size for size in numbers)]
            kind = onnx.helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
            given[port.name] = np.zeros(empty, kind)
    return given


def in_f32(path):
    """Returns a session that multiplies by quantized weights in f32."""
    model = onnx.load(path)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "accuracy_level":
                attribute.i = 0
    return Session(model.SerializeToString(), optimize=False)


def with_defaults(given):
    """Adds a mask of ones, and positions from 0, as a program does."""
    ids = given["input_ids"]
    positions = np.tile(np.arange(ids.shape[1]), (len(ids), 1))
    return {"attention_mask": np.ones_like(ids), "position_ids": positions, **given}


def compiled(tpcc, case, folder, grid, *flags):
    """Returns None if the model is refused for the reason of its case."""
    try:
        return tpcc.compile(folder / case.file, grid, *flags, *case.flags)
    except AssertionError as error:
        if not case.until_then or not all(word in str(error) for word in case.until_then):
            raise
        return None


@pytest.mark.long
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("name", CASES)
def test_runs(tpcc, reports, name, grid):
    case, folder = CASES[name], reports / name.split("/")[0]
    command = [folder / case.file, f"--megatron-shard={grid}", *case.flags]
    if case.refused:
        tpcc.call([*command, "-o", tpcc.scratch / "refused"]).refused(*case.refused)
        return
    program = compiled(tpcc, case, folder, grid)
    if program is None:
        return
    given = inputs_of(folder, case)
    found = program.run(given, [case.output])[case.output]
    expected = np.load(folder / case.expected)
    if case.is_rounded:
        rounded = expected
        expected = in_f32(folder / case.file).run(with_defaults(given))[case.output]
        assert difference(rounded, expected).relative > 10 * case.tolerance
    error = difference(found, expected)
    print(f"{name} {grid}: {error}")
    assert error.relative <= case.tolerance


def wanted_tokens(folder, case):
    text = case.tokens
    if text == "expected.txt":
        text = re.search(r"greedy of 12,7,99[^:]*: *\[?([0-9, ]+)", (folder / text).read_text())[1]
    return [int(token) for token in text.split(",") if token.strip()]


def check_with_encoder(tpcc, case, folder, grid):
    """Compares the logits of new tokens with those of ONNX Runtime."""
    path, encoder, source = folder / case.file, folder / case.encoder, np.array([[5, 71, 9, 3]])
    program = tpcc.compile(path, grid, "--encoder", encoder, "--generate")
    found = generate(program, PROMPT, 5, "--source", "5,71,9,3", logits=True)
    mask = np.ones_like(source)
    states = Session(encoder).run({"input_ids": source, "attention_mask": mask})
    given = {
        "input_ids": np.array([[*PROMPT, *found.tokens[:-1]]]),
        "encoder_hidden_states": states["last_hidden_state"],
        "encoder_attention_mask": mask,
    }
    wanted = Session(path).run(given)[case.output][0, len(PROMPT) - 1 :]
    assert difference(found.logits, wanted).relative <= case.tolerance


@pytest.mark.long
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("name", CASES)
def test_generates(tpcc, reports, name, grid):
    case, folder = CASES[name], reports / name.split("/")[0]
    if case.generation_refused:
        command = [folder / case.file, f"--megatron-shard={grid}", "--generate", *case.flags]
        tpcc.call([*command, "-o", tpcc.scratch / "refused"]).refused(*case.generation_refused)
        return
    if case.encoder:
        check_with_encoder(tpcc, case, folder, grid)
        return
    program = compiled(tpcc, case, folder, grid, "--generate")
    if program is None:
        return
    if case.tokens:
        wanted = wanted_tokens(folder, case)
        assert generate(program, PROMPT, len(wanted)).tokens == wanted
    else:
        assert len(generate(program, [12, 7, 9], 5).tokens) == 5


@pytest.mark.long
def test_left_over_variables(tpcc, reports):
    """Variables of a launcher that did not start the program."""
    program = tpcc.compile(reports / "launch-left-over" / "model.onnx", "tp2,pp2", "--generate")
    flags = ["--prompt-ids=12,7,99", "--max-new-tokens=4"]
    pmix = dict(PMIX_RANK="0", PMIX_NAMESPACE="slurm.pmix.77.0")
    slurm = dict(SLURM_JOB_ID="77", SLURM_NTASKS="1", SLURM_PROCID="0", SLURM_STEP_ID="0")
    assert program.call(flags, env=pmix | slurm).check().stdout.split() == TOKENS.split(",")[:4]
    torch = dict(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29700")
    for left in (torch, dict(PMI_RANK="0", PMI_SIZE="1")):
        program.call(flags, env=left).refused("TPC_TRANSPORT=threads")

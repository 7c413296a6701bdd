"""Encoder-decoders generate: an encoder and a decoder in one program, sources of any lengths."""

import numpy as np
import onnx
import pytest

from generation import decided, margins_of
from halves import halve
from harness import load_script
from models import MODELS
from service import Service
from tpc.reference import Session, difference

encoders = load_script(MODELS / "encoders.py")


def files_of(family):
    """Returns the files of encoder and decoder."""
    return [MODELS / "families" / f"{family}-{part}.onnx" for part in ("encoder", "decoder")]


ENCODER, DECODER = files_of("bart")
START, NEW = 2, 8
# Without a penalty, a model with random weights and tied embeddings repeats its input.
PENALTY = 30


def sources():
    """Returns ids of three sources of different lengths."""
    random = np.random.default_rng(5)
    return [random.integers(3, encoders.VOCABULARY, count).tolist() for count in (9, 4, 14)]


def states_of(source, family="bart"):
    """Returns the encoder's states of ids, or of an array of features."""
    session = Session(files_of(family)[0])
    if isinstance(source, np.ndarray):
        return session.run({"input_features": source[None]})["logits"]
    ids = np.array([source], np.int64)
    return session.run({"input_ids": ids, "attention_mask": np.ones_like(ids)})["logits"]


def expected(source, prompt=(START,), new=NEW, family="bart"):
    """Returns ONNX Runtime's greedy tokens, the logits of each, and the penalized logits."""
    decoder, states = Session(files_of(family)[1]), states_of(source, family)
    ids, rows, scores = list(prompt), [], []
    for _ in range(new):
        given = {"input_ids": np.array([ids], np.int64), "encoder_hidden_states": states}
        rows.append(decoder.run(given)["logits"][0, -1])
        scores.append(rows[-1].copy())
        seen = scores[-1][sorted(set(ids))]
        scores[-1][sorted(set(ids))] = np.where(seen > 0, seen / PENALTY, seen * PENALTY)
        ids.append(int(scores[-1].argmax()))
    return ids[len(prompt) :], np.array(rows), np.array(scores)


def text_of(ids):
    return ",".join(str(one) for one in ids)


def generate(program, *arguments, new=NEW):
    flags = ["--max-new-tokens", str(new), "--repetition-penalty", str(PENALTY), *arguments]
    lines = program.call(flags, "threads").check().stdout.splitlines()
    return [[int(token) for token in line.split()] for line in lines]


def check(found, source, **options):
    tokens, _, scores = expected(source, **options)
    same = decided(margins_of(scores))
    assert same > 3 and len(set(tokens[:same])) > 3 and found[:same] == tokens[:same]


@pytest.mark.parametrize("grid", ["tp1", "tp2,pp2", "tp2,dp2", "tp4,sp"])
def test_one_program(tpcc, grid, tmp_path):
    """Three sources at a time, in two slots: a slot gets the caches of another source."""
    program = tpcc.compile(DECODER, grid, "--encoder", ENCODER, "--generate")
    given = [flag for source in sources() for flag in ("--source", text_of(source))]
    slots = "4" if "dp" in grid else "2"
    found = generate(program, "--prompt-ids", str(START), *given, "--max-batch", slots)
    assert len(found) == 3
    for tokens, source in zip(found, sources()):
        check(tokens, source)
    logits = tmp_path / "logits.npy"
    source = sources()[0]
    generate(program, "--prompt-ids", "2,7", "--source", text_of(source), "--logits", str(logits))
    wanted = expected(source, (2, 7))[1]
    assert difference(np.load(logits)[:4], wanted[:4]).relative <= 2e-5


@pytest.mark.parametrize("grid", ["tp2", "tp2,pp2"])
def test_states_as_source(tpcc, grid, tmp_path):
    """Without --encoder, the decoder takes states; prompts come in chunks."""
    program = tpcc.compile(DECODER, grid, "--generate")
    flags = []
    for i, source in enumerate(sources()):
        np.save(tmp_path / f"{i}.npy", states_of(source)[0])
        flags += ["--prompt-ids", "2,5,9", "--source", str(tmp_path / f"{i}.npy")]
    found = generate(program, *flags, "--prefill-chunk", "2")
    for tokens, source in zip(found, sources()):
        check(tokens, source, prompt=(2, 5, 9))


def test_without_past_equals_onnx_runtime(tpcc):
    """The program of both files, without generation."""
    program = tpcc.compile(DECODER, "tp2", "--encoder", ENCODER)
    names = [port["name"] for port in program.describe()["inputs"]]
    assert names == ["input_ids", "encoder_input_ids", "encoder_attention_mask"]
    source, ids = sources()[0], np.array([[2, 5, 9]])
    wanted = Session(DECODER).run({"input_ids": ids, "encoder_hidden_states": states_of(source)})
    found = program.run({"input_ids": ids, "encoder_input_ids": np.array([source])})
    assert difference(found["logits"], wanted["logits"]).relative <= 2e-5


def test_service(tpcc):
    program = tpcc.compile(DECODER, "tp2", "--encoder", ENCODER, "--generate")
    with Service(program, "--max-batch", "2", "--repetition-penalty", str(PENALTY)) as service:
        for i, source in enumerate(sources()):
            service.ask(str(i), [START], NEW, source=source)
        service.ask("none", [START], NEW)
        service.ask("long", [START], NEW, source=[3] * 99)
        for i, source in enumerate(sources()):
            check(service.answer(str(i)).tokens, source)
        assert "no source" in service.answer("none").message
        assert "--max-source" in service.answer("long").message


def grids(*others):
    """Returns tp2,pp2, and grids of the long run."""
    return ["tp2,pp2", *(pytest.param(grid, marks=pytest.mark.long) for grid in others)]


def compile_pair(tpcc, family, grid):
    encoder, decoder = files_of(family)
    return tpcc.compile(decoder, grid, "--encoder", encoder, "--generate")


@pytest.mark.parametrize("grid", grids("tp1", "tp3"))
def test_relative_positions(tpcc, grid, tmp_path):
    """T5: the bias of a query and a key depends on their distance, in and beyond the buckets."""
    program, logits = compile_pair(tpcc, "t5", grid), tmp_path / "logits.npy"
    given = [flag for source in sources() for flag in ("--source", text_of(source))]
    prompt = tuple(range(3, 40))
    found = generate(program, "--prompt-ids", text_of(prompt), *given, "--prefill-chunk", "16")
    for tokens, source in zip(found, sources()):
        check(tokens, source, prompt=prompt, family="t5")
    flags = ["--source", text_of(sources()[0]), "--logits", str(logits)]
    generate(program, "--prompt-ids", "0", *flags)
    wanted = expected(sources()[0], (0,), family="t5")[1]
    assert difference(np.load(logits)[:4], wanted[:4]).relative <= 2e-5


def whisper_sources(folder, values):
    """Saves features or states. Returns their flags."""
    flags = []
    for i, value in enumerate(values):
        np.save(folder / f"{i}.npy", value)
        flags += ["--source", str(folder / f"{i}.npy")]
    return flags


def whisper_features():
    random = np.random.default_rng(7)
    return [random.standard_normal((16, encoders.FRAMES), np.float32) for _ in range(3)]


@pytest.mark.parametrize("grid", grids("tp1", "tp2,dp2"))
def test_fixed_sources(tpcc, grid, tmp_path):
    """Whisper: all sources have 50 states. Two slots: one gets the caches of another source."""
    features = whisper_features()
    states = [states_of(source, "whisper")[0] for source in features]
    program = tpcc.compile(files_of("whisper")[1], grid, "--generate")
    slots = ["--max-batch", "4" if "dp" in grid else "2"]
    flags = ["--prompt-ids", "1", *whisper_sources(tmp_path, states), *slots]
    for tokens, source in zip(generate(program, *flags), features):
        check(tokens, source, prompt=(1,), family="whisper")
    flags = ["--prompt-ids", "1", *whisper_sources(tmp_path, [states[0][:49]])]
    program.call(flags, "threads").refused("[49, 32]", "takes [50, 32]")
    with Service(program, *slots, "--repetition-penalty", str(PENALTY)) as service:
        service.ask("numbers", [1], NEW, source=states[0].tolist())
        service.ask("file", [1], NEW, source=str(tmp_path / "1.npy"))
        wrong = {
            "short": (states[0][:49].tolist(), "[49, 32]", "takes [50, 32]"),
            "uneven": ([[1.0], [2.0, 3.0]], "lists of equal lengths"),
            "ids": ([3] * 50, "f32[50, 32]"),
            "absent": (str(tmp_path / "absent.npy"), "absent.npy"),
        }
        for name, (value, *_) in wrong.items():
            service.ask(name, [1], NEW, source=value)
        check(service.answer("numbers").tokens, features[0], prompt=(1,), family="whisper")
        check(service.answer("file").tokens, features[1], prompt=(1,), family="whisper")
        for name, (_, *words) in wrong.items():
            assert all(word in service.answer(name).message for word in words), name


# Running the encoder's kernels at small sizes takes a minute.
@pytest.mark.long
def test_fixed_sources_of_an_encoder(tpcc, tmp_path):
    """Whisper's encoder makes 50 states of 100 frames."""
    program = compile_pair(tpcc, "whisper", "tp2,pp2")
    features = whisper_features()
    found = generate(program, "--prompt-ids", "1", *whisper_sources(tmp_path, features))
    for tokens, source in zip(found, features):
        check(tokens, source, prompt=(1,), family="whisper")


def merge(path):
    """Writes a merged decoder as optimum's: of its branches, the one without a past is run."""
    model = onnx.load(DECODER)
    graph, helper = model.graph, onnx.helper
    results = [helper.make_value_info(output.name, output.type) for output in graph.output]
    use = helper.make_node("Identity", ["past_key_values.0.encoder.key"], ["logits"])
    branches = [
        helper.make_graph(nodes, "branch", [], results) for nodes in ([use], list(graph.node))
    ]
    names = ["batch", 4, "past", encoders.HIDDEN // 4]
    past = [
        helper.make_tensor_value_info(f"past_key_values.0.{part}", onnx.TensorProto.FLOAT, names)
        for part in ("decoder.key", "encoder.key")
    ]
    choice = helper.make_tensor_value_info("use_cache_branch", onnx.TensorProto.BOOL, [1])
    graph.input.extend([*past, choice])
    del graph.node[:]
    then, other = branches
    graph.node.append(
        helper.make_node(
            "If", ["use_cache_branch"], ["logits"], then_branch=then, else_branch=other
        )
    )
    onnx.save(model, path)
    return path


def test_merged_decoder(tpcc, tmp_path):
    merged = merge(tmp_path / "decoder_model_merged.onnx")
    program = tpcc.compile(merged, "tp2", "--encoder", ENCODER, "--generate")
    source = sources()[0]
    found = generate(program, "--prompt-ids", str(START), "--source", text_of(source))
    check(found[0], source)


@pytest.mark.parametrize("kind", ["f16", "q8"])
def test_other_types(tpcc, tmp_path, kind):
    """Files in 16 bits and of quantize_dynamic: logits close to those in f32."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    files = [tmp_path / path.name for path in (DECODER, ENCODER)]
    for path, other in zip((DECODER, ENCODER), files):
        if kind == "f16":
            onnx.save(halve(onnx.load(path), kind), other)
        else:
            int8 = quantization.QuantType.QInt8
            quantization.quantize_dynamic(path, other, weight_type=int8)
    program = tpcc.compile(files[0], "tp2", "--encoder", files[1], "--generate")
    source = sources()[0]
    logits = tmp_path / "logits.npy"
    flags = ["--source", text_of(source), "--logits", str(logits)]
    found = generate(program, "--prompt-ids", str(START), *flags, new=2)
    tokens, rows, _ = expected(source, new=2)
    assert found[0][0] == tokens[0]
    assert difference(np.load(logits)[:1], rows[:1]).relative <= (4e-3 if kind == "f16" else 0.1)


def test_refused(tpcc, tmp_path):
    """Flags and files that do not fit are named."""
    program = tpcc.compile(DECODER, "tp1", "--encoder", ENCODER, "--generate")
    prompt = ["--prompt-ids", str(START)]
    program.call(prompt, "threads").refused("no source", "--source")
    program.call([*prompt, "--source", "3,999"], "threads").refused("source token 999")
    program.call([*prompt, *prompt, "--source", "3"], "threads").refused("1 sources for 2 prompts")
    tpcc.call([MODELS / "gpt2-tiny.onnx", "--encoder", ENCODER, "-o", tmp_path / "p"]).refused(
        "no input 'encoder_hidden_states'"
    )
    model = onnx.load(ENCODER)
    model.graph.output[0].CopyFrom(
        onnx.helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["batch", "sequence"])
    )
    model.graph.node.append(onnx.helper.make_node("Identity", ["input_ids"], ["ids"]))
    onnx.save(model, tmp_path / "ids.onnx")
    tpcc.call([DECODER, "--encoder", tmp_path / "ids.onnx", "-o", tmp_path / "p"]).refused(
        "its output 0 is"
    )


def test_decoder_with_past(tpcc, tmp_path):
    """T5 by optimum: keys and values of cross-attention are inputs, which another file computes."""
    first, second = (MODELS / "t5" / f"decoder_{part}model.onnx" for part in ("", "with_past_"))
    encoder, _ = files_of("t5")
    program = tpcc.compile(second, "tp2", "--encoder", encoder, "--encoder", first, "--generate")
    given = [flag for source in sources() for flag in ("--source", text_of(source))]
    for prompt in ((0,), tuple(range(3, 40))):
        found = generate(program, "--prompt-ids", text_of(prompt), *given, "--prefill-chunk", "16")
        for tokens, source in zip(found, sources()):
            check(tokens, source, prompt=prompt, family="t5")
    logits = tmp_path / "logits.npy"
    flags = ["--source", text_of(sources()[0]), "--logits", str(logits)]
    generate(program, "--prompt-ids", "0", *flags)
    wanted = expected(sources()[0], (0,), family="t5")[1]
    assert difference(np.load(logits)[:4], wanted[:4]).relative <= 2e-5

"""ONNX multi-device fields as annotations, and shardings as fields (--emit=onnx-sharded)."""

import re

import numpy as np
import onnx
import pytest

import multidevice
from models import FAMILIES
from sharded_models import HEAD, MODELS, TABLE, TINY, load, program, run


def layers(model, name):
    return [f"transformer.h.{i}.{name}" for i in range(2)]


def shard_blocks(model, configuration, devices):
    """Splits the table, the head, and two weights of each layer in two, as in Megatron-LM."""
    multidevice.shard(model, configuration, TABLE, devices, {0: 2})
    multidevice.shard(model, configuration, HEAD, devices, {-1: 2})
    for name in layers(model, "attn.c_attn.weight"):
        # The dimension is queries, keys and values, times four heads, times the size of a head.
        multidevice.shard(model, configuration, name, devices, {1: [(3, 1), (4, 2), (8, 1)]})
    for name in layers(model, "mlp.c_fc.weight"):
        multidevice.shard(model, configuration, name, devices, {1: 2})


@pytest.mark.parametrize(
    "spec, devices",
    [
        ("tp2", [0, 1]),
        ("tp2,dp2", [[0, 2], [1, 3]]),
        ("tp2,dp2,order=dp-tp", [[0, 1], [2, 3]]),
        ("tp2,dp2,sp,mb2", [[0, 2], [1, 3]]),
    ],
)
def test_shards_of_weights_are_the_tensor_tactic(tmp_path, spec, devices):
    model = load()
    ranks = len(devices) if isinstance(devices[0], int) else 4
    multidevice.configure(model, "two-way", ranks)
    multidevice.configure(model, "other", 16)
    shard_blocks(model, "two-way", devices)
    if "dp2" in spec:
        copies = [list(group) for group in zip(*devices)]
        multidevice.shard(model, "two-way", "input_ids", copies, {0: 2})
    onnx.checker.check_model(model)
    path = tmp_path / "sharded.onnx"
    onnx.save(model, path)
    assert program(path, spec + ",manual") == program(TINY, spec)


def test_four_shards_on_two_axes(tmp_path):
    model = load()
    multidevice.configure(model, "four", 4)
    # Major factor over dp, minor factor over tp.
    multidevice.shard(model, "four", TABLE, [0, 1, 2, 3], {0: 4})
    path = tmp_path / "sharded.onnx"
    onnx.save(model, path)
    annotations = tmp_path / "annotations.txt"
    annotations.write_text(f"{TABLE}: [dp+tp, -]\n")
    spec = "tp2,dp2,manual"
    assert program(path, spec) == program(TINY, spec, f"--annotations={annotations}")


def test_pipeline_stages(tmp_path):
    model = load()
    multidevice.configure(model, "pipeline", 4)
    # Each stage has its own devices; the table is on the first, the head on the last.
    for tensor, stage in [(TABLE, 0), (HEAD, 1)]:
        multidevice.shard(
            model, "pipeline", tensor, [2 * stage, 2 * stage + 1], {0 if tensor == TABLE else 1: 2}
        )
    for stage, (qkv, fc1) in enumerate(
        zip(layers(model, "attn.c_attn.weight"), layers(model, "mlp.c_fc.weight"))
    ):
        multidevice.shard(
            model, "pipeline", qkv, [2 * stage, 2 * stage + 1], {1: [(3, 1), (4, 2), (8, 1)]}
        )
        multidevice.shard(model, "pipeline", fc1, [2 * stage, 2 * stage + 1], {1: 2})

    def stage_of(node):
        return (
            0
            if "/h.0/" in node.name
            else 1 if "/h.1/" in node.name or "/lm_head/" in node.name else None
        )

    multidevice.stage(model, "pipeline", stage_of)
    onnx.checker.check_model(model)
    path = tmp_path / "sharded.onnx"
    onnx.save(model, path)

    assert program(path, "tp2,pp2,manual") == program(TINY, "tp2,pp2")

    # Stages in the file take precedence over faster ones.
    def layers_of(lines, number):
        body = re.search(rf"@stage_{number}\(.*?\n  }}", "\n".join(lines), re.S)[0]
        return [f"transformer.h.{i}.mlp" in body for i in range(2)]

    other = program(TINY, "pp2")
    assert layers_of(other, 0) == [True, False] and layers_of(other, 1) == [False, True]
    model = load()
    multidevice.configure(model, "pipeline", 2)
    multidevice.stage(
        model,
        "pipeline",
        lambda node: 0 if "/h." in node.name else 1 if "/lm_head/" in node.name else None,
    )
    onnx.save(model, path)
    forced = program(path, "pp2")
    assert layers_of(forced, 0) == [True, True] and layers_of(forced, 1) == [False, False]


def test_stages_may_begin_within_layers(tmp_path):
    """Between attention and MLP, only the residual is live, so a stage may begin there."""
    model = load()
    multidevice.configure(model, "pipeline", 2)
    multidevice.stage(
        model,
        "pipeline",
        lambda node: 0 if "/h.0/attn/" in node.name else 1 if "/h.0/mlp/" in node.name else None,
    )
    path = tmp_path / "sharded.onnx"
    onnx.save(model, path)
    lines = program(path, "pp2")
    text = "\n".join(lines)
    bodies = [re.search(rf"@stage_{i}\(.*?\n  }}", text, re.S)[0] for i in range(2)]
    assert re.findall(r"call @(\w+)", bodies[0]) == ["layer_part_0"]
    assert re.findall(r"call @(\w+)", bodies[1]) == ["layer_part_1", "layer"]
    part = re.search(r"func private @layer_part_0\(.*?\n  }", text, re.S)[0]
    assert "tpc.attention" in part and "gelu" not in part


def test_stages_without_a_cut_position(tmp_path):
    def refused(stage_of):
        model = load()
        multidevice.configure(model, "pipeline", 2)
        multidevice.stage(model, "pipeline", stage_of)
        path = tmp_path / "sharded.onnx"
        onnx.save(model, path)
        return run(path, "--megatron-shard=pp2", "--emit=staged", fails=True)

    # Queries, keys and values of the first layer are in one stage, its attention in the next.
    error = refused(
        lambda node: {
            "/transformer/h.0/attn/c_attn/Gemm": 0,
            "/transformer/h.0/attn/MatMul_1": 1,
        }.get(node.name)
    )
    assert (
        "pipeline stage 1 cannot begin with '/transformer/h.0/attn/MatMul_1': between it and "
        "'/transformer/h.0/attn/c_attn/Gemm' more than one activation is live; it may begin with"
        in error
    )
    error = refused(
        lambda node: {"/transformer/h.0/mlp/c_fc/Gemm": 1, "/transformer/h.1/mlp/c_fc/Gemm": 0}.get(
            node.name
        )
    )
    assert "'/transformer/h.1/mlp/c_fc/Gemm' is in pipeline stage 0" in error
    assert "it uses a result of '/transformer/h.0/mlp/c_fc/Gemm' from stage 1" in error


@pytest.mark.parametrize(
    "model, spec",
    [
        ("gpt2-tiny-nopast", "tp2"),
        ("gpt2-tiny-nopast", "tp2,pp2,sp,mb2"),
        ("gpt2-odd-opset23", "tp2,dp2"),
        ("gpt2-odd-opset18", "tp8,pp4"),
        ("gpt2-tiny-nopast", "tp2x2"),
        ("gpt2-odd-nopast", "tp2x3,pp2,dp2,order=dp-tp-pp"),
        ("falcon-past", "tp3,pp2,dp2"),
        # The stages of nodes allow several cuts, of which tpcc must choose the original one.
        ("gemma2-dynamo", "tp2x4,pp2"),
        ("llama-dynamo", "tp4"),  # each kv head is on two ranks, for half of its query heads each
        ("mistral-dynamo", "pp2"),  # the second stage begins within a layer
        *(
            pytest.param(name, spec, marks=pytest.mark.long)
            for name in FAMILIES
            for spec in (
                "tp2",
                "tp4",
                "tp8",
                "tp2x2",
                "tp2x4",
                "pp2",
                "tp2x4,pp2",
                "tp2,sp",
                "tp3,pp2",
                "tp2x3",
            )
        ),
    ],
)
def test_written_files_compile_to_the_same_program(tmp_path, model, spec):
    source, path = MODELS / f"{model}.onnx", tmp_path / "sharded.onnx"
    run(source, f"--megatron-shard={spec}", "--emit=onnx-sharded", "-o", path)
    onnx.checker.check_model(path)
    written, original = onnx.load(path), onnx.load(source)
    assert written.configuration[0].num_devices == eval(
        "*".join(re.findall(r"(?:tp|pp|dp|x)(\d+)", spec.split(",order")[0]))
    )
    assert program(path, spec + ",manual") == program(source, spec)
    placed = [part for node in written.graph.node for part in node.device_configurations]
    stages = {part.pipeline_stage for part in placed if part.HasField("pipeline_stage")}
    assert stages == set(range(int(spec.split("pp")[1][0])) if "pp" in spec else ())
    # The rest of the file is unchanged, and writing it again gives the same bytes.
    again = tmp_path / "again.onnx"
    run(path, f"--megatron-shard={spec},manual", "--emit=onnx-sharded", "-o", again)
    assert again.read_bytes() == path.read_bytes()
    del written.configuration[:]
    for node in written.graph.node:
        del node.device_configurations[:]
    written.ir_version = original.ir_version
    assert written == original


@pytest.mark.parametrize(
    "spec, line, tensor, written",
    [
        # The residual sharded along its width: reduce-scattered, then gathered for the norm.
        (
            "tp2",
            "/transformer/h.?/Add_output_0: [-, -, tp]",
            "/transformer/h.1/Add_output_0",
            [(2, 2)],
        ),
        (
            "tp2,dp2,pp2,mb2",
            "/transformer/h.?/Add_output_0: [dp, -, tp]",
            "/transformer/h.0/Add_output_0",
            [(0, 2), (2, 2)],
        ),
        (
            "tp2x2",
            "/transformer/h.0/Add_output_0: [-, -, tpy]",
            "/transformer/h.0/Add_output_0",
            [(2, 2)],
        ),
        # Annotated as whole, although other tactics would split it.
        (
            "tp2",
            "/transformer/h.0/mlp/c_fc/Gemm_output_0: [-, -]",
            "/transformer/h.0/mlp/c_fc/Gemm_output_0",
            [],
        ),
        ("tp2", "transformer.h.1.mlp.c_fc.weight: [-, -]", "transformer.h.1.mlp.c_fc.weight", []),
    ],
)
def test_annotations_are_written(tmp_path, spec, line, tensor, written):
    path, annotations = tmp_path / "sharded.onnx", tmp_path / "annotations.txt"
    annotations.write_text(line + "\n")
    options = [f"--annotations={annotations}"]
    annotated = program(TINY, spec, *options)
    assert annotated != program(TINY, spec)
    run(TINY, f"--megatron-shard={spec}", *options, "--emit=onnx-sharded", "-o", path)
    model = onnx.load(path)
    onnx.checker.check_model(model)
    part = next(
        part
        for node in model.graph.node
        for devices in node.device_configurations
        for part in devices.sharding_spec
        if part.tensor_name == tensor
    )
    assert [(d.axis, d.simple_sharding[0].num_shards) for d in part.sharded_dim] == written
    assert program(path, spec + ",manual") == annotated


def test_open_entries_cannot_be_written(tmp_path):
    annotations = tmp_path / "annotations.txt"
    annotations.write_text("/transformer/h.0/Add_output_0: [-, ?, tp]\n")
    error = run(
        TINY,
        "--megatron-shard=tp2",
        f"--annotations={annotations}",
        "--emit=onnx-sharded",
        "-o",
        tmp_path / "sharded.onnx",
        fails=True,
    )
    assert re.search(
        r"the annotation \[-, \?, tp\] of value '/transformer/h.0/Add_output_0'"
        r" \(.*annotations.txt:1:1\) "
        "cannot be written to an ONNX file, which cannot express '\\?'",
        error,
    ), error
    assert not (tmp_path / "sharded.onnx").exists()


def test_external_data_stays_where_it_is(tmp_path):
    source = tmp_path / "model.onnx"
    onnx.save(load(), source, save_as_external_data=True, location="model.data", size_threshold=64)
    before = (tmp_path / "model.data").read_bytes()
    path = tmp_path / "sharded.onnx"
    run(source, "--megatron-shard=tp2", "--emit=onnx-sharded", "-o", path)
    onnx.checker.check_model(path)
    assert (tmp_path / "model.data").read_bytes() == before
    assert path.stat().st_size < source.stat().st_size + 20_000
    table = next(t for t in onnx.load(path).graph.initializer if t.name == TABLE)
    np.testing.assert_array_equal(
        onnx.numpy_helper.to_array(table), onnx.numpy_helper.to_array(load().graph.initializer[0])
    )
    assert program(path, "tp2,manual") == program(source, "tp2")
    # A file in another folder would not find the weights.
    (tmp_path / "elsewhere").mkdir()
    error = run(
        source,
        "--megatron-shard=tp2",
        "--emit=onnx-sharded",
        "-o",
        tmp_path / "elsewhere" / "x.onnx",
        fails=True,
    )
    assert (
        "would not find its weights" in error and not (tmp_path / "elsewhere" / "x.onnx").exists()
    )


def test_onnx_ir_reads_it(tmp_path):
    import onnx_ir as ir

    path = tmp_path / "sharded.onnx"
    run(TINY, "--megatron-shard=tp2,pp2", "--emit=onnx-sharded", "-o", path)
    model = ir.serde.deserialize_model(onnx.load(path))
    again = tmp_path / "again.onnx"
    ir.save(model, again)
    assert len(onnx.load(again).graph.node) == len(load().graph.node)

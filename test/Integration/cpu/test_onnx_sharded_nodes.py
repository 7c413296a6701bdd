"""ONNX multi-device fields of nodes: errors, pipeline stages, factors, configurations."""

import re
import subprocess

import numpy as np
import onnx
import pytest

import multidevice
from conftest import BIN
from sharded_models import HEAD, TABLE, load, program, run


def bad(tmp_path, spec, change, configuration=("c", 2)):
    model = load()
    multidevice.configure(model, *configuration)
    change(model)
    path = tmp_path / "bad.onnx"
    onnx.save(model, path)
    return run(path, f"--megatron-shard={spec}", "--emit=model", fails=True)


def test_refusals(tmp_path):
    def check(message, change, spec="tp2", configuration=("c", 2)):
        assert message in bad(tmp_path, spec, change, configuration)

    def shard(*arguments):
        return lambda model: multidevice.shard(model, "c", *arguments)

    gather = "tensor 'transformer.wte.weight' of node '/transformer/wte/Gather'"
    check("is cut into 2 parts, but lists 1 devices", shard(TABLE, [0], {0: 2}))
    check("names device 7; the configuration has devices 0 to 1", shard(TABLE, [0, 7], {0: 2}))
    check("names device 0 twice", shard(TABLE, [0, 0], {0: 2}))
    check(f"{gather} is cut along axis 2, but has 2 dimensions", shard(TABLE, [0, 1], {2: 2}))
    check(
        "is cut along axis 0 as if it had size 999; it has 1000",
        shard(TABLE, [0, 1], {0: [(999, 2)]}),
    )
    check(
        "is cut into 3 parts along axis 0; all cuts together must make 1 to 2 parts",
        shard(TABLE, [0, 1], {0: 3}),
    )
    check(
        "which match no axis of the grid",
        shard(TABLE, [[0, 3], [1, 2]], {0: 2}),
        "tp2,dp2",
        ("c", 4),
    )
    check(
        "is not on device 1, but on device 0 of the same pipeline stage",
        shard(TABLE, [0, 2], {0: 2}),
        "tp2,dp2",
        ("c", 4),
    )
    check(
        "has pipeline stages 0 to 3, but the grid has pp2; use pp4",
        lambda model: multidevice.stage(model, "c", lambda node: 3),
        "pp2",
    )
    check("is in pipeline stage -1", lambda model: multidevice.stage(model, "c", lambda node: -1))
    check(
        "has device configuration 'd', which the file does not define",
        lambda model: multidevice.stage(model, "d", lambda node: 0),
    )
    check(
        "there are two device configurations named 'c'",
        lambda model: multidevice.configure(model, "c", 4),
    )
    check(
        "2 device configurations of the file have 2 devices",
        lambda model: multidevice.configure(model, "e", 2),
    )
    check("device configuration 'c' has 0 devices", lambda model: None, "tp2", ("c", 0))

    check("is cut along axis 0 twice", shard(TABLE, [0, 1], {0: 2, -2: 1}))
    check(
        "is cut along a factor of axis 0 that has no size",
        lambda model: [
            spec.sharded_dim[0].simple_sharding.add(num_shards=1)
            for spec in [
                multidevice.shard(model, "c", TABLE, [0, 1], {0: [(500, 2)]})
                or multidevice.nodes_with(model, TABLE)[0].device_configurations[0].sharding_spec[0]
            ]
        ],
    )
    check(
        "is cut into 2 parts and lists no devices; the grid has 4 ranks",
        shard(TABLE, [], {0: 2}),
        "tp2,dp2",
        ("c", 4),
    )

    def groups(model):
        multidevice.shard(model, "c", TABLE, [[0], [1]], {0: 2})
        spec = multidevice.nodes_with(model, TABLE)[0].device_configurations[0].sharding_spec[0]
        spec.index_to_device_group_map[1].key = -1

    check("has two device groups with the index -1", groups)

    def foreign(model):
        multidevice.shard(model, "c", TABLE, [0, 1], {0: 2})
        multidevice.nodes_with(model, TABLE)[0].device_configurations[0].sharding_spec[
            0
        ].tensor_name = HEAD

    check("is none of the node's inputs and outputs", foreign)

    def specs(model):
        return [
            spec
            for node in multidevice.nodes_with(model, TABLE)
            for part in node.device_configurations
            for spec in part.sharding_spec
        ]

    def changed(change):
        def apply(model):
            multidevice.shard(model, "c", TABLE, [0, 1], {0: 2})
            change(specs(model)[0])

        return apply

    check(
        "has two sharding_specs",
        lambda model: [multidevice.shard(model, "c", TABLE, [0, 1], {0: 2}) for _ in "12"],
    )
    check(
        "has a device group without devices, of the index 1",
        changed(lambda spec: spec.index_to_device_group_map.add(key=1)),
    )
    check(
        "is cut along an unspecified dimension",
        changed(lambda spec: spec.sharded_dim[0].ClearField("axis")),
    )
    check(
        "does not specify the number of parts along axis 0",
        changed(lambda spec: spec.sharded_dim[0].ClearField("simple_sharding")),
    )
    check(
        "has 2 devices, but names 1; name all of them, or none",
        lambda model: model.configuration[0].device.append("gpu0"),
    )
    check(
        "a device configuration has no name", lambda model: model.configuration.add(num_devices=3)
    )

    def two(model):
        multidevice.shard(model, "c", "input_ids", [0, 1], {0: 2})
        spec = (
            multidevice.nodes_with(model, "input_ids")[1].device_configurations[0].sharding_spec[0]
        )
        spec.sharded_dim[0].axis = 1

    check("a tensor has one sharding", two, "dp2")


def layers_of_matmuls(tmp_path, count, change, spec):
    """Compiles x·w0, relu, ·w1, relu, … (nodes fc0, fc1, …) for a configuration of two devices."""
    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes, last = [], "x"
    for i in range(count):
        nodes += [
            node("MatMul", [last, f"w{i}"], [f"h{i}"], name=f"fc{i}"),
            node("Relu", [f"h{i}"], [f"r{i}"], name=f"relu{i}"),
        ]
        last = f"r{i}"
    weights = [
        onnx.numpy_helper.from_array(np.zeros((16, 16), np.float32), f"w{i}") for i in range(count)
    ]
    graph = onnx.helper.make_graph(
        nodes, "mlp", [info("x", 1, ["batch", 16])], [info(last, 1, ["batch", 16])], weights
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=11
    )
    multidevice.configure(model, "c", 2)
    change(model)
    path = tmp_path / "products.onnx"
    onnx.save(model, path)
    return subprocess.run(
        [BIN / "tpcc", path, f"--megatron-shard={spec}", "--emit=staged"],
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    "stages, to, source",
    [
        ((1, 0), 1, 0),
        ((0, 1, 0), 2, 1),
        ((1, None, 0), 2, 0),  # the node between them has no stage
        ((0, 1, None, 1, 0), 4, 3),
    ],
)
@pytest.mark.parametrize("first_last", [False, True], ids=["in order", "last node first"])
def test_stages_do_not_run_backwards(tmp_path, stages, to, source, first_last):
    def change(model):
        multidevice.stage(
            model, "c", lambda node: stages[int(node.name[-1])] if node.name[:2] == "fc" else None
        )
        if first_last:
            nodes = list(model.graph.node)
            del model.graph.node[:]
            model.graph.node.extend(reversed(nodes))

    # This is an error for every grid, even if each stage could rematerialize the first matmul.
    for spec in ("pp2", "pp1,tp2"):
        result = layers_of_matmuls(tmp_path, len(stages), change, spec)
        assert result.returncode == 1
        assert (
            f"node 'fc{to}' is in pipeline stage 0 of device configuration 'c', but it uses a"
            f" result of 'fc{source}' from stage 1" in result.stderr
        ), result.stderr


def test_stages_and_devices_agree(tmp_path):
    def compile_placed(stages, **devices):
        def change(model):
            multidevice.stage(model, "c", lambda node: stages.get(node.name))
            for tensor, device in devices.items():
                multidevice.shard(model, "c", tensor, [device], {})

        return layers_of_matmuls(tmp_path, 4, change, "pp2")

    result = compile_placed({"fc0": 0, "fc3": 1}, w0=1)
    assert result.returncode == 1
    assert (
        "tensor 'w0' of node 'fc0' is on device 1 of pipeline stage 1, but the node is on devices"
        " of stage 0, which has 0; list devices of the node's stage" in result.stderr
    )
    # Devices alone, which may be in descending order, also determine the stage.
    result = compile_placed({"fc3": 1}, w2=1)
    assert result.returncode == 0 and re.search(r"@stage_1\(.*?@w2 ", result.stdout, re.S)
    result = compile_placed({"fc0": 0, "fc1": 1, "fc3": 1}, w2=0)
    assert (
        result.returncode == 1
        and "'fc2' is annotated with pipeline stage 0, but it uses a result of 'fc1'"
        in result.stderr
    )
    # The matmul's operands are on different devices.
    result = compile_placed({"fc3": 1}, w1=0, r0=1)
    assert result.returncode == 1
    assert "of node 'fc1' is on device" in result.stderr and "but its tensor" in result.stderr


def shard_indices(size, factors, parts):
    """Returns the indices of a dimension in each shard. `factors` are (size, number of shards),
    major to minor; one of them is split.
    """
    inner, (f, n) = size, next(entry for entry in factors if entry[1] > 1)
    sets = [set() for _ in range(parts)]
    for factor, shards in factors:
        inner //= factor
        if shards > 1:
            break
    begins = [c * (f // n) + min(c, f % n) for c in range(n + 1)]
    for i in range(size):
        sets[next(c for c in range(n) if begins[c] <= i // inner % f < begins[c + 1])].add(i)
    return sets


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_ranks_have_the_shards_of_factors(tmp_path, ranks):
    """Shards are exactly those of the file, whether contiguous, strided or uneven."""
    lists = [[(a, 1), (b, 1)] for a, b in ((2, 12), (12, 2), (3, 8), (6, 4))] + [
        [(2, 1), (3, 1), (4, 1)]
    ]
    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    for factors in lists:
        for cut in range(len(factors)):
            wanted = [(size, ranks if i == cut else 1) for i, (size, _) in enumerate(factors)]
            weight = onnx.numpy_helper.from_array(np.zeros((5, 24), np.float32), "w")
            graph = onnx.helper.make_graph(
                [node("MatMul", ["x", "w"], ["y"], name="fc")],
                "fc",
                [info("x", 1, ["batch", 5])],
                [info("y", 1, ["batch", 24])],
                [weight],
            )
            model = onnx.helper.make_model(
                graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=11
            )
            multidevice.configure(model, "c", ranks)
            multidevice.shard(model, "c", "w", list(range(ranks)), {1: wanted})
            path = tmp_path / "factors.onnx"
            onnx.save(model, path)
            text = run(path, f"--megatron-shard=tp{ranks},manual", "--emit=staged", "--plain")
            dim = re.search(r"tpc.parameter @w : .*?#tpc.dist<\[5, ([^\]]*)\]", text)[1]
            made = [
                (int(size), ranks if axis else 1)
                for size, axis in re.findall(r"(\d+)(\{tp\})?", dim)
            ]
            assert shard_indices(24, made, ranks) == shard_indices(24, wanted, ranks), (wanted, dim)


def test_factors_of_a_fused_weight(tmp_path):
    """Halves of a fused projection do not correspond to a factor of its queries, keys and
    values."""
    model = load()
    multidevice.configure(model, "c", 2)
    multidevice.shard(
        model, "c", "transformer.h.0.attn.c_attn.weight", [0, 1], {1: [(2, 2), (48, 1)]}
    )
    path = tmp_path / "fused.onnx"
    onnx.save(model, path)
    error = run(path, "--megatron-shard=tp2", "--emit=staged", fails=True)
    assert "the model has no factor of 2 in dimension 1 (96) with these parts" in error
    assert "/transformer/h.0/attn/c_attn/Gemm' reads it as [32, 4 * 8]" in error


def test_nodes_that_call_functions_have_stages(tmp_path):
    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    opsets = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("local", 1)]
    function = onnx.helper.make_function(
        "local",
        "Fc",
        ["a", "b"],
        ["c"],
        [node("MatMul", ["a", "b"], ["m"], name="inside"), node("Relu", ["m"], ["c"])],
        opsets[:1],
    )
    weights = [
        onnx.numpy_helper.from_array(np.zeros((16, 16), np.float32), f"w{i}") for i in range(3)
    ]

    def compiled(stages, inside=None):
        nodes = [
            node(
                "Fc", [f"h{i}" if i else "x", f"w{i}"], [f"h{i + 1}"], domain="local", name=f"fc{i}"
            )
            for i in range(3)
        ]
        graph = onnx.helper.make_graph(
            nodes, "mlp", [info("x", 1, ["batch", 16])], [info("h3", 1, ["batch", 16])], weights
        )
        model = onnx.helper.make_model(
            graph, opset_imports=opsets, functions=[function], ir_version=11
        )
        multidevice.configure(model, "c", 2)
        multidevice.stage(model, "c", lambda node: stages.get(node.name))
        if inside:
            model.functions[0].node[0].device_configurations.add(
                configuration_id=inside, pipeline_stage=1
            )
        onnx.save(model, tmp_path / "model.onnx")
        return subprocess.run(
            [BIN / "tpcc", tmp_path / "model.onnx", "--megatron-shard=pp2", "--emit=staged"],
            capture_output=True,
            text=True,
        )

    for stages, first in (({"fc0": 0, "fc1": 1}, 1), ({"fc1": 0, "fc2": 1}, 2)):
        body = re.search(r"@stage_0\(.*?\n  }", compiled(stages).stdout, re.S)[0]
        assert [f"@w{i}" in body for i in range(3)] == [i < first for i in range(3)]
    assert (
        "the device configuration of node 'inside' is ignored"
        in compiled({"fc0": 0, "fc1": 1}, "c").stderr
    )
    result = compiled({"fc0": 0, "fc1": 1}, "d")
    assert result.returncode == 1 and "node 'inside' has device configuration 'd'" in result.stderr


def test_one_entry_for_each_node_and_configuration(tmp_path):
    def refused(change):
        result = layers_of_matmuls(tmp_path, 2, change, "pp2")
        assert result.returncode == 1
        return result.stderr

    def twice(model):
        multidevice.stage(model, "c", lambda node: {"fc0": 0, "fc1": 1}.get(node.name))
        model.graph.node[0].device_configurations.add(configuration_id="c", pipeline_stage=1)

    assert "node 'fc0' has two entries of device configuration 'c'; make them one" in refused(twice)

    def undefined(model):
        del model.configuration[:]
        multidevice.stage(model, "d", lambda node: 0)

    assert (
        "node 'fc0' has device configuration 'd', which the file does not define; it defines none"
        in refused(undefined)
    )

    def namesakes(model):
        multidevice.stage(model, "c", lambda node: {"fc0": 0, "fc1": 1}.get(node.name))
        for node in model.graph.node:
            node.name = "same" if node.name[:2] == "fc" else node.name

    assert "two nodes are named 'same', one in pipeline stage 0 and one in stage 1" in refused(
        namesakes
    )


def test_configurations_for_other_devices_are_named(tmp_path):
    model = load()
    multidevice.configure(model, "eight", 8)
    multidevice.shard(model, "eight", TABLE, list(range(8)), {0: 8})
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    result = subprocess.run(
        [BIN / "tpcc", path, "--megatron-shard=tp2", "--emit=staged", "-o", tmp_path / "out"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (
        "configurations are ignored: the grid has 2 ranks, but the file has 'eight' (8 devices)"
        in result.stderr
    )
    assert "has no device configuration 'nine'" in run(
        path, "--megatron-shard=tp2", "--emit=model", "--device-configuration=nine", fails=True
    )
    assert "has 8 devices, but the grid has 2 ranks" in run(
        path, "--megatron-shard=tp2", "--emit=model", "--device-configuration=eight", fails=True
    )


@pytest.mark.parametrize("inside", [False, True], ids=["in the graph", "in a function"])
def test_weights_of_constant_nodes(tmp_path, inside):
    """Shardings of weights in Constant nodes can be written, unless the nodes are in a function."""
    rng = np.random.default_rng(0)
    fc1, fc2 = (
        onnx.numpy_helper.from_array(rng.standard_normal(shape, dtype=np.float32), name)
        for name, shape in (("", (8, 64)), ("fc2", (64, 8)))
    )
    info, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
    product = [node("Constant", [], ["w"], value=fc1), node("MatMul", ["x", "w"], ["h"])]
    opsets = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("local", 1)]
    functions = (
        [onnx.helper.make_function("local", "Fc1", ["x"], ["h"], product, opsets[:1])]
        if inside
        else []
    )
    first = [node("Fc1", ["x"], ["h"], domain="local")] if inside else product
    graph = onnx.helper.make_graph(
        first + [node("MatMul", ["h", "fc2"], ["y"])],
        "mlp",
        [info("x", 1, ["batch", 8])],
        [info("y", 1, ["batch", 8])],
        [fc2],
    )
    source, path = tmp_path / "mlp.onnx", tmp_path / "sharded.onnx"
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10),
        source,
    )
    if inside:
        error = run(source, "--megatron-shard=tp2", "--emit=onnx-sharded", "-o", path, fails=True)
        assert (
            "sharding of 'w' cannot be written: no node of the file's graph has it" in error
            and not path.exists()
        )
        return
    run(source, "--megatron-shard=tp2", "--emit=onnx-sharded", "-o", path)
    assert program(path, "tp2,manual") == program(source, "tp2")


def test_tensors_that_the_program_lacks_are_warnings(tmp_path):
    model = load()
    multidevice.configure(model, "c", 2)
    # A shape, which is computed at compile time.
    multidevice.shard(model, "c", "/transformer/Shape_output_0", [0, 1], {0: 2})
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    result = subprocess.run(
        [BIN / "tpcc", path, "--megatron-shard=tp2", "--emit=staged", "-o", tmp_path / "out"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "the sharding of tensor '/transformer/Shape_output_0'" in result.stderr
    assert "is ignored: the imported program has no such tensor" in result.stderr

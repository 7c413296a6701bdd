"""Invalid files and options: an error of the compiler, without crash, hang or partial output."""

import os
import shutil

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness import run, sanitized, tool
from models import COMMITTED, MODELS
from tpc import onnxfile

TINY = COMMITTED["gpt2-mlp"].path
ODD = COMMITTED["gpt2-odd-opset20"].path


@pytest.fixture
def refuse(tpcc, tmp_path):
    """Returns a check that compilation fails with given words and leaves the output folder
    unchanged.
    """

    def check(model, *words, shard="tp2", timeout=60, arguments=()):
        out = tmp_path / "out"
        out.mkdir(exist_ok=True)
        result = tpcc.call(
            [model, f"--megatron-shard={shard}", "-o", out / "model", *arguments], timeout=timeout
        )
        result.refused(*words)
        assert not list(out.iterdir()), f"left behind: {list(out.iterdir())}"
        return result

    return check


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.SerializeToString())
    return path


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(nodes, initializers=(), shape=("batch", 4), out_shape=None, opset=18):
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, list(shape))],
        [value("y", TensorProto.FLOAT, out_shape)],
        list(initializers),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def matrix(name="w", rows=4, columns=4):
    return numpy_helper.from_array(np.ones((rows, columns), np.float32), name)


# ---- files that are not models ----


@pytest.mark.parametrize(
    "data", [b"", b"garbage", b"\x00" * 4096, b"\x08\x0a" * 50, b"\xff" * 1000], ids=repr
)
def test_garbage(refuse, tmp_path, data):
    refuse(write(tmp_path / "bad.onnx", data), "bad.onnx")


@pytest.mark.parametrize("fraction", [0.01, 0.3, 0.5, 0.9, 0.999])
def test_truncated(refuse, tmp_path, fraction):
    data = ODD.read_bytes()
    refuse(write(tmp_path / "cut.onnx", data[: int(len(data) * fraction)]), "cut.onnx")


def test_missing_files(refuse, tmp_path):
    refuse(tmp_path / "absent.onnx", "absent.onnx")


def test_a_directory(refuse, tmp_path):
    refuse(tmp_path, tmp_path.name)


def test_empty_file(refuse, tmp_path):
    refuse(write(tmp_path / "m.onnx", onnx.ModelProto(ir_version=10)))


@pytest.mark.parametrize("seed", range(24))
def test_mutated_bytes(tpcc, tmp_path, seed):
    """A model with corrupted bytes is rejected or compiles, but never crashes the compiler."""
    random = np.random.default_rng(seed)
    data = bytearray(TINY.read_bytes())
    # Weights are most of a file and rarely matter, so half of the mutations are in the nodes.
    begin = data.find(b"node_") if seed % 2 else 0
    for _ in range(int(random.integers(1, 12))):
        position = int(random.integers(begin, min(len(data), begin + 4000)))
        if random.random() < 0.5:
            data[position] = int(random.integers(0, 256))
        elif random.random() < 0.5:
            del data[position : position + int(random.integers(1, 9))]
        else:
            data[position:position] = random.bytes(int(random.integers(1, 9)))
    out = tmp_path / "out"
    result = tpcc.call(
        [write(tmp_path / "mutated.onnx", bytes(data)), "--megatron-shard=tp2", "-o", out],
        timeout=60,
    )
    if result.returncode == 0 and not result.timed_out:
        assert out.exists()
    else:
        result.refused()
        assert not out.exists()


def mutate_model(random, model):
    """Makes one structural error in a well-formed protobuf."""
    graph = model.graph
    kind = int(random.integers(0, 7))
    node = graph.node[int(random.integers(len(graph.node)))]
    tensor = graph.initializer[int(random.integers(len(graph.initializer)))]
    if kind == 0 and node.input:
        names = [output for other in graph.node for output in other.output] + [
            t.name for t in graph.initializer
        ]
        node.input[int(random.integers(len(node.input)))] = names[int(random.integers(len(names)))]
    elif kind == 1:
        node.op_type = graph.node[int(random.integers(len(graph.node)))].op_type
    elif kind == 2 and tensor.dims:
        index = int(random.integers(len(tensor.dims)))
        tensor.dims[index] = int(random.choice([0, 1, tensor.dims[index] + 1, 2**31, 2**62, -1]))
    elif kind == 3 and node.attribute:
        attribute = node.attribute[int(random.integers(len(node.attribute)))]
        attribute.i = int(random.choice([-1, 7, 2**40, -(2**63)]))
        attribute.ints[:] = [int(random.choice([-9, 0, 3, 2**40]))] * int(random.integers(0, 5))
    elif kind == 4:
        del node.input[int(random.integers(len(node.input) + 1)) :]
    elif kind == 5:
        tensor.data_type = int(random.choice([0, 2, 7, 9, 10, 11, 16, 99]))
    else:
        del graph.node[int(random.integers(len(graph.node)))]
    return model


@pytest.mark.parametrize("name", ["gpt2-mlp", "gpt2-layer", "gpt2-layer-opset23"])
@pytest.mark.parametrize("seed", range(16))
def test_mutated_structure(tpcc, tmp_path, name, seed):
    random = np.random.default_rng([seed, len(name)])
    model = onnx.load(COMMITTED[name].path)
    for _ in range(int(random.integers(1, 4))):
        mutate_model(random, model)
    out = tmp_path / "out"
    result = tpcc.call(
        [write(tmp_path / "lies.onnx", model), "--megatron-shard=tp2", "-o", out], timeout=60
    )
    if result.returncode == 0 and not result.timed_out:
        assert out.exists()
    else:
        result.refused()
        assert not out.exists()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_mutated_structure_at_length(tpcc, tmp_path, seed):
    test_mutated_structure(
        tpcc, tmp_path, ["gpt2-mlp", "gpt2-layer", "gpt2-odd-nopast"][seed % 3], seed
    )


# ---- inconsistent models ----


def test_cycle(refuse, tmp_path):
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], "first"),
        helper.make_node("Add", ["a", "x"], ["b"], "second"),
        helper.make_node("Identity", ["b"], ["y"], "third"),
    ]
    refuse(write(tmp_path / "cycle.onnx", model_of(nodes)), "cycle")


def test_undefined_value(refuse, tmp_path):
    refuse(
        write(
            tmp_path / "m.onnx", model_of([helper.make_node("Add", ["x", "nowhere"], ["y"], "sum")])
        ),
        "nowhere",
    )


def test_value_defined_twice(refuse, tmp_path):
    nodes = [
        helper.make_node("Relu", ["x"], ["y"], "one"),
        helper.make_node("Tanh", ["x"], ["y"], "two"),
    ]
    refuse(write(tmp_path / "m.onnx", model_of(nodes)), "y")


def test_unsupported_operations_are_listed_together(refuse, tmp_path):
    nodes = [
        helper.make_node("NoSuchOp", ["x"], ["a"], "left", domain="my.domain"),
        helper.make_node("OtherOp", ["a"], ["y"], "right"),
    ]
    model = model_of(nodes)
    model.opset_import.append(helper.make_opsetid("my.domain", 3))
    refuse(
        write(tmp_path / "m.onnx", model), "NoSuchOp", "left", "my.domain", "OtherOp", "right", "18"
    )


def test_matmul_of_different_sizes(refuse, tmp_path):
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], [matrix(rows=5)])
    refuse(write(tmp_path / "m.onnx", model), "product", "4", "5")


def test_wrong_declared_shape(tpcc, tmp_path):
    """Declared sizes of outputs are hints: the program has the inferred sizes."""
    model = model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
        [matrix(columns=6)],
        out_shape=["batch", 9],
    )
    path = write(tmp_path / "m.onnx", model)
    result = tpcc.call([path, "--megatron-shard=tp2", "-o", tmp_path / "model"]).check()
    assert "'y' is declared with shape [batch, 9], but it is [batch, 6]" in result.stderr


def test_tensor_with_too_little_data(refuse, tmp_path):
    weight = matrix()
    weight.raw_data = weight.raw_data[:-8]
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], [weight])
    refuse(write(tmp_path / "m.onnx", model), "w")


@pytest.mark.parametrize("dims", [[-1, 4], [2**40, 2**40], [2**62, 4]], ids=str)
def test_tensor_of_impossible_size(refuse, tmp_path, dims):
    weight = matrix()
    weight.dims[:] = dims
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], [weight])
    refuse(write(tmp_path / "m.onnx", model), "w")


def test_large_constant_in_shape_arithmetic(refuse, tmp_path):
    """A file may request a constant of a terabyte in ten bytes."""
    shape = numpy_helper.from_array(np.array([1 << 20, 1 << 20], np.int64), "shape")
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["big"], "fill"),
        helper.make_node("ReduceSum", ["big"], ["s"], "sum"),
        helper.make_node("Add", ["x", "s"], ["y"], "add"),
    ]
    out = tmp_path / "big"
    result = run(
        [tool("tpcc"), write(tmp_path / "m.onnx", model_of(nodes, [shape])), "-o", out],
        timeout=60,
        limit_bytes=None if sanitized() else 4 << 30,
    )
    assert result.returncode == 0 and out.exists() or result.refused()


# ---- external data ----


def external_model(location, offset=0, length=64, dims=(4, 4)):
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims)
    onnxfile.set_external(weight, str(location), offset, length)
    return model_of([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], [weight])


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret.bin"
    path.write_bytes(b"s" * 4096)
    return path


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    return path


def test_external_data_above_the_model(refuse, folder, secret):
    refuse(write(folder / "m.onnx", external_model("../secret.bin")), "../secret.bin", "w")


def test_external_data_above_the_model_by_a_detour(refuse, folder, secret):
    (folder / "sub").mkdir()
    refuse(write(folder / "m.onnx", external_model("sub/../../secret.bin")), "secret.bin")


def test_external_data_at_an_absolute_path(refuse, folder, secret):
    refuse(write(folder / "m.onnx", external_model(secret)), "secret.bin")


def test_external_data_behind_a_symlink(refuse, folder, secret):
    (folder / "data.bin").symlink_to(secret)
    refuse(write(folder / "m.onnx", external_model("data.bin")), "data.bin")


def test_external_data_in_a_folder_behind_a_symlink(refuse, folder, secret):
    (folder / "sub").symlink_to(secret.parent)
    refuse(write(folder / "m.onnx", external_model("sub/secret.bin")), "secret.bin")


def test_external_data_on_a_device(refuse, folder):
    os.mkfifo(folder / "pipe")
    refuse(write(folder / "m.onnx", external_model("pipe")), "pipe")


@pytest.mark.parametrize(
    "location",
    ["", ".", "..", "sub/", "a\0b", "x" * 5000],
    ids=["empty", "dot", "dots", "folder", "nul", "long"],
)
def test_missing_external_data(refuse, folder, location):
    (folder / "sub").mkdir()
    refuse(write(folder / "m.onnx", external_model(location)))


@pytest.mark.parametrize(
    "offset,length",
    [(4090, 64), (-4, 64), (2**63 - 1, 64), (0, 32), (0, -1), ("abc", 64), (0, "1e3")],
    ids=str,
)
def test_external_data_outside_its_file(refuse, folder, offset, length):
    (folder / "data.bin").write_bytes(b"\0" * 4096)
    refuse(write(folder / "m.onnx", external_model("data.bin", offset, length)), "w")


def test_external_data_in_a_hugging_face_cache(tpcc, tmp_path):
    """A snapshot is a folder of links to files named by their digests, for model and data."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "0123"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    onnxfile.save(onnx.load(TINY), blobs / "tiny.onnx", external_data=True)
    (blobs / "tiny.onnx").rename(blobs / "a1b2c3")
    (blobs / "tiny.onnx.data").rename(blobs / "d4e5f6")
    (snapshot / "tiny.onnx").symlink_to("../../blobs/a1b2c3")
    (snapshot / "tiny.onnx.data").symlink_to("../../blobs/d4e5f6")
    executable = tpcc.compile(snapshot / "tiny.onnx", "tp2")
    model = COMMITTED["gpt2-mlp"]
    inputs = model.inputs(2, 3)
    np.testing.assert_allclose(
        executable.run(inputs, ["output"])["output"], model.expected(inputs), atol=1e-5
    )


# ---- options ----


@pytest.mark.parametrize(
    "shard,words",
    [
        ("", []),
        ("tp", ["tp"]),
        ("tp0", ["tp0"]),
        ("tp-2", ["tp-2"]),
        ("tp2,tp4", ["tp"]),
        ("xx4", ["xx4"]),
        ("tp2;pp2", []),
        ("tp99999999999999999999", []),
        ("tp2,,pp2", []),
        ("tp2,", []),
        ("sp4", ["sp"]),
        ("tp2.5", []),
        ("tp 2", []),
        ("tp2,order=tp-xx-pp", ["xx"]),
        ("tp2,order=tp-tp-pp", ["order"]),
        ("tp2,pp2,order=tp", ["pp"]),
        ("mb0", ["mb"]),
        ("tp2147483648,dp2147483648,pp4", []),
        ("ep2", ["ep"]),
        ("cp2", ["cp"]),
        ("tp2,vpp2", ["write pp2,vpp2"]),
    ],
    ids=str,
)
def test_malformed_grids(refuse, shard, words):
    refuse(ODD, *words, shard=shard)


def test_sequence_parallelism_on_one_rank(tpcc, tmp_path):
    """sp on one rank is either an error or a working program."""
    result = tpcc.call([ODD, "--megatron-shard=sp", "-o", tmp_path / "m"])
    assert result.returncode == 0 or result.refused("sp")


@pytest.mark.parametrize("shard", ["tp4096", "tp100000"])
def test_more_ranks_than_any_dimension(refuse, shard):
    refuse(ODD, "tp", shard=shard)


def test_more_stages_than_layers(tpcc, tmp_path):
    out = tmp_path / "m"
    result = tpcc.call([ODD, "--megatron-shard=pp64", "-o", out])
    result.refused("pp64" if "pp64" in result.stderr else "64")
    assert not out.exists()


def test_unwritable_output(tpcc, tmp_path):
    tpcc.call(
        [TINY, "--megatron-shard=tp2", "-o", tmp_path / "no" / "such" / "folder" / "m"]
    ).refused("folder")
    (tmp_path / "taken").mkdir()
    tpcc.call([TINY, "--megatron-shard=tp2", "-o", tmp_path / "taken"]).refused("taken")
    assert not list((tmp_path / "taken").iterdir())
    tpcc.call([TINY, "--megatron-shard=tp2", "-o", "/proc/model"]).refused("/proc/model")


def test_failed_compilation_keeps_the_old_executable(tpcc, tmp_path):
    out = tmp_path / "model"
    tpcc.call([TINY, "--megatron-shard=tp2", "-o", out]).check()
    before = out.read_bytes()
    tpcc.call(
        [write(tmp_path / "bad.onnx", b"garbage"), "--megatron-shard=tp2", "-o", out]
    ).refused()
    assert out.read_bytes() == before


def test_unknown_level(refuse):
    refuse(TINY, "emit", arguments=["--emit=poem"])


def test_report_without_its_shape(tpcc, tmp_path):
    report = tmp_path / "r.json"
    tpcc.call([ODD, "--megatron-shard=tp2", f"--report={report}"]).refused("batch", "sequence")
    assert not report.exists()


@pytest.mark.parametrize(
    "shape",
    ["batch", "batch=", "batch=x", "batch=-1,sequence=2", "batch=2,batch=3,sequence=1", "=3"],
)
def test_malformed_shapes(tpcc, tmp_path, shape):
    report = tmp_path / "r.json"
    tpcc.call([ODD, "--megatron-shard=tp2", f"--report={report}", "--shape", shape]).refused()
    assert not report.exists()


def test_unusual_file_names(tpcc, tmp_path):
    path = tmp_path / "a model; with $(odd) 'name' é.onnx"
    shutil.copyfile(MODELS / "gpt2-mlp.onnx", path)
    executable = tpcc.compile(path, "tp2")
    model = COMMITTED["gpt2-mlp"]
    inputs = model.inputs(1, 2)
    np.testing.assert_allclose(
        executable.run(inputs, ["output"])["output"], model.expected(inputs), atol=1e-5
    )


def test_dangling_links(tpcc, tmp_path):
    """An output that is a symbolic link stays a link. Its target is written, even if it does not
    exist.
    """
    (tmp_path / "folder").mkdir()
    for link, target in (
        ("program", "folder/program"),
        ("loop", "loop"),
        ("nowhere", "no/folder/program"),
    ):
        (tmp_path / link).symlink_to(target)
    tpcc.call([TINY, "-o", tmp_path / "program"]).check()
    assert (tmp_path / "program").is_symlink() and os.access(
        tmp_path / "folder" / "program", os.X_OK
    )
    for link in ("loop", "nowhere"):
        tpcc.call([TINY, "-o", tmp_path / link]).refused("cannot write", link)
        assert (tmp_path / link).is_symlink()
    assert [entry.name for entry in (tmp_path / "folder").iterdir()] == ["program"]


@pytest.mark.parametrize("kibibytes", [8, 100])
def test_full_disk(tpcc, tmp_path, kibibytes):
    """The disk is full before the object is written, or during the link (where mmap would cause
    SIGBUS).
    """
    small = tmp_path / "small"
    small.mkdir()
    # A private mount, which ends with the shell.
    script = (
        f"mount -t tmpfs -o size={kibibytes}k tmpfs {small} || exit 77; {tool('tpcc')} {TINY} -o"
        f" {small}/m; code=$?; ls -A {small}; exit $code"
    )
    result = run(["unshare", "-rm", "bash", "-c", script])
    if result.returncode == 77 or "unshare" in result.stderr:
        pytest.skip("mounting: no permission")
    result.refused("cannot write", "No space left on device")
    assert result.stdout == "", result

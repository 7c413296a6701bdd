"""tpcc --certificate and tpc-check-certificate: proofs accepted, tampered ones rejected."""

import copy
import json

import pytest

import harness
from models import FAMILIES, MODELS

PROGRAMS = [
    ("gpt2-tiny-nopast", "tp2,pp2,dp2,mb2,sp"),
    ("gpt2-odd-nopast", "tp3,pp3,mb4"),
    ("gpt2-odd-nopast", "tp8,pp2,dp3,order=pp-dp-tp"),
    ("gpt2-differing-layers", "tp2,sp"),
    ("gpt2-layer-opset23", "tp4"),
    ("gpt2-mlp", "tp2,dp2"),
    ("gpt2-tiny-nopast", "tp1"),
    ("bloom-past", "tp3,pp2,mb2"),
    ("gemma2-past", "tp2,sp"),
    ("llama-past", "tp2x2,pp2"),
]
LONG = [(name, grid) for name in FAMILIES for grid in ("tp2", "tp4,sp,pp3")]


def certify(tmp_path, model, grid, *flags):
    proof, staged = tmp_path / "proof.json", tmp_path / "staged.mlir"
    harness.run(
        [
            harness.tool("tpcc"),
            MODELS / f"{model}.onnx",
            f"--megatron-shard={grid}",
            f"--certificate={proof}",
            "--emit=staged",
            "-o",
            staged,
            *flags,
        ]
    ).check()
    return proof, staged


def check(*files):
    return harness.run([harness.tool("tpc-check-certificate"), *files], timeout=60)


def hash_of(schedule) -> str:
    """Returns the hash, as the compiler and the checker compute it."""
    value = 0xCBF29CE484222325
    for byte in json.dumps(
        schedule, separators=(",", ":"), sort_keys=True, ensure_ascii=False
    ).encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD % 2**64
    return f"{value ^ value >> 33:016x}"


def tamper(node):
    """Yields all trees that differ from `node` in one node."""
    if isinstance(node, dict):
        for key in node:
            yield {k: v for k, v in node.items() if k != key}
            for other in tamper(node[key]):
                yield {**node, key: other}
    elif isinstance(node, list):
        for i in range(len(node)):
            yield node[:i] + node[i + 1 :]
            yield node[:i] + [node[i]] + node[i:]
            if i + 1 < len(node) and node[i] != node[i + 1]:
                yield node[:i] + [node[i + 1], node[i]] + node[i + 2 :]
            for other in tamper(node[i]):
                yield node[:i] + [other] + node[i + 1 :]
    elif isinstance(node, int):
        yield node + 1
        yield node - 1
        yield 10**18
    elif isinstance(node, str):
        for other in (
            "tp",
            "dp",
            "pp",
            "mb",
            "all_reduce",
            "all_gather",
            "send",
            "max",
            "sum",
            "f16",
            "7",
            "",
        ):
            if other != node:
                yield other
    else:
        yield "batch"


@pytest.mark.parametrize(
    "model, grid", PROGRAMS + [pytest.param(*pair, marks=pytest.mark.long) for pair in LONG]
)
def test_accepts(tmp_path, model, grid):
    proof, staged = certify(tmp_path, model, grid)
    assert "no deadlock" in check(proof).check().stdout
    check(proof, staged).check()


def test_accepts_the_executable_and_refuses_another(tmp_path, tpcc):
    proof = tmp_path / "proof.json"
    model = MODELS / "gpt2-mlp.onnx"
    for name, grid in (("one", "tp2"), ("two", "tp4")):
        harness.run(
            [
                harness.tool("tpcc"),
                model,
                f"--megatron-shard={grid}",
                f"--certificate={proof}",
                "-o",
                tmp_path / name,
            ]
        ).check()
    check(proof, tmp_path / "two").check()
    check(proof, tmp_path / "one").refused("the program has a different schedule")
    check(proof, "/bin/true").refused("the program has no schedule")
    check(tmp_path / "absent").refused("cannot read")
    check(model).refused("parse_error")
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 1000000)
    check(deep).refused("it is nested too deeply")


def find(node, accepts):
    """Returns the first object in a tree that the predicate accepts."""
    if isinstance(node, dict) and accepts(node):
        return node
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    return next((found for found in (find(item, accepts) for item in inner) if found), None)


def collective(proof):
    return find(proof["schedule"]["functions"], lambda item: "reduction" in item)


def factor(proof):
    return find(collective(proof), lambda item: "size" in item)


def loop(proof, stage=0):
    return find(proof["schedule"]["stages"][stage], lambda item: "loop" in item)


def transfer(proof, kind):
    return find(proof["schedule"]["stages"], lambda item: item.get("op") == kind)


def drop_receive(proof):
    body = loop(proof, 2)["body"]
    body.remove(find(body, lambda item: item.get("op") == "recv"))
    proof["progress"][2] = []


def add_chain(proof):
    functions = proof["schedule"]["functions"]
    functions |= {f"f{i:03}": [{"call": f"f{i + 1:03}", "times": 1}] for i in range(200)} | {
        "f200": []
    }


SUM = {"op": "all_reduce", "type": "f32", "dims": [], "reduction": "sum"}
REFUSALS = {
    "'grid' is missing in": lambda p: p["schedule"].pop("grid"),
    "'micro_batches' is not a number in": lambda p: p["schedule"]["grid"].update(micro_batches="x"),
    "not a string: 7": lambda p: p["schedule"]["grid"]["order"].insert(0, 7),
    "axis 'tp' is invalid": lambda p: p["schedule"]["grid"]["sizes"].update(tp=0),
    "the grid has sizes of axes that are not in its order": (
        lambda p: p["schedule"]["grid"]["sizes"].update(xp=1)
    ),
    "there are no micro-batches": lambda p: p["schedule"]["grid"].update(micro_batches=0),
    "'xp' cannot split": lambda p: factor(p).update(axes=["xp"]),
    "not a factor": lambda p: factor(p).update(also=1),
    "not a dimension": lambda p: find(collective(p), lambda item: "factors" in item).update(also=1),
    "a group must have distinct axes": lambda p: collective(p).update(over=["tp", "tp"]),
    "'xp' is not an axis of ranks": lambda p: collective(p).update(over=["xp"]),
    "ranks that differ on 'dp' may have different numbers of iterations": (
        lambda p: loop(p)["body"].append(SUM | {"over": ["dp"]})
    ),
    "'dim' is not a dimension": lambda p: collective(p).update(op="all_gather", dim=9),
    "the root is no member": lambda p: collective(p).update(op="broadcast", root=9),
    "unknown collective 'shout'": lambda p: collective(p).update(op="shout"),
    "unknown reduction 'mean'": lambda p: collective(p).update(reduction="mean"),
    "'also' is not a field of": lambda p: collective(p).update(also=1),
    "a type is missing": lambda p: collective(p).update(type=32),
    "members of the group do not have the same size": lambda p: collective(p).update(over=["dp"]),
    "not a list of communication": lambda p: p["schedule"]["functions"].update(other={}),
    "invalid call of 'f'": (
        lambda p: p["schedule"]["functions"].update(e=[{"call": "f", "times": 0}], f=[])
    ),
    "'f' is recursive, or nested too deeply": (
        lambda p: p["schedule"]["functions"].update(f=[{"call": "f", "times": 1}])
    ),
    "'f102' is recursive, or nested too deeply": add_chain,
    "a loop is not allowed here": lambda p: loop(p)["body"].append({"loop": None, "body": []}),
    "a certificate cannot prove that ranks take the same branch": (
        lambda p: loop(p)["body"].append({"then": [], "else": []})
    ),
    "not a transfer": lambda p: transfer(p, "send").update(also=1),
    "schedule and proof must have one list for each stage": lambda p: p["schedule"]["stages"].pop(),
    "stages communicate more than 100000 times": lambda p: (
        p["schedule"]["functions"].update(f=[SUM | {"over": ["pp"]}]),
        loop(p)["body"].append({"call": "f", "times": 200000}),
    ),
    "stage 1: the proof has ": (lambda p: p["progress"][1].append({})),
    "stage 1: the proof must have ascending positions, and a time for each communication": (
        lambda p: p["progress"][1][0]["times"].append(99)
    ),
    "a time is not a number": lambda p: p["progress"][1][0]["times"].__setitem__(0, "x"),
    "stage 1: times do not ascend": lambda p: p["progress"][1][0]["times"].reverse(),
    "stage 1: iterations of a loop overlap in time": lambda p: p["progress"][1][0].update(period=0),
    "stage 9 is not another stage": lambda p: transfer(p, "send").update(to=9),
    "from stage 1 to 2: one side has 1, the other 0": drop_receive,
    "from stage 0 to 1: sides differ": lambda p: transfer(p, "recv").update(type="f16"),
    "from stage 0 to 1: sides are in different loops": lambda p: loop(p, 1).update(loop=None),
    "from stage 0 to 1: sides have different numbers": (
        lambda p: p["progress"][0][0].update(period=99)
    ),
    "a group is not one of the grid's": lambda p: p["groups"][0]["members"].append(99),
    "the listed groups are not those of the collectives": lambda p: p["groups"].pop(),
    "not a certificate of format 1": lambda p: p.update(format=2),
    "an output is not delivered exactly once": (
        lambda p: loop(p, 2)["body"].append({"op": "output", "index": 0})
    ),
    "the hash is not that of the schedule": lambda p: p.update(hash="0" * 16),
}


def test_errors_name_the_reason(tmp_path):
    good = json.loads(certify(tmp_path, "gpt2-odd-nopast", "tp2,pp3,dp2,mb2")[0].read_text())
    file = tmp_path / "tampered.json"
    for why, change in REFUSALS.items():
        bad = copy.deepcopy(good)
        change(bad)
        file.write_text(json.dumps(bad))
        check(file).refused(f"refused: {why}")


def count_refusals(tmp_path, model, grid, step):
    """Makes every `step`-th change of a proof (`tamper`) and counts the verdicts. With a correct
    hash, the changed proof may be a valid one of another program.
    """
    proof, staged = certify(tmp_path, model, grid)
    good = json.loads(proof.read_text())
    assert hash_of(good["schedule"]) == good["hash"]
    file = tmp_path / "tampered.json"
    count = {"refused": 0, "refused with the right hash": 0, "another program": 0}
    for i, bad in enumerate(tamper(good)):
        if i % step or bad == good:
            continue
        file.write_text(json.dumps(bad))
        check(file).refused("refused")
        count["refused"] += 1
        if bad.get("schedule") == good["schedule"] or not bad.get("schedule"):
            continue
        bad = copy.deepcopy(bad)
        bad["hash"] = hash_of(bad["schedule"])
        file.write_text(json.dumps(bad))
        alone = check(file)
        assert not alone.timed_out and alone.returncode in (0, 1), alone
        count["refused with the right hash" if alone.returncode else "another program"] += 1
        check(file, staged).refused("refused")
    print(model, grid, count)
    return count


def test_refuses_tampered(tmp_path):
    count = count_refusals(tmp_path, "gpt2-tiny-nopast", "tp2,pp2,dp2,mb2,sp", 13)
    assert count["refused"] >= 100 and count["refused with the right hash"] >= 30


TOKENS = {
    "only one of schedule and proof has tokens": lambda p: p.pop("tokens"),
    "tokens are not sent from the last stage to all others": (
        lambda p: p["schedule"]["tokens"]["to"].pop()
    ),
    "the number of steps in flight exceeds the number of stages": (
        lambda p: p["schedule"]["tokens"].update(in_flight=4)
    ),
    "tokens are received before they are posted": lambda p: p["tokens"].update(take=[0, 1]),
}


def test_tokens_sent_to_earlier_stages(tmp_path, tpcc):
    """The schedule and the proof of a generating program include the tokens sent to earlier
    stages.
    """
    proof, staged = certify(tmp_path, "gpt2-odd-nopast", "tp2,pp3", "--generate")
    good = json.loads(proof.read_text())
    assert good["schedule"]["tokens"] == {"from": 2, "to": [0, 1], "in_flight": 3}
    check(proof, staged).check()
    file = tmp_path / "tampered.json"
    for why, change in TOKENS.items():
        bad = copy.deepcopy(good)
        change(bad)
        bad["hash"] = hash_of(bad["schedule"])
        file.write_text(json.dumps(bad))
        check(file).refused(f"refused: {why}")
    for grid, flags in (("tp2", ["--generate"]), ("tp2,pp3", [])):
        assert "tokens" not in certify(tmp_path, "gpt2-odd-nopast", grid, *flags)[0].read_text()


@pytest.mark.long
@pytest.mark.parametrize("model, grid", PROGRAMS)
def test_refuses_tampered_everywhere(tmp_path, model, grid):
    count_refusals(tmp_path, model, grid, 1)

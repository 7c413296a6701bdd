"""tpcc --certificate and tpc-check-certificate: every proof is accepted, every tampered one refused."""

import copy
import json

import pytest

import harness
from models import MODELS

PROGRAMS = [
    ("gpt2-tiny-nopast", "tp2,pp2,dp2,mb2,sp"),
    ("gpt2-odd-nopast", "tp3,pp3,mb4"),
    ("gpt2-odd-nopast", "tp8,pp2,dp3,order=pp-dp-tp"),
    ("gpt2-differing-layers", "tp2,sp"),
    ("gpt2-layer-opset23", "tp4"),
    ("gpt2-mlp", "tp2,dp2"),
    ("gpt2-tiny-nopast", "tp1"),
]


def certify(tmp_path, model, grid):
    proof, staged = tmp_path / "proof.json", tmp_path / "staged.mlir"
    harness.run([harness.tool("tpcc"), MODELS / f"{model}.onnx", f"--megatron-shard={grid}", f"--certificate={proof}",
                 "--emit=staged", "-o", staged]).check()
    return proof, staged


def check(*files):
    return harness.run([harness.tool("tpc-check-certificate"), *files], timeout=60)


def hash_of(schedule) -> str:
    """As the compiler and the checker compute it."""
    value = 0xCBF29CE484222325
    for byte in json.dumps(schedule, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD % 2**64
    return f"{value ^ value >> 33:016x}"


def tamper(node):
    """All trees that differ from `node` in one place."""
    if isinstance(node, dict):
        for key in node:
            yield {k: v for k, v in node.items() if k != key}
            for other in tamper(node[key]):
                yield {**node, key: other}
    elif isinstance(node, list):
        for i in range(len(node)):
            yield node[:i] + node[i + 1:]
            yield node[:i] + [node[i]] + node[i:]
            if i + 1 < len(node) and node[i] != node[i + 1]:
                yield node[:i] + [node[i + 1], node[i]] + node[i + 2:]
            for other in tamper(node[i]):
                yield node[:i] + [other] + node[i + 1:]
    elif isinstance(node, int):
        yield node + 1
        yield node - 1
        yield 10**18
    elif isinstance(node, str):
        for other in ("tp", "dp", "pp", "mb", "all_reduce", "all_gather", "send", "max", "sum", "f16", "7", ""):
            if other != node:
                yield other
    else:
        yield "batch"


@pytest.mark.parametrize("model, grid", PROGRAMS)
def test_accepts(tmp_path, model, grid):
    proof, staged = certify(tmp_path, model, grid)
    assert "no rank waits in vain" in check(proof).check().stdout
    check(proof, staged).check()


def test_accepts_the_executable_and_refuses_another(tmp_path, tpcc):
    proof = tmp_path / "proof.json"
    model = MODELS / "gpt2-mlp.onnx"
    for name, grid in (("one", "tp2"), ("two", "tp4")):
        harness.run([harness.tool("tpcc"), model, f"--megatron-shard={grid}", f"--certificate={proof}", "-o",
                     tmp_path / name]).check()
    check(proof, tmp_path / "two").check()
    check(proof, tmp_path / "one").refused("the program has another schedule")
    check(proof, "/bin/true").refused("the program has no schedule")
    check(tmp_path / "absent").refused("cannot read")
    check(model).refused("parse_error")
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 1000000)
    check(deep).refused("it nests too deep")


def refuses(tmp_path, model, grid, step):
    """Tampers with a proof everywhere. Whoever repairs the hash as well has a proof about another program, if he
    has one at all."""
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
    count = refuses(tmp_path, "gpt2-tiny-nopast", "tp2,pp2,dp2,mb2,sp", 13)
    assert count["refused"] >= 100 and count["refused with the right hash"] >= 30


@pytest.mark.long
@pytest.mark.parametrize("model, grid", PROGRAMS)
def test_refuses_tampered_everywhere(tmp_path, model, grid):
    refuses(tmp_path, model, grid, 1)

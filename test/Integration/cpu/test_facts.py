"""Table of facts (FactTable.cpp): it has each key of manifests and each attribute."""

import json
import re

import pytest

import harness
from models import CORPUS, MODELS

# Programs with defaults and masks, several stages and replicas, a past as an input, caches with and
# without windows, packed and copied heads, an optimizer, a schedule with asynchronous collectives,
# quantized weights, or experts.
CASES = [
    ("gpt2-odd-opset20", "tp2,dp2,sp", "--digest-weights"),
    ("llama-past", "tp2,pp2,mb2"),
    ("bloom-past", "tp2x2"),
    ("gpt2-tiny-nopast", "tp2", "--no-verify"),
    ("mistral-dynamo", "tp2,pp2,mb2", "--generate"),
    ("phi3-past", "dp2,pp2", "--generate"),
    ("families/bart-decoder", "tp2", "--generate"),
    ("gpt2-tiny-nopast", "tp2", "--train", "--no-verify"),
    ("gpt2-tiny", "tp2,pp2,vpp2,mb2", "--overlap=2"),
    ("llama-dynamo", "tp2", "--quantize=int4:16"),
    ("experts/looped", "tp2,ep2"),
]
# Facts that occur only in other models.
RARE = {
    "no_randomized_check",
    "inputs[].required",
    "inputs[].range_after[]",
    "parameters[].source_dtype",
    "inputs[].past",
    "generation.source_each",
    "generation.source_token",
}


def table(title):
    """Returns the rows of a table, as cells without code markup."""
    text = harness.run([harness.tool("tpc-opt"), "--print-facts"]).check().stdout
    section = text.split(f"## {title}\n")[1].split("\n## ")[0]
    rows = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("| `")
    ]
    assert rows and all(len(row) == 3 and row[0] and row[2] for row in rows)
    names = [row[0] for row in rows]
    assert len(set(names)) == len(names)
    return names


def read_manifest(path):
    """Returns the JSON text in an object file."""
    texts = re.findall(rb'\{"(?:caches|compiler)":[^\0]*', path.read_bytes())
    assert len(texts) == 1
    return json.loads(texts[0])


def keys(value, path=""):
    """Returns the paths of all values: `a.b[].c`."""
    if isinstance(value, dict):
        return set().union(
            *(keys(inner, f"{path}.{name}" if path else name) for name, inner in value.items())
        )
    if isinstance(value, list):
        return set().union(*(keys(inner, f"{path}[]") for inner in value))
    return {path}


def matches(row, key):
    return re.fullmatch(re.escape(row).replace(r"\*", r"[^.\[\]]+"), key)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder, result = tmp_path_factory.mktemp("manifests"), set()
    for i, (name, grid, *flags) in enumerate(CASES):
        path = folder / f"{i}.o"
        harness.run(
            [
                harness.tool("tpcc"),
                MODELS / f"{name}.onnx",
                f"--megatron-shard={grid}",
                *flags,
                "--emit=obj",
                "-O0",
                "-o",
                path,
            ]
        ).check()
        result |= keys(read_manifest(path))
    return result


def test_each_key_of_manifests_has_a_row(found):
    rows = table("Manifest")
    assert [key for key in sorted(found) if not any(matches(row, key) for row in rows)] == []


def test_rows_are_keys_of_manifests(found):
    """A row without a value in any manifest is stale."""
    missing = {row for row in table("Manifest") if not any(matches(row, key) for key in found)}
    assert missing <= RARE, missing - RARE


def test_each_attribute_has_a_row():
    source = (
        (harness.TOP / "lib/Dialect/DiscardableAttrs.cpp")
        .read_text()
        .split("static const Entry table[]")[1]
    )
    constants = re.findall(r"\{(k\w+Attr),", source)
    headers = "".join(
        (harness.TOP / "include/tpc/Dialect" / name).read_text()
        for name in (
            *("ProgramAttrs.h", "State.h", "SourceCaches.h"),
            *("SourceToken.h", "WeightParts.h"),
        )
    )
    names = dict(re.findall(r'StringLiteral (k\w+) = "([\w.]+)"', headers))
    assert len(constants) > 30
    assert sorted(names[constant] for constant in constants) == sorted(table("Attributes"))


def test_windows_in_text_of_older_versions(tmp_path):
    """Text of an earlier compiler version, in which the step was a dictionary."""
    folder = CORPUS / "adversary" / "step-facts"
    if not folder.is_dir():
        pytest.skip(f"corpus: {folder} is absent")
    texts = {}
    for name in ("model", "staged.good", "window5"):
        old = (folder / f"{name}.mlir").read_text()
        fields = re.search(r"tpc\.step = \{(.*?)\}", old, re.S)
        # The old form is rejected, and the current form is accepted.
        harness.run([harness.tool("tpc-opt"), folder / f"{name}.mlir", "-o", "/dev/null"]).refused(
            "must be a #tpc.step" if name == "model" else "unknown attribute `grid`"
        )
        now = re.sub(r"#tpc\.expr<(\w+)>", r"\1", " ".join(fields[1].split())).replace(" : i64", "")
        texts[name] = tmp_path / f"{name}.mlir"
        new = old.replace(fields[0], f"tpc.step = #tpc.step<{now}>").replace("tpc.grid", "tpc.mesh")
        texts[name].write_text(new)
    verify = [f"--tpc-verify-equivalence=reference={texts['model']}", "-o", "/dev/null"]
    harness.run([harness.tool("tpc-opt"), texts["staged.good"], *verify]).check()
    harness.run([harness.tool("tpc-opt"), texts["window5"], *verify]).refused(
        "window = 5", "window = 6"
    )
    harness.run(
        [harness.tool("tpc-opt"), texts["window5"], "--tpc-verify-facts", "-o", "/dev/null"]
    ).refused("sets 'window' to 5")

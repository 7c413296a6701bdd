"""tpcc --print-groups against Megatron-Core's process groups (in the optional corpus)."""

import hashlib
import itertools
import json
import math
import subprocess

import pytest

from conftest import BIN


def print_groups(spec, tokens):
    """Returns token -> groups as the corpus writes them: ranks joined by commas, groups by
    semicolons.
    """
    command = [
        BIN / "tpcc",
        "--print-groups=" + ",".join(tokens),
        "--json",
        "--megatron-shard=" + spec,
    ]
    groups = json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout
    )
    assert list(groups) == list(tokens)
    return {
        token: ";".join(",".join(map(str, group)) for group in value)
        for token, value in groups.items()
    }


def all_groups(config):
    """Returns the dense and the expert groups of a configuration, from one call."""
    spec = ",".join(f"{axis}{config[axis]}" for axis in ("tp", "cp", "dp", "pp"))
    spec += ",order=" + config["order"]
    experts = [f"expert:{token}" for token in config.get("expert", ())]
    if experts:
        spec += f",ep{config['ep']},etp{config['etp']}"
    return print_groups(spec, [*config["dense"], *experts])


def expected_groups(config):
    experts = {f"expert:{token}": groups for token, groups in config.get("expert", {}).items()}
    return {**config["dense"], **experts}


def test_groups_of_whole_configurations(corpus):
    configs = json.loads((corpus / "megatron-groups.json").read_text())["full"]
    assert configs and all("expert" in config for config in configs)
    for config in configs:
        assert all_groups(config) == expected_groups(config), config


@pytest.mark.slow
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.long)])
def test_groups_of_large_configurations_by_digest(corpus, every):
    configs = json.loads((corpus / "megatron-groups.json").read_text())["digests"]
    assert configs and max(config["world"] for config in configs[::every]) > 10000
    for config in configs[::every]:
        digests = {
            token: hashlib.sha256(text.encode()).hexdigest()[:16]
            for token, text in all_groups(config).items()
        }
        assert digests == expected_groups(config), config


def groups_by_definition(sizes, order, token):
    """Returns groups of ranks that differ only on the axes in `token`, in order of their
    coordinates.
    """
    strides, stride = {}, 1
    for axis in order:
        strides[axis] = stride
        stride *= sizes[axis]
    groups = {}
    for rank in range(stride):
        outside = tuple(
            rank // strides[axis] % sizes[axis]
            for axis in reversed(order)
            if axis not in token.split("-")
        )
        groups.setdefault(outside, []).append(rank)
    return ";".join(",".join(map(str, groups[key])) for key in sorted(groups))


# Dense sizes, ep and etp: the expert grid merges cp into the remaining dp.
SIZES = [
    (dict(tp=2, cp=3, dp=4, pp=2), dict(ep=4, etp=1)),
    (dict(tp=4, cp=1, dp=6, pp=3), dict(ep=3, etp=2)),
    (dict(tp=1, cp=2, dp=2, pp=1), dict(ep=4, etp=1)),
]
DENSE_TOKENS = ["tp", "cp", "dp", "pp", "tp-dp", "tp-cp", "dp-cp", "tp-pp", "tp-dp-cp", "tp-cp-pp"]
EXPERT_TOKENS = ["tp", "ep", "dp", "pp", "tp-ep", "tp-ep-pp"]


@pytest.mark.parametrize("dense, expert", SIZES, ids=["pp2", "pp3", "tp1"])
def test_groups_by_definition(dense, expert):
    orders = list(itertools.permutations(("tp", "cp", "ep", "dp", "pp")))
    world = math.prod(dense.values())
    experts = dict(
        tp=expert["etp"],
        cp=1,
        ep=expert["ep"],
        pp=dense["pp"],
        dp=world // (expert["etp"] * expert["ep"] * dense["pp"]),
    )
    for order in orders[::7]:
        spec = (
            ",".join(f"{axis}{size}" for axis, size in {**dense, **expert}.items())
            + ",order="
            + "-".join(order)
        )
        found = print_groups(spec, DENSE_TOKENS + [f"expert:{token}" for token in EXPERT_TOKENS])
        expected = {
            token: groups_by_definition({**dense, "ep": 1}, order, token) for token in DENSE_TOKENS
        }
        expected |= {
            f"expert:{token}": groups_by_definition(experts, order, token)
            for token in EXPERT_TOKENS
        }
        assert found == expected, spec


@pytest.mark.parametrize(
    "order, expected",
    [
        (
            "tp-dp-pp",
            {
                "tp": [[0, 1], [2, 3], [4, 5], [6, 7]],
                "dp": [[0, 2], [1, 3], [4, 6], [5, 7]],
                "pp": [[0, 4], [1, 5], [2, 6], [3, 7]],
                "tp-dp": [[0, 1, 2, 3], [4, 5, 6, 7]],
            },
        ),
        (
            "pp-tp-dp",
            {
                "tp": [[0, 2], [1, 3], [4, 6], [5, 7]],
                "dp": [[0, 4], [1, 5], [2, 6], [3, 7]],
                "pp": [[0, 1], [2, 3], [4, 5], [6, 7]],
                "tp-dp": [[0, 2, 4, 6], [1, 3, 5, 7]],
            },
        ),
    ],
)
def test_groups_by_hand(order, expected):
    command = [
        BIN / "tpcc",
        "--print-groups=" + ",".join(expected),
        "--json",
        "--megatron-shard=tp2,pp2,dp2,order=" + order,
    ]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    assert json.loads(output) == expected

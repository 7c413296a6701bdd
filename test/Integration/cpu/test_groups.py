"""tpcc --print-groups prints Megatron-Core's groups (the optional corpus has them)."""

import hashlib
import json
import subprocess

import pytest

from conftest import BIN


def dense_groups(config):
    spec = ",".join(f"{axis}{config[axis]}" for axis in ("tp", "cp", "dp", "pp"))
    spec += ",order=" + config["order"]
    command = [BIN / "tpcc", "--print-groups=" + ",".join(config["dense"]), "--json",
               "--megatron-shard=" + spec]
    groups = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    assert list(groups) == list(config["dense"])
    return {token: ";".join(",".join(map(str, group)) for group in value)
            for token, value in groups.items()}


def test_groups_of_whole_configurations(corpus):
    configs = json.loads((corpus / "megatron-groups.json").read_text())["full"]
    assert configs
    for config in configs:
        assert dense_groups(config) == config["dense"], config


def test_groups_of_large_configurations_by_digest(corpus):
    configs = json.loads((corpus / "megatron-groups.json").read_text())["digests"]
    assert configs
    for config in configs:
        digests = {token: hashlib.sha256(text.encode()).hexdigest()[:16]
                   for token, text in dense_groups(config).items()}
        assert digests == config["dense"], config


@pytest.mark.parametrize("order, expected", [
    ("tp-dp-pp", {"tp": [[0, 1], [2, 3], [4, 5], [6, 7]], "dp": [[0, 2], [1, 3], [4, 6], [5, 7]],
                  "pp": [[0, 4], [1, 5], [2, 6], [3, 7]], "tp-dp": [[0, 1, 2, 3], [4, 5, 6, 7]]}),
    ("pp-tp-dp", {"tp": [[0, 2], [1, 3], [4, 6], [5, 7]], "dp": [[0, 4], [1, 5], [2, 6], [3, 7]],
                  "pp": [[0, 1], [2, 3], [4, 5], [6, 7]],
                  "tp-dp": [[0, 2, 4, 6], [1, 3, 5, 7]]}),
])
def test_groups_by_hand(order, expected):
    command = [BIN / "tpcc", "--print-groups=" + ",".join(expected), "--json",
               "--megatron-shard=tp2,pp2,dp2,order=" + order]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    assert json.loads(output) == expected

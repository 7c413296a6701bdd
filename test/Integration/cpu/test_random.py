"""Random graphs on random grids: tpcc compiles them, and the ranks compute what ONNX Runtime computes.

50 pairs by default, 500 with --long, any number with --random-pairs=10000 (about half a second each), from another
seed on with --random-from=N. A failure is made smaller and ends with the command that repeats it.
"""

import pytest

from random_pairs import REFUSED, attempt, draw_pair, may_refuse, shrink, widest


def test_random_pair(seed):
    pair = draw_pair(seed)
    failure = attempt(pair)
    if failure not in ("", REFUSED):
        small, why = shrink(pair, failure)
        pytest.fail(f"seed {seed}: {pair.command}\n{failure[:2000]}\n\nmade smaller:\n{small.command}\n{why[:3000]}",
                    pytrace=False)


def pytest_generate_tests(metafunc):
    if "seed" not in metafunc.fixturenames:
        return
    option = metafunc.config.getoption
    count = option("--random-pairs") or (500 if option("--long") else 50)
    metafunc.parametrize("seed", range(option("--random-from"), option("--random-from") + count))


def test_the_generator_draws_what_it_should():
    """The uneven, the tiny and the degenerate, every family of attention, and few pairs that may be refused."""
    pairs = [draw_pair(seed) for seed in range(500)]
    layers = [layer for pair in pairs for layer in pair.spec.used]
    assert {layer.attention for layer in layers} == {
        "separate", "gpt2", "neox", "bloom", "codegen", "falcon", "phi3", "none"}
    attentions = [layer for layer in layers if layer.attention != "none"]

    def often(share, what, of):
        count = sum(map(what, of))
        assert count >= share * len(of), f"{count} of {len(of)}"

    often(0.1, lambda layer: layer.heads == 1, attentions)
    often(0.3, lambda layer: layer.kv < layer.heads, attentions)
    often(0.1, lambda layer: layer.size == 1, attentions)
    often(0.2, lambda pair: (1, 1) in pair.shapes or pair.spec.vocab == 1 or pair.spec.hidden == 1, pairs)
    often(0.2, lambda pair: pair.grid.tp > 1 and any(
        pair.spec.used[i].kv < pair.grid.tp for i in range(pair.spec.depth)), pairs)
    often(0.2, lambda pair: pair.grid.sp, pairs)
    often(0.08, lambda pair: pair.grid.xy is not None, pairs)
    often(0.3, lambda pair: pair.grid.pp > 1, pairs)
    often(0.4, lambda pair: pair.spec.depth == 1 or pair.grid.pp > 1, pairs)
    often(0.4, lambda pair: widest(pair.spec) % pair.grid.tp != 0 or pair.grid.tp == 1, pairs)
    assert sum(bool(may_refuse(pair)) for pair in pairs) < 0.25 * len(pairs)

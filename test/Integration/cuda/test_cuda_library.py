"""GPU programs loaded into a process return the executable's results, or raise GPU errors.

A failing GPU does not end the process.
"""

import sys

import numpy as np
import pytest

from harness import TOP, run, sanitized
from models import COMMITTED
from simulator import UNOPTIMIZED, environment

pytestmark = pytest.mark.skipif(
    sanitized(), reason="sanitizers: the Python process needs them too"
)

MODEL = COMMITTED["gpt2-tiny"]


def python(program, text, **env):
    return run(
        [
            sys.executable,
            "-c",
            f"import sys\nimport numpy as np\nimport tpc\npath = sys.argv[1]\n{text}",
            program.path,
        ],
        env=environment(**env) | {"PYTHONPATH": str(TOP / "python")},
        timeout=120,
    )


@pytest.mark.parametrize("grid", ["tp2", "tp2,pp2"])
def test_results_equal_those_of_the_executable(tpcc, tmp_path, grid):
    program = tpcc.compile(MODEL.path, grid, *UNOPTIMIZED)
    inputs = MODEL.inputs(2, 7)
    np.save(tmp_path / "ids.npy", inputs["input_ids"])
    python(
        program,
        f"""
ids = np.load("{tmp_path}/ids.npy")
for _ in range(2):
    with tpc.load(path, deterministic=True) as session:
        for _ in range(4):
            logits = session.run({{"input_ids": ids}})["logits"]
        try:
            session.run({{"input_ids": ids + 1000}})
        except tpc.TpcError as error:
            assert not error.broken
        session.run({{"input_ids": ids[:1, :3]}})
np.save("{tmp_path}/logits.npy", logits)
""",
    ).check()
    expected = program.run(inputs, arguments=["--deterministic"], env=environment())["logits"]
    assert np.array_equal(np.load(tmp_path / "logits.npy"), expected)


def test_processes_survive_a_failing_gpu(tpcc):
    program = tpcc.compile(MODEL.path, "tp2", *UNOPTIMIZED)
    # After a failure, reads of unwritten memory are expected, so findings are ignored.
    result = python(
        program,
        """
session = tpc.load(path, weights="random:1")
try:
    for _ in range(1000):
        session.run({"input_ids": np.zeros((1, 8), int)})
except tpc.TpcError as error:
    assert error.broken and "CUDA_ERROR_ECC_UNCORRECTABLE" in str(error), error
else:
    sys.exit("nothing failed")
try:
    session.run({"input_ids": np.zeros((1, 8), int)})
except tpc.TpcError as error:
    assert "nothing can be run any more" in str(error) and "ECC" in str(error), error
session.close()
print("still here")
""",
        TPC_SIM_INJECT="ecc@900:1",
        TPC_SIM_FINDINGS="/dev/null",
    ).check()
    assert result.stdout == "still here\n"

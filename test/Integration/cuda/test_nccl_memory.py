"""Frame memory from NCCL is registered with every communicator.

It is deregistered before it is freed, and before communicators are destroyed.
"""

import re
from collections import Counter

from models import COMMITTED
from simulator import LIBRARIES, UNOPTIMIZED, environment
from tpc.reference import TOLERANCE, difference

MODEL = COMMITTED["gpt2-tiny"]
# Frames grow in the second and the fourth step, which invalidates registered buffers and the
# recordings that use them. The steps are then recorded again.
STEPS = [(1, 2), (2, 5), (2, 5), (40, 8), (2, 5), (2, 5), (1, 2), (1, 2)]


def steps(executable, tmp_path, **env):
    """Runs STEPS, checks that the libraries have no finding, and counts the calls of functions."""
    findings, trace = tmp_path / "findings", tmp_path / "trace"
    findings.unlink(missing_ok=True)
    many = [MODEL.inputs(batch, sequence, seed=i) for i, (batch, sequence) in enumerate(STEPS)]
    results = executable.run_all(
        many, [MODEL.output], env=environment(TPC_SIM_TRACE=trace, TPC_SIM_FINDINGS=findings, **env)
    )
    for given, found in zip(many, results):
        assert difference(found[MODEL.output], MODEL.expected(given)).relative <= TOLERANCE
    assert not findings.exists(), findings.read_text()
    calls = Counter(re.findall(r"^\d+ \d+ (\w+)(?: \w+)? = 0$", trace.read_text(), re.MULTILINE))
    trace.unlink()
    return calls


def test_frames_are_registered(tpcc, tmp_path):
    executable = tpcc.compile(MODEL.path, "tp2,pp2,mb2", *UNOPTIMIZED)
    calls = steps(executable, tmp_path, TPC_SIM_SEED=1)
    # Four ranks with two communicators each; frames grow after the first step.
    assert calls["ncclCommRegister"] == calls["ncclCommDeregister"] > 2 * 4
    assert calls["ncclMemAlloc"] == calls["ncclMemFree"] > 4
    assert calls["cuGraphLaunch"] == 4 * (len(STEPS) - len(set(STEPS)))


def test_failed_registration(tpcc, tmp_path):
    """If registration of one rank's frames fails for one communicator, registered memory is
    deregistered once, and results are the same.
    """
    executable = tpcc.compile(MODEL.path, "tp2,pp2,mb2", *UNOPTIMIZED)
    usual = steps(executable, tmp_path, TPC_SIM_SEED=1)
    calls = steps(executable, tmp_path, TPC_SIM_SEED=1, TPC_SIM_INJECT="register@2:1")
    assert calls["ncclCommRegister"] == calls["ncclCommDeregister"] == usual["ncclCommRegister"] - 1
    assert calls["ncclMemAlloc"] == calls["ncclMemFree"] == usual["ncclMemAlloc"]
    result = executable.call(
        ["--bench", "--shape", "batch=2,sequence=3", "--verbose"],
        env=environment(TPC_SIM_INJECT="register@1,register@2:1"),
    ).check()
    # Reported once, not by each rank.
    found = re.findall(r"^note: .* does not register memory: .*system error", result.stderr, re.M)
    assert len(found) == 1, result
    assert "communication by NCCL" in result.stderr


def test_libraries_without_registration(tpcc, tmp_path):
    """Programs run with a library that lacks one of the functions."""
    text = (LIBRARIES / "libnccl.so.2").read_bytes()
    older = text.replace(b"\0ncclCommDeregister\0", b"\0ncclCommDeregistex\0")
    assert older != text
    (tmp_path / "libnccl.so.2").write_bytes(older)
    executable = tpcc.compile(MODEL.path, "tp2", *UNOPTIMIZED)
    libraries = {"TPC_CUDA_LIBS": f"{tmp_path}:{LIBRARIES}"}
    calls = steps(executable, tmp_path, **libraries)
    assert not calls["ncclMemAlloc"] and not calls["ncclCommRegister"] and calls["cuGraphLaunch"]
    result = executable.call(
        ["--bench", "--shape", "batch=1,sequence=3", "--verbose"], env=environment(**libraries)
    ).check()
    assert (
        result.stderr.count("does not register memory") == 1
        and "communication by NCCL" in result.stderr
    )

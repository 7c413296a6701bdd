"""No test of programs for GPUs passes while the simulator has found something wrong with what they called for."""

import pytest


@pytest.fixture(autouse=True)
def no_findings(tmp_path, monkeypatch):
    path = tmp_path / "simulator-findings"
    monkeypatch.setenv("TPC_SIM_FINDINGS", str(path))
    yield
    # Ranks that come late on a busy machine are none: those that never come end at a limit.
    found = [line for line in path.read_text().splitlines() if ": stuck: " not in line] if path.exists() else []
    assert not found, "\n".join(found[:20])

"""CMake presets: each one configures. Sanitizer builds are manual."""

import json
import subprocess

import pytest

from harness import TOP

PRESETS = json.loads((TOP / "CMakePresets.json").read_text())["configurePresets"]


@pytest.mark.long
@pytest.mark.parametrize(
    "preset", [preset["name"] for preset in PRESETS if not preset.get("hidden")]
)
def test_configures(preset, tmp_path):
    ran = subprocess.run(
        ["cmake", "--preset", preset, "-B", tmp_path],
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "build.ninja").exists()

"""Simulated installs through the real command line: the right cause first, the right command, no crash, no orphan."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scenarios import SCENARIOS, Scenario, build

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the fake commands are shell scripts")


def engines() -> list[str]:
    try:
        import durable_rules_engine  # noqa: F401
    except ImportError:
        return ["python"]
    return ["python", "durable"]


def processes_below(folder: Path) -> list[str]:
    """Command lines of processes that still run something of this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


@pytest.mark.parametrize("engine", engines())
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_simulated_install_is_rightly_diagnosed(scenario: Scenario, engine: str, tmp_path: Path) -> None:
    root, python = build(scenario, tmp_path)
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "troubleshooter", "check", "--root", str(root), "--python", python,
         "--engine", engine, "--format", "json"],
        capture_output=True, text=True, timeout=90, check=False, cwd=tmp_path,
    )  # fmt: skip
    took = time.monotonic() - start
    assert done.stderr == ""
    report = json.loads(done.stdout)
    told = [(one["id"], one["confidence"], one["explained_by"]) for one in report["diagnoses"]]
    if scenario.verdict:
        assert report["verdict"] == scenario.verdict, told
        assert done.returncode == {"healthy": 0, "problem": 1, "inconclusive": 3}[scenario.verdict]
    if scenario.first:
        assert told, report["unknown"]
        assert told[0][0] in scenario.first, told
        steps = [step for remedy in report["diagnoses"][0]["remedies"] for step in remedy["steps"]]
        assert steps, "no remedy is offered"
        assert scenario.command in " ".join(step["shell_text"] + step["say"] for step in steps)
    else:
        assert [one for one in told if one[1] >= 0.5] == []
    assert scenario.text in done.stdout
    assert report["tool"]["engine"] == engine
    assert took < 60
    assert processes_below(tmp_path) == []


def test_an_nvidia_smi_that_answers_outranks_a_bus_that_shows_nothing_and_the_disagreement_is_named(
    tmp_path: Path,
) -> None:
    root, python = build(next(one for one in SCENARIOS if one.name == "S1 CPU build"), tmp_path)
    shutil.rmtree(root / "sys/bus/pci/devices/0000:01:00.0")
    done = subprocess.run(
        [sys.executable, "-m", "troubleshooter", "--root", str(root), "--python", python, "--format", "json"],
        capture_output=True, text=True, timeout=90, check=False, cwd=tmp_path,
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert report["diagnoses"][0]["id"] == "torch-cpu-build"
    assert report["diagnoses"][0]["confidence"] >= 0.5
    assert "gpu.count" in report["disagreements"]
    assert all(one["confidence"] < 0.5 for one in report["diagnoses"] if one["id"] == "no-nvidia-gpu")

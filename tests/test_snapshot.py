"""A machine's answers to a file and back: by `snapshot`, and by the collector on hosts that do not have us."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fake_torch import interpreters, make_target
from scenarios import MISMATCH, SCENARIOS, build

from troubleshooter.collector import collector_source
from troubleshooter.machine import LiveMachine
from troubleshooter.model import Knowledge, Request
from troubleshooter.pipeline import check
from troubleshooter.probes import observe_machine
from troubleshooter.recording import SCHEMA, RecordedMachine

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the fake commands are shell scripts")
PYTHONS = interpreters()
SOME = [scenario for scenario in SCENARIOS if scenario.name.split()[0] in ("S1", "S2", "S3", "S5", "S6", "S7", "S13")]


def run(*arguments: str, text: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "troubleshooter", *arguments], input=text, capture_output=True, text=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


def told(text: str) -> object:
    report = json.loads(text)
    return report["verdict"], [(one["id"], one["confidence"]) for one in report["diagnoses"]]


@pytest.mark.parametrize("scenario", SOME, ids=lambda scenario: scenario.name)
def test_a_snapshot_is_diagnosed_as_its_machine_is(scenario, tmp_path: Path) -> None:
    root, python = build(scenario, tmp_path)
    where = ["--root", str(root), "--python", python]
    file = tmp_path / "machine.json"
    done = run("snapshot", "-o", str(file), *where)
    assert done.returncode == 0
    assert done.stdout == ""
    assert "The recording gives the same." in done.stderr
    there = run("check", *where, "--format", "json")
    again = run("check", "--snapshot", str(file), "--format", "json")
    assert again.returncode == there.returncode
    assert told(again.stdout) == told(there.stdout)


def test_a_snapshot_may_be_piped_and_is_a_text_like_another(tmp_path: Path) -> None:
    root, python = build(SOME[0], tmp_path)
    file = tmp_path / "machine.json"
    run("snapshot", "-o", str(file), "--root", str(root), "--python", python, "--no-confirm")
    answers = [
        told(run(*arguments, "--format", "json", text=file.read_text()).stdout)
        for arguments in (["check", "--snapshot", str(file)], ["check", "--snapshot", "-"], ["log", str(file)], ["log"])
    ]
    assert answers[0] == answers[1] == answers[2] == answers[3]


def test_a_snapshot_of_a_snapshot_is_the_same(tmp_path: Path) -> None:
    root, python = build(SOME[0], tmp_path)
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    run("snapshot", "-o", str(first), "--root", str(root), "--python", python, "--no-confirm")
    done = run("snapshot", "-o", str(second), "--snapshot", str(first))
    assert done.returncode == 0
    assert first.read_text() == second.read_text()


def test_a_snapshot_holds_no_variable_that_is_not_known_to_be_harmless(tmp_path: Path) -> None:
    done = run("snapshot", "-o", "-", "--no-confirm", "--python", sys.executable, HF_TOKEN="hf_abcdefghijklmnopqrst",
               ACME_PLAN="takeover", CUDA_VISIBLE_DEVICES="-1", PIP_INDEX_URL="https://u:pw123456@pypi.acme-corp.com/team/simple")  # fmt: skip
    recording = json.loads(done.stdout)
    assert recording["environment"]["CUDA_VISIBLE_DEVICES"] == "-1"
    assert re.fullmatch(r"https://<secret>@host\d*/name\d+/simple", recording["environment"]["PIP_INDEX_URL"])
    for secret in ("hf_abcdef", "takeover", "ACME_PLAN", "pw123456", "acme-corp"):
        assert secret not in done.stdout


def test_of_a_project_only_its_indexes_are_kept() -> None:
    from troubleshooter.privacy import redact_recording

    text = '[project]\nname = "acme-secret"\n[tool.uv]\nindex-strategy = "first"\n[[tool.uv.index]]\nurl = "https://pypi.org/simple"\n[tool.x]\ny = 1\n'
    after, _ = redact_recording({"files": {"/work/pyproject.toml": text}})
    assert after["files"]["/work/pyproject.toml"] == (
        '[tool.uv]\nindex-strategy = "first"\n[[tool.uv.index]]\nurl = "https://pypi.org/simple"\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": "troubleshooter.recording/2"}',
        "\0\xff",
        '{"schema": "troubleshooter.recording/1", "files": []}',
    ],
)
def test_what_is_no_recording_is_one_clear_line(text: str) -> None:
    done = run("check", "--snapshot", "-", text=text)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "odd",
    [
        {"target": {"inspection": [], "import": 3, "tests": {"a": 1}}},
        {"target": {"inspection": {"events": [1, None, {"event": 3}, {"event": "after", "step": "torch", "value": []}]}}},
        {"target": {"import": {"events": "x", "code": "y", "seconds": None, "errors": None}, "tests": [1, {}, {"events": [{}]}]}},
        {"files": {"/proc/modules": None, "/etc/os-release": 3, "/proc/driver/nvidia/version": []}, "listings": {"/dev": 5, "/sys": [1]}},
        {"commands": [{"argv": "nvidia-smi -q -x", "text": None, "code": "x", "seconds": "y"}], "environment": {"PATH": None}},
    ],
)  # fmt: skip
def test_a_recording_of_odd_shapes_is_no_fault_of_ours(odd: dict) -> None:
    done = run("check", "--snapshot", "-", "--format", "json", text=json.dumps({"schema": SCHEMA, **odd}))
    assert done.returncode in (1, 2, 3), done.stderr
    assert json.loads(done.stdout)["schema"] in ("troubleshooter.report/1", "troubleshooter.error/1")


# --- the collector


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("collector") / "collect.py"
    done = run("collector", "-o", str(file))
    assert done.returncode == 0
    return file


def test_the_collector_imports_nothing_but_the_standard_library(collector: Path) -> None:
    text = collector.read_bytes()
    assert text.isascii()
    tree = ast.parse(text)
    names = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names - {"__future__"} <= sys.stdlib_module_names
    assert run("collector").stdout.encode() == text


def fake_host(folder: Path) -> dict[str, str]:
    """Variables under which nvidia-smi tells of a driver that does not fit its library."""
    (folder / "bin").mkdir()
    smi = folder / "bin" / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\nprintf '%s' '{MISMATCH}'\nexit 18\n")
    smi.chmod(0o755)
    return {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "USER": "wilhelmine"}


@pytest.mark.parametrize("version", sorted(PYTHONS, key=lambda version: int(version[2:])))
def test_what_the_collector_prints_is_diagnosed_as_its_host_is(version: str, collector: Path, tmp_path: Path) -> None:
    python = make_target(tmp_path / "venv", "raise OSError('libcudart.so.12: wilhelmine')\n")
    variables = fake_host(tmp_path)
    done = subprocess.run(
        [PYTHONS[version], str(collector), "--python", python],
        capture_output=True,
        check=False,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert b"wilhelmine" not in done.stdout
    there = json.loads(run("check", "--no-confirm", "--python", python, "--format", "json", **variables).stdout)
    read = subprocess.run(
        [sys.executable, "-m", "troubleshooter", "log", "-", "--format", "json"],
        input=done.stdout,
        capture_output=True,
        check=False,
    )
    here = json.loads(read.stdout)
    assert here["verdict"] == there["verdict"] == "problem"
    assert here["diagnoses"][0]["id"] == there["diagnoses"][0]["id"]
    assert here["inputs"][0]["kind"] == "recording"
    assert here["target"]["python_version"] == there["target"]["python_version"]


class Questions:
    """A machine that notes what it cannot answer."""

    kind, name, platform = "recording", "", sys.platform

    def __init__(self, machine: RecordedMachine) -> None:
        self._machine, self.environ, self.open = machine, machine.environ, []

    def __getattr__(self, name: str) -> object:
        method = getattr(self._machine, name)
        if name not in ("read", "read_link", "list", "stat", "run"):
            return method

        def ask(what: object, *rest: object, **named: object) -> object:
            answer = method(what, *rest, **named)
            if answer.ending == "unknown":
                self.open.append((name, what))
            return answer

        return ask


@pytest.mark.skipif(sys.platform != "linux", reason="the collector looks at files on Linux only")
def test_the_collector_answers_what_the_probes_ask_of_the_system(collector: Path, knowledge: Knowledge) -> None:
    """What it leaves open: folders of the person who runs it, who is another one there."""
    recording = json.loads(
        subprocess.run([sys.executable, str(collector), "--python", "/nowhere"], capture_output=True, check=True).stdout
    )
    machine = Questions(RecordedMachine(recording))
    observe_machine(machine)
    personal = (os.path.expanduser("~"), os.getcwd(), *os.environ.get("PATH", "").split(os.pathsep))
    live = LiveMachine()
    there = [
        (kind, what)
        for kind, what in machine.open
        if not str(what[-1] if isinstance(what, (list, tuple)) else what).startswith(personal)
        and (kind == "run" or getattr(live, kind)(what).ending in ("ok", "denied"))
    ]
    assert there == [], "add these to target/collect.py"


def test_a_collector_that_meets_a_broken_interpreter_says_so(collector: Path, knowledge: Knowledge) -> None:
    done = subprocess.run(
        [sys.executable, str(collector), "--python", "/nowhere/python"], capture_output=True, check=True
    )
    report = check(Request(), knowledge, RecordedMachine(json.loads(done.stdout)))
    unknown = {fact.name for fact in report.facts if fact.state == "unknown"}
    assert "torch.version" in unknown


def test_the_source_of_the_collector_can_be_read_by_a_person() -> None:
    assert max(map(len, collector_source().splitlines())) < 4000

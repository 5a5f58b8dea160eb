"""Before and after: what is kept of a report, what the next one says of it, and the receipt that can be shown."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_torch import attributes, make_target, site_packages

from troubleshooter.change import change_since, outline
from troubleshooter.model import HOST, Diagnosis, Fact, Report, Source, Target, TestResult
from troubleshooter.report.json_report import report_object
from troubleshooter.report.markdown import report_markdown
from troubleshooter.report.receipt import receipt_lines, receipt_object
from troubleshooter.report.text import plain, report_lines
from troubleshooter.state import keep_last_check, last_checks

DOCS = Path(__file__).parent.parent / "docs" / "schema"
jsonschema = pytest.importorskip("jsonschema")

SOURCE = Source("probe", "nvml")


def report(*problems, verdict=None, tests=(), facts=()):
    diagnoses = tuple(Diagnosis(name, HOST, 0.97, "blocking", "driver", "common", name, "", ()) for name in problems)
    word = verdict or ("problem" if problems else "healthy")
    target = Target("/home/someone/venv/bin/python", "3.12.3", "2.11.0+cu130", "pip")
    return Report(
        word, (), target, diagnoses, (), (), tuple(tests), tuple(facts), "python", "", "sha256:0", (), 1.0, {}
    )


def changed(before, after):
    return change_since(json.loads(json.dumps(outline(before, "2026-11-30"))), after)


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        (report("driver-too-old-for-cuda"), report(), "resolved"),
        (report("driver-too-old-for-cuda"), report(verdict="inconclusive"), "no-longer-seen"),
        (report("driver-too-old-for-cuda"), report("driver-too-old-for-cuda"), "unchanged"),
        (report("driver-too-old-for-cuda"), report("torch-cpu-build"), "changed"),
        (report("a-problem", "another"), report("another"), "changed"),
        (report(), report("torch-cpu-build"), "new"),
    ],
)
def test_a_repair_is_resolved_unchanged_or_changed_into_something_else(before, after, word):
    change = changed(before, after)
    assert (change.word, change.day) == (word, "2026-11-30")
    assert change.before == tuple(one.id for one in before.diagnoses)
    assert change.after == tuple(one.id for one in after.diagnoses)


def test_two_healthy_runs_have_nothing_to_say_of_each_other():
    assert changed(report(), report()) is None


def test_what_another_diagnosis_explains_is_no_problem_of_its_own():
    explained = report("a-cause", "a-result")
    explained = explained._replace(
        diagnoses=(explained.diagnoses[0], explained.diagnoses[1]._replace(explained_by="a-cause"))
    )
    assert changed(explained, report()).before == ("a-cause",)


@pytest.mark.parametrize("kept", [None, [], "x", {}, {"problems": "x"}, {"problems": [None], "tests": 3, "day": {}}])
def test_whatever_the_kept_file_holds_harms_nobody(kept):
    change = change_since(kept, report("torch-cpu-build"))
    assert change is None or change.word == "changed"


def test_outcomes_of_tests_that_differ_are_told_before_and_after():
    failed = TestResult("torch.matmul", "gpu:0", "failed", {}, {})
    same = TestResult("torch.fft", "gpu:0", "passed", {}, {})
    before, after = report("a-problem", tests=[failed, same]), report(tests=[failed._replace(outcome="passed"), same])
    assert changed(before, after).tests == (("torch.matmul@gpu:0", "failed", "passed"),)


def test_the_change_stands_in_every_format():
    now = report()._replace(change=changed(report("driver-too-old-for-cuda"), report()))
    words = "Since the run of 2026-11-30: resolved (driver-too-old-for-cuda → nothing)"
    assert words in plain(report_lines(now), 100)
    assert words in report_markdown(now)
    assert report_object(now)["change"]["word"] == "resolved"
    schema = json.loads((DOCS / "report-1.json").read_text())["properties"]["change"]
    jsonschema.validate(report_object(now)["change"], schema)


# --- the state folder


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is another one elsewhere")
def test_the_last_problem_is_kept_beside_the_last_run_and_names_nobody(state):
    keep_last_check("/p/python", outline(report("torch-cpu-build"), "2026-11-29"))
    keep_last_check("/p/python", outline(report(), "2026-11-30"))
    kept = last_checks()["/p/python"]
    assert (kept["last"]["problems"], kept["problem"]["problems"]) == ([], ["torch-cpu-build"])
    path = state / "troubleshooter" / "last-checks.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "someone" not in path.read_text()
    for number in range(60):
        keep_last_check(f"/q/{number}", outline(report(), "2026-11-30"))
    assert len(last_checks()) == 50


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is another one elsewhere")
@pytest.mark.parametrize("text", ["", "[1]", '{"/p/python": 3}', "\xff", "[" * 100000])
def test_a_spoilt_file_is_as_good_as_none(state, text):
    path = state / "troubleshooter" / "last-checks.json"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="latin-1")
    assert last_checks() == {}


# --- the receipt

TESTS = [
    TestResult("torch.matmul", "gpu:0", "passed", {"error_float32": 8e-7}, {"error_float32_at_most": 3.2e-6}),
    TestResult("torch.conv", "gpu:0", "failed", {"error": "File /home/someone/x.py"}, {}, "RuntimeError: no kernel"),
    TestResult("multi.peer", "host", "skipped", {}, {}, "torch sees 1 GPU; the test needs two"),
]
FACTS = [
    Fact("driver.version", HOST, "present", "580.159.04", SOURCE),
    Fact("gpu.name", "gpu:0", "present", "NVIDIA H200", SOURCE),
    Fact("os.hostname", HOST, "present", "someones-box", SOURCE),
]


def test_the_receipt_shows_measured_against_expected_and_nothing_personal():
    whole = report("a-problem", tests=TESTS, facts=FACTS)
    found = receipt_object(whole, "2026-12-01", "quick")
    jsonschema.validate(found, json.loads((DOCS / "receipt-1.json").read_text()))
    assert found["counts"] == {"passed": 1, "failed": 1, "skipped": 1}
    assert found["machine"] == {"driver.version": "580.159.04"}
    text = plain(receipt_lines(whole, "2026-12-01", "quick"), 100)
    assert "error_float32 8e-07 (at most 3.2e-06)" in text
    assert "gpu:0: name NVIDIA H200" in text
    for form in (text, json.dumps(found)):
        assert "someone" not in form


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is another one elsewhere")
def test_a_repair_is_seen_by_the_next_run_of_the_command(tmp_path, state):
    """The target's torch is first one that cannot be imported, then one that can."""

    def troubleshoot(*words):
        return subprocess.run(
            [sys.executable, "-m", "troubleshooter", *words, "--python", str(python)],
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    broken = "raise ImportError('libcudart.so.12: cannot open shared object file: No such file or directory')"
    python = make_target(tmp_path / "venv", broken)
    first = json.loads(troubleshoot("check", "--format", "json").stdout)
    assert first["change"] is None
    again = json.loads(troubleshoot("check", "--format", "json").stdout)
    assert again["change"]["word"] == "unchanged"
    (site_packages(tmp_path / "venv") / "torch" / "__init__.py").write_text(attributes())
    receipt = troubleshoot("confirm", "--format", "json", "--only", "torch.init", "env")
    found = json.loads(receipt.stdout)
    jsonschema.validate(found, json.loads((DOCS / "receipt-1.json").read_text()))
    assert {one["test"] for one in found["tests"]} == {"torch.init", "env.dataloader", "env.spawn", "env.extension"}
    assert found["change"]["word"] in ("changed", "resolved")
    assert str(tmp_path) not in receipt.stdout


def test_a_test_that_does_not_exist_is_a_mistake_with_a_suggestion():
    done = subprocess.run(
        [sys.executable, "-m", "troubleshooter", "confirm", "--only", "torch.matmull"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 2
    assert "torch.matmul" in done.stderr

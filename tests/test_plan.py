"""`troubleshoot plan`: what it says, its contract, its words, its exit codes."""

import json
import re
import string
import subprocess
import sys
from pathlib import Path

import pytest
from machines import healthy_machines, newer_machines, recording

from troubleshooter import builds as builds_module
from troubleshooter.cli import main
from troubleshooter.knowledge import load
from troubleshooter.model import Knowledge, Request
from troubleshooter.pipeline import look
from troubleshooter.plan import Plan, make_plan
from troubleshooter.recording import RecordedMachine
from troubleshooter.report.plan import plan_json, plan_lines
from troubleshooter.report.plan_words import PLAN_WORDS
from troubleshooter.report.text import plain

HERE = Path(__file__).parent
SCHEMA = json.loads((HERE.parent / "docs" / "schema" / "plan-1.json").read_text())
KNOWLEDGE = load()


def planned(asked: str = "", **hints: str) -> Plan:
    facts, remarks = look(Request(hints=tuple(hints.items())), KNOWLEDGE, None)
    assert remarks == ()
    return make_plan(facts, KNOWLEDGE, asked)


def text_of(plan: Plan, language: str = "en") -> str:
    return plain(plan_lines(plan, language), 10_000, "utf-8")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "troubleshooter", "plan", *arguments],
        capture_output=True, text=True, timeout=60, check=False, encoding="utf-8",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("hints", "best"),
    [
        ({"gpu": "RTX 3090", "driver": "535.183.01", "python": "3.11", "os": "linux", "glibc": "2.35"}, "2.14.1+cu126"),
        ({"gpu": "RTX 3090", "driver": "470.82.01", "python": "3.11", "os": "linux", "glibc": "2.35"}, "2.7.1+cu118"),
        ({"gpu": "RTX 5090", "driver": "572.61", "python": "3.12", "os": "windows"}, "2.11.0+cu128"),
        ({"gpu": "Tesla V100", "driver": "580.65.06", "python": "3.12", "os": "linux", "glibc": "2.35"}, "2.14.1+cu126"),
        ({"gpu": "GTX 1080", "driver": "582.28", "python": "3.11", "os": "wsl", "glibc": "2.35"}, "2.14.1+cu126"),
        ({"gpu": "H200", "driver": "580.95.05", "python": "3.12", "os": "linux", "glibc": "2.39"}, "2.15.0+cu132"),
        ({"gpu": "H200", "driver": "580.95.05", "python": "3.12", "os": "linux", "glibc": "2.17"}, "2.6.0+cu124"),
        # cuDNN of later builds leaves Kepler out
        ({"gpu": "Tesla K80", "driver": "470.82.01", "python": "3.10", "os": "linux", "glibc": "2.35"}, "2.3.1+cu118"),
        ({"gpu": "RTX 4090", "os": "linux"}, "2.15.0+cu132"),
        ({"os": "macos", "python": "3.12"}, "2.15.0+cpu"),
        ({"gpu": "none", "os": "linux", "python": "3.12", "glibc": "2.35"}, "2.15.0+cpu"),
        ({"gpu": "RTX 5090", "driver": "535.54.03", "python": "3.12", "os": "linux", "glibc": "2.35"}, None),
        ({"gpu": "GTX 1080", "driver": "595.45.04", "python": "3.12", "os": "linux", "glibc": "2.35"}, None),
        ({"gpu": "RTX 4090", "driver": "580.95.05", "python": "3.16", "os": "linux", "glibc": "2.35"}, None),
    ],
)  # fmt: skip
def test_the_best_build(hints: dict[str, str], best: str | None) -> None:
    plan = planned(**hints)
    assert (f"{plan.best.torch}+{plan.best.tag}" if plan.best else None) == best
    if plan.best:
        assert f"torch=={plan.best.torch}" in plan.steps[0].shell_text


def test_a_driver_that_is_in_the_way_is_named_with_what_would_be_best_after_it() -> None:
    old = planned(gpu="RTX 5090", driver="535.54.03", python="3.12", os="linux", glibc="2.35")
    assert old.after_driver is not None
    assert old.driver_needed == ("580", "")
    new = planned(gpu="GTX 1080", driver="595.45.04", python="3.12", os="linux", glibc="2.35")
    assert new.after_driver is not None
    assert (new.after_driver.tag, new.driver_needed) == ("cu126", ("525.60.13", "580"))
    assert "up to branch 580" in text_of(new)


def test_a_build_that_was_never_made_is_answered_with_what_there_is() -> None:
    plan = planned("2.0.1+cu121", gpu="RTX 3090", driver="535.183.01", python="3.10", os="linux", glibc="2.35")
    said = text_of(plan)
    assert "torch 2.0.1+cu121 was never built; 2.0.1 has cu117 and cu118; cu121 begins with 2.1.0" in said
    assert plan.best is not None
    assert (plan.best.torch, plan.best.tag, plan.best.numpy) == ("2.0.1", "cu118", "<2")
    assert "numpy<2" in said


def test_every_build_stands_in_the_text_once_and_those_that_cannot_with_every_reason() -> None:
    plan = planned(gpu="GTX 1080", driver="470.82.01", python="3.9", os="linux", glibc="2.27")
    said = text_of(plan)
    for one in plan.builds:
        assert re.search(rf"\b{re.escape(one.torch)}(\+{one.tag}| \([^)]*\b{one.tag}\b)", said), one
    three = next(one for one in plan.builds if (one.torch, one.tag) == ("2.14.1", "cu130"))
    assert [reason.id for reason in three.reasons] == [
        "python-too-old", "glibc-too-old", "driver-too-old", "gpu-older-than-build",
    ]  # fmt: skip


def test_several_gpus_need_a_build_for_all_of_them() -> None:
    both = planned(gpu="RTX 5090, GTX 1080", driver="580.95.05", python="3.12", os="windows")
    assert both.best is not None
    assert (both.best.torch, both.best.tag) == ("2.8.0", "cu128")  # of Windows: from 6.1 to 12.0
    none = planned(gpu="RTX 5090, Tesla K80", driver="470.82.01", python="3.12", os="linux", glibc="2.35")
    assert none.best is None
    assert "no-build-serves-all" in [remark.id for remark in none.remarks]


@pytest.mark.parametrize("language", PLAN_WORDS)
def test_plans_of_all_kinds_are_written_and_fit_the_contract(language: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    machines = [*healthy_machines(20, seed=3), *newer_machines()]
    for number, machine in enumerate(machines):
        facts, _ = look(Request(), KNOWLEDGE, RecordedMachine(recording(machine), machine.name))
        plan = make_plan(facts, KNOWLEDGE, ("", "2.5.1", "2.17.0+cu134", "2.0.1+cu121", "rubbish")[number % 5])
        assert plan.installed is not None
        assert plan.installed.runs is not False, machine.name
        jsonschema.validate(json.loads(plan_json(plan)), SCHEMA)
        assert "{" not in text_of(plan, language)
    for hints in ({"gpu": "RTX 9090"}, {"os": "macos"}, {"gpu": "none", "os": "windows"}, {"os": "linux"}, {}):
        plan = planned(**hints)
        jsonschema.validate(json.loads(plan_json(plan)), SCHEMA)
        assert text_of(plan, language)


def test_the_words_are_there_in_every_language_with_the_same_placeholders() -> None:
    def placeholders(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    english = PLAN_WORDS["en"]
    for language, words in PLAN_WORDS.items():
        assert words.keys() == english.keys(), language
        for name, text in words.items():
            assert placeholders(text) == placeholders(english[name]), (language, name)
    assert all(re.search("[\u4e00-\u9fff]", text) or name == "gpu" for name, text in PLAN_WORDS["zh"].items())


def test_every_reason_has_words() -> None:
    folder = Path(builds_module.__file__).parent
    named = set()
    for name in ("builds.py", "plan.py"):
        named |= set(re.findall(r'Reason\(\s*"([a-z0-9-]+)"', (folder / name).read_text(encoding="utf-8")))
    assert len(named) > 30
    assert named <= PLAN_WORDS["en"].keys()
    for group in (builds_module.NOT_KNOWN_HERE, builds_module.NOT_KNOWN_TO_TABLES, builds_module.CAVEATS):
        assert group <= named


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--gpu", "RTX 4090", "--os", "linux"], 0),
        (["--gpu", "sm_89", "--os", "linux", "--torch", "2.5.1+cu124"], 0),
        (["--gpu", "8.9", "--os", "linux", "--torch", "2.0.1+cu121"], 1),
        (["--gpu", "RTX 5090", "--os", "linux", "--torch", "2.5.1+cu124"], 1),
        (["--gpu", "RTX 5090", "--os", "linux", "--torch", "2.17.0+cu134"], 3),
        (["--gpu", "RTX 4090", "--os", "linux", "--python", "3.16"], 1),
        (["--gpu", "RTX 9090", "--os", "linux"], 0),
    ],
)
def test_exit_codes(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *arguments]) == code
    assert capsys.readouterr().out


def test_an_option_that_is_not_understood_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--gpu", "RTX 4090", "--driver", "new"]) == 2
    assert "--driver 'new' was not understood" in capsys.readouterr().err


def test_a_gpu_that_the_bus_shows_and_the_driver_does_not_is_no_machine_without_one() -> None:
    plan = planned(**{"os": "linux", "gpu.count": "0", "pci.nvidia_count": "1"})
    assert plan.best is not None
    assert plan.best.tag != "cpu"


def test_a_gpu_that_is_named_is_another_machine_and_without_one_this_machine_is_looked_at(tmp_path: Path) -> None:
    machine = next(one for one in healthy_machines(50, seed=2) if one.kind == "linux" and one.environment == "venv")
    file = tmp_path / "machine.json"
    file.write_text(json.dumps(recording(machine)))
    done = run("--snapshot", str(file), "--format", "json")
    plan = json.loads(done.stdout)
    assert plan["machine"]["driver"] == machine.driver
    assert plan["installed"]["torch"] == machine.torch
    assert plan["best"]["steps"][0]["argv"][0] == "/opt/venv/bin/python"
    changed = json.loads(run("--snapshot", str(file), "--driver", "999.10", "--format", "json").stdout)
    assert changed["machine"]["driver"] == "999.10"
    elsewhere = json.loads(run("--gpu", "RTX 4090", "--os", "windows", "--format", "json").stdout)
    assert elsewhere["machine"]["python"] == ""
    assert elsewhere["best"]["steps"][0]["shell"] == "powershell"


def test_a_plan_needs_none_of_the_heavy_libraries() -> None:
    code = (
        "import sys\nfrom troubleshooter.cli import main\nmain(['plan', '--gpu', 'RTX 4090', '--os', 'linux'])\n"
        "print([name for name in ('yaml', 'rich', 'subprocess', 'concurrent.futures') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_tables_name_only_causes_that_there_are(knowledge: Knowledge) -> None:
    for name in ("error_codes", "xid"):
        for row in knowledge.tables[name].rows:
            assert set(row.get("diagnoses", ())) <= knowledge.articles.keys(), row


def test_every_build_of_a_release_has_its_architectures_and_every_gpu_its_speeds(knowledge: Knowledge) -> None:
    tables = knowledge.tables
    for row in tables["torch_releases"].rows:
        for tag in builds_module.tags_of(row):
            assert builds_module.build_row(tables, str(row["release"]), tag), (row["release"], tag)
    assert {row["name"] for row in tables["gpus"].rows} == {row["name"] for row in tables["gpu_speeds"].rows}

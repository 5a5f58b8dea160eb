"""The Python interface: the command line's answers, from any number of threads."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

import troubleshooter
from troubleshooter.errors import UsageError

FIXTURES = sorted((Path(__file__).parent.parent / "fixtures").rglob("*.yaml"))
LINE = "CUDA driver version is insufficient for CUDA runtime version"


def without_time(text: str) -> dict[str, object]:
    return {key: value for key, value in json.loads(text).items() if key != "took_seconds"}


def texts() -> list[str]:
    found = (
        yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for path in FIXTURES[::6]
    )
    return [fixture["text"] for fixture in found if "text" in fixture]


def test_a_text_is_diagnosed_as_the_command_line_does() -> None:
    report = troubleshooter.diagnose_text(LINE + "\n", hints={"driver": "470.82"}, name="-")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "troubleshooter",
            "log",
            "--format",
            "json",
            "--set",
            "driver=470.82",
            "--engine",
            "python",
        ],
        input=LINE + "\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert report.diagnoses[0].id == "driver-too-old-for-cuda"
    assert without_time(troubleshooter.as_json(report)) == without_time(done.stdout)


def test_eight_threads_that_share_knowledge_give_what_one_gives() -> None:
    knowledge = troubleshooter.load_knowledge()
    several = texts()
    alone = [
        without_time(troubleshooter.as_json(troubleshooter.diagnose_text(one, knowledge=knowledge))) for one in several
    ]
    fresh = troubleshooter.load_knowledge()

    def ask(text: str) -> dict[str, object]:
        return without_time(troubleshooter.as_json(troubleshooter.diagnose_text(text, knowledge=fresh)))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, several * 2)) == alone * 2


def test_a_report_is_text_markdown_and_speaks_another_language() -> None:
    report = troubleshooter.diagnose_text(LINE)
    assert "driver-too-old-for-cuda" in troubleshooter.as_text(report)
    assert "driver-too-old-for-cuda" in troubleshooter.as_markdown(report)
    assert "结论" in troubleshooter.as_text(report, "zh")


def test_rules_of_ones_own_and_mistakes_are_as_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "diagnosis: driver-too-old-for-cuda\nrules:\n  - id: mine\n    because: it says so\n"
        "    when: [{fact: driver.version, below: '999'}]\n    evidence: decisive\n"
        "    examples: {fires: [{driver.version: '1'}], quiet: [{driver.version: '1000'}]}\n"
    )
    knowledge = troubleshooter.load_knowledge([tmp_path])
    report = troubleshooter.diagnose_text("x", knowledge=knowledge, hints={"driver": "535.54"})
    assert [one.id for one in report.diagnoses] == ["driver-too-old-for-cuda"]


def test_a_machine_is_looked_at_and_a_wrong_python_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file"):
        troubleshooter.check(python=str(tmp_path / "python"), confirm="no")
    recording = tmp_path / "machine.json"
    recording.write_text('{"schema": "troubleshooter.recording/1", "platform": "linux"}')
    assert troubleshooter.check(snapshot=recording, confirm="no").verdict == "inconclusive"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        troubleshooter.nonsense  # noqa: B018

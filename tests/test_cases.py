"""Every fixture: the first diagnosis, what must stay quiet, the verdict, the remedies; on both engines alike."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from troubleshooter.knowledge import load
from troubleshooter.model import Report, Request
from troubleshooter.pipeline import check, diagnose_text
from troubleshooter.recording import RecordedMachine
from troubleshooter.report.json_report import report_json

FOLDER = Path(__file__).parent.parent / "fixtures"
FIXTURES = sorted(FOLDER.rglob("*.yaml"))
KNOWLEDGE = load()

try:
    import durable_rules_engine  # noqa: F401

    ENGINES = ["python", "durable"]
except ImportError:
    ENGINES = ["python"]


def name_of(path: Path) -> str:
    return path.relative_to(FOLDER).with_suffix("").as_posix()


@cache
def read(path: Path) -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(path.read_text(encoding="utf-8"), loader)  # noqa: S506 -- a safe loader either way


@cache
def report_on(path: Path, engine: str) -> Report:
    fixture = read(path)
    texts = ((path.name, fixture["text"].encode()),) if "text" in fixture else ()
    hints = tuple((str(name), str(value)) for name, value in fixture.get("set", {}).items())
    request = Request(texts=texts, hints=hints, engine=engine)
    if "recording" in fixture:
        return check(request, KNOWLEDGE, RecordedMachine(fixture["recording"], path.name))
    return diagnose_text(request, KNOWLEDGE)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("path", FIXTURES, ids=name_of)
def test_a_fixture_is_rightly_diagnosed(path: Path, engine: str) -> None:
    fixture, report = read(path), report_on(path, engine)
    expect = fixture["expect"]
    told = {one.id: one.confidence for one in reversed(report.diagnoses)}
    listed = [(one.id, one.confidence) for one in report.diagnoses]
    assert report.verdict == expect["verdict"], listed
    if path.parent.name == "healthy":
        assert [one for one in listed if one[1] >= 0.5] == []
    else:
        assert expect["first"] == path.parent.name
    if "first" in expect:
        assert listed, "nothing was found"
        assert listed[0][0] == expect["first"], listed
        assert listed[0][1] >= expect.get("confidence", {}).get("at_least", 0.5)
        offered = [remedy.id for remedy in report.diagnoses[0].remedies]
        for remedy in expect.get("remedies", ()):
            assert remedy in offered, offered
    for other in expect.get("never", ()):
        assert told.get(other, 0.0) < 0.5, listed
    assert report.engine == engine


@pytest.mark.skipif(len(ENGINES) < 2, reason="durable-rules cannot be imported here")
@pytest.mark.parametrize("path", FIXTURES, ids=name_of)
def test_both_engines_say_the_same_to_the_letter(path: Path) -> None:
    answers = [
        report_json(report_on(path, engine)._replace(engine="", engine_reason="", took_seconds=0.0))
        for engine in ENGINES
    ]
    assert answers[0] == answers[1]


def test_every_diagnosis_has_a_fixture() -> None:
    assert {path.parent.name for path in FIXTURES} - {"healthy"} == set(KNOWLEDGE.articles)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_machine_of_which_nothing_is_known_is_accused_of_nothing(engine: str) -> None:
    report = check(Request(engine=engine), KNOWLEDGE, RecordedMachine({}, "nothing"))
    assert [one for one in report.diagnoses if one.confidence >= 0.5] == []
    assert report.verdict == "inconclusive"
    assert report.questions


def test_a_fixture_states_no_derived_facts() -> None:
    for path in FIXTURES:
        assert set(read(path)) <= {"origin", "text", "set", "recording", "expect", "about"}, path

"""The JSON contract `troubleshooter.report/1`: additions only, ids and enumerations never translated."""

import json
from collections.abc import Iterable, Mapping

from .. import __version__
from ..errors import Problem
from ..model import UNKNOWN, Diagnosis, Evidence, Fact, Report, Source, Step
from .summary import summary

_INPUT_KINDS = {"live": "machine", "folder": "recording"}


def report_json(report: Report) -> str:
    """ASCII only, so that the bytes do not depend on the locale."""
    return json.dumps(_report(report), indent=1, ensure_ascii=True) + "\n"


def errors_json(problems: Iterable[Problem]) -> str:
    errors = [
        {
            "file": problem.at.file,
            "line": problem.at.line,
            "column": problem.at.column,
            "message": problem.message,
            "hint": problem.hint,
        }
        for problem in problems
    ]
    return json.dumps({"schema": "troubleshooter.error/1", "errors": errors}, indent=1) + "\n"


def _report(report: Report) -> dict[str, object]:
    return {
        "schema": "troubleshooter.report/1",
        "tool": {
            "version": __version__,
            "engine": report.engine,
            "engine_reason": report.engine_reason,
            "knowledge": report.knowledge,
            "packs": [pack._asdict() for pack in report.packs],
        },
        "verdict": report.verdict,
        "summary": summary(report),
        "took_seconds": round(report.took_seconds, 3),
        "inputs": [{**one._asdict(), "kind": _INPUT_KINDS.get(one.kind, one.kind)} for one in report.inputs],
        "target": report.target._asdict() if report.target else None,
        "remarks": list(report.remarks),
        "diagnoses": [_diagnosis(one, number) for number, one in enumerate(report.diagnoses, 1)],
        "notes": [
            {"id": note.id, "text": note.text, "sources": [_source(one) for one in note.sources]}
            for note in report.notes
        ],
        "questions": [
            {
                "fact": question.fact,
                "say": question.say,
                "argv": list(question.argv),
                "set": f"{question.fact}=",
                "decides": list(question.decides),
            }
            for question in report.questions
        ],
        "tests": [
            {**test._asdict(), "measured": dict(test.measured), "expected": dict(test.expected)}
            for test in report.tests
        ],
        "facts": [_fact(fact, report.types) for fact in report.facts if fact.state != UNKNOWN],
        "unknown": [
            {"name": fact.name, "subject": fact.subject, "reason": fact.reason}
            for fact in report.facts
            if fact.state == UNKNOWN
        ],
        "disagreements": _disagreements(report.facts),
    }


def _disagreements(facts: Iterable[Fact]) -> list[str]:
    return [name for fact in facts if fact.name == "disagrees" and isinstance(fact.value, tuple) for name in fact.value]


def _diagnosis(one: Diagnosis, rank: int) -> dict[str, object]:
    return {
        "id": one.id,
        "rank": rank,
        "confidence": one.confidence,
        "severity": one.severity,
        "area": one.area,
        "subject": one.subject,
        "title": one.title,
        "meaning": one.meaning,
        "evidence": [_evidence(evidence) for evidence in one.evidence],
        "explains": list(one.explains),
        "explained_by": one.explained_by or None,
        "remedies": [
            {
                "id": remedy.id,
                "title": remedy.title,
                "risk": remedy.risk,
                "steps": [_step(step) for step in remedy.steps],
            }
            for remedy in one.remedies
        ],
    }


def _evidence(evidence: Evidence) -> dict[str, object]:
    return {
        "rule": evidence.rule,
        "pack": evidence.pack,
        "because": evidence.because,
        "for": evidence.supports,
        "strength": evidence.strength,
        "counted": evidence.counted,
        "sources": [_source(source) for source in evidence.sources],
    }


def _source(source: Source) -> dict[str, object]:
    return {"kind": source.kind, "via": source.via, "file": source.file, "line": source.line, "detail": source.detail}


def _step(step: Step) -> dict[str, object]:
    return {**step._asdict(), "argv": list(step.argv), "env": dict(step.env)}


def _fact(fact: Fact, types: Mapping[str, str]) -> dict[str, object]:
    return {
        "name": fact.name,
        "type": types[fact.name],
        "value": list(fact.value) if isinstance(fact.value, tuple) else fact.value,
        "state": fact.state,
        "subject": fact.subject,
        "source": _source(fact.source),
        "claims": [
            {
                "state": claim.state,
                "value": list(claim.value) if isinstance(claim.value, tuple) else claim.value,
                "source": _source(claim.source),
                "reason": claim.reason,
            }
            for claim in fact.claims
        ],
    }

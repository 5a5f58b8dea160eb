"""The JSON contracts, `troubleshooter.report/1` first: additions only, ids and enumerations never translated."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import Problem
from ..model import (
    HOST,
    PRESENT,
    SILENCE,
    UNKNOWN,
    Article,
    Claim,
    Diagnosis,
    Evidence,
    Fact,
    FactRef,
    Firing,
    Ground,
    Proof,
    Report,
    Rule,
    Source,
    Step,
    StepSpec,
    Value,
    unknown,
)
from .summary import change_object, summary

if TYPE_CHECKING:
    from ..counterfactual import Changed, Near

SCHEMA = "troubleshooter.report/1"

_INPUT_KINDS = {"live": "machine", "folder": "recording"}


def report_json(report: Report, *, indent: int | None = 1) -> str:
    """ASCII only, so that the bytes do not depend on the locale. Without an indent it is written sooner."""
    return json.dumps(report_object(report), indent=indent, ensure_ascii=True) + "\n"


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


def report_object(report: Report) -> dict[str, object]:
    return {
        "schema": SCHEMA,
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
        "change": change_object(report.change),
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
                "steps": [step_object(step) for step in remedy.steps],
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


def step_object(step: Step) -> dict[str, object]:
    return {**step._asdict(), "argv": list(step.argv), "env": dict(step.env), "assumed": list(step.assumed)}


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


# --- back again


def claims_of_report(report: Mapping[str, Any]) -> Iterator[Claim]:
    """What was observed, out of a report of `report_object`: the same claims give the same diagnoses again.

    Raises ValueError for what is no report.
    """
    if report.get("schema") != SCHEMA:
        raise ValueError(f"its schema is not {SCHEMA}")
    try:
        for fact in report["facts"]:
            for claim in fact["claims"]:
                source = _read_source(claim["source"])
                value = _read_value(claim["value"])
                yield Claim(fact["name"], fact["subject"], claim["state"], value, source, claim["reason"])
        for one in report["unknown"]:
            subject = one.get("subject", HOST)
            yield unknown(one["name"], one["reason"], Source("probe", "process", "the report"), subject)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it lacks {error}") from error
    yield SILENCE  # a report leaves out what no text shows; the rules need to know it


def _read_source(source: Mapping[str, Any]) -> Source:
    return Source(
        str(source["kind"]), str(source["via"]), str(source["detail"]), str(source["file"]), int(source["line"])
    )


def _read_value(value: Any) -> Value | None:
    if isinstance(value, list):
        return tuple(map(str, value))
    return value if isinstance(value, str | int | float) else None


# --- an article and a proof


def article_json(article: Article, rules: Iterable[Rule]) -> str:
    """`troubleshooter.explain/1`: the article of a diagnosis, and the rules that speak for and against it."""
    found = {
        "schema": "troubleshooter.explain/1",
        "id": article.id,
        "pack": article.pack,
        "file": article.at.file,
        "title": article.title,
        "area": article.area,
        "severity": article.severity,
        "base_rate": article.base_rate,
        "meaning": article.meaning,
        "not_to_confuse_with": [{"id": name, "says": says} for name, says in article.not_to_confuse_with],
        "explains": list(article.explains),
        "remedies": [
            {"id": one.id, "title": one.title, "risk": one.risk, "steps": [_written_step(step) for step in one.steps]}
            for one in article.remedies
        ],
        "confirm": [effect._asdict() for effect in article.confirm],
        "verify": list(article.verify),
        "references": [reference._asdict() for reference in article.references],
        "rules": [
            {
                "id": rule.id,
                "pack": rule.pack,
                "file": rule.at.file,
                "line": rule.at.line,
                "because": rule.because,
                "strength": rule.evidence,
                "for": not rule.evidence.endswith("-against"),
            }
            for rule in rules
        ],
    }
    return json.dumps(found, indent=1) + "\n"


def _written_step(step: StepSpec) -> dict[str, object]:
    return {"do": step.do, "with": dict(step.arguments), "set_env": dict(step.set_env), "say": step.say}


def proof_json(name: str, proofs: Sequence[Proof]) -> str:
    """`troubleshooter.why/1`; an empty list of proofs means that it was not concluded."""
    found = {
        "schema": "troubleshooter.why/1",
        "id": name,
        "concluded": bool(proofs),
        "proofs": [
            {
                "subject": proof.subject,
                "title": proof.title,
                "confidence": proof.confidence,
                "base_rate": proof.base_rate,
                "explained_by": proof.explained_by or None,
                "supports": [_firing(one) for one in proof.firings],
            }
            for proof in proofs
        ],
    }
    return json.dumps(found, indent=1) + "\n"


def why_not_json(name: str, concluded: bool, near: Sequence["Near"]) -> str:
    """`troubleshooter.why-not/1`: the rules that come nearest, and the conditions that they lack."""
    found = {
        "schema": "troubleshooter.why-not/1",
        "id": name,
        "concluded": concluded,
        "nearest": [near_object(one) for one in near],
    }
    return json.dumps(found, indent=1) + "\n"


def near_object(one: "Near") -> dict[str, object]:
    """A rule that did not fire, and the conditions that it lacks."""
    return {
        "rule": one.rule.id,
        "pack": one.rule.pack,
        "file": one.rule.at.file,
        "line": one.rule.at.line,
        "subject": one.subject,
        "strength": one.rule.evidence,
        "because": one.rule.because,
        "conditions": len(one.rule.when),
        "missing": [
            {
                "fact": lack.condition.fact,
                "op": lack.condition.op,
                "operand": lack.condition.operand._asdict()
                if isinstance(lack.condition.operand, FactRef)
                else lack.condition.operand,
                "state": lack.state,
                "found": lack.found,
                "wanted": lack.wanted,
            }
            for lack in one.missing
        ],
    }


def what_if_json(changed: Sequence["Changed"], verdicts: tuple[str, str]) -> str:
    """`troubleshooter.what-if/1`: the verdict before and after, and every diagnosis whose confidence differs."""
    found = {
        "schema": "troubleshooter.what-if/1",
        "before": verdicts[0],
        "after": verdicts[1],
        "changed": [one._asdict() for one in changed],
    }
    return json.dumps(found, indent=1) + "\n"


def _firing(firing: Firing) -> dict[str, object]:
    return {
        "rule": firing.rule,
        "pack": firing.pack,
        "file": firing.at.file,
        "line": firing.at.line,
        "because": firing.because,
        "strength": firing.strength,
        "for": firing.supports,
        "counted": firing.counted,
        "met_by": [_ground(one) for one in firing.grounds],
    }


def _ground(ground: Ground) -> dict[str, object]:
    plain: dict[str, object] = {"kind": ground.kind, "name": ground.name, "subject": ground.subject}
    if ground.kind == "fact":
        value = list(ground.value) if isinstance(ground.value, tuple) else ground.value
        plain |= {
            "state": ground.state,
            "value": value if ground.state == PRESENT else None,
            "sources": [_source(one) for one in ground.sources],
            "from": [_ground(one) for one in ground.bases],
        }
    if ground.kind == "finding":
        plain["supports"] = [_firing(one) for one in ground.firings]
    return plain

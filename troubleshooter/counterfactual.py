"""What would have to be otherwise: the rules that nearly fired, and what a changed fact changes. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .engine.conditions import holds, type_of
from .model import (
    HOST,
    PRESENT,
    UNKNOWN,
    Conclusion,
    Condition,
    Diagnosis,
    Fact,
    FactRef,
    FactSpec,
    Knowledge,
    Rule,
    Value,
)
from .settle import Facts

_NO = "no"


class Missing(NamedTuple):
    """A condition that a rule lacks. `state` is "otherwise" where the facts say the opposite, "unknown" where nobody
    said anything; `found` is the value that is there, None where there is none.
    """

    condition: Condition
    state: str
    found: Value | None = None
    wanted: Value | None = None
    """The value of the other fact, where the condition compares two."""


class Near(NamedTuple):
    """A rule that did not fire about `subject`, and all that it lacks."""

    rule: Rule
    subject: str
    missing: tuple[Missing, ...]


class Changed(NamedTuple):
    """A diagnosis whose confidence is not the same before and after; None where it was not listed."""

    id: str
    subject: str
    before: float | None
    after: float | None


def why_not(
    name: str, facts: Facts, conclusions: Iterable[Conclusion], knowledge: Knowledge, most: int = 5
) -> tuple[Near, ...]:
    """The rules that come nearest to concluding `name` (a diagnosis, `finding.x` or `note.x`) and did not fire: those
    that lack least first, and of those the strongest.
    """
    concluded = tuple(conclusions)
    fired = {(support.rule, support.subject) for one in concluded for support in one.supports}
    strengths = knowledge.strengths.evidence
    near: list[Near] = []
    for rule in knowledge.rules:
        if rule.head not in (name, f"diagnosis.{name}") or rule.evidence.endswith("-against"):
            continue
        for subject in _subjects(rule, facts, knowledge.facts):
            if (rule.id, subject) in fired:
                continue
            missing = tuple(_missing(rule, subject, facts, concluded, knowledge.facts))
            if missing:
                near.append(Near(rule, subject, missing))

    def distance(one: Near) -> tuple[int, int, float, str, str]:
        met = len(one.rule.when) - len(one.missing)
        return len(one.missing), -met, -strengths.get(one.rule.evidence, 0.0), one.rule.id, one.subject

    near.sort(key=distance)
    best: dict[str, Near] = {}
    for one in near:
        best.setdefault(one.rule.id, one)  # of several GPUs the one that is nearest
    return tuple(list(best.values())[:most])


def _subjects(rule: Rule, facts: Facts, catalogue: Mapping[str, FactSpec]) -> tuple[str, ...]:
    """Those that the rule could speak of; conditions on several kinds of subject do not occur in one rule."""
    kinds = {spec.subject for one in rule.when if (spec := catalogue.get(one.fact)) and spec.subject != HOST}
    if not kinds:
        return (HOST,)
    kind = min(kinds)
    return facts.subjects(kind) or (f"{kind}:0",)


def _missing(
    rule: Rule, subject: str, facts: Facts, conclusions: Sequence[Conclusion], catalogue: Mapping[str, FactSpec]
) -> Iterator[Missing]:
    for condition in rule.when:
        if condition.fact.startswith("finding."):
            there = any(one.name == condition.fact and one.subject in (subject, HOST) for one in conclusions)
            if there is (condition.op == _NO):
                yield Missing(condition, "otherwise", there)
            continue
        fact = _fact_of(condition.fact, subject, facts, catalogue)
        other = None
        if isinstance(condition.operand, FactRef):
            other = _fact_of(condition.operand.fact, subject, facts, catalogue)
        spec = catalogue.get(condition.fact)
        kind = spec.type if spec else type_of(fact.value if fact else None)
        truth = holds(condition, kind, fact, other)
        if truth is not True:
            found = fact.value if fact and fact.state == PRESENT else None
            compares = isinstance(condition.operand, FactRef)
            answered = other is not None and other.state == PRESENT
            known = fact is not None and fact.state != UNKNOWN and (answered or not compares)
            yield Missing(
                condition, "otherwise" if truth is False or known else UNKNOWN, found, other.value if other else None
            )


def _fact_of(name: str, subject: str, facts: Facts, catalogue: Mapping[str, FactSpec]) -> Fact | None:
    spec = catalogue.get(name)
    return facts.fact(name, HOST if spec is None or spec.subject == HOST else subject)


def changes(before: Sequence[Diagnosis], after: Sequence[Diagnosis]) -> tuple[Changed, ...]:
    """What is different, in the order of the ranking after; what is gone comes last."""
    was = {(one.id, one.subject): one.confidence for one in before}
    now = {(one.id, one.subject): one.confidence for one in after}
    keys = [*now, *(key for key in was if key not in now)]
    return tuple(
        Changed(*key, was.get(key), now.get(key))
        for key in keys
        if round(was.get(key, -1.0), 4) != round(now.get(key, -1.0), 4)
    )

"""Conclusions to ranked diagnoses: log-odds, one voice for what was seen once, causes before what they explain."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .model import (
    HOST,
    PRESENT,
    Article,
    Conclusion,
    Diagnosis,
    Evidence,
    Fact,
    Inference,
    Knowledge,
    Rule,
    Source,
    Support,
)
from .settle import Facts

LISTED = 0.1
REPORTED = 0.5

_SEVERITY = ("blocking", "degrading", "harmless")
_PREFIX = "diagnosis."
_MOST_SOURCES = 3


class _Case(NamedTuple):
    """A diagnosis of one subject on its way to a confidence."""

    article: Article
    subject: str
    evidence: tuple[Evidence, ...]
    explained_by: str = ""


def rank(inference: Inference, facts: Facts, knowledge: Knowledge) -> tuple[Diagnosis, ...]:
    """Diagnoses with a confidence of at least 0.1, the first cause first."""
    rules = knowledge.rules_by_id()
    trail = _Trail(inference.conclusions, facts, knowledge)
    cases = [
        _Case(article, subject, (*evidence, *_from_tests(article, subject, facts)))
        for article, subject, evidence in _collect(inference.conclusions, rules, trail, knowledge)
    ]
    cases = _hand_over(cases, knowledge)
    found = _merge_subjects([_diagnosis(case, knowledge) for case in cases])
    return _in_order([one for one in found if one.confidence >= LISTED], knowledge)


def confidence(log_odds: float) -> float:
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, log_odds))))


def log_odds(article: Article, evidence: Sequence[Evidence], knowledge: Knowledge) -> float:
    """Base rate plus the steps of the evidence that counts, for and against apart."""
    steps = knowledge.strengths.evidence
    total = knowledge.strengths.base_rates[article.base_rate]
    for speaks_for in (True, False):
        total += sum(steps[one.strength] for one in _counting([e for e in evidence if e.supports is speaks_for], steps))
    return total


_MOST_WEIGHED = 16


def _counting(side: Sequence[Evidence], steps: Mapping[str, float]) -> list[Evidence]:
    """The strongest pieces of evidence of which no two share an observed fact or a source line.

    A piece that shares with two others does not join them: more evidence never makes a cause less sure, and less
    evidence never makes it surer.
    """
    if len(side) < 2:
        return list(side)
    pieces = sorted(side, key=lambda one: -abs(steps[one.strength]))
    marks = [{*one.facts, *(f"{source.file}:{source.line}" for source in one.sources if source.line)} for one in pieces]
    worth = [abs(steps[one.strength]) for one in pieces]
    best: list[int] = []
    most = 0.0
    # Depth first, the strongest first; a branch ends where even all that is left could not make it the best.
    waiting: list[tuple[int, list[int], set[str], float, float]] = [(0, [], set(), 0.0, sum(worth))]
    while waiting:
        place, taken, used, sum_, left = waiting.pop()
        if sum_ > most:
            best, most = taken, sum_
        if place == len(pieces) or sum_ + left <= most:
            continue
        rest = left - worth[place]
        free = not used & marks[place]
        if not free or len(pieces) <= _MOST_WEIGHED:
            waiting.append((place + 1, taken, used, sum_, rest))
        if free:
            waiting.append((place + 1, [*taken, place], used | marks[place], sum_ + worth[place], rest))
    return [pieces[place] for place in best]


class _Trail:
    """From the ids that met a condition back to the observed facts, through findings and tables."""

    def __init__(self, conclusions: Iterable[Conclusion], facts: Facts, knowledge: Knowledge) -> None:
        self.findings = {f"{one.name}@{one.subject}": one for one in conclusions if not one.name.startswith(_PREFIX)}
        self.fact = facts.by_id()
        self._catalogue = knowledge.facts

    def observed(self, ids: Iterable[str]) -> list[Fact]:
        """The facts that were seen, each once, in the order in which the rule names them."""
        found: dict[str, Fact] = {}
        seen: set[str] = set()
        waiting = list(ids)
        while waiting:
            one = waiting.pop(0)
            if one in seen:
                continue
            seen.add(one)
            if finding := self.findings.get(one):
                waiting[:0] = [each for support in finding.supports for met in support.met_by for each in met]
            elif fact := self.fact(one):
                waiting[:0] = fact.bases
                found[one] = fact
        return list(found.values())

    def is_context(self, fact: Fact) -> bool:
        spec = self._catalogue.get(fact.name)
        return spec is not None and spec.context


def _collect(
    conclusions: Iterable[Conclusion], rules: Mapping[str, Rule], trail: _Trail, knowledge: Knowledge
) -> Iterator[tuple[Article, str, tuple[Evidence, ...]]]:
    """Per diagnosis and subject its evidence; what speaks of the host speaks of each of its GPUs too."""
    by_id: dict[str, dict[str, list[Evidence]]] = {}
    for conclusion in conclusions:
        if not conclusion.name.startswith(_PREFIX):
            continue
        of_subject = by_id.setdefault(conclusion.name.removeprefix(_PREFIX), {}).setdefault(conclusion.subject, [])
        for support in conclusion.supports:
            one = _evidence(rules[support.rule], support, trail)
            if not any(same.rule == one.rule and same.because == one.because for same in of_subject):
                of_subject.append(one)
    for name, subjects in by_id.items():
        shared = subjects.pop(HOST, [])
        accused = {subject: found for subject, found in subjects.items() if any(one.supports for one in found)}
        if not accused:
            # What a GPU shows against a cause that is said of the whole host counts too.
            against = {one.rule: one for found in subjects.values() for one in found}
            accused, shared = {HOST: [*shared, *against.values()]}, []
        for subject, found in accused.items():
            evidence = (*shared, *found)
            if any(one.supports for one in evidence):
                yield knowledge.articles[name], subject, evidence


def _evidence(rule: Rule, support: Support, trail: _Trail) -> Evidence:
    ids = [one for met in support.met_by for one in met]
    seen = trail.observed(ids)
    bases = tuple(fact.id for fact in seen if not fact.bases and not trail.is_context(fact))
    sources: dict[Source, None] = {}
    for fact in seen:
        for claim in [one for one in fact.claims if one.state == PRESENT and one.value == fact.value][:_MOST_SOURCES]:
            sources[claim.source] = None
        if not fact.claims:
            sources[fact.source] = None
    return Evidence(
        rule=rule.id,
        pack=rule.pack,
        because=because(rule, support, trail.fact),
        supports=not rule.evidence.endswith("-against"),
        strength=rule.evidence,
        facts=bases,
        sources=tuple(sources),
    )


def because(rule: Rule, support: Support, fact_of: Callable[[str], Fact | None]) -> str:
    """The rule's sentence with the values that met its conditions in place of {fact}."""
    text = rule.because
    for met in support.met_by:
        for one in met:
            if (fact := fact_of(one)) is not None:
                text = text.replace(f"{{{fact.name}}}", shown(fact))
    return text


def shown(fact: Fact) -> str:
    if fact.state != PRESENT:
        return fact.state
    if isinstance(fact.value, bool):
        return "yes" if fact.value else "no"
    return ", ".join(fact.value) if isinstance(fact.value, tuple) else str(fact.value)


def _from_tests(article: Article, subject: str, facts: Facts) -> Iterator[Evidence]:
    """A test that shows what the article foretells speaks a little for it, the opposite outcome against it."""
    for effect in article.confirm:
        for fact in facts.by_name.get(f"test.{effect.test}", ()):
            if fact.state != PRESENT or subject not in (HOST, fact.subject):
                continue
            agrees = fact.value == effect.shows
            yield Evidence(
                rule=f"test.{effect.test}",
                pack=article.pack,
                because=f"The test {effect.test} on {fact.subject} {fact.value}."
                if agrees
                else f"The test {effect.test} on {fact.subject} {fact.value}, which speaks against this cause.",
                supports=agrees,
                strength="weak" if agrees else f"{effect.strength}-against",
                facts=(fact.id,),
                sources=(fact.source,),
            )


def _hand_over(cases: list[_Case], knowledge: Knowledge) -> list[_Case]:
    """From 0.5 on a cause takes over the evidence that it shares with what it explains."""
    surest = sorted(cases, key=lambda case: -confidence(log_odds(case.article, case.evidence, knowledge)))
    explained: dict[str, str] = {}
    remaining = {(case.article.id, case.subject): case for case in surest}
    for cause in surest:
        name = cause.article.id
        now = remaining[name, cause.subject]
        if name in explained or confidence(log_odds(now.article, now.evidence, knowledge)) < REPORTED:
            continue
        taken = {fact for one in cause.evidence if one.supports for fact in one.facts}
        for (other, subject), case in list(remaining.items()):
            if other not in cause.article.explains or other == name or other in explained.values():
                continue
            kept = tuple(
                one._replace(counted=False) if one.supports and taken & set(one.facts) else one for one in case.evidence
            )
            explained[other] = name
            remaining[other, subject] = case._replace(evidence=kept, explained_by=name)
    return list(remaining.values())


def _diagnosis(case: _Case, knowledge: Knowledge) -> Diagnosis:
    article, steps = case.article, knowledge.strengths.evidence
    live = [one for one in case.evidence if one.counted]
    counting = {id(one) for side in (True, False) for one in _counting([e for e in live if e.supports is side], steps)}
    marked = tuple(one._replace(counted=id(one) in counting) for one in case.evidence)
    return Diagnosis(
        id=article.id,
        subject=case.subject,
        confidence=round(confidence(log_odds(article, live, knowledge)), 4),
        severity=article.severity,
        area=article.area,
        base_rate=article.base_rate,
        title=article.title,
        meaning=article.meaning,
        evidence=tuple(sorted(marked, key=lambda one: (not one.supports, not one.counted, -abs(steps[one.strength])))),
        explained_by=case.explained_by,
    )


def _merge_subjects(found: list[Diagnosis]) -> list[Diagnosis]:
    """Eight GPUs with the same fault are one diagnosis about `gpu:0,gpu:1,…`."""
    merged: dict[tuple[str, float, tuple[str, ...]], Diagnosis] = {}
    for one in found:
        key = (one.id, one.confidence, tuple(sorted(evidence.rule for evidence in one.evidence)))
        if key in merged:
            merged[key] = merged[key]._replace(subject=f"{merged[key].subject},{one.subject}")
        else:
            merged[key] = one
    return list(merged.values())


def _in_order(found: list[Diagnosis], knowledge: Knowledge) -> tuple[Diagnosis, ...]:
    rates = knowledge.strengths.base_rates
    waiting = sorted(
        found,
        key=lambda one: (-one.confidence, _SEVERITY.index(one.severity), -rates[one.base_rate], one.id, one.subject),
    )
    placed: list[Diagnosis] = []
    while waiting:
        ahead = {one.id for one in waiting}
        # What is explained waits for its cause; a cause is never explained itself, so one is always free.
        chosen = next((one for one in waiting if one.explained_by not in ahead), waiting[0])
        waiting.remove(chosen)
        placed.append(chosen)
    causes = {one.explained_by: None for one in placed if one.explained_by}
    return tuple(
        one._replace(explains=tuple(dict.fromkeys(e.id for e in placed if e.explained_by == one.id)))
        if one.id in causes
        else one
        for one in placed
    )

"""The tree behind a conclusion: rules with their place, facts with their sources, tables, and "and no X". Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from .model import (
    HOST,
    PRESENT,
    Conclusion,
    Diagnosis,
    Fact,
    Firing,
    Ground,
    Inference,
    Knowledge,
    Location,
    Proof,
    Rule,
    Source,
    Support,
)
from .rank import because
from .settle import Facts

_DIAGNOSIS = "diagnosis."
_NO = "no:"


def names_of(knowledge: Knowledge) -> tuple[str, ...]:
    """Everything that `prove` can be asked about: ids of diagnoses, `finding.x`, `note.x`."""
    heads = (rule.head for rule in knowledge.rules)
    return tuple(dict.fromkeys([*knowledge.articles, *(head for head in heads if not head.startswith(_DIAGNOSIS))]))


def prove(
    name: str, inference: Inference, facts: Facts, diagnoses: Sequence[Diagnosis], knowledge: Knowledge
) -> tuple[Proof, ...]:
    """One proof per subject that `name` was concluded of; empty if it was not concluded."""
    grower = _Grower(inference.conclusions, facts, knowledge)
    if name not in knowledge.articles:
        found = [one for one in inference.conclusions if one.name == name]
        return tuple(Proof(name, one.subject, "", None, "", "", tuple(grower.firings(one, ()))) for one in found)
    article = knowledge.articles[name]
    ranked = [one for one in diagnoses if one.id == name]
    proofs = []
    for one in ranked:
        firings = tuple(_of_diagnosis(one, grower, knowledge))
        proofs.append(Proof(name, one.subject, article.title, one.confidence, one.base_rate, one.explained_by, firings))
    if not ranked:
        concluded = [one for one in inference.conclusions if one.name == _DIAGNOSIS + name]
        for conclusion in concluded:
            firings = tuple(grower.firings(conclusion, ()))
            proofs.append(Proof(name, conclusion.subject, article.title, None, article.base_rate, "", firings))
    return tuple(proofs)


def _of_diagnosis(one: Diagnosis, grower: "_Grower", knowledge: Knowledge) -> Iterator[Firing]:
    subjects = {*one.subject.split(","), HOST}
    grown: dict[tuple[str, str], Firing] = {}
    for conclusion in grower.concluded(_DIAGNOSIS + one.id):
        if conclusion.subject in subjects:
            for firing in grower.firings(conclusion, ()):
                grown.setdefault((firing.rule, firing.because), firing)
    for evidence in one.evidence:
        fired = grown.get((evidence.rule, evidence.because))
        if fired is not None:
            yield fired._replace(counted=evidence.counted)
        else:  # the outcome of a test that the article names
            grounds = tuple(grower.ground(fact, ()) for fact in evidence.facts)
            yield Firing(
                evidence.rule,
                knowledge.articles[one.id].at,
                evidence.pack,
                evidence.because,
                evidence.strength,
                evidence.supports,
                evidence.counted,
                grounds,
            )


class _Grower:
    """From ids back to what they stand for."""

    def __init__(self, conclusions: Iterable[Conclusion], facts: Facts, knowledge: Knowledge) -> None:
        self._conclusions = tuple(conclusions)
        self._by_id = {f"{one.name}@{one.subject}": one for one in self._conclusions}
        self._fact = facts.by_id()
        self._rules: Mapping[str, Rule] = knowledge.rules_by_id()

    def concluded(self, name: str) -> Iterator[Conclusion]:
        return (one for one in self._conclusions if one.name == name)

    def firings(self, conclusion: Conclusion, above: tuple[str, ...]) -> Iterator[Firing]:
        path = (*above, f"{conclusion.name}@{conclusion.subject}")
        for support in conclusion.supports:
            yield self._firing(support, path)

    def _firing(self, support: Support, path: tuple[str, ...]) -> Firing:
        rule = self._rules.get(support.rule)
        grounds = tuple(self.ground(one, path) for met in support.met_by for one in met)
        if rule is None:
            return Firing(support.rule, Location(""), "", "", "", True, True, grounds)
        said = because(rule, support, self._fact)
        speaks_for = not rule.evidence.endswith("-against")
        return Firing(rule.id, rule.at, rule.pack, said, rule.evidence, speaks_for, True, grounds)

    def ground(self, one: str, path: tuple[str, ...]) -> Ground:
        """`path` holds the ids above: findings that follow from each other are not unrolled for ever."""
        bare = one.removeprefix(_NO)
        name, _, subject = bare.rpartition("@")
        if one.startswith(_NO):
            return Ground("absence", name or bare, subject if name else HOST, "absent")
        fact = self._fact(bare)
        if (conclusion := self._by_id.get(bare)) is not None and fact is None:
            firings = () if bare in path else tuple(self.firings(conclusion, path))
            return Ground("finding", name, subject, firings=firings)
        if fact is None:
            return Ground("finding" if name.startswith("finding.") else "fact", name or bare, subject, "unknown")
        bases = () if bare in path else tuple(self.ground(base, (*path, bare)) for base in fact.bases)
        return Ground("fact", fact.name, fact.subject, fact.state, fact.value, _sources(fact), bases)


def _sources(fact: Fact) -> tuple[Source, ...]:
    agreeing = [claim.source for claim in fact.claims if claim.state == fact.state and claim.value == fact.value]
    return tuple(dict.fromkeys(agreeing)) or ((fact.source,) if fact.state == PRESENT or fact.bases else ())

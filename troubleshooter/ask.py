"""The unknown facts that would decide most, as questions to the person."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from .model import HOST, UNKNOWN, Conclusion, Diagnosis, FactSpec, Inference, Knowledge, Question
from .rank import confidence
from .settle import Facts

_MOST = 3
_LEAST_GAIN = 0.02
_MOST_UNKNOWNS = 2
"""A rule that waits for more answers than this is too far from firing to ask about."""
CERTAIN = 0.9
_REMOTE, _UNSUSPECTED = 0.05, 0.2
"""What a question about something that nothing points to is worth, beside suspicions and without any."""
_PREFIX = "diagnosis."


def ask(
    inference: Inference, diagnoses: Sequence[Diagnosis], facts: Facts, knowledge: Knowledge
) -> tuple[Question, ...]:
    """At most three questions, the one that moves most confidence first; none where the cause is certain already."""
    if any(one.confidence >= CERTAIN for one in diagnoses):
        return ()
    rules = knowledge.rules_by_id()
    now = {one.id: one.confidence for one in diagnoses}
    possible = {f"{one.name}@{one.subject}": one for one in inference.possible}
    certain = {f"{one.name}@{one.subject}" for one in inference.conclusions}
    gains: dict[str, dict[str, float]] = {}
    worth = worth_asking(knowledge.facts)
    for conclusion in inference.possible:
        if not conclusion.name.startswith(_PREFIX):
            continue
        name = conclusion.name.removeprefix(_PREFIX)
        moves: dict[str, float] = {}
        start = now[name] if name in now else confidence(knowledge.base_rate(name))
        for support in conclusion.supports:
            wanted = _unknowns((one for met in support.met_by for one in met), facts, possible, certain)
            names = {one.partition("@")[0] for one in wanted}
            if not names or not worth(names):
                continue
            evidence = rules[support.rule].evidence
            if evidence not in moves:
                step = knowledge.strengths.evidence[evidence]
                moves[evidence] = abs(confidence(_logit(start) + step) - start)
            moved = moves[evidence] / len(names)
            if name not in now:
                moved *= _REMOTE if now else _UNSUSPECTED
            for one in names:
                gain = gains.setdefault(one, {})
                gain[name] = max(gain.get(name, 0.0), moved)
    order = sorted(gains, key=lambda one: (-sum(gains[one].values()), one))
    chosen = [name for name in order if sum(gains[name].values()) >= _LEAST_GAIN][:_MOST]
    family = facts.text("os.family")
    return tuple(_question(name, gains[name], knowledge, family) for name in chosen)


def worth_asking(catalogue: Mapping[str, FactSpec]) -> Callable[[Collection[str]], bool]:
    """Whether a rule can lead to a question that waits for these facts: a few, and a person can find them all out."""
    known: dict[str, bool] = {}

    def askable(name: str) -> bool:
        if name not in known:
            spec = catalogue.get(name)
            known[name] = spec is not None and spec.ask is not None
        return known[name]

    return lambda names: len(names) <= _MOST_UNKNOWNS and all(askable(name) for name in names)


def _question(name: str, gain: Mapping[str, float], knowledge: Knowledge, family: str) -> Question:
    asked = knowledge.facts[name].ask
    assert asked is not None
    decides = sorted(gain, key=lambda one: (-gain[one], one))[:4]
    there = not asked.systems or not family or family in asked.systems
    return Question(name, asked.say, asked.run if there else (), tuple(decides))


def _logit(probability: float) -> float:
    from math import log

    bounded = min(max(probability, 1e-6), 1 - 1e-6)
    return log(bounded / (1 - bounded))


def _unknowns(ids: Iterable[str], facts: Facts, possible: Mapping[str, Conclusion], certain: set[str]) -> set[str]:
    """Ids of the unknown base facts behind the undecided conditions of a support."""
    found: set[str] = set()
    seen: set[str] = set()
    waiting = list(ids)
    while waiting:
        one = waiting.pop()
        if one in seen or one in certain:
            continue
        seen.add(one)
        if one.startswith("no:"):
            continue
        if conclusion := possible.get(one):
            waiting += [each for support in conclusion.supports for met in support.met_by for each in met]
            continue
        name, _, subject = one.partition("@")
        fact = facts.fact(name, subject or HOST)
        if fact is None or fact.state == UNKNOWN:
            found |= {one} if fact is None or not fact.bases else set(fact.bases)
    return found

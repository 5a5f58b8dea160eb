"""Warnings: knowledge that loads and is nevertheless doubtful. Mistakes that keep it from loading are in `check`."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date

from ..engine.conditions import holds
from ..errors import Problem
from ..model import (
    ABSENT,
    NOWHERE,
    PRESENT,
    UNKNOWN,
    Condition,
    Fact,
    FactRef,
    FactSpec,
    Knowledge,
    Location,
    Rule,
    Signature,
    Strengths,
    Value,
)
from ..text import clean
from .translate import texts_of

OLDEST_DAYS = 180
"""How long a look at a source counts."""

_FINDING = "finding."
_OF_TEXT = "log."


def lint(knowledge: Knowledge, today: date) -> tuple[Problem, ...]:
    """All warnings, in the order of the files; those about what nobody translated come last."""
    dead = dict(_dead(knowledge))
    alive = [rule for place, rule in enumerate(knowledge.rules) if place not in dead]
    found = [
        *_dates(knowledge, today),
        *dead.values(),
        *_shadowed(alive, knowledge.facts, knowledge.strengths),
        *_conflicting(alive),
        *_examples(knowledge),
        *_unused(knowledge),
    ]
    return (*sorted(found, key=lambda problem: problem.at), *_untranslated(knowledge))


def _place(condition: Condition, rule: Rule) -> Location:
    return condition.at if condition.at.file else rule.at


# --- sources


def _dates(knowledge: Knowledge, today: date) -> Iterator[Problem]:
    for article in knowledge.articles.values():
        for reference in article.references:
            yield from _date(f"the reference {reference.url}", reference.checked, article.at, today)
    for table in knowledge.tables.values():
        yield from _date(f"the table {table.name!r}", table.checked, table.at, today)


def _date(what: str, checked: str, at: Location, today: date) -> Iterator[Problem]:
    try:
        age = (today - date.fromisoformat(checked)).days
    except ValueError:
        yield Problem(f"{what} does not say when it was looked at", at, "checked: YEAR-MONTH-DAY")
        return
    if age > OLDEST_DAYS:
        yield Problem(
            f"{what} was looked at {age} days ago ({checked})", at, "read it again, and change 'checked' if it holds"
        )


# --- rules that can never fire


def _dead(knowledge: Knowledge) -> Iterator[tuple[int, Problem]]:
    """The places of the rules, each with the reason."""
    concluding: dict[str, list[int]] = defaultdict(list)
    for place, rule in enumerate(knowledge.rules):
        if rule.concludes:
            concluding[rule.concludes].append(place)
    dead: set[int] = set()
    for place, rule in enumerate(knowledge.rules):
        if condition := next(_excluded(rule.when, knowledge.facts), None):
            dead.add(place)
            says = f"the rule {rule.id!r} can never fire: no value of {condition.fact!r} meets all its conditions"
            yield place, Problem(says, _place(condition, rule))
    grown = True
    while grown:
        grown = False
        for place, rule in enumerate(knowledge.rules):
            waits = (one for one in rule.when if _asks_for_presence(one) and dead.issuperset(concluding[one.fact]))
            if place not in dead and (condition := next(waits, None)):
                dead.add(place)
                grown = True
                says = f"the rule {rule.id!r} can never fire: no rule that concludes {condition.fact!r} ever does"
                yield place, Problem(says, _place(condition, rule))


def _asks_for_presence(condition: Condition) -> bool:
    return condition.fact.startswith(_FINDING) and condition.op == "state" and condition.operand == PRESENT


def _excluded(when: Iterable[Condition], catalogue: Mapping[str, FactSpec]) -> Iterator[Condition]:
    """The last condition on each fact of which no value meets all its conditions."""
    by_fact: dict[str, list[Condition]] = defaultdict(list)
    for condition in when:
        by_fact[condition.fact].append(condition)
    for name, conditions in by_fact.items():
        if len(conditions) > 1 and not _satisfiable(name, conditions, catalogue):
            yield conditions[-1]


def _satisfiable(name: str, conditions: list[Condition], catalogue: Mapping[str, FactSpec]) -> bool:
    if name.startswith(_FINDING):
        return len({"present" if _asks_for_presence(one) else "other" for one in conditions}) == 1
    by_other: dict[str, list[str]] = defaultdict(list)
    for one in conditions:
        if isinstance(one.operand, FactRef):
            by_other[one.operand.fact].append(one.op)
    # Compared with another fact, a value is below, equal to or above it; those operators that cannot say are left out.
    if any(not any(all(_fits(op, sign) for op in ops) for sign in (-1, 0, 1)) for ops in by_other.values()):
        return False
    literal = [one for one in conditions if not isinstance(one.operand, FactRef)]
    spec = catalogue.get(name) or FactSpec(name, "text", "host", "")
    wanted = [one for one in literal if one.op not in ("state", "no")]
    values = list(_candidates(wanted, spec))
    # Of a pattern no text that it matches can be made up: it excludes only what other conditions name.
    named = spec.one_of or spec.type == "flag" or any(one.op in ("is", "one_of", "has") for one in wanted)
    decided = [one for one in literal if named or one.op != "matches"]
    states: list[tuple[str, Value | None]] = [(PRESENT, value) for value in values]
    if not by_other:
        states += [(ABSENT, None), (UNKNOWN, None)]
    return any(
        all(holds(one, spec.type, Fact(name, "host", state, value, NOWHERE), None) for one in decided)
        for state, value in states
    )


_SIGNS: dict[str, Callable[[int], bool]] = {
    "is": lambda sign: sign == 0,
    "is_not": lambda sign: sign != 0,
    "below": lambda sign: sign < 0,
    "at_most": lambda sign: sign <= 0,
    "above": lambda sign: sign > 0,
    "at_least": lambda sign: sign >= 0,
}


def _fits(op: str, sign: int) -> bool:
    return op not in _SIGNS or _SIGNS[op](sign)


def _candidates(conditions: Iterable[Condition], spec: FactSpec) -> Iterator[Value]:
    """Values of which one meets the conditions if any value does: the operands, their neighbours, and another one."""
    if spec.type == "flag":
        yield from (True, False)
        return
    if spec.one_of and spec.type in ("text", "version"):
        yield from spec.one_of
        return
    operands: list[Value] = []
    for one in conditions:
        if isinstance(one.operand, tuple) and one.op == "one_of":
            operands += one.operand
        elif one.operand is not None and not isinstance(one.operand, FactRef):
            operands.append(one.operand)
    if spec.type in ("texts", "versions"):
        listed = tuple(str(one) for one in operands)
        yield from (listed, *((one,) for one in listed), ())
        return
    if spec.type == "number":
        numbers = [float(one) for one in operands if isinstance(one, (int, float, str)) and _is_number(one)]
        yield from numbers
        for number in numbers:
            yield from (number - 0.5, number + 0.5)
        yield 0
        return
    yield from operands
    if spec.type == "version":
        for version in operands:
            yield from (f"{version}.1", f"{version}.dev1", f"{version}rc1")
        yield from ("0", "999999")
    else:
        yield "\x00 anything else"


def _is_number(value: Value) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


# --- rules that add nothing to others, or contradict them

_Key = tuple[str, str, type, object]


def _key(condition: Condition) -> _Key:
    return condition.fact, condition.op, type(condition.operand), condition.operand  # the type: True equals 1


def _shadowed(rules: Iterable[Rule], catalogue: Mapping[str, FactSpec], strengths: Strengths) -> Iterator[Problem]:
    """Rules that ask for all that another one asks for, and more, and say no more than that one says."""
    by_head: dict[str, list[tuple[int, Rule]]] = defaultdict(list)
    for position, rule in enumerate(rules):
        by_head[rule.head].append((position, rule))
    for same in by_head.values():
        # Only a rule with a fact of this one's can be implied by it.
        by_fact: dict[str, list[tuple[int, Rule]]] = defaultdict(list)
        for position, rule in same:
            for name in {condition.fact for condition in rule.when}:
                by_fact[name].append((position, rule))
        for position, rule in same:
            near = {place: other for one in rule.when for place, other in by_fact[one.fact]}
            for place, other in sorted(near.items()):
                if place == position or not _says_as_much(other, rule, strengths):
                    continue
                if not _implies(rule.when, other.when, catalogue):
                    continue
                if _implies(other.when, rule.when, catalogue) and _says_as_much(rule, other, strengths):
                    if place < position:
                        yield Problem(
                            f"the rule {rule.id!r} asks for the same as {other.id!r} and says no more", rule.at
                        )
                        break
                    continue
                yield Problem(
                    f"the rule {rule.id!r} is shadowed: whenever it fires, {other.id!r} does and says as much",
                    rule.at,
                    f"see {other.at.file}:{other.at.line}",
                )
                break


def _says_as_much(one: Rule, other: Rule, strengths: Strengths) -> bool:
    """Whether `one` makes `other` superfluous where both fire: its evidence is on the same side and stronger, or as
    strong and `other` shows nothing of the machine that it does not. Findings and notes have no strength.
    """
    if not other.evidence:
        return True
    mine, its = (strengths.evidence.get(rule.evidence, 0.0) for rule in (one, other))
    if mine * its <= 0 or abs(mine) < abs(its):
        return False
    seen = {condition.fact for condition in one.when}
    return abs(mine) > abs(its) or all(
        condition.fact in seen or condition.fact.startswith(_OF_TEXT) for condition in other.when
    )


def _implies(stronger: Iterable[Condition], weaker: Iterable[Condition], catalogue: Mapping[str, FactSpec]) -> bool:
    conditions = tuple(stronger)
    return all(any(_condition_implies(have, want, catalogue) for have in conditions) for want in weaker)


def _condition_implies(have: Condition, want: Condition, catalogue: Mapping[str, FactSpec]) -> bool:
    if have.fact != want.fact:
        return False
    if _key(have) == _key(want):
        return True
    if have.op in ("state", "no"):
        return False
    if want.op == "state":
        return want.operand == PRESENT
    if isinstance(have.operand, FactRef) or isinstance(want.operand, FactRef) or have.operand is None:
        return False
    spec = catalogue.get(have.fact)
    if spec is None or spec.type in ("texts", "versions"):
        return False

    def met_by(value: Value) -> bool:
        return holds(want, spec.type, Fact(spec.name, "host", PRESENT, value, NOWHERE), None) is True

    if have.op == "is":
        return met_by(have.operand)
    if have.op == "one_of" and isinstance(have.operand, tuple):
        return all(met_by(value) for value in have.operand)
    for strict, loose in (("below", "at_most"), ("above", "at_least")):
        if have.op in (strict, loose) and want.op in (strict, loose):
            # below 12 implies below 12, of which 12 itself is none; at_most 12 does not.
            return met_by(have.operand) or (have.op == strict and have.operand == want.operand)
    return False


def _conflicting(rules: Iterable[Rule]) -> Iterator[Problem]:
    by_conditions: dict[tuple[str, frozenset[_Key]], list[Rule]] = defaultdict(list)
    for rule in rules:
        if rule.evidence:
            by_conditions[rule.diagnosis, frozenset(map(_key, rule.when))].append(rule)
    for same in by_conditions.values():
        speaks_for = next((rule for rule in same if not rule.evidence.endswith("-against")), None)
        against = next((rule for rule in same if rule.evidence.endswith("-against")), None)
        if speaks_for and against:
            yield Problem(
                f"the rules {speaks_for.id!r} and {against.id!r} ask for the same, and one speaks for "
                f"{against.diagnosis!r}, the other against it",
                against.at,
            )


# --- examples and texts


def _examples(knowledge: Knowledge) -> Iterator[Problem]:
    for rule in knowledge.rules:
        for examples, what in ((rule.fires, "fires"), (rule.quiet, "stays quiet")):
            if not examples:
                yield Problem(f"the rule {rule.id!r} has no example on which it {what}", rule.at)
    for signature in knowledge.signatures:
        if not signature.ignores:
            yield Problem(f"the signature {signature.id!r} has no look-alike that it must ignore", signature.at)
        for line in signature.matches:
            if not _passes(signature, clean(line).lower()):
                yield Problem(
                    f"the quick reject of the signature {signature.id!r} misses its own example {line!r:.80}",
                    signature.at,
                    f"it looks for {', '.join(map(repr, signature.literals))}",
                )


def _unused(knowledge: Knowledge) -> Iterator[Problem]:
    """Signatures that state no fact and that nobody names: no rule, no example, no remedy."""
    named = {name for rule in knowledge.rules for one in (*rule.fires, *rule.quiet) for name, _ in one.facts}
    named |= {condition.fact for rule in knowledge.rules for condition in rule.when}
    for article in knowledge.articles.values():
        for remedy in article.remedies:
            asked = (*remedy.when, *remedy.unless, *(c for step in remedy.steps for c in (*step.when, *step.unless)))
            named |= {condition.fact for condition in asked}
    for signature in knowledge.signatures:
        if not signature.facts and f"{_OF_TEXT}{signature.id}" not in named:
            yield Problem(f"nobody asks for the signature {signature.id!r}, and it states no fact", signature.at)


def _passes(signature: Signature, line: str) -> bool:
    whole = re.sub(r"\s*\n\s*", " ", line)
    return any(literal in line or literal in whole for literal in signature.literals) and (
        not signature.needs or any(all(text in line or text in whole for text in texts) for texts in signature.needs)
    )


_MOST_SHOWN = 3


def _untranslated(knowledge: Knowledge) -> Iterator[Problem]:
    if not knowledge.translations:
        return
    texts = dict.fromkeys(text for text in texts_of(knowledge) if text)
    for language, translated in sorted(knowledge.translations.items()):
        missing = [text for text in texts if text not in translated]
        if missing:
            shown = ", ".join(f"{text!r:.60}" for text in missing[:_MOST_SHOWN])
            yield Problem(
                f"{len(missing)} of {len(texts)} texts have no translation into {language!r}: {shown}"
                + (" …" if len(missing) > _MOST_SHOWN else ""),
                Location(f"knowledge_base/translations/{language}"),
            )

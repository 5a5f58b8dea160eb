"""Rules with one change each: a change that no example of the rule notices is a condition that nobody has tested. Pure.

What is changed: a condition is left out; its answer is turned round; a bound takes in or leaves out its own value, or
moves by one step; one of several allowed values is left out.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from .engine.conditions import Truth
from .examples import truths
from .model import Condition, Example, FactRef, FactSpec, Location, Rule, Value

_EDGES = {"below": "at_most", "at_most": "below", "above": "at_least", "at_least": "above"}


class Mutant(NamedTuple):
    """The rule with its condition number `place` (from 0) replaced: by `condition`, or by nothing, or turned round."""

    rule: Rule
    place: int
    kind: str
    """dropped, negated, edge, moved-up, moved-down or value-dropped."""
    change: str
    condition: Condition | None
    turned: bool = False

    @property
    def at(self) -> Location:
        at = self.rule.when[self.place].at
        return at if at.file else self.rule.at


class Score(NamedTuple):
    mutants: int
    survivors: tuple[Mutant, ...]

    @property
    def caught(self) -> float:
        """Between 0 and 1; 1 where there is nothing to change."""
        return 1 - len(self.survivors) / self.mutants if self.mutants else 1.0


def mutate(rules: Iterable[Rule], catalogue: Mapping[str, FactSpec]) -> Score:
    """All changes of all rules, and those after which every example of the rule gives the same as before."""
    survivors: list[Mutant] = []
    count = 0
    for rule in rules:
        tried = [(example, truths(rule.when, example, catalogue)) for example in (*rule.fires, *rule.quiet)]
        for mutant in mutants_of(rule):
            count += 1
            if all(fires_as(mutant, example, found, catalogue) is _all_hold(found) for example, found in tried):
                survivors.append(mutant)
    return Score(count, tuple(survivors))


def _all_hold(found: Iterable[Truth]) -> bool:
    return all(truth is True for truth in found)


def fires_as(mutant: Mutant, example: Example, found: tuple[Truth, ...], catalogue: Mapping[str, FactSpec]) -> bool:
    """Whether the changed rule fires, where `found` are the truths of the unchanged conditions."""
    if not _all_hold(truth for place, truth in enumerate(found) if place != mutant.place):
        return False
    if mutant.turned:
        return found[mutant.place] is False
    if mutant.condition is None:
        return True
    return truths((mutant.condition,), example, catalogue)[0] is True


def mutants_of(rule: Rule) -> Iterator[Mutant]:
    for place, condition in enumerate(rule.when):
        shown = f"{condition.fact} {condition.op}"
        if len(rule.when) > 1:  # a rule without any condition is a mistake of its own
            yield Mutant(rule, place, "dropped", f"without the condition on {condition.fact}", None)
        yield Mutant(rule, place, "negated", f"{shown}: turned round", condition, turned=True)
        if condition.op in _EDGES:
            op = _EDGES[condition.op]
            yield Mutant(rule, place, "edge", f"{condition.fact} {op}: its own value", condition._replace(op=op))
            for kind, operand in _moved(condition.operand):
                changed = f"{shown} {operand} for {condition.operand}"
                yield Mutant(rule, place, kind, changed, condition._replace(operand=operand))
        if condition.op == "one_of" and isinstance(condition.operand, tuple) and len(condition.operand) > 1:
            for value in condition.operand:
                rest = tuple(one for one in condition.operand if one != value)
                yield Mutant(
                    rule, place, "value-dropped", f"{shown}: without {value}", condition._replace(operand=rest)
                )


def _moved(operand: Value | FactRef | None) -> Iterator[tuple[str, Value]]:
    """A bound one step up and one step down; that of another fact cannot be moved."""
    if isinstance(operand, (int, float)) and not isinstance(operand, bool):
        yield "moved-up", operand + 1
        yield "moved-down", operand - 1
    elif isinstance(operand, str):
        for kind, by in (("moved-up", 1), ("moved-down", -1)):
            if moved := step(operand, by):
                yield kind, moved


def step(version: str, by: int) -> str:
    """The version with the last of its numbers that is not zero moved by one; empty where there is none.

    12.1 goes to 12.2 and 12.0, 2.0 to 3.0 and 1.0, 525.60.13 to 525.60.14 and 525.60.12.
    """
    numbers = [match for match in re.finditer(r"\d+", version) if int(match[0])]
    if not numbers:
        return ""
    last = numbers[-1]
    moved = str(int(last[0]) + by).zfill(len(last[0]))
    return f"{version[: last.start()]}{moved}{version[last.end() :]}"

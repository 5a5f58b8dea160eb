"""Which rules of a program a run has to look at: those that the facts it has can bring to life.

Most rules wait for a signature that no text of the run shows, or for a fact that nobody stated. They need not be read.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ..model import UNKNOWN, FactRef, Rule

FINDING = "finding."
LOG = "log."

Worth = Callable[[Collection[str]], bool]
"""Whether a rule is worth looking at that waits for exactly these facts, which nobody stated."""


class Guards(NamedTuple):
    """Every rule stands, by its position, in exactly one of the three."""

    always: Sequence[int]
    by_signature: Mapping[str, Sequence[int]]
    """Rules that want a signature to be shown, by the name of its fact: without it they are plainly false."""
    by_fact: Mapping[str, Sequence[int]]
    """Of the rules whose head no rule reads, those that cannot fire for sure before this fact is stated."""
    facts: Mapping[int, Sequence[str]]
    """By the position of a rule that stands in `by_fact`, all facts that it speaks of."""

    def rules(self, stated: Collection[str], *, silent: bool, undecided: bool, worth: Worth | None) -> list[int]:
        """The positions of all rules that can fire, in order.

        `stated`: the names of the facts that there are; `silent`: what is not stated of a signature is false.
        `undecided`: also those that could fire if the unknown were known, as far as they are `worth` it.
        """
        found = [*self.always]
        for name in stated if silent else self.by_signature:
            found += self.by_signature.get(name, ())
        if not undecided:
            for name in stated:
                found += self.by_fact.get(name, ())
        elif worth is None:
            for positions in self.by_fact.values():
                found += positions
        else:
            for position, names in self.facts.items():
                missing = [name for name in names if name not in stated and not (silent and name.startswith(LOG))]
                if not missing or worth(missing):
                    found.append(position)
        return sorted(found)


def guards_of(rules: Sequence[Rule]) -> Guards:
    """Each rule under its signature, or under the fact that the fewest rules speak of."""
    mentioned: dict[str, int] = {}
    wanted = [_wanted(rule) for rule in rules]
    for names in wanted:
        for name in names:
            mentioned[name] = mentioned.get(name, 0) + 1
    always: list[int] = []
    by_signature: dict[str, list[int]] = {}
    by_fact: dict[str, list[int]] = {}
    facts: dict[int, list[str]] = {}
    for position, (rule, names) in enumerate(zip(rules, wanted, strict=True)):
        shown = [c.fact for c in rule.when if c.fact.startswith(LOG) and c.op == "is" and c.operand is True]
        if shown:
            by_signature.setdefault(min(shown, key=lambda name: (mentioned[name], name)), []).append(position)
        # Of a signature it may be known that no text shows it, without anybody stating so.
        elif (seen := [name for name in names if not name.startswith(LOG)]) and not rule.head.startswith(FINDING):
            by_fact.setdefault(min(seen, key=lambda name: (mentioned[name], name)), []).append(position)
            facts[position] = _facts(rule)
        else:
            always.append(position)
    return Guards(always, by_signature, by_fact, facts)


def _wanted(rule: Rule) -> list[str]:
    """The facts without which the rule cannot fire for sure."""
    found: dict[str, None] = {}
    for condition in rule.when:
        if condition.fact.startswith(FINDING) or (condition.op == "state" and condition.operand == UNKNOWN):
            continue
        found[condition.fact] = None
        if isinstance(condition.operand, FactRef):
            found[condition.operand.fact] = None
    return list(found)


def _facts(rule: Rule) -> list[str]:
    found = {condition.fact: None for condition in rule.when if not condition.fact.startswith(FINDING)}
    found.update((c.operand.fact, None) for c in rule.when if isinstance(c.operand, FactRef))
    return list(found)

"""Which rules of a program a run has to look at: those that the facts it has can bring to life.

Most rules wait for a signature that no text of the run shows, or for a fact that nobody stated. They need not be read.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ..model import UNKNOWN, FactRef, Rule
from .program import FINDING, asks_for_presence, is_finding

LOG = "log."

Worth = Callable[[Collection[str]], bool]
"""Whether a rule is worth looking at that waits for exactly these facts, which nobody stated."""


class Guards(NamedTuple):
    """Every rule stands, by its position, in exactly one of the first four."""

    always: Sequence[int]
    by_signature: Mapping[str, Sequence[int]]
    """Rules that want a signature to be shown, by the name of its fact: without it they are plainly false."""
    by_finding: Mapping[str, Sequence[int]]
    """Rules that want a finding to be there."""
    by_fact: Mapping[str, Sequence[int]]
    """Rules that cannot fire for sure before this fact is stated."""
    facts: Mapping[int, Sequence[str]]
    """By the position of a rule for a diagnosis or note in the last two, all facts that it speaks of."""
    awaited: Collection[str]
    """The findings of which some rule asks whether they are absent or unknown, and all that lead to these: what could
    follow counts there, too.
    """

    def rules(self, stated: Collection[str], *, silent: bool, undecided: bool, worth: Worth | None) -> list[int]:
        """The positions of all rules that can fire, but for those that follow once a finding can be there; in order.

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
            for positions in self.by_fact.values():
                found += [one for one in positions if self.is_worth(one, stated, silent=silent, worth=worth)]
        return sorted(found)

    def is_worth(self, position: int, stated: Collection[str], *, silent: bool, worth: Worth) -> bool:
        missing = [
            name
            for name in self.facts.get(position, ())
            if name not in stated and not (silent and name.startswith(LOG))
        ]
        return not missing or worth(missing)


def guards_of(rules: Sequence[Rule]) -> Guards:
    """Each rule under its signature, its finding, or the fact, of which the fewest rules speak."""
    mentioned: dict[str, int] = {}
    wanted = [_wanted(rule) for rule in rules]
    for names in wanted:
        for name in names:
            mentioned[name] = mentioned.get(name, 0) + 1
    awaited = _awaited(rules)
    always: list[int] = []
    by_signature: dict[str, list[int]] = {}
    by_finding: dict[str, list[int]] = {}
    by_fact: dict[str, list[int]] = {}
    facts: dict[int, list[str]] = {}
    for position, (rule, names) in enumerate(zip(rules, wanted, strict=True)):
        shown = {c.fact for c in rule.when if c.fact.startswith(LOG) and c.op == "is" and c.operand is True}
        findings = [name for name in names if name.startswith(FINDING)]
        # Of a signature it may be known that no text shows it, without anybody stating so.
        stated = [name for name in names if not name.startswith((LOG, FINDING)) and rule.head not in awaited]
        for choice, by_name in ((shown, by_signature), (findings, by_finding), (stated, by_fact)):
            if choice:
                by_name.setdefault(min(choice, key=lambda name: (mentioned[name], name)), []).append(position)
                if not shown and not rule.head.startswith(FINDING):
                    facts[position] = _facts(rule)
                break
        else:
            always.append(position)
    return Guards(always, by_signature, by_finding, by_fact, facts, awaited)


def _wanted(rule: Rule) -> list[str]:
    """The facts and findings without which the rule cannot fire for sure."""
    found: dict[str, None] = {}
    for condition in rule.when:
        if condition.fact.startswith(FINDING):
            if asks_for_presence(condition):
                found[condition.fact] = None
        elif condition.op != "state" or condition.operand != UNKNOWN:
            found[condition.fact] = None
            if isinstance(condition.operand, FactRef):
                found[condition.operand.fact] = None
    return list(found)


def _facts(rule: Rule) -> list[str]:
    found = {condition.fact: None for condition in rule.when if not condition.fact.startswith(FINDING)}
    found.update((c.operand.fact, None) for c in rule.when if isinstance(c.operand, FactRef))
    return list(found)


def _awaited(rules: Sequence[Rule]) -> set[str]:
    leads_to: dict[str, set[str]] = {}
    for rule in rules:
        if rule.head.startswith(FINDING):
            leads_to.setdefault(rule.head, set()).update(c.fact for c in rule.when if is_finding(c))
    waiting = [c.fact for rule in rules for c in rule.when if is_finding(c) and not asks_for_presence(c)]
    found: set[str] = set()
    while waiting:
        if (one := waiting.pop()) not in found:
            found.add(one)
            waiting += leads_to.get(one, ())
    return found

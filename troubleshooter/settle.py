"""Claims to facts: one value per (name, subject), the losing claims kept, disagreements stated as a fact."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from .model import (
    ABSENT,
    HOST,
    NOWHERE,
    PRESENT,
    SILENCE,
    UNKNOWN,
    Claim,
    Fact,
    FactSpec,
    Source,
    Value,
)
from .versions import order, same

TRUST = ("set", "process", "target", "nvml", "nvidia-smi", "file", "environment", "command", "text", "table")
"""Witnesses from the best to the worst, where the catalogue does not say otherwise."""

LOG = "log."
"""What the names of facts about signatures begin with."""

_LONGEST = 4096
_NUMBER_LENGTH = 40


class Facts(NamedTuple):
    """Settled facts, to be looked up by name. A fact that nobody stated is not in it.

    `silent`: texts were read to their end, so a `log.` fact that is not here is false, and is found so by its name.
    """

    by_name: Mapping[str, tuple[Fact, ...]]
    silent: bool = False

    def all(self) -> tuple[Fact, ...]:
        """Without those of signatures that no text shows."""
        return tuple([fact for facts in self.by_name.values() for fact in facts])

    def by_id(self) -> Callable[[str], Fact | None]:
        """From an id to its fact."""
        found = {fact.id: fact for facts in self.by_name.values() for fact in facts}
        if not self.silent:
            return found.get

        def find(one: str) -> Fact | None:
            return found.get(one) or (not_shown(one.partition("@")[0]) if one.startswith(LOG) else None)

        return find

    def fact(self, name: str, subject: str = HOST) -> Fact | None:
        for fact in self.by_name.get(name, ()):
            if fact.subject == subject:
                return fact
        return not_shown(name) if self.silent and subject == HOST and name.startswith(LOG) else None

    def value(self, name: str, subject: str = HOST) -> Value | None:
        """The value, or None if the fact is absent or unknown."""
        found = self.fact(name, subject)
        return found.value if found else None

    def text(self, name: str, subject: str = HOST) -> str:
        value = self.value(name, subject)
        return value if isinstance(value, str) else ""

    def subjects(self, prefix: str) -> tuple[str, ...]:
        """Every subject of a kind that a fact speaks of: `gpu` gives gpu:0, gpu:1."""
        found = {fact.subject for facts in self.by_name.values() for fact in facts}
        return tuple(sorted((one for one in found if one.startswith(f"{prefix}:")), key=_natural))

    def adding(self, facts: Iterable[Fact]) -> "Facts":
        """With `facts` for what is not settled yet: what was seen is never overwritten by what was derived."""
        merged = dict(self.by_name)
        for fact in facts:
            there = merged.get(fact.name, ())
            known = next((one for one in there if one.subject == fact.subject), None)
            if known is None or known.state == UNKNOWN:
                merged[fact.name] = (*(one for one in there if one is not known), fact)
        return Facts(merged, self.silent)


@lru_cache(maxsize=4096)
def not_shown(name: str) -> Fact:
    """What is known of a signature that no text shows."""
    return Fact(name, HOST, PRESENT, False, NOWHERE, claims=(Claim(name, HOST, PRESENT, False, NOWHERE),))


def _natural(subject: str) -> tuple[str, int, str]:
    kind, _, name = subject.partition(":")
    return kind, int(name) if name.isdecimal() and len(name) < _NUMBER_LENGTH else 0, name


def settle(claims: Iterable[Claim], catalogue: Mapping[str, FactSpec]) -> Facts:
    """One fact per (name, subject). Claims of names outside the catalogue, or of the wrong type, are left out."""
    heard: dict[tuple[str, str], list[Claim]] = {}
    silent = False
    for claim in claims:
        if claim.name == SILENCE.name:
            silent = True
            continue
        spec = catalogue.get(claim.name)
        if spec is None:
            continue
        fitted = _fit(claim, spec)
        if fitted is None:
            continue
        said = heard.setdefault((claim.name, claim.subject), [])
        if not said or fitted not in said:
            said.append(fitted)
    settled: dict[str, tuple[Fact, ...]] = {}
    disputed: list[str] = []
    for (name, subject), said in heard.items():
        spec = catalogue[name]
        if silent and name.startswith(LOG) and not any(claim.value is True for claim in said):
            said.append(Claim(name, HOST, PRESENT, False, NOWHERE))
        best = said[0] if len(said) == 1 else _best(said, spec.trust or TRUST)
        settled[name] = (
            *settled.get(name, ()),
            Fact(name, subject, best.state, best.value, best.source, best.reason, tuple(said)),
        )
        if len(said) > 1 and name != "disagrees" and any(_differ(best, claim, spec) for claim in said):
            disputed.append(name)
    if disputed and "disagrees" in catalogue:
        source = Source("probe", "process", "compared the sources with each other")
        settled["disagrees"] = (Fact("disagrees", HOST, PRESENT, tuple(dict.fromkeys(disputed)), source),)
    return Facts(settled, silent)


def _best(said: Iterable[Claim], trust: tuple[str, ...]) -> Claim:
    return min(said, key=lambda claim: (claim.state == UNKNOWN, _rank(claim, trust)))


def _rank(claim: Claim, trust: tuple[str, ...]) -> int:
    return trust.index(claim.source.via) if claim.source.via in trust else len(trust)


def _differ(best: Claim, other: Claim, spec: FactSpec) -> bool:
    if UNKNOWN in (best.state, other.state) or best is other:
        return False
    if best.state != other.state:
        return True
    if best.state == ABSENT:
        return False
    if spec.type == "version":
        return not same(str(best.value), str(other.value)) and not _shortened(str(best.value), str(other.value))
    return best.value != other.value


def _shortened(left: str, right: str) -> bool:
    """NVML says 580.159 where the driver says 580.159.04, people say 2.5 for 2.5.1: no disagreement."""
    first, second = (order(text) for text in (left, right))
    if first is None or second is None:
        return False
    length = min(len(first[0]), len(second[0]))
    return first[0][:length] == second[0][:length] and left.count(".") != right.count(".")


def _fit(claim: Claim, spec: FactSpec) -> Claim | None:
    """The claim with its value in the catalogue's type, or None if it has another type."""
    if claim.state != PRESENT:
        return claim
    value = _fit_value(claim.value, spec.type)
    if value is None or (spec.one_of and value not in spec.one_of):
        return None
    return claim if value is claim.value else claim._replace(value=value)


def _fit_value(value: Value | None, kind: str) -> Value | None:
    if kind == "flag":
        return value if isinstance(value, bool) else None
    if kind == "number":
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
        return _number(value) if isinstance(value, str) else None
    if kind in ("texts", "versions"):
        if isinstance(value, str):
            return (value[:_LONGEST],)
        return tuple(str(one)[:_LONGEST] for one in value) if isinstance(value, tuple) else None
    if isinstance(value, str):
        return value[:_LONGEST]
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _number(text: str) -> int | float | None:
    try:
        number = float(text) if len(text) <= _NUMBER_LENGTH else None
    except ValueError:
        return None
    if number is None or number != number or number in (float("inf"), float("-inf")):  # noqa: PLR0124 -- NaN
        return None
    return int(number) if number.is_integer() else number

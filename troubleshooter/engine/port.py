"""The port between our side and a back end: positive rules over tokens, with joins over subjects and chaining.

A back end never sees a fact, a value or a condition. Truth, absence and strata are settled before it is called.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..model import HOST


class Pattern(NamedTuple):
    """One condition of a rule, as a slot that tokens fill. `id` is unique among all patterns of a program.

    `kind` other than host: all patterns of the rule with that kind take tokens of the same subject.
    `waits_on` is the head whose conclusions fill this slot while the stratum runs, or empty.
    """

    id: str
    kind: str = HOST
    waits_on: str = ""


class JoinRule(NamedTuple):
    """When every pattern has a token: conclude `head` about the subject of kind `head_kind`.

    There is at least one pattern, and one of them has `head_kind` unless that is host.
    """

    id: str
    patterns: tuple[Pattern, ...]
    head: str
    head_kind: str = HOST


class Token(NamedTuple):
    """Something that fills a pattern: the ids to report in `Firing.met_by`, and whom it is about."""

    pattern: str
    ids: tuple[str, ...]
    subject: str = HOST


class Firing(NamedTuple):
    """One way in which a rule fired; `met_by` follows the order of its patterns."""

    rule: str
    subject: str
    met_by: tuple[tuple[str, ...], ...]


if TYPE_CHECKING:  # creating a protocol takes as long as all the rest of this module
    from typing import Protocol

    class Backend(Protocol):
        def fire(self, rules: Sequence[JoinRule], tokens: Sequence[Token]) -> list[Firing]:
            """Run to the fixpoint and give every firing once, in any order.

            A head that is concluded about a subject for the first time becomes one token in each pattern that waits on
            it.
            """


class EngineBroken(Exception):
    """A back end did what it must not do, or was asked for more than it can do safely; its answer is void."""


def conclusion_id(head: str, subject: str) -> str:
    return f"{head}@{subject}"


def conclusion_token(pattern: Pattern, head: str, subject: str) -> Token:
    return Token(pattern.id, (conclusion_id(head, subject),), subject)


def waiting(rules: Sequence[JoinRule]) -> dict[str, list[Pattern]]:
    """By head, the patterns that its conclusions fill."""
    patterns: dict[str, list[Pattern]] = {}
    for rule in rules:
        for pattern in rule.patterns:
            if pattern.waits_on:
                patterns.setdefault(pattern.waits_on, []).append(pattern)
    return patterns

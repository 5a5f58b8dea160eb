"""The back end in plain Python: semi-naive, indexed by pattern and by subject. Runs everywhere."""

from collections.abc import Iterator, Sequence
from itertools import product

from ..model import HOST
from .port import Firing, JoinRule, Token, conclusion_token, waiting

_Box = dict[str, list[Token]]
"""The tokens that one pattern has received so far, by subject."""


class Indexed:
    """A token is joined once, when it arrives, with the tokens that came before it: no firing comes twice.

    Rules that wait for no conclusion have all their tokens at the start, and are joined at once.
    """

    def fire(self, rules: Sequence[JoinRule], tokens: Sequence[Token]) -> list[Firing]:
        of_pattern: dict[str, list[Token]] = {}
        for token in tokens:
            of_pattern.setdefault(token.pattern, []).append(token)
        waits = waiting(rules)
        firings: list[Firing] = []
        concluded: set[tuple[str, str]] = set()
        agenda: list[Token] = []

        def conclude(rule: JoinRule, firing: Firing) -> None:
            firings.append(firing)
            key = rule.head, firing.subject
            if rule.head in waits and key not in concluded:
                concluded.add(key)
                agenda.extend(conclusion_token(pattern, *key) for pattern in waits[rule.head])

        boxes: dict[str, _Box] = {}
        place: dict[str, tuple[JoinRule, list[_Box]]] = {}
        empty: dict[str, int] = {}
        for rule in rules:
            given: list[Sequence[Token]] = []
            waits_for_none = plain = True
            for name, kind, waits_on in rule.patterns:
                of_one = of_pattern.get(name, ())
                if waits_on:
                    waits_for_none = plain = False
                elif not of_one:
                    break
                elif kind != HOST or len(of_one) > 1:
                    plain = False
                given.append(of_one)
            if len(given) < len(rule.patterns):
                continue
            if plain:  # about the host, one token for each pattern: most rules
                conclude(rule, Firing(rule.id, HOST, tuple([of_one[0].ids for of_one in given])))
                continue
            if waits_for_none:
                for firing in _join(rule, [_box(of_one) for of_one in given]):
                    conclude(rule, firing)
                continue
            of_rule: list[_Box] = []
            for pattern in rule.patterns:
                boxes[pattern.id] = {}
                place[pattern.id] = rule, of_rule
                of_rule.append(boxes[pattern.id])
            empty[rule.id] = len(of_rule)
            agenda.extend(token for of_one in given for token in of_one)
        for token in agenda:  # grows while it is read: conclusions are appended
            box = boxes.get(token.pattern)
            if box is None:  # another condition of that rule has nothing to fill it
                continue
            rule, of_rule = place[token.pattern]
            if not box:
                empty[rule.id] -= 1
            box.setdefault(token.subject, []).append(token)
            if empty[rule.id]:
                continue
            for firing in _join(rule, of_rule, token):
                conclude(rule, firing)
        return firings


def _box(tokens: Sequence[Token]) -> _Box:
    box: _Box = {}
    for token in tokens:
        box.setdefault(token.subject, []).append(token)
    return box


def _join(rule: JoinRule, boxes: list[_Box], new: Token | None = None) -> Iterator[Firing]:
    """Every firing of `rule`, or every one in which `new` takes part."""
    of_kinds: dict[str, list[_Box]] = {}
    new_kind = ""
    for pattern, box in zip(rule.patterns, boxes, strict=True):
        of_kinds.setdefault(pattern.kind, []).append(box)
        if new is not None and pattern.id == new.pattern:
            new_kind = pattern.kind
    candidates: list[list[str]] = []
    for kind, of_kind in of_kinds.items():
        pool = (new.subject,) if new is not None and kind == new_kind else min(of_kind, key=len)
        common = [subject for subject in pool if all(subject in box for box in of_kind)]
        if not common:
            return
        candidates.append(common)
    for choice in product(*candidates):
        subject_of = dict(zip(of_kinds, choice, strict=True))
        options = [
            (new,) if new is not None and pattern.id == new.pattern else box[subject_of[pattern.kind]]
            for pattern, box in zip(rule.patterns, boxes, strict=True)
        ]
        subject = subject_of.get(rule.head_kind, HOST)
        for combination in product(*options):
            yield Firing(rule.id, subject, tuple([token.ids for token in combination]))

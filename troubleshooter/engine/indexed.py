"""The back end in plain Python: semi-naive, indexed by pattern and by subject. Runs everywhere."""

from collections.abc import Iterator, Sequence
from itertools import product

from ..model import HOST
from .port import Firing, JoinRule, Token, conclusion_token, waiting

_Box = dict[str, list[Token]]
"""The tokens that one pattern has received so far, by subject."""


class Indexed:
    """A token is joined once, when it arrives, with the tokens that came before it: no firing comes twice."""

    def fire(self, rules: Sequence[JoinRule], tokens: Sequence[Token]) -> list[Firing]:
        boxes: dict[str, _Box] = {}
        place: dict[str, tuple[JoinRule, list[_Box]]] = {}
        empty: dict[str, int] = {}
        for rule in rules:
            of_rule: list[_Box] = []
            for pattern in rule.patterns:
                box: _Box = {}
                boxes[pattern.id] = box
                place[pattern.id] = rule, of_rule
                of_rule.append(box)
            empty[rule.id] = len(of_rule)
        waits = waiting(rules)

        firings: list[Firing] = []
        concluded: set[tuple[str, str]] = set()
        agenda = list(tokens)
        for token in agenda:  # grows while it is read: conclusions are appended
            box = boxes[token.pattern]
            rule, of_rule = place[token.pattern]
            if not box:
                empty[rule.id] -= 1
            box.setdefault(token.subject, []).append(token)
            if empty[rule.id]:
                continue
            for firing in _join(rule, of_rule, token):
                firings.append(firing)
                key = rule.head, firing.subject
                if key not in concluded:
                    concluded.add(key)
                    agenda.extend(conclusion_token(pattern, *key) for pattern in waits.get(rule.head, ()))
        return firings


def _join(rule: JoinRule, boxes: list[_Box], new: Token) -> Iterator[Firing]:
    """Every firing of `rule` in which `new` takes part."""
    kinds: list[str] = []
    candidates: list[list[str]] = []
    for kind in dict.fromkeys(pattern.kind for pattern in rule.patterns):
        of_kind = [box for pattern, box in zip(rule.patterns, boxes, strict=True) if pattern.kind == kind]
        has_new = any(pattern.id == new.pattern for pattern in rule.patterns if pattern.kind == kind)
        pool = (new.subject,) if has_new else min(of_kind, key=len)
        common = [subject for subject in pool if all(subject in box for box in of_kind)]
        if not common:
            return
        kinds.append(kind)
        candidates.append(common)
    for choice in product(*candidates):
        subject_of = dict(zip(kinds, choice, strict=True))
        options = [
            (new,) if pattern.id == new.pattern else box[subject_of[pattern.kind]]
            for pattern, box in zip(rule.patterns, boxes, strict=True)
        ]
        subject = subject_of.get(rule.head_kind, HOST)
        for combination in product(*options):
            yield Firing(rule.id, subject, tuple([token.ids for token in combination]))

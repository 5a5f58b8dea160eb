"""Which signatures can match a text at all: those of which a literal occurs in it. The cost follows the text, not the
number of signatures.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .model import Signature

_GRAM = 4


class LiteralIndex(NamedTuple):
    """A literal can only occur in a text that has the four characters under which it is listed here."""

    literals: Sequence[str]
    owners: Sequence[Sequence[int]]
    """Per literal, the positions of the signatures that have it."""
    grams: Mapping[str, Sequence[int]]
    """By four characters, the literals listed under them."""
    short: Sequence[int]
    """The literals of fewer characters, which are looked for in every text."""
    across: Sequence[int]
    """The positions of signatures that reach over several lines."""
    reach: int
    """Over how many lines the longest signature goes."""

    def occurring(self, text: str) -> dict[int, list[str]]:
        """By the position of a signature, those of its literals that occur in `text`, which is in lower case."""
        grams = self.grams
        numbers = [*self.short]
        for gram in {text[at : at + _GRAM] for at in range(len(text) - _GRAM + 1)} & grams.keys():
            numbers += grams[gram]
        found: dict[int, list[str]] = {}
        for number in numbers:
            literal = self.literals[number]
            if literal in text:
                for position in self.owners[number]:
                    found.setdefault(position, []).append(literal)
        return found


def literal_index(signatures: Sequence[Signature]) -> LiteralIndex:
    owners: dict[str, list[int]] = {}
    for position, signature in enumerate(signatures):
        for literal in dict.fromkeys(signature.literals):
            owners.setdefault(literal, []).append(position)
    common: dict[str, int] = {}
    for literal in owners:
        for gram in set(_grams(literal)):
            common[gram] = common.get(gram, 0) + 1
    listed: dict[str, list[int]] = {}
    for number, literal in enumerate(owners):
        if grams := list(_grams(literal)):
            # The rarest of them, to be met in as few texts as can be; words of every log are common here too.
            listed.setdefault(min(grams, key=lambda gram: (common[gram], gram)), []).append(number)
    return LiteralIndex(
        tuple(owners),
        tuple(owners.values()),
        listed,
        tuple(number for number, literal in enumerate(owners) if len(literal) < _GRAM),
        tuple(position for position, signature in enumerate(signatures) if signature.lines > 1),
        max((signature.lines for signature in signatures), default=1),
    )


def _grams(literal: str) -> Iterator[str]:
    return (literal[at : at + _GRAM] for at in range(len(literal) - _GRAM + 1))


class Signatures(Sequence[Signature]):
    """Signatures that are read when they are first asked for, with an index that was made beforehand."""

    literal_index: LiteralIndex

    def relaxed(self) -> Sequence[str]:
        """`portable.relaxed` of each pattern."""
        raise NotImplementedError


_made: list[tuple[Sequence[Signature], LiteralIndex]] = []
_KEPT = 4


def index_of(signatures: Sequence[Signature]) -> LiteralIndex:
    """That which comes with them, or one made and kept for the next text."""
    if isinstance(signatures, Signatures):
        return signatures.literal_index
    for known, index in _made:
        if known is signatures:
            return index
    index = literal_index(signatures)
    if isinstance(signatures, tuple):  # a list may hold others the next time
        # A new list and no change of the old one: another thread may be reading it.
        _made[:] = [(signatures, index), *_made[: _KEPT - 1]]
    return index

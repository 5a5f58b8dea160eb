"""Which texts can be in a large piece of text at all, by the words of letters in it.

A log says the same few words a million times over. So its words are gathered once, and a literal of which no word is
among them is rejected without a search through the piece; the others are searched for as ever.
"""

import re
from functools import lru_cache

SMALL = 16 * 1024
"""Characters up to which a plain search is as quick."""


class Vocabulary:
    """The words of a lower-case text. Nothing is rejected in a small one."""

    __slots__ = ("_known", "_words")

    def __init__(self, low: str) -> None:
        self._words = "\n".join(set(re.findall("[a-z]{3,}", low))) if len(low) > SMALL else None
        self._known: dict[str, bool] = {}

    def may_hold(self, literal: str) -> bool:
        """False only if the literal is not in the text: each run of letters in it lies within one of the text's."""
        if self._words is None:
            return True
        word = _word_of(literal)
        known = self._known.get(word)
        if known is None:
            known = self._known[word] = not word or word in self._words
        return known


@lru_cache(maxsize=65536)
def _word_of(literal: str) -> str:
    """Its longest run of letters; empty if it has none of three."""
    return max(re.findall("[a-z]{3,}", literal), key=len, default="")

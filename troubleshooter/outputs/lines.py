"""Where in its text a value stood."""

import re
from collections.abc import Iterator
from typing import Any

from ..model import Source

_LONGEST = 1000
"""Characters. No known output has longer lines; patterns with several wildcards take their time on absurd ones."""


def lines_of(text: str) -> list[str]:
    """The lines, with an empty one in the place of each that is absurdly long."""
    return [line if len(line) <= _LONGEST else "" for line in text.splitlines()]


def at(source: Source, offset: int) -> Source:
    """The source, moved on by `offset` lines if its lines count (they do in pasted text)."""
    return source._replace(line=source.line + offset) if source.line and offset else source


def line_of(text: str, position: int) -> int:
    """How many lines stand before a position."""
    return text.count("\n", 0, position)


class Gate:
    """A pattern that is compiled, and asked, only where one of its words stands: most texts hold few of them, and
    compiling takes longer than reading a paste.
    """

    __slots__ = ("_compiled", "_pattern", "_words")

    def __init__(self, pattern: str, *words: str) -> None:
        self._pattern = pattern
        self._words = words
        self._compiled: re.Pattern[str] | None = None

    def near(self, text: str) -> bool:
        return any(word in text for word in self._words)

    def search(self, line: str) -> re.Match[str] | None:
        for word in self._words:
            if word in line:
                return self._regex().search(line)
        return None

    def match(self, line: str) -> re.Match[str] | None:
        for word in self._words:
            if word in line:
                return self._regex().match(line)
        return None

    def finditer(self, line: str) -> Iterator[re.Match[str]]:
        return self._regex().finditer(line) if self.near(line) else iter(())

    def findall(self, line: str) -> list[Any]:
        return self._regex().findall(line) if self.near(line) else []

    def _regex(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self._pattern)
        return self._compiled

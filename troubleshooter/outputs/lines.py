"""Where in its text a value stood."""

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

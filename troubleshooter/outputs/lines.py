"""Where in its text a value stood."""

from ..model import Source


def at(source: Source, offset: int) -> Source:
    """The source, moved on by `offset` lines if its lines count (they do in pasted text)."""
    return source._replace(line=source.line + offset) if source.line and offset else source


def line_of(text: str, position: int) -> int:
    """How many lines stand before a position."""
    return text.count("\n", 0, position)

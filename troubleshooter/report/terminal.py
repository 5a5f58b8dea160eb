"""The same lines with colour on a terminal. Imports rich, which costs more than all the rest: only for a terminal."""

from collections.abc import Iterator
from typing import TextIO

from .text import Line, rows_of

_STYLES = {
    "title": "bold",
    "heading": "bold cyan",
    "dim": "dim",
    "command": "green",
    "good": "bold green",
    "bad": "bold red",
}


def print_terminal(lines: Iterator[Line], stream: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, soft_wrap=True)
    for line in lines:
        for row in rows_of(line, console.width):
            console.print(Text(row, style=_STYLES.get(line.style, "")))

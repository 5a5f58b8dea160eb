"""Lines of JSON as our own scripts print them, from a process that may have been cut off in the middle of one."""

from collections.abc import Iterator
from typing import Any


def read_json_lines(text: str) -> Iterator[dict[str, Any]]:
    """The objects; a line that is none is left out."""
    import json

    for line in text.splitlines():
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(answer, dict):
            yield answer


def numbers(value: object) -> tuple[int, ...]:
    """The whole numbers at the beginning of a list."""
    found: list[int] = []
    for one in value if isinstance(value, list) else ():
        if not isinstance(one, int):
            break
        found.append(one)
    return tuple(found)

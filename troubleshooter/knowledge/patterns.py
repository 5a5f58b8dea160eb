"""The lint of signature patterns: what keeps them fast and exact in every engine.

RE2's syntax only, nothing that can cross a line end, and a literal of at least four bytes that any match must contain,
so that a plain substring search rejects nearly all lines. Patterns are analysed by the standard library's own parser.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

_LEAST = 4
_LARGEST_REPEAT = 1000


def check_pattern(pattern: str) -> Iterator[tuple[str, str]]:
    """(message, hint) for everything that is wrong with it."""
    try:
        tree = _parse(pattern)
    except re.error as error:
        yield f"the pattern is no regular expression: {error}", ""
        return
    yield from _walk(tree)
    if not required_literals(pattern):
        yield (
            f"the pattern requires no literal of {_LEAST} characters or more",
            "let every alternative hold a fixed word that the program always prints",
        )


@lru_cache(maxsize=4096)
def required_literals(pattern: str) -> tuple[str, ...]:
    """Lower-case texts, at least one of which stands in every match; empty if none can be given."""
    try:
        return tuple(sorted(_literals(_parse(pattern))))
    except re.error:
        return ()


@lru_cache(maxsize=4096)
def needs(pattern: str) -> tuple[tuple[str, ...], ...]:
    """Alternatives of lower-case texts: in every match stand all texts of one of them. Empty if nothing can be said."""
    try:
        found = _alternatives(_parse(pattern))
    except re.error:
        return ()
    if not all(found):
        return ()
    # What holds more than another alternative says nothing that this one does not.
    smallest = [one for one in found if not any(other < one for other in found)]
    return tuple(sorted({tuple(sorted(_longest(one), key=lambda text: (-len(text), text))) for one in smallest}))


def branches(pattern: str) -> tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]:
    """The alternatives that a pattern consists of, each with its `needs`; empty if it has none or one says nothing.

    In a line only those can match of which the needs are there, and compiling a few takes less than compiling all.
    """
    parts = _parts(pattern)
    if len(parts) < 2 or pattern.startswith("(?i"):
        return ()
    found = tuple((part, needs(part)) for part in parts)
    return found if all(one for _, one in found) else ()


def _parts(pattern: str) -> list[str]:
    """Cut at each | that stands in no bracket."""
    parts, depth, in_class, place, start = [], 0, False, 0, 0
    while place < len(pattern):
        letter = pattern[place]
        if letter == "\\":
            place += 1
        elif in_class:
            in_class = letter != "]"
        elif letter == "[":
            in_class = True
            place += 1  # a ] or ^ that comes first belongs to the class
            if pattern[place : place + 1] == "^":
                place += 1
        elif letter in "()":
            depth += 1 if letter == "(" else -1
        elif letter == "|" and not depth:
            parts.append(pattern[start:place])
            start = place + 1
        place += 1
    return [*parts, pattern[start:]]


_MOST_ALTERNATIVES = 48
_SHORTEST_NEED = 2
_UNSTEADY = frozenset("\u0130\u0131\u03a3\u03c3\u03c2")
"""Letters whose lower case depends on what stands around them, or is another one than their pair's."""

_Needs = frozenset[str]


def _alternatives(tree: Any) -> set[_Needs]:
    found: set[_Needs] = {frozenset()}
    run: list[str] = []

    def add(others: set[_Needs]) -> None:
        nonlocal found
        if all(others) and len(found) * len(others) <= _MOST_ALTERNATIVES:
            found = {one | other for one in found for other in others}

    def close() -> None:
        if len(run) >= _SHORTEST_NEED:
            add({frozenset(["".join(run)])})
        run.clear()

    for operation, argument in tree:
        name = str(operation)
        if letter := _only_letter(name, argument):
            run.append(letter)
            continue
        if name == "AT":  # a boundary matches nothing and breaks no run
            continue
        close()
        if name == "SUBPATTERN":
            add(_alternatives(argument[-1]))
        elif name in ("MAX_REPEAT", "MIN_REPEAT") and argument[0] >= 1:
            add(_alternatives(argument[2]))
        elif name == "BRANCH":
            add(set().union(*[_alternatives(branch) for branch in argument[1]]))
    close()
    return found


def _only_letter(name: str, argument: Any) -> str:
    """The lower-case letter that this must match: of `P`, and of `[Pp]`."""
    codes = [argument] if name == "LITERAL" else []
    if name == "IN" and all(str(kind) == "LITERAL" for kind, _ in argument):
        codes = [code for _, code in argument]
    letters = {chr(code).lower() for code in codes}
    return letters.pop() if len(letters) == 1 and not letters & _UNSTEADY else ""


def _longest(texts: _Needs) -> list[str]:
    """Without those that stand in another one."""
    return [one for one in texts if not any(one != other and one in other for other in texts)]


def _parse(pattern: str) -> Any:
    parser = re._parser if hasattr(re, "_parser") else __import__("sre_parse")  # its name before Python 3.11
    return parser.parse(pattern)


def _walk(tree: Any) -> Iterator[tuple[str, str]]:
    for operation, argument in tree:
        name = str(operation)
        if name in ("ASSERT", "ASSERT_NOT"):
            yield "look-around is not in RE2's syntax", "match the surrounding text too, or use two rules"
        elif name in ("GROUPREF", "GROUPREF_EXISTS"):
            yield "back-references are not in RE2's syntax", ""
        elif name in ("ATOMIC_GROUP", "POSSESSIVE_REPEAT"):
            yield "atomic groups and possessive repeats are not in RE2's syntax", ""
        elif name == "IN" and _crosses_lines(argument):
            yield "a class here can match a line end", r"add \n to the negated class, or write a blank or tab for \s"
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high, inner = argument
            if low > _LARGEST_REPEAT or (str(high) != "MAXREPEAT" and high > _LARGEST_REPEAT):
                yield f"a repeat of more than {_LARGEST_REPEAT} is not in RE2's syntax", ""
            yield from _walk(inner)
        elif name == "SUBPATTERN":
            yield from _walk(argument[-1])
        elif name == "BRANCH":
            for branch in argument[1]:
                yield from _walk(branch)


def _crosses_lines(items: Any) -> bool:
    negated = bool(items) and str(items[0][0]) == "NEGATE"
    holds = any(_item_holds_newline(item) for item in items if str(item[0]) != "NEGATE")
    return not holds if negated else holds


def _item_holds_newline(item: Any) -> bool:
    kind, value = str(item[0]), item[1]
    if kind == "LITERAL":
        return bool(value == ord("\n"))
    if kind == "RANGE":
        return bool(value[0] <= ord("\n") <= value[1])
    return str(value) in ("CATEGORY_SPACE", "CATEGORY_NOT_WORD", "CATEGORY_NOT_DIGIT")


def _literals(tree: Any) -> set[str]:
    """The best set of alternatives: the longest literal run of a sequence, or one for every branch."""
    best: set[str] = set()
    run: list[str] = []

    def close() -> None:
        nonlocal best
        text = "".join(run).lower()
        run.clear()
        if len(text) >= _LEAST and len(text) > min((len(one) for one in best), default=0):
            best = {text}

    for operation, argument in tree:
        name = str(operation)
        if name == "LITERAL":
            run.append(chr(argument))
            continue
        if name == "AT":  # a boundary matches nothing and breaks no run
            continue
        close()
        candidates: set[str] = set()
        if name == "SUBPATTERN":
            candidates = _literals(argument[-1])
        elif name in ("MAX_REPEAT", "MIN_REPEAT") and argument[0] >= 1:
            candidates = _literals(argument[2])
        elif name == "BRANCH":
            sets = [_literals(branch) for branch in argument[1]]
            candidates = set().union(*sets) if all(sets) else set()
        shortest = min((len(one) for one in best), default=0)
        if candidates and min(len(one) for one in candidates) > shortest:
            best = candidates
    close()
    return best

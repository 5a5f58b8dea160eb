"""Whether one condition holds: True, False, or None where that is undecided. The only place that compares values."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from .. import versions
from ..model import PRESENT, UNKNOWN, Condition, Fact, FactRef, Value

Truth: TypeAlias = "bool | None"

MATCH_LIMIT = 64 * 1024
"""How many characters of a text `matches` looks at: a fact may hold a whole pasted log."""

_order = lru_cache(maxsize=4096)(versions.order)


def holds(condition: Condition, type_: str, fact: Fact | None, other: Fact | None) -> Truth:
    """`type_` is the catalogue type of the condition's fact; a fact nobody stated is None and counts as unknown.

    A value that does not have that type, or an operand that cannot be compared with it, leaves the condition undecided.
    """
    operand = condition.operand
    state = fact.state if fact else UNKNOWN
    if condition.op in {"state", "no"}:
        wanted = operand if condition.op == "state" else "absent"
        if wanted == UNKNOWN:
            return state == UNKNOWN
        return None if state == UNKNOWN else state == wanted
    if fact is None or state != PRESENT or fact.value is None:
        return None
    if isinstance(operand, FactRef):
        if other is None or other.state != PRESENT:
            return None
        operand = other.value
    if operand is None:
        return None
    return OPERATORS[condition.op](type_, fact.value, operand)


def type_of(value: Value | None) -> str:
    """The type of a fact that the catalogue does not list, as its value shows it."""
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, tuple):
        return "texts"
    return "number" if isinstance(value, int | float) else "text"


def _equal(type_: str, value: Value, operand: Value) -> Truth:
    if type_ == "number":
        pair = _numbers(value, operand)
        return pair[0] == pair[1] if pair else None
    shape = _SHAPES.get(type_, tuple)
    if not isinstance(value, shape) or not isinstance(operand, shape):
        return None
    if isinstance(value, str) and isinstance(operand, str) and type_ == "version":
        return _same(value, operand)
    if isinstance(value, tuple) and isinstance(operand, tuple) and type_ == "versions":
        return len(value) == len(operand) and _all([_same(*pair) for pair in zip(value, operand, strict=True)])
    return value == operand


_SHAPES: dict[str, type] = {"text": str, "version": str, "flag": bool}


def _same(left: str, right: str) -> Truth:
    if versions.same(left, right):
        return True
    # Two texts that differ and of which one is no version ("nightly") may still name the same release.
    return False if _order(left) and _order(right) else None


def _is_not(type_: str, value: Value, operand: Value) -> Truth:
    equal = _equal(type_, value, operand)
    return None if equal is None else not equal


def _one_of(type_: str, value: Value, operand: Value) -> Truth:
    if not isinstance(operand, tuple):
        return None
    return _any([_equal(type_, value, _element(type_, element)) for element in operand])


def _element(type_: str, element: Value) -> Value:
    """An element of a list as a value of the type: lists of values hold texts only."""
    if type_ == "number" and isinstance(element, str):
        try:
            return float(element)
        except ValueError:
            return element
    return element


def _has(type_: str, value: Value, operand: Value) -> Truth:
    if type_ not in {"texts", "versions"} or not isinstance(value, tuple) or not isinstance(operand, str):
        return None
    return _any([_equal(type_.removesuffix("s"), element, operand) for element in value])


def _ordered(compare: Callable[[int], bool]) -> Callable[[str, Value, Value], Truth]:
    """`compare` is told whether the value is below (-1), equal to (0) or above (1) the operand."""

    def operator(type_: str, value: Value, operand: Value) -> Truth:
        if type_ == "version" and isinstance(value, str) and isinstance(operand, str):
            left, right = _order(value), _order(operand)
            if left is None or right is None:
                return None
            return compare((left > right) - (left < right))
        if type_ == "number" and (pair := _numbers(value, operand)):
            return compare((pair[0] > pair[1]) - (pair[0] < pair[1]))
        return None

    return operator


def _matches(type_: str, value: Value, operand: Value) -> Truth:
    if type_ not in {"text", "version"} or not isinstance(value, str) or not isinstance(operand, str):
        return None
    pattern = compiled(operand)
    return None if pattern is None else pattern.search(value, 0, MATCH_LIMIT) is not None


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> re.Pattern[str] | None:
    """None where the text is no pattern."""
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None


def _numbers(value: Value, operand: Value) -> tuple[int | float, int | float] | None:
    """Both, if both are numbers that can be ordered: no flag, no NaN."""
    for one in (value, operand):
        if isinstance(one, bool) or not isinstance(one, int | float) or one != one:  # noqa: PLR0124 - NaN
            return None
    return value, operand  # type: ignore[return-value]


def _any(truths: list[Truth]) -> Truth:
    if True in truths:
        return True
    return None if None in truths else False


def _all(truths: list[Truth]) -> Truth:
    if False in truths:
        return False
    return None if None in truths else True


OPERATORS: dict[str, Callable[[str, Value, Value], Truth]] = {
    "is": _equal,
    "is_not": _is_not,
    "one_of": _one_of,
    "has": _has,
    "below": _ordered(lambda sign: sign < 0),
    "at_most": _ordered(lambda sign: sign <= 0),
    "above": _ordered(lambda sign: sign > 0),
    "at_least": _ordered(lambda sign: sign >= 0),
    "matches": _matches,
}

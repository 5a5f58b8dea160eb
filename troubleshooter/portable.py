"""Patterns as other engines read them: without names of groups, with flags that stay inside, and, for the search that
only has to reject most of a large log, without whatever makes an automaton large.
"""

import re
from typing import Any

_CATEGORIES = {
    "CATEGORY_DIGIT": "0-9",
    "CATEGORY_WORD": "0-9A-Z_a-z",
    "CATEGORY_SPACE": r"\t\n\x0b\x0c\r ",
    "CATEGORY_NOT_DIGIT": r"\x00-/:-\xff",
    "CATEGORY_NOT_WORD": r"\x00-/:-@\x5b-^`{-\xff",
    "CATEGORY_NOT_SPACE": r"\x00-\x08\x0e-\x1f!-\xff",
}
_PLACES = {
    "AT_BEGINNING": "^",
    "AT_BEGINNING_STRING": "^",
    "AT_END": "$",
    "AT_END_STRING": "$",
    "AT_BOUNDARY": r"\b",
    "AT_NON_BOUNDARY": r"\B",
}
_ATOMS = ("IN", "NOT_LITERAL", "ANY")
_SPECIAL = frozenset("\\.^$|?*+()[]{}-&~#")


def portable(pattern: str) -> str:
    """The same pattern, one line, to be joined with others by `|` or given to `rg -f`."""
    tree = _parse(pattern)
    return _flagged(tree, _Writer(relaxed=False).sequence(tree))


def relaxed(pattern: str) -> str:
    """A pattern over bytes that matches whatever the other matches as UTF-8, and more: no places (what stood before a
    line is cut off later), no upper limits, nothing optional at either end.
    """
    tree = _parse(pattern)
    items = list(tree)
    while items and _may_be_empty(items[0]):
        del items[0]
    while items and _may_be_empty(items[-1]):
        del items[-1]
    return _flagged(tree, _Writer(relaxed=True).sequence(items))


def _flagged(tree: Any, text: str) -> str:
    return f"(?{'i' if tree.state.flags & re.IGNORECASE else ''}:{text})"


def _parse(pattern: str) -> Any:
    parser = re._parser if hasattr(re, "_parser") else __import__("sre_parse")  # its name before Python 3.11
    return parser.parse(pattern)


def _may_be_empty(item: Any) -> bool:
    name, argument = str(item[0]), item[1]
    if name == "AT":
        return True
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        return argument[0] == 0 or bool(argument[2].getwidth()[0] == 0)
    if name == "SUBPATTERN":
        return bool(argument[-1].getwidth()[0] == 0)
    if name == "BRANCH":
        return any(branch.getwidth()[0] == 0 for branch in argument[1])
    return False


class _Writer:
    def __init__(self, *, relaxed: bool) -> None:
        self._relaxed = relaxed

    def sequence(self, items: Any) -> str:
        return "".join(self._item(str(name), argument) for name, argument in items)

    def _item(self, name: str, argument: Any) -> str:
        if name == "LITERAL":
            return self._character(argument)
        if name == "NOT_LITERAL":
            return self._class([("NEGATE", None), ("LITERAL", argument)])
        if name == "ANY":
            return self._class([("NEGATE", None), ("LITERAL", ord("\n"))])
        if name == "IN":
            return self._class(argument)
        if name == "AT":
            return "" if self._relaxed else _PLACES[str(argument)]
        if name == "BRANCH":
            return f"(?:{'|'.join(self.sequence(branch) for branch in argument[1])})"
        if name == "SUBPATTERN":
            _, add, _, inner = argument
            return f"(?{'i' if add & re.IGNORECASE else ''}:{self.sequence(inner)})"
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            return self._repeat(*argument, lazy=name == "MIN_REPEAT")
        raise ValueError(f"{name} has no portable form")

    def _repeat(self, low: int, high: Any, inner: Any, *, lazy: bool) -> str:
        text = self.sequence(inner)
        one = len(inner) == 1 and str(inner[0][0]) in _ATOMS
        if self._relaxed and one and text.endswith("]+"):
            text = text[:-1]
        if not (one and text[0] == "[" and text.find("]") == len(text) - 1) and len(text) > 1:
            text = f"(?:{text})"
        most = None if str(high) == "MAXREPEAT" else int(high)
        if self._relaxed:
            if most == 1:
                return text + ("?" if low == 0 else "")
            return text + ("*" if low == 0 else "+")
        times = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, most))
        if times is None:
            times = f"{{{low}}}" if low == most else f"{{{low},{'' if most is None else most}}}"
        return text + times + ("?" if lazy else "")

    def _character(self, code: int) -> str:
        if code < 0x80:
            one = chr(code)
            return f"\\{one}" if one in _SPECIAL else one if one.isprintable() else f"\\x{code:02x}"
        text = "".join(f"\\x{byte:02x}" for byte in chr(code).encode())
        return text if self._relaxed else f"(?-u:{text})"

    def _class(self, items: Any) -> str:
        """Bytes know no class of other characters: such a class becomes alternatives, or, negated, any of them."""
        negated = str(items[0][0]) == "NEGATE"
        plain: list[str] = []
        others: list[str] = []
        for kind, value in items[1:] if negated else items:
            if str(kind) == "LITERAL":
                if value < 0x80:
                    plain.append("\\n" if value == ord("\n") else self._character(value))
                else:
                    others.append(self._character(value))
            elif str(kind) == "RANGE":
                low, high = value
                if high < 0x80:
                    plain.append(f"{self._character(low)}-{self._character(high)}")
                else:
                    others.append("[\\x80-\\xff]+" if self._relaxed else "(?-u:[\\x80-\\xff]{2,4})")
            else:
                plain.append(_CATEGORIES[str(value)])
        if negated:
            plain = plain or ["\\n"]
            return f"[^{''.join(plain)}]" + ("+" if self._relaxed else "")
        choices = ([f"[{''.join(plain)}]"] if plain else []) + others
        return choices[0] if len(choices) == 1 else f"(?:{'|'.join(choices)})"

"""Typed reading of YAML nodes: each mistake becomes a problem with its place, and reading goes on."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..errors import Problem, did_you_mean
from ..model import Location
from .yaml_marks import Mapping, Node, Scalar, Sequence


class Fields:
    """One mapping of a file. Keys that nobody asked for are reported when the `with` block ends."""

    def __init__(self, node: Mapping, problems: list[Problem]) -> None:
        self.node = node
        self.problems = problems
        self._asked: list[str] = []

    @property
    def at(self) -> Location:
        return self.node.at

    def place(self, key: str) -> Location:
        return self.node.key_at.get(key, self.node.at)

    def complain(self, message: str, at: Location | None = None, hint: str = "") -> None:
        self.problems.append(Problem(message, at or self.at, hint))

    def get(self, key: str) -> Node | None:
        self._asked.append(key)
        return self.node.entries.get(key)

    def required(self, key: str) -> Node | None:
        if (node := self.get(key)) is None:
            self.complain(f"{key!r} is missing here")
        return node

    def text(self, key: str, default: str | None = None) -> str:
        """A text; a number or flag in its place is refused, as 12.10 would become 12.1. None: required."""
        node = self.required(key) if default is None else self.get(key)
        return (default or "") if node is None else text_of(node, key, self.problems)

    def choice(self, key: str, allowed: Iterable[str], default: str | None = None) -> str:
        value = self.text(key, default)
        allowed = tuple(allowed)
        if value and value not in allowed:
            hint = did_you_mean(value, allowed) or f"one of {', '.join(allowed)}"
            self.complain(f"{key!r} cannot be {value!r}", self._value_at(key), hint)
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        node = self.get(key)
        if node is None:
            return default
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        self.complain(f"{key!r} must be true or false", node.at)
        return default

    def number(self, key: str, default: int) -> int:
        node = self.get(key)
        if node is None:
            return default
        if isinstance(node, Scalar) and isinstance(node.value, int) and not isinstance(node.value, bool):
            return node.value
        self.complain(f"{key!r} must be a whole number", node.at)
        return default

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, or one text; empty if the key is not there."""
        node = self.get(key)
        if node is None:
            return ()
        if isinstance(node, Sequence):
            return tuple(text_of(item, key, self.problems) for item in node.items)
        return (text_of(node, key, self.problems),)

    def pairs(self, key: str) -> tuple[tuple[str, str | None], ...]:
        """A mapping of texts, null allowed."""
        node = self.get(key)
        if node is None:
            return ()
        if not isinstance(node, Mapping):
            self.complain(f"{key!r} must be a mapping", node.at)
            return ()
        return tuple(
            (name, None if isinstance(value, Scalar) and value.value is None else text_of(value, name, self.problems))
            for name, value in node.entries.items()
        )

    def text_pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        return tuple((name, value or "") for name, value in self.pairs(key))

    def items(self, key: str, required: bool = False) -> tuple[Node, ...]:
        node = self.required(key) if required else self.get(key)
        if node is None:
            return ()
        if isinstance(node, Sequence):
            return node.items
        self.complain(f"{key!r} must be a list", node.at)
        return ()

    def _value_at(self, key: str) -> Location:
        node = self.node.entries.get(key)
        return node.at if node else self.at

    def report_unknown_keys(self) -> None:
        for key in self.node.entries:
            if key not in self._asked:
                hint = did_you_mean(key, self._asked) or f"known here: {', '.join(dict.fromkeys(self._asked))}"
                self.complain(f"unknown key {key!r}", self.place(key), hint)


@contextmanager
def fields(node: Node | None, what: str, problems: list[Problem]) -> Iterator[Fields]:
    """The fields of a mapping; anything else is a problem, and an empty mapping is read in its place."""
    if isinstance(node, Mapping):
        reading = Fields(node, problems)
        yield reading
        reading.report_unknown_keys()
        return
    at = node.at if node else Location("")
    if node is not None:
        problems.append(Problem(f"{what} must be a mapping of keys to values", at))
    silent: list[Problem] = []
    yield Fields(Mapping({}, {}, at), silent)


def text_of(node: Node, what: str, problems: list[Problem]) -> str:
    if isinstance(node, Scalar):
        if isinstance(node.value, str):
            return node.value
        if isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
            hint = f'write "{node.text}"' if not node.quoted else ""
            problems.append(
                Problem(f"{what!r} needs text, and the unquoted {node.text} reads as a number", node.at, hint)
            )
        else:
            problems.append(Problem(f"{what!r} needs text here, not {node.text or 'nothing'!r}", node.at))
        return node.text
    problems.append(Problem(f"{what!r} needs text here", node.at))
    return ""


def plain(node: Node) -> object:
    """The node as ordinary Python values (dict, tuple, text, number, flag, None)."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return tuple(plain(item) for item in node.items)
    return {key: plain(value) for key, value in node.entries.items()}

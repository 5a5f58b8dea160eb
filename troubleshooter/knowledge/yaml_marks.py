"""YAML with a place for every key and value, and without YAML's surprises.

Refused: doubled keys, aliases and anchors, tags, more than one document, files over 4 MB.
PyYAML is imported here only, when a file is read.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ..errors import Problem
from ..model import Location

_LARGEST = 4_000_000
_DEEPEST = 40


class Scalar(NamedTuple):
    """`value` is text, a whole or broken number, a flag or None; `text` is what stands in the file."""

    value: str | int | float | bool | None
    text: str
    quoted: bool
    at: Location


class Sequence(NamedTuple):
    items: "tuple[Node, ...]"
    at: Location


class Mapping(NamedTuple):
    entries: "dict[str, Node]"
    key_at: dict[str, Location]
    at: Location


Node: TypeAlias = Scalar | Sequence | Mapping


class _Refused(Exception):
    def __init__(self, message: str, at: Location, hint: str = "") -> None:
        super().__init__(message)
        self.problem = Problem(message, at, hint)


def read_yaml(path: Path, shown_as: str) -> tuple[Node | None, list[Problem]]:
    """The content of one file, or None with what is wrong. `shown_as` is the name in messages."""
    try:
        if path.stat().st_size > _LARGEST:
            return None, [Problem(f"the file is larger than {_LARGEST:,} bytes", Location(shown_as))]
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        return None, [Problem("the file is not UTF-8", Location(shown_as, line), "save it as UTF-8")]
    except OSError as error:
        return None, [Problem(f"the file cannot be read: {error.strerror}", Location(shown_as))]
    return read_yaml_text(text, shown_as)


def read_yaml_text(text: str, shown_as: str) -> tuple[Node | None, list[Problem]]:
    import yaml

    loader_class: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    problems: list[Problem] = []
    try:
        loader = loader_class(text)
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
        node = None if root is None else _convert(root, shown_as, problems, set(), 0)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = Location(shown_as, mark.line + 1, mark.column + 1) if mark else Location(shown_as)
        return None, [*problems, Problem(f"not valid YAML: {error.problem or error.context}", at)]
    except yaml.YAMLError as error:
        return None, [*problems, Problem(f"not valid YAML: {error}", Location(shown_as))]
    except RecursionError:
        return None, [*problems, Problem("nested too deeply", Location(shown_as))]
    except _Refused as error:
        return None, [*problems, error.problem]
    if node is None and not problems:
        problems.append(Problem("the file is empty", Location(shown_as, 1, 1)))
    return node, problems


_PLAIN_TAGS = {
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq")
}


def _convert(node: Any, file: str, problems: list[Problem], seen: set[int], depth: int) -> Node:
    at = Location(file, node.start_mark.line + 1, node.start_mark.column + 1)
    if id(node) in seen:
        raise _Refused("an alias (*name) repeats a part of the file", at, "write the part out")
    seen.add(id(node))
    if depth > _DEEPEST:
        raise _Refused(f"nested deeper than {_DEEPEST} levels", at)
    if node.tag not in _PLAIN_TAGS:
        raise _Refused(f"the tag or merge key {node.tag.rsplit(':', 1)[-1]!r} is not allowed here", at)
    if node.id == "scalar":
        return Scalar(_scalar(node), node.value, node.style not in (None, ""), at)
    if node.id == "sequence":
        return Sequence(tuple(_convert(item, file, problems, seen, depth + 1) for item in node.value), at)
    entries: dict[str, Node] = {}
    key_at: dict[str, Location] = {}
    for key, value in node.value:
        place = Location(file, key.start_mark.line + 1, key.start_mark.column + 1)
        if key.id != "scalar":
            raise _Refused("a key must be text", place)
        if key.value in entries:
            first = key_at[key.value]
            problems.append(Problem(f"the key {key.value!r} stands here twice", place, f"first in line {first.line}"))
        entries[key.value] = _convert(value, file, problems, seen, depth + 1)
        key_at[key.value] = place
    return Mapping(entries, key_at, at)


def _scalar(node: Any) -> str | int | float | bool | None:
    text: str = node.value
    kind = node.tag.rsplit(":", 1)[-1]
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in ("yes", "true", "on")
    try:
        if kind == "int":
            return int(text.replace("_", ""), 0)
        if kind == "float":
            return float(text.replace("_", ""))
    except ValueError:
        return text
    return text


def walk_scalars(node: Node) -> Iterator[Scalar]:
    """Every scalar below `node`, in the order of the file."""
    if isinstance(node, Scalar):
        yield node
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from walk_scalars(item)
    else:
        for value in node.entries.values():
            yield from walk_scalars(value)

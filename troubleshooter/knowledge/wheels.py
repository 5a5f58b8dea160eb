"""Commands that name a wheel: release and build must stand in the table of releases."""

import re
from collections.abc import Iterator, Mapping

from ..errors import Problem
from ..model import Knowledge, Location, Table

_PINNED = re.compile(r"\b(torch|torchvision|torchaudio)==(\d+(?:\.\d+)+)(?:\+(cu\d+)\b)?")
_INDEX = re.compile(r"download\.pytorch\.org/whl/(cu\d+)\b")


def check_wheels(knowledge: Knowledge) -> Iterator[Problem]:
    """Every command in articles and actions that names a wheel which the tables do not have."""
    table = knowledge.tables.get("torch_releases")
    if table is None:
        return
    for text, at in _texts(knowledge):
        for message in wrong_wheels(text, table):
            yield Problem(message, at)


def wrong_wheels(text: str, table: Table) -> Iterator[str]:
    """What is wrong with the wheels that a text or a command names."""
    indexes = {found[1] for found in _INDEX.finditer(text)}
    known = {tag for row in table.rows for tag in _builds(row)}
    for tag in sorted(indexes - known):
        yield f"no release has the build {tag}, of which an index is named"
    for found in _PINNED.finditer(text):
        package, version, tag = found.groups()
        column = "release" if package == "torch" else package
        rows = [row for row in table.rows if row.get(column) == version]
        if not rows:
            yield f"{package} {version} is not in the table {table.name}"
            continue
        # One index in the text is that of the command; where several are named, the text tells which is for what.
        named = tag or (next(iter(indexes)) if len(indexes) == 1 else "")
        if named and not any(named in _builds(row) for row in rows):
            yield f"{package} {version} has no build {named}"


def _builds(row: Mapping[str, object]) -> set[str]:
    lists = (row.get("cuda_builds"), row.get("other_builds"))
    return {str(tag) for tags in lists if isinstance(tags, (list, tuple)) for tag in tags}


def _texts(knowledge: Knowledge) -> Iterator[tuple[str, Location]]:
    for article in knowledge.articles.values():
        yield article.meaning, article.at
        for remedy in article.remedies:
            for step in remedy.steps:
                values = (value for _, value in step.arguments)
                yield " ".join((step.say, *values)), remedy.at
    for action in knowledge.actions.values():
        for form in action.forms:
            for command in form.commands:
                yield " ".join(command), action.at
            yield form.say, action.at

"""The files that tell pip, conda and uv where to fetch packages: pip.conf, .condarc, uv.toml, pyproject.toml."""

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..credentials import without_credentials

_PIP_OPTIONS = ("index-url", "extra-index-url", "find-links", "constraint", "no-index", "proxy", "require-virtualenv")


class Setting(NamedTuple):
    """`name` as in pip.conf: index-url, extra-index-url, constraint…; credentials are cut out of the value."""

    name: str
    value: str


def read_pip_conf(text: str) -> Iterator[Setting]:
    """Its sections `global` and `install`. Values may go on in indented lines."""
    section = name = ""
    for line in text.splitlines():
        if found := re.fullmatch(r"\[([\w-]{1,40})\]\s*", line):
            section, name = found[1], ""
        elif section not in ("global", "install") or line.lstrip()[:1] in ("#", ";"):
            continue
        elif line[:1] in (" ", "\t") and name in _PIP_OPTIONS:
            yield from _each(name, line)
        elif found := re.match(r"([\w-]{1,40})[ \t]*[=:](.*)", line):
            name = found[1].replace("_", "-")
            if name in _PIP_OPTIONS:
                yield from _each(name, found[2])


def _each(name: str, values: str) -> Iterator[Setting]:
    for value in values.split():
        yield Setting(name, without_credentials(value))


def read_condarc(text: str) -> Iterator[Setting]:
    """The lists and values at its top level: channels, default_channels, channel_priority, pinned_packages."""
    name = ""
    for line in text.splitlines():
        if found := re.match(r"(\w{1,40}):[ \t]*([^#\n]*)", line):
            name = found[1]
            for value in found[2].strip().strip("[]").split(","):
                if value.strip():
                    yield Setting(name, without_credentials(value.strip().strip("\"'")))
        elif name and (found := re.match(r"[ \t]*-[ \t]+([^#\n]+)", line)):
            yield Setting(name, without_credentials(found[1].strip().strip("\"'")))


def read_uv_toml(text: str, *, table: str = "") -> Iterator[Setting]:
    """uv.toml, or the table [tool.uv] of a pyproject.toml (`table="tool.uv"`). Nothing if it is not TOML."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        found: Any = tomllib.loads(text)
    except (ValueError, RecursionError):
        return
    for part in filter(None, table.split(".")):
        found = found.get(part, {}) if isinstance(found, Mapping) else {}
    if not isinstance(found, Mapping):
        return
    # The older names lie at the top or under [pip].
    for settings in (found, found.get("pip")):
        if isinstance(settings, Mapping):
            yield from _uv_settings(settings)


def _uv_settings(settings: Mapping[str, Any]) -> Iterator[Setting]:
    for name in ("index-url", "extra-index-url", "find-links", "torch-backend", "constraint-dependencies"):
        value = settings.get(name)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str):
                yield Setting(name, without_credentials(one))
    indexes = settings.get("index")
    for index in indexes if isinstance(indexes, list) else ():
        if isinstance(index, Mapping) and isinstance(index.get("url"), str):
            yield Setting(
                "index-url" if index.get("default") is True else "extra-index-url", without_credentials(index["url"])
            )

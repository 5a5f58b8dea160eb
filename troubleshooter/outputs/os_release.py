"""/etc/os-release: which distribution."""

import re
from collections.abc import Iterator

from ..model import Claim, Source, present
from .lines import at, lines_of

_SETTING = re.compile(r"""\s*([A-Z][A-Z0-9_]*)=(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s"']*))\s*$""")
_FACTS = {"ID": "os.distribution", "VERSION_ID": "os.distribution_version", "PRETTY_NAME": "os.release"}


def read_os_release(text: str, source: Source) -> Iterator[Claim]:
    """Arch and other rolling distributions have no VERSION_ID: nothing is said of it then."""
    settings: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(lines_of(text)):
        if found := _SETTING.match(line):
            value = re.sub(r"\\(.)", r"\1", found[2]) if found[2] is not None else found[3] or found[4] or ""
            settings[found[1]] = value.strip(), number
    for key, name in _FACTS.items():
        value, number = settings.get(key, ("", 0))
        if value:
            yield present(name, value.lower() if key == "ID" else value, at(source, number))
    if "PRETTY_NAME" not in settings and (name_line := settings.get("NAME")):
        version = settings.get("VERSION_ID", ("", 0))[0]
        yield present("os.release", f"{name_line[0]} {version}".strip(), at(source, name_line[1]))

"""py -0p: the Pythons that the launcher of Windows knows, and which of them `py` starts."""

import re
from collections.abc import Iterator

from ..model import Claim, Source, absent, present
from ..text import clean

# " -V:3.12 *        C:\Python312\python.exe", of older launchers " -3.8-64        C:\Python38\python.exe *"
_LINE = re.compile(r"^[ \t]*-(?:V:)?(\S+)[ \t]+(?:\*[ \t]+)?([A-Za-z]:\\.+?\.exe)[ \t]*\*?[ \t]*$", re.MULTILINE)


def read_py_launcher(text: str, source: Source) -> Iterator[Claim]:
    found = tuple(f"{path} ({version})" for version, path in _LINE.findall(clean(text)))
    if found:
        yield present("windows.python_launcher", found, source)
    elif text.strip():
        yield absent("windows.python_launcher", source, "the launcher knows no Python")

"""Which Python a command runs, by what its processes turn out to be while it runs."""

import os
import re
import sys
from collections.abc import Iterator

PYTHON = re.compile(r"python(?:\d(?:\.\d+)?t?)?(?:\.exe)?", re.IGNORECASE)
"""Names of the program."""
_MOST_PROCESSES = 400
_WITHOUT, _WITH_TORCH = 1, 2


class Watch:
    """The interpreters among the processes of a command, seen while it runs."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def python(self, named: str) -> str:
        """That which had torch loaded, else that which the command's words have `named`, else any; may be empty."""
        likeliest = max(self._seen, key=self._seen.__getitem__, default="")
        return likeliest if self._seen.get(likeliest) == _WITH_TORCH or not named else named

    def look(self, root: int) -> None:
        """At the process `root` and all below it; where there is no /proc nothing is seen."""
        if not sys.platform.startswith("linux"):
            return
        for number, process in enumerate(_below(root)):
            if number >= _MOST_PROCESSES:
                break
            path = _interpreter_of_process(process)
            if path and path != sys.executable:
                loaded = b"libtorch" in _read(f"/proc/{process}/maps", 1 << 22)
                self._seen[path] = max(self._seen.get(path, 0), _WITH_TORCH if loaded else _WITHOUT)


def _below(root: int) -> Iterator[int]:
    waiting = [root]
    while waiting:
        process = waiting.pop(0)
        yield process
        waiting += [int(one) for one in _read(f"/proc/{process}/task/{process}/children", 65536).split()]


def _interpreter_of_process(process: int) -> str:
    """By the word it was started with, which names the environment; its file is that of the Python behind it."""
    try:
        file = os.readlink(f"/proc/{process}/exe")
    except OSError:
        return ""
    if not PYTHON.fullmatch(os.path.basename(file)):
        return ""
    word = os.fsdecode(_read(f"/proc/{process}/cmdline", 65536).split(b"\0")[0])
    if os.path.isabs(word) and os.path.isfile(word):
        return word
    if not os.path.dirname(word):
        variables = _read(f"/proc/{process}/environ", 1 << 20).split(b"\0")
        path = next((os.fsdecode(one[5:]) for one in variables if one.startswith(b"PATH=")), "")
        for folder in path.split(os.pathsep):
            if folder and os.path.isfile(os.path.join(folder, word)):
                return os.path.join(folder, word)
    else:
        try:
            full = os.path.join(os.readlink(f"/proc/{process}/cwd"), word)
        except OSError:
            return file
        if os.path.isfile(full):
            return os.path.normpath(full)
    return file


def _read(path: str, most: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except OSError:
        return b""

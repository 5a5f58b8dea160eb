"""Shared libraries: what their headers say, and which file the system's loader would take for a name.

`elf` and `pe` read headers of hostile files; `cache` reads the loader's cache; `linux` and `windows` hold the rules of
the two loaders; `forensics` says what goes wrong. All but the readers are pure over the `Files` that they are given.
"""

from typing import NamedTuple, Protocol


class Library(NamedTuple):
    """What the headers of a shared library, or of a program, say.

    `ending`: ok, missing, denied, failed (its bytes are no sound ELF or PE file: `reason`), unknown (nobody looked).
    `machine` and `bits` as its header names them; a loader passes over a file whose two differ from the process's.
    """

    path: str
    ending: str
    reason: str = ""
    format: str = ""
    """elf or pe."""
    machine: str = ""
    bits: int = 0
    soname: str = ""
    needed: tuple[str, ...] = ()
    delayed: tuple[str, ...] = ()
    """Of Windows: names that are loaded at the first call into them."""
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    needs_versions: tuple[tuple[str, str], ...] = ()
    """(file, version) pairs without which the loader refuses this one; weak ones are left out."""
    has_versions: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.ending == "ok"

    @property
    def missing(self) -> bool:
        return self.ending == "missing"


class Wanted(NamedTuple):
    """A symbol that a library wants from others; `file` is the one it expects it in, where it says so."""

    symbol: str
    version: str = ""
    file: str = ""


class Symbols(NamedTuple):
    """The plain symbols of a library, C++'s mangled ones left out: those are internal to one package.

    `defined` holds names, and `name@version` for those that carry one. Endings as in `Library`.
    """

    path: str
    ending: str
    reason: str = ""
    wanted: tuple[Wanted, ...] = ()
    defined: frozenset[str] = frozenset()

    @property
    def ok(self) -> bool:
        return self.ending == "ok"


class Files(Protocol):
    """The file system as a loader sees it. Paths are absolute and written as on the machine."""

    def find(self, folder: str, name: str) -> str | None:
        """The path of a file in a folder, "" if there is none, None if nobody knows."""

    def list(self, folder: str) -> tuple[str, ...]:
        """The names in a folder; empty if it is not there."""

    def library(self, path: str) -> Library: ...

    def symbols(self, path: str) -> Symbols: ...

    def real(self, path: str) -> str:
        """The path with its links resolved, so that two names of one file can be told."""


class Taken(NamedTuple):
    """What the loader takes for a name.

    `how`: preload, rpath, library-path, runpath, cache, default, path, preloaded-by-torch on Linux; own-folder,
    application, added, system, windows, working-folder, search-path, built-in on Windows; loaded for what is in the
    process already, kernel; missing if no place has it, unknown if a place could not be seen.
    `entry` is the folder as the variable or header names it, `of` the file whose RPATH or RUNPATH it was; `damage` says
    why the file that is taken cannot be loaded.
    """

    name: str
    path: str
    by: str
    how: str
    entry: str = ""
    of: str = ""
    damage: str = ""

    @property
    def sound(self) -> bool:
        return bool(self.path) and not self.damage and self.how not in ("unknown", "missing")


class Trouble(NamedTuple):
    """What is wrong with the library of a name; empty where that is not it.

    `missing`: no place that the loader searches has it. `taken` is the file that is used. `shadow` names what led the
    loader to it although the environment has `own`: a variable, a header or the cache; `entry` the folder in there.
    `symbol` (or version) is what `needed_by` asks of it and it lacks.
    """

    name: str
    needed_by: str
    taken: str = ""
    own: str = ""
    missing: bool = False
    delayed: bool = False
    damage: str = ""
    shadow: str = ""
    entry: str = ""
    symbol: str = ""


def read_library(path: str, real: str) -> Library:
    """The headers of the file `real`, reported under the name `path`. Never raises."""
    from .reading import headers

    return headers(path, real)


def read_symbols(path: str, real: str) -> Symbols:
    """Its symbol tables; seconds for a file with millions of them, so ask only where it matters. Never raises."""
    from .reading import symbols

    return symbols(path, real)

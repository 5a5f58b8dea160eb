"""The rules of Windows' loader, as far as Python and torch make use of them: which file it takes for a DLL's name.

Left out: manifests and redirection (.local), packaged programs, and DLLs for processors other than the process's
that are taken by emulation.
"""

from collections import deque
from collections.abc import Iterator
from ntpath import basename, dirname
from typing import NamedTuple

from . import Files, Library, Taken

_MOST_LIBRARIES = 600
_SETS = ("api-ms-win-", "ext-ms-win-", "api-ms-onecoreuap-", "ext-ms-onecoreuap-")
"""Names that the loader maps by itself; the files of that name, where they exist, are not what is loaded."""
KNOWN = frozenset(
    f"{name}.dll"
    for name in (
        *("advapi32", "bcrypt", "bcryptprimitives", "cfgmgr32", "clbcatq", "combase", "comdlg32", "coml2", "crypt32"),
        *("difxapi", "gdi32", "gdi32full", "gdiplus", "imagehlp", "imm32", "kernel32", "kernelbase", "msctf", "msvcrt"),
        *("msvcp_win", "normaliz", "nsi", "ntdll", "ole32", "oleaut32", "psapi", "rpcrt4", "sechost", "setupapi"),
        *("shcore", "shell32", "shlwapi", "ucrtbase", "user32", "win32u", "wintrust", "wldap32", "ws2_32"),
    )
)
"""Those that always come from System32: the list of the registry's KnownDLLs and what those need themselves."""


class Surroundings(NamedTuple):
    """Folders that the loader searches beside that of the DLL itself."""

    application: str
    """That of python.exe."""
    system: str
    windows: str
    added: tuple[tuple[str, str], ...] = ()
    """(folder, why) given to AddDllDirectory."""
    path: tuple[str, ...] = ()
    """The entries of PATH."""
    cwd: str = ""


class Process:
    """A process in whose memory DLLs are loaded one after the other, known by their names from then on."""

    def __init__(self, files: Files, around: Surroundings, program: str = "") -> None:
        self._files = files
        self._around = around
        self._kind: tuple[str, int] | None = None
        self.taken: dict[tuple[str, str], Taken] = {}
        self.loaded: dict[str, Library] = {}
        self._by_name: dict[str, str] = {}
        if program and (library := files.library(program)).ok:
            self._kind = library.machine, library.bits
            self._load(library, restricted=False)

    def open(self, path: str) -> tuple[Taken, ...]:
        """As torch loads each of its DLLs: searched for in the folders that were added, and, should one of the DLLs
        that it needs be missing there, once more along PATH. What was taken for each name, the last try's.
        """
        library = self._files.library(path)
        if not library.ok and library.ending != "failed":
            return (Taken(basename(path), "", "", "missing" if library.missing else "unknown"),)
        if not library.ok:
            return (Taken(basename(path), path, "", "path", damage=library.reason),)
        if self._by_name.get(basename(path).lower()):
            return ()
        self._kind = self._kind or (library.machine, library.bits)
        first = self._load(library, restricted=True)
        if all(taken.how not in ("missing", "unknown") for taken in first):
            return first
        return self._load(library, restricted=False)

    def _load(self, library: Library, *, restricted: bool) -> tuple[Taken, ...]:
        """One call of LoadLibrary; if anything is missing, nothing of it stays loaded."""
        taken: dict[tuple[str, str], Taken] = {}
        fresh = {library.path: library}
        names = {basename(library.path).lower(): library.path}
        waiting = deque([library])
        while waiting and len(fresh) < _MOST_LIBRARIES:
            needing = waiting.popleft()
            for name in needing.needed:
                one = self._take(name, needing.path, dirname(library.path), names, restricted=restricted)
                taken[needing.path, name.lower()] = one
                if one.sound and one.path not in self.loaded and one.path not in fresh:
                    fresh[one.path] = self._files.library(one.path)
                    names[name.lower()] = one.path
                    # What Windows brings along fits together; following it would read a hundred files for nothing.
                    if one.how != "system":
                        waiting.append(fresh[one.path])
        self.taken.update(taken)
        if all(one.sound or one.how == "built-in" for one in taken.values()):
            self.loaded.update(fresh)
            self._by_name.update(names)
        return tuple(taken.values())

    def delayed(self, library: Library) -> Iterator[Taken]:
        """What would be taken for the DLLs that a loaded one only loads at the first call into them."""
        for name in library.delayed:
            yield self._take(name, library.path, dirname(library.path), {}, restricted=False)

    def _take(self, name: str, by: str, own: str, fresh: dict[str, str], *, restricted: bool) -> Taken:
        lower = name.lower()
        if lower.startswith(_SETS):
            return Taken(name, "", by, "built-in")
        if known := self._by_name.get(lower) or fresh.get(lower):
            return Taken(name, known, by, "loaded")
        unsure = ""
        for how, entry, folder in self._places(own, restricted=restricted, known=lower in KNOWN):
            found = self._files.find(folder, name)
            if found is None:
                unsure = unsure or folder
            if not found:
                continue
            if unsure:
                break
            library = self._files.library(found)
            if library.ending == "unknown":
                unsure = folder
                break
            if library.ok and (library.machine, library.bits) == (self._kind or (library.machine, library.bits)):
                return Taken(name, found, by, how, entry)
            reason = library.reason or "it is made for another kind of processor"
            return Taken(name, found, by, how, entry, damage=reason)
        return Taken(name, "", by, "unknown" if unsure else "missing", unsure)

    def _places(self, own: str, *, restricted: bool, known: bool) -> Iterator[tuple[str, str, str]]:
        """(how, entry, folder), in the loader's order."""
        around = self._around
        if known:
            yield "system", around.system, around.system
            return
        if restricted:
            yield "own-folder", own, own
            yield "application", around.application, around.application
            for folder, why in around.added:
                yield "added", f"{folder} ({why})" if why else folder, folder
            yield "system", around.system, around.system
            return
        yield "application", around.application, around.application
        yield "system", around.system, around.system
        yield "windows", around.windows, around.windows
        if around.cwd:
            yield "working-folder", around.cwd, around.cwd
        # torch puts its own folders before PATH for the second try.
        for folder, why in around.added:
            yield "added", f"{folder} ({why})" if why else folder, folder
        for folder in around.path:
            yield "search-path", folder, folder

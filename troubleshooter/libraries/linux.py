"""The rules of glibc's loader: which file it takes for a name, and in which order it loads what a library needs.

Left out: folders for particular processors (glibc-hwcaps), which hold other builds of the same version; libraries with
DF_1_NODEFLIB, programs with the set-user-id bit, and musl's loader, for which there is no CUDA.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from posixpath import basename, dirname, join, normpath
from typing import NamedTuple

from . import Files, Library, Taken
from .cache import Cache

_MOST_LIBRARIES = 600
"""Loaded in one process; a CUDA build of torch has about sixty."""
_KERNEL = ("linux-vdso.so.1", "linux-gate.so.1", "linux-vdso64.so.1")
_TRIPLETS: Mapping[tuple[str, int], tuple[str, str]] = {
    ("EM_X86_64", 64): ("x86_64-linux-gnu", "x86_64"),
    ("EM_AARCH64", 64): ("aarch64-linux-gnu", "aarch64"),
    ("EM_PPC64", 64): ("powerpc64le-linux-gnu", "power8"),
    ("EM_386", 32): ("i386-linux-gnu", "i686"),
}


class Surroundings(NamedTuple):
    """What the loader heeds beside the files: the variables, the folder it was started in, its cache."""

    library_path: str = ""
    """LD_LIBRARY_PATH as it is set."""
    preload: str = ""
    cwd: str = ""
    """Empty if it is not known; an empty entry of the path means this folder."""
    cache: Cache | None = None
    """None if nobody knows it."""


class Process:
    """A process in whose memory libraries are loaded one after the other; what is loaded decides for what follows."""

    def __init__(self, files: Files, around: Surroundings, program: str = "") -> None:
        self._files = files
        self._around = around
        self._program: Library | None = files.library(program) if program else None
        self._kind: tuple[str, int] | None = None
        if self._program and self._program.ok:
            self._kind = self._program.machine, self._program.bits
        self.taken: dict[tuple[str, str], Taken] = {}
        """By the path of the needing file and the name, in the order of asking."""
        self.loaded: dict[str, Library] = {}
        """By path, in the order of loading."""
        self._by_name: dict[str, str] = {}
        self._by_real: dict[str, str] = {}
        self._loader_of: dict[str, str] = {}
        for name in around.preload.replace(":", " ").split():
            self._load_name(name, self._program, "preload")
        if self._program and self._program.ok:
            self._enter(self._program, "")
            self._drain(deque([self._program]))

    def open(self, path: str, by: str = "", how: str = "path") -> Taken:
        """As dlopen does with a path: load the file and all that it needs."""
        library = self._files.library(path)
        if not library.ok and library.ending != "failed":
            return Taken(basename(path), "", by, "missing" if library.missing else "unknown")
        taken = Taken(basename(path), path, by, how, damage=library.reason)
        if library.ok and path not in self.loaded:
            self._kind = self._kind or (library.machine, library.bits)
            self._enter(library, self._program.path if self._program else "")
            self._drain(deque([library]))
        return taken

    def open_name(self, name: str, by: str) -> Taken:
        """As dlopen does with a name, out of the loaded library `by`."""
        return self._load_name(name, self.loaded[by])

    def _load_name(self, name: str, needing: Library | None, how: str = "") -> Taken:
        waiting: deque[Library] = deque()
        taken = self._take_in(name, needing, waiting, how)
        self._drain(waiting)
        return taken

    def _drain(self, waiting: deque[Library]) -> None:
        """Breadth first, as the loader goes."""
        while waiting and len(self.loaded) < _MOST_LIBRARIES:
            needing = waiting.popleft()
            for name in needing.needed:
                self._take_in(name, needing, waiting)

    def _take_in(self, name: str, needing: Library | None, waiting: deque[Library], how: str = "") -> Taken:
        taken = self._take(name, needing, how)
        if taken.sound and taken.path not in self.loaded:
            library = self._files.library(taken.path)
            self._enter(library, needing.path if needing else "")
            waiting.append(library)
        return taken

    def _enter(self, library: Library, loader: str) -> None:
        self.loaded[library.path] = library
        self._loader_of[library.path] = loader
        self._by_real.setdefault(self._files.real(library.path), library.path)
        for name in (library.soname, basename(library.path)):
            # The loader knows a library by the name it was asked for and by its SONAME.
            if name:
                self._by_name.setdefault(name, library.path)

    def _take(self, name: str, needing: Library | None, how: str = "") -> Taken:
        by = needing.path if needing else ""
        key = by, name
        if key not in self.taken:
            taken = self._search(name, needing, by)
            if how == "preload" and not taken.sound:
                return taken  # the loader says so and goes on without it
            self.taken[key] = taken._replace(how=how) if how and taken.path else taken
        return self.taken[key]

    def _search(self, name: str, needing: Library | None, by: str) -> Taken:
        if name in _KERNEL:
            return Taken(name, "", by, "kernel")
        if "/" in name:
            return self._by_path(name, self._expand(name, by), by)
        if known := self._by_name.get(name):
            return Taken(name, known, by, "loaded")
        unsure = ""
        for how, entry, of, folder in self._places(needing):
            if how == "cache":
                found, doubt = self._in_cache(name)
            else:
                found, doubt = self._in_folder(folder, name)
            if found:
                if unsure:
                    return Taken(name, "", by, "unknown", unsure)
                return self._known(name, found, by, how, entry, of)
            unsure = unsure or (entry or folder or how if doubt else "")
        return Taken(name, "", by, "unknown" if unsure else "missing", unsure)

    def _by_path(self, name: str, path: str, by: str) -> Taken:
        library = self._files.library(path)
        if library.ok:
            return self._known(name, path, by, "path", "", "")
        if library.ending == "failed":
            return Taken(name, path, by, "path", damage=library.reason)
        return Taken(name, "", by, "missing" if library.missing else "unknown")

    def _known(self, name: str, path: str, by: str, how: str, entry: str, of: str) -> Taken:
        """With the path under which the same file is loaded already, if it is."""
        library = self._files.library(path)
        if not library.ok:
            return Taken(name, path, by, how, entry, of, library.reason or library.ending)
        path = self._by_real.get(self._files.real(path), path)
        self._by_name.setdefault(name, path)
        return Taken(name, path, by, how, entry, of)

    def _places(self, needing: Library | None) -> Iterator[tuple[str, str, str, str]]:
        """(how, entry as written, the file whose header names it, folder), in the loader's order."""
        if needing is None or not needing.runpath:
            visited = set()
            asking = needing
            while asking is not None and asking.path not in visited:
                visited.add(asking.path)
                if not asking.runpath:
                    yield from (
                        ("rpath", entry, asking.path, self._expand(entry, asking.path)) for entry in asking.rpath
                    )
                asking = self.loaded.get(self._loader_of.get(asking.path, ""))
            program = self._program
            if program is not None and program.path not in visited and not program.runpath:
                yield from (
                    ("rpath", entry, program.path, self._expand(entry, program.path)) for entry in program.rpath
                )
        if self._around.library_path:
            for entry in self._around.library_path.replace(";", ":").split(":"):
                folder = self._expand(entry, self._program.path if self._program else "") or self._around.cwd
                if folder and not folder.startswith("/"):
                    folder = normpath(join(self._around.cwd, folder)) if self._around.cwd else ""
                if folder:
                    yield "library-path", entry or ".", "", folder
        if needing is not None:
            yield from (
                ("runpath", entry, needing.path, self._expand(entry, needing.path)) for entry in needing.runpath
            )
        yield "cache", "", "", ""
        yield from (("default", folder, "", folder) for folder in self.default_folders())

    def default_folders(self) -> Sequence[str]:
        """Those of Debian and of the distributions with lib64; the wrong ones hold nothing that fits."""
        triplet, _ = _TRIPLETS.get(self._kind or ("EM_X86_64", 64), ("", ""))
        debian = [f"{top}/{triplet}" for top in ("/lib", "/usr/lib") if triplet]
        return [*debian, *(["/lib64", "/usr/lib64"] if (self._kind or ("", 64))[1] == 64 else []), "/lib", "/usr/lib"]

    def _expand(self, text: str, of: str) -> str:
        triplet, platform = _TRIPLETS.get(self._kind or ("EM_X86_64", 64), ("", ""))
        # The program's own place is known with its links resolved, a library's as it was found.
        program = self._program is not None and of == self._program.path
        origin = dirname(self._files.real(of) if program else of)
        library = f"lib/{triplet}" if triplet and self._files.find("/lib", triplet) else "lib64"
        for token, value in (("ORIGIN", origin), ("PLATFORM", platform), ("LIB", library)):
            text = text.replace(f"${{{token}}}", value).replace(f"${token}", value)
        return normpath(text) if text.startswith("/") else text

    def _in_folder(self, folder: str, name: str) -> tuple[str, bool]:
        """(path of the file that is taken, whether the folder could not be seen)."""
        path = self._files.find(folder, name)
        if not path:
            return "", path is None
        return self._fit(path)

    def _in_cache(self, name: str) -> tuple[str, bool]:
        if self._around.cache is None:
            return "", True
        for path in self._around.cache.get(name, ()):
            found, doubt = self._fit(path)
            if found or doubt:
                return found, doubt
        return "", False

    def _fit(self, path: str) -> tuple[str, bool]:
        """A file for another processor, or that may not be opened, is passed over; a broken one is taken, and fails."""
        library = self._files.library(path)
        if library.ending in ("missing", "denied"):
            return "", False
        if library.ending == "unknown":
            return "", True
        if library.ok and self._kind and (library.machine, library.bits) != self._kind:
            return "", False
        return path, False

"""What goes wrong when torch's libraries are loaded: missing, broken, shadowed, of a version that does not fit."""

import ntpath
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from . import Files, Library, Taken, Trouble, linux, windows

_ELF = re.compile(r"lib[^/]+\.so(?:\.[0-9.]+)?$")
_MOST_FOLDERS = 200


class Place(NamedTuple):
    """The environment that torch lies in. `program` is the file that runs, which for a venv of Windows is that of the
    Python it was made with; empty if nobody knows it. `base` is the prefix of that one.
    """

    torch: str
    """The folder of the package."""
    roots: tuple[str, ...]
    """Folders of installed packages, in the order of sys.path."""
    program: str = ""
    prefix: str = ""
    base: str = ""


class Findings(NamedTuple):
    """`taken` is what the loader takes for each name, in its order; `unsure` names that could not be followed."""

    troubles: tuple[Trouble, ...]
    taken: tuple[Taken, ...]
    unsure: tuple[str, ...]
    read: int
    """How many libraries are loaded; 0 if torch's folder has none that could be."""


def examine_linux(files: Files, around: linux.Surroundings, place: Place) -> Findings:
    """Loads torch as `import torch` does: first the list of what it needs from elsewhere, then the module itself."""
    own = _Own(files, place, folded=False)
    process = _import_torch(files, around, place)
    missing = [one.name for one in process.taken.values() if one.how == "missing" and own.nvidia.get(one.name)]
    if missing:
        # torch then loads the libraries of the nvidia packages by their paths, and tries again.
        preloaded = tuple(own.nvidia[name] for name in dict.fromkeys(missing))
        process = _import_torch(files, around, place, preloaded)
    chain = tuple(process.taken.values())
    beside = tuple(_asked_for_later(process, own))
    troubles = [
        *_missing_and_damaged(chain),
        *_shadowed((*chain, *beside), process.loaded, own, files, _cause_on_linux),
        *_lacking_versions(process.loaded, chain),
        *_lacking_symbols(process.loaded, chain, own, files),
    ]
    return Findings(_joined(troubles, own), chain, _unsure(chain), _count(process.loaded, place))


def examine_windows(files: Files, around: windows.Surroundings, place: Place) -> Findings:
    """Loads every DLL of torch's folder, in the order of their names, as torch does, and then its module."""
    own = _Own(files, place, folded=True)
    process = windows.Process(files, around, place.program)
    folder = ntpath.join(place.torch, "lib")
    paths = [ntpath.join(folder, name) for name in files.list(folder) if name.lower().endswith(".dll")]
    paths += [
        ntpath.join(place.torch, name)
        for name in files.list(place.torch)
        if name.lower().startswith("_c.") and name.lower().endswith(".pyd")
    ]
    tops = [one for path in paths for one in process.open(path)]
    chain = tuple({**{("", one.name): one for one in tops if not one.by}, **process.taken}.values())
    late = [one for library in tuple(process.loaded.values()) for one in process.delayed(library)]
    troubles = [
        *_missing_and_damaged(chain),
        *(one._replace(delayed=True) for one in _missing_and_damaged(late)),
        *_shadowed(chain, process.loaded, own, files, _cause_on_windows),
        *_lacking_symbols(process.loaded, chain, own, files),
    ]
    return Findings(_joined(troubles, own), chain, _unsure(chain), _count(process.loaded, place))


class _Own:
    """The libraries that the environment itself brings: torch's folder and those of the nvidia packages, by name."""

    def __init__(self, files: Files, place: Place, *, folded: bool) -> None:
        """`folded`: names differ by more than their case, as on Windows."""
        self.join = ntpath.join if folded else posixpath.join
        self.folded = folded
        self._files = files
        self._top = place.torch
        self.torch: dict[str, str] = {}
        self.nvidia: dict[str, str] = {}
        self._add(self.torch, self.join(place.torch, "lib"))
        for root in place.roots:
            top = self.join(root, "nvidia")
            for package in files.list(top)[:_MOST_FOLDERS]:
                for part in ("bin", self.join("bin", "x86_64")) if self.folded else ("lib",):
                    self._add(self.nvidia, self.join(top, package, part))
        self.folders = {self._folder(path) for path in (*self.torch.values(), *self.nvidia.values())}
        self.folders |= {files.real(folder) for folder in self.folders}

    def get(self, name: str) -> str:
        name = name.lower() if self.folded else name
        return self.torch.get(name) or self.nvidia.get(name) or ""

    def holds(self, path: str) -> bool:
        """The file is one of the environment's, be it by another way."""
        return self._folder(path) in self.folders or self._folder(self._files.real(path)) in self.folders

    def same_package(self, first: str, second: str) -> bool:
        """Both lie in one folder, or in torch's."""
        return self._folder(first) == self._folder(second) or all(
            path.startswith(self._top) for path in (first, second)
        )

    def _add(self, found: dict[str, str], folder: str) -> None:
        for name in self._files.list(folder):
            if name.lower().endswith(".dll") if self.folded else _ELF.match(name):
                found.setdefault(name.lower() if self.folded else name, self.join(folder, name))

    def _folder(self, path: str) -> str:
        return ntpath.dirname(path).lower() if self.folded else posixpath.dirname(path)


def _import_torch(files: Files, around: linux.Surroundings, place: Place, first: Iterable[str] = ()) -> linux.Process:
    process = linux.Process(files, around, place.program)
    for path in first:
        process.open(path, how="preloaded-by-torch")
    folder = posixpath.join(place.torch, "lib")
    if "libtorch_global_deps.so" in files.list(folder):
        process.open(posixpath.join(folder, "libtorch_global_deps.so"))
    modules = [name for name in files.list(place.torch) if re.match(r"_C\.[^/]*\.so$|_C\.so$", name)]
    tags = re.search(r"python(\d)\.(\d+)", f"{files.real(place.program)} {place.torch}")
    fitting = [name for name in modules if tags and f"-{tags[1]}{tags[2]}-" in name]
    for name in (fitting or modules)[:1]:
        process.open(posixpath.join(place.torch, name))
    return process


def _asked_for_later(process: linux.Process, own: _Own) -> Iterator[Taken]:
    """A library in parts (cuDNN) opens the others by name when it is used: libcudnn_ops after libcudnn."""
    loaded = {posixpath.basename(path): path for path in process.loaded}
    loaded |= {library.soname: path for path, library in process.loaded.items() if library.soname}
    parts = dict(own.nvidia)
    for name, path in tuple(loaded.items()):
        head = stem(name)
        if len(head) < 4 or not own.get(name):
            continue
        for part in [one for one in parts if stem(one).startswith(f"{head}_") and one not in loaded]:
            if posixpath.dirname(parts[part]) == posixpath.dirname(own.get(name)):
                yield process.open_name(part, path)


def stem(name: str) -> str:
    """cudnn_ops of libcudnn_ops.so.9 and of cudnn_ops64_9.dll, nvJitLink of nvJitLink_120_0.dll."""
    base = re.split(r"\.(?:so|dll|dylib)\b", name, maxsplit=1, flags=re.IGNORECASE)[0]
    return re.sub(r"(?<!_)64(?:_\d+)*$|(?:_\d+){2}$", "", base.removeprefix("lib"))


def _missing_and_damaged(taken: Iterable[Taken]) -> Iterator[Trouble]:
    for one in taken:
        if one.how == "missing":
            yield Trouble(one.name, one.by, missing=True)
        elif one.damage:
            yield Trouble(one.name, one.by, taken=one.path, damage=one.damage)


def _shadowed(
    taken: Iterable[Taken],
    loaded: Mapping[str, Library],
    own: _Own,
    files: Files,
    cause: Callable[[Taken], tuple[str, str]],
) -> Iterator[Trouble]:
    for one in taken:
        if not one.path or one.how == "loaded" or own.holds(one.path):
            continue
        # What is asked for by its path is known by its SONAME from then on.
        library = loaded.get(one.path)
        names = (one.name, library.soname if library else "", ntpath.basename(one.name))
        name = next((name for name in names if own.get(name)), "")
        if name and files.real(own.get(name)) != files.real(one.path):
            shadow, entry = cause(one)
            yield Trouble(name, one.by, taken=one.path, own=own.get(name), shadow=shadow, entry=entry)


def _cause_on_linux(one: Taken) -> tuple[str, str]:
    folder = one.entry or posixpath.dirname(one.path)
    if one.how in ("rpath", "runpath"):
        return f"{one.how.upper()} of {one.of}", folder
    known = {
        "preload": "LD_PRELOAD",
        "library-path": "LD_LIBRARY_PATH",
        "cache": "/etc/ld.so.cache",
        "default": "the loader's own folders",
    }
    return known.get(one.how, one.how), folder


def _cause_on_windows(one: Taken) -> tuple[str, str]:
    folder = ntpath.dirname(one.path)
    if one.how == "added":
        return one.entry.rpartition("(")[2].rstrip(")") or "os.add_dll_directory", folder
    known = {
        "search-path": "PATH",
        "application": "the folder of python.exe",
        "system": "System32",
        "windows": "the folder of Windows",
        "working-folder": "the working folder",
    }
    return known.get(one.how, one.how), folder


def _lacking_versions(loaded: Mapping[str, Library], taken: Iterable[Taken]) -> Iterator[Trouble]:
    """A version that a library asks of a file which has versions, but not that one: the loader refuses it."""
    for one in taken:
        needing, given = loaded.get(one.by), loaded.get(one.path)
        if needing is None or given is None or not given.has_versions:
            continue
        for file, version in needing.needs_versions:
            if file == one.name and version not in given.has_versions:
                yield Trouble(one.name, one.by, taken=one.path, symbol=version)
                break


def _lacking_symbols(
    loaded: Mapping[str, Library], taken: Iterable[Taken], own: _Own, files: Files
) -> Iterator[Trouble]:
    """A symbol that one package's library wants of another package's; within a package all is of one build."""
    for one in taken:
        needing, given = loaded.get(one.by), loaded.get(one.path)
        if needing is None or given is None or not (own.get(one.name) or own.get(given.soname) or _from_a_search(one)):
            continue
        if own.same_package(one.by, one.path) or not (own.holds(one.by) or own.holds(one.path)):
            continue
        wanted, has = files.symbols(one.by), files.symbols(one.path)
        if not (wanted.ok and has.ok):
            continue
        for symbol in wanted.wanted:
            if not _owed_by(symbol.symbol, symbol.file, one.name, needing):
                continue
            name = f"{symbol.symbol}@{symbol.version}" if symbol.version and given.has_versions else symbol.symbol
            if name not in has.defined and not _elsewhere(name, symbol.version, loaded, one, files):
                yield Trouble(one.name, one.by, taken=one.path, symbol=symbol.symbol)
                break


def _from_a_search(one: Taken) -> bool:
    return one.how in ("rpath", "runpath", "library-path", "preload", "added", "search-path", "own-folder")


def _owed_by(symbol: str, file: str, name: str, needing: Library) -> bool:
    if file:
        return file.lower() == name.lower() if needing.format == "pe" else file == name
    if needing.format == "pe":
        return False
    # Nothing says where a symbol without a version is expected: that of NCCL begins with its name, as those of all
    # of NVIDIA's libraries do. The longest name counts, so that cublasLt's are not asked of cublas.
    heads = [one for one in needing.needed if len(stem(one)) > 2 and symbol.lower().startswith(stem(one).lower())]
    return bool(heads) and max(heads, key=lambda one: len(stem(one))) == name


def _elsewhere(name: str, version: str, loaded: Mapping[str, Library], one: Taken, files: Files) -> bool:
    """Another library of the process has it; the large ones of the same folder as the asking one are left out."""
    if version and loaded[one.path].format == "elf":
        return False
    others = [path for path in loaded if path not in (one.by, one.path) and stem(one.name) in path]
    return any(name in files.symbols(path).defined for path in others)


def _count(loaded: Iterable[str], place: Place) -> int:
    paths = tuple(loaded)
    return len(paths) if any(path.startswith(place.torch) for path in paths) else 0


def _unsure(taken: Iterable[Taken]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.name for one in taken if one.how == "unknown"))


def _joined(troubles: Iterable[Trouble], own: _Own) -> tuple[Trouble, ...]:
    """One per name: what shadows it and what it lacks belong together."""
    found: dict[str, Trouble] = {}
    for one in troubles:
        key = one.name.lower() if own.folded else one.name
        known = found.get(key)
        if known is None:
            found[key] = one._replace(own=one.own or own.get(one.name))
            continue
        found[key] = known._replace(
            needed_by=one.needed_by if one.symbol and not known.symbol else known.needed_by,
            **{
                field: getattr(known, field) or getattr(one, field)
                for field in ("taken", "missing", "damage", "shadow", "entry", "symbol")
            },
        )
    return tuple(found.values())

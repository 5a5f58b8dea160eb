"""The shared libraries of torch: which files the loader would take for them, and what is wrong with those.

Reads headers only and loads nothing. `probe` looks for the environment itself, where the machine is a folder or a
recording; of the live machine `look_at` is told which one the target Python found.
"""

import ntpath
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ..interpreter import recorded_run
from ..libraries import Library, Symbols, Trouble, linux, windows
from ..libraries.cache import Cache, read_cache, read_ldconfig
from ..libraries.forensics import Findings, Place, examine_linux, examine_windows, stem
from ..machine import Machine
from ..model import Claim, Source, absent, present, unknown
from ..recording import RecordedMachine
from ..text import clean

NAME = "libraries"
FACTS = ("libraries.troubled", "libraries.followed")

_CACHE = "/etc/ld.so.cache"
_MOST_STATED = 40
_SITES = ("site-packages", "dist-packages")


def probe(machine: Machine) -> Iterator[Claim]:
    if machine.kind == "live":
        reason = "which Python runs torch is not known"
    elif place := _recorded_place(machine) or find_place(machine):
        yield from look_at(machine, place)
        return
    else:
        reason = "no torch was found in the folders where environments lie"
    for name in FACTS:
        yield unknown(name, reason, Source("probe", "file", "libraries of torch"))


def start_looking(machine: Machine, place: Place, seconds: float = 20.0) -> Callable[[], tuple[Claim, ...]]:
    """Begin `look_at` beside other work; the function that is returned waits for it, `seconds` at most."""
    import threading

    said: list[Claim] = []
    fault: list[str] = []

    def work() -> None:
        try:
            said.extend(look_at(machine, place))
        except Exception as error:
            fault.append(f"the probe broke: {type(error).__name__}: {error}")

    # A daemon: a read of a dead network drive must not keep the process from ending.
    thread = threading.Thread(target=work, name="probe-libraries", daemon=True)
    thread.start()

    def wait() -> tuple[Claim, ...]:
        thread.join(seconds)
        if not thread.is_alive() and not fault:
            return tuple(said)
        reason = fault[0] if fault else f"reading the libraries took longer than {seconds:g} s"
        return tuple(unknown(name, reason, _source(place.torch)) for name in FACTS)

    return wait


def look_at(machine: Machine, place: Place) -> Iterator[Claim]:
    """What the loader would do for the torch of this place."""
    files = _MachineFiles(machine)
    if machine.platform == "win32":
        findings = examine_windows(files, around_windows(machine, place), place)
    elif machine.platform == "linux":
        findings = examine_linux(files, around_linux(machine), place)
    else:
        for name in FACTS:
            yield unknown(name, f"the loader of {machine.platform} is not known here", _source(""))
        return
    yield from claims_of(findings, place)


def claims_of(findings: Findings, place: Place) -> Iterator[Claim]:
    source = _source(place.torch)
    if not findings.read and not findings.troubles:
        for name in FACTS:
            yield unknown(name, f"{clean(place.torch)} holds no library that could be read", source)
        return
    yield present("libraries.followed", findings.read, source)
    troubled = findings.troubles[:_MOST_STATED]
    if troubled:
        yield present("libraries.troubled", tuple(clean(one.name) for one in troubled), source)
    elif findings.unsure:
        names = ", ".join(findings.unsure[:3])
        yield unknown("libraries.troubled", f"where the loader finds {clean(names)} could not be seen", source)
    else:
        yield absent("libraries.troubled", source, "all that torch's libraries need is found and fits")
    for one in troubled:
        yield from _of_trouble(one)


def _of_trouble(one: Trouble) -> Iterator[Claim]:
    subject = f"library:{clean(one.name)}"
    source = _source(one.taken or one.needed_by)
    say = partial(_said, source=source, subject=subject)
    yield from say("library.file_name", one.name)
    yield from say("library.family", stem(one.name))
    yield present("library.missing", one.missing and not one.delayed, source, subject)
    yield present("library.missing_later", one.missing and one.delayed, source, subject)
    yield from say("library.needed_by", one.needed_by)
    yield from say("library.own_file", one.own)
    yield from say("library.damaged_file", one.taken if one.damage else "")
    yield from say("library.damage", one.damage)
    yield from say("library.shadowed_by", one.taken if one.shadow else "")
    yield from say("library.shadow_variable", one.shadow)
    yield from say("library.shadow_folder", one.entry)
    yield from say("library.missing_symbol", one.symbol)
    yield from say("library.lacking_file", one.taken if one.symbol else "")


def _said(name: str, value: str, source: Source, subject: str) -> Iterator[Claim]:
    yield present(name, clean(value), source, subject) if value else absent(name, source, subject=subject)


def _source(file: str) -> Source:
    return Source("probe", "file", "headers of shared libraries", file)


# --- where torch lies


def place_of(interpreter: Mapping[str, Any], torch: Mapping[str, Any], python: str) -> Place | None:
    """Out of what `inspect_environment.py` says of the interpreter and of torch; None without a torch folder."""
    if torch.get("kind") != "package" or not torch.get("folder"):
        return None
    roots = tuple(map(str, interpreter.get("roots") or ()))
    program = str(interpreter.get("executable") or python)
    prefix, base = (str(interpreter.get(key) or "") for key in ("prefix", "base_prefix"))
    if interpreter.get("platform") == "win32" and base and base != prefix:
        # The python.exe of a venv only starts the one that it was made with.
        program = ntpath.join(base, "python.exe")
    return Place(str(torch["folder"]), roots, program, prefix, base)


def _recorded_place(machine: Machine) -> Place | None:
    """Where the target of a recording found its torch."""
    if not isinstance(machine, RecordedMachine):
        return None
    run = recorded_run(machine.target.get("inspection") or {})
    values = [(run.after(step) or {}).get("value") for step in ("interpreter", "torch")]
    interpreter, torch = (value if isinstance(value, dict) else {} for value in values)
    return place_of(interpreter, torch, run.python)


def find_place(machine: Machine) -> Place | None:
    """The first torch of a machine that cannot be asked: that of the active environment, else of the usual places."""
    folders = [machine.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    if machine.platform == "win32":
        prefixes = [*folders, *(entry for entry in _path_of(machine) if "python" in entry.lower())]
        candidates = [(prefix, ntpath.join(prefix, "Lib", "site-packages")) for prefix in prefixes if prefix]
        join, program = ntpath.join, "python.exe"
    else:
        # A recording holds what was asked for and no more; all of a folder can be searched.
        wide = machine.kind == "folder"
        tops = ("/opt", "/root", "/home", "/srv", "/workspace", "/app") if wide else ()
        for top in tops:
            folders += [f"{top}/{name}" for name in machine.list(top).names[:50]]
        folders += [f"{folder}/{name}" for folder in tuple(folders) for name in (".venv", "venv", "env") if folder]
        folders += ["/usr/local", "/usr", "/opt/conda"] if wide else []
        candidates = []
        for prefix in dict.fromkeys(filter(None, folders)):
            for version in machine.list(f"{prefix}/lib").names:
                if re.fullmatch(r"python3(\.\d+)?", version):
                    candidates += [(prefix, f"{prefix}/lib/{version}/{site}") for site in _SITES]
        join, program = posixpath.join, "bin/python3"
    for prefix, root in candidates:
        torch = join(root, "torch")
        if machine.list(join(torch, "lib")).ok:
            python = join(prefix, program)
            return Place(torch, (root,), python if machine.stat(python).ok else "", prefix)
    return None


# --- what the loader heeds


def around_linux(machine: Machine) -> linux.Surroundings:
    environ = machine.environ
    # ld.so reads this file before all else; as good as nobody has it, and whoever has one does not know of it.
    preload = " ".join((environ.get("LD_PRELOAD", ""), machine.read("/etc/ld.so.preload", 65536).text)).strip()
    return linux.Surroundings(environ.get("LD_LIBRARY_PATH", ""), preload, environ.get("PWD", ""), _cache(machine))


def _cache(machine: Machine) -> Cache | None:
    found = machine.read_bytes(_CACHE)
    if found.ok:
        return read_cache(found.data)
    if found.missing:
        return {}
    told = machine.run(["ldconfig", "-p"], 5)
    return read_ldconfig(told.text) if told.ending == "ok" else None


def around_windows(machine: Machine, place: Place) -> windows.Surroundings:
    """The folders that torch gives to the loader are those of torch/__init__.py."""
    environ = {name.upper(): value for name, value in machine.environ.items()}
    root = environ.get("SYSTEMROOT") or r"C:\Windows"
    programs = environ.get("PROGRAMFILES") or r"C:\Program Files"
    prefix = place.prefix or ntpath.dirname(place.program)
    prefixes = dict.fromkeys(filter(None, (prefix, place.base)))
    added = [(_lib(place), "torch\\lib")]
    added += [(ntpath.join(top, "Library", "bin"), "Library\\bin of the environment") for top in prefixes]
    tools = environ.get("NVTOOLSEXT_PATH") or ntpath.join(programs, r"NVIDIA Corporation\NvToolsExt")
    added.append((ntpath.join(tools, r"bin\x64"), "NVTOOLSEXT_PATH"))
    if not any(name.lower().startswith("cudart64") for name in machine.list(_lib(place)).names):
        # A build without a CUDA of its own takes the toolkit's, of the version that it was made for.
        version = re.search(r"""^cuda\b[^=]*=\s*['"](\d+)\.(\d+)""", _version_file(machine, place), re.MULTILINE)
        if version:
            variable = f"CUDA_PATH_V{version[1]}_{version[2]}"
            toolkit = rf"{programs}\NVIDIA GPU Computing Toolkit\CUDA\v{version[1]}.{version[2]}"
            added.append((ntpath.join(environ.get(variable) or toolkit, "bin"), variable))
    return windows.Surroundings(
        application=ntpath.dirname(place.program) or prefix,
        system=ntpath.join(root, "System32"),
        windows=root,
        added=tuple(added),
        path=_path_of(machine),
    )


def _lib(place: Place) -> str:
    return ntpath.join(place.torch, "lib")


def _version_file(machine: Machine, place: Place) -> str:
    return machine.read(ntpath.join(place.torch, "version.py"), 65536).text


def _path_of(machine: Machine) -> tuple[str, ...]:
    path = next((value for name, value in machine.environ.items() if name.upper() == "PATH"), "")
    return tuple(entry.strip('"') for entry in path.split(";") if entry.strip('"'))


class _MachineFiles:
    """The machine's files as the loader's rules want them, each asked for once."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._folded = machine.platform == "win32"
        self._libraries: dict[str, Library] = {}
        self._symbols: dict[str, Symbols] = {}
        self._real: dict[str, str] = {}
        self._names: dict[str, dict[str, str] | None] = {}

    def find(self, folder: str, name: str) -> str | None:
        if self._folded:
            names = self._listed(folder)
            found = None if names is None else names.get(name.lower(), "")
            return ntpath.join(folder, found) if found else found
        path = posixpath.join(folder, name)
        stat = self._machine.stat(path)
        return path if stat.ok else None if stat.ending == "unknown" else ""

    def list(self, folder: str) -> tuple[str, ...]:
        return self._machine.list(folder).names

    def library(self, path: str) -> Library:
        if path not in self._libraries:
            self._libraries[path] = self._machine.library(path)
        return self._libraries[path]

    def symbols(self, path: str) -> Symbols:
        if path not in self._symbols:
            self._symbols[path] = self._machine.symbols(path)
        return self._symbols[path]

    def real(self, path: str) -> str:
        return path.lower() if self._folded else self._resolved(path, 0)

    def _resolved(self, path: str, links: int) -> str:
        path = posixpath.normpath(path)
        if not path.strip("/.") or links > 40:
            return path
        if path not in self._real:
            folder = self._resolved(posixpath.dirname(path), links)
            here = posixpath.join(folder, posixpath.basename(path))
            link = self._machine.read_link(here)
            self._real[path] = self._resolved(posixpath.join(folder, link.text), links + 1) if link.ok else here
        return self._real[path]

    def _listed(self, folder: str) -> dict[str, str] | None:
        """The names in a folder by themselves in lower case; None if nobody knows them."""
        key = folder.lower()
        if key not in self._names:
            listing = self._machine.list(folder)
            known = {name.lower(): name for name in listing.names}
            self._names[key] = None if listing.ending == "unknown" else known
        return self._names[key]

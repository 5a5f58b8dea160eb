"""The one seam to the outside: files, variables and programs of a machine, this one or one kept in a folder.

Every answer is a value, also "it is not there", "it may not be read" and "nobody looked"; nothing here raises for what
it meets outside, and nothing here knows what an answer means.
"""

import errno
import os
import stat as modes
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple, Protocol

from . import commands
from .commands import OUTPUT_LIMIT, Answer, at_the_same_time, end_all
from .errors import UsageError
from .libraries import Library, Symbols, read_library, read_symbols
from .model import Location, Source
from .text import clean, decode
from .windows_system import RegistryValue, read_file_version, read_registry

__all__ = [
    "OUTPUT_LIMIT",
    "READ_LIMIT",
    "Answer",
    "Bytes",
    "Listing",
    "LiveMachine",
    "Machine",
    "Reading",
    "RegistryKey",
    "RegistryValue",
    "RootMachine",
    "Stat",
    "at_the_same_time",
    "clean",
    "decode",
    "end_all",
]

READ_LIMIT = 8 * 1024 * 1024

ENGLISH: Mapping[str, str] = {"LC_ALL": "C", "LANG": "C", "LANGUAGE": "C"}
"""Laid over the environment of a program whose output we read."""

OWN = "troubleshooter-ask-"
"""Programs of this name are scripts of ours (`probes/children/ask_….py`), run by the interpreter that runs us, alone:
without its packages and without the user's start-up files. A recording or a folder knows them by this name.
"""


class Reading(NamedTuple):
    """A file's text, or a link's target.

    `ending`: ok, missing, denied, failed (not a file, input/output error), too-large (the text is the beginning),
    unknown (a recording does not say).
    """

    path: str
    ending: str
    text: str = ""
    reason: str = ""

    @property
    def ok(self) -> bool:
        return self.ending == "ok"

    @property
    def missing(self) -> bool:
        return self.ending == "missing"

    @property
    def source(self) -> Source:
        return Source("probe", "file", file=self.path)


class Bytes(NamedTuple):
    """A file's bytes; the endings of `Reading`."""

    path: str
    ending: str
    data: bytes = b""
    reason: str = ""

    @property
    def ok(self) -> bool:
        return self.ending == "ok"

    @property
    def missing(self) -> bool:
        return self.ending == "missing"


class Listing(NamedTuple):
    """The names in a folder, sorted; the endings of `Reading`."""

    path: str
    ending: str
    names: tuple[str, ...] = ()
    reason: str = ""

    @property
    def ok(self) -> bool:
        return self.ending == "ok"

    @property
    def missing(self) -> bool:
        return self.ending == "missing"

    @property
    def source(self) -> Source:
        return Source("probe", "file", file=self.path)


class Stat(NamedTuple):
    """What a path is, links followed. `kind`: file, directory, char, block, fifo, socket, other.

    `mode` holds the permission bits; `major` and `minor` are the device numbers, -1 for what is no device.
    `readable` and `writable` are meant for the user who asks, for a device: opening it would be allowed.
    """

    path: str
    ending: str
    kind: str = ""
    mode: int = 0
    major: int = -1
    minor: int = -1
    readable: bool = False
    writable: bool = False
    size: int = 0
    reason: str = ""

    @property
    def ok(self) -> bool:
        return self.ending == "ok"

    @property
    def missing(self) -> bool:
        return self.ending == "missing"

    @property
    def source(self) -> Source:
        return Source("probe", "file", file=self.path)


class RegistryKey(NamedTuple):
    """A key of the registry of Windows: its values by name, and the names of the keys below it. The endings of
    `Reading`.
    """

    path: str
    ending: str
    values: Mapping[str, RegistryValue] = {}
    keys: tuple[str, ...] = ()
    reason: str = ""

    @property
    def ok(self) -> bool:
        return self.ending == "ok"

    @property
    def missing(self) -> bool:
        return self.ending == "missing"

    @property
    def source(self) -> Source:
        return Source("probe", "file", "registry", self.path)

    def text(self, name: str) -> str:
        """The value as text, a number in figures; empty if there is none. Names are alike in any case."""
        value = next((value for key, value in self.values.items() if key.lower() == name.lower()), "")
        return "\n".join(value) if isinstance(value, tuple) else str(value).strip()

    def number(self, name: str) -> int | None:
        value = self.text(name)
        return int(value) if value.isascii() and value.isdigit() else None


class Machine(Protocol):
    """What probes may ask. Paths are absolute and written as on the machine itself."""

    @property
    def kind(self) -> str:
        """live, folder or recording."""

    @property
    def name(self) -> str:
        """For people: the folder or the recording; empty for this machine."""

    @property
    def platform(self) -> str:
        """As `sys.platform` says it: linux, darwin, win32."""

    @property
    def environ(self) -> Mapping[str, str]: ...

    def read(self, path: str, limit_bytes: int = READ_LIMIT) -> Reading: ...

    def read_bytes(self, path: str, limit_bytes: int = READ_LIMIT) -> Bytes: ...

    def library(self, path: str) -> Library:
        """What the headers of a shared library say: its file may have a gigabyte, and no recording could hold it."""

    def symbols(self, path: str) -> Symbols: ...

    def read_link(self, path: str) -> Reading: ...

    def list(self, path: str) -> Listing: ...

    def stat(self, path: str) -> Stat: ...

    def registry(self, path: str) -> RegistryKey:
        """`path` begins with HKLM, HKCU, HKCR or HKU; parts are parted by one backslash."""

    def file_version(self, path: str) -> Reading:
        """The version that a Windows program or DLL states in its resources, as four numbers: 32.0.15.6094."""

    def which(self, name: str) -> str:
        """The file that `run([name])` would run; empty if there is none."""

    def run(
        self,
        argv: Sequence[str],
        seconds: float,
        input: bytes = b"",  # noqa: A002
        env: Mapping[str, str | None] | None = None,
        cwd: str | None = None,
        *,
        limit_bytes: int = OUTPUT_LIMIT,
        english: bool = True,
        on_line: Callable[[str], None] | None = None,
        alive_limit: float | None = None,
        here: bool = False,
    ) -> Answer:
        """Run a program within `seconds`, without a shell, in a group of its own that is ended with it.

        `env` is laid over the machine's environment, None removes a variable; `english` asks for untranslated output.
        `on_line` gets each line of standard output as it comes (in the thread that called `run`). With `alive_limit`,
        so many seconds without output, processor time and reading end the program as "hung".
        `here`: the program is a file of this computer that a person has named; it is run for real, also where the
        machine is a folder or a recording. Never set it for a name that came out of one.
        """


class LiveMachine:
    """The computer that we run on."""

    kind = "live"
    name = ""

    def __init__(self) -> None:
        self.platform = sys.platform
        self.environ: Mapping[str, str] = dict(os.environ)

    def read(self, path: str, limit_bytes: int = READ_LIMIT) -> Reading:
        return _read(path, path, limit_bytes)

    def read_bytes(self, path: str, limit_bytes: int = READ_LIMIT) -> Bytes:
        return _read_bytes(path, path, limit_bytes)

    def library(self, path: str) -> Library:
        return read_library(path, path)

    def symbols(self, path: str) -> Symbols:
        return read_symbols(path, path)

    def read_link(self, path: str) -> Reading:
        try:
            return Reading(path, "ok", os.readlink(path))
        except (OSError, ValueError) as error:
            return Reading(path, *_ending(error))

    def list(self, path: str) -> Listing:
        try:
            return Listing(path, "ok", tuple(sorted(os.listdir(path))))
        except (OSError, ValueError) as error:
            ending, _, reason = _ending(error)
            return Listing(path, ending, reason=reason)

    def stat(self, path: str) -> Stat:
        try:
            found = os.stat(path)
        except (OSError, ValueError) as error:
            ending, _, reason = _ending(error)
            return Stat(path, ending, reason=reason)
        return _stat(path, found, os.access(path, os.R_OK), os.access(path, os.W_OK))

    def registry(self, path: str) -> RegistryKey:
        return RegistryKey(path, *read_registry(path))

    def file_version(self, path: str) -> Reading:
        return Reading(path, *read_file_version(path))

    def which(self, name: str) -> str:
        path, runs = _find(name, self.environ, self.platform)
        return path if runs else ""

    def run(
        self,
        argv: Sequence[str],
        seconds: float,
        input: bytes = b"",  # noqa: A002
        env: Mapping[str, str | None] | None = None,
        cwd: str | None = None,
        *,
        limit_bytes: int = OUTPUT_LIMIT,
        english: bool = True,
        on_line: Callable[[str], None] | None = None,
        alive_limit: float | None = None,
        here: bool = False,  # noqa: ARG002  every program of this machine is here
    ) -> Answer:
        called = tuple(argv)
        if argv[0].startswith(OWN):
            path, argv = sys.executable, _own(argv)
        else:
            path, _ = _find(argv[0], self.environ, self.platform)
        if not path:
            return Answer(argv[0], tuple(argv), "missing", reason=f"there is no {argv[0]} on PATH")
        answer = commands.run(
            path,
            argv,
            seconds,
            overlaid(self.environ, ENGLISH if english else {}, env or {}),
            input=input,
            cwd=cwd,
            limit_bytes=limit_bytes,
            on_line=on_line,
            alive_limit=alive_limit,
        )
        return answer._replace(argv=called)


class RootMachine:
    """A machine kept as a folder: its files under `root`, its programs and their recorded outputs in `.commands`.

    `.manifest.json` says what a folder of plain files cannot: device nodes, modes, links. Nobody's rights are ours in
    there, so a file is readable if its mode lets everybody read it (or the manifest says nothing of it).
    """

    kind = "folder"
    platform = "linux"

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """Raises UsageError if the folder, its manifest or its environment cannot be used."""
        self._root = os.path.abspath(root)
        self.name = str(root)
        if not os.path.isdir(self._root):
            raise UsageError(f"{root} is not a folder", "--root takes the folder that holds the machine's files")
        manifest = _json_object(os.path.join(self._root, ".manifest.json")) or {}
        self._manifest: dict[tuple[str, ...], dict[str, object]] = {
            tuple(_split(path)): entry for path, entry in manifest.items() if isinstance(entry, dict)
        }
        variables = _json_object(os.path.join(self._root, ".environment.json"))
        self.environ: Mapping[str, str] = (
            dict(os.environ) if variables is None else {name: str(value) for name, value in variables.items()}
        )

    def read(self, path: str, limit_bytes: int = READ_LIMIT) -> Reading:
        real, ending, reason = self._file(path)
        return Reading(path, ending, reason=reason) if ending else _read(path, real, limit_bytes)

    def read_bytes(self, path: str, limit_bytes: int = READ_LIMIT) -> Bytes:
        real, ending, reason = self._file(path)
        return Bytes(path, ending, reason=reason) if ending else _read_bytes(path, real, limit_bytes)

    def library(self, path: str) -> Library:
        real, ending, reason = self._file(path)
        return Library(path, ending, reason) if ending else read_library(path, real)

    def symbols(self, path: str) -> Symbols:
        real, ending, reason = self._file(path)
        return Symbols(path, ending, reason) if ending else read_symbols(path, real)

    def _file(self, path: str) -> tuple[str, str, str]:
        """(the file of this computer, "", "") or ("", ending, reason)."""
        parts, real, trouble = self._resolve(path)
        if trouble:
            return "", *trouble
        entry = self._manifest.get(parts, {})
        if not _open_to_all(entry, 0o4):
            return "", "denied", "its mode lets only its owner read it"
        if entry.get("type", "file") not in ("file", "regular"):
            return "", "failed", f"it is no file but a {entry['type']}"
        return real, "", ""

    def read_link(self, path: str) -> Reading:
        parts, real, trouble = self._resolve(path, follow_last=False)
        if trouble:
            return Reading(path, trouble[0], reason=trouble[1])
        target = self._link(parts, real)
        if target is None:
            return Reading(path, "failed", reason="it is no link")
        return Reading(path, "ok", target)

    def list(self, path: str) -> Listing:
        parts, real, trouble = self._resolve(path)
        if trouble:
            return Listing(path, trouble[0], reason=trouble[1])
        if not _open_to_all(self._manifest.get(parts, {}), 0o4):
            return Listing(path, "denied", reason="its mode lets only its owner list it")
        names = {
            entry[len(parts)] for entry in self._manifest if len(entry) > len(parts) and entry[: len(parts)] == parts
        }
        try:
            names |= set(os.listdir(real))
        except OSError as error:
            if not names:
                ending, _, reason = _ending(error)
                return Listing(path, ending, reason=reason)
        return Listing(path, "ok", tuple(sorted(names if parts else names - _OURS)))

    def stat(self, path: str) -> Stat:
        parts, real, trouble = self._resolve(path)
        if trouble:
            return Stat(path, trouble[0], reason=trouble[1])
        entry = self._manifest.get(parts, {})
        try:
            found = _stat(path, os.lstat(real), readable=True, writable=True)
        except OSError as error:
            ending, _, reason = _ending(error)
            if not entry and not any(other[: len(parts)] == parts for other in self._manifest):
                return Stat(path, ending, reason=reason)
            found = Stat(path, "ok", "file" if entry else "directory", readable=True, writable=True)
        if not entry:
            return found
        kind = str(entry.get("type", found.kind))
        mode = _mode(entry)
        return found._replace(
            kind={"regular": "file", "dir": "directory"}.get(kind, kind),
            mode=found.mode if mode is None else mode,
            major=_number(entry.get("major")),
            minor=_number(entry.get("minor")),
            readable=_open_to_all(entry, 0o4),
            writable=_open_to_all(entry, 0o2),
        )

    def registry(self, path: str) -> RegistryKey:
        return RegistryKey(path, "missing", reason="the folder of a Linux machine has no registry")

    def file_version(self, path: str) -> Reading:
        return Reading(path, "unknown", reason="version resources are read under Windows only")

    def which(self, name: str) -> str:
        real, kind = self._command(name)
        return real if kind in ("program", "text") else ""

    def run(
        self,
        argv: Sequence[str],
        seconds: float,
        input: bytes = b"",  # noqa: A002
        env: Mapping[str, str | None] | None = None,
        cwd: str | None = None,
        *,
        limit_bytes: int = OUTPUT_LIMIT,
        english: bool = True,
        on_line: Callable[[str], None] | None = None,
        alive_limit: float | None = None,
        here: bool = False,
    ) -> Answer:
        if here:
            real, kind = argv[0], "program"
        else:
            real, kind = self._command(argv[0])
        if kind == "text":
            recorded = _read(real, real, limit_bytes)
            return replay(Answer(real, tuple(argv), "ok", 0, text=recorded.text), on_line)
        if kind == "denied":
            return Answer(argv[0], tuple(argv), "denied", reason=f".commands/{_base(argv[0])} may not be run")
        if kind == "unknown":
            return Answer(argv[0], tuple(argv), "unknown", reason="the folder has the program, but not what it prints")
        if kind != "program":
            return Answer(argv[0], tuple(argv), "missing", reason=f"the folder has no .commands/{_base(argv[0])}")
        # The folder's variables over ours: a script in .commands needs a PATH to find its own tools.
        return commands.run(
            real,
            argv,
            seconds,
            overlaid(os.environ, self.environ, ENGLISH if english else {}, env or {}),
            input=input,
            cwd=cwd,
            limit_bytes=limit_bytes,
            on_line=on_line,
            alive_limit=alive_limit,
        )

    def _command(self, name: str) -> tuple[str, str]:
        """(path, kind): program, text, denied, unknown (there is such a program, but it may not be run) or missing."""
        base = _base(name)
        if base not in ("", ".", ".."):
            for suffix, kind in (("", "program"), (".txt", "text")):
                _, real, trouble = self._resolve(f"/.commands/{base}{suffix}", ours=True)
                if not trouble and os.path.isfile(real):
                    return real, "denied" if kind == "program" and not os.access(real, os.X_OK) else kind
            for folder in ("usr/bin", "bin", "usr/local/bin", "usr/lib/wsl/lib", "usr/local/cuda/bin"):
                if self.stat(f"/{folder}/{base}").ok:
                    return f"/{folder}/{base}", "unknown"
        return "", "missing"

    def _link(self, parts: tuple[str, ...], real: str) -> str | None:
        entry = self._manifest.get(parts, {})
        if entry.get("type") == "link":
            return str(entry.get("target", ""))
        try:
            return os.readlink(real)
        except (OSError, ValueError):
            return None

    def _resolve(
        self, path: str, *, follow_last: bool = True, ours: bool = False
    ) -> tuple[tuple[str, ...], str, tuple[str, str] | None]:
        """Where a path leads inside the folder: its parts, the file of this computer, and (ending, reason) of a fault.

        Each part is looked at by itself, so no link leads out: an absolute one begins at the folder again, and `..`
        stays at its top.
        """
        waiting = list(reversed(_split(path)))
        if not ours and waiting and waiting[-1] in _OURS:
            return (), "", ("missing", "No such file or directory")
        parts: list[str] = []
        links = 0
        while waiting:
            part = waiting.pop()
            if "\0" in part:
                return (), "", ("failed", "the path holds a null character")
            if part == "..":
                del parts[-1:]
                continue
            parts.append(part)
            if not waiting and not follow_last:
                break
            target = self._link(tuple(parts), os.path.join(self._root, *parts))
            if target is None:
                continue
            links += 1
            if links > 40:
                return (), "", ("failed", "Too many levels of symbolic links")
            parts.pop()
            if target.startswith("/"):
                parts.clear()
            waiting += reversed(_split(target))
        if not ours and parts and parts[0] in _OURS:
            return (), "", ("missing", "No such file or directory")
        return tuple(parts), os.path.join(self._root, *parts), None


_OURS = frozenset({".manifest.json", ".commands", ".environment.json"})


def overlaid(*layers: Mapping[str, str | None] | Mapping[str, str]) -> dict[str, str]:
    """One environment out of several, the last first; None removes a variable."""
    merged: dict[str, str | None] = {}
    for layer in layers:
        merged.update(layer)
    return {name: value for name, value in merged.items() if value is not None}


def replay(answer: Answer, on_line: Callable[[str], None] | None) -> Answer:
    """Hand a recorded answer's lines on as a running program would."""
    if on_line:
        for line in answer.text.splitlines():
            on_line(line)
    return answer


def _ending(error: Exception) -> tuple[str, str, str]:
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "missing", "", reason
    # A kernel that hides a file from a sandbox may answer EPERM instead of EACCES; Python names both the same.
    if isinstance(error, PermissionError):
        return "denied", "", reason
    return "failed", "", reason


def _read(path: str, real: str, limit_bytes: int) -> Reading:
    found = _read_bytes(path, real, limit_bytes)
    return Reading(path, found.ending, decode(found.data) if found.data else "", found.reason)


def _read_bytes(path: str, real: str, limit_bytes: int) -> Bytes:
    # Non-blocking: a pipe or a device in the file's place must not hold us.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)
    try:
        descriptor = os.open(real, flags)
        try:
            if not modes.S_ISREG(os.fstat(descriptor).st_mode):
                return Bytes(path, "failed", reason="it is no plain file")
            data = bytearray()
            while len(data) <= limit_bytes and (
                chunk := os.read(descriptor, min(1 << 20, limit_bytes + 1 - len(data)))
            ):
                data += chunk
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        if getattr(error, "errno", 0) == errno.EISDIR:
            return Bytes(path, "failed", reason="it is no plain file")
        ending, _, reason = _ending(error)
        return Bytes(path, ending, reason=reason)
    if len(data) > limit_bytes:
        return Bytes(path, "too-large", bytes(data[:limit_bytes]), f"it is larger than {limit_bytes} bytes")
    return Bytes(path, "ok", bytes(data))


def _stat(path: str, found: os.stat_result, readable: bool, writable: bool) -> Stat:
    kinds = (
        (modes.S_ISREG, "file"),
        (modes.S_ISDIR, "directory"),
        (modes.S_ISCHR, "char"),
        (modes.S_ISBLK, "block"),
        (modes.S_ISFIFO, "fifo"),
        (modes.S_ISSOCK, "socket"),
        (modes.S_ISLNK, "link"),
    )
    kind = next((name for test, name in kinds if test(found.st_mode)), "other")
    device = getattr(found, "st_rdev", 0) if kind in ("char", "block") else None
    major = minor = -1
    if device is not None and sys.platform != "win32":
        major, minor = os.major(device), os.minor(device)
    mode = modes.S_IMODE(found.st_mode)
    return Stat(path, "ok", kind, mode, major, minor, readable, writable, found.st_size)


def _find(name: str, environ: Mapping[str, str], platform: str) -> tuple[str, bool]:
    """The file that a name on PATH, or a path, means, and whether it can be run.

    Unlike the shell, never the working folder: a program that lies there must not answer for the system's.
    """
    suffixes = [""]
    if platform == "win32":
        suffixes = environ.get("PATHEXT", ".COM;.EXE;.BAT;.CMD").lower().split(";")
        if os.path.splitext(name)[1].lower() in suffixes:
            suffixes = [""]
    there = ""
    for candidate in _candidates(name, environ):
        for suffix in suffixes:
            path = candidate + suffix
            try:
                if os.path.isfile(path) and os.access(path, os.X_OK):
                    return path, True
                if not there and os.path.exists(path) and (os.path.dirname(name) or os.path.isfile(path)):
                    there = path
            except ValueError:
                return "", False
    return there, False


def _own(argv: Sequence[str]) -> tuple[str, ...]:
    """`troubleshooter-ask-nvml` as the command that runs the script of that name."""
    script = "ask_" + argv[0].removeprefix(OWN).replace("-", "_") + ".py"
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "probes", "children", script)
    return (sys.executable, "-I", "-S", "-B", path, *argv[1:])


def _candidates(name: str, environ: Mapping[str, str]) -> Iterator[str]:
    if os.path.dirname(name):
        yield os.path.abspath(name)
        return
    path = next((value for key, value in environ.items() if key.upper() == "PATH"), os.defpath)
    for folder in path.split(os.pathsep):
        if folder.strip('"') not in ("", ".", os.curdir + os.sep):
            yield os.path.join(os.path.abspath(folder.strip('"')), name)


def _split(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _base(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name


def _mode(entry: Mapping[str, object]) -> int | None:
    """`mode` is octal text ("0666") or the plain number."""
    given = entry.get("mode")
    if isinstance(given, int):
        return given & 0o7777
    try:
        return int(str(given), 8) & 0o7777
    except ValueError:
        return None


def _open_to_all(entry: Mapping[str, object], bit: int) -> bool:
    mode = _mode(entry)
    return mode is None or bool(mode & bit)


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1


def _json_object(path: str) -> dict[str, object] | None:
    """The object in a JSON file of the folder, or None if there is no such file."""
    import json

    try:
        with open(path, "rb") as file:
            loaded = json.loads(file.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"it cannot be read as JSON: {error}", at=Location(path)) from error
    if not isinstance(loaded, dict):
        raise UsageError("it has to hold one JSON object", at=Location(path))
    return loaded

"""A machine's raw answers as one JSON value, and a machine that answers out of it."""

import os
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import commands
from .errors import UsageError
from .interpreter import DRIVER_TESTS, TESTS, runs_of
from .libraries import Library, Symbols, Wanted
from .libraries.cache import read_cache
from .machine import (
    ENGLISH,
    OUTPUT_LIMIT,
    READ_LIMIT,
    Answer,
    Bytes,
    Listing,
    Machine,
    Reading,
    RegistryKey,
    RegistryValue,
    Stat,
    overlaid,
    replay,
)
from .model import Location

SCHEMA = "troubleshooter.recording/1"

_NOT_SAID = "the recording does not say"


def load_recording(path: str) -> "RecordedMachine":
    """Read a recording file. Raises UsageError if it cannot be read or is none."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UsageError(f"it cannot be read: {error.strerror}", at=Location(path)) from error
    return RecordedMachine(read_recording(data, path), name=path)


def read_recording(data: bytes, name: str) -> dict[str, object]:
    """The JSON value of a recording. Raises UsageError if it is none; `name` is for people."""
    import json

    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"it is not JSON: {error}", at=Location(name)) from error
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise UsageError(f"it is no recording: its schema is not {SCHEMA}", at=Location(name))
    return found


class RecordedMachine:
    """Answers out of a recording:

    `platform` as `sys.platform`; `environment`; `files` {path: text, or an object with ending, text, reason};
    `links` {path: target}; `listings` {folder: names}; `stats` {path: the fields of `Stat`}; `missing` paths and
    program names that are not there, with all below them; `programs` {name: path}; `commands` with the fields of
    `Answer`; `libraries` {path: the fields of `Library`, and of `Symbols` where they were asked for}; `binaries`
    {path: base64}; `registry` {key: {values, keys}, or {ending, reason}}; `versions` {path: version}. What a recording
    does not mention is unknown, and a folder is listed by what is known below it. Names of a Windows machine are alike
    in any case, and with either slash.
    """

    kind = "recording"

    def __init__(self, data: Mapping[str, object], name: str = "") -> None:
        """Raises UsageError for a part of the wrong shape."""
        self.name = name
        self.platform = str(data.get("platform", "linux"))
        self.environ: Mapping[str, str] = {key: str(value) for key, value in _mapping(data, "environment").items()}
        self.target: Mapping[str, Any] = _runs(_mapping(data, "target"))
        """What the scripts in the target reported: {inspection: run, import: run, tests: [run]}; may be empty."""
        self._files = self._named(_mapping(data, "files"))
        self._links = self._named(_mapping(data, "links"))
        self._listings = self._named(_mapping(data, "listings"))
        self._stats = self._named(_mapping(data, "stats"))
        self._missing = frozenset(self._name(str(path)) for path in _sequence(data, "missing"))
        self._registry = {key.lower(): value for key, value in _mapping(data, "registry").items()}
        self._versions = self._named(_mapping(data, "versions"))
        self._libraries = self._named(_mapping(data, "libraries"))
        self._binaries = self._named(_mapping(data, "binaries"))
        self._programs = {key: str(value) for key, value in _mapping(data, "programs").items()}
        self._answers = tuple(_answer(entry) for entry in _sequence(data, "commands"))
        self._known = (
            frozenset(self._files)
            | frozenset(self._links)
            | frozenset(self._listings)
            | frozenset(self._stats)
            | frozenset(self._libraries)
            | frozenset(self._binaries)
        )

    def _name(self, path: str) -> str:
        r"""A path as the tables here have it: on Windows C:\Windows and c:/windows/ are one."""
        if self.platform != "win32":
            return path
        return path.replace("\\", "/").rstrip("/").lower()

    def _named(self, table: Mapping[str, object]) -> dict[str, object]:
        return {self._name(path): value for path, value in table.items()}

    def read(self, path: str, limit_bytes: int = READ_LIMIT) -> Reading:
        known = self._files.get(self._name(path))
        if isinstance(known, str):
            if len(known) > limit_bytes:
                return Reading(path, "too-large", known[:limit_bytes], f"it is larger than {limit_bytes} bytes")
            return Reading(path, "ok", known)
        if isinstance(known, Mapping):
            return Reading(path, *(str(known.get(key, "")) for key in ("ending", "text", "reason")))
        return Reading(path, *self._absent(path))

    def read_bytes(self, path: str, limit_bytes: int = READ_LIMIT) -> Bytes:
        import base64

        known = self._binaries.get(self._name(path))
        if known is None:
            ending, _, reason = self._absent(path)
            return Bytes(path, ending, reason=reason)
        try:
            data = base64.b64decode(str(known), validate=True)
        except ValueError:
            return Bytes(path, "failed", reason="the recording's bytes are no base64")
        if len(data) > limit_bytes:
            return Bytes(path, "too-large", data[:limit_bytes], f"it is larger than {limit_bytes} bytes")
        return Bytes(path, "ok", data)

    def library(self, path: str) -> Library:
        known = self._libraries.get(self._name(path))
        if not isinstance(known, Mapping):
            ending, _, reason = self._absent(path)
            return Library(path, ending, reason)
        return _library(path, known)

    def symbols(self, path: str) -> Symbols:
        known = self._libraries.get(self._name(path))
        if not isinstance(known, Mapping) or not {"wanted", "defined"} & set(known):
            return Symbols(path, "unknown", _NOT_SAID)
        return Symbols(
            path,
            "ok",
            wanted=tuple(Wanted(*_texts(entry)[:3]) for entry in _listed(known.get("wanted"))),
            defined=frozenset(map(str, _listed(known.get("defined")))),
        )

    def read_link(self, path: str) -> Reading:
        known = self._links.get(self._name(path))
        return Reading(path, "ok", str(known)) if known is not None else Reading(path, *self._absent(path))

    def list(self, path: str) -> Listing:
        known = self._listings.get(self._name(path))
        if isinstance(known, Mapping):
            return Listing(path, str(known.get("ending", "failed")), reason=str(known.get("reason", "")))
        if isinstance(known, Sequence) and not isinstance(known, str):
            return Listing(path, "ok", tuple(sorted(map(str, known))))
        top = self._name(path).rstrip("/") + "/"
        below = {entry[len(top) :].split("/")[0] for entry in self._known if entry.startswith(top)}
        if below:
            return Listing(path, "ok", tuple(sorted(below)))
        ending, _, reason = self._absent(path)
        return Listing(path, ending, reason=reason)

    def stat(self, path: str) -> Stat:
        name = self._name(path)
        known = self._stats.get(name)
        if isinstance(known, Mapping):
            return _stat(path, known)
        if name in self._files or name in self._links or name in self._libraries or name in self._binaries:
            return Stat(path, "ok", "file", 0o644, readable=True)
        if self.list(path).ok:
            return Stat(path, "ok", "directory", 0o755, readable=True)
        ending, _, reason = self._absent(path)
        return Stat(path, ending, reason=reason)

    def registry(self, path: str) -> RegistryKey:
        known = self._registry.get(path.lower())
        if isinstance(known, Mapping):
            values, keys = known.get("values", {}), known.get("keys", ())
            return RegistryKey(
                path,
                str(known.get("ending", "ok")),
                {str(name): _registry_value(value) for name, value in values.items()}
                if isinstance(values, Mapping)
                else {},
                tuple(map(str, keys)) if isinstance(keys, Sequence) and not isinstance(keys, str) else (),
                str(known.get("reason", "")),
            )
        return RegistryKey(path, "missing" if self.platform != "win32" else "unknown", reason=_NOT_SAID)

    def file_version(self, path: str) -> Reading:
        known = self._versions.get(self._name(path))
        if known is not None:
            return Reading(path, "ok", str(known))
        if self.stat(path).ok:
            return Reading(path, "unknown", reason=_NOT_SAID)
        return Reading(path, *self._absent(path))

    def which(self, name: str) -> str:
        if name in self._programs:
            return self._programs[name]
        base = self._base(name)
        return next((a.program for a in self._answers if self._base(a.argv[0]) == base and a.ending != "missing"), "")

    def _base(self, name: str) -> str:
        """The name of a program without its folder; on Windows nvidia-smi and NVIDIA-SMI.EXE are one."""
        base = _base(name)
        return base.lower().removesuffix(".exe") if self.platform == "win32" else base

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
        """With `here` the program is run for real, with the recording's variables laid over ours."""
        if here:
            return commands.run(
                argv[0],
                argv,
                seconds,
                overlaid(os.environ, self.environ, ENGLISH if english else {}, env or {}),
                input=input,
                cwd=cwd,
                limit_bytes=limit_bytes,
                on_line=on_line,
                alive_limit=alive_limit,
            )
        base, rest = self._base(argv[0]), tuple(argv[1:])
        same_name = [answer for answer in self._answers if self._base(answer.argv[0]) == base]
        for answer in same_name:
            if answer.argv[1:] == rest:
                return replay(answer, on_line)
        if (
            base in self._missing
            or self._name(argv[0]) in self._missing
            or any(a.ending == "missing" for a in same_name)
        ):
            return Answer(argv[0], tuple(argv), "missing", reason=f"there was no {base}")
        return Answer(argv[0], tuple(argv), "unknown", reason=_NOT_SAID)

    def _absent(self, path: str) -> tuple[str, str, str]:
        path = self._name(path).rstrip("/")
        folder, name = posixpath.split(path)
        listing = self._listings.get(folder)
        if isinstance(listing, Sequence) and not isinstance(listing, str):
            names = listing if self.platform != "win32" else [str(one).lower() for one in listing]
            if name not in names:
                return "missing", "", "No such file or directory"
        parts = path.split("/")
        if any("/".join(parts[:count]) in self._missing for count in range(2, len(parts) + 1)):
            return "missing", "", "No such file or directory"
        return "unknown", "", _NOT_SAID


class RecordingMachine:
    """Asks another machine and notes every answer."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.kind = machine.kind
        self.name = machine.name
        self.platform = machine.platform
        self.environ = machine.environ
        self._files: dict[str, object] = {}
        self._links: dict[str, object] = {}
        self._listings: dict[str, object] = {}
        self._stats: dict[str, object] = {}
        self._registry: dict[str, object] = {}
        self._versions: dict[str, str] = {}
        self._libraries: dict[str, dict[str, object]] = {}
        self._programs: dict[str, str] = {}
        self._missing: set[str] = set()
        self._answers: dict[tuple[str, ...], Answer] = {}
        self._scripts: list[Answer] = []

    def recording(self, variables: Iterable[str]) -> dict[str, object]:
        """The answers so far, as `RecordedMachine` takes them. Only the `variables` named (in either case) are kept of
        the environment, for it holds people's secrets; texts are as they were.
        """
        kept = {name.upper() for name in variables}
        answers = [
            {key: list(value) if isinstance(value, tuple) else value for key, value in answer._asdict().items()}
            for answer in self._answers.values()
        ]
        return {
            "schema": SCHEMA,
            "platform": self.platform,
            "environment": {name: text for name, text in self.environ.items() if name.upper() in kept},
            "files": dict(sorted(self._files.items())),
            "links": dict(sorted(self._links.items())),
            "listings": dict(sorted(self._listings.items())),
            "stats": dict(sorted(self._stats.items())),
            **({"registry": dict(sorted(self._registry.items()))} if self._registry else {}),
            **({"versions": dict(sorted(self._versions.items()))} if self._versions else {}),
            "libraries": dict(sorted(self._libraries.items())),
            "missing": sorted(self._missing),
            "programs": dict(sorted(self._programs.items())),
            "commands": answers,
            "target": self._target(),
        }

    def _target(self) -> dict[str, object]:
        """The runs of the scripts of `target/`, under the names that `RecordedMachine.target` has them."""
        target: dict[str, object] = {}
        tests: list[object] = []
        for run in (run for answer in self._scripts for run in runs_of(answer)):
            plain = {**run._asdict(), "events": list(run.events)}
            if run.script in (TESTS, DRIVER_TESTS):
                tests.append(plain)
            else:
                stem = run.script.removesuffix(".py")
                target.setdefault(_RUNS.get(stem, stem), plain)
        return {**target, "tests": tests} if tests else target

    def read(self, path: str, limit_bytes: int = READ_LIMIT) -> Reading:
        reading = self._machine.read(path, limit_bytes)
        if reading.missing:
            self._missing.add(path)
        elif reading.ending != "unknown":
            plain = {"ending": reading.ending, "text": reading.text, "reason": reading.reason}
            self._files[path] = reading.text if reading.ok else plain
        return reading

    def read_bytes(self, path: str, limit_bytes: int = READ_LIMIT) -> Bytes:
        found = self._machine.read_bytes(path, limit_bytes)
        if found.ok and (cache := read_cache(found.data)) is not None:
            # As the text that a program prints of it: bytes cannot be made neutral before they are shared.
            text = "".join(f"\t{name} (libc6) => {one}\n" for name, paths in cache.items() for one in paths)
            self._answers["ldconfig", "-p"] = Answer("ldconfig", ("ldconfig", "-p"), "ok", 0, text=text)
        elif found.missing:
            self._missing.add(path)
        return found

    def library(self, path: str) -> Library:
        library = self._machine.library(path)
        if library.missing:
            self._missing.add(path)
        elif library.ending != "unknown":
            said = {key: value for key, value in library._asdict().items() if value and key != "path"}
            self._libraries.setdefault(path, {}).update(said)
        return library

    def symbols(self, path: str) -> Symbols:
        symbols = self._machine.symbols(path)
        if symbols.ok:
            said = {"wanted": [list(one) for one in symbols.wanted], "defined": sorted(symbols.defined)}
            self._libraries.setdefault(path, {}).update(said)
        return symbols

    def read_link(self, path: str) -> Reading:
        reading = self._machine.read_link(path)
        if reading.ok:
            self._links[path] = reading.text
        elif reading.missing:
            self._missing.add(path)
        return reading

    def list(self, path: str) -> Listing:
        listing = self._machine.list(path)
        if listing.missing:
            self._missing.add(path)
        elif listing.ending != "unknown":
            plain = {"ending": listing.ending, "reason": listing.reason}
            self._listings[path] = [*listing.names] if listing.ok else plain
        return listing

    def stat(self, path: str) -> Stat:
        stat = self._machine.stat(path)
        if stat.missing:
            self._missing.add(path)
        elif stat.ending != "unknown":
            self._stats[path] = {key: value for key, value in stat._asdict().items() if key != "path"}
        return stat

    def registry(self, path: str) -> RegistryKey:
        key = self._machine.registry(path)
        if key.ok:
            values = {name: [*value] if isinstance(value, tuple) else value for name, value in key.values.items()}
            self._registry[path] = {"values": values, "keys": [*key.keys]}
        elif key.ending != "unknown" and self.platform == "win32":
            self._registry[path] = {"ending": key.ending, "reason": key.reason}
        return key

    def file_version(self, path: str) -> Reading:
        version = self._machine.file_version(path)
        if version.ok:
            self._versions[path] = version.text
        elif version.missing:
            self._missing.add(path)
        return version

    def which(self, name: str) -> str:
        path = self._machine.which(name)
        self._programs[name] = path
        return path

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
        answer = self._machine.run(
            argv,
            seconds,
            input,
            env,
            cwd,
            limit_bytes=limit_bytes,
            english=english,
            on_line=on_line,
            alive_limit=alive_limit,
            here=here,
        )
        if here and runs_of(answer):
            self._scripts.append(answer)
        elif answer.ending != "unknown" and not (here and argv[1:] == ["--version"]):
            self._answers[tuple(argv)] = answer
        return answer


_RUNS = {"inspect_environment": "inspection", "import_torch": "import"}


def _runs(target: Mapping[str, object]) -> dict[str, Any]:
    """The runs of a recording in their right shapes; what is no run is left out."""
    found: dict[str, Any] = {}
    for name, value in target.items():
        if name == "tests" and isinstance(value, Sequence) and not isinstance(value, str):
            found[name] = [_run(one) for one in value if isinstance(one, Mapping)]
        elif name != "tests" and isinstance(value, Mapping):
            found[name] = _run(value)
    return found


def _run(run: Mapping[str, object]) -> dict[str, Any]:
    tidy: dict[str, Any] = dict(run)
    for key in ("python", "script", "ending", "signal", "errors", "reason"):
        if key in tidy:
            tidy[key] = str(tidy[key] or "")
    events = tidy.get("events")
    tidy["events"] = [one for one in events if isinstance(one, Mapping)] if isinstance(events, Sequence) else []
    if not isinstance(tidy.get("code"), int):
        tidy["code"] = None
    if not isinstance(tidy.get("seconds"), int | float):
        tidy["seconds"] = 0.0
    return tidy


def _mapping(data: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = data.get(key, {})
    if not isinstance(value, Mapping):
        raise UsageError(f"the recording's {key!r} has to be an object")
    return {str(name): entry for name, entry in value.items()}


def _sequence(data: Mapping[str, object], key: str) -> tuple[object, ...]:
    value = data.get(key, ())
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise UsageError(f"the recording's {key!r} has to be a list")
    return tuple(value)


def _registry_value(value: object) -> RegistryValue:
    if isinstance(value, str | int):
        return value
    return tuple(map(str, value)) if isinstance(value, Sequence) else str(value)


def _answer(entry: object) -> Answer:
    argv = entry.get("argv") if isinstance(entry, Mapping) else None
    if isinstance(argv, str):
        argv = argv.split()
    if not isinstance(entry, Mapping) or not isinstance(argv, Sequence) or not argv:
        raise UsageError("each of the recording's 'commands' has to be an object with an argv")
    code = entry.get("code", 0)
    signal, given = str(entry.get("signal", "")), entry.get("ending")
    ending = str(given) if given else "crashed" if signal else "failed" if code else "ok"
    seconds, dropped = entry.get("seconds", 0.0), entry.get("dropped", 0)
    return Answer(
        str(entry.get("program") or argv[0]),
        tuple(map(str, argv)),
        ending,
        code if isinstance(code, int) and ending in ("ok", "failed", "crashed") else None,
        signal,
        str(entry.get("text", "")),
        str(entry.get("errors", "")),
        float(seconds) if isinstance(seconds, int | float) else 0.0,
        str(entry.get("reason", "")),
        dropped if isinstance(dropped, int) else 0,
    )


def _library(path: str, known: Mapping[str, object]) -> Library:
    pairs = [_texts(entry) for entry in _listed(known.get("needs_versions"))]
    bits = known.get("bits", 64)
    return Library(
        path,
        str(known.get("ending", "ok")),
        str(known.get("reason", "")),
        str(known.get("format", "")),
        str(known.get("machine", "")),
        bits if isinstance(bits, int) else 64,
        str(known.get("soname", "")),
        _texts(known.get("needed")),
        _texts(known.get("delayed")),
        _texts(known.get("rpath")),
        _texts(known.get("runpath")),
        tuple((pair[0], pair[1]) for pair in pairs if len(pair) == 2),
        _texts(known.get("has_versions")),
    )


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, _listed(value)))


def _stat(path: str, known: Mapping[str, object]) -> Stat:
    major, minor, size = (
        value if isinstance(value := known.get(key), int) else other
        for key, other in (("major", -1), ("minor", -1), ("size", 0))
    )
    mode = known.get("mode", 0o644)
    bits = int(mode, 8) if isinstance(mode, str) else mode if isinstance(mode, int) else 0
    return Stat(
        path,
        str(known.get("ending", "ok")),
        str(known.get("kind", "file")),
        bits,
        major,
        minor,
        readable=bool(known.get("readable", bits & 0o4)),
        writable=bool(known.get("writable", bits & 0o2)),
        size=size,
        reason=str(known.get("reason", "")),
    )


def _base(name: str) -> str:
    return name.replace("\\", "/").rsplit("/", 1)[-1]

"""Lists of installed packages: pip list, freeze, show, check and --version, uv pip list, conda list and conda info."""

import re
from collections.abc import Iterator

from ..model import Claim, Source, absent, present
from .lines import Gate, at, lines_of
from .versions_told import PACKAGES, package, version

_HEAD = Gate(r"^\s*Package\s+Version\b", "Package")
_CONDA_HEAD = Gate(r"^\s*#\s+Name\s+Version\s+Build|^# packages in environment at (?P<prefix>\S.*?):?\s*$", "# ")
_ASKED = Gate(r"\b(?:pip[\d.]*|uv pip|conda|mamba|micromamba)\s+(?:list|freeze)\b", " list", " freeze")
_CONDA_ASKED = Gate(r"\b(?:conda|mamba|micromamba)\s+list\b", " list")
_ROW = re.compile(r"^\s*([A-Za-z][\w.-]{1,60})\s+(\d[\w.+!]{0,40})(?:\s+(\S+))?(?:\s+(\S+))?\s*$")
_FROZEN = Gate(r"^\s*([A-Za-z][\w.-]{1,60})(?:==(\d[\w.+!]{0,40})| @ \S{1,300})\s*$", "==", " @ ")
_FIELD = Gate(
    r"^\s*(Name|Version|Location|Required-by|Installer): ?(.*)$",
    "Name:",
    "Version:",
    "Location:",
    "Required-by:",
    "Installer:",
)
_MISSING = Gate(r"Package\(s\) not found: (?P<names>[\w.,\- ]{1,200})", "not found")
_CHECK = Gate(
    r"^\s*[\w.-]{1,60} [\w.+]{1,40} (?:has requirement|requires) .{1,200}, but you(?:'ll)? "
    r"have ([\w.-]{1,60}) ([\w.+]{1,40}?)(?: which is incompatible)?\.?\s*$",
    "have ",
)
_PIP = Gate(r"\bpip (\d+\.\d+(?:\.\d+)?) from (\S.*?) \(python (\d\.\d+)\)", "pip ")
_VIRTUAL = Gate(r"\b__(cuda|glibc|win|osx|linux)(?:=(\d+[\w.]*))?=", "__")
_CONDA_INFO = Gate(
    r"^\s*(platform|python version|active env location|active environment|conda version) : (\S.*)$", " : "
)
_FAR = 400


def read_packages(text: str, source: Source) -> Iterator[Claim]:
    """Facts of the packages that matter; which of conda and pip installed torch, where the list tells."""
    inside, conda = 0, False
    name = ""
    installers: list[str] = []
    majors: list[str] = []
    for number, line in enumerate(lines_of(text)):
        here = at(source, number)
        if found := _CONDA_HEAD.match(line):
            inside, conda = number + _FAR, True
            if found["prefix"]:
                yield present("python.prefix", found["prefix"], here)
                yield present("python.environment", "conda", here)
        elif _HEAD.match(line) or _ASKED.search(line):
            inside, conda = number + _FAR, bool(_CONDA_ASKED.search(line))
        elif field := _FIELD.match(line):
            name, claims = _show(name, field[1], field[2].strip(), here)
            yield from claims
        elif found := _FROZEN.match(line):
            if found[2]:
                yield from package(found[1], found[2], here)
            _note_major(found[1], majors)
            if found[1].lower() == "torch":
                installers.append("pip")
        elif number <= inside and (found := _ROW.match(line)):
            yield from _row(found, conda, here, installers)
            _note_major(found[1], majors)
        else:
            yield from _other(line, here)
    if installers:
        yield present("torch.installers", tuple(dict.fromkeys(installers)), source)
    if majors:
        yield present("packages.cuda_majors", tuple(dict.fromkeys(majors)), source)


def _note_major(name: str, majors: list[str]) -> None:
    """Which CUDA the libraries of NVIDIA on PyPI are for: nvidia-cublas-cu12."""
    if found := re.fullmatch(r"nvidia-[\w-]+-cu(\d\d)", name.lower().replace("_", "-")):
        majors.append(found[1])


def _row(found: re.Match[str], conda: bool, source: Source, installers: list[str]) -> Iterator[Claim]:
    name, number, build, channel = found.groups()
    low = name.lower()
    if low in ("pytorch", "torch"):
        from_pip = (channel == "pypi" or (build or "").startswith("pypi")) if conda or build else True
        installers.append("pip" if from_pip else "conda")
        if not from_pip and build:
            if kind := re.search(r"(?:^|_)(cpu|cuda)", build):
                yield present("torch.build", kind[1], source)
            if (cuda := re.search(r"(?:^|_)cuda(\d+)\.(\d+)", build)) or (
                cuda := re.search(r"(?:^|_)cuda(\d{2})(\d)", build)
            ):
                yield present("torch.cuda", f"{cuda[1]}.{cuda[2]}", source)
    yield from package(name, number, source)


def _show(name: str, key: str, value: str, source: Source) -> tuple[str, Iterator[Claim]]:
    if key == "Name":
        return value.lower(), iter(())
    if key == "Version" and name:
        return name, package(name, value, source)
    if key == "Location" and name == "torch" and value:
        mark = "\\" if "\\" in value else "/"
        return name, iter((present("torch.location", f"{value.rstrip(mark)}{mark}torch", source),))
    return name, iter(())


def _other(line: str, source: Source) -> Iterator[Claim]:
    if found := _MISSING.search(line):
        for name in re.split(r"[,\s]+", found["names"].strip()):
            if name.lower() == "torch":
                yield absent("torch.version", source, "pip finds no such package")
            elif fact := PACKAGES.get(name.lower().replace("_", "-")):
                yield absent(fact, source, "pip finds no such package")
    elif found := _CHECK.match(line):
        yield from package(found[1], found[2], source)
    elif "No broken requirements found" in line:
        yield present("packages.consistent", True, source)
    elif found := _PIP.search(line):
        yield present("pip.version", found[1], source)
        yield present("pip.location", found[2], source)
        yield present("pip.python", found[3], source)
    elif found := _CONDA_INFO.match(line):
        yield from _conda_info(found[1], found[2].strip(), source)
    for kind, value in _VIRTUAL.findall(line):
        if kind == "cuda" and value:
            yield from version("driver.cuda_version", value, source)
        elif kind == "glibc" and value:
            yield from version("os.glibc", value, source)


def _conda_info(key: str, value: str, source: Source) -> Iterator[Claim]:
    if key == "platform":
        system, _, bits = value.partition("-")
        families = {"linux": "linux", "win": "windows", "osx": "macos"}
        # conda on WSL calls itself linux-64 as well.
        if system in families and system != "linux":
            yield present("os.family", families[system], source)
        if bits in ("32", "64"):
            yield present("python.bits", int(bits), source)
    elif key == "active env location":
        yield present("python.prefix", value, source)
        yield present("python.environment", "conda", source)

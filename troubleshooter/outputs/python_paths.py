"""What the paths of a traceback tell: which interpreter, which environment, which folders packages came from, and
which kind of system.
"""

import re
from collections.abc import Iterator

from ..model import Claim, Source, present
from .lines import Gate, at, lines_of

# …/lib/python3.10/site-packages/   …/lib/python3/dist-packages/   …\Lib\site-packages\   …\Python39\site-packages\
_ROOT = Gate(
    r"(?:(?<![\w.~\-])|(?<=-[LI]))(?P<root>(?P<prefix>(?:[A-Za-z]:|~|\$\{?\w{1,40}\}?|/)[^\s\"'<>|:*?,;()]{0,200}?)[/\\]"
    r"(?:(?:lib|lib64|Lib|LIB)[/\\](?:python(?P<python>\d(?:\.\d{1,2})?)[/\\])?)?(?:site|"
    r"dist)-packages)(?:[/\\](?P<rest>[\w./\\-]{0,200}))?",
    "-packages",
)
# A blank or a bracket may stand in a path of Windows; there the quotes of a traceback tell where it ends.
_QUOTED = Gate(
    r"File \"(?P<root>(?P<prefix>(?:[A-Za-z]:|~|/)[^\"<>|]{0,250}?)[/\\](?:(?:lib|"
    r"lib64|Lib|LIB)[/\\](?:python(?P<python>\d(?:\.\d{1,2})?)[/\\])?)?(?:site|dist)-packages)"
    r"[/\\](?P<rest>[^\"<>|]{0,200})\", line",
    'File "',
)
_WINDOWS_PYTHON = Gate(
    r"(?i)[/\\]Python(?P<major>3)(?P<minor>\d{1,2})(?:-32)?(?=[/\\])", "\\Python", "\\python", "/Python"
)
_CONDA = Gate(
    r"(?i)[/\\](?:[a-z]*conda\d?|[a-z]*forge3?|mamba|micromamba)(?:[/\\]|$)|[/\\]envs[/\\][^/\\]+$",
    "onda",
    "ONDA",
    "forge",
    "mamba",
    "envs",
)
_VENV = Gate(
    r"(?i)[/\\](?:\.?v?env|\.?venv[\w.-]*|virtualenvs?[/\\][^/\\]+)$|[/\\](?:venvs?|\.virtualenvs)[/\\][^/\\]+$",
    "env",
    "ENV",
)
_EMBEDDED = Gate(r"(?i)python_embed+ed$|[/\\]runtime$", "mbed", "untime")
_USER_SITE = Gate(r"(?i)[/\\]AppData[/\\]Roaming[/\\]Python[/\\]|/\.local$", "Roaming", ".local", "ROAMING")
_SYSTEM = ("/usr", "/usr/local")
_COMPILED_FOR = Gate(r"\.(?:cpython-|cp)(\d)(\d{1,2})[a-z]{0,2}-", ".cp")
_DRIVE = Gate(r"(?:^|[\s\"'(=])(?:[A-Za-z]:\\(?:[^\s\\/:*?\"<>|]+\\?))", ":\\")
_HOME = Gate(
    r"(?i)(?:^|[\s\"'(=:])/(?:home|root|usr|opt|data|srv|var|etc|lib)/",
    "/home/",
    "/root/",
    "/usr/",
    "/opt/",
    "/data/",
    "/srv/",
    "/var/",
    "/etc/",
    "/lib/",
    "/HOME/",
    "/OPT/",
    "/USR/",
    "/SRV/",
    "/DATA/",
)
_MAC = Gate(
    r"(?i)(?:^|[\s\"'(=:])/(?:Users|opt/homebrew|Library|Applications)/",
    "/Users/",
    "/opt/homebrew",
    "/Library/",
    "/Applications/",
    "/OPT/",
    "/USERS/",
)
_MOUNTED = Gate(
    r"(?:^|[\s\"'(=:])/mnt/[a-z]/|microsoft-standard|/usr/lib/wsl/|\bWSL ?[12]\b",
    "/mnt/",
    "microsoft-standard",
    "/usr/lib/wsl/",
    "WSL",
)


def read_python_paths(text: str, source: Source) -> Iterator[Claim]:
    lines = lines_of(text)
    roots: dict[str, tuple[int, re.Match[str]]] = {}
    torch_at: tuple[int, str] | None = None
    for number, line in enumerate(lines):
        if "-packages" not in line:
            continue
        for found in (*_QUOTED.finditer(line), *(() if 'File "' in line else _ROOT.finditer(line))):
            root = found["root"].replace("\\\\", "\\")
            roots.setdefault(root.lower() if "\\" in root else root, (number, found))
            rest = (found["rest"] or "").replace("\\\\", "\\")
            if torch_at is None and re.match(r"torch[/\\]", rest):
                torch_at = number, root + ("\\" if "\\" in root else "/") + "torch"
    if torch_at:
        yield present("torch.location", torch_at[1], at(source, torch_at[0]))
    if roots:
        named = tuple(found["root"].replace("\\\\", "\\") for _, found in roots.values())
        yield present("text.site_packages", named, at(source, next(iter(roots.values()))[0]))
        yield present("text.site_packages_count", len({_same(one) for one in named}), source)
        yield from _environment(
            next((one for one in roots.values() if not _USER_SITE.search(one[1]["prefix"])), None), source
        )
        for number, found in roots.values():
            if _USER_SITE.search(found["prefix"]):
                yield present("text.user_site", found["root"].replace("\\\\", "\\"), at(source, number))
                break
    yield from _pythons(roots, lines, source)
    yield from _system(text, lines, source)


def _same(root: str) -> str:
    """Folders lib and lib64 of one environment are one; so are both spellings of a path of Windows."""
    return re.sub(r"[/\\]+", "/", root).lower().replace("/lib64/", "/lib/")


def _environment(first: tuple[int, re.Match[str]] | None, source: Source) -> Iterator[Claim]:
    if first is None:
        return
    number, found = first
    prefix = found["prefix"].replace("\\\\", "\\")
    here = at(source, number)
    yield present("python.prefix", prefix, here)
    if _CONDA.search(prefix):
        yield present("python.environment", "conda", here)
    elif _EMBEDDED.search(prefix):
        yield present("python.environment", "embedded", here)
    elif _VENV.search(prefix):
        yield present("python.environment", "venv", here)
    elif prefix in _SYSTEM:
        yield present("python.environment", "system", here)


def _pythons(roots: dict[str, tuple[int, re.Match[str]]], lines: list[str], source: Source) -> Iterator[Claim]:
    """Versions that paths and compiled files name. An extension for another Python than the one that runs is a find."""
    versions: dict[str, int] = {}
    for number, found in roots.values():
        python = found["python"]
        if python and "." in python:
            versions.setdefault(python, number)
        elif windows := _WINDOWS_PYTHON.search(found["root"].replace("\\\\", "\\")):
            versions.setdefault(f"{windows['major']}.{windows['minor']}", number)
    for version, number in versions.items():
        yield present("python.version", version, at(source, number))
    built: dict[str, int] = {}
    for number, line in enumerate(lines):
        if ".cp" in line:
            for found in _COMPILED_FOR.finditer(line):
                built.setdefault(f"{found[1]}.{found[2]}", number)
    if built:
        yield present("text.extension_python", tuple(built), at(source, next(iter(built.values()))))


def _system(text: str, lines: list[str], source: Source) -> Iterator[Claim]:
    if _MOUNTED.search(text):
        number = next((n for n, line in enumerate(lines) if _MOUNTED.search(line)), 0)
        yield present("os.family", "wsl", at(source, number))
        return
    for pattern, family in ((_DRIVE, "windows"), (_MAC, "macos"), (_HOME, "linux")):
        number = next((n for n, line in enumerate(lines) if pattern.search(line)), -1) if pattern.near(text) else -1
        if number >= 0:
            yield present("os.family", family, at(source, number))
            return

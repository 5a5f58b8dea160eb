"""What pip, uv and conda print while they install: what was asked for, where from, what came of it."""

import re
from collections.abc import Iterator

from ..model import Claim, Source, present
from .lines import Gate, at, lines_of
from .versions_told import torch_version

_DONE = re.compile(r"\bSuccessfully installed ((?:[\w.]+(?:-[\w.]+)*-\d[\w.+!]* ?){1,400})")
_PIECE = re.compile(r"(\S+?)-(\d[\w.+!]*)(?:\s|$)")
_UV_DONE = Gate(r"^\s*\+ ([\w.-]+)==(\S+)", "+ ")
_SATISFIED = Gate(
    r"Requirement already satisfied: torch\b(?!-)\S* in (?P<root>\S.*?)(?: \(from "
    r".*?\))? \((?P<version>\d[\w.+]*)\)\s*$",
    "already satisfied",
)
_EXISTING = Gate(r"Found existing installation: torch (\d[\w.+]*)", "existing installation")
_WHEEL = Gate(r"(?i)\btorch-(\d[\w.]*(?:(?:\+|%2B)\w[\w.]*)?)-cp(\d)(\d{1,2})-(?:cp\w+|abi3|none)-(\w+?)\.whl", ".whl")
_COMMAND = Gate(
    r"(?:^|[\s$#>&;|])(?P<tool>uv pip|uv|pip[\d.]*|conda|mamba|micromamba|pipx|poetry|"
    r"pixi)(?:\.exe)? (?:install|add|create)\b(?P<rest>.*)$",
    "install",
    "add",
    "create",
)
_INDEX = Gate(
    r"(?:--(?:extra-)?index-url|-i|--find-links|-f)[ =]+(\S+)|^\s*Looking in (?:indexes|links): (\S.*)$",
    "index",
    "-i ",
    "-f ",
    "links",
)
_WANTED = Gate(r"(?<![\w-])[\"']?(?:torch|pytorch)(?P<how>==|=|~=|>=|<=|<|>)(?P<version>\d[\w.+*]*)", "torch")
_OFFERED = Gate(r"\(from versions: ([^()]{1,6000})\)", "from versions")
_WANTED_BY_PIP = Gate(
    r"satisfies the requirement torch(?:(?:==|~=)(?P<version>\d[\w.+]*))?[ ;<>=]", "requirement torch"
)


def read_installs(text: str, source: Source) -> Iterator[Claim]:
    indexes: list[str] = []
    first = 0
    # The list of versions on offer is longer than other lines.
    lines = text.splitlines()
    short = lines_of(text)
    for number, line in enumerate(lines):
        here = at(source, number)
        if "from versions:" in line and len(line) < 8000:
            yield from _offered(line, here)
        if not short[number] and len(line) < 20000 and "Successfully installed" in line:
            yield from _done(line, here)
        if not (line := short[number]):
            continue
        if "Successfully installed" in line:
            yield from _done(line, here)
        elif found := _UV_DONE.match(line):
            if found[1].lower() == "torch":
                yield present("text.install_succeeded", True, here)
                yield from torch_version(found[2], here)
        elif found := _SATISFIED.search(line):
            yield from torch_version(found["version"], here)
            yield present("torch.location", _below(found["root"]), here)
        elif found := _EXISTING.search(line):
            yield present("install.replaces", found[1], here)
        if found := _WHEEL.search(line):
            yield present("install.torch", found[1].replace("%2B", "+").replace("%2b", "+"), here)
            yield present("install.platform", found[4], here)
            yield present("python.version", f"{found[2]}.{found[3]}", here)
        if found := _COMMAND.search(line):
            yield present("install.tool", found["tool"].split()[0].rstrip("0123456789."), here)
            if wanted := _WANTED.search(found["rest"]):
                yield present("install.wanted", wanted["version"], here)
        if "index" in line or "-i " in line or "Looking in" in line or "-f " in line or "links" in line:
            for one, several in _INDEX.findall(line):
                found_here = [part.strip().rstrip("'\"`)") for part in (one or several).split(",")]
                if any("://" in part for part in found_here):
                    first = first or number
                    indexes += [_without_password(part) for part in found_here if "://" in part]
    if indexes:
        yield present("install.indexes", tuple(dict.fromkeys(indexes)), at(source, first))


def _done(line: str, source: Source) -> Iterator[Claim]:
    found = re.search(r"Successfully installed (.*)$", line)
    for name, number in _PIECE.findall(found[1] if found else ""):
        if name.lower() == "torch":
            yield present("text.install_succeeded", True, source)
            yield from torch_version(number, source)


def _offered(line: str, source: Source) -> Iterator[Claim]:
    if "requirement torch" not in line:
        return
    if (wanted := _WANTED_BY_PIP.search(line)) and wanted["version"]:
        yield present("install.wanted", wanted["version"], source)
    if found := _OFFERED.search(line):
        versions = tuple(part.strip() for part in found[1].split(",") if part.strip())
        if versions == ("none",):
            yield present("install.offers", 0, source)
        else:
            yield present("install.offers", len(versions), source)
            yield present("install.newest_offer", versions[-1], source)
            yield present("install.oldest_offer", versions[0], source)


def _without_password(url: str) -> str:
    return re.sub(r"://[^/@\s]+@", "://", url)


def _below(root: str) -> str:
    mark = "\\" if "\\" in root else "/"
    return f"{root.rstrip(mark)}{mark}torch"

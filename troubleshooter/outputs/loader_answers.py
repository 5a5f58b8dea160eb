"""ldd, ldconfig -p and LD_DEBUG=libs: which file a library's name leads to."""

import re
from collections.abc import Iterator

from ..model import Claim, Source, present
from .lines import Gate, at, lines_of

_NEEDED = Gate(r"^\s*(?P<name>lib[\w.+-]+\.so[\w.]*) => (?P<path>not found|/\S+)(?: \(0x[0-9a-f]+\))?\s*$", "=>")
_CACHED = Gate(r"^\s*(?P<name>lib[\w.+-]+\.so[\w.]*) \((?P<kind>[^()]{1,80})\) => (?P<path>/\S+)\s*$", "=>")
_TRIED = Gate(r"^\s*\d{1,8}:\s+calling init: (?P<path>/\S+)\s*$", "calling init")
_GLIBC = Gate(r"^\s*ldd \([^()]{1,80}\) (\d\.\d+)\s*$", "ldd (")
_OF_CUDA = re.compile(r"^lib(?:cuda|cu[a-z]|nv|nccl|c10|torch)")


def read_loader_answers(text: str, source: Source) -> Iterator[Claim]:
    """Only libraries of CUDA and torch are told; one that is missing is told whatever its name."""
    missing: dict[str, int] = {}
    taken: dict[str, int] = {}
    for number, line in enumerate(lines_of(text)):
        if found := _NEEDED.match(line):
            if found["path"] == "not found":
                missing.setdefault(found["name"], number)
            elif _OF_CUDA.match(found["name"]):
                taken.setdefault(f"{found['name']} => {found['path']}", number)
        elif found := _CACHED.match(line):
            if re.fullmatch(r"libcuda\.so(?:\.\d+)?", found["name"]) and "stubs" not in found["path"]:
                yield present("driver.installed", True, at(source, number))
            if _OF_CUDA.match(found["name"]):
                taken.setdefault(f"{found['name']} => {found['path']}", number)
        elif found := _TRIED.match(line):
            name = found["path"].rsplit("/", 1)[-1]
            if _OF_CUDA.match(name):
                taken.setdefault(f"{name} => {found['path']}", number)
        elif found := _GLIBC.match(line):
            yield present("os.glibc", found[1], at(source, number))
    if missing:
        yield present("loader.not_found", tuple(missing), at(source, next(iter(missing.values()))))
    if taken:
        yield present("loader.taken", tuple(taken)[:60], at(source, next(iter(taken.values()))))

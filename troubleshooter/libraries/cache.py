"""The loader's cache, /etc/ld.so.cache: which file the system has for a library's name."""

import re
import struct
from collections.abc import Mapping, Sequence

Cache = Mapping[str, Sequence[str]]
"""By name, the paths in the order in which the loader tries them."""

_OLD, _NEW = b"ld.so-1.7.0\0", b"glibc-ld.so.cache1.1"
_HEADER, _ENTRY = 48, 24
_MOST = 100_000


def read_cache(data: bytes) -> Cache | None:
    """The file's own format, also where it follows the one of the nineties; None for what is neither."""
    start = 0
    if data.startswith(_OLD):
        start = (16 + 12 * int.from_bytes(data[12:16], "little") + 7) & ~7
    if data[start : start + len(_NEW)] != _NEW or len(data) < start + _HEADER:
        return None
    # The byte order is noted since glibc 2.32 only; a count that is too large for the file gives a foreign one away.
    for order in "<>":
        (count,) = struct.unpack_from(f"{order}I", data, start + 20)
        if start + _HEADER + count * _ENTRY <= len(data):
            return _entries(data, start, order, min(count, _MOST))
    return None


def _entries(data: bytes, start: int, order: str, count: int) -> Cache:
    found: dict[str, list[str]] = {}
    for index in range(count):
        _, name, path, _, capabilities = struct.unpack_from(f"{order}iIIIQ", data, start + _HEADER + index * _ENTRY)
        # Entries for particular processors lead to other builds of the same version; the plain one stands for them.
        if capabilities == 0:
            found.setdefault(_text(data, start + name), []).append(_text(data, start + path))
    return found


def _text(data: bytes, start: int) -> str:
    end = data.find(b"\0", start, start + 4096)
    return data[start : end if end >= 0 else start].decode("utf-8", "replace")


def read_ldconfig(text: str) -> Cache:
    """The same out of what `ldconfig -p` prints."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        told = re.match(r"\s+(\S+) \(([^)]*)\) => (/.*\S)\s*$", line)
        if told and "hwcap" not in told[2]:
            found.setdefault(told[1], []).append(told[3])
    return found

"""ELF headers. pyelftools reads the file's header, its segments and the dynamic table; the tables of versions and
symbols are unpacked here by their addresses, which takes a hundredth of the time and needs no section headers.
"""

import io
import mmap
import struct
from collections.abc import Iterator
from typing import IO, Any, NamedTuple, cast

from . import Library, Symbols, Wanted
from .reading import Unsound

_MOST_SEGMENTS = 256
_MOST_ENTRIES = 4096
"""Of the dynamic table and of the tables of versions; a large library has a few dozen."""
_MOST_SYMBOLS = 2_000_000
_LONGEST_NAME = 4096
_WEAK, _GLOBAL, _UNIQUE = 2, 1, 10
_VERSION_WEAK, _VERSION_BASE = 2, 1


class _Image(NamedTuple):
    """The parts of an ELF file that a loader maps."""

    data: mmap.mmap
    order: str
    """`<` or `>` for `struct`."""
    bits: int
    machine: str
    segments: tuple[tuple[int, int, int], ...]
    """(address, offset in the file, length in the file) of what is mapped."""
    table: tuple[tuple[str, int], ...]
    """The dynamic table: (tag, value)."""

    def value(self, tag: str) -> int | None:
        return next((value for name, value in self.table if name == tag), None)

    def offset(self, address: int) -> int:
        for start, offset, length in self.segments:
            if start <= address < start + length:
                return address - start + offset
        raise Unsound("a table lies outside the file")

    def unpack(self, layout: str, offset: int) -> tuple[Any, ...]:
        return struct.unpack_from(self.order + layout, self.data, offset)

    def text(self, offset: int) -> str:
        """The name at an offset into the table of strings."""
        base = self.value("DT_STRTAB")
        if base is None:
            raise Unsound("it has no table of strings")
        start = self.offset(base) + offset
        end = self.data.find(b"\0", start, start + _LONGEST_NAME)
        if end < 0:
            raise Unsound("a name has no end")
        return self.data[start:end].decode("utf-8", "replace")


def headers(path: str, data: mmap.mmap) -> Library:
    """Raises Unsound, struct.error or an error of pyelftools for a file that is broken."""
    image = _image(data)
    named: dict[str, list[str]] = {}
    for tag, value in image.table:
        if tag in ("DT_NEEDED", "DT_SONAME", "DT_RPATH", "DT_RUNPATH"):
            named.setdefault(tag, []).append(image.text(value))
    return Library(
        path,
        "ok",
        format="elf",
        machine=image.machine,
        bits=image.bits,
        soname=next(iter(named.get("DT_SONAME", ())), ""),
        needed=tuple(named.get("DT_NEEDED", ())),
        rpath=_folders(named.get("DT_RPATH", ())),
        runpath=_folders(named.get("DT_RUNPATH", ())),
        needs_versions=tuple(
            (file, version) for file, version, _, flags in _needed_versions(image) if not flags & _VERSION_WEAK
        ),
        has_versions=tuple(version for version, _, flags in _own_versions(image) if not flags & _VERSION_BASE),
    )


def symbols(path: str, data: mmap.mmap) -> Symbols:
    """Raises as `headers` does."""
    image = _image(data)
    table, strings = image.value("DT_SYMTAB"), image.value("DT_STRTAB")
    if table is None or strings is None:
        return Symbols(path, "ok")
    at, names_at = image.offset(table), image.offset(strings)
    count = _symbol_count(image, at, names_at)
    names = data[names_at : names_at + (image.value("DT_STRSZ") or 0)]
    layout = struct.Struct(image.order + ("IBBHQQ" if image.bits == 64 else "IIIBBH"))
    raw = data[at : at + count * layout.size]
    raw = raw[: len(raw) // layout.size * layout.size]
    needed = {index: (file, version) for file, version, index, _ in _needed_versions(image)}
    own = {index: version for version, index, _ in _own_versions(image)}
    indexes = _version_indexes(image, count)
    wanted: list[Wanted] = []
    defined: set[str] = set()
    for number, entry in enumerate(layout.iter_unpack(raw)):
        start = entry[0]
        info, section = (entry[1], entry[3]) if image.bits == 64 else (entry[3], entry[5])
        binding = info >> 4
        if not start or binding not in (_GLOBAL, _WEAK, _UNIQUE) or names[start : start + 2] == b"_Z":
            continue
        name = names[start : names.find(b"\0", start)].decode("utf-8", "replace")
        index = indexes[number] & 0x7FFF if number < len(indexes) else 0
        if section == 0:
            if binding != _WEAK:
                file, version = needed.get(index, ("", ""))
                wanted.append(Wanted(name, version, file))
        else:
            defined.add(name)
            if index in own:
                defined.add(f"{name}@{own[index]}")
    return Symbols(path, "ok", wanted=tuple(wanted), defined=frozenset(defined))


def _image(data: mmap.mmap) -> _Image:
    from elftools.elf.elffile import ELFFile

    file = ELFFile(cast("IO[bytes]", _Mapped(data)))
    header = file.header
    if header["e_phnum"] > _MOST_SEGMENTS:
        raise Unsound("it names too many segments")
    segments, dynamic = [], None
    for index in range(header["e_phnum"]):
        file.stream.seek(header["e_phoff"] + index * header["e_phentsize"])
        segment = file.structs.Elf_Phdr.parse_stream(file.stream)
        if segment["p_type"] == "PT_LOAD":
            segments.append((segment["p_vaddr"], segment["p_offset"], segment["p_filesz"]))
            if segment["p_offset"] + segment["p_filesz"] > len(data):
                raise Unsound("the file is cut short")
        elif segment["p_type"] == "PT_DYNAMIC":
            dynamic = segment
    table = tuple(_dynamic_table(file, dynamic)) if dynamic is not None else ()
    order = "<" if file.little_endian else ">"
    return _Image(data, order, file.elfclass, str(header["e_machine"]), tuple(segments), table)


def _dynamic_table(file: Any, segment: Any) -> Iterator[tuple[str, int]]:
    entry = file.structs.Elf_Dyn
    for index in range(min(segment["p_filesz"] // entry.sizeof(), _MOST_ENTRIES)):
        file.stream.seek(segment["p_offset"] + index * entry.sizeof())
        read = entry.parse_stream(file.stream)
        if read["d_tag"] == "DT_NULL":
            return
        yield str(read["d_tag"]), int(read["d_val"])


class _Mapped(io.RawIOBase):
    """The mapped file as the stream that pyelftools wants, with a place of its own."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = max(0, offset + (0, self._at, len(self._data))[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = len(self._data) if size is None or size < 0 else self._at + size
        part = self._data[self._at : end]
        self._at += len(part)
        return part

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _folders(texts: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(folder for text in texts for folder in text.split(":") if folder)


def _needed_versions(image: _Image) -> Iterator[tuple[str, str, int, int]]:
    """(file, version, index in the table of symbols' versions, flags)."""
    start, count = image.value("DT_VERNEED"), image.value("DT_VERNEEDNUM")
    if start is None or count is None:
        return
    at, left = image.offset(start), _MOST_ENTRIES
    for _ in range(min(count, _MOST_ENTRIES)):
        _, versions, file, first, following = image.unpack("HHIII", at)
        name, entry = image.text(file), at + first
        for _ in range(versions):
            left -= 1
            if left < 0:
                raise Unsound("it names too many versions")
            _, flags, index, text, following_version = image.unpack("IHHII", entry)
            yield name, image.text(text), index & 0x7FFF, flags
            if not following_version:
                break
            entry += following_version
        if not following:
            return
        at += following


def _own_versions(image: _Image) -> Iterator[tuple[str, int, int]]:
    """(version, index, flags); one of them is the library's own name, marked as base."""
    start, count = image.value("DT_VERDEF"), image.value("DT_VERDEFNUM")
    if start is None or count is None:
        return
    at = image.offset(start)
    for _ in range(min(count, _MOST_ENTRIES)):
        _, flags, index, _, _, first, following = image.unpack("HHHHIII", at)
        text, _ = image.unpack("II", at + first)
        yield image.text(text), index & 0x7FFF, flags
        if not following:
            return
        at += following


def _version_indexes(image: _Image, count: int) -> tuple[int, ...]:
    start = image.value("DT_VERSYM")
    if start is None:
        return ()
    return image.unpack(f"{count}H", image.offset(start))


def _symbol_count(image: _Image, at: int, names_at: int) -> int:
    """From the table of hashes, which is the only one that tells; else up to the strings, which follow as a rule."""
    size = 24 if image.bits == 64 else 16
    if (start := image.value("DT_HASH")) is not None:
        return min(int(image.unpack("II", image.offset(start))[1]), _MOST_SYMBOLS)
    if (start := image.value("DT_GNU_HASH")) is not None:
        return _count_of_gnu_hash(image, image.offset(start))
    return min(max(0, names_at - at) // size, _MOST_SYMBOLS)


def _count_of_gnu_hash(image: _Image, at: int) -> int:
    buckets, first, bloom, _ = image.unpack("IIII", at)
    if buckets > _MOST_SYMBOLS or bloom > _MOST_SYMBOLS:
        raise Unsound("its table of hashes is too large")
    at += 16 + bloom * image.bits // 8
    last = max(image.unpack(f"{buckets}I", at), default=0)
    if last < first:
        return int(first)
    chains = at + buckets * 4
    while last - first < _MOST_SYMBOLS:
        last += 1
        if image.unpack("I", chains + (last - 1 - first) * 4)[0] & 1:
            return int(last)
    raise Unsound("its table of hashes has no end")

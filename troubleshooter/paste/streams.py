"""Files, archives and compressed files as streams of bytes, with limits on what they may grow to.

Nothing is unpacked to disk and nothing is held but one block: an archive of 42 kB may hold petabytes.
"""

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from typing import Any, NamedTuple

from ..model import Readable

Chunks = Iterator[bytes]


BLOCK = 256 * 1024
_LARGEST_GROWN = 8 << 30
"""Bytes that one compressed file may grow to."""
_RATIO = 400
_RATIO_FROM = 64 << 20
"""From this size on, a file that grows more than `_RATIO` times is taken for a bomb: logs grow 5 to 50 times."""
_MOST_MEMBERS = 1000
_DEEPEST = 3
_LARGEST_HELD = 256 << 20
"""Bytes of a zip that comes through a pipe: its list of contents stands at its end, so it has to be held."""


class Member(NamedTuple):
    """One text: its name (`bundle.tar/logs/rank0.log`) and its bytes."""

    name: str
    chunks: Chunks


def members(
    name: str, data: bytes | Readable, remark: Callable[[str], None], deepest: int = _DEEPEST
) -> Iterator[Member]:
    """The texts in a file, unpacked as they are read; what could not be unpacked is told to `remark`.

    Each member has to be read before the next is asked for. Raises OSError where the file itself cannot be read.
    """
    stream = BytesIO(data) if isinstance(data, bytes) else data
    head = _read(stream, BLOCK)
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06") and deepest:
        yield from _zip(name, head, stream, remark, deepest)
        return
    opener = _OPENERS.get(head[:2]) or (_unzstd if head[:4] == b"\x28\xb5\x2f\xfd" else None)
    whole = _chain(head, stream)
    if opener and deepest:
        plain = _limited(name, opener(whole, name, remark), _size_of(stream, head), remark)
        yield from members(name, _Reader(plain), remark, deepest - 1)
    elif head[257:262] == b"ustar" and deepest:
        yield from _tar(name, _Reader(whole), remark, deepest)
    else:
        yield Member(name, whole)


def joined(head: bytes, stream: Readable) -> "Readable":
    """What was read of a stream and the rest of it, to be read as one."""
    return _Reader(_chain(head, stream))


def size_of(data: bytes | Readable) -> int:
    """Bytes of a text, 0 where a pipe does not tell."""
    return len(data) if isinstance(data, bytes) else _size_of(data, b"")


def _size_of(stream: Readable, head: bytes) -> int:
    """Bytes of the file, or those read so far where a pipe does not tell."""
    seek, tell = getattr(stream, "seek", None), getattr(stream, "tell", None)
    if seek is None or tell is None:
        return len(head)
    try:
        place = tell()
        seek(0, 2)
        end = int(tell())
        seek(place)
    except (OSError, ValueError, AttributeError):  # a member of a streamed tar has a seek that fails in its own way
        return len(head)
    return end


def _read(stream: Readable, size: int) -> bytes:
    """`size` bytes, fewer only at the end: a pipe gives what it has."""
    parts: list[bytes] = []
    while size > 0 and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _chain(head: bytes, stream: Readable) -> Chunks:
    if head:
        yield head
    while block := stream.read(BLOCK):
        yield block


class _Reader:
    """Chunks as a file that can only be read on."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self._held = b""

    def read(self, size: int = -1) -> bytes:
        parts = [self._held]
        have = len(self._held)
        while size < 0 or have < size:
            block = next(self._chunks, b"")
            if not block:
                break
            parts.append(block)
            have += len(block)
        whole = b"".join(parts)
        if size < 0:
            size = len(whole)
        self._held = whole[size:]
        return whole[:size]


def _limited(name: str, chunks: Chunks, packed: int, remark: Callable[[str], None]) -> Chunks:
    grown = 0
    for chunk in chunks:
        grown += len(chunk)
        if grown > _LARGEST_GROWN or (grown > _RATIO_FROM and grown > _RATIO * max(packed, 1)):
            remark(f"{name} grows to more than {grown >> 20} MiB when unpacked: the rest is not read")
            return
        yield chunk


def _gunzip(chunks: Chunks, name: str, remark: Callable[[str], None]) -> Chunks:
    """All gzip streams of a file, one after the other; what follows a damaged place is lost."""
    import zlib

    unpacker = zlib.decompressobj(31)
    begun = False
    for block in chunks:
        rest = block
        while rest:
            try:
                if out := unpacker.decompress(rest, BLOCK):
                    begun = True
                    yield out
            except zlib.error as error:
                if begun or unpacker.unused_data:
                    remark(f"{name} is damaged: {error}")
                else:
                    remark(f"{name} is no gzip file: {error}")
                return
            rest = unpacker.unconsumed_tail
            if unpacker.eof:
                rest = unpacker.unused_data.lstrip(b"\0")
                unpacker = zlib.decompressobj(31)
    while begun and not unpacker.eof and (out := unpacker.decompress(unpacker.unconsumed_tail, BLOCK)):
        yield out


def _unpacking(module: str, make: str) -> Callable[[Chunks, str, Callable[[str], None]], Chunks]:
    """bz2 and xz of the standard library; a Python may be built without them."""

    def unpack(chunks: Chunks, name: str, remark: Callable[[str], None]) -> Chunks:
        import importlib

        try:
            unpacker = getattr(importlib.import_module(module), make)()
            for block in chunks:
                rest = block
                while not unpacker.eof and (rest or not unpacker.needs_input):
                    yield unpacker.decompress(rest, BLOCK)
                    rest = b""
        except (ImportError, OSError, EOFError, ValueError, RuntimeError) as error:
            remark(f"{name} cannot be unpacked: {error}")
        except Exception as error:  # lzma.LZMAError derives from Exception alone
            remark(f"{name} is damaged: {error}")

    return unpack


def _unzstd(chunks: Chunks, name: str, remark: Callable[[str], None]) -> Chunks:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]

    except ImportError:
        pass
    else:
        yield from _unpacking(zstd.__name__, "ZstdDecompressor")(chunks, name, remark)
        return
    try:
        import zstandard
    except ImportError:
        remark(f"{name} is compressed with zstd: install gpu-troubleshooter[zstd], or unpack it first")
        return
    try:
        yield from zstandard.ZstdDecompressor(max_window_size=1 << 27).read_to_iter(_Reader(chunks))
    except zstandard.ZstdError as error:
        remark(f"{name} is damaged: {error}")


_OPENERS: dict[bytes, Callable[[Chunks, str, Callable[[str], None]], Chunks]] = {
    b"\x1f\x8b": _gunzip,
    b"BZ": _unpacking("bz2", "BZ2Decompressor"),
    b"\xfd7": _unpacking("lzma", "LZMADecompressor"),
}


def _tar(name: str, reader: Any, remark: Callable[[str], None], deepest: int) -> Iterator[Member]:
    import tarfile
    import zlib

    try:
        with tarfile.open(fileobj=reader, mode="r|", bufsize=BLOCK) as archive:
            for number, entry in enumerate(archive):
                if number >= _MOST_MEMBERS:
                    remark(f"{name} holds more than {_MOST_MEMBERS} files: the rest is not read")
                    return
                file = archive.extractfile(entry) if entry.isreg() else None
                if file is not None:
                    yield from members(f"{name}/{entry.name}", file, remark, deepest - 1)
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, OverflowError) as error:
        remark(f"{name} is damaged: {error}")


def _zip(name: str, head: bytes, stream: Readable, remark: Callable[[str], None], deepest: int) -> Iterator[Member]:
    import zipfile
    import zlib

    file: Any = stream
    try:
        file.seek(0)
    except (OSError, ValueError, AttributeError):
        file = BytesIO(head + _read(stream, _LARGEST_HELD))
    try:
        with zipfile.ZipFile(file) as archive:
            entries: Iterable[zipfile.ZipInfo] = archive.infolist()
            for number, entry in enumerate(entries):
                if number >= _MOST_MEMBERS:
                    remark(f"{name} holds more than {_MOST_MEMBERS} files: the rest is not read")
                    return
                if entry.is_dir():
                    continue
                if entry.flag_bits & 1:
                    remark(f"{name}/{entry.filename} is encrypted")
                    continue
                inner = f"{name}/{entry.filename}"
                with archive.open(entry) as opened:
                    plain = _limited(inner, _chain(b"", opened), entry.compress_size, remark)
                    yield from members(inner, _Reader(plain), remark, deepest - 1)
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error, ValueError, NotImplementedError, RuntimeError) as error:
        remark(f"{name} is damaged: {error}")

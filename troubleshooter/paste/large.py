"""Large texts are read whole at their beginning, at their end and around what matters, line by line where a signature
can match, and not at all elsewhere. What is read does not depend on the engine that rejects the rest.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from ..literals import Signatures
from ..model import Signature, Source
from ..portable import relaxed
from ..text import clean
from .cleaning import cleaned, retyped
from .decoding import OVERLAP, PIECE, Fallback, cut, mended, wide_encoding
from .known import LANDMARKS
from .scan import Scanner, has_needs
from .sieve import Sieve

LARGE = 4 << 20
"""Bytes from which on a text is large."""
BLOCK = 256 * 1024
"""As much as stays in a processor's cache."""
_LONGEST_LINE = 64 * 1024
_BEFORE, _AFTER = 8, 60
"""Lines around a hit that are read whole."""
_TABLE = 400
"""Lines of a known output that are read whole."""
_READ_AROUND = 2
"""Hits of one signature around which the text is read whole."""
_OFTEN = 8
"""Places at which a known output, or what may be a message of several lines, is read."""
_LOOK_AGAIN = 16
"""Blocks after which the sieve is made anew, if there is less to search for."""

Read = Callable[[list[tuple[int, str]]], None]


class Block(NamedTuple):
    number: int
    """Of its first line."""
    data: bytes
    """UTF-8."""
    one_line: bool
    """Whether its lines are overlapping pieces of a single one."""


def sieve_literals(signatures: Sequence[Signature]) -> list[tuple[str, ...]]:
    """What must stand in one line for a signature, and for each known output behind them."""
    return [*(_words(one) if one.lines > 1 else one.literals for one in signatures), *((one,) for one in LANDMARKS)]


def sieve_patterns(signatures: Sequence[Signature]) -> list[str]:
    """The same as patterns over bytes."""
    ready = signatures.relaxed() if isinstance(signatures, Signatures) else [relaxed(one.pattern) for one in signatures]
    patterns = [
        _any_of(_words(one)) if one.lines > 1 else pattern for one, pattern in zip(signatures, ready, strict=True)
    ]
    return patterns + [_any_of((one,)) for one in LANDMARKS]


def _words(signature: Signature) -> tuple[str, ...]:
    """A literal of a message of several lines may be broken at any of its blanks."""
    return tuple(dict.fromkeys(max(literal.split(), key=len) for literal in signature.literals))


def _any_of(texts: Iterable[str]) -> str:
    return f"(?i:{'|'.join(relaxed(re.escape(text)) for text in texts)})"


def read_large(
    chunks: Iterable[bytes],
    source: Source,
    scanner: Scanner,
    read: Read,
    sieve: Sieve,
    *,
    begins: bool = True,
    ends: bool = True,
) -> int:
    """How many line ends there are. `read` is given lines that are to be read whole; all other hits go to the scanner.
    `begins`, `ends`: whether the text does with these chunks, or they are out of its middle.
    """
    reader = _Reader(source, scanner, read)
    waiting: tuple[Block, Iterable[int]] | None = None
    block: Block | None = None
    for block, found in _sieved(_blocks(chunks), sieve, scanner.full):
        if begins:
            reader.take_whole(block)
            begins = False
            continue
        if waiting is not None:
            reader.take(*waiting)
        waiting = block, found
    if waiting is not None and ends:
        reader.take_whole(waiting[0])
    elif waiting is not None:
        reader.take(*waiting)
    reader.close()
    if block is None:
        return 0
    return block.number - 1 + (0 if block.one_line else block.data.count(b"\n"))


def _sieved(
    blocks: Iterator[Block], sieve: Sieve, full: Callable[[], Collection[int]]
) -> Iterator[tuple[Block, Iterable[int]]]:
    """With what may match in each. What is `full` and everywhere in this log is not searched for any more."""
    present = sieve.present
    left_out = 0
    for count, block in enumerate(blocks):
        if count % _LOOK_AGAIN == 0 and len(found := full()) > left_out:
            left_out = len(found)
            present = sieve.without(frozenset(found)) or present
        yield block, present(plain(block.data))


class _Reader:
    def __init__(self, source: Source, scanner: Scanner, read: Read) -> None:
        self._source = source
        self._scanner = scanner
        self._read = read
        self._signatures = scanner.signatures
        self._literals = sieve_literals(scanner.signatures)
        self._places: dict[int, int] = {}
        self._region: list[tuple[int, bytes]] = []
        self._wanted = 0
        """Lines of the next block that belong to the region."""

    def take_whole(self, block: Block) -> None:
        lines = _lines(block.data)
        for at in range(0, len(lines), 2000):
            self._region += _numbered(block, lines, at, at + 2000)
        self._wanted = 0
        self.close()

    def close(self) -> None:
        """Read the region that is open."""
        region, self._region = self._region, []
        if region:
            self._read([(number, piece) for number, line in region for piece in cut(line.decode("utf-8", "replace"))])

    def take(self, block: Block, present: Iterable[int]) -> None:
        wanted = sorted(one for one in present if not self._is_done(one))
        if not wanted and not self._wanted:
            return
        lines = _lines(block.data)
        begin = 0
        if self._wanted:
            begin = min(self._wanted, len(lines))
            self._region += _numbered(block, lines, 0, begin)
            self._wanted -= begin
            if self._wanted:
                return
            self.close()
        for index, positions in self._candidates(block, wanted, begin):
            if index < begin:
                continue
            hits = self._hits(block, lines, index, positions)
            after = 0
            for position in hits:
                self._places[position] = self._places.get(position, 0) + 1
                after = max(after, _TABLE if position >= len(self._signatures) else _AFTER)
            if after:
                start, end = max(begin, index - _BEFORE), index + after + 1
                self._region += _numbered(block, lines, start, end)
                begin = end
                if end > len(lines):
                    self._wanted = end - len(lines)
                    return
                self.close()
            else:
                begin = index + 1

    def _is_done(self, position: int) -> bool:
        if self._is_line(position):
            return self._scanner.is_full(position)
        return self._places.get(position, 0) >= _OFTEN

    def _is_line(self, position: int) -> bool:
        return position < len(self._signatures) and self._signatures[position].lines == 1

    def _candidates(self, block: Block, wanted: Sequence[int], begin: int) -> list[tuple[int, list[int]]]:
        """Lines that hold a literal of a signature, in order."""
        low = plain(block.data).decode("utf-8", "replace").lower()
        starts: list[int] = []
        found: dict[int, list[int]] = {}
        for position in wanted:
            if self._is_line(position) and not has_needs(self._signatures[position].needs, low):
                continue
            for literal in self._literals[position]:
                place = low.find(literal)
                if place >= 0 and not starts:
                    starts = [0, *(match.end() for match in re.finditer("\n", low))]
                while place >= 0:
                    index = bisect_right(starts, place) - 1
                    if index >= begin and position not in (known := found.setdefault(index, [])):
                        known.append(position)
                    place = low.find(literal, starts[index + 1]) if index + 1 < len(starts) else -1
        return sorted(found.items())

    def _hits(self, block: Block, lines: list[bytes], index: int, positions: list[int]) -> list[int]:
        """Those around which the text is to be read whole; the others are counted here."""
        around = [one for one in positions if not self._is_line(one) and not self._is_done(one)]
        ((number, line),) = _numbered(block, lines, index, index + 1)
        counted: list[tuple[int, str, re.Match[str]]] = []
        seen: set[int] = set()
        for part in cleaned((number, piece) for piece in cut(line.decode("utf-8", "replace"))):
            low = part.text.lower()
            typed = retyped(part.text)
            for position in positions:
                if position in seen or not self._is_line(position) or self._scanner.is_full(position):
                    continue
                for text in (part.text,) if typed == part.text else (part.text, typed):
                    lowered = low if text is part.text else text.lower()
                    if match := self._scanner.match(position, text, lowered):
                        seen.add(position)
                        counted.append((position, text, match))
                        break
        around += [one for one in seen if self._places.get(one, 0) < _READ_AROUND]
        if not around:
            for position, text, match in counted:
                self._scanner.count(self._source, position, number, text, match)
        return around


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _numbered(block: Block, lines: list[bytes], start: int, end: int) -> list[tuple[int, bytes]]:
    if block.one_line:
        return [(block.number, line) for line in lines[start:end]]
    return list(enumerate(lines[start:end], block.number + start))


def _blocks(chunks: Iterable[bytes]) -> Iterator[Block]:
    """Whole lines, and pieces of a line that is too long to be held."""
    chunks = iter(chunks)
    head = next(chunks, b"")
    fallback = Fallback()
    number, rest, is_long = 1, b"", False
    for chunk in _as_utf8(head, chunks):
        data = rest + chunk
        if is_long:
            end = data.find(b"\n")
            if end < 0:
                rest = data
                if len(data) >= BLOCK:
                    yield _pieces(number, data)
                    rest = data[-OVERLAP:]
                continue
            yield _pieces(number, data[:end])
            number += 1
            data, is_long = data[end + 1 :], False
        if len(data) < BLOCK:
            rest = data
            continue
        cut_at = data.rfind(b"\n") + 1
        if cut_at:
            yield Block(number, _valid(data[:cut_at], fallback), False)
            number += data.count(b"\n", 0, cut_at)
        rest = data[cut_at:]
        is_long = len(rest) > _LONGEST_LINE
    if rest:
        yield _pieces(number, rest) if is_long else Block(number, _valid(rest, fallback), False)


def _as_utf8(head: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    wide = wide_encoding(head)
    if not wide:
        yield head
        yield from chunks
        return
    import codecs

    decoder = codecs.getincrementaldecoder(wide)("replace")
    yield decoder.decode(head).removeprefix("\ufeff").encode("utf-8", "replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _pieces(number: int, data: bytes) -> Block:
    pieces = [
        data[start : start + PIECE].decode("utf-8", "replace").encode()
        for start in range(0, max(1, len(data) - OVERLAP), PIECE - OVERLAP)
    ]
    return Block(number, b"\n".join(pieces), True)


def _valid(data: bytes, fallback: Fallback) -> bytes:
    if data.isascii() or fallback.is_utf8(data):
        return data
    lines = data.split(b"\n")
    fallback.learn(lines)
    return b"\n".join(
        line if line.isascii() or fallback.is_utf8(line) else fallback.decode(line).encode("utf-8", "replace")
        for line in lines
    )


_SEQUENCE = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_ASCII = bytes(range(0x80))
_BARS = b"\xe2" + bytes(range(0x80, 0xC0))
"""Of characters of progress bars and frames; what else is not ASCII may have to be mended."""
_SUSPECT = re.compile(rb"[\x08\x1b]|&[A-Za-z#]|\xe2\x80|\xe2\x88\x92|[\xc2-\xdf\xe3-\xf4]")


def plain(data: bytes) -> bytes:
    """UTF-8 without what may hide a match; as many line ends as before."""
    if b"\x1b" in data:
        data = _SEQUENCE.sub(b"", data)
    if b"\0" in data:
        data = data.replace(b"\0", b"")
    if not (b"&" in data or b"\x08" in data or b"\x1b" in data):
        if data.isascii():
            return data
        foreign = data.translate(None, _ASCII)
        if not (foreign.translate(None, _BARS) or b"\xe2\x80" in foreign or b"\xe2\x88\x92" in foreign):
            return data
    return b"\n".join(_plain_line(line) if _SUSPECT.search(line) else line for line in data.split(b"\n"))


def _plain_line(line: bytes) -> bytes:
    """As printed and as typed, in one line: a signature may be about the typographic quotes themselves."""
    shown = clean(mended(line.decode("utf-8", "replace"))).replace("\n", "\r")
    typed = retyped(shown)
    return (shown if typed == shown else f"{shown}\r{typed}").encode("utf-8", "replace")

"""Bytes to numbered lines: the encoding is guessed from the bytes alone, never from this machine's locale.

A line that is not UTF-8 is decoded by the guess; the others are left as they are, since a log is often written by
several programs. Lines of absurd length are given in pieces that overlap and share a number, so that a gigabyte
without a line end is read as quickly, and in as little memory, as any other.
"""

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

PIECE = 4096
OVERLAP = 1024
_SAMPLE = 64 * 1024

ENCODINGS = ("gb18030", "big5", "cp932", "cp949", "cp1251", "cp866", "cp1252", "cp850")


def numbered_lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """(number from 1, text without its line end). Lines end at a newline only; a carriage return stays in them."""
    chunks = iter(chunks)
    head = next(chunks, b"")
    wide = wide_encoding(head)
    blocks = _chain(head, chunks)
    if wide:
        yield from _pieces_of_text(blocks, wide)
    else:
        yield from _pieces_of_bytes(blocks)


def decode_all(data: bytes) -> str:
    """A whole text, with its line ends as they are."""
    lines: list[str] = []
    last = 0
    for number, piece in numbered_lines([data]):
        if number == last:
            lines[-1] += piece[OVERLAP:]
        else:
            lines.append(piece)
        last = number
    return "\n".join(lines)


def wide_encoding(head: bytes) -> str:
    """UTF-16 or UTF-32 by a mark, or by where its zero bytes stand; empty for all else."""
    for mark, name in (
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if head.startswith(mark):
            return name
    sample = head[:4096]
    # A text with some letters of ASCII has a zero in every second place for each of them, and on one side only.
    if len(sample) < 8 or b"\0" not in sample:
        return ""
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    half = len(sample) // 2
    if odd >= 0.3 * half and even <= 0.02 * half:
        return "utf-16-le"
    if even >= 0.3 * half and odd <= 0.02 * half:
        return "utf-16-be"
    return ""


def _chain(head: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    if head:
        yield head
    yield from chunks


def _pieces_of_text(blocks: Iterable[bytes], encoding: str) -> Iterator[tuple[int, str]]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    number, rest = 1, ""
    for block in blocks:
        *done, rest = (rest + decoder.decode(block)).split("\n")
        for line in done:
            for piece in cut(line):
                yield number, piece
            number += 1
        while len(rest) > PIECE:
            yield number, rest[:PIECE]
            rest = rest[PIECE - OVERLAP :]
    if rest := rest + decoder.decode(b"", final=True):
        for piece in cut(rest):
            yield number, piece


def cut(line: str) -> Iterator[str]:
    line = line.removeprefix("\ufeff")
    if len(line) <= PIECE:
        yield line
        return
    for start in range(0, max(1, len(line) - OVERLAP), PIECE - OVERLAP):
        yield line[start : start + PIECE]


def _pieces_of_bytes(blocks: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    fallback = Fallback()
    number, rest = 1, b""
    for block in blocks:
        # No byte of a character in these encodings is a newline, so bytes can be split before they are decoded.
        *done, rest = (rest + block).split(b"\n")
        fallback.learn(done or [rest])
        for line in done:
            text = _utf8(line)
            for piece in cut(fallback.decode(line) if text is None else text):
                yield number, piece
            number += 1
        if len(rest) > 4 * PIECE:
            # Characters cut apart here are whole in the neighbouring piece, because pieces overlap.
            for start in range(0, len(rest) - OVERLAP, PIECE - OVERLAP):
                yield number, _utf8_or_replaced(rest[start : start + PIECE])
            rest = rest[-OVERLAP:]
    if rest:
        fallback.learn([rest])
        text = _utf8(rest)
        for piece in cut(fallback.decode(rest) if text is None else text):
            yield number, piece


def _utf8(line: bytes) -> str | None:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _utf8_or_replaced(piece: bytes) -> str:
    return piece.decode("utf-8", "replace")


class Fallback:
    """The encoding of the lines that are not UTF-8, guessed from the first of them."""

    def __init__(self) -> None:
        self._sample: list[bytes] = []
        self._size = 0
        self._encoding = ""

    @staticmethod
    def is_utf8(line: bytes) -> bool:
        return _utf8(line) is not None

    def learn(self, lines: Sequence[bytes]) -> None:
        if self._size >= _SAMPLE:
            return
        for line in lines:
            if not line.isascii() and _utf8(line) is None:
                self._sample.append(line[:PIECE])
                self._size += len(self._sample[-1])
                self._encoding = ""
                if self._size >= _SAMPLE:
                    return

    def decode(self, line: bytes) -> str:
        if not self._encoding:
            self._encoding = guess_encoding(self._sample or [line])
        text = line.decode(self._encoding, "replace")
        if "\ufffd" in text:
            # Several programs, several encodings: this line has its own, if one of them reads all of it.
            text = line.decode(guess_encoding([line]), "replace")
        if text.count("\ufffd") > len(text) // 8:
            text = line.decode("utf-8", "replace")
        return text


def guess_encoding(lines: Sequence[bytes]) -> str:
    """The encoding in which these bytes look most like words that people write."""
    runs = tuple(run for line in lines for run in re.findall(_FOREIGN, line))[:400]
    return _guess(runs)


# A byte outside ASCII and its neighbours: the second byte of a character may be an ASCII letter.
_FOREIGN = rb"[A-Za-z ]?[\x80-\xff](?:[\x40-\x7e\x80-\xff]|[\x30-\x39](?=[\x80-\xff]))*"


@lru_cache(maxsize=64)
def _guess(runs: tuple[bytes, ...]) -> str:
    from .letters import score

    best, most = "utf-8", 0.0
    for encoding in ENCODINGS:
        total = 0.0
        for run in runs:
            text = run.decode(encoding, "replace")
            total += score(text, encoding) - 4 * text.count("\ufffd")
        if total > most:
            best, most = encoding, total
    return best


# --- text that was decoded wrongly before it came to us ---------------------------------------------

_WRONG_LATIN = r"[\x80-\xff\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u203a\u20ac\u2122]{2,}"
_WRONG_CHINESE = r"[\u4e00-\u9fff\u3400-\u4dbf\ue000-\uf8ff\u2010-\u2260\u3000-\u33ff\uff00-\uffef\xa0-\xff\u20ac]{3,}"


def mended(text: str) -> str:
    """The text with mojibake undone where the result proves it: bytes that come out as valid UTF-8 are no accident,
    nor are Latin letters that come out as everyday Chinese.
    """
    if text.isascii():
        return text
    text = re.sub(_WRONG_LATIN, _from_latin, text)
    return re.sub(_WRONG_CHINESE, _from_chinese, text)


def _from_latin(found: re.Match[str]) -> str:
    try:
        data = b"".join(one.encode("cp1252") if ord(one) > 0xFF else one.encode("latin-1") for one in found[0])
    except UnicodeEncodeError:
        return found[0]
    text = _utf8(data)
    if text is not None:
        return text
    if len(data) >= 6 and not data.isascii():
        from .letters import score

        for encoding in ("gb18030", "cp1251"):
            try:
                text = data.decode(encoding)
            except UnicodeDecodeError:
                continue
            if score(text, encoding) >= 1.2 * len(data):
                return text
    return found[0]


def _from_chinese(found: re.Match[str]) -> str:
    try:
        text = found[0].encode("gb18030").decode("utf-8")
    except UnicodeError:
        return found[0]
    return text if len(text) >= 2 and len(text) < len(found[0]) * 1.1 else found[0]

"""Pasted text to claims: decode, clean, recognise known outputs, scan for signatures. Pure: the same text gives the
same claims on any machine.
"""

from collections.abc import Iterable, Iterator, Sequence

from ..model import Claim, Signature, Source, Transcript
from ..text import clean
from .known import read_known_outputs
from .scan import scan

__all__ = ["decode_paste", "read_paste", "read_transcripts"]

_LARGEST_LINE = 64 * 1024


def decode_paste(data: bytes) -> str:
    """UTF-16 by its byte order mark, UTF-8, else a guess from the bytes alone; never by this machine's locale."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        pass
    from charset_normalizer import from_bytes

    best = from_bytes(data[:100_000]).best()
    return data.decode(best.encoding if best else "utf-8", "replace")


def read_paste(texts: Iterable[tuple[str, bytes]], signatures: Sequence[Signature]) -> tuple[Claim, ...]:
    """Claims of all texts; every signature is stated, as found or as not found."""
    transcripts = [Transcript(decode_paste(data), Source("text", "text", file=name)) for name, data in texts]
    claims = list(read_transcripts(transcripts, signatures))
    for transcript in transcripts:
        claims += read_known_outputs(clean(transcript.text), transcript.source)
    return tuple(claims)


def read_transcripts(transcripts: Iterable[Transcript], signatures: Sequence[Signature]) -> Iterator[Claim]:
    """What the signatures say of these texts, whoever printed them."""
    return scan([(transcript.source, list(_lines(transcript.text))) for transcript in transcripts], signatures)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Cleaned lines with their numbers in the original. The parts of a progress bar share a number."""
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        for part in line.split("\r"):
            cleaned = clean(part[:_LARGEST_LINE]).rstrip()
            if cleaned:
                yield number, cleaned

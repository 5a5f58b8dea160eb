"""Pasted text to claims: decode, clean, recognise known outputs, scan for signatures. Pure: the same text gives the
same claims on any machine.

One pass over streams: what is held is a batch of lines, the first hits of each signature, and the first values of each
fact, whatever the size of the text. Large texts take a way of their own (`large`).
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from ..errors import UsageError
from ..model import Claim, Readable, Signature, Source, Transcript
from .cleaning import Line, cleaned, retyped, unquoted
from .decoding import decode_all, numbered_lines
from .known import KnownOutputs
from .scan import Scanner
from .streams import members, size_of
from .wraps import certain_width, rejoined, unwrapped

__all__ = ["decode_paste", "read_paste", "read_transcripts"]

_BATCH = 2000
_BATCH_SIZE = 1 << 20
"""Lines, and characters, that are looked at together."""
_LOOK_AHEAD = 400
"""Lines of the next batch that a known output may reach into: the longest answer of nvidia-smi -q for one GPU."""

_ERRORS = frozenset({"error-is-raised", "error-is-shown"})
"""The signatures of any program's errors, whatever they say."""

decode_paste = decode_all


def read_paste(
    texts: Iterable[tuple[str, bytes | Readable]],
    signatures: Sequence[Signature],
    remark: Callable[[str], None] = lambda _: None,
    *,
    watch: Callable[[int], None] = lambda _: None,
    cache: Callable[[], str] = str,
    engine: str = "",
    large: int = 4 << 20,
    segment: int = 128 << 20,
) -> tuple[Claim, ...]:
    """Claims of all texts; every signature is stated, as found or as not found.

    A text is its bytes, or a file that is read to its end; archives and compressed files are unpacked on the way.
    `remark` is told what could not be read, `watch` how many bytes were read just now. A text of `large` bytes or more
    is searched with `engine`, whose compiled form is kept in the folder that `cache` names; a file of two `segment`s by
    several processes. Raises UsageError where reading fails.
    """
    scanner = Scanner(signatures)
    known = KnownOutputs()
    for name, data in texts:
        try:
            for member in members(name, data, remark):
                source = Source("text", "text", file=member.name)
                head, rest = _begin_of(_watched(member.chunks, watch), large)
                if rest is None:
                    read_lines(numbered_lines(head), source, scanner, known)
                    continue
                used = _read_large(
                    data,
                    head,
                    rest,
                    source,
                    scanner,
                    known,
                    signatures=signatures,
                    watch=watch,
                    cache=cache,
                    engine=engine,
                    segment=segment,
                )
                remark(
                    f"{member.name} is large: it was searched for errors from end to end (by {used}); tables, "
                    "lists and broken lines were read at its beginning, at its end and around the errors"
                )
        except OSError as error:
            raise UsageError(f"{name} cannot be read: {error.strerror or error}") from error
    claims = (*scanner.claims(), *known.claims())
    errors = scanner.first_lines(_ERRORS)
    if errors and any(word in errors[0][1] for word in ("ank", "default", "]<std")):
        from .ranks import failing_rank

        claims = (*claims, *failing_rank(errors, remark))
    return claims


def _read_large(
    data: bytes | Readable,
    head: list[bytes],
    rest: Iterator[bytes],
    source: Source,
    scanner: Scanner,
    known: KnownOutputs,
    *,
    signatures: Sequence[Signature],
    watch: Callable[[int], None],
    cache: Callable[[], str],
    engine: str,
    segment: int,
) -> str:
    """The name of the engine that was used."""
    from .large import read_large, sieve_literals, sieve_patterns
    from .segments import Job, edges, read_segments
    from .sieve import sieve_for

    if source.file == getattr(data, "name", None) and (places := edges(data, head[0], segment)):
        patterns = tuple(sieve_patterns(signatures))
        job = Job(source.file, tuple(signatures), patterns, places[-1], cache(), engine)
        return read_segments(job, places, source, scanner, known, watch)
    sieve = sieve_for(
        sieve_literals(signatures),
        lambda: sieve_patterns(signatures),
        size=size_of(data),
        cache=cache,
        only=engine,
    )
    read = partial(read_lines, source=source, scanner=scanner, known=known)
    read_large(itertools.chain(head, rest), source, scanner, read, sieve)
    return sieve.engine


def _watched(chunks: Iterator[bytes], watch: Callable[[int], None]) -> Iterator[bytes]:
    for chunk in chunks:
        watch(len(chunk))
        yield chunk


def _begin_of(chunks: Iterator[bytes], large: int) -> tuple[list[bytes], Iterator[bytes] | None]:
    """The chunks of a text that is not large, or those before it turned out to be, and the others."""
    head: list[bytes] = []
    size = 0
    for chunk in chunks:
        head.append(chunk)
        size += len(chunk)
        if size >= large:
            return head, chunks
    return head, None


def read_transcripts(transcripts: Iterable[Transcript], signatures: Sequence[Signature]) -> Iterator[Claim]:
    """What the signatures say of these texts, whoever printed them."""
    scanner = Scanner(signatures)
    for transcript in transcripts:
        numbered = enumerate(transcript.text.replace("\r\n", "\n").split("\n"), 1)
        read_lines(numbered, transcript.source, scanner, None)
    return scanner.claims()


def read_lines(
    numbered: Iterable[tuple[int, str]], source: Source, scanner: Scanner, known: KnownOutputs | None
) -> None:
    """All that there is to a text, line by line."""
    for lines, new in _batches(cleaned(numbered)):
        batch, fresh = lines, new
        if lines[0].text[:1] == ">" or lines[-1].text[:1] == ">":
            batch = unquoted(lines)
            fresh = sum(1 for line in batch if new == len(lines) or line.number < lines[new].number)
        if not batch:  # nothing but the marks of a quotation
            continue
        _scan(batch, fresh, source, scanner)
        if known is not None:
            known.feed([(line.number, retyped(line.body)) for line in batch], source)
            if width := certain_width(batch):
                known.feed([(number, retyped(text)) for number, text in unwrapped(batch, width)], source, again=True)


def _batches(lines: Iterable[Line]) -> Iterator[tuple[list[Line], int]]:
    """(lines, how many of them come for the first time); the others are looked ahead at and come again."""
    held: list[Line] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line.text)
        if len(held) >= _BATCH + _LOOK_AHEAD or (size >= _BATCH_SIZE and len(held) > 1):
            fresh = max(1, len(held) - min(_LOOK_AHEAD, len(held) // 4))
            yield held, fresh
            held = held[fresh:]
            size = sum(len(one.text) for one in held)
    if held:
        yield held, len(held)


def _scan(lines: list[Line], fresh: int, source: Source, scanner: Scanner) -> None:
    """The lines as they are; then, where that makes a difference, what stands behind prefixes (a message of several
    lines goes on behind the next one's), retyped, and joined over the places where a terminal broke them.
    """
    reach = fresh + scanner.reach
    scanner.feed(source, [(line.number, line.text) for line in lines[:reach]], fresh)
    window = lines[:reach]
    bodies = [(line.number, retyped(line.body)) for line in window]
    if any(body is not line.text for line, (_, body) in zip(window, bodies, strict=True)):
        scanner.feed(source, bodies, fresh, across_only=True, again=True)
    others = [(line.number, typed) for line in lines[:fresh] if (typed := retyped(line.text)) != line.text]
    # What begins in the lines that are looked ahead at comes again with the next batch.
    last = lines[fresh - 1].number if fresh else 0
    others += [(number, retyped(text)) for number, text in rejoined(window) if number <= last]
    if others:
        scanner.feed(source, others, again=True)

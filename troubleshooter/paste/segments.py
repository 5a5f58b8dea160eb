"""Very large files, in segments that are read on their own and put together in order: by several processes where there
are several processors, one after the other with the same result where there are not.
"""

import io
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

from ..model import Claim, Readable, Signature, Source
from .decoding import wide_encoding
from .known import KnownOutputs
from .large import BLOCK, read_large, sieve_literals
from .scan import Scanner, State
from .sieve import Sieve, sieve_for

_LONGEST_LINE = 64 * 1024
_MOST_PROCESSES = 8

ReadLines = Callable[..., None]


class Job(NamedTuple):
    """All that a process needs, and nothing that cannot be sent to it."""

    path: str
    signatures: tuple[Signature, ...]
    patterns: tuple[str, ...]
    size: int
    cache: str
    engine: str


class Told(NamedTuple):
    """What one segment says; lines are counted from its own beginning."""

    lines: int
    hits: State
    known: tuple[Claim, ...]
    engine: str


def edges(data: bytes | Readable, head: bytes, segment: int) -> list[int]:
    """Where the segments of a regular file begin, and its end; empty for what is read as one: a pipe, a compressed
    file, whose text begins with `head` and the file does not.
    """
    if isinstance(data, bytes) or not isinstance(data, io.BufferedReader) or not isinstance(data.name, str):
        return []
    found = os.fstat(data.fileno())
    if not stat.S_ISREG(found.st_mode) or found.st_size < 2 * segment:
        return []
    places = [0]
    with open(data.name, "rb") as file:
        if file.read(len(head)) != head or wide_encoding(head):
            return []
        for near in range(segment, found.st_size - segment // 2, segment):
            file.seek(near)
            end = file.read(_LONGEST_LINE).find(b"\n")
            if end < 0:  # a line that is as long as a file: no place to cut at
                return []
            places.append(near + end + 1)
    return [*places, found.st_size]


def read_segments(
    job: Job, places: Sequence[int], source: Source, scanner: Scanner, known: KnownOutputs, watch: Callable[[int], None]
) -> str:
    """The name of the engine; what was found goes to `scanner` and `known`."""
    engine = ""
    line = 0
    for (start, end), told in zip(_ranges(places), _all(job, places, source), strict=True):
        scanner.absorb(source, told.hits, line)
        known.absorb(told.known, line)
        line += told.lines
        engine = told.engine
        watch(end - start)
    return engine


def _ranges(places: Sequence[int]) -> list[tuple[int, int]]:
    return list(pairwise(places))


def _all(job: Job, places: Sequence[int], source: Source) -> Iterator[Told]:
    ranges = _ranges(places)
    work = partial(read_segment, source=source, last=len(ranges) - 1)
    workers = min(_MOST_PROCESSES, _processors(), len(ranges))
    if workers < 2:
        for number, (start, end) in enumerate(ranges):
            yield work(job, number, start, end)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    context = get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupts) as pool:
        try:
            waiting = [pool.submit(work, job, number, start, end) for number, (start, end) in enumerate(ranges)]
            for one in waiting:
                yield one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _ignore_interrupts() -> None:
    """Ctrl-C reaches all processes; the first of them ends the others."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@lru_cache(maxsize=2)
def _sieve(job: Job) -> Sieve:
    return sieve_for(
        sieve_literals(job.signatures),
        lambda: job.patterns,
        size=job.size,
        cache=lambda: job.cache,
        only=job.engine,
    )


def read_segment(job: Job, number: int, start: int, end: int, source: Source, last: int) -> Told:
    """In whichever process: reads those bytes of the file."""
    from . import read_lines

    scanner = Scanner(job.signatures)
    known = KnownOutputs()
    sieve = _sieve(job)
    read: Any = partial(read_lines, source=source, scanner=scanner, known=known)
    with open(job.path, "rb") as file:
        file.seek(start)
        lines = read_large(
            _chunks(file, end - start), source, scanner, read, sieve, begins=number == 0, ends=number == last
        )
    return Told(lines, scanner.state(), tuple(known.claims()), sieve.engine)


def _chunks(file: io.BufferedReader, size: int) -> Iterator[bytes]:
    while size > 0 and (chunk := file.read(min(BLOCK, size))):
        size -= len(chunk)
        yield chunk

"""Which signatures can match in a large block of text at all: what lets a gigabyte go by at the speed of a search
engine. What is left is decided line by line with the signatures themselves, so all engines give the same hits.

hyperscan, google-re2 and the standard library answer the same question; each may say yes too often, none wrongly
says no.
"""

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from .vocabulary import Vocabulary

_WORTH_COMPILING = 256 << 20
"""Bytes of text from which on compiling for hyperscan, which takes seconds, is worth it; once compiled it is kept."""
_MOST_KEPT = 12
_MEMORY = 24 << 20
ENGINES = ("hyperscan", "re2", "python")

Present = Callable[[bytes], Iterable[int]]


class Sieve(NamedTuple):
    engine: str
    present: Present
    """The positions of which a match may lie in these bytes. Safe to call from several threads."""
    without: Callable[[Collection[int]], Present | None]
    """The same for all but these positions, which makes it faster where they match everywhere; None if making it takes
    longer than it saves.
    """


def sieve_for(
    literals: Sequence[Sequence[str]],
    patterns: Callable[[], Sequence[str]],
    *,
    size: int = 0,
    cache: Callable[[], str] = str,
    only: str = "",
) -> Sieve:
    """`literals`: for each position lower-case texts of which one stands in every match. `patterns`: the same as
    patterns over bytes. `size` of the text, as far as known. `cache`: our own folder, or nothing. `only` names the
    engine to use, where it can be.
    """
    held: list[Sequence[str]] = []

    def all_patterns() -> Sequence[str]:
        if not held:
            held.append(patterns())
        return held[0]

    compile_it = only != "" or size >= _WORTH_COMPILING
    makers: dict[str, Callable[[Sequence[int]], Present]] = {
        "hyperscan": lambda kept: _hyperscan(all_patterns(), kept, cache(), compile_it=compile_it),
        "re2": lambda kept: _re2(all_patterns(), kept),
        "python": lambda kept: _by_literals(literals, kept),
    }

    def make(engine: str, left_out: Collection[int]) -> Present:
        return makers[engine]([one for one in range(len(literals)) if one not in left_out])

    def without(engine: str, left_out: Collection[int]) -> Present | None:
        try:
            return make(engine, left_out)
        except Exception:
            return None

    for engine in ENGINES[:-1]:
        # Not installed, another version, a pattern it cannot read: the next one can.
        if only in ("", engine) and (present := without(engine, ())):
            return Sieve(engine, present, partial(without, engine))
    return Sieve("python", make("python", ()), partial(without, "python"))


_PROBE = "a text that no signature holds"


def _re2(patterns: Sequence[str], kept: Sequence[int]) -> Present:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = _MEMORY
    options.log_errors = False
    found = re2.Set.SearchSet(options)
    for position in kept:
        found.Add(patterns[position])
    found.Add(_PROBE)
    found.Compile()
    # A set that is out of memory finds nothing and says nothing of it.
    if list(found.Match(_PROBE.encode())) != [len(kept)]:
        raise ValueError("the patterns are too large for RE2")

    def present(block: bytes) -> list[int]:
        return [kept[one] for one in found.Match(block) or () if one < len(kept)]

    return present


def _hyperscan(patterns: Sequence[str], kept: Sequence[int], cache: str, *, compile_it: bool) -> Present:
    import threading
    from hashlib import sha256

    import hyperscan

    wanted = [f"{position} {patterns[position]}" for position in kept]
    known = sha256("\n".join((str(hyperscan.__version__), *wanted)).encode()).hexdigest()[:32]
    path = os.path.join(cache, f"scan.{known}.hsdb") if cache else ""
    database = _kept(path)
    if database is None:
        if not compile_it:
            raise ValueError("not compiled yet")
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        flags = hyperscan.HS_FLAG_SINGLEMATCH | hyperscan.HS_FLAG_DOTALL
        database.compile(
            expressions=[patterns[position].encode("ascii") for position in kept],
            ids=list(kept),
            elements=len(kept),
            flags=[flags] * len(kept),
        )
        if path:
            _keep(path, hyperscan.dumpb(database))
    own = threading.local()

    def present(block: bytes) -> list[int]:
        scratch = getattr(own, "scratch", None)
        if scratch is None:
            scratch = own.scratch = hyperscan.Scratch(database)
        found: list[int] = []
        database.scan(block, match_event_handler=lambda position, *_: found.append(position), scratch=scratch)
        return found

    present(b"")
    return present


def _kept(path: str) -> Any:
    """The database of that file, or None. The first line is a checksum: what is damaged is not given to a library
    written in C.
    """
    from hashlib import sha256

    import hyperscan

    try:
        with open(path, "rb") as file:
            told, _, data = file.read().partition(b"\n")
        if told.decode("ascii") != sha256(data).hexdigest():
            return None
        return hyperscan.loadb(data, hyperscan.HS_MODE_BLOCK)
    except Exception:
        return None


def _keep(path: str, data: bytes) -> None:
    from hashlib import sha256

    waiting = f"{path}.{os.getpid()}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        with open(os.open(waiting, flags, 0o600), "wb") as file:
            file.write(sha256(data).hexdigest().encode() + b"\n" + data)
        os.replace(waiting, path)
        folder = os.path.dirname(path)
        kept = sorted(
            (entry.stat().st_mtime, entry.path) for entry in os.scandir(folder) if entry.name.endswith(".hsdb")
        )
        for _, old in kept[:-_MOST_KEPT]:
            os.remove(old)
    except OSError:  # a full disk, a folder that cannot be written to: compiled again next time
        return


def _by_literals(literals: Sequence[Sequence[str]], kept: Sequence[int]) -> Present:
    owners: dict[str, list[int]] = {}
    for position in kept:
        for text in literals[position]:
            owners.setdefault(text, []).append(position)

    def present(block: bytes) -> set[int]:
        low = block.decode("utf-8", "replace").lower()
        words = Vocabulary(low)
        found: set[int] = set()
        for literal, positions in owners.items():
            if not found.issuperset(positions) and words.may_hold(literal) and literal in low:
                found.update(positions)
        return found

    return present

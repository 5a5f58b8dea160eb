"""Which signatures can match in a large block of text at all: what lets a gigabyte go by at the speed of a search
engine. What is left is decided line by line with the signatures themselves, so all engines give the same hits.

hyperscan, google-re2 and the standard library answer the same question; each may say yes too often, none says no wrongly.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from .vocabulary import Vocabulary

_WORTH_COMPILING = 256 << 20
"""Bytes of text from which on compiling for hyperscan, which takes seconds, is worth it; once compiled it is kept."""
_MEMORY = 24 << 20
ENGINES = ("hyperscan", "re2", "python")

Present = Callable[[bytes], Iterable[int]]


class Sieve(NamedTuple):
    engine: str
    present: Present
    """The positions of which a match may lie in these bytes. Safe to call from several threads."""
    in_threads: bool
    """Whether several threads find more than one does."""


def sieve_for(
    literals: Sequence[Sequence[str]],
    patterns: Callable[[], Sequence[str]],
    *,
    size: int = 0,
    cache: Callable[[], str] = str,
    only: str = "",
) -> Sieve:
    """`literals`: for each position lower-case texts of which one stands in every match. `patterns`: the same as
    patterns over bytes. `cache`: our own folder, or nothing. `only` names the engine to use, where it can be.
    """
    makers: dict[str, Callable[[], Present]] = {
        "hyperscan": lambda: _hyperscan(patterns(), cache(), compile_it=only != "" or size >= _WORTH_COMPILING),
        "re2": lambda: _re2(patterns()),
    }
    for engine in ENGINES[:-1]:
        if only in ("", engine):
            try:
                return Sieve(engine, makers[engine](), True)
            except Exception:  # not installed, another version, a pattern it cannot read: the next one can
                continue
    return Sieve("python", _by_literals(literals), False)


_PROBE = "a text that no signature holds"


def _re2(patterns: Sequence[str]) -> Present:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = _MEMORY
    options.log_errors = False
    found = re2.Set.SearchSet(options)
    for pattern in (*patterns, _PROBE):
        found.Add(pattern)
    found.Compile()
    # A set that is out of memory finds nothing and says nothing of it.
    if list(found.Match(_PROBE.encode())) != [len(patterns)]:
        raise ValueError("the patterns are too large for RE2")
    match: Present = found.Match
    return match


def _hyperscan(patterns: Sequence[str], cache: str, *, compile_it: bool) -> Present:
    import threading
    from hashlib import sha256

    import hyperscan

    known = sha256("\n".join((str(hyperscan.__version__), *patterns)).encode()).hexdigest()[:32]
    path = os.path.join(cache, f"scan.{known}.hsdb") if cache else ""
    database = _kept(path)
    if database is None:
        if not compile_it:
            raise ValueError("not compiled yet")
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        flags = hyperscan.HS_FLAG_SINGLEMATCH | hyperscan.HS_FLAG_DOTALL
        database.compile(
            expressions=[pattern.encode("ascii") for pattern in patterns],
            ids=list(range(len(patterns))),
            elements=len(patterns),
            flags=[flags] * len(patterns),
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
    except OSError:  # a full disk, a folder that cannot be written to: compiled again next time
        return


def _by_literals(literals: Sequence[Sequence[str]]) -> Present:
    owners: dict[str, list[int]] = {}
    for position, texts in enumerate(literals):
        for text in texts:
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

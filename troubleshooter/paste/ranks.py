"""Of a log that many processes write: which printed the first error. The others often fail because that one did."""

import re
from collections.abc import Callable, Iterator, Sequence

from ..model import Claim, Source, present

_RANK = r"^[^\n]{0,60}?(?:\[(?:rank|default|Rank )(\d{1,5})\]|\[1,(\d{1,5})\]<std|\brank[ =:](\d{1,5})\b)"
# [rank3]: …   [default3]: …   2026-03-01 12:00:00 [Rank 3] …   [1,3]<stderr>: …   rank=3


def failing_rank(errors: Sequence[tuple[Source, str]], remark: Callable[[str], None]) -> Iterator[Claim]:
    """`text.first_failing_rank`; told as well where other ranks failed after it."""
    ranks = [(int(next(filter(None, found.groups()))), source) for source, line in errors if (found := _rank(line))]
    if not ranks or _rank(errors[0][1]) is None:
        return
    (first, source), others = ranks[0], {rank for rank, _ in ranks[1:]}
    yield present("text.first_failing_rank", first, source)
    if others - {first}:
        remark(f"rank {first} printed the first error, in line {source.line:,} of {source.file}; others followed it")


def _rank(line: str) -> re.Match[str] | None:
    return re.search(_RANK, line)

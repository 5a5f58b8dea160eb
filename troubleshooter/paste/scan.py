"""The signatures over lines of text. A plain substring search rejects nearly all; the pattern decides the rest."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate

from ..model import Claim, Signature, Source, present
from .vocabulary import SMALL, Vocabulary

_MOST_HITS = 5
_EXCERPT = 200
_MOST_COUNTED = 100_000
"""Hits of one signature that are counted: a text of nothing but errors must come to an end as well."""

Text = tuple[Source, list[tuple[int, str]]]
Hit = tuple[Source, int, str, re.Match[str]]


def scan(texts: Sequence[Text], signatures: Sequence[Signature]) -> Iterator[Claim]:
    """`log.<id>` for every signature, and the facts its groups state.

    A signature that no line shows is stated as false: a text is read to its end, so "not in it" is known.
    """
    scanner = Scanner(signatures)
    for source, lines in texts:
        scanner.feed(source, lines)
    return scanner.claims()


class Scanner:
    """Takes texts piece by piece and keeps, for each signature, its first hits and how many there were."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self._signatures = signatures
        self._across = [signature for signature in signatures if signature.lines > 1]
        self.reach = max((signature.lines for signature in signatures), default=1)
        """Over how many lines the longest signature goes."""
        self._hits: dict[str, list[Hit]] = {}
        self._counts: dict[str, int] = {}
        self._files: list[str] = []
        self._seen: set[tuple[str, int]] = set()

    def feed(
        self,
        source: Source,
        lines: list[tuple[int, str]],
        begin_below: int | None = None,
        *,
        across_only: bool = False,
        again: bool = False,
    ) -> None:
        """Hits that begin at an index below `begin_below`: the lines after it are there to be looked ahead at.

        `again` marks another reading of lines that were fed before (joined, unprefixed): a line that hit already
        does not count twice.
        """
        if not again:
            self._seen.clear()
        if source.file not in self._files:
            self._files.append(source.file)
        lower = [line.lower() for _, line in lines]
        joined = "\n".join(lower)
        words = Vocabulary(joined)
        starts = [0, *accumulate(len(line) + 1 for line in lower)] if len(joined) > SMALL else []
        for signature in self._across if across_only else self._signatures:
            if self._counts.get(signature.id, 0) >= _MOST_COUNTED:
                continue
            literals = [literal for literal in signature.literals if words.may_hold(literal)]
            if signature.lines == 1:
                literals = [literal for literal in literals if literal in joined]
            # Lines of a window are joined by blanks, so that a literal with one may span them.
            elif not any(" " in literal or literal in joined for literal in literals):
                continue
            if not literals:
                continue
            if signature.lines > 1 or len(joined) <= SMALL:
                found = _matches(signature, lines, lower)
            else:
                found = _matches_far_apart(signature, lines, joined, starts, literals)
            for index, (number, line, match) in found:
                if begin_below is not None and index >= begin_below:
                    break
                hits = self._hits.setdefault(signature.id, [])
                if again and (signature.id, number) in self._seen:
                    continue
                self._seen.add((signature.id, number))
                self._counts[signature.id] = self._counts.get(signature.id, 0) + 1
                if len(hits) < _MOST_HITS:
                    hits.append((source, number, line, match))

    def claims(self) -> Iterator[Claim]:
        for signature in self._signatures:
            hits = self._hits.get(signature.id, ())
            count = self._counts.get(signature.id, 0)
            for source, number, line, match in sorted(hits, key=self._place):
                # The file's name and line for a text; the program's name stays the detail for a probe.
                detail = line.strip()[:_EXCERPT]
                if count > _MOST_HITS:
                    more = " and more" if count >= _MOST_COUNTED else ""
                    detail, count = f"{detail} (\u00d7 {count:,}{more}, first here)", 0
                where = (
                    source._replace(detail=detail, line=number)
                    if source.kind == "text"
                    else source._replace(detail=f"{source.detail}: {detail}" if source.detail else detail)
                )
                yield present(f"log.{signature.id}", True, where)
                yield from _captured(signature, match, where)
            if not hits:
                yield _not_shown(signature.id)

    def _place(self, hit: Hit) -> tuple[int, int]:
        return self._files.index(hit[0].file), hit[1]


def _matches(
    signature: Signature, lines: list[tuple[int, str]], lower: list[str]
) -> Iterator[tuple[int, tuple[int, str, re.Match[str]]]]:
    pattern = _compiled(signature.pattern)
    for index, (number, line) in enumerate(lines):
        text = line
        if signature.lines > 1:
            text = " ".join(one.strip() for _, one in lines[index : index + signature.lines])
            near = text.lower()
        else:
            near = lower[index]
        if any(literal in near for literal in signature.literals) and (match := pattern.search(text)):
            # A window is reported where the match begins: the next windows hold the same match again.
            if signature.lines > 1 and match.start() > len(line):
                continue
            yield index, (number, line, match)


def _matches_far_apart(
    signature: Signature, lines: list[tuple[int, str]], joined: str, starts: list[int], literals: list[str]
) -> Iterator[tuple[int, tuple[int, str, re.Match[str]]]]:
    """The same for a pattern of one line in a large text, of which few lines hold a literal: those are looked up.

    `starts`: where each line begins in `joined`, the lower-case text, and where that ends.
    """
    pattern = _compiled(signature.pattern)
    places: set[int] = set()
    for literal in literals:
        place = joined.find(literal)
        while place >= 0:
            index = bisect_right(starts, place) - 1
            places.add(index)
            place = joined.find(literal, starts[index + 1])
    for index in sorted(places):
        number, line = lines[index]
        if match := pattern.search(line):
            yield index, (number, line, match)


def _captured(signature: Signature, match: re.Match[str], where: Source) -> Iterator[Claim]:
    for name, group in signature.facts:
        value = group[1:] if group.startswith("=") else match.group(group)
        if value:
            yield present(name, {"true": True, "false": False}.get(value, value), where)


@lru_cache(maxsize=4096)
def _not_shown(name: str) -> Claim:
    return present(f"log.{name}", False, Source("text", "text", "no line shows it"))


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)

"""The signatures over lines of text. A plain substring search rejects nearly all; the pattern decides the rest."""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from ..literals import index_of
from ..model import SILENCE, Claim, Signature, Source, present

_MOST_HITS = 5
_EXCERPT = 200
_MOST_COUNTED = 100_000
"""Hits of one signature that are counted: a text of nothing but errors must come to an end as well."""
_EVERYDAY, _ONE_IN = 2000, 50
"""What has hit so often, and one line in so many, is part of the log's everyday life and not counted on."""

Hit = tuple[Source, int, str, re.Match[str]]
State = tuple[dict[int, list[tuple[int, str, str]]], dict[int, int], set[int]]
"""Hits as number, line and the text that matched; counts; what is no longer counted; by positions of signatures."""


class Scanner:
    """Takes texts piece by piece and keeps, for each signature, its first hits and how many there were."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self.signatures = signatures
        self._index = index_of(signatures)
        self.reach = self._index.reach
        """Over how many lines the longest signature goes."""
        self._hits: dict[int, list[Hit]] = {}
        self._counts: dict[int, int] = {}
        self._full: set[int] = set()
        self._files: list[str] = []
        self._seen: set[tuple[int, int]] = set()

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
        self._meet(source)
        lower = [line.lower() for _, line in lines]
        for position, literals in self._occurring(lower, across_only=across_only):
            if self.is_full(position):
                continue
            for index, (number, line, match) in _matches(self.signatures[position], literals, lines, lower):
                if begin_below is not None and index >= begin_below:
                    break
                hits = self._hits.setdefault(position, [])
                if again and (position, number) in self._seen:
                    continue
                self._seen.add((position, number))
                self._counts[position] = self._counts.get(position, 0) + 1
                if self._counts[position] >= _MOST_COUNTED:
                    self._full.add(position)
                    break
                if len(hits) < _MOST_HITS:
                    hits.append((source, number, line, match))

    def state(self) -> State:
        """What another scanner of the same signatures can take over, in another process too."""
        hits = {
            position: [(number, line, match.string) for _, number, line, match in hits]
            for position, hits in self._hits.items()
        }
        return hits, self._counts, self._full

    def absorb(self, source: Source, state: State, before: int) -> None:
        """What a later part of a text says, that begins after `before` lines."""
        self._meet(source)
        hits, counts, full = state
        for position, found in hits.items():
            kept = self._hits.setdefault(position, [])
            pattern = _compiled(self.signatures[position].pattern)
            for number, line, text in found[: _MOST_HITS - len(kept)]:
                if match := pattern.search(text):
                    kept.append((source, before + number, line, match))
        for position, count in counts.items():
            self._counts[position] = self._counts.get(position, 0) + count
        self._full |= full

    def first_lines(self, names: Collection[str]) -> list[tuple[Source, str]]:
        """The first lines that any of these signatures hit, in order."""
        found: dict[tuple[int, int], tuple[Source, str]] = {}
        for position, hits in self._hits.items():
            if self.signatures[position].id in names:
                for hit in hits:
                    source, number, line, _ = hit
                    where = source._replace(line=number, detail=line.strip()[:_EXCERPT])
                    found.setdefault(self._place(hit), (where, line))
        return [found[place] for place in sorted(found)]

    def _meet(self, source: Source) -> None:
        if source.file not in self._files:
            self._files.append(source.file)

    def is_full(self, position: int) -> bool:
        """Whether hits of this signature are no longer counted."""
        return position in self._full

    def full(self) -> set[int]:
        return self._full

    def match(self, position: int, line: str, low: str) -> re.Match[str] | None:
        """Of a signature of one line in one line, which is given in lower case too."""
        signature = self.signatures[position]
        pattern = _pattern_for(signature, low) if has_needs(signature.needs, low) else None
        return pattern.search(line) if pattern else None

    def count(self, source: Source, position: int, number: int, line: str, match: re.Match[str]) -> None:
        """A hit that was found elsewhere."""
        self._meet(source)
        hits = self._hits.setdefault(position, [])
        if len(hits) < _MOST_HITS:
            hits.append((source, number, line, match))
        count = self._counts[position] = self._counts.get(position, 0) + 1
        if count >= _MOST_COUNTED or (count >= _EVERYDAY and count * _ONE_IN > number):
            self._full.add(position)

    def _occurring(self, lower: list[str], *, across_only: bool) -> list[tuple[int, list[str]]]:
        """Positions of signatures, with those of their literals that stand in these lines."""
        joined = "\n".join(lower)
        occurring = {} if across_only else self._index.occurring(joined)
        found = [one for one in occurring.items() if has_needs(self.signatures[one[0]].needs, joined)]
        if self._index.across:
            # Lines of a window are joined by blanks, so that a literal may span them.
            window = " ".join(lower)
            found = [one for one in found if one[0] not in self._index.across]
            for position in self._index.across:
                signature = self.signatures[position]
                literals = [literal for literal in signature.literals if literal in window]
                if literals:
                    found.append((position, literals))
        return sorted(found)

    def claims(self) -> Iterator[Claim]:
        """`log.<id>` for every signature that a line shows, the facts its groups state, and one claim for all others: a
        text is read to its end, so "not in it" is known.
        """
        for position, hits in sorted(self._hits.items()):
            signature, count = self.signatures[position], self._counts[position]
            for source, number, line, match in sorted(hits, key=self._place):
                # The file's name and line for a text; the program's name stays the detail for a probe.
                detail = line.strip()[:_EXCERPT]
                if count > _MOST_HITS:
                    more = " and more" if self.is_full(position) else ""
                    detail, count = f"{detail} (\u00d7 {count:,}{more}, first here)", 0
                where = (
                    source._replace(detail=detail, line=number)
                    if source.kind == "text"
                    else source._replace(detail=f"{source.detail}: {detail}" if source.detail else detail)
                )
                yield present(f"log.{signature.id}", True, where)
                yield from _captured(signature, match, where)
        yield SILENCE

    def _place(self, hit: Hit) -> tuple[int, int]:
        return self._files.index(hit[0].file), hit[1]


def _matches(
    signature: Signature, literals: list[str], lines: list[tuple[int, str]], lower: list[str]
) -> Iterator[tuple[int, tuple[int, str, re.Match[str]]]]:
    """`literals`: those of the signature that occur in these lines at all."""
    several = signature.lines > 1
    near = lower
    if several:
        near = [" ".join(lower[index : index + signature.lines]) for index in range(len(lower))]
    for index in sorted({index for literal in literals for index, text in enumerate(near) if literal in text}):
        number, line = lines[index]
        text, low = line, near[index]
        if several:
            text = " ".join([one.strip() for _, one in lines[index : index + signature.lines]])
            low = text.lower()
        if not has_needs(signature.needs, low):
            continue
        # Most never come here: compiling a pattern takes longer than all that stands above.
        pattern = _pattern_for(signature, low)
        if pattern and (match := pattern.search(text)):
            # A window is reported where the match begins: the next windows hold the same match again.
            if several and match.start() > len(line):
                continue
            yield index, (number, line, match)


def _pattern_for(signature: Signature, low: str) -> re.Pattern[str] | None:
    """The alternatives of the pattern that this text can match at all; None if it can match none."""
    if not signature.branches:
        return _compiled(signature.pattern)
    possible = [part for part, needs in signature.branches if has_needs(needs, low)]
    return _compiled("|".join(possible)) if possible else None


def has_needs(needs: tuple[tuple[str, ...], ...], text: str) -> bool:
    for alternative in needs:
        for one in alternative:
            if one not in text:
                break
        else:
            return True
    return not needs


def _captured(signature: Signature, match: re.Match[str], where: Source) -> Iterator[Claim]:
    for name, group in signature.facts:
        value = group[1:] if group.startswith("=") else match.groupdict().get(group)
        if value:
            yield present(name, {"true": True, "false": False}.get(value, value), where)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)

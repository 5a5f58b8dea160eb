"""The signatures over lines of text. A plain substring search rejects nearly all; the pattern decides the rest."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ..model import Claim, Signature, Source, present

_MOST_HITS = 5
_EXCERPT = 200

Text = tuple[Source, list[tuple[int, str]]]


def scan(texts: Sequence[Text], signatures: Sequence[Signature]) -> Iterator[Claim]:
    """`log.<id>` for every signature, and the facts its groups state.

    A signature that no line shows is stated as false: a text is read to its end, so "not in it" is known.
    """
    lowered = [(source, lines, [line.lower() for _, line in lines]) for source, lines in texts]
    whole = ["\n".join(lower) for _, _, lower in lowered]
    for signature in signatures:
        hits = 0
        for (source, lines, lower), joined in zip(lowered, whole, strict=True):
            for literal in signature.literals:
                if literal in joined:
                    break
            else:
                continue
            for number, line, match in _matches(signature, lines, lower):
                if hits == _MOST_HITS:
                    break
                hits += 1
                # The file's name and line for a text; the program's name stays the detail for a probe.
                detail = line.strip()[:_EXCERPT]
                where = (
                    source._replace(detail=detail, line=number)
                    if source.kind == "text"
                    else source._replace(detail=f"{source.detail}: {detail}" if source.detail else detail)
                )
                yield present(f"log.{signature.id}", True, where)
                yield from _captured(signature, match, where)
        if not hits:
            yield _not_shown(signature.id)


def _matches(
    signature: Signature, lines: list[tuple[int, str]], lower: list[str]
) -> Iterator[tuple[int, str, re.Match[str]]]:
    pattern = _compiled(signature.pattern)
    for index, (number, line) in enumerate(lines):
        text = line
        if signature.lines > 1:
            text = " ".join(one.strip() for _, one in lines[index : index + signature.lines])
            near = " ".join(lower[index : index + signature.lines])
        else:
            near = lower[index]
        if any(literal in near for literal in signature.literals) and (match := pattern.search(text)):
            # A window is reported where the match begins: the next windows hold the same match again.
            if signature.lines > 1 and match.start() > len(line):
                continue
            yield number, line, match


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

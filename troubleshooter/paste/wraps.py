"""Lines that a terminal, a mail program or a chat broke apart, put together again.

Where a line broke can only be guessed. So the joined lines are read in addition to the broken ones, never instead of
them, and a join that was none costs a little time: a signature that spans it by chance would have to begin at the very
end of one message and go on at the very start of the next.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from .cleaning import Line, compiled

_USUAL = (72, 76, 78, 79, 80, 99, 100, 119, 120, 131, 132, 159, 160)
_TERMINALS = (80, 100, 120)
_LONG_WORD = 40
"""A path, before which a chat leaves most of a line empty."""
_LEAST, _MOST = 40, 250
_LONGEST = 4000
_MOST_PIECES = 40
_FRAME_ENDS = "|+\u2502\u2503"
_RULES = "-=#_*\u2501\u2588 "
_LEVELS = ("ERROR: ", "WARNING: ", "INFO: ", "Error: ", "error: ", "warning: ", "note: ", "hint: ", "NOTE: ")
_BEGINS = ("Traceback (", ">>> ", "$ ", "# ", "% ", *_LEVELS)
"""How a message of its own begins; so do an exception's name and, after blanks, a frame of a traceback."""
_EXCEPTION = r"(?:[A-Za-z_]\w*\.){0,6}[A-Z]\w*(?:Error|Exception|Warning): "


def rejoined(lines: Sequence[Line]) -> Iterator[tuple[int, str]]:
    """(number of the first piece, joined text) for every run of lines that may have been one."""
    widths = _widths(lines)
    index = 0
    while index < len(lines) - 1:
        end = index
        length = 0
        while end < len(lines) - 1 and end - index < _MOST_PIECES and length < _LONGEST:
            if not _may_go_on(lines[end], lines[end + 1], widths):
                break
            length += lines[end].full
            end += 1
        if end > index:
            yield from _joined(lines[index : end + 1], widths)
        index = max(end, index + 1)


def certain_width(lines: Sequence[Line]) -> int:
    """The width at which a whole text was cut, 0 if it was not: no line is longer, several are just as long (one
    is enough at the width of most terminals), and they do not look like the frame of a table.
    """
    longest = max((line.full for line in lines), default=0)
    if not _LEAST <= longest <= _MOST:
        return 0
    full = [line for line in lines if line.full == longest]
    framed = sum(1 for line in full if _is_framed(line.text))
    enough = 1 if longest in _TERMINALS and full[0] is not lines[-1] else 2
    return longest if len(full) >= enough and framed * 2 < len(full) else 0


def unwrapped(lines: Sequence[Line], width: int) -> list[tuple[int, str]]:
    """The whole text with every line of that width joined to the next."""
    result: list[tuple[int, str]] = []
    open_ended = False
    for line in lines:
        if open_ended and len(result[-1][1]) < _LONGEST:
            result[-1] = (result[-1][0], result[-1][1] + _padded(line, width))
        else:
            result.append((line.number, _padded(line, width)))
        open_ended = line.full >= width
    return [(number, text.rstrip()) for number, text in result]


def _padded(line: Line, width: int) -> str:
    return line.text.ljust(line.full) if line.full >= width else line.text


def _widths(lines: Sequence[Line]) -> frozenset[int]:
    """Lengths at which lines may have been broken: the usual ones, and the longest where more than one line has it."""
    counted = Counter(line.full for line in lines if line.full >= _LEAST)
    longest = max(counted, default=0)
    own = {longest} if longest <= _MOST and counted[longest] > 1 else set()
    return frozenset((*_USUAL, *own))


def _may_go_on(line: Line, following: Line, widths: frozenset[int]) -> bool:
    full, short = line.full, len(line.body)
    if line.number == following.number or not _fits(full, short, following, widths):
        return False
    return not _is_framed(line.text) and not _begins(following.body)


def _fits(full: int, short: int, following: Line, widths: frozenset[int]) -> bool:
    """By their lengths: what a break left over is no longer than what stands before the break."""
    if (full in widths or short in widths) and (following.full <= full or len(following.body) <= short):
        return True
    if full > _MOST:
        return False
    # A chat breaks between words: the next word would not have fitted.
    body = following.body.lstrip()
    word = len(body.partition(" ")[0])
    return any(
        have <= width < have + 1 + word and size <= width
        for have, size in ((full, following.full), (short, len(following.body)))
        for width in widths
        if width - have < 60 or word > _LONG_WORD
    )


def _is_framed(text: str) -> bool:
    """It ends as a line of a table does, or with a rule or the bar of a progress."""
    last = text[-1:]
    return bool(last) and (last in _FRAME_ENDS or (last in _RULES and text.endswith(last * 5)))


def _begins(body: str) -> bool:
    if body.startswith(_BEGINS) or body.lstrip().startswith('File "'):
        return True
    return ": " in body and compiled(_EXCEPTION).match(body) is not None


def _joined(run: Sequence[Line], widths: frozenset[int]) -> Iterator[tuple[int, str]]:
    """As a terminal cuts, in the middle of words, and as a chat breaks, at blanks."""
    number = run[0].number
    widest = max((line.full for line in run[:-1] if line.full in widths), default=0)
    hard = run[0].body
    for before, line in itertools.pairwise(run):
        cut = (before.full == widest or len(before.body) in widths) and before.full == len(before.text)
        hard = hard + line.body if cut else f"{hard} {line.body.lstrip()}"
    soft = " ".join((run[0].body, *(line.body.lstrip() for line in run[1:])))
    yield number, hard[:_LONGEST]
    if soft != hard:
        yield number, soft[:_LONGEST]

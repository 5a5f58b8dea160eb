"""Lines as a program printed them, out of what terminals, collectors of logs and web forms made of them.

Every line keeps its number in the original. Nothing is thrown away that a signature may hang on: the line itself stays,
and what stands behind its prefixes is given beside it.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from ..text import clean
from .decoding import mended

_FEW_PARTS = 6
_STEP = r"\d%[| ]|\d(?:it/s|s/it|[kKMG]i?B/s)|\beta \d|ETA[: ]|\d/\d+ \["
"""A step of a progress bar, which is one line with as many parts as steps."""


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """At the first line that needs it: most pastes need few, and compiling takes longer than reading a paste."""
    return re.compile(pattern)


class Line(NamedTuple):
    number: int
    """Its place in the original text, from 1."""
    text: str
    """Without escapes and control characters, otherwise as printed."""
    body: str
    """What stands behind timestamps, levels, ranks, names of containers, marks of quoting."""
    full: int
    """Columns it filled before anything was taken away, blanks at its end included: what a terminal wraps by."""


_STAMP = (
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[ ]?[+-]\d\d:?\d\d)?\]?[:,]?"
    r"|\[?\d\d:\d\d:\d\d(?:[-.,]\d{3,6})?\]?"
    r"|\d\d-\d\d \d\d:\d\d:\d\d"
)
_LEVEL = r"\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|[IWEF])\]?"
_PLACE = r"\[?[\w./-]{1,80}\.(?:py|cc|cpp|cu|go|rs):\d{1,5}(?::\w{1,60})?\]"
# By how a line begins, so that only those that occur are compiled.
_PREFIXES = {
    # [2024/02/20 13:51:44]   [   88.102744]   [1,0]<stderr>:
    "[0": rf"(?:{_STAMP}|\[[ \t]*\d{{1,7}}\.\d{{3,6}}\]|{_PLACE}"
    r"|\[\d{1,4},\d{1,5}\]<std(?:out|err)>:|\[[\w ./-]{1,64}\][ \t]+\|)[ \t]?",
    # [rank3]:   [default0]:   [pod/job-7/main]   [x]   |
    "[": rf"(?:\[(?:rank|default|RANK )\d{{1,5}}\]:|{_PLACE}"
    r"|\[pod/[\w./-]{1,200}\]|\[[\w ./-]{1,64}\][ \t]+\|)[ \t]?",
    # (EngineCore_DP0 pid=151)   (RayWorker pid=1, ip=10.0.0.1)
    "(": r"\((?:[\w.:-]{1,64} ){1,3}pid=\d{1,8}(?:, ip=[\w.:-]{3,45})?\)[ \t]?",
    # 2025-03-11T07:02:18.104377205Z stderr F    2024-02-20 13:51:44,118 - INFO -    18:02:37-610394 ERROR
    # and the labels of Docker's builder and of srun: 8.112    3:
    "0": rf"(?:(?:{_STAMP})(?:[ \t]+std(?:out|err)[ \t]+[FP])?(?:[ \t]*[-|:]?[ \t]*{_LEVEL}(?=[\s:|-]))?"
    r"(?:[ \t]*[-|:](?=\s))?"
    r"|\d{1,6}\.\d{3}(?=[ \t])|\d{1,5}:(?=[ \t]))[ \t]?",
    # #14 61.02    ##[error]
    "#": r"(?:#\d{1,4}[ \t]+\d{1,6}\.\d{1,3}(?=\s|$)|##\[\w{4,9}\])[ \t]?",
    # INFO 10-14 19:05:37 [gpu_worker.py:215]   worker.py:226]   Sep 03 07:31:19 rig kernel:   trainer-1  |   E (pytest)
    "a": rf"(?:{_LEVEL}[ \t]+(?:{_STAMP})(?:[ \t]+{_PLACE})?|{_PLACE}|E(?=[ \t]{{3}})"
    r"|[A-Za-z][\w.-]{0,63}[ \t]+\|(?=[ \t]|$)"
    r"|[^\W\d]{3,5}\.?[ \t]+\d{1,2}[ \t]+\d\d:\d\d:\d\d(?:\.\d+)?[ \t]+[\w.-]{1,64}[ \t]+"
    r"(?=[\w.\-/@]{1,64}(?:\[\d+\])?: ))[ \t]?",
    # a frame around a table
    "\u2502": r"[\u2502\u2503](?=[ \t])[ \t]?",
}
_MOST_PREFIXES = 5
_SOURCES = (".py:", ".cc:", ".cpp:", ".cu:", ".go:", ".rs:")
_LEVELS = ("E   ", "TRACE ", "DEBUG ", "INFO ", "NOTICE ", "WARN", "ERROR ", "CRITICAL ", "FATAL ")
_QUOTED = r"[ \t]*>(?!>>)[ \t]?"
_FENCE = r"[ \t]*(?:```|~~~)[\w+-]*[ \t]*$"
_ENTITY = r"&(?:lt|gt|amp|quot|apos|nbsp|#\d{1,6}|#x[0-9a-fA-F]{1,6});"
_TYPED = str.maketrans(
    {
        "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u00b4": "'",
        "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u201f": '"',
        "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2212": "-",
        "\u2026": "...", "\u00a0": " ", "\u2007": " ", "\u202f": " ",
        "\u200b": None, "\u200c": None, "\u2060": None, "\u00ad": None,
    }
)  # fmt: skip
_LONG_DASH = r"(?<![\w\u2014])\u2014(?=[A-Za-z])"
_IS_TYPED = "[" + "".join(map(chr, (key for key in _TYPED if isinstance(key, int)))) + "\u2014]"


def cleaned(numbered: Iterable[tuple[int, str]]) -> Iterator[Line]:
    """Lines without escapes; the parts of a progress bar share a number; lines that are empty then are left out,
    and so are Markdown's fences.
    """
    for number, raw in numbered:
        line = raw.rstrip("\r\n")
        if "\r" not in line:
            parts = [line]
        else:
            parts = line.split("\r")
            if len(parts) > _FEW_PARTS:
                parts = _without_steps(parts)
        for part in parts:
            if "\0" in part:
                part = part.replace("\0", "")  # noqa: PLW2901
            if part.isascii() and part.isprintable():
                text = part.rstrip()
                full = len(part)
            else:
                shown = clean(mended(part)).replace("\n", " ")
                text = shown.rstrip()
                full = len(shown)
            if text and not (("`" in text or "~" in text) and compiled(_FENCE).match(text)):
                yield Line(number, text, unprefixed(text), full)


def _without_steps(parts: list[str]) -> list[str]:
    """The first and the last step of each bar: the last is what stayed on the screen."""
    kept: list[str] = []
    for part, following in zip(parts, [*parts[1:], ""], strict=True):
        if not (
            kept
            and compiled(_STEP).search(part)
            and compiled(_STEP).search(kept[-1])
            and compiled(_STEP).search(following)
        ):
            kept.append(part)
    return kept


def unprefixed(text: str) -> str:
    """What a program printed, without what others set before it."""
    start = 0
    for _ in range(_MOST_PREFIXES):
        kind = _kind_of_prefix(text, start)
        found = compiled(_PREFIXES[kind]).match(text, start) if kind else None
        if not found:
            break
        start = found.end()
    return text[start:] if start else text


def _kind_of_prefix(text: str, start: int) -> str:
    """Which pattern may match there; empty for the lines of a traceback and most others, quickly."""
    first = text[start : start + 1]
    if first == "[":
        second = text[start + 1 : start + 2]
        return "[0" if second.isdecimal() or second.isspace() else "["
    if first in _PREFIXES:
        return "" if first == "a" and not _begins_like_a_log(text, start) else first
    if first.isdecimal():
        return "0"
    if first == "\u2503":
        return "\u2502"
    return "a" if first.isalpha() and _begins_like_a_log(text, start) else ""


def _begins_like_a_log(text: str, start: int) -> bool:
    head = text[start : start + 90]
    if "|" in head or head.startswith(_LEVELS) or any(ending in head for ending in _SOURCES):
        return True
    # Sep 03 07:31:19, in any language: a day stands soon after the month's name.
    return head[:24].count(":") > 1 and any(letter.isdecimal() for letter in head[4:10])


def unquoted(lines: list[Line]) -> list[Line]:
    """Without GitHub's and mail's `>` where most lines carry it; a prompt of Python (`>>>`) is none."""
    for _ in range(3):
        marked = sum(1 for line in lines if line.text.lstrip()[:1] == ">" and compiled(_QUOTED).match(line.text))
        if not lines or marked < 0.6 * len(lines):
            break
        lines = [
            line._replace(text=line.text[found.end() :], body=unprefixed(line.text[found.end() :]))
            if (found := compiled(_QUOTED).match(line.text))
            else line
            for line in lines
        ]
        lines = [line for line in lines if line.text and not compiled(_FENCE).match(line.text)]
    return lines


def retyped(text: str) -> str:
    """With the quotes and dashes of a keyboard, where a web form or an office program set its own; HTML's entities
    as characters.
    """
    if "&" in text and compiled(_ENTITY).search(text):
        from html import unescape

        text = clean(compiled(_ENTITY).sub(lambda found: unescape(found[0]), text)).replace("\n", " ")
    if not text.isascii() and compiled(_IS_TYPED).search(text):
        text = compiled(_LONG_DASH).sub("--", text).translate(_TYPED).replace("\u2014", "-")
    return text

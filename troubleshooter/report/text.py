"""The report as lines for people: verdict last, evidence with its source, commands that can be copied whole."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from unicodedata import east_asian_width

from ..model import UNKNOWN, Change, Diagnosis, Evidence, Fact, Report, Source, Step, TestResult
from ..shells import quoted, shell_of
from ..text import clean
from .summary import percent, summary
from .words import words_for

REPORTED, CERTAIN = 0.5, 0.9
_MOST_UNKNOWN = 4
_MOST_REMEDIES = 3
_MORE_THAN_COUNTED = 2
_MOST_FIGURES = 4


class Line(NamedTuple):
    """`style`: plain, title, heading, dim, command, link, good, bad. Commands and links are never wrapped."""

    text: str
    style: str = "plain"
    indent: int = 0
    hang: int = 0
    """How much further than `indent` the wrapped rest of the line stands."""


def report_lines(report: Report, language: str = "en") -> Iterator[Line]:
    words = words_for(language)
    yield from _head(report, words)
    reported = [one for one in report.diagnoses if one.confidence >= REPORTED and not one.explained_by]
    for number, one in enumerate(reported, 1):
        yield Line("")
        yield from _diagnosis(one, number, len(reported), words)
    others = [one for one in report.diagnoses if one.confidence < REPORTED and not one.explained_by]
    if others:
        yield Line("")
        yield Line(words["possible"], "heading")
        for one in others:
            yield from _other(one, words)
    if report.notes:
        yield Line("")
        yield Line(words["notes"], "heading")
        for note in report.notes:
            yield Line(f"- {clean(note.text)}", indent=2, hang=2)
    yield from _tests(report.tests, words)
    yield from _unknowns(report, words)
    yield from _questions(report, words)
    yield Line("")
    if report.change:
        yield change_line(report.change, words)
    style = {"healthy": "good", "problem": "bad"}.get(report.verdict, "heading")
    yield Line(f"{words['verdict']}: {words[report.verdict]}. {clean(summary(report, words))}", style)


def change_line(change: Change, words: Mapping[str, str]) -> Line:
    """What became of the problems of the last run, before and after."""
    before, after = (", ".join(names) or words["nothing"] for names in (change.before, change.after))
    style = "good" if change.word == "resolved" else "heading"
    return Line(clean(f"{words['since']} {change.day}: {words['change_' + change.word]} ({before} → {after})"), style)


def _head(report: Report, words: Mapping[str, str]) -> Iterator[Line]:
    seen = []
    for one in report.inputs:
        name = words["this_machine"] if one.kind == "live" else clean(one.name)
        seen.append(f"{name} ({one.os})" if one.os else name)
    yield Line(f"{words['looked_at']}: {', '.join(seen)}", "dim")
    if target := report.target:
        torch = f"torch {target.torch}" if target.torch else words["no_torch"]
        version = f" ({target.python_version}, {torch})" if target.python_version else ""
        yield Line(clean(f"{words['target']}: {target.python}{version}"), "dim")
    for remark in report.remarks:
        yield Line(clean(remark), "heading")


def _diagnosis(one: Diagnosis, number: int, total: int, words: Mapping[str, str]) -> Iterator[Line]:
    about = "" if one.subject == "host" else f"  [{one.subject}]"
    yield Line(f"{number}. {one.title}{about}" if total > 1 else f"{one.title}{about}", "title")
    yield Line(f"{one.id} · {percent(one.confidence)} {words['sure']}", "dim", 3 if total > 1 else 0)
    yield Line(words["seen"], "heading", 2)
    quoted: set[Source] = set()
    for evidence in worth_showing(one):
        yield from _evidence(evidence, "", quoted)
    for evidence in [evidence for evidence in one.evidence if not evidence.supports][:2]:
        yield from _evidence(evidence, f"({words['against']}) ", quoted)
    yield Line(words["means"], "heading", 2)
    yield Line(clean(one.meaning), indent=4)
    if one.explains:
        yield Line(f"{words['explains']}: {', '.join(one.explains)}", indent=4)
    if one.remedies:
        yield Line(words["do"], "heading", 2)
    for place, remedy in enumerate(one.remedies[:_MOST_REMEDIES], 1):
        yield Line(f"{place}. {clean(remedy.title)} ({words[f'risk_{remedy.risk}']})", indent=4, hang=3)
        told: set[str] = set()
        for step in remedy.steps:
            yield from _step(step, words, told)


def worth_showing(one: Diagnosis) -> tuple[Evidence, ...]:
    """What speaks for it and was counted, and a little of what says the same again."""
    speaking = [evidence for evidence in one.evidence if evidence.supports]
    again = [evidence for evidence in speaking if not evidence.counted][:_MORE_THAN_COUNTED]
    return tuple(evidence for evidence in speaking if evidence.counted or evidence in again)


def _evidence(evidence: Evidence, mark: str, quoted: set[Source]) -> Iterator[Line]:
    """`quoted` are the lines that were shown already: for those the place is enough."""
    yield Line(f"- {mark}{clean(evidence.because)}", indent=4, hang=2)
    sources = [one._replace(detail="") if one.line and one in quoted else one for one in evidence.sources]
    quoted.update(evidence.sources)
    places = list(dict.fromkeys(filter(None, map(source_text, sources))))
    if places:
        yield Line(clean(f"({'; '.join(places[:3])})"), "dim", 6)


def source_text(source: Source) -> str:
    """Where something was seen, in one phrase."""
    if source.kind == "text":
        place = f"{source.file}:{source.line}" if source.file and source.line else source.file
        return f"{place} “{source.detail}”" if source.detail and source.line else place
    if source.kind == "table":
        return ""
    return source.detail or source.file or source.via


def _other(one: Diagnosis, words: Mapping[str, str]) -> Iterator[Line]:
    yield Line(f"{percent(one.confidence):>4}  {one.title} ({one.id})", indent=2, hang=6)
    for evidence in one.evidence[:1]:
        mark = "" if evidence.supports else f"({words['against']}) "
        yield Line(f"{mark}{clean(evidence.because)}", "dim", 8)


def _step(step: Step, words: Mapping[str, str], told: set[str]) -> Iterator[Line]:
    if step.say:
        yield Line(clean(step.say), indent=7)
    if step.shell_text:
        remarks = step_remarks(step, words, told)
        if remarks:
            yield Line(f"({'; '.join(remarks)})", "dim", 7)
        for row in step.shell_text.split("\n"):
            yield Line(clean(row), "command", 9)


def step_remarks(step: Step, words: Mapping[str, str], told: set[str]) -> list[str]:
    """What a person should know of a command before it is typed; what was taken for granted is `told` once a remedy."""
    remarks = [words["admin"]] if step.admin else []
    if step.persist:
        remarks.append(words[f"persist_{step.persist}"])
    taken = [name for name in step.assumed if name not in told and f"assumed_{name}" in words]
    told.update(taken)
    if taken:
        said = (words[f"assumed_{name}"].replace("{manager}", step.manager) for name in taken)
        remarks.append(f"{words['assumed']}: {', '.join(said)}")
    return remarks


def _tests(tests: tuple[TestResult, ...], words: Mapping[str, str]) -> Iterator[Line]:
    if not tests:
        return
    yield Line("")
    yield Line(words["tests"], "heading")
    skipped: dict[str, list[str]] = {}
    for test in tests:
        if test.outcome == "skipped":
            skipped.setdefault(test.reason, []).append(test.test)
            continue
        # The error stands in the reason; its traceback is for the JSON report.
        measured = [(name, value) for name, value in test.measured.items() if name != "error"]
        figures = ", ".join(f"{name} {figure(value)}" for name, value in measured[:_MOST_FIGURES])
        rest = " · ".join(filter(None, [clean(test.reason), clean(figures)]))
        style = "good" if test.outcome == "passed" else "bad"
        about = "" if test.subject == "host" else f" {test.subject}"
        yield Line(f"{words[test.outcome]}  {test.test}{about}" + (f" · {rest}" if rest else ""), style, 2, 8)
    for reason, names in skipped.items():
        yield Line(f"{words['skipped']}  {', '.join(dict.fromkeys(names))}: {clean(reason)}", "dim", 2, 9)


def figure(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _unknowns(report: Report, words: Mapping[str, str]) -> Iterator[Line]:
    """What ended badly and what sources differ on; where the cause is not certain, also what could not be seen."""
    lines = [*_bad_endings(report.facts), *_disputed(report.facts, words)]
    certain = report.verdict == "healthy" or any(one.confidence >= CERTAIN for one in report.diagnoses)
    reasons: dict[str, list[str]] = {}
    for fact in report.facts if not certain else ():
        if fact.state == UNKNOWN and fact.reason and not fact.name.startswith("test."):
            reasons.setdefault(fact.reason, []).append(fact.name)
    # A reason that explains many unknowns says more than one that explains a single one.
    ordered = sorted(reasons.items(), key=lambda item: -len(item[1]))
    for reason, names in ordered[:_MOST_UNKNOWN]:
        listed = ", ".join(names[:3]) + (f" +{len(names) - 3}" if len(names) > 3 else "")
        lines.append(f"{listed}: {reason}")
    if lines:
        yield Line("")
        yield Line(words["unknown"], "heading")
    for line in lines:
        yield Line(clean(f"- {line}"), indent=2, hang=2)
    if len(reasons) > _MOST_UNKNOWN:
        yield Line(f"+{len(reasons) - _MOST_UNKNOWN} {words['more']}", "dim", 4)


def _bad_endings(facts: tuple[Fact, ...]) -> Iterator[str]:
    """A program that hung or crashed is said in any case."""
    for fact in facts:
        if fact.name.endswith(".ending") and fact.value in ("timed-out", "hung", "crashed", "denied"):
            name = fact.name.removesuffix(".ending").replace("_", "-")
            silent = {one.reason for one in facts if one.state == UNKNOWN and name in one.reason}
            yield min(silent, key=len) if silent else f"{name}: {fact.value}"


def _disputed(facts: tuple[Fact, ...], words: Mapping[str, str]) -> Iterator[str]:
    for fact in facts:
        for name in fact.value if fact.name == "disagrees" and isinstance(fact.value, tuple) else ():
            said = next(one for one in facts if one.name == name)
            claims = "; ".join(
                f"{claim.value if claim.value is not None else claim.state} ({source_text(claim.source)})"
                for claim in said.claims
            )
            yield f"{words['disagree']} {name}: {claims}"


def _questions(report: Report, words: Mapping[str, str]) -> Iterator[Line]:
    if not report.questions or report.verdict == "healthy":
        return
    yield Line("")
    yield Line(words["questions"], "heading")
    told = {fact.name: fact.value for fact in report.facts if fact.name in ("os.family", "shell.name")}
    shell = shell_of(told.get("os.family"), told.get("shell.name"))
    for number, question in enumerate(report.questions, 1):
        yield Line(f"{number}. {clean(question.say)} ({', '.join(question.decides)})", indent=2, hang=3)
        if question.argv:
            yield Line(f"{words['run']}:", "dim", 5)
            yield Line(quoted(question.argv, shell), "command", 9)
        yield Line(f"{words['then']}: --set {question.fact}=…", "dim", 5)


# --- rendering


def plain(lines: Iterator[Line], width: int, encoding: str = "utf-8") -> str:
    """Text without colour, wrapped at `width` columns; characters that `encoding` lacks are replaced."""
    text = "".join(row + "\n" for line in lines for row in rows_of(line, width))
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        for fancy, simple in (("·", "-"), ("“", '"'), ("”", '"'), ("…", "..."), ("→", "->")):
            text = text.replace(fancy, simple)
        text = (
            text.encode("ascii", "replace").decode("ascii")
            if encoding == "unknown"
            else text.encode(encoding, "replace").decode(encoding)
        )
    return text


def rows_of(line: Line, width: int) -> Iterator[str]:
    start = " " * line.indent
    if line.style in ("command", "link") or not line.text:
        yield (start + line.text).rstrip()
        return
    first = True
    for row in wrap(line.text.rstrip(), max(20, width - line.indent - line.hang)):
        yield (start + ("" if first else " " * line.hang) + row).rstrip()
        first = False


def wrap(text: str, width: int) -> Iterator[str]:
    """Rows of at most `width` columns: broken at blanks, and between wide (Chinese, Japanese, Korean) characters."""
    for paragraph in text.split("\n"):
        row, columns = "", 0
        for piece in _pieces(paragraph):
            wide = columns_of(piece)
            if columns and columns + wide > width:
                yield row.rstrip()
                row, columns = piece.lstrip(), columns_of(piece.lstrip())
            else:
                row, columns = row + piece, columns + wide
        yield row.rstrip()


_CLOSING, _OPENING = "，。：；、！？）」』】》”’…", "（「『【《“‘"
"""Marks that begin no row, and marks that end none."""


def _pieces(text: str) -> Iterator[str]:
    """Words with the blanks before them; each wide character alone, with the marks that belong to it."""
    piece = ""
    for character in text:
        if piece and character not in _CLOSING and piece[-1] not in _OPENING:
            between_words = character == " " and piece.strip()
            if between_words or _is_wide(character) or _is_wide(piece[-1]):
                yield piece
                piece = ""
        piece += character
    if piece:
        yield piece


def _is_wide(character: str) -> bool:
    return east_asian_width(character) in "WF"


def columns_of(text: str) -> int:
    return sum(2 if _is_wide(character) else 1 for character in text)

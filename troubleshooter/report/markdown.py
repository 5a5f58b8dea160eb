"""Reports for pasting into an issue: what counts first, versions as a table, commands in fences, the rest folded."""

import re
from collections.abc import Iterable, Iterator, Mapping

from .. import __version__
from ..model import PRESENT, UNKNOWN, Diagnosis, Evidence, Fact, Remedy, Report
from ..text import clean
from .summary import percent, summary
from .text import REPORTED, Line, change_line, source_text, step_remarks, worth_showing
from .words import words_for

_VERSIONS = (
    *("os.release", "os.kernel", "os.glibc", "wsl.version", "container.kind", "gpu.name", "driver.version"),
    *("driver.cuda_version", "python.version", "python.manager", "torch.version", "torch.cuda", "cudnn.version"),
    *("nccl.version", "torchvision.version", "torchaudio.version", "triton.version", "numpy.version", "nvcc.version"),
)
_MOST_REMEDIES = 3
_LONGEST_VALUE = 200


def report_markdown(report: Report, language: str = "en", replaced: str = "") -> str:
    """`replaced` says what was made neutral; the report itself must have gone through that already."""
    words = words_for(language)
    return "\n".join(_report(report, words, replaced)).rstrip() + "\n"


def _report(report: Report, words: Mapping[str, str], replaced: str) -> Iterator[str]:
    yield f"**{words['verdict']}: {words[report.verdict]}.** {text(summary(report, words))}"
    yield ""
    for remark in report.remarks:
        yield f"> {text(remark)}"
        yield ""
    if report.change:
        yield text(change_line(report.change, words).text)
        yield ""
    table = list(_versions(report.facts))
    if table:
        yield f"| {words['versions']} | |"
        yield "|---|---|"
        yield from (f"| {name} | {code(value)} |" for name, value in table)
        yield ""
    reported = [one for one in report.diagnoses if one.confidence >= REPORTED and not one.explained_by]
    for number, one in enumerate(reported, 1):
        yield from _diagnosis(one, number if len(reported) > 1 else 0, words)
    if report.notes:
        yield f"**{words['notes']}**"
        yield ""
        yield from (f"- {text(note.text)}" for note in report.notes)
        yield ""
    if report.tests:
        yield f"**{words['tests']}**"
        yield ""
        for test in report.tests:
            about = "" if test.subject == "host" else f" {test.subject}"
            yield f"- {words[test.outcome]}: {code(test.test)}{about}" + (
                f" ({text(test.reason)})" if test.reason else ""
            )
        yield ""
    yield from _details(report, words)
    seen = ", ".join(filter(None, (f"{one.kind} {one.os}".strip() for one in report.inputs)))
    ending = [f"troubleshoot {__version__}", f"{report.engine} engine", f"{words['looked_at']}: {text(seen)}"]
    yield f"<sub>{' · '.join(ending)} · {report.knowledge[:19]}</sub>"
    if replaced:
        yield ""
        yield f"<sub>{words['made_neutral']}: {text(replaced)}</sub>"


def _versions(facts: Iterable[Fact]) -> Iterator[tuple[str, str]]:
    found: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.state == PRESENT and fact.name in _VERSIONS:
            found.setdefault(fact.name, []).append(fact)
    for name in _VERSIONS:
        values = [str(fact.value) for fact in found.get(name, ())]
        if values:
            yield (
                name,
                ", ".join(
                    f"{values.count(one)} × {one}" if values.count(one) > 1 else one for one in dict.fromkeys(values)
                ),
            )


def _diagnosis(one: Diagnosis, number: int, words: Mapping[str, str]) -> Iterator[str]:
    about = "" if one.subject == "host" else f" [{one.subject}]"
    yield f"### {f'{number}. ' if number else ''}{text(one.title)}{about}"
    yield ""
    yield f"{code(one.id)} · {percent(one.confidence)} {words['sure']}"
    yield ""
    yield f"**{words['seen']}**"
    yield ""
    for evidence in worth_showing(one):
        yield _evidence(evidence, "")
    for evidence in [evidence for evidence in one.evidence if not evidence.supports][:2]:
        yield _evidence(evidence, f"({words['against']}) ")
    yield ""
    yield f"**{words['means']}** {text(one.meaning)}"
    yield ""
    if one.explains:
        yield f"{words['explains']}: {', '.join(map(code, one.explains))}"
        yield ""
    if one.remedies:
        yield f"**{words['do']}**"
        yield ""
    for place, remedy in enumerate(one.remedies[:_MOST_REMEDIES], 1):
        yield from _remedy(remedy, place, words)


def _evidence(evidence: Evidence, mark: str) -> str:
    places = list(dict.fromkeys(filter(None, map(source_text, evidence.sources))))[:3]
    return f"- {mark}{text(evidence.because)}" + (f" ({'; '.join(map(code, places))})" if places else "")


def _remedy(remedy: Remedy, place: int, words: Mapping[str, str]) -> Iterator[str]:
    yield f"{place}. {text(remedy.title)} ({words[f'risk_{remedy.risk}']})"
    told: set[str] = set()
    for step in remedy.steps:
        if step.say:
            yield ""
            yield f"   {text(step.say)}"
        if step.shell_text:
            yield ""
            if remarks := step_remarks(step, words, told):
                yield f"   ({text('; '.join(remarks))})"
                yield ""
            yield from (f"   {row}" for row in fenced(step.shell_text, step.shell))
    yield ""


def _details(report: Report, words: Mapping[str, str]) -> Iterator[str]:
    others = [one for one in report.diagnoses if one.confidence < REPORTED and not one.explained_by]
    unknown: dict[str, list[str]] = {}
    for fact in report.facts:
        if fact.state == UNKNOWN and fact.reason and not fact.name.startswith("test."):
            unknown.setdefault(fact.reason, []).append(fact.name)
    if not (others or unknown or (report.questions and report.verdict != "healthy")):
        return
    yield "<details>"
    yield f"<summary>{words['details']}</summary>"
    yield ""
    for one in others:
        yield f"- {words['possible']}: {code(one.id)} {percent(one.confidence)}: {text(one.title)}"
    for reason, names in unknown.items():
        more = f" +{len(names) - 3}" if len(names) > 3 else ""
        yield f"- {words['unknown']}: {', '.join(map(code, names[:3]))}{more}: {text(reason)}"
    for question in report.questions if report.verdict != "healthy" else ():
        yield f"- {words['questions']}: {text(question.say)}"
    yield ""
    yield "</details>"
    yield ""


# --- lines of an article or a proof


def lines_markdown(lines: Iterable[Line]) -> str:
    """The lines of a text report, their indents as nested lists."""
    rows: list[str] = []
    for line in lines:
        content = clean(line.text)
        pad = "  " * (line.indent // 2)
        if line.style == "title":
            rows += [f"## {text(content)}", ""]
        elif line.style == "heading":
            rows += ["", f"{pad}**{text(content)}**", ""]
        elif line.style == "command":
            rows += ["", *(pad + row for row in fenced(content, "")), ""]
        elif line.style == "link":
            rows.append(f"{pad}<{content}>" if re.fullmatch(r"https?://[^\s<>]+", content) else pad + text(content))
        elif content.startswith("- "):
            rows.append(f"{pad}- {text(content[2:])}")
        elif line.indent and line.style == "plain":
            numbered = re.match(r"(\d+\. )(.*)", content, re.DOTALL)
            rows.append(pad + (numbered[1] + text(numbered[2]) if numbered else f"- {text(content)}"))
        elif line.style == "dim" and content:
            rows.append(f"{pad}<sub>{text(content)}</sub>" if line.indent else f"{pad}*{text(content)}*")
        else:
            rows.append(text(content))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(rows)).strip() + "\n"


# --- escaping: a log must not be able to write headings, links, mentions or HTML into an issue


def text(value: str) -> str:
    """One line of words, with everything that Markdown or GitHub would read as more than that escaped."""
    line = " ".join(clean(value).split())
    pieces = line.split("`")
    if len(pieces) % 2 == 0:  # a backtick without its partner
        pieces = [line.replace("`", "\\`")]
    # Every second piece is a code span, and needs no escaping.
    pieces[::2] = map(_escaped, pieces[::2])
    return re.sub(r"^([#+-]|\d+[.)](?=\s))", r"\\\1", "`".join(pieces))


def _escaped(words: str) -> str:
    words = re.sub(r"(?<!\\)([*\[\]|~]|(?<!\w)_|_(?!\w))", r"\\\1", words).replace("<", "&lt;").replace(">", "&gt;")
    words = re.sub(r"#(?=\d)", "&#35;", words)
    return re.sub(r"(?<![\w/])@(?=\w)", "&#64;", words)


def code(value: str) -> str:
    """A code span that no backtick inside can end."""
    line = " ".join(clean(value).split())[:_LONGEST_VALUE].replace("|", "¦")
    if not line:
        return ""
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def fenced(value: str, language: str) -> list[str]:
    rows = clean(value).split("\n")
    longest = max((len(run) for run in re.findall(r"`+", value)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *rows, fence]

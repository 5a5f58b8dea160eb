"""The receipt of a run of tests: the machine, its versions, each test with what was measured against what was expected,
before and after. Nothing personal is in it: no path, no name of a computer or a person.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .. import __version__
from ..model import PRESENT, Fact, Report, TestResult
from ..text import clean
from .summary import change_object, summary
from .text import Line, change_line, figure
from .words import words_for

SCHEMA = "troubleshooter.receipt/1"

_VERSIONS = (
    *("os.family", "os.release", "os.kernel", "container.kind", "wsl.version", "driver.version", "driver.cuda_version"),
    *("python.version", "python.manager", "torch.version", "torch.cuda", "cudnn.version", "nccl.version"),
    *("triton.version", "nvcc.version"),
)
_OF_A_GPU = ("gpu.name", "gpu.memory_mib", "gpu.capability", "gpu.mig", "gpu.pcie_width", "gpu.pcie_generation_max")


def receipt_json(report: Report, day: str, mode: str) -> str:
    return json.dumps(receipt_object(report, day, mode), indent=1, ensure_ascii=True) + "\n"


def receipt_object(report: Report, day: str, mode: str) -> dict[str, Any]:
    """`report` must have been made neutral already: reasons may quote what torch said."""
    return {
        "schema": SCHEMA,
        "tool": {"version": __version__, "knowledge": report.knowledge},
        "day": day,
        "mode": mode,
        "machine": dict(_versions(report)),
        "gpus": {subject: dict(values) for subject, values in _gpus(report).items()},
        "tests": [{**one._asdict(), "measured": _figures(one), "expected": dict(one.expected)} for one in report.tests],
        "counts": _counts(report),
        "verdict": report.verdict,
        "summary": summary(report),
        "change": change_object(report.change),
    }


def receipt_lines(report: Report, day: str, mode: str, language: str = "en") -> Iterator[Line]:
    words = words_for(language)
    yield Line(f"{words['receipt']} · {day} · troubleshoot {__version__}", "title")
    yield Line("")
    for name, value in _versions(report):
        yield Line(clean(f"{name}: {value}"), indent=2, hang=2)
    for subject, values in _gpus(report).items():
        yield Line(clean(f"{subject}: {', '.join(f'{name} {value}' for name, value in values)}"), indent=2, hang=2)
    yield Line("")
    counts = _counts(report)
    numbers = ", ".join(f"{counts[one]} {words[one]}" for one in ("passed", "failed", "skipped"))
    yield Line(f"{words['tests']} ({mode}): {numbers}", "heading")
    for one in report.tests:
        if one.outcome != "skipped":
            yield from _test(one, words)
    for reason, names in _skipped(report).items():
        yield Line(f"- {words['skipped']}  {', '.join(names)}: {clean(reason)}", "plain", 2, 11)
    yield Line("")
    if report.change:
        yield change_line(report.change, words)
        for name, before, after in report.change.tests:
            yield Line(f"{name}: {words.get(before, before)} → {words.get(after, after)}", indent=2)
    style = {"healthy": "good", "problem": "bad"}.get(report.verdict, "heading")
    yield Line(f"{words['verdict']}: {words[report.verdict]}. {clean(summary(report))}", style)


def _test(one: TestResult, words: Mapping[str, str]) -> Iterator[Line]:
    about = "" if one.subject == "host" else f" {one.subject}"
    style = "good" if one.outcome == "passed" else "bad"
    yield Line(
        f"{words[one.outcome]}  {one.test}{about}" + (f" · {clean(one.reason)}" if one.reason else ""), style, 2, 10
    )
    figures = _figures(one)
    shown = []
    for name, value in figures.items():
        bounds = [
            f"{words[key]} {figure(one.expected[f'{name}_{key}'])}"
            for key in ("at_most", "at_least")
            if f"{name}_{key}" in one.expected
        ]
        shown.append(f"{name} {figure(value)}" + (f" ({', '.join(bounds)})" if bounds else ""))
    if shown:
        yield Line(clean(", ".join(shown)), "dim", 4)


def _figures(one: TestResult) -> dict[str, object]:
    """Without texts of errors: a traceback holds paths, and the reason says what it came to."""
    return {name: value for name, value in one.measured.items() if name not in ("error", "archs")}


def _counts(report: Report) -> dict[str, int]:
    return {name: sum(one.outcome == name for one in report.tests) for name in ("passed", "failed", "skipped")}


def _skipped(report: Report) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in report.tests:
        if one.outcome == "skipped":
            names = found.setdefault(one.reason, [])
            if one.test not in names:
                names.append(one.test)
    return found


def _versions(report: Report) -> Iterator[tuple[str, str]]:
    for name in _VERSIONS:
        values = dict.fromkeys(_text(fact) for fact in report.facts if fact.name == name and fact.state == PRESENT)
        if values:
            yield name, ", ".join(values)


def _gpus(report: Report) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for name in _OF_A_GPU:
        for fact in report.facts:
            if fact.name == name and fact.state == PRESENT:
                found.setdefault(fact.subject, []).append((name.removeprefix("gpu."), _text(fact)))
    return dict(sorted(found.items()))


def _text(fact: Fact) -> str:
    return ", ".join(fact.value) if isinstance(fact.value, tuple) else str(fact.value)

"""A report beside an earlier one of the same Python: resolved, unchanged, or changed into something else. Pure."""

from collections.abc import Mapping
from typing import Any

from .model import Change, Report

REPORTED = 0.5


def outline(report: Report, day: str) -> dict[str, Any]:
    """What is kept of a report until the next one: no path, no name, nothing that was pasted."""
    return {
        "day": day,
        "verdict": report.verdict,
        "problems": list(_problems(report)),
        "torch": report.target.torch if report.target else "",
        "tests": {f"{one.test}@{one.subject}": one.outcome for one in report.tests},
    }


def change_since(before: object, report: Report) -> Change | None:
    """`before` is what `outline` gave, or anything at all that a file held; None if there is nothing to compare."""
    if not isinstance(before, Mapping) or not isinstance(before.get("problems"), list):
        return None
    had = tuple(str(one)[:100] for one in before["problems"][:100])
    has = _problems(report)
    if not had and not has:
        return None
    if not has:
        # Gone from sight is not yet mended: a test that passes proves it.
        word = "resolved" if report.verdict == "healthy" else "no-longer-seen"
    elif not had:
        word = "new"
    else:
        word = "unchanged" if set(had) == set(has) else "changed"
    tests = before.get("tests")
    earlier = tests if isinstance(tests, Mapping) else {}
    moved = tuple(
        (name, str(earlier[name])[:20], one.outcome)
        for one in report.tests
        if (name := f"{one.test}@{one.subject}") in earlier and earlier[name] != one.outcome
    )
    return Change(word, str(before.get("day", ""))[:20], had, has, moved)


def _problems(report: Report) -> tuple[str, ...]:
    listed = (one.id for one in report.diagnoses if one.confidence >= REPORTED and not one.explained_by)
    return tuple(dict.fromkeys(listed))

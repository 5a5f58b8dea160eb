"""The verdict in one line, and what changed since the last run, the same in every format."""

from collections.abc import Mapping
from typing import Any

from ..model import Change, Report
from .words import WORDS


def percent(confidence: float) -> str:
    """Whole percents; nothing is ever a hundred percent sure."""
    return f"{min(confidence, 0.99):.0%}"


def summary(report: Report, words: Mapping[str, str] = WORDS["en"]) -> str:
    """One line. JSON keeps to English: it is part of the contract."""
    first = report.diagnoses[0] if report.diagnoses else None
    if report.verdict == "problem" and first:
        return words["sum_problem"].format(title=first.title, id=first.id, percent=percent(first.confidence))
    if report.verdict == "healthy":
        passed = [test.test for test in report.tests if test.outcome == "passed"]
        return words["sum_passed" if passed else "sum_healthy"].format(tests=", ".join(dict.fromkeys(passed)))
    if first:
        return words["sum_likely"].format(id=first.id, percent=percent(first.confidence))
    if failed := [test.test for test in report.tests if test.outcome == "failed"]:
        return words["sum_failed"].format(tests=", ".join(dict.fromkeys(failed)))
    if any(test.outcome != "skipped" for test in report.tests):
        return words["sum_proves_nothing"]
    return words["sum_text" if all(one.kind == "text" for one in report.inputs) else "sum_untested"]


def change_object(change: Change | None) -> dict[str, Any] | None:
    if change is None:
        return None
    return {
        "word": change.word,
        "day_before": change.day,
        "before": list(change.before),
        "after": list(change.after),
        "tests": [{"test": name, "before": before, "after": after} for name, before, after in change.tests],
    }

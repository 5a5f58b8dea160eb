"""The verdict in one line, and what changed since the last run, the same in every format."""

from typing import Any

from ..model import Change, Report


def percent(confidence: float) -> str:
    """Whole percents; nothing is ever a hundred percent sure."""
    return f"{min(confidence, 0.99):.0%}"


def summary(report: Report) -> str:
    """One line in English: it is part of the JSON contract."""
    first = report.diagnoses[0] if report.diagnoses else None
    if report.verdict == "problem" and first:
        return f"{first.title} ({first.id}, {percent(first.confidence)} sure)"
    if report.verdict == "healthy":
        passed = [test.test for test in report.tests if test.outcome == "passed"]
        return f"No problem found; passed: {', '.join(dict.fromkeys(passed))}" if passed else "No problem found"
    if first:
        return f"Nothing is certain; most likely {first.id} ({percent(first.confidence)})"
    if failed := [test.test for test in report.tests if test.outcome == "failed"]:
        return f"No cause that is known fits, but tests failed: {', '.join(dict.fromkeys(failed))}"
    if any(test.outcome != "skipped" for test in report.tests):
        return "Nothing wrong was seen; the tests that were run prove nothing about a GPU"
    if all(one.kind == "text" for one in report.inputs):
        return "The text shows no fault that is known, and nothing that proves all is well"
    return "Nothing wrong was seen, and no test was run that would prove it"


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

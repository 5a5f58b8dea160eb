"""What authors of rules read: results of examples and fixtures, changes that nobody noticed, doubtful knowledge."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..errors import Problem
from ..model import Knowledge
from ..mutants import Mutant, Score
from ..rule_tests import Outcome
from ..text import clean
from .explain import near_lines
from .json_report import near_object
from .text import Line
from .words import words_for


def problem_object(problem: Problem) -> dict[str, object]:
    at = problem.at
    return {
        "message": problem.message,
        "file": at.file or None,
        "line": at.line or None,
        "column": at.column or None,
        "hint": problem.hint or None,
    }


def check_json(knowledge: Knowledge, warnings: Sequence[Problem]) -> str:
    """`troubleshooter.rules-check/1`: of knowledge that loads, so there are no errors."""
    found = {
        "schema": "troubleshooter.rules-check/1",
        "errors": [],
        "warnings": [problem_object(warning) for warning in warnings],
        "rules": len(knowledge.rules),
        "signatures": len(knowledge.signatures),
        "packs": [pack._asdict() for pack in knowledge.packs],
    }
    return json.dumps(found, indent=1) + "\n"


def test_lines(outcome: Outcome, knowledge: Knowledge) -> Iterator[Line]:
    words = words_for("en")
    for failure in outcome.failures:
        place = ":".join(str(part) for part in failure.at if part)
        yield Line(clean(f"{place}: {failure.kind} {failure.id}: {failure.says}"), "bad", hang=2)
        for near in failure.near:
            yield from near_lines(near, knowledge, words)
        if failure.fired:
            what = "matches it" if failure.kind == "signature" else "fired"
            yield Line(f"{what}: {', '.join(failure.fired)}", indent=2, hang=2)
    tried = f"{outcome.examples} examples of rules, {outcome.lines} lines of signatures, {outcome.fixtures} fixtures"
    result = f"{len(outcome.failures)} failed" if outcome.failures else "all as expected"
    yield Line(f"{tried}: {result}.", "bad" if outcome.failures else "good")


def test_json(outcome: Outcome) -> str:
    """`troubleshooter.rules-test/1`: how many were tried, and every failure with the rules that did not fire."""
    found = {
        "schema": "troubleshooter.rules-test/1",
        "examples": outcome.examples,
        "lines": outcome.lines,
        "fixtures": outcome.fixtures,
        "failures": [
            {
                "kind": failure.kind,
                "id": failure.id,
                "file": failure.at.file,
                "line": failure.at.line,
                "says": failure.says,
                "nearest": [near_object(near) for near in failure.near],
                "fired": list(failure.fired),
            }
            for failure in outcome.failures
        ],
    }
    return json.dumps(found, indent=1) + "\n"


def mutation_lines(score: Score) -> Iterator[Line]:
    for mutant in score.survivors:
        yield Line(clean(f"{mutant.at.file}:{mutant.at.line}: {mutant.rule.id}: {_told(mutant)}"), hang=2)
    caught = score.mutants - len(score.survivors)
    of_all = f"{caught} of {score.mutants} changes are noticed by an example ({score.caught:.1%})"
    yield Line(f"{of_all}.", "bad" if score.survivors else "good")


_WANTED = {
    "dropped": "a quiet example is missing in which only this condition fails",
    "negated": "an example that fires is missing",
    "edge": "an example with just that value is missing",
    "moved-up": "an example between the two is missing",
    "moved-down": "an example between the two is missing",
    "value-dropped": "an example with that value is missing",
}


def _told(mutant: Mutant) -> str:
    return f"nobody notices {mutant.change}; {_WANTED[mutant.kind]}"


def mutation_json(score: Score) -> str:
    """`troubleshooter.rules-mutate/1`: the part of all changes that an example notices, and those that none does."""
    found = {
        "schema": "troubleshooter.rules-mutate/1",
        "mutants": score.mutants,
        "caught": round(score.caught, 4),
        "survivors": [
            {
                "rule": mutant.rule.id,
                "file": mutant.at.file,
                "line": mutant.at.line,
                "kind": mutant.kind,
                "change": mutant.change,
            }
            for mutant in score.survivors
        ],
    }
    return json.dumps(found, indent=1) + "\n"


def warning_lines(warnings: Iterable[Problem]) -> Iterator[Line]:
    for warning in warnings:
        yield Line(clean(f"warning: {warning}"), hang=2)


def coverage_lines(knowledge: Knowledge, counts: Mapping[str, int]) -> Iterator[Line]:
    for rule in knowledge.rules:
        if not counts[rule.id]:
            yield Line(clean(f"{rule.at.file}:{rule.at.line}: {rule.id}: no fixture fires it"), hang=2)
    fired = sum(map(bool, counts.values()))
    yield Line(f"{fired} of {len(counts)} rules are fired by a fixture ({fired / max(1, len(counts)):.1%}).")


def coverage_json(counts: Mapping[str, int]) -> str:
    """`troubleshooter.rules-coverage/1`: by rule the number of fixtures in which it fires."""
    return json.dumps({"schema": "troubleshooter.rules-coverage/1", "fixtures": dict(counts)}, indent=1) + "\n"

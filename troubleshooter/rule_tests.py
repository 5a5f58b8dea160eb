"""The examples of rules and signatures, and fixtures, without pytest; and of each that fails why."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .counterfactual import Missing, Near, why_not
from .errors import KnowledgeError, Problem, UsageError, did_you_mean
from .examples import fires, truths
from .model import (
    SILENCE,
    Example,
    FactRef,
    FactSpec,
    Knowledge,
    Location,
    Report,
    Request,
    Rule,
    Signature,
    Value,
)
from .rank import REPORTED
from .text import clean

if TYPE_CHECKING:
    from .pipeline import Thought

HEALTHY = "healthy"
"""The folder of fixtures in which nothing is wrong."""

_FIXTURE_KEYS = ("origin", "text", "set", "recording", "expect", "about")
_EXPECT_KEYS = ("verdict", "first", "never", "confidence", "remedies")
_NEAREST = 3


class Fixture(NamedTuple):
    """A case with what must come out of it. `folder` is the id of the diagnosis, or healthy."""

    name: str
    folder: str
    at: Location
    text: str | None
    hints: tuple[tuple[str, str], ...]
    recording: Mapping[str, object] | None
    expect: Mapping[str, Any]


class Failure(NamedTuple):
    """`kind`: rule, signature or fixture. `near`: rules that did not fire and what each lacks; `fired`: what did."""

    kind: str
    id: str
    at: Location
    says: str
    near: tuple[Near, ...] = ()
    fired: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """How many examples of rules, lines of signatures and fixtures were tried, and what failed."""

    examples: int
    lines: int
    fixtures: int
    failures: tuple[Failure, ...]


def chosen(knowledge: Knowledge, ids: Sequence[str]) -> Callable[[str], bool]:
    """Whether an id is meant by `ids`: of rules, signatures, diagnoses, findings, notes; all are if there are none."""
    known = {HEALTHY, *knowledge.articles, *(signature.id for signature in knowledge.signatures)}
    for rule in knowledge.rules:
        known |= {rule.id, rule.head}
    problems = [Problem(f"nothing is called {one!r}", Location(""), did_you_mean(one, known)) for one in ids]
    if problems := [problem for one, problem in zip(ids, problems, strict=True) if one not in known]:
        raise UsageError(problems[0].message, problems[0].hint)
    wanted = frozenset(ids)
    return lambda name: not wanted or name in wanted


def try_out(knowledge: Knowledge, fixtures: Iterable[Fixture], means: Callable[[str], bool]) -> Outcome:
    """`knowledge` must hold its examples. Of rules, signatures and fixtures only those are tried that `means` names."""
    failures: list[Failure] = []
    examples = lines = tried = 0
    for rule in knowledge.rules:
        if means(rule.id) or means(rule.diagnosis) or means(rule.head):
            examples += len(rule.fires) + len(rule.quiet)
            failures += _of_rule(rule, knowledge)
    for signature in knowledge.signatures:
        if means(signature.id):
            lines += len(signature.matches) + len(signature.ignores)
            failures += _of_signature(signature, knowledge)
    for fixture in fixtures:
        if means(fixture.folder) or means(fixture.name):
            tried += 1
            failures += _of_fixture(fixture, knowledge)
    return Outcome(examples, lines, tried, tuple(failures))


def fired_by(knowledge: Knowledge, fixtures: Iterable[Fixture]) -> dict[str, int]:
    """By rule the number of fixtures in which it fires, 0 for those that none fires."""
    counts = {rule.id: 0 for rule in knowledge.rules}
    for fixture in fixtures:
        found = _thought(report_on(fixture, knowledge), knowledge).inference.conclusions
        for rule in {support.rule for one in found for support in one.supports}:
            counts[rule] += 1
    return counts


# --- examples of rules


def _of_rule(rule: Rule, knowledge: Knowledge) -> Iterator[Failure]:
    for example in rule.fires:
        if not fires(rule, example, knowledge.rules, knowledge.facts):
            near = Near(rule, "host", tuple(_lacks(rule, example, knowledge.facts)))
            yield Failure("rule", rule.id, example.at, "does not fire on an example on which it must", (near,))
    for example in rule.quiet:
        if fires(rule, example, knowledge.rules, knowledge.facts):
            yield Failure(
                "rule", rule.id, example.at, "fires on an example on which it must stay quiet", (), (rule.id,)
            )


def _lacks(rule: Rule, example: Example, catalogue: Mapping[str, FactSpec]) -> Iterator[Missing]:
    stated = dict(example.facts)
    for condition, truth in zip(rule.when, truths(rule.when, example, catalogue), strict=True):
        if truth is True:
            continue
        found: Value | None = stated.get(condition.fact)
        wanted = stated.get(condition.operand.fact) if isinstance(condition.operand, FactRef) else None
        if condition.fact.startswith("finding."):
            found = found is True
        yield Missing(
            condition, "otherwise" if truth is False or condition.fact in stated else "unknown", found, wanted
        )


# --- examples of signatures


def _of_signature(signature: Signature, knowledge: Knowledge) -> Iterator[Failure]:
    pattern = re.compile(signature.pattern, re.ASCII)
    for line in signature.matches:
        if not pattern.search(clean(line)):
            others = [one.id for one in knowledge.signatures if re.search(one.pattern, clean(line), re.ASCII)]
            says = f"does not match {line!r:.200}"
            if not any(literal in line.lower() for literal in signature.literals):
                says += f"; none of {', '.join(map(repr, signature.literals))} is in it"
            yield Failure("signature", signature.id, signature.at, says, fired=tuple(others))
    for line in signature.ignores:
        if found := pattern.search(clean(line)):
            says = f"matches {found[0]!r:.100} in the look-alike {line!r:.200}"
            yield Failure("signature", signature.id, signature.at, says, fired=(signature.id,))


# --- fixtures


def read_fixtures(folder: Path, shown_below: str = "") -> Iterator[Fixture]:
    """Those below `folder`. Raises KnowledgeError with everything that is wrong with any of them."""
    from .knowledge.fields import plain
    from .knowledge.yaml_marks import read_yaml

    problems: list[Problem] = []
    found: list[Fixture] = []
    for path in sorted(folder.rglob("*.yaml")) if folder.is_dir() else ():
        name = path.relative_to(folder).with_suffix("").as_posix()
        shown_as = f"{shown_below}/fixtures/{name}.yaml" if shown_below else f"fixtures/{name}.yaml"
        node, mistakes = read_yaml(path, shown_as)
        problems += mistakes
        if node is None:
            continue
        read = _thawed(plain(node))
        at = Location(shown_as, 1, 1)
        mistakes = list(_misshapen(read, at))
        problems += mistakes
        if not mistakes:
            hints = tuple((str(name), str(value)) for name, value in read.get("set", {}).items())
            place = path.parent.name if path.parent != folder else ""
            found.append(Fixture(name, place, at, read.get("text"), hints, read.get("recording"), read["expect"]))
    if problems:
        raise KnowledgeError(problems)
    yield from found


def _thawed(value: Any) -> Any:
    """Lists for tuples: what a recording in JSON holds."""
    if isinstance(value, tuple):
        return [_thawed(one) for one in value]
    return {name: _thawed(one) for name, one in value.items()} if isinstance(value, dict) else value


def _misshapen(read: Any, at: Location) -> Iterator[Problem]:
    if not isinstance(read, dict):
        yield Problem("a fixture is a mapping of keys to values", at)
        return
    for key in read:
        if key not in _FIXTURE_KEYS:
            yield Problem(f"unknown key {key!r}", at, did_you_mean(str(key), _FIXTURE_KEYS))
    if not isinstance(read.get("text", ""), str) or not any(key in read for key in ("text", "recording", "set")):
        yield Problem("a fixture has a text, a recording or facts under 'set'", at)
    for key in ("recording", "set"):
        if not isinstance(read.get(key, {}), dict):
            yield Problem(f"{key!r} is a mapping", at)
    expect = read.get("expect")
    if not isinstance(expect, dict) or expect.get("verdict") not in ("problem", "healthy", "inconclusive"):
        yield Problem("'expect' needs a verdict", at, "problem, healthy or inconclusive")
        return
    for key in expect:
        if key not in _EXPECT_KEYS:
            yield Problem(f"unknown key {key!r} of 'expect'", at, did_you_mean(str(key), _EXPECT_KEYS))


def report_on(fixture: Fixture, knowledge: Knowledge, engine: str = "python") -> Report:
    from .pipeline import check, diagnose_text
    from .recording import RecordedMachine

    texts = () if fixture.text is None else ((f"{fixture.name}.yaml", fixture.text.encode()),)
    request = Request(texts=texts, hints=fixture.hints, engine=engine)
    if fixture.recording is None:
        return diagnose_text(request, knowledge)
    return check(request, knowledge, RecordedMachine(fixture.recording, fixture.name))


def _of_fixture(fixture: Fixture, knowledge: Knowledge) -> Iterator[Failure]:
    report = report_on(fixture, knowledge)
    expect = fixture.expect
    confidences = {one.id: one.confidence for one in reversed(report.diagnoses)}
    wanted = str(expect.get("first", ""))
    found = report.diagnoses[0].id if report.diagnoses else ""
    says: list[str] = []
    near: tuple[Near, ...] = ()
    fired: list[str] = []
    if report.verdict != expect["verdict"]:
        says.append(f"the verdict is {report.verdict} and not {expect['verdict']}")
    if fixture.folder == HEALTHY:
        accused = [one for one in report.diagnoses if one.confidence >= REPORTED]
        says += [f"{one.id} is named on a case in which nothing is wrong" for one in accused]
        fired += [rule for one in accused for rule in _rules_for(one.id, report)]
    if wanted and found != wanted:
        says.append(f"{found or 'nothing'} comes first and not {wanted}")
        near = _nearest(wanted, report, knowledge)
        fired += _rules_for(found, report)
    elif wanted:
        least = expect.get("confidence", {}).get("at_least", REPORTED)
        if confidences[wanted] < least:
            says.append(f"{wanted} is {confidences[wanted]:.2f} sure, below {least}")
            near = _nearest(wanted, report, knowledge)
        offered = [remedy.id for remedy in report.diagnoses[0].remedies]
        lacking = [name for name in expect.get("remedies", ()) if name not in offered]
        says += [f"the remedy {name} is not offered, but {', '.join(offered) or 'none'}" for name in lacking]
    for other in expect.get("never", ()):
        if confidences.get(other, 0.0) >= REPORTED:
            says.append(f"{other} must not be named and is {confidences[other]:.2f} sure")
            fired += _rules_for(other, report)
    if says:
        yield Failure("fixture", fixture.name, fixture.at, "; ".join(says), near, tuple(dict.fromkeys(fired)))


def _rules_for(diagnosis: str, report: Report) -> list[str]:
    return [
        evidence.rule
        for one in report.diagnoses
        if one.id == diagnosis
        for evidence in one.evidence
        if evidence.supports and evidence.rule
    ]


def _nearest(diagnosis: str, report: Report, knowledge: Knowledge) -> tuple[Near, ...]:
    thought = _thought(report, knowledge)
    return why_not(diagnosis, thought.facts, thought.inference.conclusions, knowledge, _NEAREST)


def _thought(report: Report, knowledge: Knowledge) -> "Thought":
    """What the pure middle makes of all that the report observed."""
    from .pipeline import think

    claims = [claim for fact in report.facts for claim in fact.claims]
    return think((*claims, SILENCE), knowledge, "python")

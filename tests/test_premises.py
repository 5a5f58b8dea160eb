"""Every premise that `why` shows is needed: without it the step that it holds up falls, and no cause gets surer."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from troubleshooter.knowledge import load
from troubleshooter.model import (
    ABSENT,
    PRESENT,
    SILENCE,
    UNKNOWN,
    Claim,
    Condition,
    Diagnosis,
    FactSpec,
    Firing,
    Ground,
    Knowledge,
    Rule,
    Source,
)
from troubleshooter.pipeline import Thought, think
from troubleshooter.proof import prove
from troubleshooter.rule_tests import Fixture, read_fixtures, report_on

KNOWLEDGE = load()
FIXTURES = list(read_fixtures(Path(__file__).parent.parent / "fixtures"))
SAMPLE = FIXTURES[::12]
ASSUMED = Source("set", "set", "assumed")


class Premise(NamedTuple):
    """What holds up a step of a proof: a fact as it was seen, or that something is not there."""

    kind: str
    name: str
    subject: str
    state: str
    value: object


def premises(grounds: tuple[Ground, ...]) -> Iterator[tuple[Premise, tuple[Ground, ...]]]:
    """The leaves below these grounds, each with the grounds of the step (a rule's) that it holds up directly."""
    for ground in grounds:
        for leaf in leaves(ground):
            yield leaf, grounds
        for firing in inner(ground):
            yield from premises(firing.grounds)


def leaves(ground: Ground) -> Iterator[Premise]:
    if ground.kind == "finding":
        return
    if ground.bases:
        for base in ground.bases:
            yield from leaves(base)
    else:
        yield Premise(ground.kind, ground.name, ground.subject, ground.state, ground.value)


def inner(ground: Ground) -> Iterator[Firing]:
    yield from ground.firings
    for base in ground.bases:
        yield from inner(base)


def steps(firings: tuple[Firing, ...]) -> Iterator[Firing]:
    for firing in firings:
        yield firing
        for ground in firing.grounds:
            yield from steps(tuple(inner(ground)))


def without(premise: Premise, claims: tuple[Claim, ...]) -> tuple[tuple[Claim, ...], Knowledge]:
    """The claims and the knowledge in which the premise does not hold."""
    name, subject = premise.name, premise.subject
    others = tuple(claim for claim in claims if (claim.name, claim.subject) != (name, subject))
    if premise.kind == "absence":  # somebody concludes it after all
        flag = f"assumed.{name}"
        kind = subject.partition(":")[0]
        rule = Rule("assumed", (Condition(flag, "is", True),), "", concludes=name)
        catalogue = {**KNOWLEDGE.facts, flag: FactSpec(flag, "flag", kind, "")}
        told = Claim(flag, subject, PRESENT, True, ASSUMED)
        return (*claims, told), KNOWLEDGE._replace(facts=catalogue, rules=(*KNOWLEDGE.rules, rule), rule_by_id=None)
    if premise.state == UNKNOWN:
        return (*others, Claim(name, subject, ABSENT, None, ASSUMED)), KNOWLEDGE
    if premise.value is False and name.startswith("log."):  # that no text shows it
        return (*others, Claim(name, subject, PRESENT, True, ASSUMED)), KNOWLEDGE
    return others, KNOWLEDGE


def told(ground: Ground) -> tuple[object, ...]:
    """A ground with all facts below it, so that one that came about in another way is another one."""
    return ground.kind, ground.name, ground.subject, ground.state, ground.value, tuple(map(told, ground.bases))


def rests_on(firing: Firing, premise: Premise) -> bool:
    return any(leaf == premise for ground in firing.grounds for leaf in leaves(ground))


def all_steps(name: str, thought: Thought, knowledge: Knowledge) -> set[tuple[object, ...]]:
    proofs = prove(name, thought.inference, thought.facts, thought.diagnoses, knowledge)
    return {(firing.rule, tuple(map(told, firing.grounds))) for proof in proofs for firing in steps(proof.firings)}


def surest(name: str, diagnoses: tuple[Diagnosis, ...]) -> float:
    return max((one.confidence for one in diagnoses if one.id == name), default=0.0)


def try_premises(fixture: Fixture) -> tuple[int, int]:
    """How many premises were taken away one by one, and how many of them made the cause less sure."""
    report = report_on(fixture, KNOWLEDGE)
    claims = (*(claim for fact in report.facts for claim in fact.claims), SILENCE)
    thought = think(claims, KNOWLEDGE, "python")
    tried = weaker = 0
    for name in dict.fromkeys(one.id for one in thought.diagnoses):
        before = surest(name, thought.diagnoses)
        whole = all_steps(name, thought, KNOWLEDGE)
        proofs = prove(name, thought.inference, thought.facts, thought.diagnoses, KNOWLEDGE)
        speaking = [firing for proof in proofs for firing in proof.firings if firing.supports]
        against = [firing for proof in proofs for firing in proof.firings if not firing.supports]
        speaks_against = {
            leaf for firing in steps(tuple(against)) for ground in firing.grounds for leaf in leaves(ground)
        }
        held: dict[Premise, list[Firing]] = {}
        for firing in steps(tuple(speaking)):
            for ground in firing.grounds:
                for leaf in leaves(ground):
                    held.setdefault(leaf, []).append(firing)
        for premise, holding in held.items():
            less, knowledge = without(premise, claims)
            after = think(less, knowledge, "python")
            left = all_steps(name, after, knowledge)
            for firing in holding:
                step = firing.rule, tuple(map(told, firing.grounds))
                assert step not in left, f"{fixture.name}: {name}: {firing.rule} does not need {premise}"
            tried += 1
            now = surest(name, after.diagnoses)
            weaker += now < before
            # Without a line a text says something else, and a table may say again what was seen (the build by the
            # version): where the cause rests on something new, it may be as sure and surer.
            if not left <= whole:
                continue
            if len(less) < len(claims) and premise not in speaks_against:
                assert now <= before, f"{fixture.name}: without {premise} {name} is surer: {now} > {before}"
            if all(rests_on(firing, premise) for firing in speaking):
                assert now < before, f"{fixture.name}: {name} rests on {premise} alone and stays"
    return tried, weaker


@pytest.mark.parametrize("fixture", SAMPLE, ids=lambda one: one.name)
def test_a_conclusion_falls_or_weakens_without_any_premise_of_its_proof(fixture: Fixture) -> None:
    try_premises(fixture)


@pytest.mark.slow
def test_every_premise_of_every_fixture_is_needed() -> None:
    counts = [try_premises(fixture) for fixture in FIXTURES]
    tried, weaker = (sum(column) for column in zip(*counts, strict=True))
    assert tried > 900
    # The others hold up a second witness of what a first one has shown: the step falls, and the cause is as sure.
    assert weaker / tried > 0.6

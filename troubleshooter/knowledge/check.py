"""Checks across files: every name that a rule, article or signature uses must exist and fit its type."""

import re
from collections.abc import Iterable, Iterator, Mapping

from ..errors import Problem, did_you_mean
from ..model import (
    Action,
    ActionForm,
    Article,
    Condition,
    FactRef,
    FactSpec,
    Knowledge,
    Location,
    Rule,
    StepSpec,
    Value,
)
from ..versions import order
from .read import STATES, TESTS, misspelt
from .wheels import check_wheels

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_OF_STEPS = re.compile(r"\{([^{}|*]*)(?:\*|\|[^{}]*)?\}")
"""In steps of remedies a text for the unknown may follow, or a star (see `model.Action`)."""
_ORDERED = ("below", "at_most", "above", "at_least")


def check_knowledge(knowledge: Knowledge) -> Iterator[Problem]:
    """Every mistake that needs more than one file to be seen."""
    from ..engine import check_program

    findings = {rule.concludes for rule in knowledge.rules if rule.concludes}
    yield from _doubled(((rule.id, rule.at) for rule in knowledge.rules), "rule")
    yield from _doubled(((signature.id, signature.at) for signature in knowledge.signatures), "signature")
    for rule in knowledge.rules:
        yield from _check_rule(rule, knowledge, findings)
    for signature in knowledge.signatures:
        groups = _groups(signature.pattern)
        for fact, group in signature.facts:
            if fact not in knowledge.facts:
                yield misspelt(fact, knowledge.facts, "fact", signature.at)
            if not group.startswith("=") and group not in groups:
                yield misspelt(group, groups, "group", signature.at)
    for article in knowledge.articles.values():
        yield from _check_article(article, knowledge, findings)
    for action in knowledge.actions.values():
        yield from _check_action(action, knowledge, findings)
    yield from check_wheels(knowledge)
    for table in knowledge.tables.values():
        for row in table.rows:
            if missing := [key for key in table.key if key not in row]:
                yield Problem(f"a row of {table.name!r} has no {missing[0]!r}: {dict(row)!r:.80}", table.at)
    yield from check_program(knowledge.rules, knowledge.facts)


def _groups(pattern: str) -> Mapping[str, int]:
    try:
        return re.compile(pattern).groupindex
    except re.error:  # told of where the pattern is read
        return {}


def _doubled(named: Iterable[tuple[str, Location]], what: str) -> Iterator[Problem]:
    first: dict[str, Location] = {}
    for name, at in named:
        if name in first:
            yield Problem(f"there are two {what}s {name!r}", at, f"first in {first[name].file}:{first[name].line}")
        first.setdefault(name, at)


def _check_rule(rule: Rule, knowledge: Knowledge, findings: set[str]) -> Iterator[Problem]:
    if rule.diagnosis and rule.diagnosis not in knowledge.articles:
        yield misspelt(rule.diagnosis, knowledge.articles, "diagnosis", rule.at)
    if rule.evidence and rule.evidence not in knowledge.strengths.evidence:
        yield misspelt(rule.evidence, knowledge.strengths.evidence, "strength", rule.at)
    names = set(findings)
    for condition in rule.when:
        yield from check_condition(condition, knowledge.facts, findings)
        names.add(condition.fact)
        if isinstance(condition.operand, FactRef):
            names.add(condition.operand.fact)
    used = {condition.fact for condition in rule.when} | {
        condition.operand.fact for condition in rule.when if isinstance(condition.operand, FactRef)
    }
    for name in _PLACEHOLDER.findall(rule.because):
        if name not in used:
            hint = did_you_mean(name, used) or "only facts of the rule's own conditions can stand in 'because'"
            yield Problem(f"'because' names {{{name}}}, which no condition of the rule uses", rule.at, hint)
    for example in (*rule.fires, *rule.quiet):
        for name, value in example.facts:
            if name in findings:
                continue
            if (spec := knowledge.facts.get(name)) is None:
                yield misspelt(name, {**knowledge.facts, **dict.fromkeys(findings)}, "fact", example.at)
            elif value is not None and (problem := _misfit(value, spec, listed=spec.type in ("texts", "versions"))):
                yield Problem(f"{name}: {problem}", example.at)


def check_condition(condition: Condition, catalogue: Mapping[str, FactSpec], findings: set[str]) -> Iterator[Problem]:
    if condition.op == "no" or condition.fact.startswith("finding."):
        if condition.fact not in findings:
            yield misspelt(condition.fact, findings, "finding", condition.at)
        if condition.op not in ("no", "state"):
            yield Problem("a finding has no value to compare", condition.at, "state: present, or no: finding.…")
        return
    spec = catalogue.get(condition.fact)
    if spec is None:
        yield misspelt(condition.fact, catalogue, "fact", condition.at)
        return
    operand = condition.operand
    if condition.op == "state":
        if operand not in STATES:
            yield Problem(f"'state' cannot be {operand!r}", condition.at, f"one of {', '.join(STATES)}")
        return
    if condition.op in _ORDERED and spec.type not in ("version", "number"):
        yield Problem(f"{spec.name} is {spec.type}, which has no order", condition.at)
    if condition.op == "has" and spec.type not in ("texts", "versions"):
        yield Problem(f"{spec.name} is {spec.type}, no list", condition.at, "'is' compares the whole value")
    if condition.op == "matches":
        yield from _check_match(condition, spec)
        return
    if isinstance(operand, FactRef):
        other = catalogue.get(operand.fact)
        if other is None:
            yield misspelt(operand.fact, catalogue, "fact", condition.at)
        elif condition.op != "has" and other.type != spec.type:
            yield Problem(f"{spec.name} is {spec.type} and {other.name} is {other.type}", condition.at)
        return
    values = operand if condition.op == "one_of" and isinstance(operand, tuple) else (operand,)
    if condition.op == "one_of" and not isinstance(operand, tuple):
        yield Problem("'one_of' needs a list", condition.at)
    for value in values:
        if value is None:
            yield Problem("null is no value", condition.at, "state: absent says that a thing is not there")
        elif problem := _misfit(value, spec):
            yield Problem(f"{spec.name}: {problem}", condition.at)


def _check_match(condition: Condition, spec: FactSpec) -> Iterator[Problem]:
    from .patterns import check_pattern

    if spec.type not in ("text", "version") or not isinstance(condition.operand, str):
        yield Problem("'matches' compares text with a pattern", condition.at)
        return
    for message, hint in check_pattern(condition.operand):
        # A fact is short and one line: neither the literal nor the line end matters here, the syntax does.
        if "literal" not in message and "line end" not in message:
            yield Problem(message, condition.at, hint)


def _misfit(value: Value, spec: FactSpec, listed: bool = False) -> str:
    """Why `value` cannot be one of this fact's (`listed`: all its) values, or nothing."""
    if listed and spec.type in ("texts", "versions"):
        return "" if isinstance(value, tuple) else f"{value!r} is no list"
    if spec.type == "flag":
        return "" if isinstance(value, bool) else f"{value!r} is neither true nor false"
    if spec.type == "number":
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
        return "" if fits else f"{value!r} is no number"
    if not isinstance(value, str):
        return f"{value!r} is not text; versions and texts are quoted"
    if spec.type in ("version", "versions") and order(value) is None:
        return f"{value!r} is no version"
    if spec.one_of and value not in spec.one_of:
        return f"{value!r} is none of its values; " + (
            did_you_mean(value, spec.one_of) or f"one of {', '.join(spec.one_of)}"
        )
    return ""


def _check_article(article: Article, knowledge: Knowledge, findings: set[str]) -> Iterator[Problem]:
    if article.base_rate not in knowledge.strengths.base_rates:
        yield misspelt(article.base_rate, knowledge.strengths.base_rates, "base rate", article.at)
    for name in (*article.explains, *(other for other, _ in article.not_to_confuse_with)):
        if name not in knowledge.articles:
            yield misspelt(name, knowledge.articles, "diagnosis", article.at)
    for name in article.verify:
        if name not in TESTS:
            yield misspelt(name, TESTS, "test", article.at)
    for effect in article.confirm:
        if effect.strength not in knowledge.strengths.evidence:
            yield misspelt(effect.strength, knowledge.strengths.evidence, "strength", article.at)
    for remedy in article.remedies:
        yield from _check_circumstances((*remedy.when, *remedy.unless), knowledge, findings)
        for step in remedy.steps:
            yield from _check_circumstances((*step.when, *step.unless), knowledge, findings)
            yield from _check_step(step, knowledge, remedy.at)


def _check_circumstances(
    conditions: Iterable[Condition], knowledge: Knowledge, findings: set[str]
) -> Iterator[Problem]:
    """Conditions of remedies, steps and forms: they are asked of facts alone, after all rules have spoken."""
    for condition in conditions:
        if condition.op == "no" or condition.fact.startswith("finding."):
            hint = "ask for the fact that the finding rests on"
            yield Problem("a remedy cannot ask for a finding", condition.at, hint)
        else:
            yield from check_condition(condition, knowledge.facts, findings)


def _check_step(step: StepSpec, knowledge: Knowledge, at: Location) -> Iterator[Problem]:
    texts = [step.say, *(value or "" for _, value in step.set_env), *(value for _, value in step.arguments)]
    if step.do:
        if (action := knowledge.actions.get(step.do)) is None:
            yield misspelt(step.do, knowledge.actions, "action", at)
        else:
            wanted = {name for form in action.forms for text in _texts(form) for name in _OF_STEPS.findall(text)}
            for name, _ in step.arguments:
                if name not in wanted:
                    yield misspelt(name, wanted - set(knowledge.facts), f"argument of {step.do!r}", at)
            given = {*knowledge.facts, *dict(step.arguments)}
            # Of a form whose placeholder has no value the next is taken: one that has them all is enough.
            if not any(_wanted(form) <= given for form in action.forms):
                lacking = sorted(set().union(*(_wanted(form) for form in action.forms)) - given)
                yield Problem(f"no form of {step.do!r} can be written without {', '.join(lacking)}", at)
    for text in texts:
        for name in _OF_STEPS.findall(text):
            if name not in knowledge.facts:
                yield misspelt(name, knowledge.facts, "fact", at)


def _check_action(action: Action, knowledge: Knowledge, findings: set[str]) -> Iterator[Problem]:
    for note in action.notes:
        yield from _check_circumstances((*note.when, *note.unless), knowledge, findings)
        for name in _OF_STEPS.findall(note.say):
            if name not in knowledge.facts:
                yield misspelt(name, knowledge.facts, "fact", action.at)
    for form in action.forms:
        yield from _check_circumstances(form.when, knowledge, findings)
        for text in _texts(form):
            for name in _OF_STEPS.findall(text):
                # Facts have a point in their names; arguments, which the steps give, have none.
                if "." in name and name not in knowledge.facts:
                    yield misspelt(name, knowledge.facts, f"placeholder of {action.name!r}", action.at)


def _texts(form: ActionForm) -> Iterator[str]:
    yield form.say
    for command in form.commands:
        yield from command


def _wanted(form: ActionForm) -> set[str]:
    """The placeholders without which this form cannot be written."""
    texts = [form.say, *(word for command in form.commands for word in command if not word.endswith("?"))]
    found = [match for text in texts for match in _OF_STEPS.finditer(text)]
    return {match[1] for match in found if "|" not in match[0]}

"""Whether a rule fires on the facts of one of its own examples: how a rule is tested without a machine."""

from collections.abc import Iterable, Mapping, Sequence

from .engine import infer
from .engine.conditions import Truth, holds
from .model import ABSENT, HOST, PRESENT, Condition, Example, Fact, FactRef, FactSpec, Rule, Source, Value

_SOURCE = Source("set", "set", "an example")
_STATED = "example.stated"


def fires(rule: Rule, example: Example, rules: Sequence[Rule], catalogue: Mapping[str, FactSpec]) -> bool:
    """The rule alone, on these facts; a finding that the example names is there, any other is not.

    Facts about GPUs speak of gpu:0, those about packages of package:0 and so on.
    """
    facts: list[Fact] = []
    helpers: list[Rule] = []
    stated = {**catalogue}
    for name, value in example.facts:
        if name.startswith("finding."):
            if value is True:
                helper, fact, spec = _stating(name, rules, catalogue)
                helpers.append(helper)
                facts.append(fact)
                stated[spec.name] = spec
            continue
        spec = catalogue[name]
        subject = HOST if spec.subject == HOST else f"{spec.subject}:0"
        facts.append(Fact(name, subject, ABSENT if value is None else PRESENT, value, _SOURCE))
    # Findings that a rule asks for and the example does not name must still be concluded by somebody.
    asked = {condition.fact for condition in rule.when if condition.fact.startswith("finding.")}
    for name in sorted(asked - {helper.concludes for helper in helpers}):
        helper, fact, spec = _stating(name, rules, catalogue)
        helpers.append(helper)
        facts.append(fact._replace(value=False))
        stated[spec.name] = spec
    inference = infer([rule, *helpers], facts, stated, "python")
    return any(support.rule == rule.id for one in inference.conclusions for support in one.supports)


def _stating(finding: str, rules: Sequence[Rule], catalogue: Mapping[str, FactSpec]) -> tuple[Rule, Fact, FactSpec]:
    """A rule that concludes the finding from a made-up flag, about the same kind of subject as the real ones."""
    kind = HOST
    for rule in rules:
        if rule.concludes == finding:
            kinds = [spec.subject for one in rule.when if (spec := catalogue.get(one.fact)) and spec.subject != HOST]
            kind = kinds[0] if kinds else HOST
            break
    name = f"{_STATED}.{finding}"
    subject = HOST if kind == HOST else f"{kind}:0"
    rule = Rule(f"example-{finding}", (Condition(name, "is", True),), "", concludes=finding)
    return rule, Fact(name, subject, PRESENT, True, _SOURCE), FactSpec(name, "flag", kind, "")


def truths(when: Iterable[Condition], example: Example, catalogue: Mapping[str, FactSpec]) -> tuple[Truth, ...]:
    """The truth of each condition on the facts of an example, without an engine; `fires` says the same of a rule."""
    stated = dict(example.facts)
    return tuple([_truth(condition, stated, catalogue) for condition in when])


def _truth(condition: Condition, stated: Mapping[str, Value | None], catalogue: Mapping[str, FactSpec]) -> Truth:
    if condition.fact.startswith("finding."):
        there = stated.get(condition.fact) is True
        return there if condition.op == "state" and condition.operand == PRESENT else not there
    other = _fact(condition.operand.fact, stated) if isinstance(condition.operand, FactRef) else None
    return holds(condition, catalogue[condition.fact].type, _fact(condition.fact, stated), other)


def _fact(name: str, stated: Mapping[str, Value | None]) -> Fact | None:
    if name not in stated:
        return None
    value = stated[name]
    return Fact(name, HOST, ABSENT if value is None else PRESENT, value, _SOURCE)

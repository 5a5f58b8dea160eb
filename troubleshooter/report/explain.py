"""An article, and the proof of a conclusion, as lines for people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..counterfactual import Changed, Missing, Near
from ..model import (
    ABSENT,
    PRESENT,
    Action,
    Article,
    Condition,
    FactRef,
    Firing,
    Ground,
    Knowledge,
    Proof,
    Rule,
    StepSpec,
)
from ..text import clean
from .summary import percent
from .text import Line, source_text
from .words import words_for

_MOST_SOURCES = 3


def article_lines(
    article: Article,
    rules: Iterable[Rule],
    titles: Mapping[str, str],
    actions: Mapping[str, Action],
    language: str = "en",
) -> Iterator[Line]:
    """`titles` of all articles by id, for those that this one names."""
    words = words_for(language)
    yield Line(clean(article.title), "title")
    facts = [article.id, article.area, words[f"severity_{article.severity}"], words[f"rate_{article.base_rate}"]]
    yield Line(" · ".join(facts), "dim")
    yield from _section(words["means"])
    yield Line(clean(article.meaning), indent=2)
    if article.not_to_confuse_with:
        yield from _section(words["confuse"])
        for name, says in article.not_to_confuse_with:
            yield Line(f"- {name}: {clean(says)}", indent=2, hang=2)
    if article.explains:
        yield from _section(words["causes"])
        for name in article.explains:
            yield Line(f"- {name}: {titles.get(name, '')}".removesuffix(": "), indent=2, hang=2)
    yield from _section(words["do"])
    seen: set[object] = set()
    for remedy in article.remedies:
        # Forms of one remedy for different circumstances bear one title.
        if remedy.title not in seen:
            seen.add(remedy.title)
            yield Line(f"{len(seen)}. {clean(remedy.title)} ({words[f'risk_{remedy.risk}']})", indent=2, hang=3)
            for step in remedy.steps:
                yield from _step(step, actions, words)
    known = list(rules)
    for heading, side in (("rules", True), ("rules_against", False)):
        chosen = [rule for rule in known if rule.evidence.endswith("-against") is not side]
        if chosen:
            yield from _section(words[heading])
        for rule in chosen:
            yield Line(f"- {clean(rule.because)}", indent=2, hang=2)
            yield Line(f"{rule.evidence}, {rule.id} ({rule.at.file}:{rule.at.line})", "dim", 4, 2)
    if article.verify:
        yield from _section(words["tests_verify"])
        yield Line(", ".join(article.verify), indent=2)
    yield from _section(words["references"])
    for reference in article.references:
        yield Line(f"- {clean(reference.says)} ({words['checked']} {reference.checked})", indent=2, hang=2)
        yield Line(clean(reference.url), "link", 4)


def _section(heading: str) -> Iterator[Line]:
    yield Line("")
    yield Line(heading, "heading")


def _step(step: StepSpec, actions: Mapping[str, Action], words: Mapping[str, str]) -> Iterator[Line]:
    if step.say:
        yield Line(clean(step.say), indent=5)
    if step.do and step.do in actions:
        given = " · ".join(value for _, value in step.arguments)
        yield Line(clean(actions[step.do].meaning + (f": {given}" if given else "")), indent=5)
    for name, value in step.set_env:
        yield Line(f"{words['remove_variable']} {name}" if value is None else f"{name}={clean(value)}", indent=5)


def proof_lines(proofs: Sequence[Proof], language: str = "en") -> Iterator[Line]:
    words = words_for(language)
    for number, proof in enumerate(proofs):
        if number:
            yield Line("")
        about = "" if proof.subject == "host" else f"  [{proof.subject}]"
        yield Line(clean(proof.title or proof.name) + about, "title")
        if proof.title:
            sure = "" if proof.confidence is None else f" · {percent(proof.confidence)} {words['sure']}"
            yield Line(f"{proof.name}{sure} · {words[f'rate_{proof.base_rate}']}", "dim")
        if proof.explained_by:
            yield Line(f"{words['explained_by']} {proof.explained_by}")
        for heading, side in (("rules" if proof.title else "concluded_by", True), ("rules_against", False)):
            chosen = [one for one in proof.firings if one.supports is side]
            if chosen:
                yield Line(words[heading], "heading")
            for firing in chosen:
                yield from _firing(firing, 2, words)


def why_not_lines(near: Sequence[Near], knowledge: Knowledge, language: str = "en") -> Iterator[Line]:
    words = words_for(language)
    yield Line(words["nearest"], "heading")
    for one in near:
        yield from near_lines(one, knowledge, words)


def near_lines(one: Near, knowledge: Knowledge, words: Mapping[str, str], indent: int = 2) -> Iterator[Line]:
    """A rule that did not fire, and under it what it lacks."""
    about = "" if one.subject == "host" else f"  [{one.subject}]"
    place = f"{one.rule.at.file}:{one.rule.at.line}"
    yield Line(f"- {clean(one.rule.because)}{about}", indent=indent, hang=2)
    yield Line(clean(" · ".join(filter(None, (one.rule.evidence, one.rule.id, place)))), "dim", indent + 2, 2)
    for lack in one.missing:
        yield Line(f"{words['lacks']}: {clean(_condition(lack.condition))}", indent=indent + 2, hang=2)
        yield Line(clean(_found(lack, knowledge, words)), "dim", indent + 4, 2)


def _condition(condition: Condition) -> str:
    operand = condition.operand
    if condition.op == "no":
        return f"no {condition.fact}"
    if isinstance(operand, FactRef):
        shown = operand.fact
    else:
        shown = ", ".join(operand) if isinstance(operand, tuple) else _plain(operand)
    return f"{condition.fact} {condition.op} {shown}"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _found(lack: Missing, knowledge: Knowledge, words: Mapping[str, str]) -> str:
    """What is there instead, or how to find it out."""
    name = lack.condition.fact
    if lack.state == "unknown" and lack.found is not None and isinstance(lack.condition.operand, FactRef):
        name = lack.condition.operand.fact
    spec = knowledge.facts.get(name)
    if lack.state == "unknown":
        ask = f"; {spec.ask.say} ({' '.join(spec.ask.run)})" if spec and spec.ask and spec.ask.run else ""
        return f"{name}: {words['is_unknown']}{ask}"
    if name.startswith("log."):
        return f"{words['not_in_text']}: {spec.meaning}" if spec else words["not_in_text"]
    if name.startswith("finding."):
        return words["concluded" if lack.found else "not_concluded"]
    found = words["is_absent"] if lack.found is None else f"{words['it_is']} {_plain(lack.found)}"
    return f"{found}; {words['compared_with']} {_plain(lack.wanted)}" if lack.wanted is not None else found


def what_if_lines(changed: Sequence[Changed], verdicts: tuple[str, str], language: str = "en") -> Iterator[Line]:
    words = words_for(language)
    before, after = (words[one] for one in verdicts)
    yield Line(f"{words['verdict']}: {after if before == after else f'{before} → {after}'}", "title")
    if not changed:
        yield Line(words["no_change"])
    for one in changed:
        about = "" if one.subject == "host" else f" [{one.subject}]"
        figures = [words["not_listed"] if figure is None else percent(figure) for figure in (one.before, one.after)]
        yield Line(f"- {one.id}{about}: {figures[0]} → {figures[1]}", indent=2, hang=2)


def _firing(firing: Firing, indent: int, words: Mapping[str, str]) -> Iterator[Line]:
    yield Line(f"- {clean(firing.because) or firing.rule}", indent=indent, hang=2)
    place = f"{firing.at.file}:{firing.at.line}" if firing.at.line else firing.at.file
    parts = [firing.strength, firing.rule, place, "" if firing.counted else words["not_counted"]]
    yield Line(clean(" · ".join(filter(None, parts))), "dim", indent + 2, 2)
    for ground in firing.grounds:
        yield from _ground(ground, indent + 4, words)


def _ground(ground: Ground, indent: int, words: Mapping[str, str]) -> Iterator[Line]:
    about = "" if ground.subject == "host" else f" [{ground.subject}]"
    if ground.kind == "absence":
        yield Line(f"{words['absence']} {ground.name}{about}", indent=indent, hang=2)
        return
    if ground.kind == "finding":
        yield Line(f"{ground.name}{about}", indent=indent, hang=2)
        for firing in ground.firings:
            yield from _firing(firing, indent + 2, words)
        return
    yield Line(clean(f"{ground.name}{about} = {_value(ground, words)}"), indent=indent, hang=2)
    for source in ground.sources[:_MOST_SOURCES]:
        said = f"{words['table']} {source.file}: {source.detail}" if source.kind == "table" else source_text(source)
        if said and not (source.kind == "table" and not source.file):
            yield Line(clean(said), "dim", indent + 2, 2)
    for base in ground.bases:
        yield from _ground(base, indent + 2, words)


def _value(ground: Ground, words: Mapping[str, str]) -> str:
    if ground.state != PRESENT:
        return words["state_absent" if ground.state == ABSENT else "state_unknown"]
    if isinstance(ground.value, bool):
        return words["yes" if ground.value else "no"]
    return ", ".join(ground.value) if isinstance(ground.value, tuple) else str(ground.value)

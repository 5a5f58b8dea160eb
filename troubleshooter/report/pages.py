"""One page per diagnosis out of the knowledge base, an index by area, and a page of the commands that remedies use."""

import re
from collections.abc import Iterable, Iterator, Mapping

from ..model import Action, ActionForm, Article, Condition, FactRef, Knowledge, RemedySpec, Rule
from .markdown import code, fenced, text
from .words import words_for

_ACTIONS = "actions.md"
_OPTIONAL = re.compile(r"\{([^{}|*]*)(?:\*|\|[^{}]*)\}")
"""A placeholder with what stands for it where the fact is unknown, or that becomes several words."""


def pages(knowledge: Knowledge, language: str = "en") -> dict[str, str]:
    """By file name, Markdown that ends with one line end. The knowledge is already in the language of its texts."""
    rules: dict[str, list[Rule]] = {}
    for rule in knowledge.rules:
        rules.setdefault(rule.diagnosis, []).append(rule)
    words = words_for(language)
    made = {
        f"{name}.md": _joined(_page(article, rules.get(name, ()), knowledge, words))
        for name, article in sorted(knowledge.articles.items())
    }
    made["index.md"] = _joined(_index(knowledge, words))
    made[_ACTIONS] = _joined(_actions(knowledge.actions, words))
    return made


def _joined(lines: Iterable[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def _index(knowledge: Knowledge, words: Mapping[str, str]) -> Iterator[str]:
    yield f"# {words['diagnoses']}"
    yield from ("", words["pages_are_made"], "")
    areas: dict[str, list[Article]] = {}
    for article in knowledge.articles.values():
        areas.setdefault(article.area, []).append(article)
    for area, articles in sorted(areas.items()):
        yield from ("", f"## {area}", "")
        for article in sorted(articles, key=lambda one: one.id):
            yield f"- [{article.id}]({article.id}.md): {text(article.title)}"
    yield from ("", f"[{words['commands_of_remedies']}]({_ACTIONS})")


def _page(article: Article, rules: Iterable[Rule], knowledge: Knowledge, words: Mapping[str, str]) -> Iterator[str]:
    yield f"# {text(article.title)}"
    yield ""
    severity, rate = words[f"severity_{article.severity}"], words[f"rate_{article.base_rate}"]
    yield " · ".join([code(article.id), article.area, severity, rate])
    yield from ("", f"## {words['means']}", "", text(article.meaning), "")
    if article.not_to_confuse_with:
        yield from (f"## {words['confuse']}", "")
        yield from (f"- [{name}]({name}.md): {text(says)}" for name, says in article.not_to_confuse_with)
        yield ""
    if article.explains:
        yield from (f"## {words['causes']}", "")
        for name in article.explains:
            title = knowledge.articles[name].title if name in knowledge.articles else ""
            yield f"- [{name}]({name}.md): {text(title)}"
        yield ""
    known = list(rules)
    for heading, against in (("rules", False), ("rules_against", True)):
        chosen = [rule for rule in known if rule.evidence.endswith("-against") is against]
        if chosen:
            yield from (f"## {words[heading]}", "")
            yield from (f"- {text(rule.because)} ({rule.evidence}, {code(rule.id)})" for rule in chosen)
            yield ""
    yield from (f"## {words['do']}", "")
    for remedy in article.remedies:
        yield from _remedy(remedy, knowledge.actions, words)
    if article.verify:
        yield from (f"## {words['tests_verify']}", "", ", ".join(map(code, article.verify)), "")
    yield from (f"## {words['references']}", "")
    for reference in article.references:
        yield f"- [{text(reference.says)}]({reference.url}) ({words['checked']} {reference.checked})"


def _remedy(remedy: RemedySpec, actions: Mapping[str, Action], words: Mapping[str, str]) -> Iterator[str]:
    yield f"### {text(remedy.title)} ({words[f'risk_{remedy.risk}']})"
    yield ""
    yield from _circumstances(remedy.when, remedy.unless, words)
    for step in remedy.steps:
        asked = _asked(step.when, step.unless, words)
        only = f" ({asked})" if asked else ""
        if step.say:
            yield f"- {_said(step.say)}{only}"
        if step.do in actions:
            action = actions[step.do]
            given = ", ".join(code(value) for _, value in step.arguments)
            yield f"- [{text(action.meaning)}]({_ACTIONS}#{step.do}){': ' if given else ''}{given}{only}"
            for form in _usual(action):
                for command in form.commands:
                    yield ""
                    filled = _command(command, dict(step.arguments))
                    yield from (f"    {row}" for row in fenced(filled, ""))
                    yield ""
        for name, value in step.set_env:
            yield (
                f"- {code(f'{name}={value}')}{only}"
                if value is not None
                else (f"- {words['remove_variable']} {code(name)}{only}")
            )
    yield ""


def _usual(action: Action) -> list[ActionForm]:
    """The form for pip and Linux, or the first with a command: an example; all forms stand on a page of their own."""
    with_command = [form for form in action.forms if form.commands and not form.when]
    for_pip = [form for form in with_command if not form.manager or "pip" in form.manager]
    return (for_pip or with_command)[:1]


def _actions(actions: Mapping[str, Action], words: Mapping[str, str]) -> Iterator[str]:
    yield f"# {words['commands_of_remedies']}"
    yield from ("", words["placeholders_are_facts"], "")
    for name, action in sorted(actions.items()):
        yield from (f"## {name}", "", text(action.meaning), "")
        for form in action.forms:
            where = [*form.os, *form.distribution, *form.manager]
            yield f"**{', '.join(where) or words['anywhere']}**"
            yield ""
            yield from _circumstances(form.when, (), words)
            if form.say:
                yield from (_said(form.say), "")
            for command in form.commands:
                yield from (*fenced(_command(command, {}), ""), "")
        for note in action.notes:
            asked = _asked(note.when, note.unless, words)
            yield f"- {_said(note.say)}" + (f" ({asked})" if asked else "")
        yield ""


def _said(words: str) -> str:
    return text(_OPTIONAL.sub(r"{\1}", words))


def _circumstances(when: Iterable[Condition], unless: Iterable[Condition], words: Mapping[str, str]) -> Iterator[str]:
    if asked := _asked(when, unless, words):
        yield from (f"*{asked}*", "")


def _asked(when: Iterable[Condition], unless: Iterable[Condition], words: Mapping[str, str]) -> str:
    parts = [
        f"{words[heading]} {code(_condition(one))}"
        for heading, side in (("if", when), ("unless", unless))
        for one in side
    ]
    return ", ".join(parts)


def _condition(condition: Condition) -> str:
    operand = condition.operand
    if isinstance(operand, FactRef):
        shown = operand.fact
    elif isinstance(operand, bool):
        shown = str(operand).lower()
    else:
        shown = ", ".join(operand) if isinstance(operand, tuple) else str(operand)
    return f"{condition.fact} {condition.op} {shown}"


def _command(command: Iterable[str], given: Mapping[str, str]) -> str:
    """As a person would write it; what is left out where a fact is unknown stands in brackets."""
    written = []
    for word in command:
        plain = _OPTIONAL.sub(r"{\1}", word.removesuffix("?"))
        for name, value in given.items():
            plain = plain.replace(f"{{{name}}}", value)
        quoted = f'"{plain}"' if re.search(r"[\s*<>;&|$]", plain) else plain
        written.append(f"[{quoted}]" if word.endswith("?") else quoted)
    return " ".join(written)

"""Knowledge in another language: each text for people is looked up by what it says in English.

So a text that two articles share is translated once, and one that has changed is English again until somebody has
looked at its translation.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from ..model import Action, Article, FactSpec, Knowledge, RemedySpec, Rule

Texts = Mapping[str, str]

_KEPT = {
    "placeholders": re.compile(r"\{[^{}]*\}"),
    "numbers": re.compile(r"\d+(?:\.\d+)*"),
    "commands": re.compile(r"`[^`]*`"),
    "addresses": re.compile(r"https?://[\w./#?=&%+-]*[\w/#]"),
}

_TOLD = ("why",)
"""Arguments of steps that people read; the others are parts of commands."""


def differences(english: str, translated: str) -> Iterator[str]:
    """What a translation must keep as it is and does not, in words."""
    for kind, pattern in _KEPT.items():
        here, there = (Counter(pattern.findall(text)) for text in (english, translated))
        missing, added = sorted((here - there).elements()), sorted((there - here).elements())
        if missing:
            yield f"the translation lacks the {kind} {', '.join(missing)}"
        if added:
            yield f"the translation adds the {kind} {', '.join(added)}"


def texts_of(knowledge: Knowledge) -> Iterator[str]:
    """Every text that a report or an article shows to people, some more than once."""
    for article in knowledge.articles.values():
        yield from (article.title, article.meaning)
        yield from (says for _, says in article.not_to_confuse_with)
        yield from (reference.says for reference in article.references)
        for remedy in article.remedies:
            yield remedy.title
            yield from (step.say for step in remedy.steps if step.say)
            yield from (value for step in remedy.steps for name, value in step.arguments if name in _TOLD)
    for action in knowledge.actions.values():
        yield action.meaning
        yield from (form.say for form in action.forms if form.say)
        yield from (note.say for note in action.notes)
    yield from (rule.because for rule in knowledge.rules)
    yield from (spec.ask.say for spec in knowledge.facts.values() if spec.ask)


def localized(knowledge: Knowledge, texts: Texts) -> Knowledge:
    """The same knowledge with those texts in place of the English ones; what has no translation stays."""
    if not texts:
        return knowledge
    return knowledge._replace(
        facts={name: fact_in(spec, texts) for name, spec in knowledge.facts.items()},
        rules=tuple(rule_in(rule, texts) for rule in knowledge.rules),
        articles={name: article_in(article, texts) for name, article in knowledge.articles.items()},
        actions={name: action_in(action, texts) for name, action in knowledge.actions.items()},
        rule_by_id=None,
    )


def rule_in(rule: Rule, texts: Texts) -> Rule:
    return rule._replace(because=texts.get(rule.because, rule.because))


def fact_in(spec: FactSpec, texts: Texts) -> FactSpec:
    if not spec.ask or spec.ask.say not in texts:
        return spec
    return spec._replace(ask=spec.ask._replace(say=texts[spec.ask.say]))


def article_in(article: Article, texts: Texts) -> Article:
    def told(text: str) -> str:
        return texts.get(text, text)

    def remedy_in(remedy: RemedySpec) -> RemedySpec:
        steps = tuple(
            step._replace(
                say=told(step.say),
                arguments=tuple((name, told(value) if name in _TOLD else value) for name, value in step.arguments),
            )
            for step in remedy.steps
        )
        return remedy._replace(title=told(remedy.title), steps=steps)

    return article._replace(
        title=told(article.title),
        meaning=told(article.meaning),
        remedies=tuple(remedy_in(remedy) for remedy in article.remedies),
        references=tuple(one._replace(says=told(one.says)) for one in article.references),
        not_to_confuse_with=tuple((name, told(says)) for name, says in article.not_to_confuse_with),
    )


def action_in(action: Action, texts: Texts) -> Action:
    return action._replace(
        meaning=texts.get(action.meaning, action.meaning),
        forms=tuple(form._replace(say=texts.get(form.say, form.say)) for form in action.forms),
        notes=tuple(note._replace(say=texts.get(note.say, note.say)) for note in action.notes),
    )

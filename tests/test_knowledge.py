"""The knowledge itself: it loads, and every example of every rule and signature holds."""

import re
from pathlib import Path

import pytest

from troubleshooter.examples import fires
from troubleshooter.knowledge import load
from troubleshooter.model import Knowledge
from troubleshooter.paste.scan import has_needs
from troubleshooter.text import clean

ROOT = Path(__file__).parent.parent
KNOWLEDGE = load(examples=True)
LINES = [line for one in KNOWLEDGE.signatures for line in one.matches[:1]][::4]


@pytest.mark.parametrize("rule", KNOWLEDGE.rules, ids=lambda rule: rule.id)
def test_the_examples_of_a_rule_hold(rule) -> None:
    assert rule.fires, "a rule without an example that fires is not tested"
    assert rule.quiet, "a rule without a near miss is not tested"
    for example in rule.fires:
        assert fires(rule, example, KNOWLEDGE.rules, KNOWLEDGE.facts), f"{rule.at}: quiet on {dict(example.facts)}"
    for example in rule.quiet:
        assert not fires(rule, example, KNOWLEDGE.rules, KNOWLEDGE.facts), f"{rule.at}: fires on {dict(example.facts)}"


@pytest.mark.parametrize("signature", KNOWLEDGE.signatures, ids=lambda signature: signature.id)
def test_the_examples_of_a_signature_hold(signature) -> None:
    pattern = re.compile(signature.pattern, re.ASCII)
    for line in signature.matches:
        assert pattern.search(clean(line)), f"does not match {line!r}"
        assert any(literal in line.lower() for literal in signature.literals), f"{signature.literals} miss {line!r}"
    assert signature.ignores, "a signature without a look-alike is not tested"
    for line in signature.ignores:
        assert not pattern.search(clean(line)), f"matches {line!r}"


@pytest.mark.parametrize("article", KNOWLEDGE.articles.values(), ids=lambda article: article.id)
def test_an_article_is_complete(article) -> None:
    assert article.remedies
    assert article.references
    for reference in article.references:
        assert reference.url.startswith("https://")
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", reference.checked)
    assert any(rule.diagnosis == article.id and not rule.evidence.endswith("against") for rule in KNOWLEDGE.rules)


def test_every_fact_that_a_probe_promises_is_in_the_catalogue(knowledge: Knowledge) -> None:
    from troubleshooter import probes

    for probe in probes.PROBES:
        for name in probe.FACTS:
            assert name in knowledge.facts, f"{probe.NAME} promises {name}"


def test_tables_keep_their_source_and_day() -> None:
    for table in KNOWLEDGE.tables.values():
        measured_by_us = (ROOT / table.source).is_file()
        assert table.source.startswith("https://") or measured_by_us, table.name
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", table.checked), table.name


@pytest.mark.parametrize("signature", [one for one in KNOWLEDGE.signatures if one.branches], ids=lambda one: one.id)
def test_the_alternatives_that_a_line_can_match_find_what_the_whole_pattern_finds(signature) -> None:
    whole = re.compile(signature.pattern, re.ASCII)
    assert "|".join(part for part, _ in signature.branches) == signature.pattern
    for line in (*signature.matches, *signature.ignores, *LINES):
        low = line.lower()
        possible = [part for part, needs in signature.branches if has_needs(needs, low)]
        found = re.compile("|".join(possible), re.ASCII).search(line) if possible else None
        expected = whole.search(line)
        assert (found and found.span()) == (expected and expected.span()), line
        assert {key: text for key, text in (found.groupdict() if found else {}).items() if text} == {
            key: text for key, text in (expected.groupdict() if expected else {}).items() if text
        }

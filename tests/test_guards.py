"""A part of a program gives what the whole of it gives: rules that a run never looks at could not have fired."""

import random

import pytest
from oracle import CATALOGUE, SOURCE, durable_missing, expected, flat, random_program

from troubleshooter import engine as engine_package
from troubleshooter.engine import infer, keep_program
from troubleshooter.engine.guards import guards_of
from troubleshooter.engine.program import read_program
from troubleshooter.knowledge import load
from troubleshooter.knowledge.patterns import needs
from troubleshooter.literals import index_of, literal_index
from troubleshooter.model import Condition, Fact, FactSpec
from troubleshooter.paste.scan import has_needs

LOGS = [f"log.s{number}" for number in range(6)]
KNOWN = {**CATALOGUE, **{name: FactSpec(name, "flag", "host", "") for name in LOGS}}
ENGINES = ["python"] if durable_missing() else ["python", "durable"]


def program_of_a_text(seed):
    """A random program of which many rules want a signature shown, or not shown; and the facts, with those shown."""
    rng = random.Random(seed)
    rules, facts = random_program(rng)
    wanted = []
    for rule in rules:
        more = ()
        if rng.random() < 0.6:
            more = (Condition(rng.choice(LOGS), "is", rng.random() < 0.75),)
        wanted.append(rule._replace(when=(*rule.when, *more)))
    shown = [Fact(name, "host", "present", True, SOURCE) for name in LOGS if rng.random() < 0.3]
    return tuple(wanted), [*facts, *shown]


def spelt_out(facts):
    stated = {fact.name for fact in facts}
    return [*facts, *[Fact(name, "host", "present", False, SOURCE) for name in LOGS if name not in stated]]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_no_text_shows_need_not_be_spelt_out(engine):
    compared = 0
    for seed in range(150):
        rules, facts = program_of_a_text(seed)
        brief = flat(infer(rules, facts, KNOWN, engine, silent=True))
        assert brief == flat(infer(rules, spelt_out(facts), KNOWN, engine))
        assert brief == expected(rules, spelt_out(facts), KNOWN)
        compared += len(brief[0]) + len(brief[1])
    assert compared > 300


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("silent", [True, False])
def test_what_is_sure_does_not_change_where_only_that_is_asked_for(engine, silent):
    compared = 0
    for seed in range(150):
        rules, facts = program_of_a_text(seed)
        whole = infer(rules, facts, KNOWN, engine, silent=silent)
        assert infer(rules, facts, KNOWN, engine, silent=silent, undecided=False).conclusions == whole.conclusions
        compared += len(whole.conclusions)
    assert compared > 50


@pytest.mark.parametrize("undecided", [True, False])
def test_a_part_of_a_program_gives_what_the_whole_gives(undecided):
    skipped = 0
    for seed in range(150):
        rules, facts = program_of_a_text(seed)
        part = infer(rules, facts, KNOWN, "python", silent=True, undecided=undecided)
        guards = guards_of(rules)
        every_rule = guards._replace(always=range(len(rules)), by_signature={}, by_finding={}, by_fact={})
        copy = tuple(list(rules))
        keep_program(KNOWN, read_program(copy, KNOWN)[0], guards)
        again = infer(copy, facts, KNOWN, "python", silent=True, undecided=undecided)
        other = tuple([rule._replace() for rule in rules])
        keep_program(KNOWN, read_program(other, KNOWN)[0]._replace(rules=other), every_rule)
        whole = infer(other, facts, KNOWN, "python", silent=True, undecided=undecided)
        assert part.conclusions == whole.conclusions == again.conclusions
        if undecided:
            assert part.possible == whole.possible == again.possible
        names = {fact.name for fact in facts}
        skipped += len(rules) - len(guards.rules(names, silent=True, undecided=undecided, worth=None))
    assert skipped > 100


def test_every_rule_stands_in_one_place():
    knowledge = load()
    *places, facts, awaited = guards_of(knowledge.rules)
    always, *named = places
    listed = [*always, *[position for by_name in named for found in by_name.values() for position in found]]
    assert sorted(listed) == list(range(len(knowledge.rules)))
    assert all(name.startswith("finding.") for name in awaited)
    assert not set(facts) & set(always)


def test_what_is_not_worth_it_is_left_out_and_nothing_else():
    dropped = 0
    for seed in range(150):
        rules, facts = program_of_a_text(seed)
        by_id = {rule.id: rule for rule in rules}
        stated = {fact.name for fact in facts} | set(LOGS)

        def worth(names):
            return len(names) <= 1

        whole = flat(infer(rules, facts, KNOWN, "python", silent=True))
        part = flat(infer(rules, facts, KNOWN, "python", silent=True, worth=worth))
        assert part[0] == whole[0]
        assert part[1] <= whole[1]
        for one in whole[1] - part[1]:
            rule = by_id[one[2]]
            spoken_of = {c.fact for c in rule.when if not c.fact.startswith("finding.")}
            spoken_of |= {c.operand.fact for c in rule.when if hasattr(c.operand, "fact")}
            assert not rule.head.startswith("finding.")
            assert len(spoken_of - stated) > 1
            dropped += 1
    assert dropped > 5


# --- signatures

KNOWLEDGE = load(examples=True)


def test_a_literal_is_found_wherever_it_stands():
    index = index_of(KNOWLEDGE.signatures)
    for position, signature in enumerate(KNOWLEDGE.signatures):
        for literal in signature.literals:
            for text in (literal, f"x{literal}", f"{literal}y\nz", f"before\n{literal}"):
                assert literal in index.occurring(text)[position]


def test_the_index_finds_what_a_search_for_each_literal_finds():
    lines = [line.lower() for signature in KNOWLEDGE.signatures for line in signature.matches]
    rng = random.Random(1)
    for _ in range(100):
        text = "\n".join(rng.sample(lines, 10))[rng.randrange(40) :]
        plain = {
            position: {literal for literal in signature.literals if literal in text}
            for position, signature in enumerate(KNOWLEDGE.signatures)
        }
        found = literal_index(KNOWLEDGE.signatures).occurring(text)
        assert {position: set(literals) for position, literals in found.items()} == {
            position: literals for position, literals in plain.items() if literals
        }


@pytest.mark.parametrize("signature", KNOWLEDGE.signatures, ids=lambda signature: signature.id)
def test_what_matches_has_what_the_pattern_needs(signature):
    for line in signature.matches:
        assert has_needs(signature.needs, " ".join(line.lower().split("\n")))


@pytest.mark.parametrize(
    ("pattern", "alternatives"),
    [
        ("[Pp]lease update", (("please update",),)),
        ("CUDA error: (?:out of memory|launch failure)", (("launch failure", "cuda error: "), ("out of memory", "cuda error: "))),
        ("lib[a-z]+\\.so(?:\\.[0-9]+)?: cannot open", ((": cannot open", ".so", "lib"),)),
        ("(?:ab|[0-9])xyz", (("xyz",),)),
        ("[0-9]+", ()),
        ("no such (?:file)?", (("no such ",),)),
        ("(?:ab)+c", (("ab",),)),
        ("\u039f\u0394\u039f\u03a3 x", (("\u03bf\u03b4\u03bf", " x"),)),
    ],
)  # fmt: skip
def test_the_texts_that_a_pattern_needs(pattern, alternatives):
    assert needs(pattern) == alternatives


def test_plans_are_kept_for_the_rules_that_they_are_of():
    rules, facts = program_of_a_text(3)
    infer(rules, facts, KNOWN, "python")
    assert engine_package._plan(rules, KNOWN) is engine_package._plan(rules, KNOWN)

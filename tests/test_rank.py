"""Ranking on hand-made knowledge: groups, evidence against, causes that explain, several GPUs."""

import math

import pytest

from troubleshooter.ask import ask
from troubleshooter.engine import infer
from troubleshooter.model import (
    Article,
    Ask,
    Condition,
    Diagnosis,
    FactSpec,
    Inference,
    Knowledge,
    Rule,
    Source,
    Strengths,
    TestEffect,
    present,
)
from troubleshooter.rank import rank
from troubleshooter.settle import Facts, settle

STRENGTHS = Strengths(
    {"common": -2.0, "uncommon": -3.0, "rare": -4.0},
    {"decisive": 7.0, "strong": 4.0, "moderate": 2.5, "weak": 1.2, "strong-against": -4.0, "weak-against": -1.2},
)
FACTS = {
    name: FactSpec(name, "flag", "host", "", ask=Ask(f"What of {name}?") if name == "c" else None)
    for name in ("a", "b", "c", "d", *(f"f{number}" for number in range(41)))
} | {
    "gpu.bad": FactSpec("gpu.bad", "flag", "gpu", ""),
    "os": FactSpec("os", "flag", "host", "", context=True),
    "test.torch.matmul": FactSpec("test.torch.matmul", "text", "gpu", ""),
}


def article(name: str, base_rate: str = "common", explains: tuple[str, ...] = (), **more: object) -> Article:
    return Article(name, name.title(), "driver", "blocking", base_rate, "", (), (), explains=explains, **more)  # type: ignore[arg-type]


def rule(name: str, diagnosis: str, *facts: str, evidence: str = "strong") -> Rule:
    return Rule(name, tuple(Condition(fact, "is", True) for fact in facts), "", diagnosis=diagnosis, evidence=evidence)


def ranked(
    articles: list[Article], rules: list[Rule], **stated: bool
) -> tuple[tuple[Diagnosis, ...], Inference, Facts, Knowledge]:
    knowledge = Knowledge(FACTS, tuple(rules), (), {}, {one.id: one for one in articles}, {}, STRENGTHS, (), "")
    claims = []
    for name, value in stated.items():
        if name.startswith("gpu"):
            claims.append(present("gpu.bad", value, Source("probe", "file"), f"gpu:{name[3:]}"))
        else:
            claims.append(present(name, value, Source("probe", "file", name)))
    facts = settle(claims, FACTS)
    inference = infer(rules, facts.all(), FACTS, "python")
    return rank(inference, facts, knowledge), inference, facts, knowledge


def logistic(total: float) -> float:
    return pytest.approx(1 / (1 + math.exp(-total)), abs=1e-3)


def test_evidence_that_shares_a_fact_counts_once_with_its_strongest() -> None:
    rules = [rule("one", "x", "a"), rule("two", "x", "a", "b", evidence="moderate")]
    found, *_ = ranked([article("x")], rules, a=True, b=True)
    assert found[0].confidence == logistic(-2 + 4)
    assert [(one.rule, one.counted) for one in found[0].evidence] == [("one", True), ("two", False)]


def test_evidence_of_different_facts_adds_up() -> None:
    rules = [rule("one", "x", "a"), rule("two", "x", "b", evidence="moderate")]
    found, *_ = ranked([article("x")], rules, a=True, b=True)
    assert found[0].confidence == logistic(-2 + 4 + 2.5)


def test_a_fact_that_everybody_reads_joins_nothing() -> None:
    rules = [rule("one", "x", "a", "os"), rule("two", "x", "b", "os", evidence="moderate")]
    found, *_ = ranked([article("x")], rules, a=True, b=True, os=True)
    assert found[0].confidence == logistic(-2 + 4 + 2.5)


def test_evidence_that_shares_with_two_others_does_not_join_them() -> None:
    rules = [rule("one", "x", "a"), rule("two", "x", "b"), rule("three", "x", "a", "b", evidence="weak")]
    found, *_ = ranked([article("x")], rules, a=True, b=True)
    assert found[0].confidence == logistic(-2 + 4 + 4)
    assert [(one.rule, one.counted) for one in found[0].evidence] == [("one", True), ("two", True), ("three", False)]


def test_two_pieces_that_share_nothing_count_for_a_stronger_one_that_shares_with_both() -> None:
    rules = [rule("one", "x", "a"), rule("two", "x", "b"), rule("three", "x", "a", "b", evidence="decisive")]
    found, *_ = ranked([article("x")], rules, a=True, b=True)
    assert found[0].confidence == logistic(-2 + 4 + 4)


def test_much_evidence_is_weighed_at_once() -> None:
    # Each shares a fact with the next: of forty links every other one counts.
    names = [f"f{number}" for number in range(41)]
    rules = [rule(f"r{number}", "x", *names[number : number + 2], evidence="weak") for number in range(40)]
    found, *_ = ranked([article("x")], rules, **dict.fromkeys(names, True))
    assert sum(one.counted for one in found[0].evidence) == 20
    assert found[0].confidence == logistic(-2 + 20 * 1.2)


def test_evidence_against_lowers() -> None:
    rules = [rule("one", "x", "a"), rule("no", "x", "b", evidence="strong-against")]
    found, *_ = ranked([article("x")], rules, a=True, b=True)
    assert found[0].confidence == logistic(-2 + 4 - 4)


def test_evidence_against_alone_accuses_nobody() -> None:
    found, *_ = ranked([article("x")], [rule("no", "x", "b", evidence="weak-against")], b=True)
    assert found == ()


def test_a_cause_takes_over_what_it_explains_and_comes_before_it() -> None:
    rules = [rule("one", "cause", "a", "b"), rule("two", "symptom", "a", evidence="decisive")]
    found, *_ = ranked([article("cause", explains=("symptom",)), article("symptom")], rules, a=True, b=True)
    assert [(one.id, one.explained_by) for one in found] == [("cause", ""), ("symptom", "cause")]
    assert found[0].explains == ("symptom",)
    assert found[1].confidence == logistic(-2)
    assert not found[1].evidence[0].counted


def test_evidence_of_its_own_stays_with_what_is_explained() -> None:
    rules = [
        rule("one", "cause", "a"),
        rule("two", "symptom", "a", evidence="decisive"),
        rule("own", "symptom", "b", evidence="moderate"),
    ]
    found, *_ = ranked([article("cause", explains=("symptom",)), article("symptom")], rules, a=True, b=True)
    assert [one.id for one in found] == ["cause", "symptom"]
    assert found[1].confidence == logistic(-2 + 2.5)


def test_a_cause_below_one_half_explains_nothing() -> None:
    rules = [rule("one", "cause", "a", evidence="weak"), rule("two", "symptom", "a", evidence="decisive")]
    found, *_ = ranked([article("cause", explains=("symptom",)), article("symptom")], rules, a=True)
    assert found[0].id == "symptom"
    assert found[0].explained_by == ""


def test_two_that_explain_each_other_do_not_both_vanish() -> None:
    rules = [rule("one", "x", "a", evidence="decisive"), rule("two", "y", "a")]
    found, *_ = ranked([article("x", explains=("y",)), article("y", explains=("x",))], rules, a=True)
    assert [(one.id, one.explained_by) for one in found] == [("x", ""), ("y", "x")]


def test_the_commoner_of_two_equal_ones_comes_first() -> None:
    found, *_ = ranked(
        [article("x", "rare"), article("y")],
        [rule("one", "x", "a", evidence="decisive"), rule("two", "y", "a")],
        a=True,
    )
    assert [one.id for one in found] == ["x", "y"]


def test_gpus_with_the_same_fault_are_one_diagnosis() -> None:
    found, *_ = ranked([article("x")], [rule("one", "x", "gpu.bad")], gpu0=True, gpu1=False, gpu2=True)
    assert [one.subject for one in found] == ["gpu:0,gpu:2"]


def test_what_speaks_of_the_host_speaks_of_each_gpu() -> None:
    rules = [rule("one", "x", "gpu.bad"), rule("two", "x", "a", evidence="moderate")]
    found, *_ = ranked([article("x")], rules, gpu0=True, a=True)
    assert found[0].confidence == logistic(-2 + 4 + 2.5)


def test_what_a_gpu_shows_against_it_weakens_what_is_said_of_the_host() -> None:
    rules = [rule("one", "x", "a"), rule("no", "x", "gpu.bad", evidence="strong-against")]
    found, *_ = ranked([article("x")], rules, a=True, gpu0=True, gpu1=True)
    assert found[0].subject == "host"
    assert found[0].confidence == logistic(-2 + 4 - 4)


def test_a_passed_test_weakens_the_diagnosis_that_lists_it() -> None:
    effect = (TestEffect("torch.matmul", "failed", "strong"),)
    rules = [rule("one", "x", "a"), rule("two", "y", "a")]
    knowledge = Knowledge(
        FACTS, tuple(rules), (), {}, {"x": article("x", confirm=effect), "y": article("y")}, {}, STRENGTHS, (), ""
    )
    claims = [
        present("a", True, Source("probe", "file")),
        present("test.torch.matmul", "passed", Source("probe", "process"), "gpu:0"),
    ]
    facts = settle(claims, FACTS)
    found = {one.id: one for one in rank(infer(rules, facts.all(), FACTS, "python"), facts, knowledge)}
    assert found["x"].confidence == logistic(-2 + 4 - 4)
    assert found["y"].confidence == logistic(-2 + 4)


def test_the_question_is_the_fact_that_would_decide() -> None:
    rules = [rule("one", "x", "a", evidence="weak"), rule("two", "x", "b", "c", evidence="decisive")]
    found, inference, facts, knowledge = ranked([article("x")], rules, a=True, b=True)
    questions = ask(inference, found, facts, knowledge)
    assert [(one.fact, one.decides) for one in questions] == [("c", ("x",))]


@pytest.mark.parametrize(("family", "argv"), [("linux", ("lspci",)), ("windows", ()), ("", ("lspci",))])
def test_a_command_is_offered_only_where_it_can_be(family: str, argv: tuple[str, ...]) -> None:
    catalogue = {
        "a": FACTS["a"],
        "c": FACTS["c"]._replace(ask=Ask("What of c?", ("lspci",), systems=("linux",))),
        "os.family": FactSpec("os.family", "text", "host", "", context=True),
    }
    rules = [rule("one", "x", "a", evidence="weak"), rule("two", "x", "a", "c", evidence="decisive")]
    knowledge = Knowledge(catalogue, tuple(rules), (), {}, {"x": article("x")}, {}, STRENGTHS, (), "")
    claims = [present("a", True, Source("probe", "file", "a"))]
    claims += [present("os.family", family, Source("probe", "file", "os"))] if family else []
    facts = settle(claims, catalogue)
    inference = infer(rules, facts.all(), catalogue, "python")
    (question,) = ask(inference, rank(inference, facts, knowledge), facts, knowledge)
    assert question.argv == argv


def test_nothing_is_asked_that_nobody_can_answer() -> None:
    found, inference, facts, knowledge = ranked([article("x")], [rule("one", "x", "a", "d")], a=True)
    assert ask(inference, found, facts, knowledge) == ()


def test_the_facts_of_the_evidence_are_those_that_were_seen() -> None:
    found, *_ = ranked([article("x")], [rule("one", "x", "a")], a=True)
    evidence = found[0].evidence[0]
    assert evidence.facts == ("a@host",)
    assert [source.detail for source in evidence.sources] == ["a"]

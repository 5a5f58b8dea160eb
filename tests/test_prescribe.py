"""Remedies to commands: quoting, placeholders, what is left out."""

import shlex

import pytest

from troubleshooter.model import (
    Action,
    ActionForm,
    Article,
    Condition,
    Diagnosis,
    FactSpec,
    Knowledge,
    RemedySpec,
    Source,
    Step,
    StepSpec,
    Strengths,
    Value,
    present,
)
from troubleshooter.prescribe import prescribe, quoted
from troubleshooter.settle import settle

CATALOGUE = {
    name: FactSpec(name, kind, "host", "")
    for name, kind in {
        "os.family": "text", "python.path": "text", "python.manager": "text", "plan.torch": "version",
        "plan.torchvision": "version", "a": "flag",
    }.items()
}  # fmt: skip
INSTALL = Action(
    "install",
    "",
    (
        ActionForm(("{python.path}", "-m", "pip", "install", "torch=={plan.torch}", "torchvision=={plan.torchvision}?"),
                   manager=("pip",), undoable=True),
        ActionForm(say="Install torch {plan.torch}."),
    ),
)  # fmt: skip


def steps_of(steps: tuple[StepSpec, ...], when: tuple[Condition, ...] = (), **stated: Value) -> tuple[Step, ...]:
    remedy = RemedySpec("r", "R", "environment", steps, when)
    article = Article("x", "X", "torch", "blocking", "common", "", (remedy,), ())
    knowledge = Knowledge(CATALOGUE, (), (), {}, {"x": article}, {"install": INSTALL}, Strengths({}, {}), (), "")
    facts = settle(
        [present(name.replace("__", "."), value, Source("set", "set")) for name, value in stated.items()], CATALOGUE
    )
    diagnosis = Diagnosis("x", "host", 0.9, "blocking", "torch", "common", "", "", ())
    remedies = prescribe([diagnosis], facts, knowledge)[0].remedies
    return remedies[0].steps if remedies else ()


def test_an_action_takes_the_form_of_this_manager() -> None:
    step = steps_of(
        (StepSpec("install"),), python__path="/v/bin/python", plan__torch="2.5.1", plan__torchvision="0.20.1"
    )[0]
    assert step.argv == ("/v/bin/python", "-m", "pip", "install", "torch==2.5.1", "torchvision==0.20.1")
    assert (step.kind, step.shell, step.manager, step.undoable) == ("run", "bash", "pip", True)


def test_an_optional_argument_without_a_value_is_left_out() -> None:
    step = steps_of((StepSpec("install"),), python__path="/v/bin/python", plan__torch="2.5.1")[0]
    assert step.argv[-1] == "torch==2.5.1"


def test_a_remedy_without_the_value_it_needs_is_not_offered() -> None:
    assert steps_of((StepSpec("install"),), python__path="/v/bin/python") == ()


def test_another_manager_gets_another_form() -> None:
    step = steps_of((StepSpec("install"),), python__manager="conda", plan__torch="2.5.1")[0]
    assert (step.kind, step.say) == ("say", "Install torch 2.5.1.")


def test_a_remedy_for_another_case_is_not_offered() -> None:
    when = (Condition("a", "is", True),)
    assert steps_of((StepSpec(say="x"),), when) == ()
    assert steps_of((StepSpec(say="x"),), when, a=False) == ()
    assert steps_of((StepSpec(say="x"),), when, a=True)[0].say == "x"


@pytest.mark.parametrize(
    ("family", "value", "text"),
    [
        ("linux", None, "unset A"),
        ("linux", "x y", "export A='x y'"),
        ("windows", None, "Remove-Item Env:A"),
        ("windows", "it's", "$env:A = 'it''s'"),
    ],
)
def test_a_variable_is_set_in_the_words_of_the_shell(family: str, value: str | None, text: str) -> None:
    step = steps_of((StepSpec(set_env=(("A", value),)),), os__family=family)[0]
    assert step.shell_text == text
    assert step.env == (("A", value),)


HOSTILE = (
    "a b",
    "a;rm -rf /",
    "$(id)",
    "`id`",
    "it's",
    'say "x"',
    "a\nb",
    "名字",
    "-x",
    "a&b",
    "%PATH%",
    "{torch.cuda}",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_one_word_in_bash(name: str) -> None:
    assert shlex.split(quoted(("python", name), "bash")) == ["python", name]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_one_word_in_powershell(name: str) -> None:
    text = quoted((name, name), "powershell")
    if name == "-x":
        assert text == "-x -x"
        return
    literal = "'" + name.replace("'", "''") + "'"
    assert text == f"& {literal} {literal}"


def test_a_value_with_braces_is_no_placeholder() -> None:
    step = steps_of((StepSpec("install"),), python__path="/v/{plan.torch}/python", plan__torch="2.5.1")[0]
    assert step.argv[0] == "/v/{plan.torch}/python"

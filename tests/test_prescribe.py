"""Remedies to steps: which form is taken, what fills a placeholder, what is left out, what is taken for granted."""

import pytest

from troubleshooter.model import (
    Action,
    ActionForm,
    ActionNote,
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
    Table,
    Value,
    present,
)
from troubleshooter.prescribe import prescribe
from troubleshooter.settle import settle

CATALOGUE = {
    name: FactSpec(name, kind, "host", "")
    for name, kind in {
        "os.family": "text", "os.architecture": "text", "python.path": "text", "python.prefix": "text",
        "python.manager": "text", "pip.index_url": "text", "uv.index_url": "text", "shell.name": "text",
        "plan.torch": "version", "plan.tag": "text", "plan.torchvision": "version", "plan.on_pypi": "flag", "a": "flag",
        "install.tool": "text",
    }.items()
}  # fmt: skip
CATALOGUE["python.manager"] = CATALOGUE["python.manager"]._replace(one_of=("pip", "uv", "conda", "micromamba"))
A_HOLDS = (Condition("a", "is", True),)
INSTALL = Action(
    "install",
    "",
    (
        ActionForm((("conda", "create", "{name}"), ("conda", "install", "{packages*}")), "Makes it.",
                   manager=("conda",), reboot=True),
        ActionForm((("{python.path|python}", "-m", "pip", "install", "torch=={plan.torch}",
                     "torchvision=={plan.torchvision}?"),), manager=("pip",), undoable=True),
        ActionForm(say="Install torch {plan.torch}."),
    ),
    notes=(ActionNote("In a container too.", when=A_HOLDS), ActionNote("With uv.", manager=("uv",))),
)  # fmt: skip
BUILDS = Table("torch_releases", "builds", ("release",), "somewhere", "2026-11-30",
               ({"release": "2.9.1", "pypi_default": {"linux": "cu128", "linux_aarch64": "cu128", "windows": "cpu"}},))  # fmt: skip


def steps_of(
    steps: tuple[StepSpec, ...],
    when: tuple[Condition, ...] = (),
    unless: tuple[Condition, ...] = (),
    action: Action = INSTALL,
    **stated: Value,
) -> tuple[Step, ...]:
    remedy = RemedySpec("r", "R", "environment", steps, when, unless=unless)
    article = Article("x", "X", "torch", "blocking", "common", "", (remedy,), ())
    tables = {"torch_releases": BUILDS}
    knowledge = Knowledge(CATALOGUE, (), (), tables, {"x": article}, {action.name: action}, Strengths({}, {}), (), "")
    facts = settle(
        [present(name.replace("__", "."), value, Source("set", "set")) for name, value in stated.items()], CATALOGUE
    )
    diagnosis = Diagnosis("x", "host", 0.9, "blocking", "torch", "common", "", "", ())
    remedies = prescribe([diagnosis], facts, knowledge)[0].remedies
    return remedies[0].steps if remedies else ()


def test_an_action_takes_the_form_of_this_manager() -> None:
    step = steps_of(
        (StepSpec("install"),),
        os__family="linux",
        python__path="/v/bin/python",
        python__manager="pip",
        plan__torch="2.5.1",
        plan__torchvision="0.20.1",
    )[0]
    assert step.argv == ("/v/bin/python", "-m", "pip", "install", "torch==2.5.1", "torchvision==0.20.1")
    assert (step.kind, step.shell, step.manager, step.undoable) == ("run", "bash", "pip", True)
    assert step.assumed == ()


def test_an_optional_argument_without_a_value_is_left_out() -> None:
    step = steps_of((StepSpec("install"),), python__path="/v/bin/python", plan__torch="2.5.1")[0]
    assert step.argv[-1] == "torch==2.5.1"


def test_what_is_taken_for_granted_is_told() -> None:
    step = steps_of((StepSpec("install"),), plan__torch="2.5.1")[0]
    assert step.argv[0] == "python"
    assert step.assumed == ("os.family", "python.manager", "python.path")


def test_a_remedy_without_the_value_it_needs_is_not_offered() -> None:
    assert steps_of((StepSpec("install"),), python__path="/v/bin/python") == ()


def test_a_form_that_lacks_a_value_gives_way_to_the_next() -> None:
    step = steps_of((StepSpec("install"),), python__manager="conda", plan__torch="2.5.1")[0]
    assert (step.kind, step.say) == ("say", "Install torch 2.5.1.")


def test_a_form_of_several_commands_gives_a_step_for_each() -> None:
    arguments = (("name", "my env"), ("packages", "a b=={plan.torch} c=={plan.torchvision}?"))
    steps = steps_of((StepSpec("install", arguments),), python__manager="conda", plan__torch="2.5.1")
    assert [step.argv for step in steps] == [
        ("conda", "create", "my env"),
        ("conda", "install", "a", "b==2.5.1"),
    ]
    assert [step.say for step in steps] == ["Makes it.", ""]
    assert [step.reboot for step in steps] == [False, True]


def test_a_note_is_added_where_its_circumstances_are_given() -> None:
    told = {"plan__torch": "2.5.1", "python__manager": "uv"}
    assert steps_of((StepSpec("install"),), **told)[0].say == "Install torch 2.5.1. With uv."
    assert (
        steps_of((StepSpec("install"),), a=True, **told)[0].say == "Install torch 2.5.1. In a container too. With uv."
    )


def test_a_remedy_for_another_case_is_not_offered() -> None:
    assert steps_of((StepSpec(say="x"),), A_HOLDS) == ()
    assert steps_of((StepSpec(say="x"),), A_HOLDS, a=False) == ()
    assert steps_of((StepSpec(say="x"),), A_HOLDS, a=True)[0].say == "x"


def test_what_is_not_known_does_not_rule_a_remedy_out() -> None:
    assert steps_of((StepSpec(say="x"),), unless=A_HOLDS)[0].say == "x"
    assert steps_of((StepSpec(say="x"),), unless=A_HOLDS, a=False)[0].say == "x"
    assert steps_of((StepSpec(say="x"),), unless=A_HOLDS, a=True) == ()


def test_a_step_for_another_case_is_left_out_and_the_rest_stays() -> None:
    steps = (StepSpec(say="x", when=A_HOLDS), StepSpec(say="y", unless=A_HOLDS), StepSpec(say="z"))
    assert [step.say for step in steps_of(steps)] == ["y", "z"]
    assert [step.say for step in steps_of(steps, a=True)] == ["x", "z"]
    assert steps_of(steps[:1]) == (), "a remedy of which nothing is left is none"


@pytest.mark.parametrize(
    ("index", "architecture", "tag", "keeps"),
    [
        ({"pip__index_url": "https://mirror.example/simple"}, "x86_64", "cu128", True),
        ({"uv__index_url": "https://mirror.example/simple"}, "aarch64", "cu128", True),
        ({"pip__index_url": "https://mirror.example/simple"}, "x86_64", "cu126", False),
        ({}, "x86_64", "cu128", None),
    ],
)
def test_whether_a_mirror_of_pypi_has_the_build_comes_from_the_table(index, architecture, tag, keeps) -> None:
    step = StepSpec(say="{plan.on_pypi}")
    told = steps_of(
        (step,), os__family="linux", os__architecture=architecture, plan__torch="2.9.1", plan__tag=tag, **index
    )
    assert [one.say for one in told] == {True: ["yes"], False: ["no"], None: []}[keeps]


@pytest.mark.parametrize(
    ("stated", "value", "text"),
    [
        ({"os__family": "linux"}, None, "unset A"),
        ({"os__family": "linux"}, "x y", "export A='x y'"),
        ({"os__family": "windows"}, None, "Remove-Item Env:A -ErrorAction SilentlyContinue"),
        ({"os__family": "windows"}, "it's", "$env:A = 'it''s'"),
        ({"os__family": "windows", "shell__name": "cmd"}, None, 'set "A="'),
        ({"os__family": "windows", "shell__name": "cmd"}, "it's & more", 'set "A=it\'s & more"'),
        ({"os__family": "windows", "shell__name": "cmd"}, "50% of x", "set A=50^% of x"),
        ({"os__family": "windows", "shell__name": "cmd"}, "two\nlines", "$env:A = 'two\nlines'"),
    ],
)
def test_a_variable_is_set_in_the_words_of_the_shell(stated: dict[str, str], value: str | None, text: str) -> None:
    step = steps_of((StepSpec(set_env=(("A", value),)),), **stated)[0]
    assert step.shell_text == text
    assert step.env == (("A", value),)


@pytest.mark.parametrize(
    ("stated", "text", "where"),
    [
        ({"os__family": "linux"}, "echo 'export A='\"'\"'x y'\"'\"'' >> ~/.bashrc", "profile"),
        (
            {"os__family": "linux", "python__manager": "conda", "python__prefix": "/opt/my env"},
            "conda env config vars set --prefix '/opt/my env' 'A=x y'",
            "conda",
        ),
        (
            {"os__family": "linux", "python__manager": "micromamba", "python__prefix": "/my env"},
            (
                "mkdir -p '/my env/etc/conda/activate.d' && echo 'export A='\"'\"'x y'\"'\"'' >> "
                "'/my env/etc/conda/activate.d/variables.sh'"
            ),
            "conda",
        ),
        ({"os__family": "windows"}, "[Environment]::SetEnvironmentVariable('A', 'x y', 'User')", "user-environment"),
        ({"os__family": "windows", "shell__name": "cmd"}, 'setx A "x y"', "user-environment"),
    ],
)
def test_a_variable_is_kept_in_the_way_of_the_system(stated: dict[str, str], text: str, where: str) -> None:
    now, later = steps_of((StepSpec(set_env=(("A", "x y"),), persist=True),), **stated)
    assert (now.persist, later.persist, later.shell_text) == ("", where, text)
    assert later.env == (("A", "x y"),)


@pytest.mark.parametrize(
    ("stated", "text"),
    [
        ({"os__family": "windows"}, "[Environment]::SetEnvironmentVariable('A', $null, 'User')"),
        ({"os__family": "windows", "shell__name": "cmd"}, "reg delete HKCU\\Environment /v A /f"),
        (
            {"os__family": "linux", "python__manager": "conda", "python__prefix": "/e"},
            "conda env config vars unset --prefix /e A",
        ),
    ],
)
def test_a_variable_is_removed_for_good_in_the_way_of_the_system(stated: dict[str, str], text: str) -> None:
    assert steps_of((StepSpec(set_env=(("A", None),), persist=True),), **stated)[1].shell_text == text


def test_what_setx_would_cut_is_kept_by_powershell() -> None:
    step = StepSpec(set_env=(("A", "x" * 1025),), persist=True)
    assert steps_of((step,), os__family="windows", shell__name="cmd")[1].shell_text.startswith("[Environment]::Set")


def test_the_installer_that_a_text_shows_is_taken_for_the_manager() -> None:
    steps = steps_of((StepSpec("install", (("name", "n"), ("packages", "a"))),), install__tool="conda")
    assert [step.argv[0] for step in steps] == ["conda", "conda"]
    assert steps[0].assumed == ("os.family", "python.manager")


def test_a_value_with_braces_is_no_placeholder() -> None:
    step = steps_of((StepSpec("install"),), python__path="/v/{plan.torch}/python", plan__torch="2.5.1")[0]
    assert step.argv[0] == "/v/{plan.torch}/python"

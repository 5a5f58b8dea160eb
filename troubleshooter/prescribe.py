"""Remedies of the diagnoses, compiled into commands for this system, shell and package manager. Pure."""

import re
from collections.abc import Iterable, Mapping

from .model import (
    HOST,
    PRESENT,
    Action,
    ActionForm,
    Condition,
    Diagnosis,
    FactRef,
    FactSpec,
    Knowledge,
    Remedy,
    RemedySpec,
    Step,
    StepSpec,
)
from .rank import shown
from .settle import Facts

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")


class _MissingError(Exception):
    """A placeholder has no value: the remedy is not offered."""


def prescribe(diagnoses: Iterable[Diagnosis], facts: Facts, knowledge: Knowledge) -> tuple[Diagnosis, ...]:
    """The diagnoses with those remedies of their articles that apply here and can be written out."""
    return tuple(
        one._replace(remedies=tuple(_remedies(one, facts, knowledge)) if not one.explained_by else ())
        for one in diagnoses
    )


def _remedies(diagnosis: Diagnosis, facts: Facts, knowledge: Knowledge) -> Iterable[Remedy]:
    subject = diagnosis.subject.split(",")[0]
    for spec in knowledge.articles[diagnosis.id].remedies:
        if all(_applies(condition, subject, facts, knowledge.facts) for condition in spec.when):
            try:
                yield _compile(spec, subject, facts, knowledge.actions)
            except _MissingError:
                continue


def _applies(condition: Condition, subject: str, facts: Facts, catalogue: Mapping[str, FactSpec]) -> bool:
    from .engine.conditions import holds

    spec = catalogue.get(condition.fact)
    if spec is None:
        return False
    other = None
    if isinstance(condition.operand, FactRef):
        other = facts.fact(condition.operand.fact, _subject_of(condition.operand.fact, subject, catalogue))
    return (
        holds(condition, spec.type, facts.fact(condition.fact, subject if spec.subject != HOST else HOST), other)
        is True
    )


def _subject_of(name: str, subject: str, catalogue: Mapping[str, FactSpec]) -> str:
    spec = catalogue.get(name)
    return subject if spec and spec.subject != HOST else HOST


def _compile(spec: RemedySpec, subject: str, facts: Facts, actions: Mapping[str, Action]) -> Remedy:
    steps = tuple(_step(step, subject, facts, actions) for step in spec.steps)
    return Remedy(spec.id, spec.title, spec.risk, steps)


def _step(step: StepSpec, subject: str, facts: Facts, actions: Mapping[str, Action]) -> Step:
    shell = "powershell" if facts.text("os.family") == "windows" else "bash"
    if step.say:
        return Step("say", _fill(step.say, {}, subject, facts))
    if step.set_env:
        env = tuple((name, None if value is None else _fill(value, {}, subject, facts)) for name, value in step.set_env)
        text = "\n".join(_setting(name, value, shell) for name, value in env)
        return Step("set-env", "", env=env, shell_text=text, shell=shell, undoable=True)
    arguments = dict(step.arguments)
    manager = facts.text("python.manager") or "pip"
    form = _form(actions[step.do], facts.text("os.family"), facts.text("os.distribution"), manager)
    if form is None:
        raise _MissingError(step.do)
    say = _fill(form.say, arguments, subject, facts)
    if not form.argv:
        return Step("say", say, admin=form.admin, reboot=form.reboot)
    argv = tuple(part for template in form.argv if (part := _part(template, arguments, subject, facts)))
    return Step(
        kind="run",
        say=say,
        argv=argv,
        shell_text=quoted(argv, shell),
        shell=shell,
        manager=manager if form.manager else "",
        admin=form.admin,
        reboot=form.reboot,
        undoable=form.undoable,
    )


def _form(action: Action, family: str, distribution: str, manager: str) -> ActionForm | None:
    """The first form for this system and manager; with the system unknown, one for any system only."""
    for form in action.forms:
        wanted = ((form.os, family), (form.distribution, distribution), (form.manager, manager))
        if all(not allowed or given in allowed for allowed, given in wanted):
            return form
    return None


def _part(template: str, arguments: Mapping[str, str], subject: str, facts: Facts) -> str:
    """One argument. `torchvision=={plan.torchvision}?` (a `?` at the end) is left out where the fact is absent."""
    if not template.endswith("?"):
        return _fill(template, arguments, subject, facts)
    try:
        return _fill(template[:-1], arguments, subject, facts)
    except _MissingError:
        return ""


def _fill(template: str, arguments: Mapping[str, str], subject: str, facts: Facts) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name in arguments:
            return _fill(arguments[name], {}, subject, facts)
        fact = facts.fact(name, HOST) or facts.fact(name, subject)
        if fact is None or fact.state != PRESENT:
            raise _MissingError(name)
        return shown(fact)

    return _PLACEHOLDER.sub(value, template) if "{" in template else template


def _setting(name: str, value: str | None, shell: str) -> str:
    if shell == "powershell":
        return f"Remove-Item Env:{name}" if value is None else f"$env:{name} = {_powershell(value, always=True)}"
    import shlex

    return f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}"


def quoted(argv: tuple[str, ...], shell: str) -> str:
    """One line that a person can paste into that shell."""
    if shell == "bash":
        import shlex

        return shlex.join(argv)
    first, *rest = argv
    # A quoted program name is a text to PowerShell unless the call operator stands before it.
    program = first if first == _powershell(first) else f"& {_powershell(first, always=True)}"
    return " ".join([program, *map(_powershell, rest)])


def _powershell(text: str, always: bool = False) -> str:
    if not always and re.fullmatch(r"[A-Za-z0-9_.:/\\=+~-]+", text):
        return text
    # Typographic single quotes end a literal as the straight one does; a doubled one is the character itself.
    return "'" + re.sub("(['\u2018\u2019\u201a\u201b])", r"\1\1", text) + "'"


def steps_of(spec: StepSpec, facts: Facts, knowledge: Knowledge) -> tuple[Step, ...]:
    """A step of a remedy written out for this machine; none where a placeholder has no value or no form of it fits."""
    try:
        return (_step(spec, HOST, facts, knowledge.actions),)
    except _MissingError:
        return ()

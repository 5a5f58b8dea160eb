"""Remedies of the diagnoses, compiled into commands for this system, shell and package manager. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping

from .model import (
    HOST,
    PRESENT,
    Action,
    ActionForm,
    ActionNote,
    Condition,
    Diagnosis,
    Fact,
    FactRef,
    FactSpec,
    Knowledge,
    Remedy,
    RemedySpec,
    Source,
    Step,
    StepSpec,
    Table,
)
from .rank import shown
from .settle import Facts
from .shells import NotWritableError, kept_setting, quoted, setting, shell_of

PLACEHOLDER = re.compile(r"\{([^{}|*]+)(\*|\|[^{}]*)?\}")
"""`{name}`, `{name|text}` with a text for the case that nothing is known, `{name*}` for one argument a word."""

ASSUMED_MANAGER = "pip"


class _MissingError(Exception):
    """A placeholder has no value: the remedy is not offered."""


def prescribe(diagnoses: Iterable[Diagnosis], facts: Facts, knowledge: Knowledge) -> tuple[Diagnosis, ...]:
    """The diagnoses with those remedies of their articles that apply here and can be written out."""
    facts = facts.adding(_on_pypi(facts, knowledge.tables))
    return tuple(
        one._replace(remedies=tuple(_remedies(one, facts, knowledge)) if not one.explained_by else ())
        for one in diagnoses
    )


def _remedies(diagnosis: Diagnosis, facts: Facts, knowledge: Knowledge) -> Iterable[Remedy]:
    here = _Place(facts, diagnosis.subject.split(",")[0], knowledge.facts, knowledge.actions)
    for spec in knowledge.articles[diagnosis.id].remedies:
        if here.applies(spec):
            try:
                steps = tuple(step for one in spec.steps if here.applies(one) for step in here.steps(one))
            except _MissingError:
                continue
            if steps:
                yield Remedy(spec.id, spec.title, spec.risk, steps)


def steps_of(spec: StepSpec, facts: Facts, knowledge: Knowledge) -> tuple[Step, ...]:
    """A step of a remedy written out for this machine; none where a placeholder has no value or no form of it fits."""
    facts = facts.adding(_on_pypi(facts, knowledge.tables))
    try:
        return tuple(_Place(facts, HOST, knowledge.facts, knowledge.actions).steps(spec))
    except _MissingError:
        return ()


def _on_pypi(facts: Facts, tables: Mapping[str, Table]) -> Iterator[Fact]:
    """Whether PyPI itself, and so each mirror of it, gives the planned build on this platform."""
    indexes = (facts.text("pip.index_url"), facts.text("uv.index_url"))
    wanted, tag, family = facts.text("plan.torch"), facts.text("plan.tag"), facts.text("os.family")
    table = tables.get("torch_releases") if any(indexes) and wanted and tag else None
    row = next((row for row in table.rows if row["release"] == wanted), None) if table else None
    if table is None or row is None:
        return
    gives = row.get("pypi_default")
    arm = facts.text("os.architecture").lower() in ("aarch64", "arm64")
    platform = ("linux_aarch64" if arm else "linux") if family in ("linux", "wsl") else family
    if isinstance(gives, Mapping) and platform in gives:
        source = Source("table", "table", f"{table.meaning} ({table.source}, {table.checked})", table.name)
        bases = ("plan.torch@host", "plan.tag@host")
        yield Fact("plan.on_pypi", HOST, PRESENT, gives[platform] == tag, source, bases=bases)


class _Place:
    """Where a remedy is to be applied: what is known of it, and about which GPU, package or library it is."""

    def __init__(
        self, facts: Facts, subject: str, catalogue: Mapping[str, FactSpec], actions: Mapping[str, Action]
    ) -> None:
        self.facts = facts
        self.subject = subject
        self.catalogue = catalogue
        self.actions = actions
        self.manager = facts.text("python.manager") or _guessed_manager(facts, catalogue)
        self.shell = shell_of(facts.text("os.family"), facts.text("shell.name"))

    def applies(self, spec: RemedySpec | StepSpec | ActionNote) -> bool:
        return all(map(self._holds, spec.when)) and not any(map(self._holds, spec.unless))

    def steps(self, spec: StepSpec) -> Iterator[Step]:
        if spec.say:
            yield Step("say", self._fill(spec.say, {}, set()))
        elif spec.set_env:
            yield from self._settings(spec)
        else:
            yield from self._commands(spec.do, dict(spec.arguments))

    def _settings(self, spec: StepSpec) -> Iterator[Step]:
        assumed: set[str] = set()
        env = tuple((name, None if value is None else self._fill(value, {}, assumed)) for name, value in spec.set_env)
        shell = self._shell_for(value for _, value in env if value)
        text = "\n".join(setting(name, value, shell) for name, value in env)
        if not self.facts.text("os.family"):
            assumed.add("os.family")
        step = Step("set-env", "", env=env, shell_text=text, shell=shell, undoable=True, assumed=_sorted(assumed))
        yield step
        if not spec.persist:
            return
        prefix = self.facts.text("python.prefix")
        if self.manager == "conda" and prefix:
            # conda sets such variables whenever the environment is activated, in every shell alike.
            verb = [f"{name}={value}" for name, value in env if value is not None]
            gone = [name for name, value in env if value is None]
            commands = [("conda", "env", "config", "vars", "set", "--prefix", prefix, *verb)] if verb else []
            commands += [("conda", "env", "config", "vars", "unset", "--prefix", prefix, *gone)] if gone else []
            text, where = "\n".join(quoted(one, shell) for one in commands), "conda"
        else:
            within = prefix if self.manager in ("mamba", "micromamba") and shell == "bash" else ""
            text = "\n".join(self._kept(name, value, within) for name, value in env)
            where = "conda" if within else "profile" if shell == "bash" else "user-environment"
        yield step._replace(shell_text=text, persist=where)

    def _kept(self, name: str, value: str | None, within: str) -> str:
        try:
            return kept_setting(name, value, self.shell, within)
        except NotWritableError:
            return kept_setting(name, value, "powershell")

    def _commands(self, name: str, arguments: Mapping[str, str]) -> Iterator[Step]:
        action = self.actions[name]
        for form in filter(self._fits, action.forms):
            try:
                first, *others = self._written(form, arguments)
            except _MissingError:
                continue
            yield first._replace(say=" ".join((first.say, *self._notes(action))).strip())
            yield from others
            return
        raise _MissingError(name)

    def _fits(self, form: ActionForm) -> bool:
        """With the system unknown, only forms for any system fit."""
        family, distribution = self.facts.text("os.family"), self.facts.text("os.distribution")
        wanted = ((form.os, family), (form.distribution, distribution), (form.manager, self.manager))
        return all(not allowed or given in allowed for allowed, given in wanted) and all(map(self._holds, form.when))

    def _written(self, form: ActionForm, arguments: Mapping[str, str]) -> tuple[Step, ...]:
        assumed: set[str] = set()
        say = self._fill(form.say, arguments, assumed)
        if not form.commands:
            return (Step("say", say, admin=form.admin, reboot=form.reboot),)
        commands = [
            tuple(word for template in command for word in self._words(template, arguments, assumed))
            for command in form.commands
        ]
        if not self.facts.text("os.family"):
            assumed.add("os.family")
        if form.manager or _managed(form):
            assumed.update(() if self.facts.text("python.manager") else ("python.manager",))
        return tuple(
            Step(
                kind="run",
                say=say if number == 0 else "",
                argv=argv,
                shell_text=quoted(argv, shell),
                shell=shell,
                manager=self.manager if form.manager or _managed(form) else "",
                admin=form.admin,
                reboot=form.reboot and number == len(commands) - 1,
                undoable=form.undoable,
                assumed=_sorted(assumed),
            )
            for number, argv in enumerate(commands)
            for shell in (self._shell_for(argv),)
        )

    def _notes(self, action: Action) -> Iterator[str]:
        for note in action.notes:
            if (not note.manager or self.manager in note.manager) and self.applies(note):
                try:
                    yield self._fill(note.say, {}, set())
                except _MissingError:
                    continue

    def _words(self, template: str, arguments: Mapping[str, str], assumed: set[str]) -> tuple[str, ...]:
        """The arguments that one template stands for. With a `?` at its end, none where a value is missing."""
        optional = template.endswith("?")
        template = template[:-1] if optional else template
        try:
            if (found := PLACEHOLDER.fullmatch(template)) and found[2] == "*":
                parts = self._template(found[1], arguments).split()
                return tuple(word for part in parts for word in self._words(part, {}, assumed))
            return (self._fill(template, arguments, assumed),)
        except _MissingError:
            if optional:
                return ()
            raise

    def _template(self, name: str, arguments: Mapping[str, str]) -> str:
        if name not in arguments:
            raise _MissingError(name)
        return arguments[name]

    def _fill(self, template: str, arguments: Mapping[str, str], assumed: set[str]) -> str:
        def value(match: re.Match[str]) -> str:
            name, rest = match[1], match[2] or ""
            if name in arguments:
                return self._fill(arguments[name], {}, assumed)
            fact = self.facts.fact(name, HOST) or self.facts.fact(name, self.subject)
            if fact is not None and fact.state == PRESENT:
                return shown(fact)
            if rest.startswith("|"):
                if name in self.catalogue:
                    assumed.add(name)
                return rest[1:]
            raise _MissingError(name)

        return PLACEHOLDER.sub(value, template) if "{" in template else template

    def _holds(self, condition: Condition) -> bool:
        from .engine.conditions import holds

        spec = self.catalogue.get(condition.fact)
        if spec is None:
            return False
        other = None
        if isinstance(condition.operand, FactRef):
            other = self.facts.fact(condition.operand.fact, self._subject_of(condition.operand.fact))
        return (
            holds(condition, spec.type, self.facts.fact(condition.fact, self._subject_of(condition.fact)), other)
            is True
        )

    def _subject_of(self, name: str) -> str:
        spec = self.catalogue.get(name)
        return self.subject if spec and spec.subject != HOST else HOST

    def _shell_for(self, texts: Iterable[str]) -> str:
        """PowerShell in place of cmd for what cmd cannot be given."""
        if self.shell == "cmd" and any("\n" in text or "\r" in text for text in texts):
            return "powershell"
        return self.shell


def _guessed_manager(facts: Facts, catalogue: Mapping[str, FactSpec]) -> str:
    """The installer that the text shows at work, else the usual one."""
    tool, known = facts.text("install.tool"), catalogue.get("python.manager")
    return tool if known and tool in known.one_of else ASSUMED_MANAGER


def _managed(form: ActionForm) -> bool:
    """Whether it calls the installer of a Python by that Python."""
    return any("-m pip " in f"{' '.join(command)} " for command in form.commands)


def _sorted(names: set[str]) -> tuple[str, ...]:
    return tuple(sorted(names))

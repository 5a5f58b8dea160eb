"""What each kind of file says: from nodes to the frozen values of `model`. Cross-checks are in `check`."""

import re
from collections.abc import Iterable, Iterator

from ..errors import Problem, did_you_mean
from ..model import (
    Action,
    ActionForm,
    ActionNote,
    Article,
    Ask,
    Condition,
    Example,
    FactRef,
    FactSpec,
    Location,
    Reference,
    RemedySpec,
    Rule,
    Signature,
    StepSpec,
    Strengths,
    Table,
    TestEffect,
    Value,
)
from .fields import Fields, fields, plain, text_of
from .patterns import branches, check_pattern, needs, required_literals
from .translate import differences
from .yaml_marks import Mapping, Node, Scalar, Sequence

TYPES = ("text", "number", "flag", "version", "texts", "versions")
SUBJECTS = ("host", "gpu", "package", "library", "python")
OPERATORS = ("is", "is_not", "one_of", "has", "below", "at_most", "above", "at_least", "matches", "state")
STATES = ("absent", "unknown", "present")
AREAS = ("driver", "visibility", "torch", "install", "libraries", "toolkit", "runtime", "team")
SEVERITIES = ("blocking", "degrading", "harmless")
RISKS = ("none", "environment", "system", "reboot")

TESTS = {
    **dict.fromkeys(("driver.init", "cpu.tensor", "env.dataloader", "env.spawn", "env.extension"), "host"),
    **dict.fromkeys(("multi.peer", "multi.copy", "multi.allreduce"), "host"),
    **dict.fromkeys(("driver.context", "driver.memory"), "gpu"),
    **dict.fromkeys(("torch.init", "torch.arch", "torch.matmul", "torch.conv", "torch.rnn", "torch.fft"), "gpu"),
    **dict.fromkeys(("torch.reduce", "torch.autograd", "torch.amp", "torch.compile"), "gpu"),
    **dict.fromkeys(("memory.patterns", "memory.copy", "memory.allocator"), "gpu"),
    **dict.fromkeys(("speed.matmul", "speed.memory", "speed.copy", "speed.conv", "speed.rnn", "speed.launch"), "gpu"),
}
"""The closed list of tests, with the subject that each speaks of."""

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)?")


def fact_specs(node: Node, problems: list[Problem]) -> Iterator[tuple[str, FactSpec]]:
    with fields(node, "the catalogue", problems) as top:
        listed = top.required("facts")
    if not isinstance(listed, Mapping):
        return
    for name, entry in listed.entries.items():
        with fields(entry, f"the fact {name!r}", problems) as fact:
            ask = fact.get("ask")
            yield (
                name,
                FactSpec(
                    name=name,
                    type=fact.choice("type", TYPES),
                    subject=fact.choice("subject", SUBJECTS, "host"),
                    meaning=fact.text("meaning"),
                    trust=fact.texts("trust"),
                    ask=None if ask is None else _ask(ask, problems),
                    one_of=fact.texts("one_of"),
                    context=fact.flag("context"),
                    at=listed.key_at[name],
                ),
            )


def _ask(node: Node, problems: list[Problem]) -> Ask:
    with fields(node, "'ask'", problems) as ask:
        cost = ask.choice("cost", ("cheap", "slow", "risky"), "cheap")
        return Ask(ask.text("say"), ask.texts("run"), cost, ask.texts("systems"))


def implied_facts(found: Iterable[Signature]) -> Iterator[tuple[str, FactSpec]]:
    """`log.<signature>` is a flag about the text, `test.<name>` an outcome about a GPU or the host."""
    for signature in found:
        name = f"log.{signature.id}"
        yield name, FactSpec(name, "flag", "host", f"the text shows {signature.id}", at=signature.at)
    for test, subject in TESTS.items():
        name = f"test.{test}"
        yield name, FactSpec(name, "text", subject, f"outcome of the test {test}", one_of=("passed", "failed"))


def strengths(node: Node, problems: list[Problem]) -> Strengths:
    with fields(node, "the strengths", problems) as top:
        return Strengths(_figures(top, "base_rates"), _figures(top, "evidence"))


def _figures(top: Fields, key: str) -> dict[str, float]:
    node = top.required(key)
    figures: dict[str, float] = {}
    if isinstance(node, Mapping):
        for name, entry in node.entries.items():
            if isinstance(entry, Scalar) and isinstance(entry.value, (int, float)):
                figures[name] = float(entry.value)
            else:
                top.complain(f"{name!r} must be a number", entry.at)
    return figures


def rules(node: Node, pack: str, problems: list[Problem]) -> list[Rule]:
    with fields(node, "a rule file", problems) as top:
        diagnosis = top.text("diagnosis", "")
        return [_rule(entry, diagnosis, pack, problems) for entry in top.items("rules", required=True)]


def _rule(node: Node, diagnosis: str, pack: str, problems: list[Problem]) -> Rule:
    with fields(node, "a rule", problems) as rule:
        name = identifier(rule, "id")
        concludes, note = rule.text("concludes", ""), rule.text("note", "")
        evidence = rule.text("evidence", "")
        if concludes and not concludes.startswith("finding."):
            rule.complain(f"'concludes' names a finding, not {concludes!r}", rule.place("concludes"), "finding.…")
        heads = [bool(concludes), bool(note), bool(evidence)]
        if sum(heads) != 1:
            rule.complain(
                f"the rule {name!r} needs exactly one of 'evidence', 'concludes' and 'note'",
                hint="" if any(heads) else "without one it says nothing",
            )
        elif evidence and not diagnosis:
            rule.complain("'evidence' needs a file with 'diagnosis: ID' at its head", rule.place("evidence"))
        conditions = tuple(
            condition for entry in rule.items("when", required=True) for condition in _conditions(entry, problems)
        )
        fires, quiet = _examples(rule, problems)
        return Rule(
            id=name,
            when=conditions,
            because=rule.text("because"),
            diagnosis=diagnosis if evidence else "",
            evidence=evidence,
            concludes=concludes,
            note=note,
            fires=fires,
            quiet=quiet,
            pack=pack,
            at=rule.place("id"),
        )


def identifier(reading: Fields, key: str) -> str:
    value = reading.text(key)
    if value and not _ID.fullmatch(value):
        reading.complain(f"{value!r} is no id", reading.place(key), "lower-case words joined by hyphens")
    return value


def _conditions(node: Node, problems: list[Problem]) -> Iterator[Condition]:
    with fields(node, "a condition", problems) as condition:
        finding = condition.get("no")
        name = condition.get("fact")
        chosen = [op for op in OPERATORS if condition.get(op) is not None]
        if finding is not None:
            if name is not None or chosen:
                condition.complain("'no' stands alone in its condition")
            yield Condition(text_of(finding, "no", problems), "no", None, condition.at)
            return
        if name is None:
            condition.complain("a condition needs 'fact' or 'no'")
            return
        fact = text_of(name, "fact", problems)
        if len(chosen) != 1:
            message = "compares in two ways" if chosen else "compares in no way"
            condition.complain(f"the condition on {fact!r} {message}", hint=f"one of {', '.join(OPERATORS)}")
            return
        operand = condition.get(chosen[0])
        assert operand is not None
        yield Condition(fact, chosen[0], _operand(operand, problems), condition.at)


def _operand(node: Node, problems: list[Problem]) -> Value | FactRef | None:
    if isinstance(node, Mapping):
        with fields(node, "the operand", problems) as other:
            return FactRef(other.text("fact"))
    if isinstance(node, Sequence):
        return tuple(text_of(item, "the operand", problems) for item in node.items)
    if isinstance(node.value, float):
        problems.append(
            Problem(f"the unquoted {node.text} reads as the number {node.value}", node.at, f'write "{node.text}"')
        )
        return node.text
    return node.value


def _examples(rule: Fields, problems: list[Problem]) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    with fields(rule.get("examples"), "'examples'", problems) as examples:
        return (
            tuple(_example(entry, problems) for entry in examples.items("fires")),
            tuple(_example(entry, problems) for entry in examples.items("quiet")),
        )


def _example(node: Node, problems: list[Problem]) -> Example:
    stated: list[tuple[str, Value | None]] = []
    if isinstance(node, Mapping):
        for name, entry in node.entries.items():
            value = _operand(entry, problems)
            stated.append((name, value if not isinstance(value, FactRef) else value.fact))
    else:
        problems.append(Problem("an example is a mapping of facts to values", node.at))
    return Example(tuple(stated), node.at)


def signatures(node: Node, pack: str, problems: list[Problem]) -> list[Signature]:
    with fields(node, "a signature file", problems) as top:
        top.text("source", "")
        return [_signature(entry, pack, problems) for entry in top.items("signatures", required=True)]


def _signature(node: Node, pack: str, problems: list[Problem]) -> Signature:
    with fields(node, "a signature", problems) as signature:
        name = identifier(signature, "id")
        pattern = signature.text("pattern")
        at = signature.node.entries["pattern"].at if "pattern" in signature.node.entries else signature.at
        for message, hint in check_pattern(pattern):
            signature.complain(message, at, hint)
        captured = signature.text_pairs("facts")
        with fields(signature.required("printed_by"), "'printed_by'", problems) as printed:
            printed.text("program")
            printed.text("source")
            origin = tuple((key, printed.text(key, "")) for key in ("program", "since", "until", "source"))
        with fields(signature.required("examples"), "'examples'", problems) as examples:
            matches, ignores = examples.texts("matches"), examples.texts("ignores")
        if not matches:
            signature.complain(f"the signature {name!r} has no line that it matches")
        return Signature(
            id=name,
            pattern=pattern,
            literals=required_literals(pattern),
            printed_by=origin,
            facts=captured,
            matches=matches,
            ignores=ignores,
            lines=signature.number("lines", 1),
            pack=pack,
            at=signature.place("id"),
            needs=needs(pattern),
            branches=branches(pattern),
        )


def table(node: Node, problems: list[Problem]) -> Iterator[tuple[str, Table]]:
    with fields(node, "a table", problems) as top:
        name = top.text("table")
        rows = []
        for entry in top.items("rows", required=True):
            row = plain(entry)
            if isinstance(row, dict):
                rows.append(row)
            else:
                top.complain("a row of a table is a mapping", entry.at)
        yield (
            name,
            Table(
                name=name,
                meaning=top.text("meaning"),
                key=top.texts("key"),
                source=top.text("source"),
                checked=top.text("checked"),
                rows=tuple(rows),
                at=top.at,
            ),
        )


def translations(node: Node, problems: list[Problem]) -> dict[str, str]:
    """Texts by what they say in English."""
    found: dict[str, str] = {}
    with fields(node, "a file of translations", problems) as top:
        listed = top.required("translations")
        if listed is not None and not isinstance(listed, Mapping):
            top.complain("'translations' is a mapping of English texts to their translations", listed.at)
        for english, entry in listed.entries.items() if isinstance(listed, Mapping) else ():
            text = text_of(entry, "the translation", problems)
            problems += [Problem(message, entry.at) for message in differences(english, text)]
            found[english] = text
    return found


def action(node: Node, problems: list[Problem]) -> Iterator[tuple[str, Action]]:
    with fields(node, "an action", problems) as top:
        name = identifier(top, "action")
        forms = tuple(_form(entry, problems) for entry in top.items("forms", required=True))
        notes = tuple(_note(entry, problems) for entry in top.items("notes"))
        yield name, Action(name, top.text("meaning"), forms, top.place("action"), notes)


def _note(node: Node, problems: list[Problem]) -> ActionNote:
    with fields(node, "a note", problems) as note:
        return ActionNote(
            say=note.text("say"),
            manager=note.texts("manager"),
            when=_all_conditions(note, "when", problems),
            unless=_all_conditions(note, "unless", problems),
        )


def _form(node: Node, problems: list[Problem]) -> ActionForm:
    with fields(node, "a form", problems) as form:
        argv = form.texts("argv")
        several = tuple(_words(entry, problems) for entry in form.items("commands"))
        read = ActionForm(
            commands=(argv,) if argv else several,
            say=form.text("say", ""),
            os=form.texts("os"),
            distribution=form.texts("distribution"),
            manager=form.texts("manager"),
            admin=form.flag("admin"),
            reboot=form.flag("reboot"),
            undoable=form.flag("undoable"),
            when=_all_conditions(form, "when", problems),
        )
        if argv and several:
            form.complain("a form has 'argv' (one command) or 'commands' (a list of them)")
        if not read.commands and not read.say:
            form.complain("a form needs 'argv', 'commands' or 'say'")
        return read


def _words(node: Node, problems: list[Problem]) -> tuple[str, ...]:
    if isinstance(node, Sequence):
        return tuple(text_of(item, "commands", problems) for item in node.items)
    problems.append(Problem("a command is a list of arguments", node.at))
    return ()


def _all_conditions(entry: Fields, key: str, problems: list[Problem]) -> tuple[Condition, ...]:
    return tuple(condition for one in entry.items(key) for condition in _conditions(one, problems))


def article(node: Node, pack: str, problems: list[Problem]) -> list[tuple[str, Article]]:
    with fields(node, "an article", problems) as top:
        name = identifier(top, "id")
        return [
            (
                name,
                Article(
                    id=name,
                    title=top.text("title"),
                    area=top.choice("area", AREAS),
                    severity=top.choice("severity", SEVERITIES),
                    base_rate=top.text("base_rate"),
                    meaning=top.text("meaning"),
                    remedies=tuple(_remedy(entry, problems) for entry in top.items("remedies", required=True)),
                    references=tuple(_reference(entry, problems) for entry in top.items("references", required=True)),
                    not_to_confuse_with=top.text_pairs("not_to_confuse_with"),
                    explains=top.texts("explains"),
                    confirm=tuple(_effect(entry, problems) for entry in top.items("confirm")),
                    verify=top.texts("verify"),
                    pack=pack,
                    at=top.place("id"),
                ),
            )
        ]


def _reference(node: Node, problems: list[Problem]) -> Reference:
    with fields(node, "a reference", problems) as reference:
        return Reference(reference.text("says"), reference.text("url"), reference.text("checked"))


def _effect(node: Node, problems: list[Problem]) -> TestEffect:
    with fields(node, "a test", problems) as effect:
        return TestEffect(
            effect.choice("test", TESTS),
            effect.choice("shows", ("passed", "failed")),
            effect.text("strength", "strong"),
        )


def _remedy(node: Node, problems: list[Problem]) -> RemedySpec:
    with fields(node, "a remedy", problems) as remedy:
        return RemedySpec(
            id=identifier(remedy, "id"),
            title=remedy.text("title"),
            risk=remedy.choice("risk", RISKS),
            steps=tuple(_step(entry, problems) for entry in remedy.items("steps", required=True)),
            when=_all_conditions(remedy, "when", problems),
            at=remedy.at,
            unless=_all_conditions(remedy, "unless", problems),
        )


def _step(node: Node, problems: list[Problem]) -> StepSpec:
    with fields(node, "a step", problems) as step:
        read = StepSpec(
            do=step.text("do", ""),
            arguments=step.text_pairs("with"),
            set_env=step.pairs("set-env"),
            say=step.text("say", ""),
            persist=step.flag("persist"),
            when=_all_conditions(step, "when", problems),
            unless=_all_conditions(step, "unless", problems),
        )
        if read.persist and not read.set_env:
            step.complain("only 'set-env' can have 'persist'")
        if sum((bool(read.do), bool(read.set_env), bool(read.say))) != 1:
            step.complain("a step is one of 'do', 'set-env' and 'say'")
        return read


def misspelt(name: str, known: Iterable[str], what: str, at: Location) -> Problem:
    return Problem(f"unknown {what} {name!r}", at, did_you_mean(name, known))

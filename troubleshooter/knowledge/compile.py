"""Writes what `compiled` reads. The same knowledge gives the same bytes."""

import json
import os
from binascii import crc32

from ..engine.guards import guards_of
from ..engine.program import read_program
from ..errors import KnowledgeError
from ..literals import literal_index
from ..model import Action, Article, Condition, FactRef, Knowledge, Location, RemedySpec
from ..portable import relaxed
from .compiled import CORE, FORMAT, RELAXED, actions_file, article_file, table_file, texts_file
from .translate import action_in, article_in, fact_in, rule_in


def write_compiled(knowledge: Knowledge, folder: str) -> None:
    """Write all files into `folder`, which exists; `core` comes last, so that what has one is complete."""
    for table in knowledge.tables.values():
        content = [*table[:5], table.rows, _place(table.at)]
        _write(folder, table_file(table.name), content, digest=knowledge.digest)
    for language in ("en", *knowledge.translations):
        texts = knowledge.translations.get(language, {})
        for article in knowledge.articles.values():
            told = _article(article_in(article, texts))
            _write(folder, article_file(article.id, language), told, digest=knowledge.digest)
        actions = (action_in(action, texts) for action in knowledge.actions.values())
        _write(folder, actions_file(language), [_action(one) for one in actions], digest=knowledge.digest)
        if texts:
            # In the order of the lines of `core`.
            reasons = [rule_in(rule, texts).because for rule in knowledge.rules]
            questions = [
                spec.ask and spec.ask.say for spec in (fact_in(one, texts) for one in knowledge.facts.values())
            ]
            _write(folder, texts_file(language), *reasons, *questions, digest=knowledge.digest)
    _write(folder, RELAXED, [relaxed(one.pattern) for one in knowledge.signatures], digest=knowledge.digest)
    _write(folder, CORE, *_core(knowledge), digest=knowledge.digest)


def _write(folder: str, name: str, *content: object, digest: str) -> None:
    """Each of `content` in a line of its own: JSON writes a line end within a text as two characters."""
    lines = [json.dumps(one, ensure_ascii=False, separators=(",", ":"), allow_nan=False) for one in content]
    body = "\n".join(lines).encode()
    with open(os.path.join(folder, name), "wb") as file:
        file.write(f"{FORMAT} {digest} {crc32(body)}\n".encode("ascii") + body)


def _core(knowledge: Knowledge) -> list[object]:
    """The index of all, and a line for each rule, signature and fact."""
    files: dict[str, int] = {}

    def numbered(at: Location) -> list[int]:
        return [files.setdefault(at.file, len(files)), at.line]

    rules = [
        [
            rule.id,
            [_condition(condition) for condition in rule.when],
            rule.because,
            rule.diagnosis,
            rule.evidence,
            rule.concludes,
            rule.note,
            rule.pack,
            numbered(rule.at),
        ]
        for rule in knowledge.rules
    ]
    signatures = [
        [
            one.id,
            one.pattern,
            one.literals,
            one.printed_by,
            one.facts,
            one.lines,
            one.pack,
            numbered(one.at),
            one.needs,
            one.branches,
        ]
        for one in knowledge.signatures
    ]
    facts = [[*spec[:-1], numbered(spec.at)] for spec in knowledge.facts.values()]
    program, problems = read_program(knowledge.rules, knowledge.facts)
    if problems:
        raise KnowledgeError(problems)
    names = {name: number for number, name in enumerate(knowledge.facts)}
    guards = guards_of(knowledge.rules)
    shapes: dict[tuple[tuple[str, ...], str], int] = {}
    shape_of = [shapes.setdefault(shape, len(shapes)) for shape in zip(program.kinds, program.head_kinds, strict=True)]
    core = {
        "rules": [rule.id for rule in knowledge.rules],
        "signatures": len(signatures),
        "facts": list(names),
        "literals": literal_index(knowledge.signatures),
        "program": [list(shapes), shape_of, program.strata],
        "guards": [
            *guards[:4],
            [[position, [names[name] for name in spoken_of]] for position, spoken_of in guards.facts.items()],
            sorted(guards.awaited),
        ],
        "strengths": knowledge.strengths,
        "packs": knowledge.packs,
        "tables": list(knowledge.tables),
        "actions": list(knowledge.actions),
        "base_rates": {article.id: article.base_rate for article in knowledge.articles.values()},
        "files": list(files),
    }
    return [core, *rules, *signatures, *facts]


def _place(at: Location) -> list[object]:
    return [at.file, at.line]


def _condition(condition: Condition) -> list[object]:
    operand = condition.operand
    return [condition.fact, condition.op, operand._asdict() if isinstance(operand, FactRef) else operand]


def _action(action: Action) -> list[object]:
    forms = [[*form[:-1], _conditions(form.when)] for form in action.forms]
    notes = [[*note[:-2], _conditions(note.when), _conditions(note.unless)] for note in action.notes]
    return [action.name, action.meaning, forms, _place(action.at), notes]


def _article(article: Article) -> list[object]:
    before, after = article[:6], article[7:-1]
    return [*before, [_remedy(remedy) for remedy in article.remedies], *after, _place(article.at)]


def _remedy(remedy: RemedySpec) -> list[object]:
    steps = [[*step[:-2], _conditions(step.when), _conditions(step.unless)] for step in remedy.steps]
    unless = _conditions(remedy.unless)
    return [remedy.id, remedy.title, remedy.risk, steps, _conditions(remedy.when), _place(remedy.at), unless]


def _conditions(conditions: tuple[Condition, ...]) -> list[object]:
    return [_condition(condition) for condition in conditions]

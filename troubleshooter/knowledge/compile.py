"""Writes what `compiled` reads. The same knowledge gives the same bytes."""

import json
import os
from binascii import crc32

from ..engine.program import read_program
from ..errors import KnowledgeError
from ..model import Action, Article, Condition, FactRef, Knowledge, Location, RemedySpec
from .compiled import ACTIONS, CORE, FORMAT, article_file, table_file


def write_compiled(knowledge: Knowledge, folder: str) -> None:
    """Write all files into `folder`, which exists; `core` comes last, so that what has one is complete."""
    for table in knowledge.tables.values():
        content = [*table[:5], table.rows, _place(table.at)]
        _write(folder, table_file(table.name), content, knowledge.digest)
    for article in knowledge.articles.values():
        _write(folder, article_file(article.id), _article(article), knowledge.digest)
    _write(folder, ACTIONS, [_action(one) for one in knowledge.actions.values()], knowledge.digest)
    _write(folder, CORE, _core(knowledge), knowledge.digest)


def _write(folder: str, name: str, content: object, digest: str) -> None:
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    with open(os.path.join(folder, name), "wb") as file:
        file.write(f"{FORMAT} {digest} {crc32(body)}\n".encode("ascii") + body)


def _core(knowledge: Knowledge) -> dict[str, object]:
    files: dict[str, int] = {}

    def numbered(at: Location) -> list[int]:
        return [files.setdefault(at.file, len(files)), at.line]

    core: dict[str, object] = {
        "facts": [[*spec[:-1], numbered(spec.at)] for spec in knowledge.facts.values()],
        "rules": [
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
        ],
        "signatures": [
            [one.id, one.pattern, one.literals, one.printed_by, one.facts, one.lines, one.pack, numbered(one.at)]
            for one in knowledge.signatures
        ],
        "strengths": knowledge.strengths,
        "packs": knowledge.packs,
        "tables": list(knowledge.tables),
        "actions": list(knowledge.actions),
        "base_rates": {article.id: article.base_rate for article in knowledge.articles.values()},
    }
    program, problems = read_program(knowledge.rules, knowledge.facts)
    if problems:
        raise KnowledgeError(problems)
    return {**core, "program": program[1:], "files": list(files)}


def _place(at: Location) -> list[object]:
    return [at.file, at.line]


def _condition(condition: Condition) -> list[object]:
    operand = condition.operand
    return [condition.fact, condition.op, operand._asdict() if isinstance(operand, FactRef) else operand]


def _action(action: Action) -> list[object]:
    return [*action[:-1], _place(action.at)]


def _article(article: Article) -> list[object]:
    before, after = article[:6], article[7:-1]
    return [*before, [_remedy(remedy) for remedy in article.remedies], *after, _place(article.at)]


def _remedy(remedy: RemedySpec) -> list[object]:
    when = [_condition(condition) for condition in remedy.when]
    return [remedy.id, remedy.title, remedy.risk, remedy.steps, when, _place(remedy.at)]

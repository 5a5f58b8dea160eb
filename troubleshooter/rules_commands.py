"""The commands for authors of rules: each gives what is to be printed and the exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .errors import UsageError
from .model import Knowledge, Rule

if TYPE_CHECKING:
    import argparse

    from .report.text import Line
    from .rule_tests import Fixture

Told: TypeAlias = "tuple[str | Iterator[Line], int]"

FAILED = 1


def add_commands(kinds: Any, do: Callable[[argparse.Namespace], int]) -> None:
    """`kinds` are the sub-commands of `rules`, as argparse keeps them; `do` prints what one of `DO` gives."""
    test = kinds.add_parser("test", help="try all examples and fixtures; of each that fails, say why")
    test.add_argument("ids", nargs="*", metavar="ID", help="of rules, signatures, diagnoses, finding.NAME, note.NAME")
    mutate = kinds.add_parser("mutate", help="change each condition of each rule: which changes does no example notice")
    mutate.add_argument("ids", nargs="*", metavar="ID", help="of rules, diagnoses, finding.NAME, note.NAME")
    coverage = kinds.add_parser("coverage", help="which rules does no fixture fire")
    for command in (test, mutate, coverage):
        command.add_argument("--rules", action="append", default=[], metavar="DIR", help="a folder of further rules")
        command.add_argument("--format", choices=("text", "json"), default="text")
        command.set_defaults(do=do)
    schema = kinds.add_parser("schema", help="print the JSON Schema of a kind of file, for completion in editors")
    schema.add_argument("kind", choices=("rules", "article", "signatures", "table", "action", "fixture"))
    schema.add_argument("--rules", action="append", default=[], metavar="DIR", help="a folder of further rules")
    schema.set_defaults(do=do)
    docs = kinds.add_parser("docs", help="write a page for every diagnosis, and an index")
    docs.add_argument("-o", "--output", required=True, metavar="DIR", help="the folder; pages of what is gone go")
    docs.add_argument("--rules", action="append", default=[], metavar="DIR", help="a folder of further rules")
    docs.add_argument("--lang", choices=("en", "zh"), default="en")
    docs.set_defaults(do=do)


def _check(options: argparse.Namespace) -> Told:
    from datetime import date

    from .knowledge.lint import lint
    from .report.rules import check_json, warning_lines
    from .report.text import Line

    try:
        today = date.fromisoformat(options.today) if options.today else date.today()  # noqa: DTZ011 - the reader's day
    except ValueError as error:
        raise UsageError(f"--today {options.today} is no date", "YEAR-MONTH-DAY") from error
    knowledge = _knowledge(options)
    warnings = lint(knowledge, today)
    if options.format == "json":
        return check_json(knowledge, warnings), 0
    counts = (
        f"{len(knowledge.rules)} rules, {len(knowledge.signatures)} signatures, {len(knowledge.articles)} diagnoses"
    )
    doubtful = f", {len(warnings)} warning{'s' if len(warnings) > 1 else ''}" if warnings else ""
    return iter((*warning_lines(warnings), Line(f"{counts}: no mistakes{doubtful}."))), 0


def _test(options: argparse.Namespace) -> Told:
    from .report.rules import test_json, test_lines
    from .rule_tests import chosen, try_out

    knowledge = _knowledge(options)
    outcome = try_out(knowledge, _fixtures(options), chosen(knowledge, options.ids))
    code = FAILED if outcome.failures else 0
    return (test_json(outcome) if options.format == "json" else test_lines(outcome, knowledge)), code


def _mutate(options: argparse.Namespace) -> Told:
    from .mutants import mutate
    from .report.rules import mutation_json, mutation_lines
    from .rule_tests import chosen

    knowledge = _knowledge(options)
    means = chosen(knowledge, options.ids)
    rules = [rule for rule in knowledge.rules if _means(rule, means)]
    score = mutate(rules, knowledge.facts)
    code = FAILED if score.survivors else 0
    return (mutation_json(score) if options.format == "json" else mutation_lines(score)), code


def _coverage(options: argparse.Namespace) -> Told:
    from .report.rules import coverage_json, coverage_lines
    from .rule_tests import fired_by

    knowledge = _knowledge(options)
    counts = fired_by(knowledge, _fixtures(options))
    return (coverage_json(counts) if options.format == "json" else coverage_lines(knowledge, counts)), 0


def _docs(options: argparse.Namespace) -> Told:
    from .knowledge import load
    from .report.pages import pages
    from .report.text import Line

    made = pages(load([Path(folder) for folder in options.rules], language=options.lang), options.lang)
    folder = Path(options.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, page in made.items():
            (folder / name).write_text(page, encoding="utf-8", newline="\n")
        # Only pages that were made like these: whoever names another folder loses nothing.
        gone = [one for one in folder.glob("*.md") if one.name not in made and _is_ours(one)]
        for one in gone:
            one.unlink()
    except OSError as error:
        raise UsageError(f"{options.output} cannot be written: {error.strerror}") from error
    return iter([Line(f"{len(made)} pages in {folder}, {len(gone)} taken away.")]), 0


def _schema(options: argparse.Namespace) -> Told:
    import json

    from .knowledge import load
    from .knowledge.schema import schema

    made = schema(options.kind, load([Path(folder) for folder in options.rules]))
    return json.dumps(made, indent=1) + "\n", 0


def _is_ours(page: Path) -> bool:
    """Whether the third line is that of a diagnosis: its id, which is the name of the file, in a code span."""
    lines = page.read_text(encoding="utf-8", errors="replace").split("\n")
    return len(lines) > 2 and lines[2].startswith(f"`{page.stem}` · ")


DO: dict[str, Callable[[Any], Told]] = {
    "check": _check,
    "test": _test,
    "mutate": _mutate,
    "coverage": _coverage,
    "schema": _schema,
    "docs": _docs,
}


def _means(rule: Rule, means: Callable[[str], bool]) -> bool:
    return means(rule.id) or means(rule.diagnosis) or means(rule.head)


def _knowledge(options: argparse.Namespace) -> Knowledge:
    """From the files, with their examples."""
    from .knowledge import load

    return load([Path(folder) for folder in options.rules], examples=True)


def _fixtures(options: argparse.Namespace) -> Iterator[Fixture]:
    """Those of the built-in folder, which an installed copy does not have, and those of the folders that were named."""
    from .knowledge import shipped_folder
    from .rule_tests import read_fixtures

    yield from read_fixtures(Path(shipped_folder()) / "fixtures")
    for folder in options.rules:
        yield from read_fixtures(Path(folder) / "fixtures", folder)

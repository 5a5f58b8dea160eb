"""From YAML files to frozen knowledge. All mistakes of all files are reported at once, each with its place.

Not imported by a run that finds compiled knowledge: everything here costs more than such a run may take.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from ..errors import KnowledgeError, Problem
from ..model import Action, Article, FactSpec, Knowledge, Location, Pack, Rule, Signature, Strengths, Table
from . import read
from .check import check_knowledge
from .yaml_marks import Node, read_yaml


def read_sources(built_in: Path, extra: Sequence[Path] = (), base: Knowledge | None = None) -> Knowledge:
    """The knowledge of the folder `built_in` and that of `extra` folders, later ones added to earlier ones.

    `base`, where it is given, is what `built_in` says, which is not read then. Raises KnowledgeError with every problem
    of every file.
    """
    from .. import __version__

    problems: list[Problem] = []
    reading = _Reading(problems, base)
    packs = [Pack("built-in", __version__)]
    if base is None:
        reading.folder(built_in, "built-in", shown_below="")
    for folder in extra:
        if not folder.is_dir():
            problems.append(Problem("there is no such folder of rules", Location(str(folder))))
            continue
        name = folder.resolve().name or "rules"
        packs.append(Pack(name, ""))
        reading.folder(folder, name, shown_below=str(folder))
    knowledge = reading.finish(tuple(packs))
    # A file that cannot be read may define the very name that another one uses: nothing is called unknown then.
    problems += [
        problem
        for problem in check_knowledge(knowledge)
        if not (reading.unreadable and problem.message.startswith("unknown "))
    ]
    if problems:
        raise KnowledgeError(sorted(set(problems), key=lambda problem: problem.at))
    return knowledge


class _Reading:
    """Collects what the files state, on top of `base`. One instance per reading; never shared."""

    def __init__(self, problems: list[Problem], base: Knowledge | None) -> None:
        self.problems = problems
        self.unreadable = False
        self.facts: dict[str, FactSpec] = dict(base.facts) if base else {}
        self.rules: list[Rule] = list(base.rules) if base else []
        self.signatures: list[Signature] = list(base.signatures) if base else []
        self.tables: dict[str, Table] = dict(base.tables) if base else {}
        self.articles: dict[str, Article] = dict(base.articles) if base else {}
        self.actions: dict[str, Action] = dict(base.actions) if base else {}
        self.strengths = base.strengths if base else Strengths({}, {})
        self.digest = base.digest if base else ""
        self.translations: dict[str, dict[str, str]] = {}

    def folder(self, folder: Path, pack: str, shown_below: str) -> None:
        """Read `rules/` and `knowledge_base/` of a pack, or the whole folder as rules where it has neither."""
        rules, base = folder / "rules", folder / "knowledge_base"
        if pack != "built-in" and not rules.is_dir() and not base.is_dir():
            rules = folder
        self._files = sha256()
        catalogue = base / "facts.yaml"
        for path, node in self._nodes([catalogue] if catalogue.is_file() else [], folder, shown_below):
            self._add(self.facts, read.fact_specs(node, self.problems), path)
        strengths = base / "strengths.yaml"
        for _, node in self._nodes([strengths] if strengths.is_file() else [], folder, shown_below):
            self.strengths = read.strengths(node, self.problems)
        for _, node in self._nodes(_files(base / "signatures"), folder, shown_below):
            self.signatures += read.signatures(node, pack, self.problems)
        for path, node in self._nodes(_files(base / "tables"), folder, shown_below):
            self._add(self.tables, read.table(node, self.problems), path)
        for path, node in self._nodes(_files(base / "actions"), folder, shown_below):
            self._add(self.actions, read.action(node, self.problems), path)
        for path, node in self._nodes(_files(base / "diagnoses"), folder, shown_below):
            articles = read.article(node, pack, self.problems)
            for name, article in articles:
                if name != Path(path).stem:
                    hint = f"name the file {name}.yaml"
                    self.problems.append(Problem(f"the file is not named as its id {name!r}", article.at, hint))
            self._add(self.articles, articles, path)
        for _, node in self._nodes(_files(rules), folder, shown_below):
            self.rules += read.rules(node, pack, self.problems)
        for path, node in self._nodes(_files(base / "translations"), folder, shown_below):
            language = Path(path).relative_to("knowledge_base/translations").parts[0].removesuffix(".yaml")
            self.translations.setdefault(language, {}).update(read.translations(node, self.problems))
        # One digest on top of the other: that of the built-in folder is the same whether its files were read or not.
        own = f"sha256:{self._files.hexdigest()}"
        self.digest = f"sha256:{sha256((self.digest + own).encode()).hexdigest()}" if self.digest else own

    def _nodes(self, paths: Iterable[Path], folder: Path, shown_below: str) -> Iterator[tuple[str, Node]]:
        for path in paths:
            name = path.relative_to(folder).as_posix()
            shown_as = f"{shown_below}/{name}" if shown_below else name
            node, problems = read_yaml(path, shown_as)
            self.problems += problems
            if node is None:
                self.unreadable = True
            else:
                self._files.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
                yield name, node

    def _add(self, into: dict, entries: Iterable[tuple[str, object]], path: str) -> None:  # type: ignore[type-arg]
        for name, entry in entries:
            if name in into:
                first = into[name].at
                at = getattr(entry, "at", Location(path))
                hint = f"first in {first.file}:{first.line}"
                self.problems.append(Problem(f"{name!r} is defined twice", at, hint))
            else:
                into[name] = entry

    def finish(self, packs: tuple[Pack, ...]) -> Knowledge:
        return Knowledge(
            facts={**self.facts, **dict(read.implied_facts(self.signatures))},
            rules=tuple(self.rules),
            signatures=tuple(self.signatures),
            tables=self.tables,
            articles=self.articles,
            actions=self.actions,
            strengths=self.strengths,
            packs=packs,
            digest=self.digest,
            translations=self.translations,
        )


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.yaml")) if folder.is_dir() else []

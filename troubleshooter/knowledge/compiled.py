"""Compiled knowledge: JSON files beside each other, of which a run reads only what it needs.

`core` holds what every run needs: an index of the literals of all signatures, the shape of the program that the rules
are, what brings each rule to life, and strengths; then, one a line, the rules, signatures and facts themselves, each of
which is read when a run first comes to it. Tables have a file each; articles too, in each language, and actions one for
all of a language. `texts` holds in another language than English what the lines of `core` say to people. Examples are
left out, and places are file and line.

Every file begins with a line that names its format, the digest of the knowledge and a checksum of the rest, so that a
file that is damaged, of another version or of another build is noticed; what it should say is then read from YAML.
"""

import json
import os
from binascii import crc32
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, overload

from ..engine import keep_program
from ..engine.guards import Guards
from ..engine.program import Program
from ..literals import LiteralIndex, Signatures
from ..model import (
    Action,
    ActionForm,
    ActionNote,
    Article,
    Ask,
    Condition,
    FactRef,
    FactSpec,
    Knowledge,
    Location,
    Pack,
    Reference,
    RemedySpec,
    Rule,
    Signature,
    StepSpec,
    Strengths,
    Table,
    TestEffect,
)

FORMAT = "troubleshooter-knowledge/4"
CORE, RELAXED = "core.json", "relaxed.json"
DAMAGE = (OSError, ValueError, TypeError, KeyError, IndexError, RecursionError)
"""What reading a file raises that is not there, damaged or of another build."""

_T = TypeVar("_T")


def table_file(name: str) -> str:
    return f"table.{name}.json"


def article_file(name: str, language: str) -> str:
    return f"article.{language}.{name}.json"


def actions_file(language: str) -> str:
    return f"actions.{language}.json"


def texts_file(language: str) -> str:
    return f"texts.{language}.json"


def compiled_knowledge(folder: str, language: str = "en") -> Knowledge | None:
    """What was compiled of the sources in `folder`, or None where there is nothing usable.

    An installed copy carries it. A checkout keeps it in the user's cache and compiles again after every change; raises
    KnowledgeError if the sources then turn out to have mistakes.
    """
    shipped = os.path.join(folder, "compiled")
    if os.path.isdir(shipped):
        return read_compiled(shipped, folder, language)
    from .cache import cached_knowledge

    return cached_knowledge(folder, language)


def read_compiled(folder: str, sources: str, language: str = "en") -> Knowledge | None:
    """The knowledge compiled into `folder`, or None if it cannot be used. What there is not in `language` is English.

    `sources` holds the YAML files, which are asked if a file that is read later turns out to be damaged.
    """
    try:
        digest, body = _read(folder, CORE)
        core, *lines = body.split(b"\n")
        texts: list[bytes] = []
        if language != "en":
            if os.path.exists(os.path.join(folder, texts_file(language))):
                texts = _read(folder, texts_file(language), digest)[1].split(b"\n")
            else:
                language = "en"
        return _knowledge(json.loads(core), lines, texts, digest, _Store(folder, digest, sources, language))
    except DAMAGE:
        return None


def _knowledge(core: Any, lines: list[bytes], texts: list[bytes], digest: str, store: "_Store") -> Knowledge:
    files: list[str] = core["files"]
    rule_ids, names = core["rules"], core["facts"]
    n_rules, n_signatures = len(rule_ids), core["signatures"]
    if len(lines) != n_rules + n_signatures + len(names):
        raise ValueError("it has another number of lines than it says")
    if texts and len(texts) != n_rules + len(names):
        raise ValueError("the texts of another language have another number of lines")
    first_fact = n_rules + n_signatures
    number = {name: position for position, name in enumerate(names)}

    def rule_at(position: int) -> Rule:
        rule = _rule(json.loads(lines[position]), files)
        return rule._replace(because=json.loads(texts[position])) if texts else rule

    def fact_named(name: str) -> FactSpec:
        spec = _fact_spec(json.loads(lines[first_fact + number[name]]), files)
        if texts and spec.ask:
            spec = spec._replace(ask=spec.ask._replace(say=json.loads(texts[n_rules + number[name]])))
        return spec

    rules = _Lines(n_rules, rule_at)
    place = {name: position for position, name in enumerate(rule_ids)}
    knowledge = Knowledge(
        facts=Later(names, fact_named),
        rules=rules,
        signatures=_Signatures(
            n_signatures,
            lambda position: _signature(json.loads(lines[n_rules + position]), files),
            LiteralIndex(*core["literals"]),
            store.relaxed,
        ),
        tables=Later(core["tables"], store.table),
        articles=Later(core["base_rates"], store.article),
        actions=Later(core["actions"], store.action),
        strengths=Strengths(*core["strengths"]),
        packs=tuple([Pack(*raw) for raw in core["packs"]]),
        digest=digest,
        base_rates=core["base_rates"],
        rule_by_id=Later(place, lambda name: rules[place[name]]),
    )
    shapes, shape_of, strata = core["program"]
    kinds = [tuple(of_rule) for of_rule, _ in shapes]
    program = Program(
        rules, tuple([kinds[shape] for shape in shape_of]), tuple([shapes[shape][1] for shape in shape_of]), strata
    )
    always, by_signature, by_finding, by_fact, facts, awaited = core["guards"]
    spoken_of = {position: [names[one] for one in ones] for position, ones in facts}
    guards = Guards(always, by_signature, by_finding, by_fact, spoken_of, frozenset(awaited))
    keep_program(knowledge.facts, program, guards)
    return knowledge


class _Lines(Sequence[_T]):
    """Values of which each is read from its line when it is first asked for."""

    def __init__(self, count: int, read: Callable[[int], _T]) -> None:
        self._read = read
        self._known: list[_T | None] = [None] * count

    @overload
    def __getitem__(self, place: int) -> _T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[_T, ...]: ...
    def __getitem__(self, place: int | slice) -> _T | tuple[_T, ...]:
        if isinstance(place, slice):
            return tuple([self[one] for one in range(*place.indices(len(self)))])
        known = self._known[place]
        if known is None:
            known = self._known[place] = self._read(place if place >= 0 else len(self) + place)
        return known

    def __len__(self) -> int:
        return len(self._known)


class _Signatures(_Lines[Signature], Signatures):
    def __init__(
        self,
        count: int,
        read: Callable[[int], Signature],
        index: LiteralIndex,
        relaxed: Callable[[], Sequence[str]],
    ) -> None:
        super().__init__(count, read)
        self.literal_index = index
        self._relaxed = relaxed

    def relaxed(self) -> Sequence[str]:
        return self._relaxed()


class Later(Mapping[str, _T]):
    """Values that are read when they are first asked for."""

    def __init__(self, names: Iterable[str], read: Callable[[str], _T]) -> None:
        self._names = dict.fromkeys(names)
        self._read = read
        self._known: dict[str, _T] = {}

    def __getitem__(self, name: str) -> _T:
        if name not in self._known:
            if name not in self._names:
                raise KeyError(name)
            self._known[name] = self._read(name)
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _read(folder: str, name: str, digest: str = "") -> tuple[str, bytes]:
    """The digest and the body of one file. Raises ValueError for one that is not as it was written."""
    with open(os.path.join(folder, name), "rb") as file:
        head, _, body = file.read().partition(b"\n")
    found_format, found_digest, checksum = head.decode("ascii").split(" ")
    if found_format != FORMAT or (digest and found_digest != digest) or int(checksum) != crc32(body):
        raise ValueError(f"{name} is not what it should be")
    return found_digest, body


class _Store:
    """The files that are read later. A file that fails is replaced by its YAML source."""

    def __init__(self, folder: str, digest: str, sources: str, language: str) -> None:
        self._folder = folder
        self._digest = digest
        self._sources = sources
        self._language = language
        self._actions: Mapping[str, Action] | None = None
        self._from_sources: Knowledge | None = None

    def table(self, name: str) -> Table:
        try:
            return _table(self._content(table_file(name)))
        except DAMAGE:
            return self._again().tables[name]

    def article(self, name: str) -> Article:
        try:
            return _article(self._content(article_file(name, self._language)))
        except DAMAGE:
            return self._again().articles[name]

    def action(self, name: str) -> Action:
        if self._actions is None:
            try:
                self._actions = {raw[0]: _action(raw) for raw in self._content(actions_file(self._language))}
            except DAMAGE:
                self._actions = self._again().actions
        return self._actions[name]

    def relaxed(self) -> list[str]:
        try:
            found: list[str] = self._content(RELAXED)
        except DAMAGE:
            from ..portable import relaxed

            found = [relaxed(one.pattern) for one in self._again().signatures]
        return found

    def _content(self, name: str) -> Any:
        return json.loads(_read(self._folder, name, self._digest)[1])

    def _again(self) -> Knowledge:
        if self._from_sources is None:
            from pathlib import Path

            from .sources import read_sources
            from .translate import localized

            read = read_sources(Path(self._sources))
            self._from_sources = localized(read, read.translations.get(self._language, {}))
        return self._from_sources


# --- from JSON to the frozen values; `compile` writes the same orders


def _fact_spec(raw: Any, files: list[str]) -> FactSpec:
    name, type_, subject, meaning, trust, ask, one_of, context, at = raw
    asked = Ask(ask[0], tuple(ask[1]), ask[2], tuple(ask[3])) if ask else None
    return FactSpec(
        name, type_, subject, meaning, tuple(trust), asked, tuple(one_of), context, Location(files[at[0]], at[1])
    )


def _condition(raw: Any) -> Condition:
    fact, op, operand = raw
    if isinstance(operand, list):
        operand = tuple(operand)
    elif isinstance(operand, dict):
        operand = FactRef(operand["fact"])
    return Condition(fact, op, operand)


def _rule(raw: Any, files: list[str]) -> Rule:
    name, when, because, diagnosis, evidence, concludes, note, pack, at = raw
    conditions = tuple([_condition(condition) for condition in when])
    place = Location(files[at[0]], at[1])
    return Rule(name, conditions, because, diagnosis, evidence, concludes, note, (), (), pack, place)


def _signature(raw: Any, files: list[str]) -> Signature:
    name, pattern, literals, printed_by, facts, lines, pack, at, needs, branches = raw
    return Signature(
        name,
        pattern,
        tuple(literals),
        _pairs(printed_by),
        _pairs(facts),
        lines=lines,
        pack=pack,
        at=Location(files[at[0]], at[1]),
        needs=_pairs(needs),
        branches=tuple([(part, _pairs(needed)) for part, needed in branches]),
    )


def _pairs(raw: Any) -> tuple[Any, ...]:
    return tuple([tuple(pair) for pair in raw])


def _table(raw: Any) -> Table:
    name, meaning, key, source, checked, rows, at = raw
    return Table(name, meaning, tuple(key), source, checked, tuple([_frozen(row) for row in rows]), Location(*at))


def _frozen(raw: Any) -> Any:
    if isinstance(raw, list):
        return tuple([_frozen(one) for one in raw])
    if isinstance(raw, dict):
        return {key: _frozen(value) for key, value in raw.items()}
    return raw


def _action(raw: Any) -> Action:
    name, meaning, forms, at, notes = raw
    return Action(
        name, meaning, tuple([_form(form) for form in forms]), Location(*at), tuple([_note(note) for note in notes])
    )


def _note(raw: Any) -> ActionNote:
    say, manager, when, unless = raw
    return ActionNote(say, tuple(manager), _conditions(when), _conditions(unless))


def _form(raw: Any) -> ActionForm:
    *before, when = raw
    return ActionForm(*_frozen(before))._replace(when=_conditions(when))


def _article(raw: Any) -> Article:
    (name, title, area, severity, rate, meaning, remedies, references, others, explains, confirm, verify, pack, at) = (
        raw
    )
    return Article(
        name,
        title,
        area,
        severity,
        rate,
        meaning,
        tuple([_remedy(one) for one in remedies]),
        tuple([Reference(*one) for one in references]),
        _pairs(others),
        tuple(explains),
        tuple([TestEffect(*one) for one in confirm]),
        tuple(verify),
        pack,
        Location(*at),
    )


def _remedy(raw: Any) -> RemedySpec:
    name, title, risk, steps, when, at, unless = raw
    return RemedySpec(
        name, title, risk, tuple([_step(step) for step in steps]), _conditions(when), Location(*at), _conditions(unless)
    )


def _step(raw: Any) -> StepSpec:
    *before, when, unless = raw
    return StepSpec(*_frozen(before))._replace(when=_conditions(when), unless=_conditions(unless))


def _conditions(raw: Any) -> tuple[Condition, ...]:
    return tuple([_condition(condition) for condition in raw])

"""The back end on durable-rules. It uses the C module alone, and of that only what was measured to be safe.

The library reads outside its memory, loops or drops facts when it is used as documented (docs/decisions). What is
handed to it here are counters: no name, text or value of a rule or fact ever reaches it.
"""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import durable_rules_engine as c_module

from ..model import HOST
from .port import EngineBroken, Firing, JoinRule, Pattern, Token, conclusion_token, waiting

RULE_LIMIT = 1000
"""Above it, the Python back end is the faster one."""
_PATTERNS_A_RULESET = 400  # above 512 constants under one node its compiler does not end
_PATTERNS_A_RULE = 16
_JOINS_A_RULE = 28
_PROGRAMS_KEPT = 32

_SENTINEL = "end"
_Message = dict[str, "str | int"]


def unfit(kinds: Sequence[Sequence[str]]) -> str:
    """Why rules whose patterns have these kinds are outside what the library does safely, or nothing."""
    for of_rule in kinds:
        if len(of_rule) > _PATTERNS_A_RULE or _joins(of_rule) > _JOINS_A_RULE:
            return f"a rule has more than {_PATTERNS_A_RULE} conditions or {_JOINS_A_RULE} joins"
    return ""


def _joins(kinds: Sequence[str]) -> int:
    joined = [kind for kind in kinds if kind != HOST]
    return len(kinds) - 1 + len(joined) - len(set(joined))


class Durable:
    """Compiled programs are kept for the life of the process; a run leaves no state in them."""

    def __init__(self) -> None:
        import threading  # here: this module is imported also where its library then turns out to be missing

        self._programs: dict[tuple[JoinRule, ...], _Program] = {}
        self._lock = threading.Lock()  # the working memory of a compiled program serves one run at a time

    def fire(self, rules: Sequence[JoinRule], tokens: Sequence[Token]) -> list[Firing]:
        key = tuple(rules)
        with self._lock:
            program = self._programs.pop(key, None) or _Program(key)
            # Put back only after a good run: one that broke midway is in no known state, and freeing it could crash.
            firings = program.run(tokens)
            self._programs[key] = program
            if len(self._programs) > _PROGRAMS_KEPT:
                self._programs.pop(next(iter(self._programs))).delete()
        return firings


class _Place(NamedTuple):
    """Where a pattern went: its shard, its short name there, and whether its tokens carry a subject."""

    shard: int
    name: str
    joined: bool


class _Program:
    def __init__(self, rules: tuple[JoinRule, ...]) -> None:
        if reason := unfit([[pattern.kind for pattern in rule.patterns] for rule in rules]):
            raise EngineBroken(reason)
        if len(rules) > RULE_LIMIT:  # those that a fact has already ruled out are not among them
            raise EngineBroken(f"more than {RULE_LIMIT} rules are alive at once")
        self._rules = rules
        self._waits = waiting(rules)
        self._places: dict[str, _Place] = {}
        self._shards = list(self._divide())

    def _divide(self) -> "Iterator[_Shard]":
        """Rules in their order into rulesets that the library can compile; the sentinel takes one pattern of each."""
        definitions: dict[str, object] = {}
        used, shard = 1, 0
        for position, rule in enumerate(self._rules):
            if used + len(rule.patterns) > _PATTERNS_A_RULESET:
                yield _Shard(definitions)
                definitions, used, shard = {}, 1, shard + 1
            used += len(rule.patterns)
            names = [f"{position}/{place}" for place in range(len(rule.patterns))]
            definitions[f"r{position}"] = _definition(rule.patterns, names)
            for pattern, name in zip(rule.patterns, names, strict=True):
                self._places[pattern.id] = _Place(shard, name, pattern.kind != HOST)
        yield _Shard(definitions)

    def run(self, tokens: Sequence[Token]) -> list[Firing]:
        """Assert, drain, feed conclusions to the patterns that wait on them, in every shard, until nothing is new."""
        known: list[Token] = []
        subjects: dict[str, int] = {}
        firings: list[Firing] = []
        seen: set[tuple[int, tuple[int, ...]]] = set()
        concluded: set[tuple[str, str]] = set()
        fresh = list(tokens)
        while fresh:
            batches: dict[int, list[_Message]] = {}
            for token in fresh:
                place = self._places[token.pattern]
                message: _Message = {"id": str(len(known)), "p": place.name, "_": 1}
                if place.joined:
                    message["s"] = subjects.setdefault(token.subject, len(subjects))
                known.append(token)
                batches.setdefault(place.shard, []).append(message)
            fresh = []
            for shard, batch in batches.items():
                for position, ids in self._shards[shard].drain(batch):
                    if (position, ids) in seen:
                        raise EngineBroken("it fired a rule twice on the same tokens")
                    seen.add((position, ids))
                    firing = self._firing(position, ids, known)
                    firings.append(firing)
                    head = self._rules[position].head
                    if (head, firing.subject) not in concluded:
                        concluded.add((head, firing.subject))
                        for pattern in self._waits.get(head, ()):
                            fresh.append(conclusion_token(pattern, head, firing.subject))
        for used in self._shards:
            used.forget()
        return firings

    def _firing(self, position: int, ids: tuple[int, ...], known: list[Token]) -> Firing:
        """Read the answer back through our own tokens, and check that they fill this rule's patterns."""
        if position >= len(self._rules):
            raise EngineBroken("it fired a rule that does not exist")
        rule = self._rules[position]
        if len(ids) != len(rule.patterns) or not all(0 <= number < len(known) for number in ids):
            raise EngineBroken("it fired a rule on tokens that do not exist")
        tokens = [known[number] for number in ids]
        subject_of: dict[str, str] = {HOST: HOST}
        for token, pattern in zip(tokens, rule.patterns, strict=True):
            subject = HOST if pattern.kind == HOST else token.subject
            if token.pattern != pattern.id or subject_of.setdefault(pattern.kind, subject) != subject:
                raise EngineBroken("it joined tokens that do not belong together")
        return Firing(rule.id, subject_of[rule.head_kind], tuple([token.ids for token in tokens]))

    def delete(self) -> None:
        for shard in self._shards:
            shard.delete()


def _definition(patterns: Sequence[Pattern], names: Sequence[str]) -> dict[str, object]:
    """One rule in the library's own form."""
    first_of_kind: dict[str, int] = {}
    alternatives = []
    for place, (pattern, name) in enumerate(zip(patterns, names, strict=True)):
        terms: list[dict[str, object]] = [{"p": name}]
        if pattern.kind != HOST and (first := first_of_kind.setdefault(pattern.kind, place)) != place:
            terms.append({"s": {f"t{first}": "s"}})
        if place:
            # The guard: without a last join that always holds, a join that fails reads outside the library's memory.
            terms.append({"_": {"t0": "_"}})
        alternatives.append({f"t{place}": {"$and": terms} if place else terms[0]})
    return {"all": alternatives}


class _Shard:
    """One ruleset of the library, compiled when its first tokens come."""

    _created = 0

    def __init__(self, definitions: dict[str, object]) -> None:
        self._definitions = definitions
        self._handle: int | None = None
        self._in_use = False

    def drain(self, batch: list[_Message]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Assert a batch that is not empty; give (position of the rule, ids of its tokens) of all that fires."""
        if self._handle is None:
            self._handle = self._compile()
        if sentinel := not self._in_use:
            # A state in which nothing ever fired cannot be deleted without a crash: this one always fires.
            batch = [*batch, {"id": "-1", "p": _SENTINEL, "_": 1}]
            self._in_use = True
        try:
            code, state = c_module.assert_facts(self._handle, json.dumps(batch))
            if code != 0:
                raise EngineBroken(f"it answered {code} to tokens that it should know")
            started = c_module.start_action_for_state(self._handle, state)
            answer = started[1] if started else None
            while answer:
                name, ids = _read(answer)
                if name == _SENTINEL:
                    sentinel = False
                else:
                    yield _number(name[1:]), ids
                answer = c_module.complete_and_start_action(self._handle, state)
        except c_module.error as error:
            raise EngineBroken(str(error)) from error
        if sentinel:
            raise EngineBroken("its sentinel did not fire")

    def _compile(self) -> int:
        _Shard._created += 1
        rules = {**self._definitions, _SENTINEL: {"all": [{"t0": {"p": _SENTINEL}}]}}
        try:
            return c_module.create_ruleset(f"s{_Shard._created}", json.dumps(rules))
        except c_module.error as error:
            raise EngineBroken(str(error)) from error

    def forget(self) -> None:
        """Leave no state for the next run; freeing the ruleset without this leaks it."""
        if self._handle is not None and self._in_use:
            c_module.delete_state(self._handle, None)
            self._in_use = False

    def delete(self) -> None:
        if self._handle is not None:
            c_module.delete_ruleset(self._handle)
            self._handle = None


def _read(answer: str) -> tuple[str, tuple[int, ...]]:
    """The rule's name and the ids of its tokens in the order of its patterns, from `{"r3": {"t0": {"id": "7", …}}}`."""
    try:
        ((name, slots),) = json.loads(answer).items()
        return name, tuple([int(slots[f"t{place}"]["id"]) for place in range(len(slots))])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineBroken("its answer could not be read") from error


def _number(text: str) -> int:
    if not text.isdecimal():
        raise EngineBroken("it fired a rule that does not exist")
    return int(text)

"""The shape of a set of rules: about whom each condition and conclusion speaks, and in which stratum it runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ..errors import Problem, did_you_mean
from ..model import HOST, PRESENT, Condition, FactRef, FactSpec, Location, Rule
from .conditions import OPERATORS, compiled

FINDING = "finding."

_KindOf: TypeAlias = Callable[[str], str]
"""From the name of a fact or finding to the kind of its subject."""

_Concluding: TypeAlias = dict[str, list[Rule]]
"""By finding, the rules that conclude it."""


class Program(NamedTuple):
    """Everything in the order of `rules`; a stratum is a tuple of positions in it."""

    rules: Sequence[Rule]
    kinds: tuple[tuple[str, ...], ...]
    """Per rule and condition, the kind of its subject."""
    head_kinds: tuple[str, ...]
    strata: Sequence[Sequence[int]]


def check_program(rules: Sequence[Rule], catalogue: Mapping[str, FactSpec]) -> list[Problem]:
    """What no single rule can show: cycles through absence, mixed subjects, findings that nobody concludes."""
    _, problems = read_program(rules, catalogue)
    findings = {rule.head for rule in rules if rule.head.startswith(FINDING)}
    for rule in rules:
        for condition in rule.when:
            if is_finding(condition) and condition.fact not in findings:
                message = f"rule {rule.id!r} asks for {condition.fact!r}, which no rule concludes"
                problems.append(Problem(message, _place(condition, rule), did_you_mean(condition.fact, findings)))
    return problems


def read_program(rules: Sequence[Rule], catalogue: Mapping[str, FactSpec]) -> tuple[Program, list[Problem]]:
    """The program, and why it must not run. A finding that no rule concludes is no obstacle: it is absent."""
    concluding: _Concluding = {}
    for rule in rules:
        if (head := rule.head).startswith(FINDING):
            concluding.setdefault(head, []).append(rule)
    groups = _groups(concluding)
    findings = _kinds_of_findings(concluding, catalogue, groups)
    kind_of = _kinds_by_name(catalogue, findings)
    problems: list[Problem] = []
    kinds: list[tuple[str, ...]] = []
    for rule in rules:
        of_rule = [_kinds(condition, kind_of) for condition in rule.when]
        problems.extend(_mistakes(rule, of_rule))
        kinds.append(tuple([_first_kind(of_condition) for of_condition in of_rule]))
    head_kinds = tuple([_first_kind(of_rule) for of_rule in kinds])
    problems.extend(_mixed_findings(rules, head_kinds, findings, concluding))
    problems.extend(_cycles(groups, concluding))
    return Program(tuple(rules), tuple(kinds), head_kinds, _strata(rules, groups, concluding)), problems


def is_finding(condition: Condition) -> bool:
    return condition.fact.startswith(FINDING)


def asks_for_presence(condition: Condition) -> bool:
    """Of a condition on a finding: everything else asks what is not there, and waits for a higher stratum."""
    return condition.op == "state" and condition.operand == PRESENT


def _place(condition: Condition, rule: Rule) -> Location:
    return condition.at if condition.at.file else rule.at


def _mistakes(rule: Rule, kinds: Sequence[Sequence[str]]) -> Iterator[Problem]:
    if not rule.when:
        yield Problem(f"rule {rule.id!r} has no conditions", rule.at)
    for condition, names in zip(rule.when, kinds, strict=True):
        place = _place(condition, rule)
        if len(names) > 1:
            yield Problem(
                f"rule {rule.id!r} compares {condition.fact!r}, which is about one {names[0]}, "
                f"with a fact about one {names[1]}",
                place,
                "compare each of them with a fact about the host or about the same subject",
            )
        if is_finding(condition) and condition.op not in {"state", "no"}:
            yield Problem(
                f"rule {rule.id!r} compares {condition.fact!r}, but a finding has no value",
                place,
                "use `state:` or `no:`",
            )
        elif condition.op == "no" and not is_finding(condition):
            yield Problem(
                f"rule {rule.id!r} says `no: {condition.fact}`, which is not a finding", place, "use `state: absent`"
            )
        elif condition.op not in {"state", "no", *OPERATORS}:
            known = ["state", "no", *OPERATORS]
            yield Problem(
                f"rule {rule.id!r} uses the unknown operator {condition.op!r}", place, did_you_mean(condition.op, known)
            )
        if isinstance(condition.operand, FactRef) and condition.operand.fact.startswith(FINDING):
            yield Problem(f"rule {rule.id!r} compares with {condition.operand.fact!r}, a finding has no value", place)
        if condition.op == "matches" and (
            not isinstance(condition.operand, str) or compiled(condition.operand) is None
        ):
            yield Problem(f"rule {rule.id!r} has a `matches` whose operand is no pattern", place)


# --- about whom


def _kinds_by_name(catalogue: Mapping[str, FactSpec], findings: Mapping[str, str]) -> _KindOf:
    def kind_of(name: str) -> str:
        if name.startswith(FINDING):
            return findings.get(name, HOST)
        spec = catalogue.get(name)
        return spec.subject if spec else HOST

    return kind_of


def _kinds(condition: Condition, kind_of: _KindOf) -> list[str]:
    """The kinds other than host of which a condition speaks, in their order."""
    names = [kind_of(condition.fact)]
    if isinstance(condition.operand, FactRef) and (kind := kind_of(condition.operand.fact)) not in names:
        names.append(kind)
    return [kind for kind in names if kind != HOST]


def _first_kind(kinds: Sequence[str]) -> str:
    return next((kind for kind in kinds if kind != HOST), HOST)


def _kinds_of_findings(
    concluding: _Concluding, catalogue: Mapping[str, FactSpec], groups: Sequence[Sequence[str]]
) -> dict[str, str]:
    """The kind of the first rule that is not about the host; findings that follow from each other need rounds."""
    findings: dict[str, str] = {}
    kind_of = _kinds_by_name(catalogue, findings)
    for group in groups:
        for _ in range(len(group) + 1):
            for finding in group:
                conditions = [condition for rule in concluding[finding] for condition in rule.when]
                findings[finding] = _first_kind([kind for c in conditions for kind in _kinds(c, kind_of)])
    return findings


def _mixed_findings(
    rules: Sequence[Rule], head_kinds: Sequence[str], findings: Mapping[str, str], concluding: _Concluding
) -> Iterator[Problem]:
    kind_of_rule = {id(rule): kind for rule, kind in zip(rules, head_kinds, strict=True)}
    for finding, of_finding in concluding.items():
        for rule in of_finding:
            kind = kind_of_rule[id(rule)]
            if kind != findings[finding]:
                other = next((one for one in of_finding if kind_of_rule[id(one)] != kind), rule)
                yield Problem(
                    f"rule {rule.id!r} concludes {finding!r} about {_about(kind)}, "
                    f"but rule {other.id!r} concludes it about {_about(kind_of_rule[id(other)])}",
                    rule.at,
                    "give the two findings different names",
                )


def _about(kind: str) -> str:
    return "the host" if kind == HOST else f"one {kind}"


# --- what follows from what


def _groups(concluding: _Concluding) -> list[list[str]]:
    """Findings that follow from each other, grouped, each group after those that it reads.

    Tarjan's strongly connected components, without recursion: a pack may chain more rules than Python's stack holds.
    """
    reads = {
        finding: [c.fact for rule in of_finding for c in rule.when if c.fact in concluding]
        for finding, of_finding in concluding.items()
    }
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    done: set[str] = set()
    path: list[str] = []
    groups: list[list[str]] = []
    for start, first_reads in reads.items():
        if start in number:
            continue
        number[start] = lowest[start] = len(number)
        path.append(start)
        work = [(start, iter(first_reads))]
        while work:
            finding, rest = work[-1]
            for read in rest:
                if read not in number:
                    number[read] = lowest[read] = len(number)
                    path.append(read)
                    work.append((read, iter(reads[read])))
                    break
                if read not in done:
                    lowest[finding] = min(lowest[finding], number[read])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[finding])
                if lowest[finding] == number[finding]:
                    group = [path.pop()]
                    while group[-1] != finding:
                        group.append(path.pop())
                    done.update(group)
                    groups.append(group)
    return groups


def _cycles(groups: Sequence[Sequence[str]], concluding: _Concluding) -> Iterator[Problem]:
    """One problem per group of findings in which one waits for the absence of another that follows from it."""
    for group in groups:
        members = set(group)
        found = next(
            (
                (rule, condition)
                for finding in group
                for rule in concluding[finding]
                for condition in rule.when
                if condition.fact in members and not asks_for_presence(condition)
            ),
            None,
        )
        if found:
            rule, condition = found
            way = " -> ".join(repr(one.id) for one in _way(rule, condition.fact, concluding, members))
            yield Problem(
                f"rules that wait for each other: {way}; rule {rule.id!r} needs to know that {condition.fact!r} "
                f"is not there, and {condition.fact!r} itself follows from {rule.head!r}",
                _place(condition, rule),
                "an absence can only be asked for once everything that could conclude it is final",
            )


def _way(start: Rule, finding: str, concluding: _Concluding, members: set[str]) -> list[Rule]:
    """The shortest chain of rules from `start`, which reads `finding`, back to `start`."""
    ways: dict[str, list[Rule]] = {finding: [start]}
    queue = [finding]
    for read in queue:
        for rule in concluding[read]:
            if read == start.head:
                return [*ways[read], start]
            for condition in rule.when:
                if condition.fact in members and condition.fact not in ways:
                    ways[condition.fact] = [*ways[read], rule]
                    queue.append(condition.fact)
    return [start]


def _strata(
    rules: Sequence[Rule], groups: Sequence[Sequence[str]], concluding: _Concluding
) -> tuple[tuple[int, ...], ...]:
    """Each finding as low as it can be; one that waits for an absence is above all that could conclude it."""
    level: dict[str, int] = {}

    def level_of(rule: Rule) -> int:
        return max(
            (level.get(c.fact, -1) + (not asks_for_presence(c)) for c in rule.when if c.fact in level), default=0
        )

    for group in groups:
        height = max(level_of(rule) for finding in group for rule in concluding[finding])
        level.update(dict.fromkeys(group, height))
    strata: dict[int, list[int]] = {}
    for position, rule in enumerate(rules):
        height = level[head] if (head := rule.head) in level else level_of(rule)
        strata.setdefault(height, []).append(position)
    return tuple([tuple(strata[height]) for height in sorted(strata)])

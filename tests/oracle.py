"""A naive evaluator of rules and a generator of random ones, sharing no code with the engine.

Three-valued from the start: every rule is tried on every combination of subjects until nothing changes. No strata of
tokens, no joins, no second run, and its own reading of conditions and versions.
"""

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from troubleshooter.model import Condition, Fact, FactRef, FactSpec, Inference, Rule, Source, Value

FALSE, UNDECIDED, TRUE = 0, 1, 2

Firings = set[tuple[str, str, str, tuple[tuple[str, ...], ...]]]
"""(head, subject, id of the rule, what met each condition)."""


def durable_missing() -> str:
    """Why durable-rules cannot be used here, for the reason of a skip; empty if it can."""
    try:
        import durable_rules_engine  # noqa: F401
    except (ImportError, OSError, SystemError) as error:
        return f"durable-rules cannot be imported: {error}"
    return ""


def flat(inference: Inference) -> tuple[Firings, Firings]:
    """What an inference says, without its order."""
    sure, possible = (
        {(c.name, c.subject, s.rule, s.met_by) for c in conclusions for s in c.supports}
        for conclusions in (inference.conclusions, inference.possible)
    )
    return sure, possible


def expected(
    rules: Sequence[Rule], facts: Sequence[Fact], catalogue: Mapping[str, FactSpec]
) -> tuple[Firings, Firings]:
    """The sure and the merely possible firings. Rule ids must be unique and the rules free of problems."""
    known = {(fact.name, fact.subject): fact for fact in facts}
    subjects: dict[str, list[str]] = {"host": ["host"]}
    for fact in facts:
        subjects.setdefault(fact.subject.split(":")[0], []).append(fact.subject)
    kinds = _kinds_of_findings(rules, catalogue)
    level = _levels(rules)
    truth: dict[tuple[str, str], int] = {}
    instances: dict[tuple[str, str, str, tuple[tuple[str, ...], ...]], int] = {}
    for height in range(max(level.values(), default=0) + 1):
        changed = True
        while changed:
            changed = False
            for rule in rules:
                if level[rule.id] != height:
                    continue
                used = [_kind(c, catalogue, kinds) for c in rule.when]
                names = sorted(set(used) - {"host"})
                head_kind = next((kind for kind in used if kind != "host"), "host")
                for combination in product(*[sorted(set(subjects.get(name, [f"{name}:?"]))) for name in names]):
                    about = {"host": "host", **dict(zip(names, combination, strict=True))}
                    parts = [
                        _condition(c, about[kind], known, catalogue, truth)
                        for c, kind in zip(rule.when, used, strict=True)
                    ]
                    value = min(part[0] for part in parts)
                    if value == FALSE:
                        continue
                    key = (rule.head, about[head_kind], rule.id, tuple(part[1] for part in parts))
                    if instances.get(key, FALSE) < value:
                        instances[key] = value
                        changed = True
                    if truth.get(key[:2], FALSE) < value:
                        truth[key[:2]] = value
                        changed = True
    return {key for key, v in instances.items() if v == TRUE}, {key for key, v in instances.items() if v == UNDECIDED}


def _levels(rules: Sequence[Rule]) -> dict[str, int]:
    """By rule id; raised until each absence is asked for above all that could conclude it."""
    level = {rule.id: 0 for rule in rules}
    for _ in range(len(rules) + 1):
        for rule in rules:
            for other in rules:
                for c in rule.when:
                    if c.fact == other.head and c.fact.startswith("finding."):
                        level[rule.id] = max(level[rule.id], level[other.id] + (c.operand != "present"))
                if rule.head == other.head and rule.head.startswith("finding."):
                    level[rule.id] = max(level[rule.id], level[other.id])
    return level


def _kinds_of_findings(rules: Sequence[Rule], catalogue: Mapping[str, FactSpec]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for _ in range(len(rules) + 1):
        for rule in rules:
            for c in rule.when:
                kind = _kind(c, catalogue, kinds)
                if kind != "host":
                    kinds.setdefault(rule.head, kind)
                    break
    return kinds


def _kind(condition: Condition, catalogue: Mapping[str, FactSpec], kinds: Mapping[str, str]) -> str:
    names = [condition.fact, *([condition.operand.fact] if isinstance(condition.operand, FactRef) else [])]
    for name in names:
        kind = catalogue[name].subject if name in catalogue else kinds.get(name, "host")
        if kind != "host":
            return kind
    return "host"


def _condition(
    condition: Condition,
    subject: str,
    known: Mapping[tuple[str, str], Fact],
    catalogue: Mapping[str, FactSpec],
    truth: Mapping[tuple[str, str], int],
) -> tuple[int, tuple[str, ...]]:
    name, imaginary = condition.fact, subject.endswith(":?")
    if name.startswith("finding."):
        value = truth.get((name, subject), FALSE)
        if condition.op == "no" or condition.operand == "absent":
            return min(TRUE - value, UNDECIDED if imaginary else TRUE), (f"no:{name}@{subject}",)
        if condition.operand == "unknown":
            held = UNDECIDED if imaginary else TRUE
            return held if value == UNDECIDED else FALSE, (f"{name}@{subject}",)
        return value, (f"{name}@{subject}",)
    seen, ids = [], []
    for each in [name, *([condition.operand.fact] if isinstance(condition.operand, FactRef) else [])]:
        whom = "host" if catalogue[each].subject == "host" else subject
        ids.append(f"{each}@{whom}")
        fact = known.get((each, whom))
        seen.append(fact if fact is not None and fact.state != "unknown" else None)
    if imaginary:
        return UNDECIDED, tuple(ids)
    if condition.op == "state":
        if condition.operand == "unknown":
            return TRUE if seen[0] is None else FALSE, tuple(ids)
        if seen[0] is None:
            return UNDECIDED, tuple(ids)
        return TRUE if seen[0].state == condition.operand else FALSE, tuple(ids)
    if any(fact is None or fact.state == "absent" for fact in seen):
        return UNDECIDED, tuple(ids)
    left = seen[0].value
    right = seen[1].value if len(seen) > 1 else condition.operand
    return _compare(catalogue[name].type, condition.op, left, right), tuple(ids)


def _compare(type_: str, op: str, left: Value, right: Value) -> int:
    if op == "matches":
        return TRUE if re.search(right, left) else FALSE
    if op == "has":
        return TRUE if right in left else FALSE
    if op == "one_of":
        return max(_compare(type_, "is", left, each) for each in right)
    if type_ == "version":
        first, second = _version(left), _version(right)
        if first is None or second is None:
            if left == right and op in {"is", "is_not"}:
                return TRUE if op == "is" else FALSE
            return UNDECIDED
        left, right = first, second
    return (
        TRUE
        if {
            "is": lambda: left == right,
            "is_not": lambda: left != right,
            "below": lambda: left < right,
            "at_most": lambda: left <= right,
            "above": lambda: left > right,
            "at_least": lambda: left >= right,
        }[op]()
        else FALSE
    )


def _version(text: str) -> list[int] | None:
    """Only dotted numbers, padded: the generator makes no others that have an order."""
    if not re.fullmatch(r"\d+(\.\d+)*", text):
        return None
    numbers = [int(part) for part in text.split(".")]
    return numbers + [0] * (6 - len(numbers))


# --- random programs

TYPES = ("text", "number", "flag", "version", "texts")
KINDS = ("host", "gpu", "package")
VALUES: dict[str, list[Value]] = {
    "text": ["a", "b", "ab"],
    "number": [0, 1, 2.5, -3],
    "flag": [True, False],
    "version": ["9.0", "12.1", "12.10", "12.1.0", "525.60.13", "nightly", "main"],
    "texts": [("a",), ("a", "b"), (), ("c", "b")],
}
OPERATORS = {
    "text": ("is", "is_not", "one_of", "matches"),
    "number": ("is", "is_not", "below", "at_most", "above", "at_least"),
    "flag": ("is", "is_not"),
    "version": ("is", "is_not", "one_of", "below", "at_most", "above", "at_least"),
    "texts": ("has",),
}
CATALOGUE = {
    name: FactSpec(name, type_, kind, "")
    for kind in KINDS
    for type_ in TYPES
    for name in (f"{kind}.{type_}", f"{kind}.other_{type_}")
}
SOURCE = Source("probe", "set")


def random_program(rng: random.Random) -> tuple[list[Rule], list[Fact]]:
    """Rules over the host, GPUs and packages with chains, loops without absence, and absence in strata."""
    findings = {
        f"finding.f{n}": (rng.choice(KINDS), rng.randrange(3)) for n in range(rng.randrange(1, 7))
    }  # kind, level
    rules = []
    for finding, (kind, level) in findings.items():
        for n in range(rng.choice((1, 1, 2))):
            allowed = KINDS if kind != "host" else ("host",)
            first = _about_facts(rng, kind)
            rest = [_random_condition(rng, rng.choice(allowed), findings, level) for _ in range(rng.randrange(3))]
            rules.append(Rule(f"{finding}-{n}", (first, *rest), "", concludes=finding))
    for n in range(rng.randrange(1, 6)):
        conditions = [_random_condition(rng, rng.choice(KINDS), findings, 3) for _ in range(rng.randrange(1, 6))]
        rules.append(Rule(f"rule-{n}", tuple(conditions), "", diagnosis=f"d{rng.randrange(4)}"))
    rng.shuffle(rules)
    return rules, list(_random_facts(rng))


def _random_facts(rng: random.Random) -> Iterable[Fact]:
    stated = rng.choice((0.6, 0.95, 1.0))
    subjects = {
        "host": ["host"],
        "gpu": [f"gpu:{n}" for n in range(rng.choice((0, 1, 1, 2, 3)))],
        "package": [f"package:{name}" for name in rng.sample(("torch", "numpy", "triton"), rng.randrange(3))],
    }
    for spec in CATALOGUE.values():
        for subject in subjects[spec.subject]:
            if rng.random() < stated:
                yield Fact(spec.name, subject, "present", rng.choice(VALUES[spec.type]), SOURCE)
            elif rng.random() < 0.7:
                yield Fact(spec.name, subject, rng.choice(("absent", "unknown")), None, SOURCE)


def _random_condition(rng: random.Random, kind: str, findings: Mapping[str, tuple[str, int]], level: int) -> Condition:
    reachable = [f for f, (of_kind, its) in findings.items() if of_kind == kind and its <= level]
    if not reachable or rng.random() < 0.55:
        return _about_facts(rng, kind)
    finding = rng.choice(reachable)
    if findings[finding][1] < level and rng.random() < 0.6:
        return rng.choice(
            (
                Condition(finding, "no", None),
                Condition(finding, "state", "absent"),
                Condition(finding, "state", "unknown"),
            )
        )
    return Condition(finding, "state", "present")


def _about_facts(rng: random.Random, kind: str) -> Condition:
    type_ = rng.choice(TYPES)
    name = rng.choice((f"{kind}.{type_}", f"{kind}.other_{type_}"))
    if rng.random() < 0.15:
        return Condition(name, "state", rng.choice(("absent", "present", "unknown")))
    op = rng.choice(OPERATORS[type_])
    if op == "has":
        return Condition(name, op, rng.choice("abc"))
    if op == "one_of":
        return Condition(name, op, tuple(rng.sample(VALUES[type_], 2)))
    if op == "matches":
        return Condition(name, op, rng.choice(("^a", "b$", "^ab$", "c")))
    if rng.random() < 0.4:
        sides = [name, rng.choice((f"{kind}.other_{type_}", f"host.{type_}"))]
        if rng.random() < 0.3:
            sides.reverse()
        return Condition(sides[0], op, FactRef(sides[1]))
    return Condition(name, op, rng.choice(VALUES[type_]))

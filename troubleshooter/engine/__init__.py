"""Forward chaining over facts and findings: what follows for sure, and what would follow if the unknown were known."""

from collections.abc import Iterable, Mapping, Sequence

from ..errors import KnowledgeError, UsageError, did_you_mean
from ..model import HOST, UNKNOWN, Conclusion, Condition, Fact, FactRef, FactSpec, Inference, Rule, Support
from .conditions import Truth, holds, type_of
from .port import Backend, EngineBroken, Firing, JoinRule, Pattern, Token, conclusion_id, waiting
from .program import Program, asks_for_presence, check_program, is_finding, read_program

__all__ = ["ENGINES", "check_program", "infer"]

ENGINES = ("auto", "durable", "python")

_Concluded = dict[str, dict[str, None]]
"""By head, the subjects about which it was concluded, in order."""


def infer(
    rules: Sequence[Rule], facts: Sequence[Fact], catalogue: Mapping[str, FactSpec], engine: str = "auto"
) -> Inference:
    """Every conclusion with every support; the answer does not depend on the engine or on the order of `facts`.

    A fact about a subject that is not of its catalogue kind is not seen. Raises KnowledgeError for rules that cannot
    be put into strata (all problems at once), UsageError for an engine that does not exist or cannot be imported.
    """
    program, problems = read_program(rules, catalogue)
    if problems:
        raise KnowledgeError(problems)
    joins = [_join_rule(program, position) for position in range(len(program.rules))]
    backend, name, reason = _choose(engine, joins)
    try:
        sure, possible = _run(program, joins, _Facts(facts, catalogue), backend)
    except EngineBroken as broken:
        backend, name, reason = _python(f"durable-rules could not be relied on here ({broken})")
        sure, possible = _run(program, joins, _Facts(facts, catalogue), backend)
    certain = set(sure)
    return Inference(
        _conclusions(program, sure),
        _conclusions(program, [firing for firing in possible if firing not in certain]),
        name,
        reason,
    )


# --- which back end


def _choose(engine: str, joins: Sequence[JoinRule]) -> tuple[Backend, str, str]:
    """The back end, its name for the report, and why it was taken."""
    if engine not in ENGINES:
        raise UsageError(f"unknown engine {engine!r}", did_you_mean(engine, ENGINES) or f"one of {', '.join(ENGINES)}")
    if engine == "python":
        return _python("asked for")
    try:
        from . import durable
    except (ImportError, OSError, SystemError) as error:
        if engine == "durable":
            raise UsageError(
                f"durable-rules cannot be imported ({error})",
                "pip install gpu-troubleshooter[durable], with Python 3.12 or older and a C compiler",
            ) from error
        return _python("durable-rules is not installed or does not work with this Python")
    if reason := durable.unfit(joins):
        return _python(f"outside what durable-rules handles safely: {reason}")
    return (
        _durable(),
        "durable",
        "asked for" if engine == "durable" else "durable-rules is installed and these rules suit it",
    )


def _python(reason: str) -> tuple[Backend, str, str]:
    from .indexed import Indexed

    return Indexed(), "python", reason


_kept: list[Backend] = []


def _durable() -> Backend:
    """One for the whole process, as it keeps compiled programs."""
    from .durable import Durable

    if not _kept:
        _kept.append(Durable())
    return _kept[0]


# --- facts and tokens


class _Facts:
    """The facts by name and subject, the subjects of each kind, and the truth of a condition about one of them."""

    def __init__(self, facts: Iterable[Fact], catalogue: Mapping[str, FactSpec]) -> None:
        self._catalogue = catalogue
        self._facts: dict[tuple[str, str], Fact] = {}
        self._subjects: dict[str, dict[str, None]] = {HOST: {HOST: None}}
        for fact in facts:
            self._facts.setdefault((fact.name, fact.subject), fact)
            self._subjects.setdefault(fact.subject.split(":", 1)[0], {})[fact.subject] = None

    def subjects(self, kind: str) -> Iterable[str]:
        return self._subjects.get(kind, ())

    def truth(self, condition: Condition, subject: str) -> tuple[Truth, tuple[str, ...]]:
        """Whether it holds, and the ids of the facts that say so."""
        fact, about = self._look(condition.fact, subject)
        spec = self._catalogue.get(condition.fact)
        type_ = spec.type if spec else type_of(fact.value if fact else None)
        if not isinstance(condition.operand, FactRef):
            return holds(condition, type_, fact, None), (about,)
        other, about_other = self._look(condition.operand.fact, subject)
        return holds(condition, type_, fact, other), (about, about_other)

    def _look(self, name: str, subject: str) -> tuple[Fact | None, str]:
        """A fact about the host can stand in a condition about a GPU."""
        spec = self._catalogue.get(name)
        whom = HOST if spec is None or spec.subject == HOST else subject
        return self._facts.get((name, whom)), conclusion_id(name, whom)


def _join_rule(program: Program, position: int) -> JoinRule:
    # Positions and not the ids of rules: two packs may use one id, and a back end should not see what others wrote.
    rule = program.rules[position]
    patterns = [
        Pattern(f"{position}/{place}", kind, c.fact if is_finding(c) and asks_for_presence(c) else "")
        for place, (c, kind) in enumerate(zip(rule.when, program.kinds[position], strict=True))
    ]
    return JoinRule(str(position), tuple(patterns), rule.head, program.head_kinds[position])


def _run(
    program: Program, joins: Sequence[JoinRule], facts: _Facts, backend: Backend
) -> tuple[list[Firing], list[Firing]]:
    """The sure and the possible firings. Each stratum runs on the conclusions of those below, which are final."""
    sure: list[Firing] = []
    possible: list[Firing] = []
    surely: _Concluded = {}
    possibly: _Concluded = {}
    for stratum in program.strata:
        sure_tokens: list[Token] = []
        possible_tokens: list[Token] = []
        for position in stratum:
            for condition, pattern in zip(program.rules[position].when, joins[position].patterns, strict=True):
                if pattern.waits_on:
                    for tokens, concluded in ((sure_tokens, surely), (possible_tokens, possibly)):
                        for subject in concluded.get(pattern.waits_on, ()):
                            tokens.append(Token(pattern.id, (conclusion_id(pattern.waits_on, subject),), subject))
                    continue
                for subject, truth, ids in _truths(condition, pattern, facts, surely, possibly):
                    if truth is not False:
                        token = Token(pattern.id, ids, subject)
                        possible_tokens.append(token)
                        if truth:
                            sure_tokens.append(token)
        rules = _live([joins[position] for position in stratum], possible_tokens)
        slots = {pattern.id for rule in rules for pattern in rule.patterns}
        sure_tokens = [token for token in sure_tokens if token.pattern in slots]
        possible_tokens = [token for token in possible_tokens if token.pattern in slots]
        fired = backend.fire(rules, sure_tokens)
        # Nothing undecided, here or below: the second run would only repeat the first.
        may_fire = fired if possible_tokens == sure_tokens else backend.fire(rules, possible_tokens)
        for firings, all_firings, concluded in ((fired, sure, surely), (may_fire, possible, possibly)):
            all_firings.extend(firings)
            for firing in firings:
                concluded.setdefault(program.rules[int(firing.rule)].head, {})[firing.subject] = None
    return sure, possible


def _live(rules: Sequence[JoinRule], tokens: Iterable[Token]) -> list[JoinRule]:
    """Those of which every pattern has a token, or waits on a rule that is live: no other can fire.

    Most rules fall to a condition that is plainly false, and a back end then need not compile them.
    """
    filled = {token.pattern for token in tokens}
    waits = waiting(rules)
    owner = {pattern.id: position for position, rule in enumerate(rules) for pattern in rule.patterns}
    empty = [sum(pattern.id not in filled for pattern in rule.patterns) for rule in rules]
    live = [position for position, count in enumerate(empty) if not count]
    for position in live:  # grows while it is read
        for pattern in waits.get(rules[position].head, ()):
            if pattern.id not in filled:
                filled.add(pattern.id)
                empty[owner[pattern.id]] -= 1
                if not empty[owner[pattern.id]]:
                    live.append(owner[pattern.id])
    return [rules[position] for position in sorted(live)]


def _truths(
    condition: Condition, pattern: Pattern, facts: _Facts, surely: _Concluded, possibly: _Concluded
) -> Iterable[tuple[str, Truth, tuple[str, ...]]]:
    """The truth of a condition for each subject it can speak of, and what it rests on."""
    subjects = facts.subjects(pattern.kind)
    # Nothing is known of any GPU: one imaginary GPU shows what could follow if there were one.
    imaginary = not subjects
    for subject in subjects or (f"{pattern.kind}:?",):
        if not is_finding(condition):
            truth, ids = facts.truth(condition, subject)
            yield subject, None if imaginary else truth, ids
            continue
        is_sure = subject in surely.get(condition.fact, ())
        may_be = subject in possibly.get(condition.fact, ())
        met_by = conclusion_id(condition.fact, subject)
        if condition.op == "state" and condition.operand == UNKNOWN:
            truth = may_be and not is_sure
            yield subject, None if truth and imaginary else truth, (met_by,)
        else:
            yield subject, False if is_sure else None if may_be or imaginary else True, (f"no:{met_by}",)


# --- conclusions


def _conclusions(program: Program, firings: Iterable[Firing]) -> tuple[Conclusion, ...]:
    """Grouped and in one order, whatever the order of firing was."""
    ordered = sorted({(int(firing.rule), _natural(firing.subject), firing) for firing in firings})
    supports: dict[tuple[str, str], list[Support]] = {}
    for position, _, firing in ordered:
        rule = program.rules[position]
        supports.setdefault((rule.head, firing.subject), []).append(Support(rule.id, firing.subject, firing.met_by))
    keys = sorted(supports, key=lambda key: (key[0], _natural(key[1])))
    return tuple([Conclusion(head, subject, tuple(supports[head, subject])) for head, subject in keys])


def _natural(subject: str) -> tuple[str, int, str]:
    """gpu:2 comes before gpu:10. Texts of digits of equal length are in the order of their numbers."""
    kind, _, name = subject.partition(":")
    return kind, len(name) if name.isdecimal() else -1, name

"""Forward chaining over facts and findings: what follows for sure, and what would follow if the unknown were known."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from ..errors import KnowledgeError, UsageError, did_you_mean
from ..model import (
    HOST,
    NOWHERE,
    PRESENT,
    UNKNOWN,
    Conclusion,
    Condition,
    Fact,
    FactRef,
    FactSpec,
    Inference,
    Rule,
    Support,
)
from .conditions import Truth, holds, type_of
from .guards import LOG, Guards, Worth, guards_of
from .port import EngineBroken, Firing, JoinRule, Pattern, Token, conclusion_id, waiting
from .program import FINDING, Program, asks_for_presence, check_program, is_finding, read_program

if TYPE_CHECKING:
    from .port import Backend

__all__ = ["ENGINES", "check_program", "infer", "keep_program"]

ENGINES = ("auto", "durable", "python")

_Concluded = dict[str, dict[str, None]]
"""By head, the subjects about which it was concluded, in order."""


def infer(
    rules: Sequence[Rule],
    facts: Sequence[Fact],
    catalogue: Mapping[str, FactSpec],
    engine: str = "auto",
    *,
    undecided: bool = True,
    silent: bool = False,
    worth: Worth | None = None,
) -> Inference:
    """Every conclusion with every support; the answer does not depend on the engine or on the order of `facts`.

    Without `undecided`, what would follow if the unknown were known is left out: most of the work goes into that. With
    `worth`, it is left out of those rules for diagnoses and notes that it turns down, told their facts that nobody
    stated. `silent`: texts were read to their end, and a signature of which `facts` say nothing is in none of them.
    A fact about a subject that is not of its catalogue kind is not seen. Raises KnowledgeError for rules that cannot
    be put into strata (all problems at once), UsageError for an engine that does not exist or cannot be imported.
    """
    plan = _plan(rules, catalogue)
    backend, name, reason = _choose(engine, plan)
    known = _Facts(facts, silent=silent)
    try:
        sure, possible = _run(plan, known, backend, undecided=undecided, worth=worth)
    except EngineBroken as broken:
        backend, name, reason = _python(f"durable-rules could not be relied on here ({broken})")
        sure, possible = _run(plan, known, backend, undecided=undecided, worth=worth)
    certain = set(sure)
    return Inference(
        _conclusions(plan.program, sure),
        _conclusions(plan.program, [firing for firing in possible if firing not in certain]),
        name,
        reason,
    )


def keep_program(catalogue: Mapping[str, FactSpec], program: Program, guards: Guards) -> None:
    """They are what `read_program` and `guards_of` say of the rules of `program`: `infer` need not ask again."""
    _keep(program.rules, catalogue, _Plan(program, catalogue, guards))


# --- which back end


def _choose(engine: str, plan: "_Plan") -> "tuple[Backend, str, str]":
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
    if plan.unfit is None:
        plan.unfit = durable.unfit(plan.program.kinds)
    if reason := plan.unfit:
        return _python(f"outside what durable-rules handles safely: {reason}")
    return (
        _durable(),
        "durable",
        "asked for" if engine == "durable" else "durable-rules is installed and these rules suit it",
    )


def _python(reason: str) -> "tuple[Backend, str, str]":
    from .indexed import Indexed

    return Indexed(), "python", reason


_kept: "list[Backend]" = []


def _durable() -> "Backend":
    """One for the whole process, as it keeps compiled programs."""
    from .durable import Durable

    if not _kept:
        _kept.append(Durable())
    return _kept[0]


# --- what of a program does not change from run to run


class _Question(NamedTuple):
    """A condition, and all of it that the facts do not change. Equal ones of several rules share a `number`.

    `number` is -1 for a condition on a finding. `type` is empty where the catalogue does not know the fact.
    """

    number: int
    condition: Condition
    kind: str
    type: str = ""
    of_host: bool = True
    other: str = ""
    other_of_host: bool = True


class _Plan:
    """What is made of a rule is made when it is needed: most rules of a program are dead in every run."""

    def __init__(self, program: Program, catalogue: Mapping[str, FactSpec], guards: Guards) -> None:
        self.program = program
        self.guards = guards
        self.level = [0] * len(program.rules)
        for height, stratum in enumerate(program.strata):
            for position in stratum:
                self.level[position] = height
        self.unfit: str | None = None
        self._catalogue = catalogue
        self._joins: dict[int, JoinRule] = {}
        self._questions: dict[int, list[_Question]] = {}
        self._numbers: dict[tuple[object, ...], _Question] = {}

    def join(self, position: int) -> JoinRule:
        if position not in self._joins:
            self._joins[position] = _join_rule(self.program, position)
        return self._joins[position]

    def questions(self, position: int) -> "list[_Question]":
        if position not in self._questions:
            pairs = zip(self.program.rules[position].when, self.program.kinds[position], strict=True)
            made = [_question(condition, kind, self._catalogue, self._numbers) for condition, kind in pairs]
            self._questions[position] = made
        return self._questions[position]


def _question(
    condition: Condition, kind: str, catalogue: Mapping[str, FactSpec], numbers: dict[tuple[object, ...], _Question]
) -> _Question:
    fact, op, operand, _ = condition
    if is_finding(condition):
        return _Question(-1, condition, kind)
    key = fact, op, operand.__class__, operand, kind  # the class: True equals 1
    if (known := numbers.get(key)) is None:
        spec = catalogue.get(fact)
        other = operand.fact if isinstance(operand, FactRef) else ""
        known = _Question(
            next(_numbers),
            condition,
            kind,
            spec.type if spec else "",
            spec is None or spec.subject == HOST,
            other,
            not other or (about := catalogue.get(other)) is None or about.subject == HOST,
        )
        # Two threads may both have made it: then the first one stays.
        known = numbers.setdefault(key, known)
    return known


_numbers = count()


_plans: list[tuple[Sequence[Rule], Mapping[str, FactSpec], _Plan]] = []
_PLANS_KEPT = 4


def _plan(rules: Sequence[Rule], catalogue: Mapping[str, FactSpec]) -> _Plan:
    for known_rules, known_catalogue, plan in _plans:
        if known_rules is rules and known_catalogue is catalogue:
            return plan
    program, problems = read_program(rules, catalogue)
    if problems:
        raise KnowledgeError(problems)
    plan = _Plan(program, catalogue, guards_of(rules))
    if isinstance(rules, tuple):  # a list may hold other rules the next time
        _keep(rules, catalogue, plan)
    return plan


def _keep(rules: Sequence[Rule], catalogue: Mapping[str, FactSpec], plan: _Plan) -> None:
    # A new list and no change of the old one: another thread may be reading it.
    _plans[:] = [(rules, catalogue, plan), *_plans[: _PLANS_KEPT - 1]]


# --- facts and tokens


_Answer = tuple[str, Truth, tuple[str, ...]]
"""A subject, the truth of a condition about it, and the ids of what says so."""


_NOT_SHOWN = Fact(LOG, HOST, PRESENT, False, NOWHERE)
"""What is known of every signature that no text shows."""


class _Facts:
    """The facts by name and subject, the subjects of each kind, and the truth of a condition about one of them."""

    def __init__(self, facts: Iterable[Fact], *, silent: bool = False) -> None:
        self.silent = silent
        self.names: set[str] = set()
        self._facts: dict[tuple[str, str], Fact] = {}
        self._subjects: dict[str, dict[str, None]] = {HOST: {HOST: None}}
        for fact in facts:
            self.names.add(fact.name)
            self._facts.setdefault((fact.name, fact.subject), fact)
            if fact.subject != HOST:
                self._subjects.setdefault(fact.subject.split(":", 1)[0], {})[fact.subject] = None

    def _fact(self, name: str, whom: str) -> Fact | None:
        found = self._facts.get((name, whom))
        if found is None and self.silent and whom == HOST and name.startswith(LOG):
            return _NOT_SHOWN
        return found

    def subjects(self, kind: str) -> tuple[Iterable[str], bool]:
        """Those of a kind; where nothing is known of any GPU, an imaginary one (True) shows what could follow."""
        found = self._subjects.get(kind)
        return (found, False) if found else ((f"{kind}:?",), True)

    def answers(self, question: _Question) -> list[_Answer]:
        """Those that are not plainly false. A fact about the host can stand in a condition about a GPU."""
        _, condition, kind, type_, of_host, other_name, other_of_host = question
        found: list[_Answer] = []
        name = condition.fact
        subjects, imaginary = self.subjects(kind)
        for subject in subjects:
            whom = HOST if of_host else subject
            fact, other, other_whom = self._fact(name, whom), None, ""
            if other_name:
                other_whom = HOST if other_of_host else subject
                other = self._fact(other_name, other_whom)
            truth = holds(condition, type_ or type_of(fact.value if fact else None), fact, other)
            if truth is False and not imaginary:
                continue
            about = conclusion_id(name, whom)
            ids = (about, conclusion_id(other_name, other_whom)) if other_name else (about,)
            found.append((subject, None if imaginary else truth, ids))
        return found


def _join_rule(program: Program, position: int) -> JoinRule:
    # Positions and not the ids of rules: two packs may use one id, and a back end should not see what others wrote.
    rule = program.rules[position]
    patterns = [
        Pattern(f"{position}/{place}", kind, c.fact if is_finding(c) and asks_for_presence(c) else "")
        for place, (c, kind) in enumerate(zip(rule.when, program.kinds[position], strict=True))
    ]
    return JoinRule(str(position), tuple(patterns), rule.head, program.head_kinds[position])


def _run(
    plan: _Plan, facts: _Facts, backend: "Backend", *, undecided: bool = True, worth: Worth | None = None
) -> tuple[list[Firing], list[Firing]]:
    """The sure and the possible firings. Each stratum runs on the conclusions of those below, which are final.

    Without `undecided` there are possible firings only as far as a higher stratum asks for them.
    """
    program = plan.program
    sure: list[Firing] = []
    possible: list[Firing] = []
    surely: _Concluded = {}
    possibly: _Concluded = {}
    known: dict[int, list[_Answer]] = {}
    may_be: set[str] = set()
    strata: list[list[int]] = [[] for _ in program.strata]
    for position in plan.guards.rules(facts.names, silent=facts.silent, undecided=undecided, worth=worth):
        strata[plan.level[position]].append(position)
    for stratum in strata:
        sure_tokens: list[Token] = []
        possible_tokens: list[Token] = []
        joins: list[JoinRule] = []
        may_be_dead = False
        for position in stratum:  # grows while it is read
            questions = plan.questions(position)
            answered = _answers_of_rule(questions, facts, known)
            if answered is None:
                continue
            head = program.rules[position].head
            for_sure = not undecided and head not in plan.guards.awaited
            if for_sure and not _can_be_sure(questions, answered):
                continue
            join = plan.join(position)
            joins.append(join)
            if head.startswith(FINDING) and head not in may_be:
                may_be.add(head)
                for follower in plan.guards.by_finding.get(head, ()):
                    if worth is None or plan.guards.is_worth(follower, facts.names, silent=facts.silent, worth=worth):
                        strata[plan.level[follower]].append(follower)  # never below this stratum
            for question, answers, pattern in zip(questions, answered, join.patterns, strict=True):
                if pattern.waits_on:
                    may_be_dead = True
                    for tokens, concluded in ((sure_tokens, surely), (possible_tokens, possibly)):
                        for subject in concluded.get(pattern.waits_on, ()):
                            tokens.append(Token(pattern.id, (conclusion_id(pattern.waits_on, subject),), subject))
                    continue
                if question.number < 0:
                    answers = _about_finding(question.condition, question.kind, facts, surely, possibly)  # noqa: PLW2901
                    may_be_dead |= not answers
                for subject, truth, ids in answers:
                    if truth or not for_sure:
                        token = Token(pattern.id, ids, subject)
                        possible_tokens.append(token)
                        if truth:
                            sure_tokens.append(token)
            may_be_dead |= for_sure
        rules = _live(joins, possible_tokens) if may_be_dead else joins
        if len(rules) < len(joins):
            slots = {pattern.id for rule in rules for pattern in rule.patterns}
            sure_tokens = [token for token in sure_tokens if token.pattern in slots]
            possible_tokens = [token for token in possible_tokens if token.pattern in slots]
        fired = backend.fire(rules, sure_tokens) if rules else []
        # Nothing undecided, here or below: the second run would only repeat the first.
        may_fire = fired if possible_tokens == sure_tokens else backend.fire(rules, possible_tokens)
        for firings, all_firings, concluded in ((fired, sure, surely), (may_fire, possible, possibly)):
            all_firings.extend(firings)
            for firing in firings:
                concluded.setdefault(program.rules[int(firing.rule)].head, {})[firing.subject] = None
    return sure, possible


def _answers_of_rule(
    questions: Sequence[_Question], facts: _Facts, known: dict[int, list[_Answer]]
) -> list[list[_Answer]] | None:
    """What the facts say of each condition, those on findings left empty; None once one is plainly false."""
    answered: list[list[_Answer]] = []
    for question in questions:
        number = question[0]
        if number < 0:
            answered.append([])
            continue
        answers = known.get(number)
        if answers is None:
            answers = known[number] = facts.answers(question)
        if not answers:
            return None
        answered.append(answers)
    return answered


def _can_be_sure(questions: Sequence[_Question], answered: Sequence[list[_Answer]]) -> bool:
    """Whether every condition on facts surely holds for somebody."""
    for question, answers in zip(questions, answered, strict=True):
        if question.number >= 0:
            for _, truth, _ in answers:
                if truth:
                    break
            else:
                return False
    return True


def _about_finding(
    condition: Condition, kind: str, facts: _Facts, surely: _Concluded, possibly: _Concluded
) -> list[_Answer]:
    """Whether a finding is not there, or unknown, for each subject of which that is not plainly false."""
    found: list[_Answer] = []
    subjects, imaginary = facts.subjects(kind)
    for subject in subjects:
        is_sure = subject in surely.get(condition.fact, ())
        may_be = subject in possibly.get(condition.fact, ())
        met_by = conclusion_id(condition.fact, subject)
        if condition.op == "state" and condition.operand == UNKNOWN:
            if may_be and not is_sure:
                found.append((subject, None if imaginary else True, (met_by,)))
        elif not is_sure:
            found.append((subject, None if may_be or imaginary else True, (f"no:{met_by}",)))
    return found


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


@lru_cache(maxsize=1024)
def _natural(subject: str) -> tuple[str, int, str]:
    """gpu:2 comes before gpu:10. Texts of digits of equal length are in the order of their numbers."""
    kind, _, name = subject.partition(":")
    return kind, len(name) if name.isdecimal() else -1, name

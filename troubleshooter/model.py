"""The frozen values that travel from one stage to the next. Imports nothing of ours, does nothing.

They are named tuples and not dataclasses: creating thirty dataclasses costs 25-30 ms at every start,
thirty named tuples 3-5 ms (docs/decisions/0001-named-tuples.md).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

Value: TypeAlias = str | int | float | bool | tuple[str, ...]
"""What a fact can hold. Versions are text here; `versions.order` puts them in order."""

PRESENT, ABSENT, UNKNOWN = "present", "absent", "unknown"

HOST = "host"
"""The subject of everything that is not about one GPU, package, library or Python."""


class Location(NamedTuple):
    """A place in a file that a person can open. Lines and columns count from 1; 0 is "not known"."""

    file: str
    line: int = 0
    column: int = 0


class Source(NamedTuple):
    """Where a claim comes from.

    `kind` is one of probe, text, table, target, set (the JSON contract). `via` is the finer witness that
    `facts.yaml` orders by trust: set, process, target, nvml, nvidia-smi, file, environment, command, text, table.
    """

    kind: str
    via: str
    detail: str = ""
    file: str = ""
    line: int = 0


class Claim(NamedTuple):
    """What one source says of one fact. `value` is None unless `state` is present; `reason` says why not."""

    name: str
    subject: str
    state: str
    value: Value | None
    source: Source
    reason: str = ""


class Fact(NamedTuple):
    """One settled value per (name, subject), with every claim that was heard and what it was derived from."""

    name: str
    subject: str
    state: str
    value: Value | None
    source: Source
    reason: str = ""
    claims: tuple[Claim, ...] = ()
    bases: tuple[str, ...] = ()
    """Ids of the facts that a derived fact rests on; empty for an observed one."""

    @property
    def id(self) -> str:
        return f"{self.name}@{self.subject}"


def present(name: str, value: Value, source: Source, subject: str = HOST) -> Claim:
    return Claim(name, subject, PRESENT, value, source)


def absent(name: str, source: Source, reason: str = "", subject: str = HOST) -> Claim:
    return Claim(name, subject, ABSENT, None, source, reason)


def unknown(name: str, reason: str, source: Source, subject: str = HOST) -> Claim:
    return Claim(name, subject, UNKNOWN, None, source, reason)


NOWHERE = Source("text", "text", "no line shows it")
SILENCE = Claim("log.*", HOST, PRESENT, False, NOWHERE)
"""One claim for hundreds: the texts were read to their end, and no signature is in them but those that are claimed."""


class Transcript(NamedTuple):
    """Text that a program printed, to be scanned for signatures exactly as a pasted text is.

    A probe yields it beside its claims: patterns that judge are data and never stand in a probe.
    """

    text: str
    source: Source


# --- knowledge ------------------------------------------------------------------------------------


class Ask(NamedTuple):
    """How a person finds a fact out: a sentence, a command (may be empty), what it costs them, and on which systems
    the command is (none named: on all).
    """

    say: str
    run: tuple[str, ...] = ()
    cost: str = "cheap"
    systems: tuple[str, ...] = ()


class FactSpec(NamedTuple):
    """One entry of the catalogue `knowledge_base/facts.yaml`.

    `type`: text, number, flag, version, texts, versions. `subject`: host, gpu, package, library, python.
    `context` marks facts that nearly every rule reads (the operating system): sharing them does not make
    two supports one group.
    """

    name: str
    type: str
    subject: str
    meaning: str
    trust: tuple[str, ...] = ()
    ask: Ask | None = None
    one_of: tuple[str, ...] = ()
    context: bool = False
    at: Location = Location("")


class FactRef(NamedTuple):
    """An operand that is another fact."""

    fact: str


class Condition(NamedTuple):
    """One condition of a rule or remedy.

    `op`: is, is_not, one_of, has, below, at_most, above, at_least, matches, state, no.
    For `state` the operand is absent, unknown or present; for `no` the operand is None and `fact` a finding.
    """

    fact: str
    op: str
    operand: Value | FactRef | None
    at: Location = Location("")


class Example(NamedTuple):
    """Facts by name under which a rule must fire, or must stay quiet. A value None is absent."""

    facts: tuple[tuple[str, Value | None], ...]
    at: Location = Location("")


class Rule(NamedTuple):
    """If all conditions hold: evidence for a diagnosis, or a finding, or a note (exactly one of the three)."""

    id: str
    when: tuple[Condition, ...]
    because: str
    diagnosis: str = ""
    evidence: str = ""
    concludes: str = ""
    note: str = ""
    fires: tuple[Example, ...] = ()
    quiet: tuple[Example, ...] = ()
    pack: str = "built-in"
    at: Location = Location("")

    @property
    def head(self) -> str:
        """The name this rule concludes: `diagnosis.X`, `finding.x` or `note.x`."""
        if self.diagnosis:
            return f"diagnosis.{self.diagnosis}"
        return self.concludes or f"note.{self.note}"


class Signature(NamedTuple):
    """A line that a program prints, and the facts its groups state."""

    id: str
    pattern: str
    literals: tuple[str, ...]
    """Lower-case texts of which one must occur in any line that matches: the quick reject."""
    printed_by: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str], ...] = ()
    """(fact name, group name or `=text` for a fixed value)."""
    matches: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    lines: int = 1
    """Over how many consecutive lines the pattern may reach (joined by a blank)."""
    pack: str = "built-in"
    at: Location = Location("")
    needs: tuple[tuple[str, ...], ...] = ()
    """Lower-case texts that must all occur in what matches, or all those of another of these alternatives."""
    branches: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = ()
    """The alternatives that the pattern consists of, each with its own needs; empty where it cannot be cut so."""


class Table(NamedTuple):
    """Compatibility figures with their source and the day they were checked."""

    name: str
    meaning: str
    key: tuple[str, ...]
    source: str
    checked: str
    rows: tuple[Mapping[str, object], ...]
    at: Location = Location("")


class StepSpec(NamedTuple):
    """One step of a remedy as written: `do` an action with arguments, `set_env` variables, or `say` words.

    It is left out unless all conditions of `when` hold, and where one of `unless` does.
    """

    do: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    set_env: tuple[tuple[str, str | None], ...] = ()
    """Variable and value; None removes it."""
    say: str = ""
    persist: bool = False
    """The variables are also to be set for later sessions."""
    when: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()


class RemedySpec(NamedTuple):
    """A remedy as written in an article; `risk`: none, environment, system, reboot.

    It is offered if all conditions of `when` hold and none of `unless` does. What is not known does neither.
    """

    id: str
    title: str
    risk: str
    steps: tuple[StepSpec, ...]
    when: tuple[Condition, ...] = ()
    at: Location = Location("")
    unless: tuple[Condition, ...] = ()


class TestEffect(NamedTuple):
    """An article's `confirm` entry: what a test shows if the diagnosis holds (passed or failed)."""

    test: str
    shows: str
    strength: str = "strong"


class Reference(NamedTuple):
    says: str
    url: str
    checked: str


class Article(NamedTuple):
    """What a diagnosis means and what to do about it."""

    id: str
    title: str
    area: str
    severity: str
    base_rate: str
    meaning: str
    remedies: tuple[RemedySpec, ...]
    references: tuple[Reference, ...]
    not_to_confuse_with: tuple[tuple[str, str], ...] = ()
    explains: tuple[str, ...] = ()
    confirm: tuple[TestEffect, ...] = ()
    verify: tuple[str, ...] = ()
    pack: str = "built-in"
    at: Location = Location("")


class ActionForm(NamedTuple):
    """One form of an action for some operating systems, distributions and package managers (empty: any).

    `commands` run one after the other; without one, `say` tells a person what to do.
    """

    commands: tuple[tuple[str, ...], ...] = ()
    say: str = ""
    os: tuple[str, ...] = ()
    distribution: tuple[str, ...] = ()
    manager: tuple[str, ...] = ()
    admin: bool = False
    reboot: bool = False
    undoable: bool = False
    when: tuple[Condition, ...] = ()


class ActionNote(NamedTuple):
    """A sentence that is added to what a form says, for some package managers and circumstances."""

    say: str
    manager: tuple[str, ...] = ()
    when: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()


class Action(NamedTuple):
    """`knowledge_base/actions/<name>.yaml`: templates with {placeholders}.

    The first form is taken that fits and whose placeholders all have values. `{name|text}` takes the text where the
    fact is not known; an argument that ends with `?` is left out instead; `{name*}` becomes one argument a word.
    """

    name: str
    meaning: str
    forms: tuple[ActionForm, ...]
    at: Location = Location("")
    notes: tuple[ActionNote, ...] = ()


class Pack(NamedTuple):
    name: str
    version: str


class Strengths(NamedTuple):
    """Log-odds, from `knowledge_base/strengths.yaml`."""

    base_rates: Mapping[str, float]
    evidence: Mapping[str, float]


class Knowledge(NamedTuple):
    """Everything that was loaded, checked and frozen. `digest` is the SHA-256 of the files it came from.

    Each fact, rule, signature, table, article and action may be read when it is first asked for.
    """

    facts: Mapping[str, FactSpec]
    rules: Sequence[Rule]
    signatures: Sequence[Signature]
    tables: Mapping[str, Table]
    articles: Mapping[str, Article]
    actions: Mapping[str, Action]
    strengths: Strengths
    packs: tuple[Pack, ...]
    digest: str
    base_rates: Mapping[str, str] | None = None
    """By diagnosis the base rate that its article names, to be had without reading the articles."""
    rule_by_id: Mapping[str, Rule] | None = None
    """To be had without reading all rules."""
    translations: Mapping[str, Mapping[str, str]] = {}
    """By language, the texts for people by what they say in English; in knowledge that was read from YAML alone."""

    def rules_by_id(self) -> Mapping[str, Rule]:
        return self.rule_by_id if self.rule_by_id is not None else {rule.id: rule for rule in self.rules}

    def base_rate(self, diagnosis: str) -> float:
        """In log-odds."""
        rates = self.base_rates
        named = rates[diagnosis] if rates and diagnosis in rates else self.articles[diagnosis].base_rate
        return self.strengths.base_rates[named]


# --- what the engine says -------------------------------------------------------------------------


class Support(NamedTuple):
    """One firing of a rule: the ids of the facts, findings and absences that met its conditions, in their order.

    A condition that compares two facts contributes both, so each entry is a tuple of ids.
    """

    rule: str
    subject: str
    met_by: tuple[tuple[str, ...], ...]


class Conclusion(NamedTuple):
    """A diagnosis, finding or note about a subject, with all its supports."""

    name: str
    subject: str
    supports: tuple[Support, ...]


class Inference(NamedTuple):
    """What follows for sure, and what would follow if the undecided conditions held."""

    conclusions: tuple[Conclusion, ...]
    possible: tuple[Conclusion, ...]
    """Conclusions whose supports here contain at least one undecided condition; the material for `ask`."""
    engine: str
    engine_reason: str


# --- what people get ------------------------------------------------------------------------------


class Evidence(NamedTuple):
    rule: str
    pack: str
    because: str
    supports: bool
    """True speaks for the diagnosis, False against it."""
    strength: str
    facts: tuple[str, ...]
    """Ids of the observed facts it rests on."""
    sources: tuple[Source, ...]
    counted: bool = True
    """False if a stronger one of its group speaks for it."""


class Step(NamedTuple):
    """`kind`: run, set-env or say. `shell_text` is `argv` (or the setting) quoted for `shell`.

    `persist` says where a variable is to be kept for later sessions: profile, conda or user-environment.
    `assumed` names the facts that were taken for granted, as nobody stated them.
    """

    kind: str
    say: str
    argv: tuple[str, ...] = ()
    shell_text: str = ""
    env: tuple[tuple[str, str | None], ...] = ()
    shell: str = ""
    manager: str = ""
    admin: bool = False
    reboot: bool = False
    undoable: bool = False
    persist: str = ""
    assumed: tuple[str, ...] = ()


class Remedy(NamedTuple):
    id: str
    title: str
    risk: str
    steps: tuple[Step, ...]


class Diagnosis(NamedTuple):
    id: str
    subject: str
    confidence: float
    severity: str
    area: str
    base_rate: str
    title: str
    meaning: str
    evidence: tuple[Evidence, ...]
    explains: tuple[str, ...] = ()
    explained_by: str = ""
    remedies: tuple[Remedy, ...] = ()


class Note(NamedTuple):
    """Why something that looks alarming is harmless here."""

    id: str
    text: str
    sources: tuple[Source, ...]


class Question(NamedTuple):
    """An unknown fact that would decide, how to find it out, and between which diagnoses."""

    fact: str
    say: str
    argv: tuple[str, ...]
    decides: tuple[str, ...]


class TestResult(NamedTuple):
    """One GPU or CPU test. `outcome`: passed, failed, skipped. Units stand in the keys of `measured`."""

    test: str
    subject: str
    outcome: str
    measured: Mapping[str, object]
    expected: Mapping[str, object]
    reason: str = ""


class Ground(NamedTuple):
    """What met a condition of a rule. `kind`: fact, finding, or absence (nothing concludes `name`)."""

    kind: str
    name: str
    subject: str
    state: str = PRESENT
    value: Value | None = None
    sources: tuple[Source, ...] = ()
    bases: tuple["Ground", ...] = ()
    """The facts from which a table gave this one."""
    firings: tuple["Firing", ...] = ()
    """The rules that concluded a finding."""


class Firing(NamedTuple):
    """One rule that fired, and everything that met its conditions, in their order."""

    rule: str
    at: Location
    pack: str
    because: str
    strength: str
    supports: bool
    counted: bool
    grounds: tuple[Ground, ...]


class Proof(NamedTuple):
    """Why a diagnosis, finding or note was concluded. `confidence` is None where there is none to speak of."""

    name: str
    subject: str
    title: str
    confidence: float | None
    base_rate: str
    explained_by: str
    firings: tuple[Firing, ...]


class Change(NamedTuple):
    """What became of an earlier report's problems. `word`: resolved, no-longer-seen, unchanged, changed, new."""

    word: str
    day: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    tests: tuple[tuple[str, str, str], ...] = ()
    """test@subject, its outcome then, and now; only of those that differ."""


class Input(NamedTuple):
    """`kind`: machine, recording or text."""

    kind: str
    name: str
    os: str


class Target(NamedTuple):
    python: str
    python_version: str = ""
    torch: str = ""
    manager: str = ""


class Readable(Protocol):
    """What can be read on: a file, a pipe, a member of an archive."""

    def read(self, size: int = ..., /) -> bytes: ...


class Request(NamedTuple):
    """What was asked for. Texts are raw bytes, or files to be read to their end, with the name they came under."""

    texts: tuple[tuple[str, bytes | Readable], ...] = ()
    python: str = ""
    hints: tuple[tuple[str, str], ...] = ()
    engine: str = "auto"
    confirm: str = "quick"
    """no, quick or full."""
    only: tuple[str, ...] = ()
    """Tests to run, by name or by the first part of it; empty: all of the mode."""
    agreed: bool = False
    """The whole memory of a GPU may be tested although something else uses it."""


class Report(NamedTuple):
    verdict: str
    inputs: tuple[Input, ...]
    target: Target | None
    diagnoses: tuple[Diagnosis, ...]
    notes: tuple[Note, ...]
    questions: tuple[Question, ...]
    tests: tuple[TestResult, ...]
    facts: tuple[Fact, ...]
    engine: str
    engine_reason: str
    knowledge: str
    packs: tuple[Pack, ...]
    took_seconds: float
    types: Mapping[str, str]
    """The catalogue type of every fact in `facts`, by name."""
    remarks: tuple[str, ...] = ()
    """Things to say first: hints not understood, another package in our way, several Pythons that differ."""
    change: Change | None = None
    """Against the last report on the same Python of this machine."""

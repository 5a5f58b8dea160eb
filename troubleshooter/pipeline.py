"""The straight line: machine and text → claims → facts → conclusions → diagnoses, remedies, questions → report."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .ask import CERTAIN, ask, worth_asking
from .derive import derive
from .engine import infer
from .model import (
    PRESENT,
    Claim,
    Conclusion,
    Diagnosis,
    Fact,
    Inference,
    Input,
    Knowledge,
    Note,
    Question,
    Report,
    Request,
    Target,
    TestResult,
    Transcript,
)
from .prescribe import prescribe
from .rank import REPORTED, because, rank
from .settle import Facts, settle

if TYPE_CHECKING:
    from .interpreter import ScriptRun
    from .machine import Machine


_PROVING = ("test.torch.", "test.memory.", "test.speed.")
"""Tests in which torch used a GPU: the driver alone, the CPU or a worker process prove nothing of it."""


class Thought(NamedTuple):
    """What the pure middle makes of a set of claims. Once a cause is certain, `inference.possible` is left empty."""

    facts: Facts
    inference: Inference
    diagnoses: tuple[Diagnosis, ...]
    notes: tuple[Note, ...]
    questions: tuple[Question, ...]


def think(claims: Iterable[Claim], knowledge: Knowledge, engine: str = "auto") -> Thought:
    """Settle, derive, infer, rank, prescribe, ask: pure, the same claims give the same answer."""
    facts = derive(settle(claims, knowledge.facts), knowledge.tables)
    inference = infer(knowledge.rules, facts.all(), knowledge.facts, engine, undecided=False, silent=facts.silent)
    diagnoses = prescribe(rank(inference, facts, knowledge), facts, knowledge)
    if not any(one.confidence >= CERTAIN for one in diagnoses):  # only then there is something to ask
        worth = worth_asking(knowledge.facts)
        inference = infer(knowledge.rules, facts.all(), knowledge.facts, engine, silent=facts.silent, worth=worth)
    return Thought(
        facts=facts,
        inference=inference,
        diagnoses=diagnoses,
        notes=_notes(inference.conclusions, facts, knowledge),
        questions=ask(inference, diagnoses, facts, knowledge),
    )


def _notes(conclusions: Iterable[Conclusion], facts: Facts, knowledge: Knowledge) -> tuple[Note, ...]:
    concluded = [one for one in conclusions if one.name.startswith("note.")]
    if not concluded:
        return ()
    rules = knowledge.rules_by_id()
    fact_of = facts.by_id()
    notes: list[Note] = []
    for conclusion in concluded:
        support = conclusion.supports[0]
        seen = [fact for met in support.met_by for one in met if (fact := fact_of(one)) is not None]
        text = because(rules[support.rule], support, fact_of)
        notes.append(Note(conclusion.name.removeprefix("note."), text, tuple(fact.source for fact in seen)))
    return tuple(notes)


def verdict(diagnoses: Sequence[Diagnosis], notes: Sequence[Note], facts: Facts) -> str:
    """problem, healthy or inconclusive, as the contract defines them."""
    if any(one.confidence >= REPORTED for one in diagnoses):
        return "problem"
    passed = any(
        fact.value == "passed" for name, found in facts.by_name.items() if name.startswith(_PROVING) for fact in found
    )
    failed = any(
        fact.value == "failed" for name, found in facts.by_name.items() if name.startswith("test.") for fact in found
    )
    proven = passed or notes or facts.value("run.completed") is True
    return "healthy" if proven and not failed else "inconclusive"


def diagnose_text(request: Request, knowledge: Knowledge, watch: Callable[[int], None] = lambda _: None) -> Report:
    """What the texts and hints alone say: looks at nothing else, so the same text gives the same answer anywhere.
    `watch` is told how many bytes were read just now.
    """
    from .paste import read_paste

    start = time.monotonic()
    hinted, remarks = _hints(request, knowledge)
    unread: list[str] = []
    read = read_paste(request.texts, knowledge.signatures, unread.append, watch=watch, cache=_cache)
    claims = (*read, *hinted)
    thought = think(claims, knowledge, request.engine)
    family = thought.facts.text("os.family")
    inputs = tuple(Input("text", name, family) for name, _ in request.texts)
    return _report(thought, knowledge, inputs, None, (), start, (*unread, *remarks))


def _cache() -> str:
    from .knowledge.cache import own_folder

    return own_folder()


def _hints(request: Request, knowledge: Knowledge) -> tuple[tuple[Claim, ...], tuple[str, ...]]:
    if not request.hints:
        return (), ()
    from .paste.hints import read_hints

    return read_hints(request.hints, knowledge.facts)


def check(
    request: Request, knowledge: Knowledge, machine: "Machine", progress: Callable[[str], None] | None = None
) -> Report:
    """Look at the machine and the target Python, run the tests, and think again with their results."""
    from .confirm import results_of_recording, run_tests, test_claims, test_transcripts
    from .judge import judge
    from .paste import read_paste, read_transcripts
    from .probes.python_target import find_target
    from .recording import RecordedMachine

    start = time.monotonic()
    say = progress or _silent
    hinted, remarks = _hints(request, knowledge)
    python = find_target(machine, request.python)
    say("Looking at the machine and at the Python that runs torch")
    seen, begun, tests = _observe(machine, python, request)
    transcripts = [one for one in seen if isinstance(one, Transcript)]
    claims = [one for one in seen if isinstance(one, Claim)] + list(hinted)
    unread: list[str] = []
    if request.texts:
        pasted = read_paste(request.texts, knowledge.signatures, unread.append, cache=_cache)
        if other := _other_interpreter(claims, pasted):
            unread.insert(0, other)
            pasted = _of_the_paste_alone(claims, pasted)
        claims += pasted
    scanned = tuple(read_transcripts(transcripts, knowledge.signatures))
    thought = think((*claims, *scanned), knowledge, request.engine)
    if request.confirm != "no" and python:
        say("Running the tests in the target Python")
        known = thought.facts.all()
        tests += run_tests(
            machine, python, request.confirm, known, only=request.only, begun=begun, agreed=request.agreed
        )
    elif isinstance(machine, RecordedMachine):
        tests = results_of_recording(machine.target.get("tests") or (), machine.environ)
    if tests:
        tests = judge(tests, thought.facts.all(), knowledge.tables)
        transcripts += test_transcripts(tests)
        scanned = tuple(read_transcripts(transcripts, knowledge.signatures))
        thought = think((*claims, *scanned, *test_claims(tests)), knowledge, request.engine)
    inputs = (
        Input(machine.kind, machine.name, thought.facts.text("os.family")),
        *(Input("text", name, "") for name, _ in request.texts),
    )
    if isinstance(machine, RecordedMachine) and not python:
        python = thought.facts.text("python.path")
    return _report(thought, knowledge, inputs, _target(python, thought.facts), tests, start, (*unread, *remarks))


def _other_interpreter(claims: Iterable[Claim], pasted: Iterable[Claim]) -> str:
    """What to say if the text comes from another Python than the one that was looked at; empty where it does not."""
    here, there = (
        next((str(one.value) for one in some if one.name == "python.prefix" and one.state == PRESENT), "")
        for some in (claims, pasted)
    )
    if not here or not there or _same_folder(here, there):
        return ""
    return f"The text comes from the Python in {there}, and the one that was looked at is in {here}: --python chooses."


def _same_folder(one: str, other: str) -> bool:
    """By name, or, where both are here, by what they are."""
    import os

    plain = [path.replace("\\", "/").rstrip("/").lower() for path in (one, other)]
    if plain[0] == plain[1] or "~" in other or "$" in other:
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _of_the_paste_alone(claims: Iterable[Claim], pasted: Iterable[Claim]) -> tuple[Claim, ...]:
    """Without what the text says of its own Python where the target has said the same of itself: neither is wrong."""
    known = {(one.name, one.subject) for one in claims if one.source.kind == "target"}
    return tuple(one for one in pasted if (one.name, one.subject) not in known)


def look(
    request: Request, knowledge: Knowledge, machine: "Machine | None", progress: Callable[[str], None] | None = None
) -> tuple[Facts, tuple[str, ...]]:
    """What is known of a machine and of the hints, with what the tables add; no judgement. Without a machine the hints
    alone.
    """
    hinted, remarks = _hints(request, knowledge)
    claims: list[Claim] = list(hinted)
    if machine is not None:
        from .probes.python_target import find_target

        (progress or _silent)("Looking at the machine and at the Python that runs torch")
        seen, _, _ = _observe(machine, find_target(machine, request.python), request._replace(confirm="no"))
        claims += [one for one in seen if isinstance(one, Claim)]
    return derive(settle(claims, knowledge.facts), knowledge.tables), remarks


def record(
    request: Request,
    knowledge: Knowledge,
    machine: "Machine",
    variables: Iterable[str] = (),
    progress: Callable[[str], None] | None = None,
) -> tuple[dict[str, object], Report]:
    """The recording of everything that `check` asks, and its report. Of the environment only what may be shown is in
    it; the rest is as it was, and still has to be made neutral.
    """
    from .privacy import NOTED_VARIABLES
    from .recording import RecordingMachine

    recorder = RecordingMachine(machine)
    report = check(request, knowledge, recorder, progress)
    return recorder.recording([*NOTED_VARIABLES, *variables]), report


def _observe(
    machine: "Machine", python: str, request: Request
) -> tuple[list[Claim | Transcript], "ScriptRun | None", tuple[TestResult, ...]]:
    """What the machine and the target Python say, asked at the same time, the tests that the latter went on with, and
    those of the driver, which need no torch.
    """
    import sys

    from .confirm import arguments_after_import, run_driver_tests, time_limit
    from .machine import at_the_same_time
    from .probes import PROBES, observe_machine
    from .probes.around_target import AroundTarget
    from .probes.python_target import TargetSaid, claims_of_recording, probe_target
    from .recording import RecordedMachine

    def ask_target() -> TargetSaid:
        if isinstance(machine, RecordedMachine) and not python:
            return TargetSaid(tuple(claims_of_recording(machine.target, machine.environ)))
        tests = arguments_after_import(request.confirm, request.only)
        return probe_target(machine, python, tests, seconds=time_limit(request.confirm), agreed=request.agreed)

    def ask_driver() -> tuple[TestResult, ...]:
        if machine.kind != "live":
            return ()
        full = request.confirm == "full"
        return run_driver_tests(
            machine, python or sys.executable, request.confirm, only=request.only, agreed=request.agreed, alone=full
        )

    def ask_machine() -> list[Claim | Transcript]:
        return list(observe_machine(machine, (*PROBES, AroundTarget(python))))

    if request.confirm == "full":
        # The whole memory is for one of them at a time.
        driver = ask_driver()
        told, seen = at_the_same_time(ask_target, ask_machine)
    else:
        told, (driver, seen) = at_the_same_time(ask_target, lambda: at_the_same_time(ask_driver, ask_machine))
    return [*told.said, *seen], told.tests, driver


def _silent(_: str) -> None:
    return None


def _target(python: str, facts: Facts) -> Target | None:
    if not python:
        return None
    return Target(python, facts.text("python.version"), facts.text("torch.version"), facts.text("python.manager"))


def _report(
    thought: Thought,
    knowledge: Knowledge,
    inputs: tuple[Input, ...],
    target: Target | None,
    tests: tuple[TestResult, ...],
    start: float,
    remarks: tuple[str, ...],
) -> Report:
    facts = tuple(fact for fact in thought.facts.all() if not _is_silence(fact))
    return Report(
        verdict=verdict(thought.diagnoses, thought.notes, thought.facts),
        inputs=inputs,
        target=target,
        diagnoses=thought.diagnoses,
        notes=thought.notes,
        questions=thought.questions,
        tests=tests,
        facts=facts,
        engine=thought.inference.engine,
        engine_reason=thought.inference.engine_reason,
        knowledge=knowledge.digest,
        packs=knowledge.packs,
        took_seconds=time.monotonic() - start,
        types={fact.name: knowledge.facts[fact.name].type for fact in facts},
        remarks=remarks,
    )


def _is_silence(fact: Fact) -> bool:
    """A signature that no text shows: needed by the rules, of no use to a reader."""
    return fact.name.startswith("log.") and fact.value is not True

"""Runs the tests of `target/gpu_tests.py` in the target Python and turns their results into claims.

Decides which tests make sense from facts; what a result means for a diagnosis stands in the articles.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from .interpreter import ScriptRun, environment_of_children, gpu_subject, recorded_run, run_script
from .machine import Machine
from .model import HOST, PRESENT, Claim, Fact, Source, TestResult, Transcript, present, unknown
from .text import clean

GPU_TESTS = ("torch.init", "torch.matmul", "memory.patterns")
CPU_TESTS = ("cpu.tensor",)


class _Pair(NamedTuple):
    """A test and the index of a GPU as torch counts them; None for the CPU."""

    test: str
    device: int | None

    def __str__(self) -> str:
        return f"{self.test}@{'cpu' if self.device is None else self.device}"


def run_tests(
    machine: Machine,
    python: str,
    mode: str,
    facts: Iterable[Fact],
    *,
    only: tuple[str, ...] = (),
    begun: ScriptRun | None = None,
    seconds: float = 60.0,
    alive_limit: float = 30.0,
    cwd: str | None = None,
) -> tuple[TestResult, ...]:
    """The results of all tests that `mode` (no, quick, full) and the facts allow, in the order they were run.

    `only` names tests; empty means all. `begun` is what the process did that imported torch. `seconds` and
    `alive_limit` are for one process. A test in which the process dies has failed, and a fresh process does the rest.
    """
    if mode == "no":
        return ()
    known = {fact.name: fact for fact in facts if fact.subject == HOST}
    wanted = [test for test in (*GPU_TESTS, *CPU_TESTS) if not only or test in only]
    why_no_gpu, why_nothing = _why_no_gpu(known), _why_nothing(known, python)
    planned, results = [], []
    for test in wanted:
        if why_nothing:
            results.append(_skipped(test, HOST, why_nothing))
        elif test in GPU_TESTS and why_no_gpu:
            results.append(_skipped(test, HOST, why_no_gpu))
        elif test in GPU_TESTS or why_no_gpu or only:
            planned.append(test)
    if planned:
        results += _in_processes(
            machine, python, mode, planned, begun, seconds=seconds, alive_limit=alive_limit, cwd=cwd
        )
    return tuple(results)


def tests_after_import(mode: str) -> tuple[str, ...]:
    """The arguments with which `import_torch.py` goes on with the tests of this mode; none for mode "no"."""
    return () if mode == "no" else (mode, ",".join(GPU_TESTS), ",".join(CPU_TESTS))


def results_of_recording(runs: Iterable[Mapping[str, Any]], environ: Mapping[str, str]) -> tuple[TestResult, ...]:
    """The results in the runs of `gpu_tests.py` that a recording keeps (each as `recorded_run` says)."""
    done: dict[_Pair, TestResult] = {}
    for run in runs:
        for pair, result in _results(recorded_run(run), environ):
            done.setdefault(pair, result)
    return tuple(done.values())


def test_claims(results: Iterable[TestResult]) -> tuple[Claim, ...]:
    """`test.NAME` of each result: passed or failed, and unknown with the reason where it was skipped."""
    claims = []
    for result in results:
        source = Source("probe", "process", f"the test {result.test}")
        name = f"test.{result.test}"
        if result.outcome == "skipped":
            claims.append(unknown(name, result.reason, source, result.subject))
        else:
            claims.append(present(name, result.outcome, source, result.subject)._replace(reason=result.reason))
    return tuple(claims)


def test_transcripts(results: Iterable[TestResult]) -> tuple[Transcript, ...]:
    """What torch said in tests that failed, for the signatures to judge."""
    return tuple(
        Transcript(str(result.measured["error"]), Source("probe", "process", f"the test {result.test}"))
        for result in results
        if result.outcome == "failed" and result.measured.get("error")
    )


def _why_nothing(known: Mapping[str, Fact], python: str) -> str:
    if not python:
        return "no Python was found to run it in"
    imported = known.get("torch.import")
    if imported is None or imported.state == "unknown":
        return "whether torch can be imported is not known"
    if imported.state != PRESENT:
        return "torch is not installed in this Python"
    if imported.value != "ok":
        return f"torch cannot be imported here (its import {imported.value})"
    return ""


def _why_no_gpu(known: Mapping[str, Fact]) -> str:
    available, build = known.get("torch.cuda_available"), known.get("torch.build")
    if available is not None and available.state == PRESENT:
        if available.value is True:
            return ""
        if build is not None and build.state == PRESENT and build.value == "cpu":
            return "this torch is built for the CPU alone"
        return "torch sees no usable GPU: torch.cuda.is_available() is False"
    return "whether torch sees a GPU is not known"


def _in_processes(
    machine: Machine,
    python: str,
    mode: str,
    tests: list[str],
    begun: ScriptRun | None,
    *,
    seconds: float,
    alive_limit: float,
    cwd: str | None,
) -> list[TestResult]:
    env = environment_of_children(machine.environ)
    if "CUDA_MODULE_LOADING" not in machine.environ:
        env["CUDA_MODULE_LOADING"] = "LAZY"  # loading every kernel at once takes seconds that no test needs
    done: dict[_Pair, TestResult] = {}
    reason = ""
    if begun is not None:
        done.update((pair, result) for pair, result in _results(begun, machine.environ) if pair.test in tests)
        if begun.complete and not _ended_early(begun) and {pair.test for pair in done} == set(tests):
            return list(done.values())
    while not reason:
        before = len(done)
        arguments = [mode, ",".join(tests), ",".join(map(str, done))]
        run = run_script(
            machine,
            python,
            "gpu_tests.py",
            arguments if done else arguments[:2],
            seconds=seconds,
            alive_limit=alive_limit,
            env=env,
            cwd=cwd,
        )
        for pair, result in _results(run, machine.environ):
            done.setdefault(pair, result)
        if len(done) == before:
            reason = _why_no_start(run)
        elif run.complete and not _ended_early(run):
            break
    results = list(done.values())
    devices = sorted({pair.device for pair in done if pair.device is not None})
    for test in tests if reason else ():
        pairs = [_Pair(test, device) for device in devices if test in GPU_TESTS] or [_Pair(test, None)]
        results += [_skipped(test, _subject(pair, machine.environ), reason) for pair in pairs if pair not in done]
    return results


def _results(run: ScriptRun, environ: Mapping[str, str]) -> Iterator[tuple[_Pair, TestResult]]:
    running: Mapping[str, Any] | None = None
    for event in run.events:
        if event.get("step") != "test":
            continue
        if event.get("event") == "before":
            running = event
        elif event.get("event") == "after":
            running = None
            yield _pair(event), _result(event, environ)
    if running is not None:
        pair = _pair(running)
        error = run.errors.strip()[-8000:]
        measured = {"error": error} if error else {}
        reason = f"the test {run.how_it_died()}"
        yield pair, TestResult(pair.test, _subject(pair, environ), "failed", measured, {}, reason)


def _result(event: Mapping[str, Any], environ: Mapping[str, str]) -> TestResult:
    pair = _pair(event)
    error = event.get("error") or {}
    measured = dict(event.get("measured") or {})
    measured["seconds_in_all"] = event.get("took", 0.0)
    if error:
        measured["error"] = error.get("traceback") or error.get("message", "")
    outcome = str(event.get("outcome"))
    if outcome not in ("passed", "failed", "skipped"):
        outcome = "failed"
    reason = clean(str(event.get("reason") or error.get("line", "")))[:2000]
    return TestResult(pair.test, _subject(pair, environ), outcome, measured, dict(event.get("expected") or {}), reason)


def _pair(event: Mapping[str, Any]) -> _Pair:
    device = event.get("device")
    return _Pair(str(event.get("test")), device if isinstance(device, int) else None)


def _subject(pair: _Pair, environ: Mapping[str, str]) -> str:
    return HOST if pair.device is None else gpu_subject(pair.device, environ)


def _ended_early(run: ScriptRun) -> bool:
    """The script stops after an exception on a GPU: the rest needs a fresh process."""
    last = next((event for event in reversed(run.events) if event.get("step") == "test"), {})
    return bool(last.get("error")) and last.get("device") is not None


def _why_no_start(run: ScriptRun) -> str:
    for event in run.events:
        if error := event.get("error"):
            return f"the process of the tests could not import torch: {clean(str(error.get('line', '')))[:1000]}"
    return f"the process of the tests {run.how_it_died()} before its first test"


def _skipped(test: str, subject: str, reason: str) -> TestResult:
    return TestResult(test, subject, "skipped", {}, {}, reason)

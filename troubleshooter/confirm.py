"""Runs the tests of `target/` (of torch in the target Python, of the driver in any) and turns results into claims.

Decides which tests make sense from facts. Whether a figure is good enough stands in tables (`judge.py`), what a result
means for a diagnosis in the articles.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from .interpreter import (
    DRIVER_TESTS,
    TESTS,
    ScriptRun,
    environment_of_children,
    gpu_subject,
    recorded_run,
    run_script,
)
from .machine import Machine
from .model import HOST, PRESENT, Claim, Fact, Source, TestResult, Transcript, present, unknown
from .text import clean

_QUICK = (
    *("torch.init", "torch.arch", "torch.matmul", "torch.conv", "speed.matmul", "torch.reduce", "torch.autograd"),
    *("torch.rnn", "speed.memory", "memory.patterns", "speed.copy", "speed.launch", "torch.fft"),
    *("memory.copy", "multi.peer", "multi.copy"),
)
"""In the order in which they are run: when the time of a quick run is over, what is left is skipped. The memory comes
late: the driver's own tests have been over it by then.
"""
_FULL = (
    # An optimizer's first step imports torch._dynamo, which takes seconds.
    *("torch.amp", "torch.compile", "memory.allocator", "speed.conv", "speed.rnn", "multi.allreduce"),
    *("env.dataloader", "env.spawn", "env.extension"),
)
GPU_TESTS = (*_QUICK, *_FULL)
CPU_TESTS = ("cpu.tensor",)
DRIVER = ("driver.init", "driver.context", "driver.memory")
"""Done by a script of its own that needs no torch, while torch is being imported."""
_NEED_NO_GPU = ("env.dataloader", "env.spawn")
_FIRST = ("torch.init", "torch.arch")
QUICK_SECONDS = 1.8
"""After so many seconds no further test of a quick run is begun."""
_FULL_SECONDS = 1200.0
_MOST_DEATHS = 3
"""Processes that may die or hang before the rest of the tests is given up: each costs an import of torch."""


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
    seconds: float | None = None,
    alive_limit: float = 30.0,
    cwd: str | None = None,
    agreed: bool = False,
) -> tuple[TestResult, ...]:
    """The results of all tests that `mode` (no, quick, full) and the facts allow, in the order they were run.

    `only` names tests, or groups of them by the first part of their names; empty means all of the mode. `begun` is what
    the process did that imported torch. `seconds` and `alive_limit` are for one process. `agreed`: the whole memory may
    be tested although something else uses the GPU. A test in which the process dies has failed, and a fresh process
    does the rest. Figures are not judged here: `judge` does that.
    """
    if mode == "no":
        return ()
    known = {fact.name: fact for fact in facts if fact.subject == HOST}
    why_no_gpu, why_nothing = _why_no_gpu(known), _why_nothing(known, python)
    planned, results = [], []
    for test in asked_for(mode, only):
        if why_nothing:
            results.append(_skipped(test, HOST, why_nothing))
        elif why_no_gpu and test in GPU_TESTS and test not in _NEED_NO_GPU:
            results.append(_skipped(test, HOST, why_no_gpu))
        elif test not in CPU_TESTS or why_no_gpu or only:
            planned.append(test)
    if planned:
        results += _in_processes(
            machine,
            python,
            mode,
            planned,
            begun,
            seconds=seconds or time_limit(mode),
            alive_limit=alive_limit,
            cwd=cwd,
            agreed=agreed,
            count=_count(known),
        )
    return tuple(results)


def _count(known: Mapping[str, Fact]) -> int:
    """How many GPUs torch sees, as far as it has said so."""
    told = known.get("torch.device_count")
    return told.value if told is not None and isinstance(told.value, int) else 0


def time_limit(mode: str) -> float:
    """Seconds that a process of tests may take if it moves."""
    return 180.0 if mode != "full" else _FULL_SECONDS


def asked_for(mode: str, only: tuple[str, ...] = ()) -> list[str]:
    """The tests of torch that a mode means, or those named: by their name, or by its first part."""
    if not only:
        return [*_QUICK, *(_FULL if mode == "full" else ()), *CPU_TESTS]
    return [test for test in (*GPU_TESTS, *CPU_TESTS) if test in only or test.split(".")[0] in only]


def arguments_after_import(mode: str, only: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The arguments with which `import_torch.py` goes on with the tests of this mode; none for mode "no"."""
    asked = [] if mode == "no" else asked_for(mode, only)
    if not asked:
        return ()
    with_a_gpu = [test for test in asked if test not in CPU_TESTS or only]
    without = [test for test in asked if test in CPU_TESTS or test in _NEED_NO_GPU]
    return (mode, ",".join(with_a_gpu), ",".join(without), str(0 if mode == "full" or only else QUICK_SECONDS))


def run_driver_tests(
    machine: Machine,
    python: str,
    mode: str,
    *,
    only: tuple[str, ...] = (),
    agreed: bool = False,
    alone: bool = False,
    seconds: float = 120.0,
) -> tuple[TestResult, ...]:
    """The results of `driver_tests.py`, which any Python runs. `alone`: nothing of ours uses the GPUs beside it."""
    wanted = [test for test in DRIVER if not only or test in only or "driver" in only]
    if mode == "no" or not wanted:
        return ()
    run = run_script(
        machine,
        python,
        DRIVER_TESTS,
        (f"--{mode}", *(["--yes"] if agreed else []), *(["--alone"] if alone else []), "--only", *wanted),
        seconds=seconds,
        alive_limit=30.0,
        env=environment_of_children(machine.environ),
    )
    return tuple(result for pair, result in _results(run, machine.environ) if pair.test in wanted)


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
    agreed: bool,
    count: int,
) -> list[TestResult]:
    env = environment_for_tests(machine.environ, agreed)
    done: dict[_Pair, TestResult] = {}
    reason = ""
    deaths = 0
    if begun is not None:
        done.update((pair, result) for pair, result in _results(begun, machine.environ) if pair.test in tests)
        if begun.complete and not _ended_early(begun) and {pair.test for pair in done} == set(tests):
            return list(done.values())
        _give_up_broken(done, tests, machine.environ)
        deaths += not begun.complete and bool(done)
    quick = mode == "quick" and len(tests) > 1
    while not reason:
        before = len(done)
        used = sum(float(str(result.measured.get("seconds_in_all", 0.0))) for result in done.values())
        left = max(0.1, QUICK_SECONDS - used) if quick else 0
        run = run_script(
            machine,
            python,
            TESTS,
            [mode, ",".join(tests), ",".join(map(str, done)), str(left)],
            seconds=seconds,
            alive_limit=alive_limit,
            env=env,
            cwd=cwd,
        )
        for pair, result in _results(run, machine.environ):
            done.setdefault(pair, result)
        deaths += not run.complete
        _give_up_broken(done, tests, machine.environ)
        if len(done) == before:
            reason = _why_no_start(run)
        elif run.complete and not _ended_early(run):
            break
        elif deaths >= _MOST_DEATHS:
            reason = f"{deaths} processes of the tests died or hung before it"
    results = list(done.values())
    devices = sorted({*range(count), *(pair.device for pair in done if pair.device is not None)})
    for test in tests if reason else ():
        pairs = [_Pair(test, device) for device in devices if _of_one_gpu(test)] or [_Pair(test, None)]
        results += [_skipped(test, _subject(pair, machine.environ), reason) for pair in pairs if pair not in done]
    return results


def environment_for_tests(environ: Mapping[str, str], agreed: bool) -> dict[str, str | None]:
    """What to set for a process that runs tests."""
    env = environment_of_children(environ)
    if "CUDA_MODULE_LOADING" not in environ:
        env["CUDA_MODULE_LOADING"] = "LAZY"  # loading every kernel at once takes seconds that no test needs
    env["TROUBLESHOOTER_WHOLE_CARD"] = "yes" if agreed else None
    return env


def _of_one_gpu(test: str) -> bool:
    return test in GPU_TESTS and not test.startswith(("multi.", "env."))


def _give_up_broken(done: dict[_Pair, TestResult], tests: Iterable[str], environ: Mapping[str, str]) -> None:
    """Where torch cannot even start, each further test would cost a process and fail the same way."""
    for pair, result in list(done.items()):
        if pair.test in _FIRST and result.outcome == "failed":
            for test in filter(_of_one_gpu, tests):
                other = _Pair(test, pair.device)
                done.setdefault(other, _skipped(test, _subject(other, environ), f"{pair.test} failed on this GPU"))


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
    if "took" in event:
        measured["seconds_in_all"] = event["took"]
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

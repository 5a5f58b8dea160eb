"""Runs a script of `target/` in the target Python, and reads the lines that it reports.

Knows the protocol of `target/channel.py` and nothing of what the lines mean.
"""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .machine import Answer, Machine

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "target")
_MOST_EVENTS = 5000
# With -c, and not with the path of a script, the working folder comes first in the target's sys.path, as it does for
# the user, and our own folder is not in it.
START = "import sys; exec(compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec'))"

Event = Mapping[str, Any]
"""One line of the script: `event` is started, before, after, broken or end; the rest depends on it."""


DRIVER_TESTS = "driver_tests.py"
TESTS = "gpu_tests.py"
"""The script whose work `import_torch.py` may go on with; in a recording that part is a run of its own."""


class ScriptRun(NamedTuple):
    """How a script of `target/` ended and what it reported until then.

    `ending` is that of `commands.Answer`; `errors` holds all that the target itself printed, to whichever stream.
    """

    python: str
    script: str
    ending: str
    code: int | None = None
    signal: str = ""
    events: tuple[Event, ...] = ()
    errors: str = ""
    seconds: float = 0.0
    reason: str = ""

    @property
    def complete(self) -> bool:
        """The script came to its end, whatever the steps gave."""
        return any(event.get("event") == "end" for event in self.events)

    @property
    def unfinished(self) -> Event | None:
        """The line before the step in which the process ended; None if it ended outside a step."""
        last: Event | None = None
        for event in self.events:
            if event.get("event") in ("before", "after"):
                last = event if event["event"] == "before" else None
        return last

    def after(self, step: str) -> Event | None:
        """The line after the first step of this name."""
        return next((one for one in self.events if one.get("event") == "after" and one.get("step") == step), None)

    def how_it_died(self) -> str:
        """In words, with a subject before them: died by SIGSEGV, left with exit code 3, hung (no sign of life …)."""
        if self.signal:
            return f"died by {self.signal}"
        if self.ending in ("failed", "ok") and self.code is not None:
            return f"left with exit code {self.code}"
        word = {"hung": "hung", "timed-out": "took too long"}.get(self.ending, "could not be run")
        return f"{word} ({self.reason or self.ending})"


def run_script(
    machine: Machine,
    python: str,
    script: str,
    arguments: Sequence[str] = (),
    *,
    seconds: float,
    alive_limit: float,
    env: Mapping[str, str | None] | None = None,
    cwd: str | None = None,
) -> ScriptRun:
    """Run `target/<script>` in the interpreter `python`, a file of this computer. Never raises for what it does."""
    return run_parts(machine, python, script, arguments, seconds=seconds, alive_limit=alive_limit, env=env, cwd=cwd)[0]


def run_parts(
    machine: Machine,
    python: str,
    script: str,
    arguments: Sequence[str],
    *,
    seconds: float,
    alive_limit: float,
    env: Mapping[str, str | None] | None = None,
    cwd: str | None = None,
) -> tuple[ScriptRun, ...]:
    """The same as a run each of the script and, where it went on with them, of the tests."""
    nonce = os.urandom(12).hex()
    events: list[Event] = []

    def hear(line: str) -> None:
        if len(events) < _MOST_EVENTS and (event := _event(line, nonce)) is not None:
            events.append(event)

    answer = machine.run(
        [python, "-c", START, os.path.join(SCRIPTS, "channel.py"), nonce, os.path.join(SCRIPTS, script), *arguments],
        seconds,
        # macOS: the launcher of a framework build leaves it, and a child would take our venv for its own.
        env={"__PYVENV_LAUNCHER__": None, **(env or {})},
        cwd=cwd,
        english=False,
        on_line=hear,
        alive_limit=alive_limit,
        here=True,
    )
    return _script_runs(answer, nonce, script, events)


def runs_of(answer: Answer) -> tuple[ScriptRun, ...]:
    """The runs that an answer to `run_parts` holds; none if the answer is another program's."""
    argv = answer.argv
    if len(argv) < len(("python", "-c", START, "channel", "nonce", "script")) or argv[2] != START:
        return ()
    nonce, script = argv[4], os.path.basename(argv[5])
    events = [event for line in answer.text.splitlines() if (event := _event(line, nonce)) is not None]
    return _script_runs(answer, nonce, script, events[:_MOST_EVENTS])


def _event(line: str, nonce: str) -> Event | None:
    _, found, data = line.partition(nonce + " ")
    if not found:
        return None
    try:
        event = json.loads(data, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    return _tidy(event) if isinstance(event, dict) else None


def _script_runs(answer: Answer, nonce: str, script: str, heard: Sequence[Event]) -> tuple[ScriptRun, ...]:
    events = list(heard)
    if not any(event.get("event") == "end" for event in events):
        # The script could not have a descriptor of its own and reported on stderr.
        events += [event for line in answer.errors.splitlines() if (event := _event(line, nonce)) is not None]
    errors: list[list[str]] = [[]]
    for line in answer.errors.splitlines():
        if nonce not in line:
            errors[-1].append(line)
        elif (_event(line, nonce) or {}).get("event") == "tests":
            errors.append([])
    run = ScriptRun(
        answer.argv[0],
        script,
        answer.ending,
        answer.code,
        answer.signal,
        tuple(events[:_MOST_EVENTS]),
        "\n".join(errors[0]),
        answer.seconds,
        answer.reason,
    )
    border = next((place for place, event in enumerate(run.events) if event.get("event") == "tests"), None)
    if border is None:
        return (run,)
    began = float(run.events[border].get("at") or 0.0)
    came_to_its_end = (*run.events[:border], {"event": "end", "at": began})
    return (
        run._replace(ending="ok", code=0, signal="", events=came_to_its_end, seconds=began, reason=""),
        run._replace(
            script=TESTS,
            events=run.events[border + 1 :],
            errors="\n".join(line for part in errors[1:] for line in part),
            seconds=max(0.0, run.seconds - began),
        ),
    )


def recorded_run(record: Mapping[str, Any]) -> ScriptRun:
    """A run as a recording keeps it: an object with the fields of `ScriptRun`, those left out at their defaults."""
    known = {name: record[name] for name in ScriptRun._fields if name in record}
    known["events"] = tuple(_tidy(event) for event in record.get("events", ()) if isinstance(event, dict))
    return ScriptRun(**{"python": "python", "script": "", "ending": "ok", **known})


def environment_of_children(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Variables to set so that torch numbers the GPUs as nvidia-smi does, where that changes nothing else."""
    if "CUDA_VISIBLE_DEVICES" in environ or "CUDA_DEVICE_ORDER" in environ:
        return {}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def gpu_subject(index: int, environ: Mapping[str, str]) -> str:
    """`gpu:N` with the driver's number N of the GPU that torch calls `index` under CUDA_VISIBLE_DEVICES."""
    visible = environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if index < len(visible) and all(re.fullmatch(r"\s*\d{1,4}\s*", entry) for entry in visible):
        return f"gpu:{int(visible[index])}"
    return f"gpu:{index}"


def interpreters_in(folder: str) -> tuple[str, ...]:
    """Where the interpreter of a venv, conda environment or installation in `folder` may lie, likeliest first."""
    if sys.platform == "win32":
        names = (r"Scripts\python.exe", "python.exe", r"bin\python.exe")
    else:
        names = ("bin/python", "bin/python3", "python", "python3")
    return tuple(os.path.join(folder, name) for name in names)


def _tidy(value: Any) -> Any:
    """Texts without lone surrogates, which no encoder would take later."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_tidy(key): _tidy(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_tidy(entry) for entry in value]
    return value

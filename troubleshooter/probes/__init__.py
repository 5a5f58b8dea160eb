"""One source of claims each: a probe asks the machine and hands its text to `outputs`. It never judges, and can never
break a run: what it does not say is unknown, with the reason.
"""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from ..machine import Machine, end_all
from ..model import Claim, Source, Transcript, unknown
from . import (
    build_tools,
    container,
    device_nodes,
    driver,
    environment,
    installer_settings,
    job,
    kernel,
    libcuda,
    libraries,
    nvcc,
    nvidia_smi,
    nvml,
    pci,
    resources,
    services,
    system,
    toolkits,
    windows_hardware,
    windows_libraries,
    windows_python,
    windows_settings,
    wsl,
)


class Probe(Protocol):
    """A module with these three names is a probe."""

    @property
    def NAME(self) -> str: ...  # noqa: N802  a constant of the module

    @property
    def FACTS(self) -> tuple[str, ...]: ...  # noqa: N802

    def probe(self, machine: Machine) -> Iterator[Claim | Transcript]: ...


# Those that wait for a slow program come early.
PROBES: tuple[Probe, ...] = (
    system,
    libcuda,
    nvml,
    nvidia_smi,
    windows_hardware,
    nvcc,
    build_tools,
    kernel,
    container,
    pci,
    driver,
    device_nodes,
    services,
    toolkits,
    wsl,
    libraries,
    environment,
    installer_settings,
    job,
    resources,
    windows_settings,
    windows_libraries,
    windows_python,
)

_ON_WINDOWS_ALONE: tuple[Probe, ...] = (windows_hardware, windows_settings, windows_libraries, windows_python)
_NOT_ON_WINDOWS: tuple[Probe, ...] = (pci, driver, device_nodes)


def probes_of(platform: str, probes: Sequence[Probe] = PROBES) -> tuple[Probe, ...]:
    """Those that have something to ask on this system: what is left out states nothing, not even that it is unknown."""
    others = _NOT_ON_WINDOWS if platform == "win32" else _ON_WINDOWS_ALONE
    return tuple(probe for probe in probes if probe not in others)


_ROOM_FOR_THREADS = 2 * 1024**3

SECONDS = 40.0
"""For all probes together; each of their commands has a shorter limit of its own."""


class Observation(NamedTuple):
    """What one probe said, with its unknowns filled in, and the seconds it took."""

    probe: str
    said: tuple[Claim | Transcript, ...]
    seconds: float


def observe_machine(
    machine: Machine, probes: Sequence[Probe] = PROBES, seconds: float = SECONDS
) -> tuple[Claim | Transcript, ...]:
    """What all probes of this system say, in their order."""
    return tuple(one for observation in observe_each(machine, probes, seconds) for one in observation.said)


def observe_each(
    machine: Machine, probes: Sequence[Probe] = PROBES, seconds: float = SECONDS
) -> tuple[Observation, ...]:
    """Run all probes at the same time; one that is not through after `seconds` is left behind."""
    import threading

    runs = [_Run(probe, machine) for probe in probes_of(machine.platform, probes)]
    # Daemons: a probe that hangs in a read of a dead network drive must not keep the process from ending.
    threads = [threading.Thread(target=run.go, name=f"probe-{run.probe.NAME}", daemon=True) for run in runs]
    until = time.monotonic() + seconds
    started = []
    one_by_one = _little_room()
    try:
        for run, thread in zip(runs, threads, strict=True):
            try:
                if one_by_one:
                    run.go()
                else:
                    thread.start()
                    started.append(thread)
            except RuntimeError:
                run.go()  # no room for another thread
        for thread in started:
            thread.join(max(0.0, until - time.monotonic()))
    except BaseException:
        end_all()
        raise
    return tuple(run.observation(seconds) for run in runs)


def _little_room() -> bool:
    """The address space is limited to less than the stacks and heaps of all threads would take (72 MiB each)."""
    try:
        from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit
    except ImportError:  # Windows has no such limit
        return False
    limit = getrlimit(RLIMIT_AS)[0]
    return limit != RLIM_INFINITY and limit < _ROOM_FOR_THREADS


class _Run:
    def __init__(self, probe: Probe, machine: Machine) -> None:
        self.probe = probe
        self._machine = machine
        self._said: list[Claim | Transcript] = []
        self._began = time.monotonic()
        self._took: float | None = None
        self._fault = ""

    def go(self) -> None:
        self._began = time.monotonic()
        try:
            for one in self.probe.probe(self._machine):
                self._said.append(one)
        except BaseException as error:
            # Whatever a probe does, the others and the run go on.
            self._fault = f"the probe broke: {type(error).__name__}: {error}"
        self._took = time.monotonic() - self._began

    def observation(self, limit: float) -> Observation:
        said, took = tuple(self._said), self._took
        if took is None:
            reason = f"the probe was not through after {limit:g} s"
        else:
            reason = self._fault or "the machine did not say"
        stated = {one.name for one in said if isinstance(one, Claim)}
        source = Source("probe", "command" if took is None else "file", f"probe {self.probe.NAME}")
        filled = tuple(unknown(name, reason, source) for name in self.probe.FACTS if name not in stated)
        return Observation(self.probe.NAME, (*said, *filled), limit if took is None else round(took, 4))

"""Memory, shared memory, limits of a process, and the room on the disks that an installation writes to."""

import os
from collections.abc import Iterator, Sequence

from ..machine import Machine
from ..model import Claim, Source, absent, present, unknown
from ..outputs.df import read_df
from ..outputs.meminfo import memory_mib, soft_limit

NAME = "resources"
FACTS = (
    "memory.total_mib",
    "memory.available_mib",
    "memory.swap_mib",
    "memory.limit_mib",
    "shm.size_mib",
    "shm.free_mib",
    "disk.temp_free_mib",
    "disk.cache_free_mib",
    "limit.open_files",
    "limit.locked_memory_kib",
    "limit.processes",
)
SECONDS = 5
_LIMITS = (
    ("limit.open_files", "Max open files", 1),
    ("limit.locked_memory_kib", "Max locked memory", 1024),
    ("limit.processes", "Max processes", 1),
)
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_MIB = 1024 * 1024
# The first version of control groups says "no limit" by the largest number of pages.
_NO_LIMIT = 1 << 60


def probe(machine: Machine) -> Iterator[Claim]:
    if machine.platform != "linux":
        return
    told = machine.read("/proc/meminfo")
    memory = memory_mib(told.text)
    for fact, word in (
        ("memory.total_mib", "MemTotal"),
        ("memory.available_mib", "MemAvailable"),
        ("memory.swap_mib", "SwapTotal"),
    ):
        if word in memory:
            yield present(fact, memory[word], told.source)
    yield from _group_limit(machine)
    limits = machine.read("/proc/self/limits")
    for fact, words, unit in _LIMITS:
        if limit := soft_limit(limits.text, words):
            if limit == "unlimited":
                yield absent(fact, limits.source, "it is unlimited")
            else:
                yield present(fact, int(limit) // unit, limits.source)
    yield from _disks(machine)


def _group_limit(machine: Machine) -> Iterator[Claim]:
    for path in _CGROUP_LIMITS:
        told = machine.read(path)
        if not told.ok:
            continue
        text = told.text.strip()
        if text.isdecimal() and int(text) < _NO_LIMIT:
            yield present("memory.limit_mib", int(text) // _MIB, told.source)
        else:
            yield absent("memory.limit_mib", told.source, "the control group sets none")
        return


def _disks(machine: Machine) -> Iterator[Claim]:
    environ = machine.environ
    home = environ.get("HOME", "")
    temp = next((environ[name] for name in ("TMPDIR", "TEMP", "TMP") if environ.get(name)), "/tmp")  # noqa: S108
    cache = environ.get("PIP_CACHE_DIR") or f"{environ.get('XDG_CACHE_HOME') or home + '/.cache'}/pip"
    yield from room(machine, ((("shm.size_mib", "shm.free_mib"), "/dev/shm"),))  # noqa: S108
    yield from room(machine, ((("", "disk.temp_free_mib"), temp), (("", "disk.cache_free_mib"), cache)))


def room(machine: Machine, wanted: Sequence[tuple[tuple[str, str], str]]) -> Iterator[Claim]:
    """The size and the free room, both in MiB, of the file systems that some folders lie on, or would be made on."""
    for (size_fact, free_fact), folder in wanted:
        path = folder
        while path.startswith("/") and machine.stat(path).missing and path != "/":
            path = os.path.dirname(path)
        answer = machine.run(["df", "-Pk", path or "/"], SECONDS)
        source = Source("probe", "command", f"df -Pk {path}")
        lines = read_df(answer.text)
        if path != folder and size_fact:
            for name in (size_fact, free_fact):
                yield absent(name, source, f"there is no {folder}")
        elif answer.ok and lines:
            if size_fact:
                yield present(size_fact, lines[-1][1], source)
            yield present(free_fact, lines[-1][2], source)
        else:
            for name in filter(None, (size_fact, free_fact)):
                yield unknown(name, answer.reason or "df's answer is not understood", source)

"""The figures in torch's message about memory of the GPU, in its wording up to 1.x and from 2.x on; MiB throughout."""

import re
from collections.abc import Iterator

from ..model import Claim, Source, present
from .lines import at, line_of

_SIZE = r"([\d.]{1,12}) ?(bytes|[KMGT]i?B)"
_UNITS = {"bytes": 1 / 1048576, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1048576.0}
_FIGURES = {
    name: re.compile(pattern)
    for name, pattern in (
        ("request", f"Tried to allocate {_SIZE}"),
        ("capacity", rf"(?:GPU \d{{1,3}}; |total capacity of ){_SIZE}"),
        ("allocated_old", f"{_SIZE} already allocated"),
        ("free", f"; {_SIZE} free|of which {_SIZE} is free"),
        ("reserved", f"{_SIZE} reserved in total by Py[Tt]orch"),
        ("own", f"this process has {_SIZE} memory in use"),
        ("allocated", f"Of the allocated memory {_SIZE} is allocated by PyTorch"),
        ("unallocated", f"and {_SIZE} is reserved by PyTorch but unallocated"),
    )
}
_OTHERS = re.compile(rf"Process (\d{{1,9}}) has {_SIZE} memory in use")
_BEGIN = re.compile(r"Tried to allocate [\d.]{1,12} ?(?:bytes|[KMGT]i?B)\b")
_GPU = re.compile(r"\bGPU (\d{1,3})(?:;| has a total)")
_REACH = 1600


def read_out_of_memory(text: str, source: Source) -> Iterator[Claim]:
    """The first message of the text; a training run that is caught and tried again prints the same many times."""
    begun = _BEGIN.search(text)
    if not begun:
        return
    here = at(source, line_of(text, begun.start()))
    # A message ends where the next begins.
    following = _BEGIN.search(text, begun.end())
    end = min(begun.start() + _REACH, following.start() if following else len(text))
    message = re.sub(r"\s+", " ", text[begun.start() : end])
    sizes = {name: size for name, pattern in _FIGURES.items() if (size := _size(pattern.search(message))) is not None}
    facts = {
        "oom.request_mib": sizes.get("request"),
        "oom.capacity_mib": sizes.get("capacity"),
        "oom.free_mib": sizes.get("free"),
        "oom.allocated_mib": sizes.get("allocated", sizes.get("allocated_old")),
    }
    allocated = facts["oom.allocated_mib"]
    reserved = sizes.get("reserved")
    if reserved is None and allocated is not None and "unallocated" in sizes:
        reserved = allocated + sizes["unallocated"]
    facts["oom.reserved_mib"] = reserved
    if reserved is not None and allocated is not None:
        facts["oom.unused_mib"] = sizes.get("unallocated", max(0.0, reserved - allocated))
    facts["oom.own_mib"] = sizes.get("own", reserved)
    told = [float(size) * _unit(unit) for _, size, unit in _OTHERS.findall(message) if _number(size) is not None]
    facts["oom.others_mib"] = _others(facts, told)
    for name, value in facts.items():
        if value is not None:
            yield present(name, round(value, 2), here)
    request, capacity = facts["oom.request_mib"], facts["oom.capacity_mib"]
    if request is not None and capacity:
        yield present("oom.request_percent", round(100 * request / capacity, 1), here)
        for part in ("free", "own", "others", "unused", "allocated"):
            value = facts.get(f"oom.{part}_mib")
            if value is not None:
                yield present(f"oom.{part}_percent", round(100 * value / capacity, 1), here)
    if gpu := _GPU.search(message):
        yield present("oom.gpu", int(gpu[1]), here)


def _others(facts: dict[str, float | None], told: list[float]) -> float | None:
    """What is neither free nor this process's: other processes, and a few hundred MiB of each CUDA context."""
    if told:
        return sum(told)
    capacity, free, own = facts["oom.capacity_mib"], facts["oom.free_mib"], facts["oom.own_mib"]
    if capacity is None or free is None or own is None:
        return None
    return max(0.0, capacity - free - own)


def _size(found: re.Match[str] | None) -> float | None:
    if not found:
        return None
    told, unit = [value for value in found.groups() if value][:2]
    size = _number(told)
    return None if size is None else size * _unit(unit)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _unit(text: str) -> float:
    return _UNITS.get(text if text == "bytes" else text[:1], 1.0)

"""Display adapters and memory of Windows, as CIM or the registry describe them.

CIM's answer is the JSON of the query in `probes/windows_hardware.py`: {video, pci, os}.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..model import Claim, Source, absent, present, unknown
from ..text import clean
from .pci import NVIDIA, VENDORS

_PCI = re.compile(r"PCI\\VEN_([0-9a-f]{4})&DEV_([0-9a-f]{4})", re.IGNORECASE)
# Compatible ids of a display, XGA or 3D controller, with or without a driver.
_DISPLAY = re.compile(r"&CC_03(?:00|01|02|80)", re.IGNORECASE)


class Adapter(NamedTuple):
    """`vendor` and `device` are PCI numbers without 0x, empty for an adapter that is on no bus; `version` is as Windows
    counts; `problem` is the device manager's code, 0 for none, None where it is not known.
    """

    name: str
    provider: str
    vendor: str
    device: str
    version: str
    problem: int | None = None

    @property
    def of_nvidia(self) -> bool:
        # In a virtual machine a share of the GPU is on Microsoft's bus, with NVIDIA's driver.
        return self.vendor == NVIDIA or self.has_nvidia_driver

    @property
    def has_nvidia_driver(self) -> bool:
        return self.provider.lower().startswith("nvidia")


def driver_of_windows(version: str) -> str:
    """NVIDIA's number of a driver that Windows calls 32.0.15.6094: its last five digits, 560.94; empty if none."""
    parts = version.strip().split(".")
    if len(parts) != 4 or not all(part.isascii() and part.isdigit() and len(part) <= 5 for part in parts):
        return ""
    digits = parts[2][-1:] + parts[3].zfill(4)
    if len(digits) != 5 or digits[0] == "0":
        return ""
    return f"{digits[:3]}.{digits[3:]}"


def read_cim(text: str, source: Source) -> Iterator[Claim]:
    """Nothing for an answer that is no JSON object."""
    found = _json(text)
    if found is None:
        return
    adapters = [
        Adapter(
            _text(one, "Name"),
            _text(one, "AdapterCompatibility"),
            *_numbers(_text(one, "PNPDeviceID")),
            _text(one, "DriverVersion"),
            _number(one, "ConfigManagerErrorCode"),
        )
        for one in _objects(found.get("video"))
    ]
    seen = {_text(one, "PNPDeviceID").lower() for one in _objects(found.get("video"))}
    for one in _objects(found.get("pci")):
        # A card without any driver is no video controller to Windows, only a device.
        identity = _text(one, "PNPDeviceID")
        kinds = one.get("CompatibleID")
        if (
            identity.lower() not in seen
            and isinstance(kinds, list)
            and any(_DISPLAY.search(str(kind)) for kind in kinds)
        ):
            problem = _number(one, "ConfigManagerErrorCode")
            adapters.append(Adapter(_text(one, "Name"), "", *_numbers(identity), "", problem))
    if isinstance(found.get("video"), list):
        yield from claims_of_adapters(adapters, source)
    yield from _memory(found.get("os"), source)


def claims_of_adapters(adapters: Iterable[Adapter], source: Source, *, complete: bool = True) -> Iterator[Claim]:
    """`complete`: all adapters that are there are among them, and only those."""
    adapters = list(adapters)
    nvidia = [one for one in adapters if one.of_nvidia]
    others = [VENDORS.get(one.vendor, one.vendor) for one in adapters if one.vendor and not one.of_nvidia]
    if nvidia:
        yield present("pci.nvidia_devices", tuple(f"{one.vendor}:{one.device} {one.name}" for one in nvidia), source)
        yield present("pci.nvidia_count", len(nvidia), source)
    elif complete and adapters:
        reason = f"Windows has {len(adapters)} display adapters, none of them NVIDIA's"
        yield absent("pci.nvidia_devices", source, reason)
        yield present("pci.nvidia_count", 0, source)
        yield present("gpu.count", 0, source)
    else:
        yield unknown("pci.nvidia_devices", "the display adapters that are there are not known", source)
    if others:
        yield present("pci.other_gpus", tuple(dict.fromkeys(others)), source)
    elif complete and adapters:
        yield absent("pci.other_gpus", source)
    yield from _driver(nvidia, source)


def _driver(nvidia: list[Adapter], source: Source) -> Iterator[Claim]:
    versions = [found for one in nvidia if one.has_nvidia_driver and (found := driver_of_windows(one.version))]
    if versions:
        yield present("driver.version", versions[0], source)
        yield present("driver.branch", versions[0].split(".", maxsplit=1)[0], source)
    problems = [one.problem for one in nvidia if one.problem is not None]
    if any(one.has_nvidia_driver and one.problem == 0 for one in nvidia):
        yield present("driver.loaded", True, source)
    if faulty := [problem for problem in problems if problem]:
        yield present("windows.display_problem", faulty[0], source)
    elif problems:
        yield absent("windows.display_problem", source, "the device manager has nothing against the NVIDIA adapters")


def _memory(told: object, source: Source) -> Iterator[Claim]:
    """Kilobytes of memory and page files together, of which nothing more can be promised once they are given out."""
    one = told if isinstance(told, dict) else {}
    for key, name in (
        ("TotalVirtualMemorySize", "windows.commit_limit_mib"),
        ("FreeVirtualMemory", "windows.commit_free_mib"),
        ("SizeStoredInPagingFiles", "windows.page_file_mib"),
    ):
        if (kilobytes := _number(one, key)) is not None:
            yield present(name, kilobytes // 1024, source)


def _json(text: str) -> dict[str, Any] | None:
    # Something of PowerShell's own (a warning) may stand before the object.
    try:
        found = json.loads(text[text.index("{") :])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _numbers(identity: str) -> tuple[str, str]:
    found = _PCI.search(identity)
    return (found[1].lower(), found[2].lower()) if found else ("", "")


def _text(one: Mapping[str, Any], key: str) -> str:
    value = one.get(key)
    return clean(value).strip()[:200] if isinstance(value, str) else ""


def _number(one: Mapping[str, Any], key: str) -> int | None:
    value = one.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None

"""The PCI bus, as the kernel shows it under /sys: which display controllers are there, and who drives them."""

import re
from collections.abc import Iterator

from ..machine import Machine
from ..model import Claim, absent, present, unknown
from ..outputs.pci import DISPLAY_CLASSES, NVIDIA, VENDORS
from .system import is_wsl

NAME = "pci"
FACTS = ("pci.nvidia_devices", "pci.nvidia_count", "pci.nvidia_kernel_drivers", "pci.other_gpus")

_BUS = "/sys/bus/pci/devices"
_ADDRESS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")


def probe(machine: Machine) -> Iterator[Claim]:
    bus = machine.list(_BUS)
    source = bus.source
    if machine.platform == "darwin":
        for name in FACTS:
            yield absent(name, source, "no NVIDIA GPU works under macOS")
        return
    devices, drivers, others, unread = [], [], [], 0
    for address in filter(_ADDRESS.fullmatch, bus.names):
        kind, vendor, device = (_number(machine, address, part) for part in ("class", "vendor", "device"))
        if not kind or not vendor:
            unread += 1
        elif kind[:4] not in DISPLAY_CLASSES:
            continue
        elif vendor != NVIDIA:
            others.append(VENDORS.get(vendor, vendor))
        else:
            devices.append(f"{address} {NVIDIA}:{device}")
            driver = machine.read_link(f"{_BUS}/{address}/driver")
            if driver.ok:
                drivers.append(driver.text.rstrip("/").rsplit("/", 1)[-1])
    if devices:
        yield present("pci.nvidia_devices", tuple(devices), source)
        yield present("pci.nvidia_count", len(devices), source)
        if drivers:
            yield present("pci.nvidia_kernel_drivers", tuple(dict.fromkeys(drivers)), source)
        else:
            yield absent("pci.nvidia_kernel_drivers", source, "no kernel driver is bound to an NVIDIA controller")
    elif doubt := _why_none_may_mean_nothing(machine, bus.ending, bus.reason, len(bus.names), unread):
        for name in FACTS:
            yield unknown(name, doubt, source)
        return
    else:
        reason = f"{len(bus.names)} devices are on the bus, none of them an NVIDIA display controller"
        yield absent("pci.nvidia_devices", source, reason)
        yield absent("pci.nvidia_kernel_drivers", source, reason)
        yield present("pci.nvidia_count", 0, source)
        yield present("gpu.count", 0, source)
    if others:
        yield present("pci.other_gpus", tuple(dict.fromkeys(others)), source)
    else:
        yield absent("pci.other_gpus", source)


def _why_none_may_mean_nothing(machine: Machine, ending: str, reason: str, count: int, unread: int) -> str:
    """Why a bus without an NVIDIA controller says nothing; empty if it does."""
    if ending != "ok":
        return f"{_BUS} could not be listed: {reason}" if reason else f"{_BUS} could not be listed"
    if not count:
        return f"{_BUS} is empty, as in many containers and virtual machines"
    if unread:
        return f"{unread} of {count} devices on the bus could not be read"
    if is_wsl(machine):
        return "under WSL the GPU belongs to Windows and is not on this bus"
    if machine.stat("/etc/nv_tegra_release").ok:
        return "the GPU of a Jetson is not on the PCI bus"
    return ""


def _number(machine: Machine, address: str, part: str) -> str:
    """0x030200 as 030200; empty if it cannot be read."""
    return machine.read(f"{_BUS}/{address}/{part}").text.strip().lower().removeprefix("0x")

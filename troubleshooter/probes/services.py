"""Helpers of the driver that run as services, and the NVSwitches that need one of them."""

from collections.abc import Iterator

from ..machine import Machine
from ..model import Claim, Source, absent, present, unknown
from ..outputs.pci import NVIDIA
from ..text import clean
from .container import container_kind
from .system import is_wsl

NAME = "services"
FACTS = (
    "pci.nvswitch_count",
    "fabric_manager.installed",
    "fabric_manager.running",
    "persistenced.running",
    "container_toolkit.installed",
    "container_toolkit.docker_runtime",
    "container_toolkit.cdi",
)

_BUS = "/sys/bus/pci/devices"
_BRIDGE = "0x0680"
_FABRIC_MANAGER = ("/usr/bin/nv-fabricmanager", "/usr/local/bin/nv-fabricmanager")
_TOOLKIT = ("/usr/bin/nvidia-ctk", "/usr/local/nvidia/toolkit/nvidia-ctk", "/usr/bin/nvidia-container-cli")
_CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi", "/run/cdi")
_DOCKER_SETTINGS = "/etc/docker/daemon.json"


def probe(machine: Machine) -> Iterator[Claim]:
    source = Source("probe", "file", "files of services")
    if machine.platform != "linux":
        for name in FACTS:
            yield absent(name, source, "this is a service of Linux")
        return
    yield _switches(machine)
    kind = container_kind(machine)[0]
    if kind or is_wsl(machine):
        where = f"a container ({kind})" if kind else "WSL"
        for name in FACTS[1:]:
            yield unknown(name, f"{where} does not show the services of its host", source)
        return
    yield _one_of(machine, "fabric_manager.installed", _FABRIC_MANAGER)
    yield _running(
        machine, "fabric_manager.running", "/run/nvidia-fabricmanager/nv-fabricmanager.pid", "nv-fabricmanager"
    )
    yield _running(
        machine, "persistenced.running", "/run/nvidia-persistenced/nvidia-persistenced.pid", "nvidia-persistenced"
    )
    yield _one_of(machine, "container_toolkit.installed", _TOOLKIT)
    settings = machine.read(_DOCKER_SETTINGS)
    if settings.ok or settings.missing:
        # {"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}
        yield present("container_toolkit.docker_runtime", "nvidia-container-runtime" in settings.text, settings.source)
    else:
        yield unknown("container_toolkit.docker_runtime", settings.reason, settings.source)
    folders = [machine.list(folder) for folder in _CDI_FOLDERS]
    files = tuple(clean(f"{one.path}/{name}") for one in folders for name in one.names if "nvidia" in name.lower())
    if files:
        yield present("container_toolkit.cdi", files, folders[0].source)
    elif any(one.ok or one.missing for one in folders):
        yield absent("container_toolkit.cdi", folders[0].source, "no CDI description of NVIDIA's GPUs is there")


def _switches(machine: Machine) -> Claim:
    """NVSwitches are bridges of class 0680 made by NVIDIA."""
    name = "pci.nvswitch_count"
    bus = machine.list(_BUS)
    if not bus.ok or not bus.names:
        return unknown(name, bus.reason or f"{_BUS} is empty", bus.source)
    count = 0
    for address in bus.names:
        if machine.read(f"{_BUS}/{address}/class").text.startswith(_BRIDGE):
            count += machine.read(f"{_BUS}/{address}/vendor").text.strip() == f"0x{NVIDIA}"
    return present(name, count, bus.source)


def _one_of(machine: Machine, name: str, places: tuple[str, ...]) -> Claim:
    stats = [machine.stat(place) for place in places]
    if there := next((stat for stat in stats if stat.ok), None):
        return present(name, True, there.source)
    if any(stat.missing for stat in stats):
        return present(name, False, stats[0].source)
    return unknown(name, stats[0].reason, stats[0].source)


def _running(machine: Machine, name: str, pid_file: str, program: str) -> Claim:
    """By the number that the service leaves in /run, and the name of that process (its first 15 letters)."""
    kept = machine.read(pid_file, 64)
    if kept.missing:
        if machine.list("/run").ok:
            return present(name, False, kept.source)
        return unknown(name, "/run cannot be listed", kept.source)
    number = kept.text.strip()
    if not kept.ok or not number.isdecimal():
        return unknown(name, kept.reason or "its file holds no number", kept.source)
    process = machine.read(f"/proc/{number}/comm", 64)
    if process.ok or process.missing:
        return present(name, process.text.strip() == program[:15], process.source)
    return unknown(name, process.reason, process.source)

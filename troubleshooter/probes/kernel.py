"""Why the kernel may not run the driver: Secure Boot, modules that were not built or are barred, its own log."""

import re
from collections.abc import Iterator

from ..machine import Machine
from ..model import Claim, Source, Transcript, absent, present, unknown
from ..outputs.kernel_log import driver_lines, read_kernel_log
from ..outputs.modprobe import blacklisted, blacklisted_at_boot, options
from ..text import clean
from .container import container_kind
from .system import is_wsl

NAME = "kernel"
FACTS = (
    "secure_boot.enabled",
    "driver.module_built",
    "driver.dkms",
    "nouveau.blacklisted",
    "driver.blacklisted",
    "driver.module_options",
    "kernel_log.readable",
    "kernel_log.xids",
    "kernel_log.xid_addresses",
    "kernel_log.gpu_error",
)
SECONDS = 5

_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_MODPROBE_FOLDERS = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d")
_MODULES = ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nouveau")
_MODULE_FILE = re.compile(r"^(\S*/nvidia(?:-current)?\.ko(?:\.(?:gz|xz|zst))?):", re.MULTILINE)
_JOURNAL = ["journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-monotonic", "-n", "5000"]


def probe(machine: Machine) -> Iterator[Claim | Transcript]:
    source = Source("probe", "file", "the kernel's files")
    if machine.platform != "linux":
        for name in FACTS:
            yield absent(name, source, "this system has no Linux kernel")
        return
    doubt = ""
    if kind := container_kind(machine)[0]:
        doubt = f"a container ({kind}) does not show the files of its host's kernel"
    elif is_wsl(machine):
        doubt = "under WSL the kernel and the driver are Microsoft's and Windows'"
    if doubt:
        for name in FACTS[:6]:
            yield unknown(name, doubt, source)
    else:
        yield _secure_boot(machine)
        yield from _module(machine)
        yield from _settings(machine)
    yield from _log(machine)


def _secure_boot(machine: Machine) -> Claim:
    """The variable holds four bytes of attributes and one of value."""
    name = "secure_boot.enabled"
    variable = machine.read(_SECURE_BOOT)
    if variable.ok and len(variable.text) == 5:
        return present(name, variable.text[-1] == "\1", variable.source)
    firmware = machine.list("/sys/firmware")
    if firmware.ok and firmware.names and "efi" not in firmware.names:
        return present(name, False, firmware.source)._replace(reason="the machine was not started by UEFI")
    return unknown(name, variable.reason or "the firmware's variable cannot be read", variable.source)


def _module(machine: Machine) -> Iterator[Claim]:
    kernel = machine.read("/proc/sys/kernel/osrelease").text.strip()
    listed = machine.read(f"/lib/modules/{kernel}/modules.dep") if kernel else None
    if listed and listed.ok:
        there = _MODULE_FILE.search(listed.text)
        reason = there[1] if there else f"modules.dep of {kernel} names no nvidia.ko"
        yield present("driver.module_built", bool(there), listed.source)._replace(reason=reason)
    else:
        where = listed.source if listed else Source("probe", "file", file="/proc/sys/kernel/osrelease")
        yield unknown("driver.module_built", "the list of the running kernel's modules cannot be read", where)
    yield _dkms(machine)


def _dkms(machine: Machine) -> Claim:
    """What dkms itself would say, from its folders: 535.183.01 added; 535.183.01 5.15.0-105-generic built.

    /var/lib/dkms/nvidia/535.183.01/5.15.0-105-generic/x86_64/module/nvidia.ko
    """
    top = machine.list("/var/lib/dkms")
    if not top.ok:
        if top.missing:
            return absent("driver.dkms", top.source, "there is no DKMS")
        return unknown("driver.dkms", top.reason or "its folder cannot be listed", top.source)
    found: list[str] = []
    for name in top.names:
        if not re.fullmatch(r"nvidia(?:-.*)?", name):
            continue
        for version in machine.list(f"/var/lib/dkms/{name}").names:
            if not re.match(r"\d{3}\.", version):
                continue
            folder = f"/var/lib/dkms/{name}/{version}"
            kernels = [kernel for kernel in machine.list(folder).names if kernel not in ("source", "build")]
            built = [kernel for kernel in kernels if machine.list(f"{folder}/{kernel}").ok]
            found += [f"{version} {kernel} built" for kernel in built] or [f"{version} added"]
    if found:
        return present("driver.dkms", tuple(found), top.source)
    return absent("driver.dkms", top.source, "DKMS knows no nvidia module")


def _settings(machine: Machine) -> Iterator[Claim]:
    barred: dict[str, Source] = {}
    given: list[str] = []
    looked = False
    for folder in _MODPROBE_FOLDERS:
        listing = machine.list(folder)
        looked = looked or listing.ok or listing.missing
        for name in listing.names:
            if not name.endswith(".conf"):
                continue
            file = machine.read(f"{folder}/{name}", 1024 * 1024)
            barred |= {module: file.source for module in blacklisted(file.text) if module not in barred}
            given += options(clean(file.text), _MODULES)
    booted = machine.read("/proc/cmdline")
    barred |= dict.fromkeys(blacklisted_at_boot(booted.text), booted.source)
    source = Source("probe", "file", file=_MODPROBE_FOLDERS[0])
    for fact, module in (("nouveau.blacklisted", "nouveau"), ("driver.blacklisted", "nvidia")):
        if module in barred:
            yield present(fact, True, barred[module])
        elif looked:
            yield present(fact, False, source)
        else:
            yield unknown(fact, "modprobe's settings cannot be read", source)
    if given:
        yield present("driver.module_options", tuple(dict.fromkeys(given)), source)
    elif looked:
        yield absent("driver.module_options", source, "modprobe's settings name no option for it")


def _log(machine: Machine) -> Iterator[Claim | Transcript]:
    text, source, whole, reason = _log_text(machine)
    if not text:
        if reason:
            yield present("kernel_log.readable", False, source)._replace(reason=reason)
        else:
            yield unknown("kernel_log.readable", "nobody tried to read the kernel's log", source)
        for name in FACTS[7:]:
            yield unknown(name, f"the kernel's log cannot be read: {reason or 'nobody tried'}", source)
        return
    yield present("kernel_log.readable", True, source)
    lines = driver_lines(text)
    yield from read_kernel_log(lines, source, whole=whole)
    if lines:
        yield Transcript("\n".join(lines), source)


def _log_text(machine: Machine) -> tuple[str, Source, bool, str]:
    """(text, source, whether it reaches back to the start, why it is empty)."""
    reasons: list[str] = []
    answered = False
    # journalctl has what the kernel's own ring has lost meanwhile, and some may read it who may not read that.
    for argv in (["dmesg"], _JOURNAL):
        answer = machine.run(argv, SECONDS)
        if answer.ok and answer.text.strip():
            return answer.text, Source("probe", "text", argv[0]), _reaches_the_start(answer.text), ""
        answered = answered or answer.ending != "unknown"
        if not answer.missing:
            reasons += clean(answer.errors).strip().splitlines()[-1:] or [answer.reason]
    kept = machine.read("/var/log/dmesg")
    if kept.ok and kept.text.strip():
        return kept.text, Source("probe", "text", "the log of the start", "/var/log/dmesg"), False, ""
    return (
        "",
        Source("probe", "command", "dmesg"),
        False,
        ("; ".join(filter(None, reasons)) or "there is neither dmesg nor journalctl") if answered else "",
    )


def _reaches_the_start(text: str) -> bool:
    """[    0.000000] Linux version 5.15.0-105-generic …"""
    return "Linux version " in text[:2000]

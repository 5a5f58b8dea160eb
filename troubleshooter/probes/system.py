"""The operating system: which one, which version, kernel, processor, C library."""

import re
from collections.abc import Iterator

from ..machine import Machine
from ..model import Claim, Source, absent, present, unknown
from ..outputs.os_release import read_os_release
from ..text import clean

NAME = "system"
FACTS = (
    "os.family",
    "os.release",
    "os.distribution",
    "os.distribution_version",
    "os.kernel",
    "os.architecture",
    "os.glibc",
    "wsl.version",
)
_HERE = Source("probe", "environment", "the platform that Python names")
# The first build of Windows 11 still calls itself 10.0.
_WINDOWS_11_BUILD = 22000


def probe(machine: Machine) -> Iterator[Claim]:
    if machine.platform == "win32":
        yield from _windows(machine)
    elif machine.platform == "darwin":
        yield from _macos(machine)
    else:
        yield from _linux(machine)


def is_wsl(machine: Machine) -> bool:
    return bool(machine.platform == "linux" and _wsl_version(machine.read("/proc/sys/kernel/osrelease").text))


def _wsl_version(kernel: str) -> int:
    """4.4.0-19041-Microsoft is WSL 1, 5.15.90.1-microsoft-standard-WSL2 is WSL 2; 0 for all others."""
    if "microsoft" not in kernel.lower():
        return 0
    return 1 if re.match(r"4\.4\.0-\d+-Microsoft", kernel) else 2


def _linux(machine: Machine) -> Iterator[Claim]:
    kernel = machine.read("/proc/sys/kernel/osrelease")
    release = kernel.text.strip()
    version = _wsl_version(release)
    yield present("os.family", "wsl" if version else "linux", kernel.source if kernel.ok else _HERE)
    if kernel.ok and release:
        yield present("os.kernel", release, kernel.source)
    if version:
        yield present("wsl.version", version, kernel.source)
    elif kernel.ok:
        yield absent("wsl.version", kernel.source, "the kernel is not Microsoft's")
    described = machine.read("/etc/os-release")
    if not described.ok:
        described = machine.read("/usr/lib/os-release")
    if described.ok:
        yield from read_os_release(described.text, described.source)
    yield from _architecture(machine)
    yield from _glibc(machine)


def _architecture(machine: Machine) -> Iterator[Claim]:
    told = machine.read("/proc/sys/kernel/arch")  # since Linux 6.1
    if told.ok and told.text.strip():
        yield present("os.architecture", told.text.strip(), told.source)
        return
    answer = machine.run(["uname", "-m"], 5)
    if answer.ok and answer.text.strip():
        yield present("os.architecture", answer.text.strip(), answer.source)


def _glibc(machine: Machine) -> Iterator[Claim]:
    answer = machine.run(["getconf", "GNU_LIBC_VERSION"], 5)
    if found := re.search(r"glibc (\d+\.\d+)", answer.text):
        yield present("os.glibc", found[1], answer.source)
        return
    answer = machine.run(["ldd", "--version"], 5)
    if "musl" in (answer.text + answer.errors)[:200]:
        yield absent("os.glibc", answer.source, "this system uses musl")
    # "ldd (Ubuntu GLIBC 2.35-0ubuntu3.8) 2.35", "ldd (GNU libc) 2.17"
    elif found := re.search(r"^ldd .*?(\d+\.\d+)[ \t]*$", answer.text, re.MULTILINE):
        yield present("os.glibc", found[1], answer.source)


def _macos(machine: Machine) -> Iterator[Claim]:
    yield present("os.family", "macos", _HERE)
    answer = machine.run(["sw_vers", "-productVersion"], 5)
    if answer.ok and answer.text.strip():
        yield present("os.release", f"macOS {answer.text.strip()}", answer.source)
        yield present("os.distribution_version", answer.text.strip(), answer.source)
    yield present("os.distribution", "macos", _HERE)
    for option, name in (("-r", "os.kernel"), ("-m", "os.architecture")):
        answer = machine.run(["uname", option], 5)
        if answer.ok and answer.text.strip():
            yield present(name, answer.text.strip(), answer.source)
    for name in ("os.glibc", "wsl.version"):
        yield absent(name, _HERE, "this is macOS")


def _windows(machine: Machine) -> Iterator[Claim]:
    yield present("os.family", "windows", _HERE)
    yield present("os.distribution", "windows", _HERE)
    yield from _windows_version(machine)
    variables = {name.upper(): value for name, value in machine.environ.items()}
    if kind := variables.get("PROCESSOR_ARCHITEW6432") or variables.get("PROCESSOR_ARCHITECTURE"):
        yield present("os.architecture", kind, Source("probe", "environment", "PROCESSOR_ARCHITECTURE"))
    else:
        yield unknown("os.architecture", "PROCESSOR_ARCHITECTURE is not set", _HERE)
    for fact in ("os.glibc", "wsl.version"):
        yield absent(fact, _HERE, "this is Windows")


def _windows_version(machine: Machine) -> Iterator[Claim]:
    """Windows 11 Pro 23H2 (10.0.22631.3447)."""
    key = machine.registry("HKLM\\SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion")
    name, build, source = key.text("ProductName"), key.text("CurrentBuildNumber"), key.source
    if re.fullmatch(r"\d+", build):
        head = [key.text(f"Current{part}VersionNumber") for part in ("Major", "Minor")]
        version = ".".join(filter(None, (*(head if all(head) else ["10", "0"]), build, key.text("UBR"))))
        name = " ".join(filter(None, (name or "Windows", key.text("DisplayVersion"))))
    else:
        answer = machine.run(["cmd", "/d", "/c", "ver"], 5)
        # Only the figure is the same in every language: Microsoft Windows [Version 10.0.22631.3447]
        found = re.search(r"(\d+\.\d+\.(\d+)(?:\.\d+)?)", answer.text)
        if not found:
            return
        name, version, build, source = "Windows", found[1], found[2], answer.source
    name = name.removeprefix("Microsoft ")
    if int(build) >= _WINDOWS_11_BUILD and "Server" not in name:
        # Windows 11 goes on calling itself 10 there.
        name = re.sub(r"^Windows(?: 1[01])?\b", "Windows 11", name)
    yield present("os.release", f"{clean(name)} ({version})", source)
    yield present("os.distribution_version", version, source)
    yield present("os.kernel", version, source)

"""Windows: what its registry says of paths, page files, code pages, the watchdog and the C++ runtime; and the shell."""

import re
from collections.abc import Iterator

from ..machine import Machine, RegistryKey
from ..model import Claim, Source, absent, present, unknown

NAME = "windows_settings"
FACTS = (
    "windows.long_paths",
    "windows.code_page",
    "windows.page_file",
    "windows.page_file_max_mib",
    "windows.tdr_delay",
    "windows.tdr_level",
    "windows.vc_runtime",
    "shell.name",
)
_CONTROL = "HKLM\\SYSTEM\\CurrentControlSet\\Control"
# The installer is a 32-bit program and writes to the one, newer ones to both.
_RUNTIMES = (
    "HKLM\\SOFTWARE\\Microsoft\\VisualStudio\\14.0\\VC\\Runtimes\\X64",
    "HKLM\\SOFTWARE\\WOW6432Node\\Microsoft\\VisualStudio\\14.0\\VC\\Runtimes\\X64",
)


def probe(machine: Machine) -> Iterator[Claim]:
    if machine.platform != "win32":
        return
    files = machine.registry(f"{_CONTROL}\\FileSystem")
    if files.ok:
        # A Windows that has no such value does not know long paths.
        yield present("windows.long_paths", files.number("LongPathsEnabled") == 1, files.source)
    pages = machine.registry(f"{_CONTROL}\\Nls\\CodePage")
    if (page := pages.number("ACP")) is not None:
        yield present("windows.code_page", page, pages.source)
    yield from _page_file(machine.registry(f"{_CONTROL}\\Session Manager\\Memory Management"))
    yield from _watchdog(machine.registry(f"{_CONTROL}\\GraphicsDrivers"))
    yield from _runtime(machine)
    yield _shell(machine)


def _shell(machine: Machine) -> Claim:
    """PROMPT is set by cmd; PowerShell puts the user's own folder of modules before those of the system."""
    modules = machine.environ.get("PSModulePath", "").lower()
    if "\\powershell\\modules" in modules and "\\documents\\" in modules:
        return present("shell.name", "powershell", Source("probe", "environment", "PSModulePath"))
    if "PROMPT" in machine.environ:
        return present("shell.name", "cmd", Source("probe", "environment", "PROMPT"))
    return unknown("shell.name", "no variable of a shell is set", Source("probe", "environment", "PROMPT"))


def _page_file(key: RegistryKey) -> Iterator[Claim]:
    r"""C:\pagefile.sys 1024 4096: first and largest size in MiB; without figures, or both 0, Windows decides."""
    if not key.ok or "pagingfiles" not in {name.lower() for name in key.values}:
        return
    files = [line for line in key.text("PagingFiles").splitlines() if line.strip()]
    sizes = [re.search(r"[ \t](\d{1,9})[ \t]+(\d{1,9})[ \t]*$", line) for line in files]
    name, most = "windows.page_file", "windows.page_file_max_mib"
    if not files:
        yield present(name, "none", key.source)
        yield present(most, 0, key.source)
    elif all(size and int(size[2]) for size in sizes):
        yield present(name, "fixed", key.source)
        yield present(most, sum(int(size[2]) for size in sizes if size), key.source)
    else:
        yield present(name, "system-managed", key.source)
        yield absent(most, key.source, "Windows lets it grow as far as the disk allows")


def _watchdog(key: RegistryKey) -> Iterator[Claim]:
    for value, name in (("TdrDelay", "windows.tdr_delay"), ("TdrLevel", "windows.tdr_level")):
        found = key.number(value)
        if found is not None:
            yield present(name, found, key.source)
        elif key.ok or key.missing:
            yield absent(name, key.source, "not set: Windows takes its own value")


def _runtime(machine: Machine) -> Iterator[Claim]:
    name = "windows.vc_runtime"
    keys = [machine.registry(path) for path in _RUNTIMES]
    for key in keys:
        found = re.fullmatch(r"v?(\d+\.\d+\.\d+)(?:\.\d+)?", key.text("Version"))
        if key.number("Installed") == 1 and found:
            yield present(name, found[1], key.source)
            return
    if all(key.ok or key.missing for key in keys):
        yield absent(name, keys[0].source, "the Visual C++ 2015-2022 redistributable (x64) is not installed")
    else:
        yield unknown(name, next(key.reason for key in keys if not key.ok), keys[0].source)

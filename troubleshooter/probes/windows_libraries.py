"""Windows: the DLLs that torch needs from outside its own folder, in System32 and on PATH, and their versions."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..machine import Listing, Machine, Stat
from ..model import Claim, Source, absent, present, unknown
from ..outputs.windows_display import driver_of_windows
from .windows_hardware import display_keys

NAME = "windows_libraries"
FACTS = (
    "driver.installed",
    "driver.library_version",
    "windows.vcruntime140_1",
    "windows.msvcp140",
    "windows.libomp140",
    "windows.zlibwapi",
    "windows.toolkit_dlls",
)
_TOOLKIT = re.compile(r"(?:cudart64_\d+|cudnn64_\d+|cublas64_\d+|nvrtc64_\w+)\.dll", re.IGNORECASE)
_MOST_FOLDERS = 200


class _Places(NamedTuple):
    """Where Windows looks: System32, which is too long to be listed, then the folders of PATH."""

    machine: Machine
    system: str
    folders: tuple[Listing, ...]

    def find(self, file: str) -> Stat:
        """The first file of this name; what System32 answered where there is none."""
        first = self.machine.stat(f"{self.system}\\{file}")
        if first.ok:
            return first
        for folder in self.folders:
            for name in folder.names:
                if name.lower() == file:
                    return Stat(f"{folder.path}\\{name}", "ok", "file")
        return first


def probe(machine: Machine) -> Iterator[Claim]:
    if machine.platform != "win32":
        return
    variables = {name.upper(): value for name, value in machine.environ.items()}
    places = _places(machine, variables)
    yield from _driver(machine, places.system)
    for file, name in (("vcruntime140_1.dll", "windows.vcruntime140_1"), ("msvcp140.dll", "windows.msvcp140")):
        found = places.find(file)
        version = machine.file_version(found.path)
        if not found.ok:
            yield _not_there(found, file, name)
        elif version.ok:
            yield present(name, version.text, version.source)
        else:
            yield unknown(name, f"{found.path} is there: {version.reason}", version.source)
    for file, name in (("libomp140.x86_64.dll", "windows.libomp140"), ("zlibwapi.dll", "windows.zlibwapi")):
        found = places.find(file)
        yield present(name, found.path, found.source) if found.ok else _not_there(found, file, name)
    yield _toolkit(machine, places.folders, variables)


def _places(machine: Machine, variables: Mapping[str, str]) -> _Places:
    root = variables.get("SYSTEMROOT", "C:\\Windows").rstrip("\\/")
    once: dict[str, str] = {}
    for part in variables.get("PATH", "").split(";")[:_MOST_FOLDERS]:
        path = part.strip().strip('"').replace("/", "\\").rstrip("\\")
        if path and not path.lower().startswith(root.lower()):
            once.setdefault(path.lower(), path)
    return _Places(machine, f"{root}\\System32", tuple(machine.list(path) for path in once.values()))


def _not_there(found: Stat, file: str, name: str) -> Claim:
    if not found.missing:
        return unknown(name, f"{found.path}: {found.reason}", found.source)
    return absent(name, found.source, f"{file} is neither in System32 nor on PATH")


def _driver(machine: Machine, system: str) -> Iterator[Claim]:
    """nvcuda.dll is to Windows what libcuda.so is to Linux, and every driver of NVIDIA lays it into System32."""
    library = machine.stat(f"{system}\\nvcuda.dll")
    if not library.ok and not library.missing:
        yield unknown("driver.installed", f"{library.path}: {library.reason}", library.source)
    elif library.ok:
        version = machine.file_version(library.path)
        yield present("driver.installed", True, library.source)
        if number := driver_of_windows(version.text):
            yield present("driver.library_version", number, version.source)
        else:
            yield unknown("driver.library_version", version.reason or "its version is no driver's", version.source)
    else:
        yield absent("driver.library_version", library.source, "there is no nvcuda.dll in System32")
        key = next(
            (one for one in display_keys(machine) if one.text("ProviderName").lower().startswith("nvidia")), None
        )
        yield present("driver.installed", key is not None, key.source if key else library.source)


def _toolkit(machine: Machine, folders: tuple[Listing, ...], variables: Mapping[str, str]) -> Claim:
    listed = list(folders)
    if home := variables.get("CUDA_PATH"):
        path = home.rstrip("\\/") + "\\bin"
        if path.lower() not in {one.path.lower() for one in listed}:
            listed.append(machine.list(path))
    found = []
    for folder in listed:
        for name in filter(_TOOLKIT.fullmatch, folder.names):
            path = f"{folder.path}\\{name}"
            found.append(f"{path} {machine.file_version(path).text}".strip())
    source = Source("probe", "environment", "PATH and CUDA_PATH")
    if found:
        return present("windows.toolkit_dlls", tuple(found[:100]), source)
    return absent("windows.toolkit_dlls", source, "no folder of PATH holds DLLs of a CUDA toolkit or cuDNN")

"""The NVIDIA driver as the kernel and the files show it, without running anything of it."""

import re
from collections.abc import Iterator

from ..machine import Machine, Reading
from ..model import Claim, Source, absent, present, unknown
from ..outputs.proc_driver_version import read_proc_driver_version
from .container import container_kind
from .system import is_wsl

NAME = "driver"
FACTS = (
    "nouveau.loaded",
    "driver.installed",
    "driver.loaded",
    "driver.version",
    "driver.branch",
    "driver.kernel_version",
    "driver.library_version",
    "driver.flavour",
)

# Where distributions, the installer, the container toolkit, WSL and NixOS put the driver's libraries.
LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/usr/lib/nvidia",
    "/usr/lib64/nvidia",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
    "/lib/x86_64-linux-gnu",
    "/lib64",
)
SMI_PLACES = (
    "/usr/bin/nvidia-smi",
    "/usr/lib/wsl/lib/nvidia-smi",
    "/usr/local/nvidia/bin/nvidia-smi",
    "/run/current-system/sw/bin/nvidia-smi",
    "/opt/bin/nvidia-smi",
)
_LIBRARY = re.compile(r"lib(?:cuda|nvidia-ml)\.so\.(\d{3}\.\d+(?:\.\d+)?)")
_MODULE = re.compile(r"nvidia(?:-current)?\.ko(?:\.(?:gz|xz|zst))?")
_MODULE_FOLDERS = (
    "updates/dkms",
    "kernel/drivers/video",
    "kernel/nvidia",
    "extra",
    "extra/nvidia",
    "extramodules",
    "video",
)


def probe(machine: Machine) -> Iterator[Claim]:
    if machine.platform == "darwin":
        for name in FACTS:
            yield absent(name, Source("probe", "environment", "the platform"), "macOS has no NVIDIA driver")
        return
    if machine.platform != "linux":
        # Under Windows nvidia-smi, installed with the driver, is the witness.
        return
    modules = machine.read("/proc/modules")
    yield from _kernel_side(machine, modules)
    yield from _nouveau(machine, modules)
    yield from _user_side(machine, modules)


def _kernel_side(machine: Machine, modules: Reading) -> Iterator[Claim]:
    told = machine.read("/proc/driver/nvidia/version")
    if told.ok:
        yield from read_proc_driver_version(told.text, told.source)
    module = machine.read("/sys/module/nvidia/version")
    version = module.text.strip()
    if module.ok and re.fullmatch(r"\d+\.[\d.]+", version):
        yield present("driver.loaded", True, module.source)
        yield present("driver.kernel_version", version, module.source)
        yield present("driver.version", version, module.source)
        yield present("driver.branch", version.split(".", 1)[0], module.source)
    if told.ok or module.ok:
        return
    loaded, source = _is_loaded(machine, modules, "nvidia")
    kind = container_kind(machine)[0]
    if loaded:
        yield present("driver.loaded", True, source)
    elif loaded is None:
        yield unknown("driver.loaded", "the kernel's modules cannot be seen", source)
    elif is_wsl(machine):
        yield unknown("driver.loaded", "under WSL the kernel part of the driver is in Windows", source)
    elif kind:
        yield unknown("driver.loaded", f"a container ({kind}) need not show the modules of its host", source)
    else:
        yield present("driver.loaded", False, source)
        for name in ("driver.kernel_version", "driver.flavour"):
            yield absent(name, source, "the nvidia kernel module is not loaded")


def _is_loaded(machine: Machine, modules: Reading, name: str) -> tuple[bool | None, Source]:
    """Whether a kernel module is loaded (None: cannot be seen), and the witness."""
    if re.search(rf"^{name} ", modules.text, re.MULTILINE):
        return True, modules.source
    folder = machine.stat(f"/sys/module/{name}")
    if folder.ok:
        return True, folder.source
    if folder.missing and (machine.list("/sys").ok or modules.ok):
        return False, folder.source
    return (False, modules.source) if modules.ok and modules.text.strip() else (None, folder.source)


def _nouveau(machine: Machine, modules: Reading) -> Iterator[Claim]:
    loaded, source = _is_loaded(machine, modules, "nouveau")
    if loaded is None:
        yield unknown("nouveau.loaded", "the kernel's modules cannot be seen", source)
    elif not loaded and (kind := container_kind(machine)[0]):
        yield unknown("nouveau.loaded", f"a container ({kind}) need not show the modules of its host", source)
    else:
        yield present("nouveau.loaded", loaded, source)


def _user_side(machine: Machine, modules: Reading) -> Iterator[Claim]:
    version, witness, listed = _library(machine)
    if version:
        yield present("driver.library_version", version, witness)
    elif listed:
        yield absent("driver.library_version", witness, "libcuda.so is in none of the usual folders")
    if version is not None:
        yield present("driver.installed", True, witness)
        return
    tool = machine.which("nvidia-smi") or next((place for place in SMI_PLACES if machine.stat(place).ok), "")
    if tool:
        yield present("driver.installed", True, Source("probe", "file", file=tool))
        return
    loaded, source = _is_loaded(machine, modules, "nvidia")
    if loaded:
        yield present("driver.installed", True, source)
    elif module := _module_file(machine):
        yield present("driver.installed", True, Source("probe", "file", file=module))
    elif listed and (kind := container_kind(machine)[0]):
        yield unknown("driver.installed", f"a container ({kind}) need not show the driver of its host", witness)
    elif listed:
        yield present("driver.installed", False, witness)
    else:
        yield unknown("driver.installed", "the folders of libraries cannot be listed", witness)


def _library(machine: Machine) -> tuple[str | None, Source, bool]:
    """(version of the driver's libraries, witness, whether folders could be listed at all).

    The version is empty where there is a libcuda.so.1 without one, None where there is none.
    """
    listed, there = False, ""
    for folder in LIBRARY_FOLDERS:
        names = machine.list(folder)
        listed = listed or names.ok
        versions = {name: found[1] for name in names.names if (found := _LIBRARY.fullmatch(name))}
        if "libcuda.so.1" in names.names:
            there = there or f"{folder}/libcuda.so.1"
            # Old versions may lie beside the one in force: the link says which that is.
            target = machine.read_link(f"{folder}/libcuda.so.1").text.rsplit("/", 1)[-1]
            if found := _LIBRARY.fullmatch(target):
                return found[1], Source("probe", "file", file=f"{folder}/{target}"), True
        if versions:
            name = max(versions)
            return versions[name], Source("probe", "file", file=f"{folder}/{name}"), True
    return ("" if there else None), Source("probe", "file", file=there or LIBRARY_FOLDERS[0]), listed


def _module_file(machine: Machine) -> str:
    kernel = machine.read("/proc/sys/kernel/osrelease").text.strip()
    for folder in _MODULE_FOLDERS if kernel else ():
        path = f"/lib/modules/{kernel}/{folder}"
        for name in machine.list(path).names:
            if _MODULE.fullmatch(name):
                return f"{path}/{name}"
    return ""

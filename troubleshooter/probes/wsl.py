"""Inside WSL: the driver's files that Windows brings in, and a Linux driver that somebody installed beside them."""

import re
from collections.abc import Iterator

from ..machine import Machine
from ..model import Claim, Source, absent, present, unknown
from ..text import clean
from .system import is_wsl

NAME = "wsl"
FACTS = ("wsl.libraries", "wsl.gpu_device", "wsl.linux_driver")

_WINDOWS_FILES = "/usr/lib/wsl/lib"
_LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu")
_OWN_LIBRARY = re.compile(r"lib(?:cuda|nvidia-ml)\.so\.\d{3}\.\d+(?:\.\d+)?")
# libnvidia-compute-535:amd64.list · nvidia-driver-535.list · nvidia-dkms-535.list
_PACKAGE = re.compile(r"((?:libnvidia-compute|nvidia-driver|nvidia-dkms|nvidia-kernel-source)-\d+\S*?)(?::\w+)?\.list")


def probe(machine: Machine) -> Iterator[Claim]:
    source = Source("probe", "file", file=_WINDOWS_FILES)
    if not is_wsl(machine):
        kernel = machine.read("/proc/sys/kernel/osrelease")
        sure = kernel.ok or machine.platform != "linux"
        for name in FACTS:
            if sure:
                yield absent(name, source, "this is not WSL")
            else:
                yield unknown(name, "whether this is WSL is not known", source)
        return
    files = machine.list(_WINDOWS_FILES)
    if files.ok or files.missing:
        yield present("wsl.libraries", "libcuda.so.1" in files.names, files.source)
    device = machine.stat("/dev/dxg")
    if device.ok or device.missing:
        yield present("wsl.gpu_device", device.ok, device.source)
    yield _linux_driver(machine)


def _linux_driver(machine: Machine) -> Claim:
    found = []
    looked = False
    for folder in _LIBRARY_FOLDERS:
        listing = machine.list(folder)
        looked = looked or listing.ok
        found += [f"{folder}/{name}" for name in listing.names if _OWN_LIBRARY.fullmatch(name)]
    packages = machine.list("/var/lib/dpkg/info")
    found += [clean(match[1]) for name in packages.names if (match := _PACKAGE.fullmatch(name))]
    source = Source("probe", "file", file=packages.path if packages.ok else _LIBRARY_FOLDERS[0])
    if found:
        return present("wsl.linux_driver", tuple(found[:20]), source)
    if looked:
        return absent("wsl.linux_driver", source, "no file of a Linux driver lies where one would be installed")
    return unknown("wsl.linux_driver", "the folders of libraries cannot be listed", source)

"""lspci -n, lspci -nn: the NVIDIA controllers on the bus."""

import re
from collections.abc import Iterator

from ..model import Claim, Source, present
from .lines import at, lines_of

NVIDIA = "10de"
VENDORS = {"1002": "AMD", "8086": "Intel", "1a03": "ASPEED", "102b": "Matrox", "1234": "QEMU", "15ad": "VMware"}
DISPLAY_CLASSES = ("0300", "0301", "0302", "0380")
"""VGA, XGA, 3D and other display controllers."""

# 01:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD102 [GeForce RTX 4090] [10de:2684] (rev a1)
# 0000:01:00.0 0302: 10de:2335 (rev a1)
_DEVICE = re.compile(
    r"^[ \t]*(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])[ \t].*?"
    r"\[?\b(?P<kind>[0-9a-f]{4})\]?: .*?\[?\b(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]?",
    re.IGNORECASE,
)
_DRIVER = re.compile(r"^[ \t]+Kernel driver in use: (\S+)")


def read_lspci(text: str, source: Source) -> Iterator[Claim]:
    """The numbers must have been asked for (-n or -nn). Nothing is said where there is no NVIDIA device: the text may
    have been filtered.
    """
    devices: list[str] = []
    drivers: list[str] = []
    others: list[str] = []
    first, inside = 0, False
    for number, line in enumerate(lines_of(text)):
        if found := _DEVICE.match(line):
            inside = False
            if found["kind"].lower() not in DISPLAY_CLASSES:
                continue
            vendor = found["vendor"].lower()
            if vendor == NVIDIA:
                first = first or number
                inside = True
                devices.append(f"{found['address'].lower()} {NVIDIA}:{found['device'].lower()}")
            else:
                others.append(VENDORS.get(vendor, vendor))
        elif inside and (bound := _DRIVER.match(line)):
            drivers.append(bound[1])
    here = at(source, first)
    if devices:
        yield present("pci.nvidia_devices", tuple(devices), here)
        yield present("pci.nvidia_count", len(devices), here)
    if drivers:
        yield present("pci.nvidia_kernel_drivers", tuple(dict.fromkeys(drivers)), here)
    if others:
        yield present("pci.other_gpus", tuple(dict.fromkeys(others)), here)

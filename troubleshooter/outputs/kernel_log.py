"""The kernel's log (dmesg, journalctl -k): the lines of the NVIDIA driver since it was last loaded."""

import re
from collections.abc import Iterator

from ..model import Claim, Source, absent, present
from .lines import lines_of

# Who speaks, not what is said: the driver's own lines, and those of the kernel about it.
_OF_THE_DRIVER = re.compile(r"NVRM|\bnvidia|\bnouveau\b|\bnova(?:_core)?\b|nvswitch", re.IGNORECASE)
# NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024
_LOADING = re.compile(r"NVRM: loading NVIDIA UNIX")
# NVRM: Xid (PCI:0000:65:00): 79, pid=1234, GPU has fallen off the bus.
_XID = re.compile(r"NVRM: Xid \(PCI:(?P<address>[0-9a-fA-F:.]{4,16})\): (?P<number>\d{1,4})")
_LONGEST_EXCERPT = 400


def driver_lines(text: str) -> tuple[str, ...]:
    """The last lines that the driver, nouveau, or the kernel about them, wrote since nvidia's module was loaded.

    What stands before that was said by another module, perhaps one that has been replaced meanwhile.
    """
    found = [line for line in lines_of(text) if _OF_THE_DRIVER.search(line)]
    start = max((number for number, line in enumerate(found) if _LOADING.search(line)), default=0)
    return tuple(found[start:][-_LONGEST_EXCERPT:])


def read_kernel_log(lines: tuple[str, ...], source: Source, *, whole: bool) -> Iterator[Claim]:
    """`whole`: the log reaches back to the start of the machine, so that silence says something."""
    xids = [found for line in lines if (found := _XID.search(line))]
    if xids:
        yield present("kernel_log.xids", tuple(dict.fromkeys(found["number"] for found in xids)), source)
        addresses = tuple(dict.fromkeys(found["address"].lower() for found in xids))
        yield present("kernel_log.xid_addresses", addresses, source)
    elif whole:
        for name in ("kernel_log.xids", "kernel_log.xid_addresses"):
            yield absent(name, source, "the kernel's log has no Xid")
    complaints = [line for line in lines if "NVRM" in line and not _LOADING.search(line)]
    if whole and not complaints:
        yield present("kernel_log.gpu_error", "none", source)

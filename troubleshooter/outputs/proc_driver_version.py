"""/proc/driver/nvidia/version: the loaded kernel module, its version and which of the two it is."""

import re
from collections.abc import Iterator

from ..model import Claim, Source, present, unknown
from .lines import at, line_of

# NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023
# NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build  (builder@host)
# NVRM version: NVIDIA UNIX x86 Kernel Module  169.12  Thu Feb 14 17:53:07 PST 2008
# The text wraps in some pastes, so blanks may be a line end.
_LINE = re.compile(
    r"NVRM\s+version:\s+NVIDIA\s+UNIX\s+(?P<open>Open\s+)?(?:\S+\s+)?Kernel\s+Module(?:\s+for\s+\S+)?\s+"
    r"(?P<version>\d+\.\d[\d.]*)"
)


def read_proc_driver_version(text: str, source: Source) -> Iterator[Claim]:
    found = _LINE.search(text)
    if not found:
        yield unknown("driver.kernel_version", "the file's wording is not known", source)
        return
    source = at(source, line_of(text, found.start()))
    version = found["version"].rstrip(".")
    yield present("driver.loaded", True, source)
    yield present("driver.kernel_version", version, source)
    yield present("driver.version", version, source)
    yield present("driver.branch", version.split(".", 1)[0], source)
    yield present("driver.flavour", "open" if found["open"] else "proprietary", source)

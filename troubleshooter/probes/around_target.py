"""What an installation or a build in the target Python needs around it: room on its disk, and its headers."""

import os
import re
from collections.abc import Iterator

from ..machine import Machine
from ..model import Claim, Source, present, unknown
from .other_pythons import real_path, site_folders
from .resources import room


class AroundTarget:
    """A probe of one interpreter, which may be "" where there is none."""

    NAME = "around_target"
    FACTS = ("python.headers", "disk.target_free_mib")

    def __init__(self, python: str) -> None:
        self._python = python

    def probe(self, machine: Machine) -> Iterator[Claim]:
        if not self._python or machine.kind != "live":
            source = Source("probe", "file", "the folders of the target Python")
            for name in self.FACTS:
                yield unknown(name, "there is no target Python on this machine to look around", source)
            return
        if machine.platform == "win32":
            return
        yield self._headers(machine)
        there = (folder for folder in site_folders(machine, self._python) if machine.stat(folder).ok)
        if folder := next(there, ""):
            yield from room(machine, ((("", "disk.target_free_mib"), folder),))

    def _headers(self, machine: Machine) -> Claim:
        """Python.h lies with the interpreter that the environment was made from."""
        prefix = os.path.dirname(os.path.dirname(self._python))
        settings = machine.read(os.path.join(prefix, "pyvenv.cfg"), 65536)
        real = real_path(machine, self._python)
        bases = [os.path.dirname(os.path.dirname(real))]
        if home := re.search(r"^home[ \t]*=[ \t]*(\S.*)$", settings.text, re.MULTILINE):
            bases.insert(0, os.path.dirname(home[1].strip()))
        named = re.search(r"python(3\.\d+t?)$", os.path.basename(real))
        stated = re.search(r"^version(?:_info)?[ \t]*=[ \t]*(3\.\d+)", settings.text, re.MULTILINE)
        version = named[1] if named else stated[1] if stated else ""
        if not version:
            source = Source("probe", "file", file=real)
            return unknown("python.headers", "the version of the target is not told by its path", source)
        places = [os.path.join(base, "include", f"python{version}", "Python.h") for base in dict.fromkeys(bases)]
        stats = [machine.stat(place) for place in places]
        there = next((stat for stat in stats if stat.ok), stats[0])
        if there.ok or there.missing:
            return present("python.headers", there.ok, there.source)
        return unknown("python.headers", there.reason, there.source)

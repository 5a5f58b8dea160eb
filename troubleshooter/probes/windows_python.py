"""Windows: the Pythons that its launcher knows, and the placeholder of the Store that is none."""

from collections.abc import Iterator

from ..machine import Machine
from ..model import Claim, Source, absent, present, unknown
from ..outputs.py_launcher import read_py_launcher

NAME = "windows_python"
FACTS = ("windows.store_stub", "windows.python_launcher")


def probe(machine: Machine) -> Iterator[Claim]:
    if machine.platform != "win32":
        return
    yield _stub(machine)
    answer = machine.run(["py", "-0p"], 10)
    if answer.missing:
        yield absent("windows.python_launcher", answer.source, "the launcher py is not installed")
    elif answer.ending == "unknown":
        yield unknown("windows.python_launcher", answer.reason, answer.source)
    else:
        # Older launchers print the list to the error stream.
        yield from read_py_launcher(f"{answer.text}\n{answer.errors}", answer.source)


def _stub(machine: Machine) -> Claim:
    """A fresh Windows has files called python.exe and python3.exe that only name or open the Store. Once the Store's
    Python is installed, the very same files start it.
    """
    name = "windows.store_stub"
    path = machine.which("python")
    source = Source("probe", "environment", "PATH", path)
    if not path:
        return absent(name, source, "PATH finds no python at all")
    if "\\windowsapps\\" not in path.replace("/", "\\").lower():
        return absent(name, source, "the python on PATH is a program")
    answer = machine.run([path, "--version"], 10)
    if answer.ending == "unknown":
        return unknown(name, answer.reason, source)
    if "Python 3." in answer.text + answer.errors:
        return absent(name, source, "the Store's Python is installed")
    return present(name, path, source)

"""The tools that build extensions: the host's compilers, ninja and cmake."""

from collections.abc import Iterator

from ..machine import Machine
from ..model import Claim, absent, present, unknown
from ..outputs.tool_versions import tool_version

NAME = "build_tools"
TOOLS = ("gcc", "g++", "clang", "ninja", "cmake")
FACTS = tuple(f"tool.{name}" for name in TOOLS)
SECONDS = 5


def probe(machine: Machine) -> Iterator[Claim]:
    if machine.platform == "win32":
        return
    for name in TOOLS:
        fact = f"tool.{name}"
        # Where macOS lacks its developer tools, the compilers are there and open a window that offers to install them.
        if machine.platform == "darwin" and name in ("gcc", "g++", "clang"):
            continue
        answer = machine.run([name, "--version"], SECONDS)
        if answer.missing:
            yield absent(fact, answer.source, answer.reason)
        elif version := tool_version(answer.text):
            yield present(fact, version, answer.source)
        else:
            yield unknown(fact, answer.reason or "its answer has no version", answer.source)

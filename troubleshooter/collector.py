"""The collector as one file: the script `target/collect.py` with the other scripts of that folder written into it."""

import os
from collections.abc import Iterable

from .interpreter import SCRIPTS, START
from .privacy import NOTED_VARIABLES

CARRIED = (
    *("channel.py", "inspect_environment.py", "import_torch.py", "gpu_tests.py"),
    *("kit.py", "torch_tests.py", "memory_tests.py", "gpu_use.py"),
)
_CHILDREN = os.path.join(os.path.dirname(SCRIPTS), "probes", "children")


def collector_source(variables: Iterable[str] = ()) -> str:
    """Python source in ASCII, for 3.6 and later. `variables`: further names of the environment that may be noted."""
    allowed = sorted(NOTED_VARIABLES | {name.upper() for name in variables})
    filled = {
        "SCRIPTS = {}": f"SCRIPTS = {_written({name: _read(SCRIPTS, name) for name in CARRIED})}",
        "OWN = {}": f"OWN = {_written({name: _read(_CHILDREN, name) for name in _children()})}",
        'START = ""': f"START = {START!a}",
        "VARIABLES = []": f"VARIABLES = set({' '.join(allowed)!a}.split())",
    }
    lines = _read(SCRIPTS, "collect.py").split("\n")
    for place, line in enumerate(lines):
        for head, text in filled.items():
            if line == head or line.startswith(f"{head}  #"):
                lines[place] = text
    return "#!/usr/bin/env python3\n" + "\n".join(lines)


def _children() -> list[str]:
    """The scripts that ask a library of the driver in a process of its own."""
    names = sorted(os.listdir(_CHILDREN)) if os.path.isdir(_CHILDREN) else []
    return [name for name in names if name.startswith("ask_") and name.endswith(".py")]


def _read(folder: str, name: str) -> str:
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def _written(scripts: dict[str, str]) -> str:
    """A dictionary literal with a line of source to a line, so that a person can read what will run."""
    parts = []
    for name, text in scripts.items():
        rows = "\n".join(f"        {row!a}" for row in text.splitlines(keepends=True))
        parts.append(f"    {name!a}: (\n{rows}\n    ),\n")
    return "{\n" + "".join(parts) + "}"

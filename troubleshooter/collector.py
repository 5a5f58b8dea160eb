"""The collector as one file: the script `target/collect.py` with the other scripts of that folder written into it."""

import os
from collections.abc import Iterable

from .interpreter import SCRIPTS, START
from .privacy import KEPT_VARIABLES

CARRIED = ("channel.py", "inspect_environment.py", "import_torch.py", "gpu_tests.py")


def collector_source(variables: Iterable[str] = ()) -> str:
    """Python source in ASCII, for 3.6 and later. `variables`: further names of the environment that may be noted."""
    allowed = sorted(KEPT_VARIABLES | {name.upper() for name in variables})
    filled = {
        "SCRIPTS = {}": f"SCRIPTS = {_written({name: _read(name) for name in CARRIED})}",
        'START = ""': f"START = {START!a}",
        "VARIABLES = []": f"VARIABLES = set({' '.join(allowed)!a}.split())",
    }
    lines = _read("collect.py").split("\n")
    for place, line in enumerate(lines):
        for head, text in filled.items():
            if line == head or line.startswith(f"{head}  #"):
                lines[place] = text
    return "#!/usr/bin/env python3\n" + "\n".join(lines)


def _read(name: str) -> str:
    with open(os.path.join(SCRIPTS, name), encoding="utf-8") as file:
        return file.read()


def _written(scripts: dict[str, str]) -> str:
    """A dictionary literal with a line of source to a line, so that a person can read what will run."""
    parts = []
    for name, text in scripts.items():
        rows = "\n".join(f"        {row!a}" for row in text.splitlines(keepends=True))
        parts.append(f"    {name!a}: (\n{rows}\n    ),\n")
    return "{\n" + "".join(parts) + "}"

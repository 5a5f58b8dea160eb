"""Which Python a command runs, by what its words say."""

import os
import re
from collections.abc import Sequence

from .interpreter import interpreters_in
from .machine import Machine
from .processes import PYTHON

_WRAPPERS = ("env", "nohup", "nice", "time", "timeout", "stdbuf", "setsid", "srun", "mpirun", "mpiexec", "xvfb-run")
"""Programs that run the rest of their words."""


def interpreter_of(machine: Machine, argv: Sequence[str]) -> str:
    """The interpreter that the words of a command name; empty where they do not tell."""
    words = list(argv)
    for _ in range(6):
        if not words:
            return ""
        name = os.path.basename(words[0]).lower().removesuffix(".exe")
        if PYTHON.fullmatch(name) or name in ("py", "pypy3"):
            return _path_of(machine, words[0])
        if name in ("conda", "mamba", "micromamba") and "run" in words:
            return _of_conda(machine, words)
        if name in ("uv", "poetry", "pixi", "pipenv", "hatch", "pdm") and "run" in words:
            return _of_project(machine, name, words)
        if name not in _WRAPPERS:
            return _of_script(machine, words[0])
        words = _behind(words)
    return ""


def _behind(words: list[str]) -> list[str]:
    """Without the wrapper, its options, the variables that it sets and its bare numbers."""
    rest = words[1:]
    while rest and (rest[0].startswith("-") or "=" in rest[0] or re.fullmatch(r"[\d.]+[smhd]?", rest[0])):
        takes_a_value = rest[0] in ("-n", "-np", "-N", "-c", "-p", "-k", "-s", "-u")
        rest = rest[2:] if takes_a_value else rest[1:]
    return rest


def _path_of(machine: Machine, word: str) -> str:
    return os.path.abspath(word) if os.path.dirname(word) else machine.which(word)


def _of_script(machine: Machine, word: str) -> str:
    """What the first line of a script says: pip's scripts (torchrun, accelerate…) name their interpreter there."""
    path = _path_of(machine, word)
    if not path:
        return ""
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError:
        return ""
    if path.lower().endswith(".exe"):  # pip's programs of Windows lie beside their interpreter
        folder = os.path.dirname(path)
        beside = (os.path.join(folder, "python.exe"), os.path.join(os.path.dirname(folder), "python.exe"))
        return next((one for one in beside if os.path.isfile(one)), "")
    first = head.split(b"\n", 1)[0].decode("utf-8", "replace")
    if not first.startswith("#!"):
        return ""
    words = first[2:].split()
    if words and words[0] == "/bin/sh":  # a long path: '''exec' /very/long/python "$0" "$@"
        words = re.findall(r"^'''exec' \"?([^\"\n]+?)\"? \"\$0\"", head.decode("utf-8", "replace"), re.MULTILINE)
    if words and os.path.basename(words[0]) == "env":
        words = _behind(words)
    if not words or not PYTHON.fullmatch(os.path.basename(words[0])):
        return ""
    return _path_of(machine, words[0])


def _of_conda(machine: Machine, words: Sequence[str]) -> str:
    prefix = _option(words, "-p", "--prefix")
    name = _option(words, "-n", "--name")
    if not prefix and name:
        base = machine.environ.get("MAMBA_ROOT_PREFIX") or os.path.dirname(
            os.path.dirname(machine.environ.get("CONDA_EXE", "") or machine.which(words[0]))
        )
        folders = [os.path.join(base, "envs"), os.path.expanduser("~/.conda/envs")]
        folders += machine.environ.get("CONDA_ENVS_PATH", "").split(os.pathsep)
        prefix = base if name == "base" else next((os.path.join(one, name) for one in folders if _has(one, name)), "")
    return _inside(prefix or machine.environ.get("CONDA_PREFIX", ""))


def _of_project(machine: Machine, name: str, words: Sequence[str]) -> str:
    if python := _option(words, "-p", "--python"):
        return _path_of(machine, python) if os.path.exists(python) or machine.which(python) else ""
    if name in ("poetry", "pipenv"):
        question = ["poetry", "env", "info", "--path"] if name == "poetry" else ["pipenv", "--venv"]
        answer = machine.run(question, 20)
        told = answer.text.strip().splitlines()[-1:] if answer.ok else []
        if told and os.path.isdir(told[0]):
            return _inside(told[0])
    folder = os.getcwd()
    named = machine.environ.get("UV_PROJECT_ENVIRONMENT", "") if name == "uv" else ""
    while True:
        for inside in filter(None, (named, ".venv", ".pixi/envs/default")):
            if found := _inside(os.path.join(folder, inside)):
                return found
        parent = os.path.dirname(folder)
        if parent == folder:
            return _inside(machine.environ.get("VIRTUAL_ENV", ""))
        folder = parent


def _option(words: Sequence[str], *names: str) -> str:
    for place, word in enumerate(words):
        if word in names and place + 1 < len(words):
            return words[place + 1]
        for name in names:
            if word.startswith(f"{name}="):
                return word.removeprefix(f"{name}=")
    return ""


def _has(folder: str, name: str) -> bool:
    return bool(folder) and os.path.isdir(os.path.join(folder, name))


def _inside(prefix: str) -> str:
    return next((path for path in interpreters_in(prefix) if os.path.isfile(path)), "") if prefix else ""

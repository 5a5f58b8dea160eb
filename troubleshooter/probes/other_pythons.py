"""Other interpreters near at hand that have torch. Found by their folders alone: nothing of them is run."""

import json
import os
import re
from collections.abc import Iterable, Iterator

from ..interpreter import interpreters_in
from ..machine import Machine
from ..text import clean

MOST = 300
"""Folders of environments that are looked at; a shared machine may hold thousands."""

_VERSION = re.compile(r"""^__version__\b[^=]*=\s*['"]([^'"]+)""", re.MULTILINE)
_NEAR = (".venv", "venv", "env", ".conda")
_EMBEDDED = ("python_embeded", "python_embedded", "python", "system/python", "runtime")


def others_with_torch(machine: Machine, python: str, seen: Iterable[str]) -> list[str]:
    """`PATH (torch VERSION)` for each; `seen` are the site folders of the interpreter under diagnosis."""
    known = {os.path.normcase(root) for root in seen}
    found = []
    for path in dict.fromkeys(_candidates(machine)):
        if path == python or not machine.stat(path).ok:
            continue
        for root in site_folders(machine, path):
            place = os.path.normcase(root)
            if place in known:
                continue
            known.add(place)
            version = machine.read(os.path.join(root, "torch", "version.py"), 65536)
            if version.ok:
                stated = _VERSION.search(version.text)
                found.append(f"{clean(path)} (torch {clean(stated[1]) if stated else 'of unknown version'})")
    return found


def _candidates(machine: Machine) -> Iterator[str]:
    """Interpreters of the working folder, of the active environment, on PATH, of each manager, of Jupyter's kernels."""
    environ = machine.environ
    try:
        here = os.getcwd()
    except OSError:  # the working folder has been removed
        here = ""
    folders = [os.path.join(here, name) for name in _NEAR] if here else []
    # ComfyUI's portable folder and its like carry a Python of their own, beside or above the program.
    for above in (here, os.path.dirname(here)) if here else ():
        folders += [os.path.join(above, name) for name in _EMBEDDED]
        folders += [os.path.join(above, name) for name in _NEAR if above != here]
    folders += [environ.get("VIRTUAL_ENV", ""), environ.get("CONDA_PREFIX", "")]
    for folder in filter(None, folders):
        yield from _first(machine, folder)
    for folder in environ.get("PATH", "").split(os.pathsep)[:100]:
        if folder:
            inside = interpreters_in(os.path.dirname(folder.rstrip("/\\")))
            yield from (path for path in inside if os.path.dirname(path) == folder)
    for folder in list(_managed(machine))[:MOST]:
        yield from _first(machine, folder)
    yield from _kernels(machine)


def _first(machine: Machine, folder: str) -> Iterator[str]:
    """Environments have their interpreter under several names: one is enough."""
    yield from [path for path in interpreters_in(folder) if machine.stat(path).ok][:1]


def _managed(machine: Machine) -> Iterator[str]:
    """Folders of environments and interpreters that conda, pyenv, uv, pipx and virtualenvwrapper keep."""
    environ = machine.environ
    home = environ.get("HOME") or environ.get("USERPROFILE") or ""
    data = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    tops = [
        environ.get("WORKON_HOME", ""),
        os.path.join(environ.get("PYENV_ROOT") or os.path.join(home, ".pyenv"), "versions"),
    ]
    tops += [
        environ.get("UV_PYTHON_INSTALL_DIR") or os.path.join(data, "uv", "python"),
        os.path.join(data, "uv", "tools"),
    ]
    tops += [os.path.join(home, ".virtualenvs"), os.path.join(data, "virtualenvs"), os.path.join(data, "pipx", "venvs")]
    tops += [os.path.join(home, ".cache", "pypoetry", "virtualenvs")]
    bases = [
        environ.get("CONDA_ROOT", ""),
        os.path.dirname(os.path.dirname(environ.get("CONDA_EXE", ""))),
        "/opt/conda",
    ]
    bases += [
        os.path.join(home, name) for name in ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba")
    ]
    for base in dict.fromkeys(filter(os.path.isabs, bases)):
        yield base
        tops.append(os.path.join(base, "envs"))
    listed = machine.read(os.path.join(home, ".conda", "environments.txt"), 256 * 1024)
    yield from (line.strip() for line in listed.text.splitlines() if os.path.isabs(line.strip()))
    for top in dict.fromkeys(filter(os.path.isabs, tops)):
        yield from (os.path.join(top, name) for name in machine.list(top).names if not name.startswith("."))


def _kernels(machine: Machine) -> Iterator[str]:
    """The interpreters that Jupyter's kernels start: {"argv": ["/opt/env/bin/python", "-m", "ipykernel_launcher"]}"""
    home = machine.environ.get("HOME") or machine.environ.get("USERPROFILE") or ""
    tops = [os.path.join(home, ".local", "share", "jupyter"), "/usr/local/share/jupyter", "/usr/share/jupyter"]
    tops += machine.environ.get("JUPYTER_PATH", "").split(os.pathsep)
    if roaming := machine.environ.get("APPDATA"):
        tops.append(os.path.join(roaming, "jupyter"))
    for top in filter(os.path.isabs, tops):
        kernels = os.path.join(top, "kernels")
        for name in machine.list(kernels).names[:50]:
            told = machine.read(os.path.join(kernels, name, "kernel.json"), 65536)
            try:
                argv = json.loads(told.text).get("argv") if told.ok else None
            except (ValueError, AttributeError, RecursionError):
                continue
            if isinstance(argv, list) and argv and isinstance(argv[0], str) and os.path.isabs(argv[0]):
                yield argv[0]


def site_folders(machine: Machine, python: str) -> list[str]:
    """Where packages of an interpreter may lie, told from its path."""
    prefixes = [os.path.dirname(os.path.dirname(python)), os.path.dirname(python)]
    if not machine.stat(os.path.join(prefixes[0], "pyvenv.cfg")).ok:
        prefixes.append(os.path.dirname(os.path.dirname(real_path(machine, python))))
    folders = []
    for prefix in dict.fromkeys(prefixes):
        folders.append(os.path.join(prefix, "Lib", "site-packages"))
        for library in ("lib", "lib64"):
            names = machine.list(os.path.join(prefix, library)).names
            for version in (entry for entry in names if re.fullmatch(r"python3(\.\d+)?t?", entry)):
                folders += [os.path.join(prefix, library, version, site) for site in ("site-packages", "dist-packages")]
    return folders


def real_path(machine: Machine, path: str) -> str:
    """Where the links of a file lead, the last part of the path only."""
    for _ in range(8):
        link = machine.read_link(path)
        if not link.ok:
            break
        path = os.path.normpath(os.path.join(os.path.dirname(path), link.text))
    return path

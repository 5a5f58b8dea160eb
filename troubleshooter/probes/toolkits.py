"""Every CUDA toolkit on the machine, and which of them a build would take. Files only."""

import posixpath
import re
from collections.abc import Iterator

from ..machine import Machine
from ..model import Claim, Source, absent, present, unknown
from ..outputs.cuda_version_file import toolkit_version
from ..text import clean

NAME = "toolkits"
FACTS = (
    "toolkit.folders",
    "toolkit.versions",
    "toolkit.home",
    "toolkit.home_from",
    "toolkit.home_version",
    "toolkit.home_has_nvcc",
)

_PLACES = ("/usr/local", "/opt", "/usr/lib")
_NAMED = re.compile(r"cuda(?:-\d+(?:\.\d+)?)?")
_VERSION_FILES = ("version.json", "version.txt", "include/cuda.h", "targets/x86_64-linux/include/cuda.h")


def probe(machine: Machine) -> Iterator[Claim]:
    if machine.platform != "linux":
        return
    source = Source("probe", "file", "folders of CUDA toolkits")
    versions: dict[str, str] = {}
    listed = any(one.ok or one.missing for one in map(machine.list, _PLACES))
    for folder in _candidates(machine):
        top = machine.list(folder)
        if not top.ok or not {"bin", "include", "lib64", "version.json", "nvvm"} & set(top.names):
            continue
        real = _real(machine, folder)
        version = _version(machine, folder)
        # /usr and an environment's folder count only if they hold a toolkit.
        if version and real not in versions:
            versions[real] = version
    if versions:
        yield present("toolkit.folders", tuple(f"{v} {clean(f)}" for f, v in versions.items()), source)
        yield present("toolkit.versions", tuple(dict.fromkeys(versions.values())), source)
    elif listed:
        yield absent("toolkit.folders", source, "no folder of a CUDA toolkit is in the usual places")
        yield absent("toolkit.versions", source, "no folder of a CUDA toolkit is in the usual places")
    yield from _home(machine, listed)


def _candidates(machine: Machine) -> list[str]:
    environ = machine.environ
    found = [environ.get("CUDA_HOME", ""), environ.get("CUDA_PATH", "")]
    for place in _PLACES:
        found += [f"{place}/{name}" for name in machine.list(place).names if _NAMED.fullmatch(name)]
    for folder in environ.get("PATH", "").split(":")[:100]:
        if "nvcc" in machine.list(folder).names if folder.startswith("/") else False:
            found.append(posixpath.dirname(folder.rstrip("/")))
    found.append(environ.get("CONDA_PREFIX", ""))
    return [folder for folder in dict.fromkeys(one.rstrip("/") for one in found) if folder.startswith("/")]


def _real(machine: Machine, folder: str) -> str:
    """/usr/local/cuda → /etc/alternatives/cuda → /usr/local/cuda-12.4"""
    for _ in range(8):
        link = machine.read_link(folder)
        if not link.ok:
            break
        folder = posixpath.normpath(posixpath.join(posixpath.dirname(folder), link.text))
    return folder


def _version(machine: Machine, folder: str) -> str:
    for name in _VERSION_FILES:
        if version := toolkit_version(machine.read(f"{folder}/{name}", 256 * 1024).text):
            return version
    return ""


def _home(machine: Machine, listed: bool) -> Iterator[Claim]:
    """The folder that torch's builder of extensions takes: a variable, else the nvcc on PATH, else /usr/local/cuda."""
    environ = machine.environ
    home = origin = ""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if environ.get(variable):
            home, origin = environ[variable], variable
            break
    if not home and (nvcc := machine.which("nvcc")):
        home, origin = posixpath.dirname(posixpath.dirname(nvcc)), "PATH"
    if not home and machine.stat("/usr/local/cuda").ok:
        home, origin = "/usr/local/cuda", "default"
    names = ("toolkit.home", "toolkit.home_from", "toolkit.home_version", "toolkit.home_has_nvcc")
    source = Source("probe", "environment" if origin.startswith("CUDA") else "file", origin, home)
    if not home:
        if listed:
            for name in names:
                yield absent(name, source, "no variable, no nvcc on PATH and no /usr/local/cuda names a toolkit")
        return
    yield present("toolkit.home", clean(home), source)
    yield present("toolkit.home_from", origin, source)
    if version := _version(machine, home.rstrip("/")):
        yield present("toolkit.home_version", version, source)
    else:
        yield unknown("toolkit.home_version", f"{clean(home)} does not say which CUDA it holds", source)
    compiler = machine.stat(f"{home.rstrip('/')}/bin/nvcc")
    if compiler.ok or compiler.missing:
        yield present("toolkit.home_has_nvcc", compiler.ok, compiler.source)

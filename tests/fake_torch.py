"""Builds target Pythons for tests: a venv whose torch is what the test says, in any interpreter that is found."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

VERSIONS = ("3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13")

# A torch of attributes alone, without tensors.
ATTRIBUTES = """
from . import version
__version__ = version.__version__

class cuda:
    @staticmethod
    def is_available():
        return {available!r}

    @staticmethod
    def device_count():
        return {count}

    @staticmethod
    def get_arch_list():
        return {archs!r}

    @staticmethod
    def get_device_name(index=0):
        return {devices!r}[index][0]

    @staticmethod
    def get_device_capability(index=0):
        return {devices!r}[index][1]
"""


def interpreters() -> dict[str, str]:
    """The Pythons on PATH (and this one) that really run, by version: a name may be a shim without a Python behind."""
    found = {"%d.%d" % sys.version_info[:2]: sys.executable}
    folders = os.environ.get("PATH", "").split(os.pathsep)
    # pyenv keeps each version in a folder of its own.
    if pyenv := os.environ.get("PYENV_ROOT"):
        folders += [str(path / "bin") for path in sorted((Path(pyenv) / "versions").glob("*"))]
    for version in VERSIONS:
        for folder in folders:
            path = shutil.which(f"python{version}", path=folder)
            if version not in found and path and _answers(path, version):
                found[version] = path
    return found


def _answers(path: str, version: str) -> bool:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return f"Python {version}." in (done.stdout + done.stderr).decode(errors="replace")


def attributes(
    available=True, archs=("sm_80", "sm_86", "sm_90"), devices=(("NVIDIA GeForce RTX 3090", (8, 6)),)
) -> str:
    count = len(devices) if available else 0
    return ATTRIBUTES.format(available=available, archs=list(archs), devices=list(devices), count=count)


def version_file(version="2.5.1+cu124", cuda="12.4", hip=None) -> str:
    return f"__version__ = {version!r}\ndebug = False\ncuda = {cuda!r}\ngit_version = 'abc'\nhip = {hip!r}\n"


def make_venv(folder: Path, interpreter: str = sys.executable) -> Path:
    """An empty venv without pip; its interpreter."""
    where = subprocess.run(
        [
            interpreter,
            "-c",
            "import sys, os; print(os.path.realpath(sys.executable)); print('%d.%d' % sys.version_info[:2])",
        ],
        capture_output=True,
        check=True,
        text=True,
    ).stdout.split("\n")
    if os.name == "nt":
        subprocess.run([interpreter, "-m", "venv", "--without-pip", str(folder)], check=True)
        return folder / "Scripts" / "python.exe"
    (folder / "bin").mkdir(parents=True)
    site_packages(folder, where[1]).mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(where[0])
    (folder / "pyvenv.cfg").write_text(f"home = {os.path.dirname(where[0])}\ninclude-system-site-packages = false\n")
    return folder / "bin" / "python"


def site_packages(folder: Path, version: str = "") -> Path:
    if os.name == "nt":
        return folder / "Lib" / "site-packages"
    if version:
        return folder / "lib" / f"python{version}" / "site-packages"
    return next((folder / "lib").glob("python*/site-packages"))


def install(site: Path, name: str, version: str, files: dict[str, str] | None = None) -> None:
    """A distribution as pip lays it out; `files` are texts by path."""
    info = site / f"{re.sub('[-.]', '_', name)}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: not this\n")
    (info / "INSTALLER").write_text("pip\n")
    for path, text in (files or {}).items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text, encoding="utf-8")


def make_target(
    folder: Path,
    torch: str | None = None,
    *,
    version: str = "2.5.1+cu124",
    cuda: str | None = "12.4",
    hip: str | None = None,
    others: dict[str, str] | None = None,
    sitecustomize: str = "",
    interpreter: str = sys.executable,
) -> str:
    """A venv with a torch whose __init__.py is `torch` (by default a healthy one of attributes); its interpreter."""
    python = make_venv(folder, interpreter)
    site = site_packages(folder)
    source = attributes() if torch is None else torch
    files = {"torch/__init__.py": source, "torch/version.py": version_file(version, cuda, hip)}
    install(site, "torch", version, files)
    for name, other in (others or {}).items():
        install(site, name, other)
    if sitecustomize:
        (site / "sitecustomize.py").write_text(sitecustomize)
    return str(python)


def by_hand(python: str, script: Path, *arguments: str, nonce: str = "n0nce", cwd: Path | None = None) -> list[dict]:
    """The events of a script, run without any of the package's own code but the script."""
    start = "import sys; exec(compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec'))"
    done = subprocess.run(
        [python, "-c", start, str(script.parent / "channel.py"), nonce, str(script), *arguments],
        capture_output=True,
        timeout=60,
        check=False,
        cwd=cwd,
    )
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return [json.loads(line.partition(nonce + " ")[2]) for line in lines if line.startswith(nonce + " ")]

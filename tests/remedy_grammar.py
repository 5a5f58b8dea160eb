"""The documented words of the programs that remedies call: what each takes, so that a command can be read as it would.

A command has options (`=` at the end: takes a value), and from `least` to `most` arguments stand beside them. As the
programs' manuals describe them, and only what remedies use.
"""

from collections.abc import Sequence
from typing import NamedTuple

MANY = 99


class Command(NamedTuple):
    options: tuple[str, ...] = ()
    least: int = 0
    most: int = MANY
    hands_on: bool = False
    """What comes after the least number of arguments belongs to another program."""


_CONDA_INSTALL = Command(("--yes", "--prefix=", "--name=", "--channel=", "--override-channels", "--force-reinstall"), 1)
_CONDA = {
    "install": _CONDA_INSTALL,
    "create": Command(("--yes", "--prefix=", "--name=", "--channel=", "--override-channels"), 0),
    "clean": Command(("--all", "--yes"), 0, 0),
    "list": Command(("--prefix=", "--name="), 0, 1),
    "env config vars set": Command(("--prefix=", "--name="), 1),
    "env config vars unset": Command(("--prefix=", "--name="), 1),
}
_UV_TARGET = ("--python=", "--system")
_UV_INSTALL = (
    *_UV_TARGET, "--index-url=", "--extra-index-url=", "--index-strategy=", "--reinstall", "--reinstall-package=",
    "--refresh", "--upgrade", "--no-deps", "--no-build-isolation", "--no-cache",
)  # fmt: skip

GRAMMAR: dict[str, dict[str, Command]] = {
    "conda": _CONDA,
    "mamba": {name: _CONDA[name] for name in ("install", "create", "clean", "list")},
    "micromamba": {name: _CONDA[name] for name in ("install", "create", "clean", "list")},
    "pixi": {
        "add": Command(("--pypi", "--index=", "--feature=", "--platform="), 1),
        "remove": Command(("--pypi", "--feature=", "--platform="), 1),
        "upgrade": Command((), 0),
        "reinstall": Command(("--environment=",), 0),
        "init": Command(("--channel=",), 0, 1),
        "list": Command((), 0, 1),
        "clean cache": Command(("--yes",), 0, 0),
        "self-update": Command(("--version=",), 0, 0),
    },
    "poetry": {
        "add": Command(("--source=", "--group=", "--optional"), 1),
        "remove": Command(("--group=",), 1),
        "update": Command(("--lock",), 0),
        "install": Command(("--no-cache", "--sync"), 0, 0),
        "show": Command((), 0, 1),
        "check": Command(("--lock",), 0, 0),
        "new": Command(("--name=",), 1, 1),
        "source add": Command(("--priority=",), 1, 2),
        "env remove": Command(("--all",), 0),
        "cache clear": Command(("--all",), 1, 1),
        "self update": Command((), 0, 1),
        "run": Command((), 1, hands_on=True),
    },
    "uv": {
        "pip install": Command(_UV_INSTALL, 1),
        "pip uninstall": Command(_UV_TARGET, 1),
        "pip list": Command(_UV_TARGET, 0, 0),
        "pip check": Command(_UV_TARGET, 0, 0),
        "venv": Command(("--python=",), 0, 1),
        "cache clean": Command((), 0),
        "self update": Command((), 0, 1),
    },
    "apt-get": {
        "install": Command(("-y", "--only-upgrade"), 1),
        "update": Command((), 0, 0),
        "purge": Command(("-y",), 1),
    },
    "apt-mark": {"hold": Command((), 1)},
    "ubuntu-drivers": {"install": Command((), 0, 1)},
    "dnf": {
        "install": Command(("-y",), 1),
        "upgrade": Command(("-y", "--refresh"), 0),
        "module install": Command(("-y",), 1),
    },
    "pacman": {"-S": Command(("--needed",), 1), "-Syu": Command(("--needed",), 0)},
    "mhwd": {"-a": Command((), 3, 3)},
    "zypper": {"install": Command((), 1), "update": Command((), 0)},
    "docker": {"run": Command(("--rm", "--gpus=", "--shm-size="), 1, hands_on=True)},
    "podman": {"run": Command(("--rm", "--device="), 1, hands_on=True)},
    "systemctl": {"reboot": Command((), 0, 0), "enable": Command(("--now",), 1), "restart": Command((), 1)},
    "modprobe": {"": Command((), 1, 1)},
    "rmmod": {"": Command((), 1)},
    "dkms": {"autoinstall": Command((), 0, 0)},
    "akmods": {"": Command(("--force",), 0, 0)},
    "update-initramfs": {"": Command(("-u",), 0, 0)},
    "dracut": {"": Command(("--force",), 0, 0)},
    "mkinitcpio": {"": Command(("-P",), 0, 0)},
    "mokutil": {"": Command(("--import=",), 0, 0)},
    "nvidia-modprobe": {"": Command(("-u", "-c="), 0, 0)},
    "nvidia-ctk": {
        "runtime configure": Command(("--runtime=",), 0, 0),
        "system create-dev-char-symlinks": Command(("--create-all",), 0, 0),
    },
    "nvidia-smi": {
        "mig": Command(("-lgip",), 0, 0),
        "": Command(("-L", "-q", "-d=", "-c=", "--query-gpu=", "--query-compute-apps=", "--format="), 0, 0),
    },
    "dcgmi": {"diag": Command(("-r=",), 0, 0)},
    "nvidia-bug-report.sh": {"": Command((), 0, 0)},
    "dmesg": {"": Command(("-T",), 0, 0)},
    "srun": {"": Command(("--gres=",), 1, hands_on=True)},
    "bsub": {"": Command(("-I", "-gpu="), 1, hands_on=True)},
    "qsub": {"": Command(("-I", "-l="), 0, 0)},
    "ldconfig": {"": Command(("-p",), 0, 0)},
    "sh": {"": Command(("-c=",), 0, 0)},
    "find": {"": Command(("-maxdepth=", "-name=", "-ls"), 1, 1)},
    "grep": {"": Command(("-m=", "-o", "-rn"), 2)},
    "df": {"": Command(("-h",), 0)},
    "ldd": {"": Command(("--version",), 0, 0)},
    "ip": {"": Command(("-br",), 1, 2)},
    "ss": {"": Command(("-ltnp",), 0, 0)},
    "netstat": {"": Command(("-ano",), 0, 0)},
    "winget": {"install": Command(("--id=", "--exact", "--version="), 0, 0)},
    "wsl": {"": Command(("--install", "--update", "--shutdown"), 0, 0)},
    "wsl.exe": {"": Command(("--install", "--update", "--shutdown"), 0, 0)},
    "where.exe": {"": Command(("/R=",), 1)},
    "tasklist": {"": Command(("/m=",), 0, 0)},
    "reg": {"add": Command(("/v=", "/t=", "/d=", "/f"), 1, 1), "delete": Command(("/v=", "/f"), 1, 1)},
    "shutdown": {"": Command(("/r", "/t="), 0, 0)},
    "py": {"": Command(("-0p",), 0, 0), "-m venv": Command((), 1, 1)},
    "pip": {"": Command(("--version",), 0, 0)},
}  # fmt: skip


def misread(argv: Sequence[str]) -> str:
    """What the program would refuse, or nothing."""
    words = list(argv)
    if words[0] == "sudo":
        words = words[1:]
    program, *rest = words
    commands = GRAMMAR.get(program)
    if commands is None:
        return f"{program} is not in the grammar"
    for name in sorted(commands, key=lambda name: -len(name)):
        lead = name.split()
        if rest[: len(lead)] == lead:
            return _refused(rest[len(lead) :], commands[name])
    return f"{program} has no such command: {' '.join(rest)}"


def _refused(rest: Sequence[str], command: Command) -> str:
    beside, at = 0, 0
    while at < len(rest) and not (command.hands_on and beside == command.least):
        word = rest[at]
        name, sign, _ = word.partition("=")
        if f"{name}=" in command.options:
            at += 1 if sign else 2
            if at > len(rest):
                return f"{name} needs a value"
        elif word in command.options:
            at += 1
        elif word.startswith("-") and len(word) > 1:
            return f"unknown option {word}"
        else:
            beside, at = beside + 1, at + 1
    return (
        "" if command.least <= beside <= command.most else f"{beside} arguments, not {command.least} to {command.most}"
    )

"""Every remedy of every article, on every system, in every shell, for every manager: whether its commands can be read.

bash and PowerShell are asked for their own opinion, pip and uv for theirs; the other programs are stood in for by one
that writes down what it was given, and their documented grammar is in remedy_grammar.py.
"""

import functools
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.remedy_grammar import GRAMMAR, misread
from tests.test_shells import as_cmd_reads
from troubleshooter.knowledge import load
from troubleshooter.knowledge.wheels import wrong_wheels
from troubleshooter.model import HOST, Diagnosis, Knowledge, Remedy, Source, Step, Value, present
from troubleshooter.prescribe import prescribe
from troubleshooter.settle import Facts, settle

GPU = "gpu:0"
MANAGERS = ("pip", "uv", "conda", "mamba", "micromamba", "poetry", "pixi")
POSIX = "/home/jö o'neil & $HOME/v env/bin/python"
WINDOWS = "C:\\Users\\Jo O'Neil & Söhne (x86)\\v env\\Scripts\\python.exe"
PLAN: dict[str, Value] = {
    "plan.torch": "2.9.1", "plan.tag": "cu126", "plan.index_url": "https://download.pytorch.org/whl/cu126",
    "plan.torchvision": "0.24.1", "plan.torchaudio": "2.9.1",
}  # fmt: skip
TARGET: dict[str, Value] = {
    "torch.version": "2.6.0+cu124", "torch.tag": "cu124", "torch.build": "cuda", "torch.cuda": "12.4",
    "torchaudio.version": "2.6.0", "python.version": "3.11.9", "driver.flavour": "proprietary", "driver.branch": "550",
    "gpu.capability": "7.0", "gpu.last_driver": "580", "gpu.mig": True, "gpu.mig_devices": 0, "vllm.version": "0.9.0",
}  # fmt: skip
LINUX: dict[str, Value] = {"os.family": "linux", "os.architecture": "x86_64", "python.path": POSIX, "python.prefix": "/home/jö o'neil & $HOME/v env"}  # fmt: skip
ON_WINDOWS: dict[str, Value] = {"os.family": "windows", "os.architecture": "AMD64", "python.path": WINDOWS, "python.prefix": WINDOWS.rsplit("\\", 2)[0]}  # fmt: skip
MIRROR: dict[str, Value] = {"pip.index_url": "https://mirror.example/pypi/simple", "uv.index_url": "https://mirror.example/pypi/simple"}  # fmt: skip

PLACES: dict[str, dict[str, Value]] = {
    "ubuntu": {**LINUX, "os.distribution": "ubuntu"},
    "debian": {**LINUX, "os.distribution": "debian"},
    "fedora": {**LINUX, "os.distribution": "fedora"},
    "rhel": {**LINUX, "os.distribution": "rhel"},
    "arch": {**LINUX, "os.distribution": "arch"},
    "suse": {**LINUX, "os.distribution": "opensuse-leap"},
    "docker": {**LINUX, "os.distribution": "ubuntu", "container.kind": "docker"},
    "podman": {**LINUX, "os.distribution": "fedora", "container.kind": "podman"},
    "slurm": {**LINUX, "os.distribution": "rocky", "job.scheduler": "slurm"},
    "colab": {**LINUX, "os.distribution": "ubuntu", "cloud.name": "colab"},
    "mirror": {**LINUX, "os.distribution": "ubuntu", **MIRROR},
    "mirror of pypi's build": {**LINUX, "os.distribution": "ubuntu", **MIRROR, "plan.tag": "cu128",
                               "plan.index_url": "https://download.pytorch.org/whl/cu128"},
    "wsl": {**LINUX, "os.family": "wsl", "os.distribution": "ubuntu"},
    "powershell": {**ON_WINDOWS, "shell.name": "powershell"},
    "cmd": {**ON_WINDOWS, "shell.name": "cmd"},
    "portable": {**ON_WINDOWS, "python.environment": "embedded",
                 "python.path": "D:\\ComfyUI portable\\python_embeded\\python.exe"},
    "macos": {**LINUX, "os.family": "macos", "os.architecture": "arm64"},
}  # fmt: skip
ONLY_PIP = ("portable", "colab")
LINUX_ONLY_WORDS = {"sudo", "apt-get", "dnf", "pacman", "zypper", "modprobe", "sh", "bash", "grep", "find", "systemctl"}


class Cell(NamedTuple):
    place: str
    manager: str
    cause: str
    remedy: Remedy


@functools.cache
def knowledge() -> Knowledge:
    return load()


def remedies_of(cause: str, stated: dict[str, Value]) -> tuple[Remedy, ...]:
    return prescribe([found(cause)], known(stated), knowledge())[0].remedies


def found(cause: str) -> Diagnosis:
    area = knowledge().articles[cause].area
    return Diagnosis(cause, GPU, 0.9, "blocking", area, "common", "", "", ())


def known(stated: dict[str, Value]) -> Facts:
    catalogue = knowledge().facts
    return settle(
        [
            present(name, value, Source("set", "set"), GPU if catalogue[name].subject == "gpu" else HOST)
            for name, value in stated.items()
        ],
        catalogue,
    )


@functools.cache
def cells() -> tuple[Cell, ...]:
    return tuple(_cells())


def _cells() -> Iterator[Cell]:
    for place, stated in PLACES.items():
        for manager in ("pip",) if place in ONLY_PIP else MANAGERS:
            told = {**PLAN, **TARGET, "python.manager": manager, **stated}
            if manager in ("mamba", "micromamba"):
                told["torch.installers"] = ("conda",)
            causes = [found(cause) for cause in knowledge().articles]
            for one in prescribe(causes, known(told), knowledge()):
                for remedy in one.remedies:
                    yield Cell(place, manager, one.id, remedy)


def steps(kind: str = "", shell: str = "") -> dict[str, Step]:
    """Each different text of a step, once."""
    return {
        step.shell_text: step
        for cell in cells()
        for step in cell.remedy.steps
        if step.shell_text and step.kind in (kind or step.kind) and step.shell == (shell or step.shell)
    }


def test_there_are_cells_for_every_system_shell_manager_and_cause() -> None:
    run = {
        (cell.place, step.shell, cell.manager, cell.cause)
        for cell in cells()
        for step in cell.remedy.steps
        if step.shell_text
    }
    assert len(run) >= 300
    assert {cell[0] for cell in run} == set(PLACES)
    assert {cell[1] for cell in run} == {"bash", "powershell", "cmd"}
    assert {cell[2] for cell in run} == set(MANAGERS)
    managed = {step.argv[:2] for cell in cells() for step in cell.remedy.steps if step.manager}
    assert {argv[0] for argv in managed} >= {"uv", "conda", "mamba", "micromamba", "poetry", "pixi", POSIX, WINDOWS}


def test_every_cause_has_something_to_offer_everywhere() -> None:
    offered = {(cell.place, cell.manager, cell.cause) for cell in cells()}
    for place in PLACES:
        for manager in ("pip",) if place in ONLY_PIP else MANAGERS:
            lacking = [
                cause
                for cause in knowledge().articles
                # LD_LIBRARY_PATH and PATH do not lead macOS to libraries.
                if (place, manager, cause) not in offered and (place, cause) != ("macos", "library-path-pollution")
            ]
            assert lacking == [], (place, manager)


@pytest.mark.parametrize("stated", [{}, {"os.family": "linux"}, {"os.family": "windows"}, {"torch.version": "2.6.0+cpu"}])  # fmt: skip
def test_something_is_offered_where_next_to_nothing_is_known(stated: dict[str, Value]) -> None:
    for cause in knowledge().articles:
        assert remedies_of(cause, stated), cause


def test_what_a_program_can_run_is_a_command_for_most_causes() -> None:
    run = {cell.cause for cell in cells() if any(step.shell_text for step in cell.remedy.steps)}
    assert len(run) >= 0.85 * len(knowledge().articles), sorted(set(knowledge().articles) - run)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of programs that write down what they were given, each argument ended by NUL, each call by a line end."""
    folder = tmp_path_factory.mktemp("stand in")
    for name in (*GRAMMAR, "sudo", "python", "python3", "py"):
        program = folder / name
        program.write_text('#!/bin/sh\n{ printf "%s\\0" "${0##*/}" "$@"; printf "\\1"; } >> "$RECORD"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def test_bash_hands_every_argument_on_as_it_was_meant(recorded: Path, tmp_path: Path) -> None:
    told = list(steps("run", "bash").values())
    own = tmp_path / "jö o'neil & $HOME"
    own.mkdir()
    shutil.copy(recorded / "python", own / "python")
    python = str(own / "python")
    texts = [step.shell_text.replace(shlex.quote(POSIX), shlex.quote(python)) for step in told]
    script = tmp_path / "all.sh"
    script.write_text("\n".join(texts) + "\n", encoding="utf-8")
    subprocess.run(["bash", "-n", str(script)], check=True)
    record = tmp_path / "record"
    environment = {"PATH": str(recorded), "RECORD": str(record), "HOME": str(tmp_path)}
    subprocess.run([shutil.which("bash") or "bash", str(script)], env=environment, check=True, timeout=60)
    calls = [call.split("\0")[:-1] for call in record.read_text(encoding="utf-8").split("\1")[:-1]]
    meant = [[word.replace(POSIX, python) for word in step.argv] for step in told]
    assert calls == [["python" if first == python else first, *rest] for first, *rest in meant]
    assert len(calls) > 100


def test_bash_reads_every_line_alone() -> None:
    for text in steps(shell="bash"):
        done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), text


def test_bash_sets_and_removes_what_is_said(tmp_path: Path) -> None:
    told = [step for step in steps("set-env", "bash").values() if not step.persist]
    assert len(told) > 20
    for step in told:
        names = [name for name, _ in step.env]
        shown = "\n".join(f'printf "%s\\0" "${{{name}-not set}}"' for name in names)
        environment = {"PATH": os.environ["PATH"], **dict.fromkeys(names, "before")}
        environment.pop("LD_PRELOAD", None)
        done = subprocess.run(
            ["bash", "-c", f"{step.shell_text}\n{shown}"], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.split("\0")[:-1] == ["not set" if value is None else value for _, value in step.env]


def test_powershell_reads_every_line() -> None:
    tree_sitter = pytest.importorskip("tree_sitter")
    parser = tree_sitter.Parser(tree_sitter.Language(pytest.importorskip("tree_sitter_powershell").language()))
    told = steps(shell="powershell")
    assert len(told) > 60
    for text, step in told.items():
        root = parser.parse(text.encode()).root_node
        assert not root.has_error, text
        if step.kind == "run":
            assert _powershell_words(text) == list(step.argv)


def _powershell_words(text: str) -> list[str]:
    found = re.findall(r"'((?:[^']|'')*)'|(\S+)", text.removeprefix("& "))
    return [literal.replace("''", "'") or bare for literal, bare in found]


def test_cmd_hands_every_argument_on_as_it_was_meant() -> None:
    told = steps("run", "cmd")
    assert len(told) > 30
    for text, step in told.items():
        assert as_cmd_reads(text, {"PATH": "C:\\Windows", "HOME": "C:\\x"}) == list(step.argv), text


def test_windows_is_given_no_words_of_linux_and_the_reverse() -> None:
    for cell in cells():
        for step in cell.remedy.steps:
            windows = PLACES[cell.place]["os.family"] == "windows"
            first = step.argv[0] if step.argv else step.shell_text.split(" ")[0]
            if windows:
                assert first not in LINUX_ONLY_WORDS | {"export", "unset"}, cell
                assert "/.bashrc" not in step.shell_text, cell
            elif step.shell_text:
                assert step.shell == "bash", cell
                assert first not in {"winget", "reg", "tasklist", "where.exe", "setx", "py", "wsl"}, cell


DRIVERS = re.compile(r"nvidia-driver|ubuntu-drivers|akmod|nvidia-open|nvidia-dkms|mokutil|modprobe|rmmod")


@pytest.mark.parametrize("place", ["wsl", "docker", "podman", "slurm", "colab", "macos"])
def test_no_driver_is_installed_where_none_belongs(place: str) -> None:
    for cell in cells():
        if cell.place == place:
            for step in cell.remedy.steps:
                assert not DRIVERS.search(" ".join(step.argv)), (cell.cause, step.argv)


def test_in_an_image_and_on_a_cluster_nobody_is_told_to_type_sudo() -> None:
    for cell in cells():
        if cell.place in ("docker", "podman"):
            assert all(step.argv[:1] != ("sudo",) for step in cell.remedy.steps), cell


def test_what_changes_the_system_needs_the_administrator() -> None:
    for cell in cells():
        for step in cell.remedy.steps:
            if step.argv[:1] == ("sudo",):
                assert step.admin, cell
                assert not step.undoable, cell
            if step.manager and step.kind == "run":
                assert not step.admin, cell


def test_no_command_asks_the_channel_of_conda_that_ended() -> None:
    for cell in cells():
        for step in cell.remedy.steps:
            assert "pytorch-cuda" not in step.argv, cell
            assert "pytorch" not in [after for word, after in zip(step.argv, step.argv[1:], strict=False) if word in ("-c", "--channel")], cell  # fmt: skip


def test_every_wheel_that_a_command_names_is_in_the_tables() -> None:
    table = knowledge().tables["torch_releases"]
    for text in steps():
        assert list(wrong_wheels(text, table)) == [], text
    assert list(wrong_wheels("pip install torch==2.0.1+cu121", table)) == ["torch 2.0.1 has no build cu121"]
    assert list(wrong_wheels("pip install torch==2.6.1", table)) == ["torch 2.6.1 is not in the table torch_releases"]
    assert list(wrong_wheels("--index-url https://download.pytorch.org/whl/cu999", table)) == [
        "no release has the build cu999, of which an index is named"
    ]


def test_a_configured_mirror_is_kept_if_it_has_the_build_and_named_if_not() -> None:
    own, other = "mirror of pypi's build", "mirror"
    for cell in cells():
        if cell.cause != "torch-cpu-build" or cell.manager not in ("pip", "uv", "conda"):
            continue
        install = [step for step in cell.remedy.steps if "torch==2.9.1" in " ".join(step.argv)]
        if cell.place == own and install:
            assert "--index-url" not in install[0].argv
            assert "torch==2.9.1" in install[0].argv
        if cell.place == other and install:
            assert "https://download.pytorch.org/whl/cu126" in install[0].argv
            assert "https://mirror.example/pypi/simple" in install[0].say


def _of_pip() -> dict[tuple[str, ...], tuple[str, ...]]:
    """From the shape of a call of pip (its words without packages and addresses) to one example of it."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for cell in cells():
        for step in cell.remedy.steps:
            if "pip" in step.argv and "-m" in step.argv:
                rest = step.argv[step.argv.index("pip") + 1 :]
                shape = tuple(
                    word
                    for word in rest
                    if not re.match(r"https?://|\w[\w.-]*(?:[=<>~]=?.*)?$", word) or word == rest[0]
                )
                found.setdefault(shape, rest)
    return found


def test_pip_itself_accepts_every_shape_of_command() -> None:
    version = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, text=True, check=False)
    if version.returncode or Version(version.stdout.split()[1]) < Version("22.2"):
        pytest.skip("this Python has no pip that knows --dry-run")
    shapes = _of_pip()
    assert len(shapes) >= 6
    for rest in shapes.values():
        # Options are read before --help is: what is not installed is not touched, and a wrong one is a usage error.
        more = ("--dry-run", "--no-index") if rest[0] == "install" else ("--help",)
        done = subprocess.run(
            [sys.executable, "-m", "pip", "--disable-pip-version-check", *rest, *more],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode != 2, (rest, done.stderr)
        assert "Usage:" not in done.stderr, (rest, done.stderr)


def test_every_package_that_is_named_is_a_requirement() -> None:
    named = {
        word
        for cell in cells()
        for step in cell.remedy.steps
        if step.manager in ("pip", "uv") and "install" in step.argv
        for word in step.argv[step.argv.index("install") + 1 :]
        if re.match(r"[a-z][\w-]*(?:[=<>~].*)?$", word) and word != "unsafe-best-match"
    }
    assert len(named) > 15
    for word in named:
        Requirement(word)


def _uv() -> str:
    try:
        from uv import find_uv_bin
    except ImportError:
        return shutil.which("uv") or ""
    return str(find_uv_bin())


def test_uv_itself_accepts_every_shape_of_command(tmp_path: Path) -> None:
    if not (uv := _uv()):
        pytest.skip("uv is not here")
    shapes = {
        tuple(
            word for word in step.argv if word.startswith("-") or word in ("pip", "install", "list", "check")
        ): step.argv
        for cell in cells()
        for step in cell.remedy.steps
        if step.argv[:1] == ("uv",)
    }
    assert len(shapes) >= 6
    for argv in shapes.values():
        rest = [sys.executable if word in (POSIX, WINDOWS) else word for word in argv[1:]]
        more = ["--dry-run", "--offline", "--no-index"] if rest[:2] == ["pip", "install"] else ["--help"]
        if "--index-url" in rest or "--extra-index-url" in rest:
            more.remove("--no-index")
        done = subprocess.run([uv, *rest, *more], capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path)
        assert "Usage:" not in done.stderr, (rest, done.stderr)
        assert "unexpected argument" not in done.stderr, (rest, done.stderr)


def test_every_other_program_takes_what_it_is_given_by_its_documentation() -> None:
    pythons = (POSIX, WINDOWS, str(PLACES["portable"]["python.path"]), "python", "python3")
    for cell in cells():
        for step in cell.remedy.steps:
            if step.kind != "run" or step.argv[0] in pythons:
                continue
            assert misread(step.argv) == "", (cell.cause, cell.place, step.argv)


@pytest.mark.parametrize(
    "argv",
    [("conda", "install", "--yess", "x"), ("docker", "run", "--rm"), ("apt-get", "install"), ("pixi", "sync"), ("poetry", "add", "--source")],
)  # fmt: skip
def test_the_grammar_refuses_what_the_program_would(argv: tuple[str, ...]) -> None:
    assert misread(argv)


def test_a_text_that_shows_conda_at_work_gets_what_conda_can_do() -> None:
    told = {"os.family": "windows", "install.tool": "conda"}
    argv = [step.argv for remedy in remedies_of("torch-cpu-build", told) for step in remedy.steps if step.argv]
    assert argv == [("conda", "install", "--override-channels", "--channel", "conda-forge", "pytorch-gpu")]


def test_no_variable_of_linux_is_set_on_windows_or_macos() -> None:
    for cell in cells():
        if PLACES[cell.place]["os.family"] in ("windows", "macos"):
            for step in cell.remedy.steps:
                assert "LD_LIBRARY_PATH" not in dict(step.env), cell

"""Words for those who wait, and the clipboard."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from troubleshooter.cli import main
from troubleshooter.clipboard import clipboard
from troubleshooter.errors import UsageError
from troubleshooter.machine import RootMachine
from troubleshooter.waiting import BytesRead


def machine(tmp_path: Path, **programs: str) -> RootMachine:
    folder = tmp_path / ".commands"
    folder.mkdir()
    for name, text in programs.items():
        (folder / f"{name.replace('_', '-')}.txt").write_text(text, encoding="utf-8")
    return RootMachine(str(tmp_path))


def test_the_clipboard_is_asked_of_the_program_that_is_there(tmp_path: Path) -> None:
    assert clipboard(machine(tmp_path, xclip="CUDA error \u4e2d")) == "CUDA error \u4e2d".encode()


def test_the_program_of_the_newer_desktop_is_asked_first(tmp_path: Path) -> None:
    assert clipboard(machine(tmp_path, xclip="old", wl_paste="new")) == b"new"


def test_a_machine_without_a_clipboard_is_told_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        clipboard(machine(tmp_path))
    assert "wl-clipboard, xclip or xsel" in str(caught.value.problems[0])


def test_nothing_is_shown_in_the_first_second(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stderr", out)
    watch = BytesRead()
    watch(10_000_000)
    watch.close()
    assert out.getvalue() == ""


def test_what_was_read_is_shown_after_a_second_and_wiped_away(monkeypatch: pytest.MonkeyPatch) -> None:
    out, now = io.StringIO(), [0.0]
    monkeypatch.setattr("sys.stderr", out)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    watch = BytesRead()
    for second in (0.5, 1.1, 1.15, 2.0):
        now[0] = second
        watch(400_000_000)
    watch.close()
    assert out.getvalue() == "\r800 MB read\r1,600 MB read\r             \r"


def test_patterns_are_printed_one_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "list", "--patterns"]) == 0
    patterns = capsys.readouterr().out.splitlines()
    assert len(patterns) > 500
    assert all(pattern.startswith("(?") and "(?P<" not in pattern and pattern.isascii() for pattern in patterns)


def test_rules_are_listed_with_what_they_conclude(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "list"]) == 0
    listed = dict(line.split("  ") for line in capsys.readouterr().out.splitlines())
    assert "driver-too-old-for-cuda" in listed.values()
    assert len(listed) > 1000


def test_a_large_file_is_diagnosed_from_its_middle(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    healthy = b"".join(b"[rank1]: worker %d fetched a batch\n" % number for number in range(150_000))
    error = b"RuntimeError: The NVIDIA driver on your system is too old (found version 11040).\n"
    path.write_bytes(healthy + error + healthy)
    command = [sys.executable, "-m", "troubleshooter", "log", str(path), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    (first, *_) = json.loads(done.stdout)["diagnoses"]
    assert first["id"] == "driver-too-old-for-cuda"
    assert any(source["line"] == 150_001 for one in first["evidence"] for source in one["sources"])

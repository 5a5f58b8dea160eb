"""`run -- COMMAND`: the command cannot tell that we are there, and what it printed is kept for the diagnosis."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from fake_torch import attributes, make_target

from troubleshooter import spool
from troubleshooter.launchers import interpreter_of
from troubleshooter.machine import LiveMachine
from troubleshooter.processes import Watch
from troubleshooter.spool import Spool

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="terminals and signals of POSIX")

RUN = [sys.executable, "-m", "troubleshooter", "run", "--no-confirm"]
WHAT_IT_SEES = "import os, sys; print([os.isatty(number) for number in (0, 1, 2)])"


def run(*command: str, stdin: bytes = b"", options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*RUN, *options, "--", *command], input=stdin, capture_output=True, timeout=60, check=False)


def python(code: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *arguments)


class Terminal:
    """`run` on a pseudo-terminal of its own, as a shell starts it."""

    def __init__(self, *command: str, stderr: int | None = None) -> None:
        import fcntl
        import pty
        import termios

        self.master, end = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, b"\x1f\x00\x4d\x00\x00\x00\x00\x00")  # 31 rows of 77 columns

        def own() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [*RUN, "--", *command], stdin=end, stdout=end, stderr=end if stderr is None else stderr, preexec_fn=own
        )
        os.close(end)
        self.seen = b""

    def until(self, word: bytes, seconds: float = 20) -> bytes:
        deadline = time.monotonic() + seconds
        while word not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, self.seen
            try:
                data = os.read(self.master, 4096)
            except OSError:
                data = b""
            assert data, self.seen
            self.seen += data
        return self.seen

    def type(self, data: bytes) -> None:
        os.write(self.master, data)

    def end(self) -> int:
        try:
            while select.select([self.master], [], [], 20)[0] and (data := os.read(self.master, 4096)):
                self.seen += data
        except OSError:
            pass
        code = self.process.wait(20)
        os.close(self.master)
        return code


# --- the command is as it would be without us


@pytest.mark.parametrize("code", [0, 1, 3, 42, 255])
def test_the_exit_code_is_the_commands_own(code: int) -> None:
    assert run(*python(f"raise SystemExit({code})")).returncode == code


@pytest.mark.parametrize("name", ["SIGTERM", "SIGSEGV", "SIGKILL", "SIGABRT"])
def test_a_command_that_a_signal_ends_makes_us_end_by_the_same_signal(name: str) -> None:
    done = run(*python(f"import os, signal; os.kill(os.getpid(), signal.{name})"))
    assert done.returncode == -signal.Signals[name]


def test_a_program_that_is_not_there_or_may_not_be_run_ends_as_in_a_shell(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert run("no-such-program-here").returncode == 127
    done = run(str(script))
    assert done.returncode == 126
    assert done.stdout == b""
    assert b"cannot be run: Permission denied" in done.stderr


def test_streams_stay_apart_byte_for_byte_and_input_reaches_it() -> None:
    code = "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data[::-1]); sys.stderr.write('e')"
    data = bytes(range(256)) * 1000
    done = run(*python(code), stdin=data)
    assert (done.stdout, done.stderr) == (data[::-1], b"e")


def test_pipes_are_pipes_and_a_terminal_is_a_terminal_of_the_same_size() -> None:
    assert run(*python(WHAT_IT_SEES)).stdout == b"[False, False, False]\n"
    terminal = Terminal(*python(WHAT_IT_SEES + "; print(os.get_terminal_size())"))
    terminal.until(b"lines=31")
    assert terminal.end() == 0
    assert b"[True, True, True]" in terminal.seen
    assert b"columns=77, lines=31" in terminal.seen


def test_only_those_streams_are_terminals_that_were(tmp_path: Path) -> None:
    with open(tmp_path / "errors", "wb") as errors:
        terminal = Terminal(*python(WHAT_IT_SEES + "; sys.stderr.write('apart')"), stderr=errors.fileno())
    assert terminal.end() == 0
    assert b"[True, True, False]" in terminal.seen
    assert (tmp_path / "errors").read_bytes() == b"apart"


def test_an_interactive_program_is_answered_and_a_password_is_not_shown() -> None:
    code = "import getpass; name = input('name? '); word = getpass.getpass('word? '); print('got', name, len(word))"
    terminal = Terminal(*python(code))
    terminal.until(b"name? ")
    terminal.type(b"mei\n")
    terminal.until(b"word? ")
    time.sleep(0.2)
    terminal.type(b"geheim\n")
    terminal.until(b"got mei 6")
    assert terminal.end() == 0
    assert b"geheim" not in terminal.seen


def test_ctrl_c_on_a_terminal_interrupts_the_command_and_nothing_is_diagnosed() -> None:
    terminal = Terminal(*python("import time; print('ready', flush=True); time.sleep(60)"))
    terminal.until(b"ready")
    terminal.type(b"\x03")
    assert terminal.end() == -signal.SIGINT
    assert b"KeyboardInterrupt" in terminal.seen
    assert b"troubleshoot:" not in terminal.seen


def test_a_command_that_takes_ctrl_c_as_a_question_goes_on() -> None:
    code = (
        "import signal, time\n"
        "signal.signal(signal.SIGINT, lambda *_: print('really?', flush=True))\n"
        "print('ready', flush=True)\n"
        "print('answer', input())"
    )
    terminal = Terminal(*python(code))
    terminal.until(b"ready")
    terminal.type(b"\x03")
    terminal.until(b"really?")
    terminal.type(b"no\n")
    terminal.until(b"answer no")
    assert terminal.end() == 0


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_that_is_sent_to_us_reaches_the_command(name: str) -> None:
    code = (
        f"import signal, sys, time\nsignal.signal(signal.{name}, lambda *_: sys.exit(9))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen(
        [*RUN, "--", *python(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.Signals[name])
        out, errors = process.communicate(timeout=20)
    assert (process.returncode, out, errors) == (9, b"", b"")


def test_output_comes_through_while_the_command_runs() -> None:
    code = "import sys; print('first', flush=True); sys.stdin.readline(); print('second')"
    with subprocess.Popen([*RUN, "--", *python(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"first\n"
        process.stdin.write(b"\n")
        process.stdin.close()
        assert process.stdout.readline() == b"second\n"


def test_a_reader_that_goes_away_ends_the_command_as_a_pipe_does() -> None:
    with subprocess.Popen([*RUN, "--", "yes"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(20) == -signal.SIGPIPE


def test_what_the_command_left_running_keeps_us_no_longer_than_the_command(tmp_path: Path) -> None:
    begun = time.monotonic()
    done = run("sh", "-c", "sleep 30 & echo done")
    assert done.stdout == b"done\n"
    assert time.monotonic() - begun < 15


# --- the diagnosis


def test_a_failure_is_diagnosed_with_the_python_that_ran_and_the_report_is_a_file(tmp_path: Path) -> None:
    other = make_target(tmp_path / "venv", attributes())
    report = tmp_path / "report.json"
    code = "import sys; sys.stderr.write('RuntimeError: CUDA error: no kernel image is available for execution on the device\\n'); sys.exit(1)"
    done = run(str(other), "-c", code, options=("--report", str(report)))
    assert done.returncode == 1
    assert done.stdout == b""
    told = json.loads(report.read_text())
    assert told["target"]["python"] == str(other)
    facts = {fact["name"]: fact for fact in told["facts"]}
    assert facts["log.no-kernel-image"]["source"]["line"] == 1


def test_a_command_that_went_well_is_not_talked_about() -> None:
    done = run(*python("print('fine')"))
    assert (done.stdout, done.stderr) == (b"fine\n", b"")


def test_run_without_a_command_is_a_usage_error() -> None:
    done = subprocess.run(RUN, capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    assert b"troubleshoot run -- python train.py" in done.stderr


# --- what is kept


def test_lines_of_two_streams_are_kept_whole() -> None:
    with closing(Spool()) as kept:
        kept.add(1, b"one, ")
        kept.add(2, b"error\n")
        kept.add(1, b"still one\ntwo")
        assert kept.read() == b"error\none, still one\ntwo\n"


@pytest.mark.parametrize("size", [100, 3000, 9000, 100_000])
def test_of_much_output_the_beginning_and_the_end_are_kept(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_HEAD", 1000)
    monkeypatch.setattr(spool, "_TAIL", 2000)
    lines = [b"line %d\n" % number for number in range(size // 8)]
    with closing(Spool()) as kept:
        for line in lines:
            kept.add(1, line)
        told = kept.read()
    assert told.startswith(b"".join(lines)[:900])
    assert told.endswith(b"".join(lines)[-1900:])
    assert len(told) <= 5100
    if kept.dropped:
        assert b"[%d bytes left out]\n" % kept.dropped in told
        assert len(told) - len(b"[%d bytes left out]\n" % kept.dropped) + kept.dropped == len(b"".join(lines))
    else:
        assert told == b"".join(lines)


def test_where_no_file_can_be_made_memory_serves(tmp_path: Path) -> None:
    kept = Spool(str(tmp_path / "nowhere"))
    kept.add(1, b"a line\n")
    assert kept.read(3) + kept.read(100) + kept.read(100) == b"a line\n"


# --- which Python it was


def environment(folder: Path) -> str:
    """A folder that looks like one, with a python that is no more than a file."""
    file = folder / "bin" / "python"
    file.parent.mkdir(parents=True)
    file.write_text("")
    file.chmod(0o755)
    return str(file)


def test_the_words_of_a_command_tell_its_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv = environment(tmp_path / "venv")
    script = tmp_path / "torchrun"
    script.write_text(f"#!{venv}\nimport torch\n")
    long = tmp_path / "accelerate"
    long.write_text(f"#!/bin/sh\n'''exec' \"{venv}\" \"$0\" \"$@\"\n' '''\nimport torch\n")
    conda = environment(tmp_path / "conda" / "envs" / "ml")
    monkeypatch.setenv("CONDA_EXE", str(tmp_path / "conda" / "bin" / "conda"))
    project = tmp_path / "project" / "deep"
    project.mkdir(parents=True)
    inside = environment(tmp_path / "project" / ".venv")
    monkeypatch.chdir(project)
    monkeypatch.delenv("UV_PROJECT_ENVIRONMENT", raising=False)
    expected = {
        (venv, "train.py"): venv,
        (str(script), "--nproc-per-node", "2", "train.py"): venv,
        (str(long), "launch", "train.py"): venv,
        ("env", "CUDA_VISIBLE_DEVICES=0", venv, "train.py"): venv,
        ("nohup", "nice", "-n", "5", str(script)): venv,
        ("timeout", "-k", "5", "60s", venv): venv,
        ("conda", "run", "-n", "ml", "python", "train.py"): conda,
        ("conda", "run", "--prefix", str(tmp_path / "conda" / "envs" / "ml"), "python"): conda,
        ("uv", "run", "train.py"): inside,
        ("make", "train"): "",
    }
    found = {argv: interpreter_of(LiveMachine(), argv) for argv in expected}
    assert found == expected


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked at in /proc")
def test_a_python_below_a_shell_is_seen_while_it_runs(tmp_path: Path) -> None:
    other = make_target(tmp_path / "venv", attributes())
    watch = Watch()
    with subprocess.Popen(["sh", "-c", f"'{other}' -c 'import time; time.sleep(20)'; true"]) as process:
        deadline = time.monotonic() + 10
        while not watch.python("") and time.monotonic() < deadline:
            watch.look(process.pid)
            time.sleep(0.02)
        subprocess.run(["pkill", "-P", str(process.pid)], check=False)
    assert watch.python("") == str(other)
    assert watch.python("/named/python") == "/named/python"


def test_a_text_from_another_python_than_the_target_is_said_first(tmp_path: Path) -> None:
    target = make_target(tmp_path / "venv", attributes())
    line = '  File "/opt/other/lib/python3.9/site-packages/torch/cuda/__init__.py", line 247, in _lazy_init\n'
    own = line.replace("/opt/other", str(tmp_path / "venv")).replace("3.9", "%d.%d" % sys.version_info[:2])
    remarks = []
    for number, text in enumerate((line, own)):
        log = tmp_path / f"{number}.log"
        log.write_text("Traceback (most recent call last):\n" + text + "RuntimeError: CUDA error: unknown error\n")
        done = subprocess.run(
            [sys.executable, "-m", "troubleshooter", "--no-confirm", "--format", "json", "--python", str(target)]
            + ["--log", str(log)],
            capture_output=True,
            timeout=60,
            check=False,
        )
        told = json.loads(done.stdout)
        remarks.append(told["remarks"])
        assert not [one for one in told["disagreements"] if "python" in one]
    assert remarks[0][0].startswith("The text comes from the Python in /opt/other")
    assert remarks[1] == []

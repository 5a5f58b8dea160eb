"""The seam to the outside, against real small programs and folders: whatever they do, an answer comes back."""

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from troubleshooter import commands
from troubleshooter.errors import UsageError
from troubleshooter.machine import Answer, LiveMachine, RootMachine
from troubleshooter.recording import RecordedMachine, RecordingMachine, load_recording
from troubleshooter.text import clean, decode

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and modes of POSIX")


def python(code: str, seconds: float = 20, **options: object) -> Answer:
    argv = [sys.executable, "-S", "-c", textwrap.dedent(code)]
    return LiveMachine().run(argv, seconds, **options)  # type: ignore[arg-type]


def is_running(number: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def ends_soon(number: int) -> bool:
    until = time.monotonic() + 3
    while is_running(number) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_running(number)


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="looks processes up under /proc")


def test_a_program_that_ends_well_gives_its_output() -> None:
    answer = python("import sys; print('hello'); print('careful', file=sys.stderr)")
    assert (answer.ending, answer.code, answer.text.strip(), answer.errors.strip()) == ("ok", 0, "hello", "careful")


def test_a_program_that_fails_keeps_its_code_and_output() -> None:
    answer = python("print('before'); raise SystemExit(7)")
    assert (answer.ending, answer.code, answer.text.strip()) == ("failed", 7, "before")


@POSIX
def test_a_signal_is_named() -> None:
    answer = python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert (answer.ending, answer.code, answer.signal) == ("crashed", None, "SIGSEGV")


@POSIX
@pytest.mark.parametrize(
    ("code", "ending", "name"), [(139, "crashed", "SIGSEGV"), (134, "crashed", "SIGABRT"), (255, "failed", "")]
)
def test_a_wrapper_hands_on_how_its_child_died(code: int, ending: str, name: str) -> None:
    answer = python(f"raise SystemExit({code})")
    assert (answer.ending, answer.code, answer.signal) == (ending, code, name)


def test_a_program_that_is_not_there_is_missing(tmp_path: Path) -> None:
    assert LiveMachine().run(["no-such-program-anywhere"], 5).missing
    assert LiveMachine().run([str(tmp_path / "nothing")], 5).missing


@POSIX
def test_a_file_that_may_not_be_run_is_denied(tmp_path: Path) -> None:
    script = tmp_path / "tool"
    script.write_text("#!/bin/sh\necho no\n")
    assert LiveMachine().run([str(script)], 5).ending == "denied"
    assert LiveMachine().run([str(tmp_path)], 5).ending == "denied"


@POSIX
def test_a_script_whose_interpreter_is_gone_says_so(tmp_path: Path) -> None:
    script = tmp_path / "tool"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    answer = LiveMachine().run([str(script)], 5)
    assert answer.ending == "failed"
    assert "interpreter" in answer.reason


@POSIX
def test_a_file_of_the_wrong_format_fails(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_bytes(b"\x7fELF\x00\x00garbage")
    program.chmod(0o755)
    assert LiveMachine().run([str(program)], 5).ending == "failed"


def test_a_working_folder_that_is_gone_is_not_a_missing_program(tmp_path: Path) -> None:
    answer = python("print(1)", cwd=str(tmp_path / "gone"))
    assert answer.ending == "failed"
    assert "working folder" in answer.reason


def test_a_hang_ends_at_the_limit_and_keeps_what_was_said() -> None:
    answer = python("import time; print('one', flush=True); time.sleep(60)", seconds=0.8)
    assert (answer.ending, answer.text.strip()) == ("timed-out", "one")
    assert answer.seconds < 3


@POSIX
def test_a_program_that_ignores_the_request_to_end_is_ended() -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    answer = python(code, seconds=0.8)
    assert (answer.ending, answer.text.strip()) == ("timed-out", "deaf")
    assert answer.seconds < 4


@needs_proc
def test_no_child_of_a_hang_is_left() -> None:
    answer = python(
        """
        import subprocess, sys, time
        for options in ({}, {"start_new_session": True}):
            child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"], **options)
            print(child.pid, flush=True)
        time.sleep(60)
        """,
        seconds=1.5,
    )
    assert answer.ending == "timed-out"
    children = [int(line) for line in answer.text.split()]
    assert len(children) == 2
    assert all(map(ends_soon, children))


@needs_proc
def test_a_grandchild_that_keeps_the_pipe_does_not_hold_us() -> None:
    answer = python(
        """
        import subprocess, sys
        print(subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"]).pid)
        """
    )
    assert answer.ending == "ok"
    assert answer.seconds < 5
    assert ends_soon(int(answer.text))


@needs_proc
def test_no_zombie_and_no_descriptor_is_left() -> None:
    python("pass")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        python("import time; time.sleep(30)", seconds=0.1)
        python("print(1)", input=b"x" * 300_000)
    assert len(os.listdir("/proc/self/fd")) == before
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    states = [Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] for child in children]
    assert "Z" not in states


def test_a_flood_is_drained_and_counted_with_its_head_and_tail() -> None:
    code = "import sys\nprint('first')\nfor _ in range(100): sys.stdout.write('x' * 999_999 + '\\n')\nprint('last')"
    answer = python(code, limit_bytes=100_000, seconds=60)
    assert answer.ending == "ok"
    assert answer.text.startswith("first\n")
    assert answer.text.rstrip().endswith("last")
    assert len(answer.text) < 110_000
    assert answer.dropped > 99_000_000


def test_bytes_of_no_encoding_are_text_all_the_same() -> None:
    answer = python(r"import os; os.write(1, b'ok \xff\xfe\x80 \xc4\xac done'); os.write(2, b'\x00\xff')")
    assert answer.text.startswith("ok ")
    assert answer.text.endswith("done")


def test_input_reaches_the_program_and_none_is_an_end_of_file() -> None:
    assert python("import sys; print(len(sys.stdin.buffer.read()))", input=b"x" * 1_000_000).text.strip() == "1000000"
    assert python("import sys; print(len(sys.stdin.buffer.read()))").text.strip() == "0"


def test_a_program_that_does_not_read_its_input_is_no_fault() -> None:
    assert python("print('bye')", input=b"x" * 1_000_000).ok


def test_lines_come_while_the_program_runs() -> None:
    seen: list[tuple[str, float]] = []
    code = "import time\nfor n in range(3): print('line', n, flush=True); time.sleep(0.2)\nprint('no end', end='')"
    python(code, on_line=lambda line: seen.append((line, time.monotonic())))
    assert [line for line, _ in seen] == ["line 0", "line 1", "line 2", "no end"]
    assert seen[2][1] - seen[0][1] > 0.25


@needs_proc
def test_a_fault_of_the_reader_of_lines_ends_the_program_first() -> None:
    seen: list[int] = []

    def reader(line: str) -> None:
        seen.append(int(line))
        raise ValueError(line)

    with pytest.raises(ValueError):
        python("import os, time; print(os.getpid(), flush=True); time.sleep(60)", on_line=reader)
    assert ends_soon(seen[0])


@pytest.mark.skipif(sys.platform == "darwin", reason="ps tells whole seconds at times")
def test_silence_without_work_is_a_hang() -> None:
    answer = python("import time; time.sleep(60)", seconds=30, alive_limit=1.0)
    assert answer.ending == "hung"
    assert answer.seconds < 6


@needs_proc
def test_silent_work_is_a_sign_of_life() -> None:
    assert python("import time\nend = time.time() + 2.5\nwhile time.time() < end: pass", alive_limit=1.0).ok


@needs_proc
def test_silent_work_of_a_grandchild_is_a_sign_of_life() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', 'for n in range(60_000_000): pass'])"
    answer = python(code, alive_limit=1.0, seconds=60)
    assert answer.ok


def test_lines_are_a_sign_of_life() -> None:
    code = "import time\nfor n in range(6): print(n, flush=True); time.sleep(0.4)"
    assert python(code, alive_limit=1.2).ok


def test_programs_answer_in_english_unless_it_is_the_target() -> None:
    code = "import os; print(os.environ.get('LC_ALL'))"
    assert python(code, env={"LC_ALL": "C"}).text.strip() == "C"
    assert python(code, env={"LC_ALL": "zh_CN.UTF-8"}, english=False).text.strip() == "zh_CN.UTF-8"
    assert python(code, env={"LC_ALL": None}, english=False).text.strip() == "None"


def test_pipes_read_by_threads_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Windows uses works elsewhere too."""
    monkeypatch.setattr(commands, "_PolledPipes", commands._ThreadedPipes)
    assert python("import sys; print(sys.stdin.read() * 2)", input=b"ab").text.strip() == "abab"
    flood = python("print('x' * 50_000_000)", limit_bytes=1000)
    assert flood.ok
    assert flood.dropped > 49_000_000
    assert python("import time; print(1, flush=True); time.sleep(60)", seconds=0.8).ending == "timed-out"


@needs_proc
def test_ctrl_c_ends_the_programs_of_all_threads(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    sleeper = f"import os, time; open({str(pids)!r}, 'a').write(str(os.getpid()) + chr(10)); time.sleep(60)"
    code = textwrap.dedent(
        f"""
        import sys, threading, time
        from troubleshooter.machine import LiveMachine, end_all
        argv = [sys.executable, "-S", "-c", {sleeper!r}]
        threading.Thread(target=lambda: LiveMachine().run(argv, 60), daemon=True).start()
        try:
            LiveMachine().run(argv, 60)
        except KeyboardInterrupt:
            end_all()
            sys.exit(130)
        """
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(commands.__file__).parent.parent)}
    doctor = subprocess.Popen([sys.executable, "-c", code], env=environment)
    until = time.monotonic() + 10
    while (not pids.exists() or len(pids.read_text().split()) < 2) and time.monotonic() < until:
        time.sleep(0.05)
    doctor.send_signal(signal.SIGINT)
    assert doctor.wait(10) == 130
    assert all(ends_soon(int(number)) for number in pids.read_text().split())


@POSIX
def test_a_program_in_the_working_folder_is_not_taken_for_one_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho planted\n")
    tool.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "::.")
    assert LiveMachine().run(["nvidia-smi"], 5).missing


# --- files of this machine


def test_files_answer_with_their_ending(tmp_path: Path) -> None:
    machine = LiveMachine()
    (tmp_path / "text").write_bytes(b"caf\xc3\xa9\n")
    assert machine.read(str(tmp_path / "text")).text == "café\n"
    assert machine.read(str(tmp_path / "nothing")).missing
    assert machine.read(str(tmp_path / "text" / "below")).missing
    assert machine.read(str(tmp_path)).ending == "failed"
    assert machine.read(str(tmp_path / "text"), limit_bytes=3).ending == "too-large"
    assert machine.read("bad\0path").ending == "failed"
    assert machine.list(str(tmp_path)).names == ("text",)
    assert machine.list(str(tmp_path / "nothing")).missing


@POSIX
def test_a_pipe_in_the_place_of_a_file_does_not_hold_us(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert LiveMachine().read(str(tmp_path / "fifo")).ending == "failed"
    assert LiveMachine().read("/dev/zero").ending == "failed"
    assert LiveMachine().stat(str(tmp_path / "fifo")).kind == "fifo"


# --- a machine in a folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a secret beside it."""
    (tmp_path / "secret").write_text("outside")
    folder = tmp_path / "root"
    (folder / "etc").mkdir(parents=True)
    (folder / "etc" / "os-release").write_text("ID=ubuntu\n")
    (folder / ".commands").mkdir()
    return folder


@POSIX
@pytest.mark.parametrize("target", ["{outside}", "../../../secret", "../../../../../../../../{outside}", "/../secret"])
def test_no_link_leads_out_of_the_folder(root: Path, target: str) -> None:
    (root / "etc" / "leak").symlink_to(target.format(outside=root.parent / "secret"))
    assert RootMachine(root).read("/etc/leak").missing


@POSIX
def test_dots_stay_inside_and_absolute_links_begin_at_the_folder(root: Path) -> None:
    (root / "usr").symlink_to("/etc")
    machine = RootMachine(root)
    assert machine.read("/../../etc/../etc/os-release").ok
    assert machine.read("/usr/os-release").text == "ID=ubuntu\n"
    assert machine.read_link("/usr").text == "/etc"
    (root / "loop").symlink_to("/loop")
    assert machine.read("/loop").ending == "failed"
    assert machine.read("/../secret").missing


@POSIX
def test_a_folder_link_to_outside_lists_nothing(root: Path) -> None:
    (root / "dev").symlink_to(root.parent)
    assert RootMachine(root).list("/dev").missing


def test_our_own_files_are_no_part_of_the_machine(root: Path) -> None:
    (root / ".manifest.json").write_text("{}")
    machine = RootMachine(root)
    assert machine.list("/").names == ("etc",)
    assert machine.read("/.manifest.json").missing
    assert machine.read("/etc/../.manifest.json").missing


def test_the_manifest_gives_nodes_and_modes(root: Path) -> None:
    manifest = {
        "dev/nvidia0": {"type": "char", "mode": "0666", "major": 195, "minor": 0},
        "dev/nvidiactl": {"type": "char", "mode": "0660", "major": 195, "minor": 255},
        "etc/os-release": {"mode": "0600"},
        "lib/libcuda.so.1": {"type": "link", "target": "libcuda.so.535.54"},
    }
    (root / ".manifest.json").write_text(json.dumps(manifest))
    machine = RootMachine(root)
    node = machine.stat("/dev/nvidia0")
    assert (node.kind, node.mode, node.major, node.minor, node.readable, node.writable) == (
        "char",
        0o666,
        195,
        0,
        True,
        True,
    )
    assert not machine.stat("/dev/nvidiactl").writable
    assert machine.list("/dev").names == ("nvidia0", "nvidiactl")
    assert machine.stat("/dev").kind == "directory"
    assert machine.read("/etc/os-release").ending == "denied"
    assert machine.read("/dev/nvidia0").ending == "failed"
    assert machine.read_link("/lib/libcuda.so.1").text == "libcuda.so.535.54"


@POSIX
def test_commands_come_from_the_folder_and_never_from_path(root: Path) -> None:
    tool = root / ".commands" / "nvidia-smi"
    tool.write_text('#!/bin/sh\necho "called with $*"\nexit 9\n')
    tool.chmod(0o755)
    (root / ".commands" / "nvcc.txt").write_text("release 12.4")
    (root / ".commands" / "lspci").write_text("not executable")
    machine = RootMachine(root)
    answer = machine.run(["nvidia-smi", "-q", "-x"], 5)
    assert (answer.ending, answer.code, answer.text) == ("failed", 9, "called with -q -x\n")
    assert machine.run(["nvcc", "--version"], 5).text == "release 12.4"
    assert machine.run(["lspci"], 5).ending == "denied"
    assert machine.run(["sh", "-c", "echo leaked"], 5).missing
    assert machine.run(["/bin/sh", "-c", "echo leaked"], 5).missing
    assert machine.run([".."], 5).missing
    assert not machine.which("sh")


@POSIX
def test_a_command_that_is_a_link_to_outside_is_not_run(root: Path) -> None:
    (root / ".commands" / "sh").symlink_to("/bin/sh")
    assert RootMachine(root).run(["sh", "-c", "echo leaked"], 5).missing


def test_a_program_of_the_folder_itself_is_not_run(root: Path) -> None:
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "usr" / "bin" / "nvidia-smi").write_text("#!/bin/sh\n")
    assert RootMachine(root).run(["nvidia-smi"], 5).ending == "unknown"


def test_a_named_program_of_this_machine_is_run_for_real(root: Path) -> None:
    (root / ".environment.json").write_text('{"CUDA_VISIBLE_DEVICES": "3"}')
    code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], 'PATH' in os.environ)"
    answer = RootMachine(root).run([sys.executable, "-S", "-c", code], 20, here=True)
    assert answer.text.split() == ["3", "True"]


def test_the_environment_is_ours_unless_the_folder_has_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", "/ours")
    assert RootMachine(root).environ["CUDA_HOME"] == "/ours"
    (root / ".environment.json").write_text('{"A": "b"}')
    assert dict(RootMachine(root).environ) == {"A": "b"}


@pytest.mark.parametrize("text", ["[1]", "{", "\xff"])
def test_a_broken_manifest_is_a_usage_error_with_its_place(root: Path, text: str) -> None:
    (root / ".manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises(UsageError) as caught:
        RootMachine(root)
    assert caught.value.problems[0].at.file.endswith(".manifest.json")


def test_a_root_that_is_no_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        RootMachine(tmp_path / "nothing")


# --- recordings


def test_a_recording_says_what_it_holds_and_knows_what_it_does_not() -> None:
    machine = RecordedMachine(
        {
            "files": {"/etc/os-release": "ID=arch\n", "/proc/modules": {"ending": "denied", "reason": "no"}},
            "missing": ["/sys/module/nvidia", "nvcc"],
            "listings": {"/dev": ["null", "nvidia0"]},
            "stats": {"/dev/nvidia0": {"kind": "char", "mode": "0660", "major": 195}},
            "commands": [{"argv": ["nvidia-smi"], "code": 9, "text": "has failed"}],
            "environment": {"A": "b"},
        }
    )
    assert machine.read("/etc/os-release").ok
    assert machine.read("/proc/modules").ending == "denied"
    assert machine.read("/sys/module/nvidia/version").missing
    assert machine.read("/somewhere/else").ending == "unknown"
    assert machine.list("/etc").names == ("os-release",)
    assert machine.stat("/dev/nvidia0").kind == "char"
    assert not machine.stat("/dev/nvidia0").writable
    assert machine.stat("/dev/nvidia1").missing
    assert machine.run(["nvidia-smi"], 1).ending == "failed"
    assert machine.run(["nvidia-smi", "-L"], 1).ending == "unknown"
    assert machine.run(["nvcc", "--version"], 1).missing
    assert machine.run(["dmesg"], 1).ending == "unknown"


@POSIX
def test_what_was_recorded_answers_the_same(root: Path, tmp_path: Path) -> None:
    (root / ".commands" / "nvcc.txt").write_text("release 12.4")
    (root / ".environment.json").write_text('{"CUDA_HOME": "/opt/cuda", "SECRET_TOKEN": "x"}')
    (root / "lib").symlink_to("etc")
    asked = RecordingMachine(RootMachine(root))

    def ask(machine: RecordingMachine | RecordedMachine) -> list[object]:
        return [
            machine.read("/etc/os-release").text,
            machine.read("/etc/nothing").ending,
            machine.list("/etc").names,
            machine.list("/nowhere").ending,
            machine.read_link("/lib").text,
            machine.stat("/etc/os-release").kind,
            bool(machine.which("nvcc")),
            machine.run(["nvcc", "--version"], 5).text,
            machine.run(["dmesg"], 5).ending,
        ]

    first = ask(asked)
    file = tmp_path / "recording.json"
    file.write_text(json.dumps(asked.recording(["CUDA_HOME"])))
    machine = load_recording(str(file))
    assert ask(machine) == first
    assert dict(machine.environ) == {"CUDA_HOME": "/opt/cuda"}


@pytest.mark.parametrize("text", ["", "[]", '{"schema": "other/1"}', "[" * 100_000])
def test_a_file_that_is_no_recording_is_a_usage_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(UsageError):
        load_recording(str(tmp_path / "file"))


# --- text


@pytest.mark.parametrize(
    ("dirty", "expected"),
    [
        ("plain", "plain"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
        ("a\x1b]0;never ends\nb", "a0;never ends\nb"),
        ("a\x00b\x08c\x7fd\x85e", "abcde"),
        ("one\r\ntwo\rthree\tfour\n", "one\ntwo\nthree\tfour\n"),
        ("\x1b(Bx\x1b=y", "xy"),
        ("\x1b\x1b[[31m31mx", "31m31mx"),
        ("abc\u202edef", "abcdef"),
        ("驱动程序 è", "驱动程序 è"),
    ],
)
def test_no_escape_reaches_a_terminal(dirty: str, expected: str) -> None:
    assert clean(dirty) == expected
    assert clean(clean(dirty)) == clean(dirty)


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"caf\xc3\xa9", "café"), ("héllo".encode("utf-16"), "héllo"), (b"a\xffb", "a\ufffdb"), (b"", "")],
)
def test_bytes_become_text_in_their_encoding(data: bytes, text: str) -> None:
    assert decode(data) == text


def test_a_live_stat_tells_a_device() -> None:
    if sys.platform == "win32":
        pytest.skip("no device nodes")
    null = LiveMachine().stat("/dev/null")
    assert (null.kind, null.readable, null.writable) == ("char", True, True)
    assert null.major == os.major(os.stat("/dev/null").st_rdev)
    assert null.mode == stat.S_IMODE(os.stat("/dev/null").st_mode)

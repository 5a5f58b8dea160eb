"""The command line as a person meets it: exit codes, streams, bad input, hostile text."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from troubleshooter import cli

INSUFFICIENT = "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version\n"
SCHEMA = json.loads((Path(__file__).parent.parent / "docs" / "schema" / "report-1.json").read_text())


def run(*arguments: str, text: str | bytes = "", **options: object) -> "subprocess.CompletedProcess[bytes]":
    data = text.encode() if isinstance(text, str) else text
    return subprocess.run(
        [sys.executable, "-m", "troubleshooter", *arguments], input=data, capture_output=True, check=False, **options
    )  # type: ignore[call-overload]


def report(*arguments: str, text: str | bytes = "") -> dict:
    done = run(*arguments, "--format", "json", text=text)
    assert done.stderr == b""
    return json.loads(done.stdout)


def test_a_pasted_error_is_named_with_exit_code_1() -> None:
    done = run("log", text=INSUFFICIENT)
    assert done.returncode == 1
    lines = done.stdout.decode().rstrip().splitlines()
    verdict = " ".join(lines[lines.index("") :]).rpartition("Verdict: ")[2]
    assert verdict.startswith("problem")
    assert "driver-too-old-for-cuda" in verdict
    assert done.stderr == b""


def test_without_any_argument_this_machine_is_looked_at() -> None:
    done = run()
    assert done.returncode in (0, 1, 3)
    assert b"\nVerdict: " in done.stdout


@pytest.mark.parametrize("text", ["", "hello\n", "\n" * 1000, "\x00\x01\x02"])
def test_a_text_that_says_nothing_is_inconclusive(text: str) -> None:
    done = run("log", "-", text=text)
    assert done.returncode == 3
    assert done.stdout.decode().rstrip().splitlines()[-1].startswith("Verdict: inconclusive")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--python", "/nowhere/python"], "/nowhere/python"),
        (["--python", "/etc"], "/etc"),
        (["--python", "/etc/passwd"], "/etc/passwd"),
        (["--root", "/nowhere/root"], "/nowhere/root"),
        (["--frobnicate"], "--frobnicate"),
        (["log", "/nowhere/log.txt"], "/nowhere/log.txt"),
        (["log", "--set", "driver"], "NAME=VALUE"),
        (["log", "--engine", "clips"], "clips"),
        (["rules"], "COMMAND"),
        (["rules", "frobnicate"], "frobnicate"),
    ],
)
def test_bad_arguments_are_one_clear_line_and_exit_code_2(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == b""
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1
    assert said in lines[0]
    assert "Traceback" not in lines[0]


def test_errors_come_as_json_where_json_is_asked_for() -> None:
    done = run("check", "--python", "/nowhere/python", "--format", "json")
    assert done.returncode == 2
    answer = json.loads(done.stdout)
    assert answer["schema"] == "troubleshooter.error/1"
    assert "/nowhere/python" in answer["errors"][0]["message"]


def test_a_report_fits_its_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    for answer in (report("log", text=INSUFFICIENT), report("check", "--no-confirm")):
        jsonschema.validate(answer, SCHEMA)


def test_the_same_text_gives_the_same_bytes_whatever_surrounds_it(tmp_path: Path) -> None:
    answers = []
    for variables in (
        {"HOME": str(tmp_path), "LC_ALL": "C", "PATH": "/usr/bin"},
        {"HOME": "/nowhere", "LC_ALL": "zh_CN.GB18030", "PATH": "", "PYTHONUTF8": "0", "CUDA_VISIBLE_DEVICES": "-1"},
        {"LANG": "en_US.UTF-8", "PATH": os.environ["PATH"], "LD_LIBRARY_PATH": "/usr/local/cuda/lib64"},
    ):
        text = "错误: CUDA driver version is insufficient for CUDA runtime version\n".encode("gbk")
        done = run("log", "--format", "json", text=text, env=variables, cwd=tmp_path)
        assert done.returncode == 1
        answer = json.loads(done.stdout)
        answer.pop("took_seconds")
        answers.append(json.dumps(answer))
    assert answers[0] == answers[1] == answers[2]


def test_a_log_may_come_from_a_file_with_its_line_numbers(tmp_path: Path) -> None:
    file = tmp_path / "train.log"
    file.write_bytes(b"first\r\nsecond\r\n" + INSUFFICIENT.encode())
    answer = report("log", str(file))
    sources = [source for evidence in answer["diagnoses"][0]["evidence"] for source in evidence["sources"]]
    assert {(source["file"], source["line"]) for source in sources if source["line"]} == {(str(file), 3)}


def test_escapes_of_a_log_never_reach_the_terminal() -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J\x9b31m" + INSUFFICIENT.strip() + "\x1b[0m \x1b]52;c;AAAA\x07 \u202egnp.exe\n"
    for arguments in (["log"], ["log", "--lang", "zh"], ["log", "--set", "gpu=\x1b[31mRTX 3090"]):
        out = run(*arguments, text=hostile).stdout
        assert b"\x1b" not in out
        assert b"\x07" not in out
        assert "\u202e".encode() not in out


def test_hints_that_are_not_understood_are_listed_and_no_error() -> None:
    done = run("log", "--set", "weather=sunny", "--set", "driver=535 (WSL)", text=INSUFFICIENT)
    assert done.returncode == 1
    assert "--set weather=sunny was not understood" in done.stdout.decode()


def test_a_hint_decides_between_causes() -> None:
    answer = report(
        "log", "--set", "driver=470.82.01", "--set", "torch=2.5.1+cu124", "--set", "os=linux", text="no gpu\n"
    )
    assert answer["diagnoses"][0]["id"] == "driver-too-old-for-cuda"


def test_chinese_words_where_chinese_is_asked_for() -> None:
    done = run("log", "--lang", "zh", text=INSUFFICIENT)
    assert "\n结论: 有问题" in done.stdout.decode()


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "gbk"])
def test_a_terminal_that_lacks_our_characters_is_no_reason_to_fail(encoding: str) -> None:
    done = run("log", "--lang", "zh", text=INSUFFICIENT, env={**os.environ, "PYTHONIOENCODING": encoding})
    assert done.returncode == 1
    assert done.stderr == b""


def test_a_closed_pipe_is_no_crash() -> None:
    code = f"{sys.executable} -m troubleshooter log --format json < /dev/null | head -c 1 > /dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", code], capture_output=True, check=False)
    assert b"Traceback" not in done.stderr


def test_ctrl_c_ends_the_children_too(tmp_path: Path) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("import time\nopen('started', 'w').close()\ntime.sleep(300)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "troubleshooter", "--python", sys.executable, "--no-confirm"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while not (tmp_path / "started").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=15)
    assert process.returncode == 130
    assert b"Traceback" not in errors
    time.sleep(0.2)
    left = [entry.name for entry in Path("/proc").glob("[0-9]*") if _working_folder(entry) == str(tmp_path)]
    assert left == []


def _working_folder(process: Path) -> str:
    try:
        return os.readlink(process / "cwd")
    except OSError:
        return ""


def test_a_fault_of_our_own_is_told_as_one(tmp_path: Path) -> None:
    code = (
        "import troubleshooter.pipeline as p\n"
        "def broken(*_): raise RuntimeError('boom')\n"
        "p.diagnose_text = broken\n"
        "from troubleshooter.cli import main\nraise SystemExit(main(['log', '/dev/null']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "its own fault" in done.stderr
    assert "boom" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is kept on Linux only")
def test_256_mb_of_address_space_are_enough() -> None:
    limited = f"ulimit -v 262144; exec '{sys.executable}' -m troubleshooter --no-confirm --python '{sys.executable}'"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, check=False)
    assert done.returncode in (0, 1, 3), done.stderr.decode()
    assert b"\nVerdict: " in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["log"], ["log", "-"], ["log", "a.txt"], ["log", "a.txt", "b c.txt"], ["log", "a", "--format", "json"],
        ["log", "a", "-", "b", "--format", "text"], ["log", "--format", "json"],
        ["log", "a", "--format", "markdown"], ["log", "a", "--format=json"], ["log", "a", "--share"], ["log", "--", "-x"],
        ["log", "a", "--format", "json", "--lang", "zh"], ["log", "json"], ["log", ""], ["check"],
    ],
)  # fmt: skip
def test_the_short_way_to_a_plain_log_reads_what_argparse_reads(words: list[str]) -> None:
    short = cli._plain_log(words)
    assert short is None or vars(short) == vars(cli.parser("log").parse_args(words))


def test_a_plain_log_needs_no_argparse(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("nothing\n")
    code = "import sys\nfrom troubleshooter import cli\ncli.main(['log', sys.argv[1]])\nassert 'argparse' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "log.txt")], check=True, stdout=subprocess.DEVNULL)

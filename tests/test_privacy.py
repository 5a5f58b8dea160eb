"""Nothing that names a person, a machine or a secret leaves in what is shared, and the verdict stays what it was."""

import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
import yaml
from planted import PLANTED

from troubleshooter.model import Knowledge, Report, Request
from troubleshooter.pipeline import check, diagnose_text
from troubleshooter.privacy import Identity, identity_of, redact, redact_recording
from troubleshooter.recording import SCHEMA, RecordedMachine
from troubleshooter.report.json_report import report_json
from troubleshooter.report.markdown import report_markdown
from troubleshooter.report.text import plain, report_lines

FIXTURES = sorted((Path(__file__).parent.parent / "fixtures").rglob("*.yaml"))
ERROR = "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version"
IDS = [secret.encode("ascii", "backslashreplace").decode() for secret, _ in PLANTED]


def shows(text: str, secret: str) -> bool:
    """In any spelling: composed or not, escaped for JSON or not, in whatever case."""
    forms = {secret, unicodedata.normalize("NFC", secret), unicodedata.normalize("NFD", secret)}
    forms |= {json.dumps(form)[1:-1] for form in forms}
    return any(form.casefold() in text.casefold() for form in forms)


def told(report: Report) -> object:
    return report.verdict, [(one.id, one.confidence, len(one.evidence)) for one in report.diagnoses]


def shared(report: Report, text: str) -> str:
    neutral, _ = redact(report, learn_from=[text])
    assert told(neutral) == told(report)
    return "\n".join(
        (
            report_json(neutral),
            json.dumps(json.loads(report_json(neutral)), ensure_ascii=False),
            report_markdown(neutral),
            plain(report_lines(neutral), 80),
        )
    )


def test_at_least_fifty_secrets_are_planted() -> None:
    assert len({secret for secret, _ in PLANTED}) >= 50


@pytest.mark.parametrize(("secret", "line"), PLANTED, ids=IDS)
def test_a_planted_secret_is_in_no_shared_report(secret: str, line: str, knowledge: Knowledge) -> None:
    text = f"{line[-120:]} {ERROR}"
    report = diagnose_text(Request(texts=(("train.log", text.encode()),)), knowledge)
    assert shows(report_json(report), secret) or "\n" in line or len(line) > 120
    assert report.diagnoses[0].id == "driver-too-old-for-cuda"
    assert not shows(shared(report, line), secret)


def test_all_planted_secrets_together_are_in_no_shared_report(knowledge: Knowledge) -> None:
    text = "\n".join(f"{line} {ERROR}" for _, line in PLANTED)
    report = diagnose_text(Request(texts=(("/home/annabel/train.log", text.encode()),)), knowledge)
    out = shared(report, text)
    assert [secret for secret, _ in PLANTED if shows(out, secret)] == []


def recording() -> dict[str, object]:
    lines = "\n".join(line for _, line in PLANTED) + "\n"
    run = {"python": "/home/annabel/venv/bin/python", "script": "import_torch.py", "ending": "ok", "errors": lines}
    return {
        "schema": SCHEMA,
        "platform": "linux",
        "environment": {
            "PATH": "/home/annabel/experiment-zebra/bin:/usr/bin",
            "LD_LIBRARY_PATH": "/home/jörgmüller/cuda/lib64",
            "PIP_INDEX_URL": "https://__token__:pypi-t0k3n-9f8e7d6c5b4a@pkgs.acme-research.com/team-red/simple",
            "HF_TOKEN": "hf_QwErTyUiOpAsDfGhJkLzXcVbNm12345678",
            "ACME_PROJECT": "projectx",
            "USER": "katharina",
            "HOSTNAME": "gpubox-44",
        },
        "files": {
            "/etc/os-release": 'ID=ubuntu\nVERSION_ID="22.04"\nPRETTY_NAME="Ubuntu 22.04.4 LTS"\n',
            "/etc/hostname": "gpubox-44\n",
            "/sys/class/dmi/id/product_serial": "CZ3210XYZ\n",
            "/home/annabel/acquisition plan/notes.txt": lines,
            "/proc/sys/kernel/osrelease": "5.15.0-105-generic\n",
        },
        "listings": {"/home": ["annabel", "王小明"], "/home/annabel": ["acquisition plan", "venv", "Merger2027"]},
        "missing": ["/home/annabel/Merger2027/x"],
        "commands": [
            {"argv": ["nvidia-smi"], "text": f"{lines}{ERROR}\n", "code": 9},
            {"argv": ["nvidia-smi", "-q", "-x"], "text": lines, "code": 9},
        ],
        "target": {"inspection": {**run, "script": "inspect_environment.py"}, "import": run},
    }


def test_all_planted_secrets_are_gone_from_a_recording_and_the_verdict_is_the_same(knowledge: Knowledge) -> None:
    before = recording()
    after, counts = redact_recording(before)
    text = json.dumps(after, ensure_ascii=False)
    assert [secret for secret, _ in PLANTED if shows(text, secret)] == []
    assert "CZ3210XYZ" not in text
    assert set(after["environment"]) == {"PATH", "LD_LIBRARY_PATH", "PIP_INDEX_URL"}
    assert counts["variables left out"] == 4
    reports = [check(Request(), knowledge, RecordedMachine(one, "x")) for one in (before, after)]
    assert reports[0].diagnoses
    assert told(reports[0]) == told(reports[1])


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_fixture_is_diagnosed_otherwise_when_it_is_neutral(path: Path, knowledge: Knowledge) -> None:
    fixture = yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    hints = tuple((str(name), str(value)) for name, value in fixture.get("set", {}).items())
    text = fixture.get("text", "")
    neutral = redact(text)[0]
    answers = []
    for words, machine in (
        (text, lambda: fixture["recording"]),
        (neutral, lambda: redact_recording(fixture["recording"])[0]),
    ):
        request = Request(texts=((path.name, words.encode()),) if words else (), hints=hints)
        if "recording" in fixture:
            answers.append(told(check(request, knowledge, RecordedMachine(machine(), path.name))))
        else:
            answers.append(told(diagnose_text(request, knowledge)))
    assert answers[0] == answers[1]


def test_the_same_original_is_the_same_neutral_name_everywhere() -> None:
    text, _ = redact(
        "bob@box17:~$ ls\nFile '/home/bob/a b/x.py'\nbob says /home/carol/y and BOX17\n10.1.2.3:80 10.1.2.3:81"
    )
    assert text == (
        "user@host:~$ ls\nFile '/home/user/name1/name1.py'\nuser says /home/user2/name2 and host\n10.0.0.1:80 10.0.0.1:81"
    )


def test_what_is_neutral_already_stays_as_it_is() -> None:
    once, _ = redact("\n".join(line for _, line in PLANTED if "10." not in line and ".113." not in line))
    assert redact(once)[0] == once


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-cublas-cu12==12.4.5.8",
        "nvidia-curand-cu12        10.3.5.147",
        "Found existing installation: nvidia-cudnn-cu12 9.1.0.70",
        "cuDNN version 8.9.2.26",
        "Driver Version: 32.0.15.6094",
        "libcublas.so.12.4.5.8",
        "/usr/local/cuda-12.1/lib64/libcudart.so.12.1.105",
        "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x25:0xffff:1482)",
        "undefined symbol: _ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        "undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12",
        "symbol memcpy@GLIBC_2.14 (GLIBCXX_3.4.30)",
        "torch-2.5.1+cu124-cp311-cp311-manylinux1_x86_64.whl",
        "pip install torch --index-url https://download.pytorch.org/whl/cu124",
        "Looking in indexes: https://pypi.tuna.tsinghua.edu.cn/simple",
        "at::native::copy_kernel_cuda c10::Error 127.0.0.1:29500 ::1",
        "max_new_tokens=512 pad_token='<pad>' KeyError: 'token'",
        '  File "/usr/lib/python3.11/site-packages/torch/cuda/__init__.py", line 302, in _lazy_init',
        "ImportError: cannot import name 'random' from '/home/user/random.py'",
        "Thread 3 died at 12:34:56.789 with exit code 139",
    ],
)  # fmt: skip
def test_what_a_diagnosis_rests_on_is_left_alone(text: str) -> None:
    assert redact(text) == (text, {})


def test_what_the_environment_tells_is_replaced_wherever_it_stands() -> None:
    environ = {
        "USER": "mia",
        "HOME": "/srv/people/mia",
        "WEBHOOK_SECRET": "plain-words",
        "EDITOR": "vim",
        "HOSTNAME": "b7",
    }
    identity = identity_of(environ, ["b7.lab.example.net"])
    text, counts = redact("mia on b7.lab.example.net: /srv/people/mia/work/x.log says plain-words to vim", identity)
    assert text == "user on host: /home/user/name1/name1.log says <secret> to vim"
    assert counts["secrets"] == 1


def test_a_name_that_is_a_word_of_the_trade_does_not_spoil_the_text() -> None:
    identity = Identity(users=("cuda",), hosts=("gpu",))
    assert redact("CUDA error on gpu 0", identity)[0] == "CUDA error on gpu 0"


def test_hostile_texts_neither_hang_nor_crash() -> None:
    for text in ("@" * 20000, "/home/" * 5000, "a." * 20000, "\\" * 20000, "://" * 5000, "x=" * 10000, "0" * 50000, "1:" * 20000,
                 "token=" * 4000, "-----BEGIN KEY-----" * 500, "'/" * 10000, "a@" * 8000, "\\\\a\\" * 5000, "10.0.0.1 " * 3000):  # fmt: skip
        redact(text)


def run(*arguments: str, cwd: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    variables = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-m", "troubleshooter", *arguments],
        cwd=cwd,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_line_shares_nothing(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("\n".join(f"{line} {ERROR}" for _, line in PLANTED), encoding="utf-8")
    who = {"USER": "wilhelmine", "HOME": "/home/wilhelmine", "SECRET_TOKEN": "four-plain-words-here"}
    with log.open("a", encoding="utf-8") as file:
        file.write(f"\nwilhelmine four-plain-words-here {ERROR}\n")
    verdicts = set()
    for arguments in (
        ["--format", "markdown"],
        ["--share"],
        ["--share", "--format", "json"],
        ["--format", "markdown", "--lang", "zh"],
    ):
        done = run("log", str(log), *arguments, cwd=tmp_path, **who)
        verdicts.add(done.returncode)
        out = done.stdout + done.stderr
        if "json" in arguments:
            out += json.dumps(json.loads(done.stdout), ensure_ascii=False)
        secrets = [*(secret for secret, _ in PLANTED), "wilhelmine", "four-plain-words-here"]
        assert [secret for secret in secrets if shows(out, secret)] == [], arguments
    assert verdicts == {1}


def test_a_fault_of_our_own_tells_no_names(tmp_path: Path) -> None:
    code = (
        "import troubleshooter.pipeline as p\n"
        "def broken(*_): raise RuntimeError('/home/annabel/acquisition/x hf_QwErTyUiOpAsDfGhJkLzXcVbNm12345678 wilhelmine')\n"
        "p.diagnose_text = broken\n"
        "from troubleshooter.cli import main\nraise SystemExit(main(['log', '/dev/null']))\n"
    )
    variables = {**os.environ, "USER": "wilhelmine", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 4
    for secret in ("annabel", "acquisition", "hf_Qw", "wilhelmine"):
        assert secret not in done.stderr

"""Words in the quoting of each shell: what is typed comes to the program as it was meant."""

import os
import re
import shlex
import subprocess

import pytest

from troubleshooter.shells import NotWritableError, kept_setting, quoted, setting, shell_of

HOSTILE = ("a b", "a;rm -rf /", "$(id)", "`id`", "it's", 'say "x"', "名字", "-x", "a&b", "%PATH%", "100%", "{torch.cuda}",
           "a|b>c<d", "^up", "!x!", "(x)", "a,b;c=d", "C:\\Program Files\\x\\", "\\\\srv\\share\\", 'tail\\"', "~home", "*", "")  # fmt: skip


def as_cmd_reads(line: str, variables: dict[str, str]) -> list[str]:
    """What a program gets from a line typed at cmd's prompt: cmd's own reading first, then the program's C runtime's."""
    expanded = re.sub(r"%([^%]+)%", lambda found: variables.get(found[1].upper(), found[0]), line)
    kept, quotes, at = "", False, 0
    while at < len(expanded):
        sign = expanded[at]
        if sign == "^" and not quotes:
            at += 1
            kept += expanded[at]
        else:
            quotes ^= sign == '"'
            assert quotes or sign not in "&|<>", f"{sign} of {line} is cmd's own"
            kept += sign
        at += 1
    return as_the_program_reads(kept)


def as_the_program_reads(line: str) -> list[str]:
    """Microsoft's rules: a pair of backslashes before a quote is one, a single one makes the quote a character."""
    words: list[str] = []
    for found in re.finditer(r'(?:[^\s"\\]|\\|"(?:\\.|[^"\\])*")+', line):
        word, at, quotes = "", 0, False
        raw = found[0]
        while at < len(raw):
            slashes = re.match(r"\\*", raw[at:])
            run = len(slashes[0]) if slashes else 0
            after = raw[at + run : at + run + 1]
            if after == '"':
                word += "\\" * (run // 2)
                if run % 2:
                    word += '"'
                else:
                    quotes = not quotes
                at += run + 1
            elif run:
                word += "\\" * run
                at += run
            else:
                word += raw[at]
                at += 1
        assert not quotes, line
        words.append(word)
    return words


@pytest.mark.parametrize("name", [*HOSTILE, "a\nb"])
def test_a_hostile_name_stays_one_word_in_bash(name: str) -> None:
    assert shlex.split(quoted(("python", name), "bash")) == ["python", name]
    shown = subprocess.run(
        ["bash", "-c", quoted(("printf", "%s\\0", name), "bash")], capture_output=True, text=True, check=True
    )
    assert shown.stdout == f"{name}\0"


@pytest.mark.parametrize("name", [*HOSTILE, "a\nb"])
def test_a_hostile_name_stays_one_word_in_powershell(name: str) -> None:
    text = quoted((name, name), "powershell")
    if name in ("-x", "\\\\srv\\share\\"):
        assert text == f"{name} {name}"
        return
    literal = "'" + name.replace("'", "''") + "'"
    assert text == f"& {literal} {literal}"


@pytest.mark.parametrize("word", ["-a.b", "-a:b", "~", "@x", "#x", ""])
def test_powershell_is_not_given_bare_what_it_would_take_apart(word: str) -> None:
    assert quoted(("python", word), "powershell") == f"python '{word}'"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_one_word_in_cmd(name: str) -> None:
    line = quoted(("python", name, "last"), "cmd")
    assert as_cmd_reads(line, {"PATH": "C:\\Windows"}) == ["python", name, "last"]


def test_a_program_with_blanks_is_quoted_in_cmd() -> None:
    program = "C:\\Users\\Jo & Söhne\\python.exe"
    assert quoted((program, "-m", "pip"), "cmd") == f'"{program}" -m pip'


def test_cmd_is_not_given_what_it_cannot_take() -> None:
    with pytest.raises(NotWritableError):
        quoted(("python", "a\nb"), "cmd")
    with pytest.raises(NotWritableError):
        setting("A", "a\nb", "cmd")


@pytest.mark.parametrize("value", [*HOSTILE, "a\nb"])
def test_bash_keeps_a_value_for_later_sessions_as_it_is(value: str, tmp_path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path)}
    subprocess.run(["bash", "-c", kept_setting("A", value, "bash")], env=environment, check=True)
    shown = subprocess.run(
        ["bash", "-c", '. ~/.bashrc; printf "%s\\0" "$A"'], env=environment, capture_output=True, text=True, check=True
    )
    assert shown.stdout == f"{value}\0"


@pytest.mark.parametrize(
    ("family", "told", "shell"),
    [("windows", "cmd", "cmd"), ("windows", None, "powershell"), ("wsl", "cmd", "bash"), (None, None, "bash")],
)
def test_the_shell_follows_from_the_system_and_from_what_is_known(family, told, shell) -> None:
    assert shell_of(family, told) == shell

"""Commands and variables in the words of a shell, to be pasted into it. Pure; nothing here runs anything."""

import re
from collections.abc import Callable, Mapping

_PLAIN_TO_POWERSHELL = re.compile(r"[A-Za-z0-9_./\\][A-Za-z0-9_.:/\\=+-]*|--?[A-Za-z0-9][A-Za-z0-9_+-]*")
"""Written bare. A word that begins with a dash is a parameter there, and is cut in two at a point or a colon."""

_SPECIAL_TO_CMD = re.compile(r'[\s"&|<>^()@!%,;=`\']')
_CARETED = re.compile(r'[\s&|<>^()@!%,;"]')


class NotWritableError(ValueError):
    """A text that this shell cannot be given on a line: cmd has no way to write a line end."""


def quoted(argv: tuple[str, ...], shell: str) -> str:
    """One line that a person can paste into that shell (bash, powershell, cmd)."""
    return _COMMANDS[shell](argv)


def setting(name: str, value: str | None, shell: str) -> str:
    """The line that sets a variable for this session, or removes it (None)."""
    if shell == "powershell":
        if value is None:
            return f"Remove-Item Env:{name} -ErrorAction SilentlyContinue"
        return f"$env:{name} = {_powershell_literal(value)}"
    if shell == "cmd":
        return _cmd_setting(name, value)
    return f"unset {name}" if value is None else f"export {name}={_bash((value,))}"


def kept_setting(name: str, value: str | None, shell: str) -> str:
    """The line that does so for later sessions of this user."""
    if shell == "powershell":
        kept = "$null" if value is None else _powershell_literal(value)
        return f"[Environment]::SetEnvironmentVariable({_powershell_literal(name)}, {kept}, 'User')"
    if shell == "cmd":
        # setx has no way to remove a variable, and cuts what is longer than 1,024 characters.
        return f"reg delete HKCU\\Environment /v {name} /f" if value is None else f"setx {name} {_cmd_word(value)}"
    return f"{_bash(('echo', setting(name, value, 'bash')))} >> ~/.bashrc"


def _bash(argv: tuple[str, ...]) -> str:
    import shlex

    return shlex.join(argv)


def _powershell(argv: tuple[str, ...]) -> str:
    first, *rest = argv
    # A quoted program name is a text to PowerShell unless the call operator stands before it.
    program = first if _PLAIN_TO_POWERSHELL.fullmatch(first) else f"& {_powershell_literal(first)}"
    return " ".join(
        [program, *(text if _PLAIN_TO_POWERSHELL.fullmatch(text) else _powershell_literal(text) for text in rest)]
    )


def _powershell_literal(text: str) -> str:
    # Typographic single quotes end a literal as the straight one does; a doubled one is the character itself.
    return "'" + re.sub("(['\u2018\u2019\u201a\u201b])", r"\1\1", text) + "'"


def _cmd(argv: tuple[str, ...]) -> str:
    first, *rest = argv
    program = _one_line(first)
    return " ".join([f'"{program}"' if _SPECIAL_TO_CMD.search(program) else program, *map(_cmd_word, rest)])


def _cmd_word(text: str) -> str:
    """One argument: quoted, or with every special character escaped where quotes do not serve.

    Inside quotes cmd still replaces %NAME%, and a quote within them ends them for cmd, though not for the program.
    """
    if text and not _SPECIAL_TO_CMD.search(_one_line(text)):
        return text
    # As programs for Windows read their command line: backslashes count before a quote only.
    inside = re.sub(r'(\\*)"', r'\1\1\\"', text)
    inside = re.sub(r"(\\+)$", r"\1\1", inside)
    word = f'"{inside}"'
    return _careted(word) if '"' in text or "%" in text else word


def _cmd_setting(name: str, value: str | None) -> str:
    value = _one_line(value or "")
    return f"set {name}={_careted(value)}" if "%" in value or '"' in value else f'set "{name}={value}"'


def _careted(text: str) -> str:
    return _CARETED.sub(lambda found: found[0] if found[0].isspace() else f"^{found[0]}", text)


def _one_line(text: str) -> str:
    if "\n" in text or "\r" in text:
        raise NotWritableError("cmd cannot be given a line end")
    return text


_COMMANDS: Mapping[str, Callable[[tuple[str, ...]], str]] = {"bash": _bash, "powershell": _powershell, "cmd": _cmd}

"""Commands and variables in the words of a shell, to be pasted into it. Pure; nothing here runs anything."""

import re
from collections.abc import Callable, Mapping

# Compiled when a command for Windows is first written: most reports have none.
_PLAIN_TO_POWERSHELL = r"[A-Za-z0-9_./\\][A-Za-z0-9_.:/\\=+-]*|--?[A-Za-z0-9][A-Za-z0-9_+-]*"
"""Written bare. A word that begins with a dash is a parameter there, and is cut in two at a point or a colon."""

_SPECIAL_TO_CMD = r'[\s"&|<>^()@!%,;=`\']'
_CARETED = r'[\s&|<>^()@!%,;"]'
_LONGEST_FOR_SETX = 1024


class NotWritableError(ValueError):
    """A text that this shell cannot be given on a line: cmd has no way to write a line end."""


def shell_of(family: object, told: object) -> str:
    """Which shell commands are typed in, from the facts os.family and shell.name."""
    return (str(told) if told else "powershell") if family == "windows" else "bash"


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


def kept_setting(name: str, value: str | None, shell: str, environment: str = "") -> str:
    """The line that does so for later sessions: of this user, or in bash of an `environment` of conda (its folder)."""
    if shell == "cmd" and len(value or "") > _LONGEST_FOR_SETX:
        raise NotWritableError(f"setx cuts what is longer than {_LONGEST_FOR_SETX} characters")
    if shell == "powershell":
        kept = "$null" if value is None else _powershell_literal(value)
        return f"[Environment]::SetEnvironmentVariable({_powershell_literal(name)}, {kept}, 'User')"
    if shell == "cmd":
        # setx has no way to remove a variable.
        return f"reg delete HKCU\\Environment /v {name} /f" if value is None else f"setx {name} {_cmd_word(value)}"
    line = _bash(("echo", setting(name, value, "bash")))
    if not environment:
        return f"{line} >> ~/.bashrc"
    folder = f"{environment}/etc/conda/activate.d"
    return f"{_bash(('mkdir', '-p', folder))} && {line} >> {_bash((f'{folder}/variables.sh',))}"


def _bash(argv: tuple[str, ...]) -> str:
    import shlex

    return shlex.join(argv)


def _powershell(argv: tuple[str, ...]) -> str:
    first, *rest = argv
    # A quoted program name is a text to PowerShell unless the call operator stands before it.
    program = first if re.fullmatch(_PLAIN_TO_POWERSHELL, first) else f"& {_powershell_literal(first)}"
    return " ".join(
        [program, *(text if re.fullmatch(_PLAIN_TO_POWERSHELL, text) else _powershell_literal(text) for text in rest)]
    )


def _powershell_literal(text: str) -> str:
    # Typographic single quotes end a literal as the straight one does; a doubled one is the character itself.
    return "'" + re.sub("(['\u2018\u2019\u201a\u201b])", r"\1\1", text) + "'"


def _cmd(argv: tuple[str, ...]) -> str:
    first, *rest = argv
    program = _one_line(first)
    return " ".join([f'"{program}"' if re.search(_SPECIAL_TO_CMD, program) else program, *map(_cmd_word, rest)])


def _cmd_word(text: str) -> str:
    """One argument: quoted, or with every special character escaped where quotes do not serve.

    Inside quotes cmd still replaces %NAME%, and a quote within them ends them for cmd, though not for the program.
    """
    if text and not re.search(_SPECIAL_TO_CMD, _one_line(text)):
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
    return re.sub(_CARETED, lambda found: found[0] if found[0].isspace() else f"^{found[0]}", text)


def _one_line(text: str) -> str:
    if "\n" in text or "\r" in text:
        raise NotWritableError("cmd cannot be given a line end")
    return text


_COMMANDS: Mapping[str, Callable[[tuple[str, ...]], str]] = {"bash": _bash, "powershell": _powershell, "cmd": _cmd}

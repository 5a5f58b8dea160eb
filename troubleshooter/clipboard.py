"""What was copied, asked of whichever program of the desktop there is."""

from .errors import UsageError
from .machine import LiveMachine, Machine

_SECONDS = 10.0
_POWERSHELL = ("-NoProfile", "-Command", "[Console]::OutputEncoding=[Text.Encoding]::UTF8; Get-Clipboard -Raw")
_LINUX = (
    ("wl-paste", "--no-newline"),
    ("xclip", "-selection", "clipboard", "-o"),
    ("xsel", "--clipboard", "--output"),
    ("powershell.exe", *_POWERSHELL),  # that of Windows, from within WSL
)
_PROGRAMS = {
    "darwin": (("pbpaste",),),
    "win32": (("powershell.exe", *_POWERSHELL), ("pwsh.exe", *_POWERSHELL)),
}


def clipboard(machine: Machine | None = None) -> bytes:
    """Its text, UTF-8. Raises UsageError where it cannot be had, naming what would help."""
    machine = machine or LiveMachine()
    failed: list[str] = []
    for argv in _PROGRAMS.get(machine.platform, _LINUX):
        if not machine.which(argv[0]):
            continue
        answer = machine.run(argv, _SECONDS)
        if answer.ok:
            return answer.text.encode("utf-8", "replace")
        told = answer.errors.strip().partition("\n")[0] or answer.reason
        failed.append(f"{argv[0]}: {told}")
    if failed:
        raise UsageError(f"the clipboard cannot be read ({'; '.join(failed)})", "paste into troubleshoot log instead")
    hint = "install wl-clipboard, xclip or xsel" if machine.platform not in _PROGRAMS else "PATH lacks its program"
    raise UsageError(
        "no program that reads the clipboard was found", f"{hint}; or run troubleshoot log and paste the text"
    )

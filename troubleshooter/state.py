"""The last report, kept for `why` in the user's own state folder.

Never in the way: where it cannot be kept, it is not.
"""

import contextlib
import os
import sys


def last_report_path() -> str:
    return os.path.join(_folder(), "last-report.json")


def _folder() -> str:
    if sys.platform == "linux":
        # What platformdirs says too, without its import: every `log` comes by here, and its start is counted.
        return os.path.join(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "troubleshooter")
    import platformdirs

    return platformdirs.user_state_dir("troubleshooter", appauthor=False)


def keep_last_report(text: str) -> None:
    """Write it so that nobody else can read it, and never half."""
    try:
        path = last_report_path()
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        waiting = f"{path}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        try:
            with open(os.open(waiting, flags, 0o600), "w", encoding="ascii", errors="replace") as file:
                file.write(text)
            os.replace(waiting, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.remove(waiting)
    except (OSError, RuntimeError, ValueError):  # no home, a home that cannot be written
        return


def last_report() -> bytes | None:
    """None if there is none, or if it is somebody else's."""
    try:
        with open(last_report_path(), "rb") as file:
            if hasattr(os, "getuid") and os.fstat(file.fileno()).st_uid != os.getuid():
                return None
            return file.read()
    except (OSError, RuntimeError, ValueError):
        return None

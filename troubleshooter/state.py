"""The last report, kept for `why`, and an outline of the last check of each Python, in the user's own state folder.

Never in the way: where it cannot be kept, it is not.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

_LARGEST_CHECKS = 1024 * 1024
_MOST_CHECKS = 50


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
    _keep(last_report_path, text)


def _keep(place: Callable[[], str], text: str) -> None:
    try:
        path = place()
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
    return _kept(last_report_path)


def _kept(place: Callable[[], str], most: int = -1) -> bytes | None:
    try:
        with open(place(), "rb") as file:
            if hasattr(os, "getuid") and os.fstat(file.fileno()).st_uid != os.getuid():
                return None
            return file.read(most)
    except (OSError, RuntimeError, ValueError):
        return None


def _checks_path() -> str:
    return os.path.join(_folder(), "last-checks.json")


def last_checks() -> dict[str, Any]:
    """By the path of a Python: {"last": outline, "problem": outline of the last that had one}. Empty if unreadable."""
    import json

    try:
        found = json.loads(_kept(_checks_path, _LARGEST_CHECKS) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, dict)} if isinstance(found, dict) else {}


def keep_last_check(python: str, outline: Mapping[str, Any]) -> None:
    import json

    checks = last_checks()
    before = checks.pop(python, {})
    problem = outline if outline["problems"] else before.get("problem")
    checks[python] = {"last": outline, **({"problem": problem} if problem else {})}
    # The newest stand last.
    _keep(_checks_path, json.dumps(dict(list(checks.items())[-_MOST_CHECKS:])))

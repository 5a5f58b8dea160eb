"""What a person sees who waits: a line on the terminal, wiped away at the end."""

import sys
import time


class BytesRead:
    """Says after a second, and then a few times a second, how much was read. For a terminal only."""

    _FIRST, _NEXT = 1.0, 0.2

    def __init__(self) -> None:
        self._read = 0
        self._due = time.monotonic() + self._FIRST
        self._width = 0

    def __call__(self, size: int) -> None:
        self._read += size
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self._NEXT
            self._show(f"{self._read / 1e6:,.0f} MB read")

    def _show(self, text: str) -> None:
        sys.stderr.write(f"\r{text.ljust(self._width)}")
        sys.stderr.flush()
        self._width = len(text)

    def close(self) -> None:
        if self._width:
            self._show("")
            sys.stderr.write("\r")
            sys.stderr.flush()

"""What a command printed, kept in files without a name: its beginning and its end, however much it was."""

import io
from collections.abc import Iterator
from typing import IO

_HEAD, _TAIL = 64 << 20, 96 << 20
"""Bytes of the beginning, and of each of the two files that take turns for the end."""
_HEAD_HELD, _TAIL_HELD = 1 << 20, 2 << 20
"""The same where no file can be made."""
_LONGEST_LINE = 64 * 1024


class Spool:
    """Lines of several streams in the order in which they ended. A run reads it once, from `read`."""

    def __init__(self, folder: str | None = None) -> None:
        self.dropped = 0
        """Bytes of the middle that are not kept."""
        self._unfinished: dict[int, bytes] = {}
        self._folder = folder
        self._files: list[IO[bytes]] = []
        self._sizes = (_HEAD, _TAIL)
        self._lengths = [0, 0, 0]
        self._at = 0
        self._reading: Iterator[bytes] | None = None
        self._rest = b""

    def close(self) -> None:
        for file in self._files:
            file.close()

    def add(self, stream: int, data: bytes) -> None:
        """Bytes of one stream; lines are kept whole, so that two streams do not cut into each other."""
        held = self._unfinished.get(stream, b"")
        end = data.rfind(b"\n") + 1
        if not end and len(held) + len(data) < _LONGEST_LINE:
            self._unfinished[stream] = held + data
            return
        if not end:
            end = len(data)
        self._unfinished[stream] = data[end:]
        self._keep(held + data[:end])

    def _keep(self, data: bytes) -> None:
        try:
            self._append(data)
        except OSError:  # the disk is full: the last lines matter most
            self.dropped += sum(self._lengths)
            self.close()
            self._in_memory()
            self._append(data)

    def _open(self) -> None:
        """At the first line: many commands print none, and all start sooner."""
        import tempfile

        try:
            self._files = [tempfile.TemporaryFile(dir=self._folder) for _ in range(3)]  # noqa: SIM115  see close
        except OSError:
            self._in_memory()

    def _in_memory(self) -> None:
        self._files = [io.BytesIO() for _ in range(3)]
        self._sizes = (_HEAD_HELD, _TAIL_HELD)
        self._lengths, self._at = [0, 0, 0], 0

    def _append(self, data: bytes) -> None:
        if not self._files:
            self._open()
        limit = self._sizes[0] if self._at == 0 else self._sizes[1]
        if self._lengths[self._at] and self._lengths[self._at] + len(data) > limit:
            self._at = 1 if self._at in (0, 2) else 2
            self.dropped += self._lengths[self._at]
            self._files[self._at].seek(0)
            self._files[self._at].truncate()
            self._lengths[self._at] = 0
        self._files[self._at].write(data)
        self._lengths[self._at] += len(data)

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes of what was kept; the beginning first, the end last."""
        if self._reading is None:
            for stream in sorted(self._unfinished):
                if rest := self._unfinished.pop(stream):
                    self._keep(rest + b"\n")
            self._reading = self._blocks()
        while not self._rest or size < 0:
            block = next(self._reading, b"")
            if not block:
                break
            self._rest += block
        taken, self._rest = (self._rest, b"") if size < 0 else (self._rest[:size], self._rest[size:])
        return taken

    def _blocks(self) -> Iterator[bytes]:
        if not self._files:
            return
        order = {0: (0,), 1: (0, 2, 1), 2: (0, 1, 2)}[self._at]
        for place, number in enumerate(order):
            if self.dropped and place == min(1, len(order) - 1):
                yield b"[%d bytes left out]\n" % self.dropped
            file = self._files[number]
            file.seek(0)
            while block := file.read(256 * 1024):
                yield block

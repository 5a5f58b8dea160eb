"""Runs the user's own command as if we were not there, and keeps what it printed.

Streams that are a terminal stay one for the command: with input and output on a terminal it gets a terminal of its own
that is joined to the real one, otherwise each output has a pseudo-terminal or a pipe, as it would have had. Signals
reach it, its output comes through at once and unchanged, and how it ended is how we end.
"""

import contextlib
import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .spool import Spool

if TYPE_CHECKING:
    import subprocess

_BLOCK = 64 * 1024
_GRACE = 0.3
"""Seconds for what is still in the pipes once the command has ended: what it left running may hold them open."""
_LOOKS = (0.02, 0.1, 0.25, 0.5)
"""Seconds after the start at which the command's processes are looked at; then each half second."""
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCONT")


class Ran(NamedTuple):
    """How the command ended: `code` as a shell gives it, or the number of the `signal` that ended it, else 0."""

    code: int
    signal: int = 0
    reason: str = ""
    """Why it could not be started, if it could not."""
    by_the_user: bool = False
    """It was told to end, by Ctrl-C or by a signal that we passed on."""


def run_command(argv: Sequence[str], spool: Spool, look: Callable[[int], None] = lambda _: None) -> Ran:
    """Run it to its end. `look` is called with its process id from time to time while it runs."""
    try:
        return (_on_windows if sys.platform == "win32" else _on_posix)(argv, spool, look)
    except FileNotFoundError:
        return Ran(127, reason=f"there is no program {argv[0]}")
    except OSError as error:
        return Ran(126, reason=f"{argv[0]} cannot be run: {error.strerror}")


def end_like(ran: Ran) -> int:
    """The exit code of the command; where a signal ended it, the same signal ends us."""
    if ran.signal and sys.platform != "win32":
        with contextlib.suppress(OSError, ValueError, ImportError):
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command left its core already
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no other handler
            signal.signal(ran.signal, signal.SIG_DFL)
        os.kill(os.getpid(), ran.signal)
    return ran.code


def _ended(code: int, *, asked: bool) -> Ran:
    if code < 0:
        return Ran(128 - code, -code, by_the_user=asked or -code == signal.SIGINT)
    return Ran(code, by_the_user=asked or code == 128 + signal.SIGINT)


def _on_windows(argv: Sequence[str], spool: Spool, look: Callable[[int], None]) -> Ran:
    """Outputs are pipes, on a console too. Ctrl-C reaches every program of the console; ours waits for the command."""
    import subprocess
    import threading

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, lambda *_: None)
    assert process.stdout is not None
    assert process.stderr is not None
    pairs = ((process.stdout, 1), (process.stderr, 2))

    def copy(pipe: Any, number: int) -> None:
        while data := os.read(pipe.fileno(), _BLOCK):
            with contextlib.suppress(OSError):
                _write(number, data)
            spool.add(number, data)

    threads = [threading.Thread(target=copy, args=pair, daemon=True) for pair in pairs]
    for thread in threads:
        thread.start()
    times = _times()
    next_look = next(times)
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
        if time.monotonic() >= next_look:
            next_look = next(times)
            look(process.pid)
    for thread in threads:
        thread.join(_GRACE)
    signal.signal(signal.SIGINT, before)
    code = process.returncode
    return Ran(code, by_the_user=code & 0xFFFFFFFF == 0xC000013A)  # STATUS_CONTROL_C_EXIT


def _times() -> Iterator[float]:
    start = time.monotonic()
    yield from (start + seconds for seconds in _LOOKS)
    while True:
        yield time.monotonic() + _LOOKS[-1]


if sys.platform != "win32":
    import fcntl
    import pty
    import select
    import termios
    import tty

    def _on_posix(argv: Sequence[str], spool: Spool, look: Callable[[int], None]) -> Ran:
        import subprocess

        on_terminal = [_is_terminal(number) for number in (0, 1, 2)]
        # In the background the terminal is somebody else's: to set its mode would stop us.
        joined = on_terminal[0] and on_terminal[1] and _in_the_foreground()
        ours: dict[int, int] = {}
        theirs: list[int] = []

        def output(number: int) -> int:
            source, end = _pseudo_terminal(number) if on_terminal[number] else os.pipe()
            ours[source] = number
            theirs.append(end)
            return end

        out = output(1)
        error = out if joined and on_terminal[2] else output(2)
        master = next(source for source, number in ours.items() if number == 1)

        def own_terminal() -> None:
            os.setsid()
            fcntl.ioctl(1, termios.TIOCSCTTY, 0)

        with _Signals() as signals:
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=out if joined else None,
                    stdout=out,
                    stderr=error,
                    preexec_fn=own_terminal if joined else None,  # noqa: PLW1509  no thread is running yet
                    close_fds=True,
                )
            finally:
                for end in theirs:
                    os.close(end)
            signals.send_to(process, own_group=joined)
            with _Raw(master if joined else None):
                _copy(process, ours, master if joined else None, spool, look)
            asked = signals.asked
        return _ended(process.returncode, asked=asked)

    def _is_terminal(number: int) -> bool:
        try:
            return os.isatty(number)
        except OSError:
            return False

    def _pseudo_terminal(number: int) -> tuple[int, int]:
        """(our end, the command's) of one like the real one, but for changing no byte of output."""
        source, end = pty.openpty()
        with contextlib.suppress(termios.error, OSError):
            settings = termios.tcgetattr(number)
            settings[1] &= ~termios.OPOST  # the real one turns line ends into what it wants
            termios.tcsetattr(end, termios.TCSANOW, settings)
        _take_size(number, source)
        return source, end

    def _take_size(number: int, master: int) -> None:
        with contextlib.suppress(OSError):
            fcntl.ioctl(master, termios.TIOCSWINSZ, fcntl.ioctl(number, termios.TIOCGWINSZ, b"\0" * 8))

    class _Raw:
        """The real terminal passes every key on as it is while the command has a terminal of its own."""

        def __init__(self, master: int | None) -> None:
            self._master = master
            self._before: list[Any] | None = None

        def __enter__(self) -> None:
            if self._master is None:
                return
            master = self._master
            with contextlib.suppress(termios.error):
                self._before = termios.tcgetattr(0)
                tty.setraw(0, termios.TCSANOW)
                # Output goes on to be shown as it was: the command's own terminal leaves line ends alone.
                settings = termios.tcgetattr(0)
                settings[1] = self._before[1]
                termios.tcsetattr(0, termios.TCSANOW, settings)
            signal.signal(signal.SIGWINCH, lambda *_: _take_size(0, master))

        def __exit__(self, *_: object) -> None:
            if self._before is not None:
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(0, termios.TCSADRAIN, self._before)
            if self._master is not None:
                signal.signal(signal.SIGWINCH, signal.SIG_DFL)

    class _Signals:
        """Signals that are sent to us go to the command. A key on a terminal that both share reaches it by itself."""

        def __init__(self) -> None:
            self.asked = False
            self._process: subprocess.Popen[bytes] | None = None
            self._own_group = False
            self._before: dict[signal.Signals, Any] = {}

        def __enter__(self) -> "_Signals":  # noqa: PYI034  Self is of 3.11
            for name in ("SIGINT", "SIGQUIT", *_FORWARDED):
                number = signal.Signals[name]
                if signal.getsignal(number) != signal.SIG_IGN:  # as nohup wants it: the command inherits it
                    self._before[number] = signal.signal(number, self._pass_on)
            return self

        def send_to(self, process: "subprocess.Popen[bytes]", *, own_group: bool) -> None:
            self._process, self._own_group = process, own_group

        def _pass_on(self, number: int, _: object) -> None:
            if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                self.asked = True
            if self._process is None or (number in (signal.SIGINT, signal.SIGQUIT) and _in_the_foreground()):
                return
            with contextlib.suppress(OSError):
                if self._own_group:
                    os.killpg(self._process.pid, number)
                else:
                    os.kill(self._process.pid, number)

        def __exit__(self, *_: object) -> None:
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def _in_the_foreground() -> bool:
        try:
            terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
        except OSError:
            return False
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        except OSError:
            return False
        finally:
            os.close(terminal)

    def _copy(
        process: "subprocess.Popen[bytes]",
        ours: dict[int, int],
        master: int | None,
        spool: Spool,
        look: Callable[[int], None],
    ) -> None:
        """Until the command has ended and its outputs are empty; `master`: what is typed goes there."""
        poll = select.poll()
        for source in ours:
            poll.register(source, select.POLLIN)
        if master is not None:
            poll.register(0, select.POLLIN)
        times = _times()
        next_look, until = next(times), 0.0
        while ours:
            ready = poll.poll(20 if until else 50)
            if not until and process.poll() is not None:
                until = time.monotonic() + _GRACE
            if until and (not ready or time.monotonic() > until):
                break
            if not until and time.monotonic() >= next_look:
                next_look = next(times)
                look(process.pid)
            for source, _ in ready:
                if source == 0 and master is not None:
                    _type(poll, master)
                elif source in ours and not _pass(source, ours[source], spool):
                    poll.unregister(source)
                    del ours[source]
                    os.close(source)
        for source in ours:
            os.close(source)
        while process.poll() is None:
            with contextlib.suppress(OSError):
                time.sleep(0.02)
            if time.monotonic() >= next_look:
                next_look = next(times)
                look(process.pid)

    def _type(poll: Any, master: int) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = os.read(0, _BLOCK)
        if not data:  # the terminal is gone
            poll.unregister(0)
            return
        with contextlib.suppress(OSError):
            _write(master, data)

    def _pass(source: int, number: int, spool: Spool) -> bool:
        """Whether more may come from there."""
        try:
            data = os.read(source, _BLOCK)
        except OSError:  # how a pseudo-terminal says that nobody has it open any more
            return False
        if not data:
            return False
        spool.add(number, data)
        try:
            _write(number, data)
        except OSError as error:
            # Whoever read our output went away: closing the pipe tells the command so, as it would have been told.
            return error.errno not in (errno.EPIPE, errno.EBADF, errno.EIO)
        return True


def _write(number: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(number, data) :]
        except BlockingIOError:  # somebody left the terminal in that mode
            time.sleep(0.005)

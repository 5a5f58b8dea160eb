"""Running one program so that nothing it does can hurt us: it may hang, fork, flood, crash or answer in any bytes.

Every ending is a value. The only exceptions that leave `run` are those that end this process (KeyboardInterrupt,
SystemExit) and those of the caller's own `on_line`; the child and its children are ended before they pass on.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from .model import Source
from .text import decode

if TYPE_CHECKING:
    import subprocess

First = TypeVar("First")
Second = TypeVar("Second")

OUTPUT_LIMIT = 8 * 1024 * 1024
PIPE_GRACE = 1.0
"""Seconds that output may still come in after the program itself has ended: a grandchild may hold the pipe open."""
TERM_GRACE = 0.5
"""Seconds between the request to end and the order to."""
KILL_GRACE = 1.0
"""Seconds to wait for a killed process. One that sits in an uninterruptible call of a driver never ends."""
_LONGEST_LINE = 1024 * 1024
# CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW; `start_new_session` does on POSIX what the first does here.
_CREATION_FLAGS = 0x0000_0200 | 0x0800_0000 if sys.platform == "win32" else 0
_FATAL = ("SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGSEGV", "SIGSYS")


class Answer(NamedTuple):
    """How a program ended and what it printed.

    `ending`: ok (exit code 0), failed (another code, or it could not be started), crashed (by a signal, or with a
    Windows exception code), timed-out (the limit of `seconds`), hung (the limit of `alive_limit`), missing (no such
    program), denied (there, but may not be run), unknown (a recording does not say).
    `code` is None where there is none. `signal` is a name such as SIGSEGV, or 0xC0000005 on Windows.
    `text` is standard output, `errors` standard error; `dropped` counts bytes of both left out of their middle.
    """

    program: str
    argv: tuple[str, ...]
    ending: str
    code: int | None = None
    signal: str = ""
    text: str = ""
    errors: str = ""
    seconds: float = 0.0
    reason: str = ""
    dropped: int = 0

    @property
    def ok(self) -> bool:
        return self.ending == "ok"

    @property
    def missing(self) -> bool:
        return self.ending == "missing"

    @property
    def source(self) -> Source:
        return Source("probe", "command", " ".join(self.argv)[:200])


def run(
    program: str,
    argv: Sequence[str],
    seconds: float,
    env: Mapping[str, str],
    *,
    input: bytes = b"",  # noqa: A002  the word that everyone knows from subprocess
    cwd: str | None = None,
    limit_bytes: int = OUTPUT_LIMIT,
    on_line: Callable[[str], None] | None = None,
    alive_limit: float | None = None,
) -> Answer:
    """Run the file `program` with `argv` (whose first entry is the name it is called by) and exactly `env`."""
    import subprocess

    began = time.monotonic()
    named = (str(program), tuple(map(str, argv)))
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            list(named[1]) if named[1] else [named[0]],
            executable=named[0],
            stdin=pipe if input else subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            cwd=cwd,
            env=dict(env),
            bufsize=0,
            start_new_session=True,
            creationflags=_CREATION_FLAGS,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        ending, reason = _why_not_started(error, named[0], cwd)
        return Answer(*named, ending, reason=reason, seconds=_since(began))

    group = _Group(process)
    sinks = {"text": _Sink(limit_bytes, on_line), "errors": _Sink(limit_bytes)}
    pipes: _Pipes | None = None
    ending = reason = ""
    try:
        with _running_lock:
            _running.add(group)
            if _stopping.is_set():
                raise KeyboardInterrupt
        pipes = _ThreadedPipes(process, input) if sys.platform == "win32" else _PolledPipes(process, input)
        ending, reason = _attend(group, pipes, sinks, seconds, alive_limit)
    finally:
        stuck = group.end()
        with _running_lock:
            _running.discard(group)
        if pipes is not None:
            _last_words(pipes, sinks)
            pipes.close()
    for sink in sinks.values():
        sink.finish()
    code, signal_name = (None, "") if ending else _how_it_ended(process.returncode)
    if not ending:
        ending = "crashed" if signal_name else "ok" if code == 0 else "failed"
        reason = f"it ended with {signal_name or f'exit code {code}'}" if ending != "ok" else ""
    if stuck:
        reason += "; it could not be ended and is still in a call of the kernel"
    dropped = sum(sink.dropped for sink in sinks.values())
    return Answer(
        *named, ending, code, signal_name, sinks["text"].text, sinks["errors"].text, _since(began), reason, dropped
    )


def end_all() -> None:
    """End every program that any thread is running, and any that is started from now on.

    For the thread that takes Ctrl-C: its exception never reaches the `run` of another thread.
    """
    _stopping.set()
    with _running_lock:
        groups = list(_running)
    for group in groups:
        group.end()


def at_the_same_time(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """The values of both; `second` has a thread of its own. What interrupts us ends the programs of both."""
    values: list[Second] = []
    faults: list[BaseException] = []

    def work() -> None:
        try:
            values.append(second())
        except BaseException as fault:
            faults.append(fault)

    thread = threading.Thread(target=work, daemon=True)
    try:
        try:
            thread.start()
        except RuntimeError:  # no room for another thread
            return first(), second()
        one = first()
        thread.join()
    except BaseException:
        end_all()
        raise
    if faults:
        raise faults[0]
    return one, values[0]


_running: "set[_Group]" = set()
_running_lock = threading.Lock()
_stopping = threading.Event()


def _since(began: float) -> float:
    return round(time.monotonic() - began, 3)


def _why_not_started(error: Exception, program: str, cwd: str | None) -> tuple[str, str]:
    if cwd is not None and not os.path.isdir(cwd):
        return "failed", f"the working folder {cwd} is not there"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        if os.path.exists(program):
            return "failed", f"{program} is there, but the interpreter or loader that it names is not"
        return "missing", f"there is no {program}"
    if isinstance(error, PermissionError):
        kind = "is a folder" if os.path.isdir(program) else "may not be run by this user"
        return "denied", f"{program} {kind}"
    return "failed", f"{program} could not be started: {getattr(error, 'strerror', None) or error}"


def _how_it_ended(code: int) -> tuple[int | None, str]:
    if sys.platform == "win32":
        # NTSTATUS values of the severity "error" are what an unhandled exception leaves: 0xC0000005, 0xC000001D.
        return code, f"0x{code & 0xFFFFFFFF:08X}" if code & 0xFFFFFFFF >= 0xC0000000 else ""
    number = -code if code < 0 else code - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}" if code < 0 else ""
    # A wrapper script passes its child's death on as 128 + signal; other codes above 128 are plain exit codes.
    return code if code >= 0 else None, name if code < 0 or name in _FATAL else ""


def _attend(
    group: "_Group", pipes: "_Pipes", sinks: Mapping[str, "_Sink"], seconds: float, alive_limit: float | None
) -> tuple[str, str]:
    """Carry output until the program has ended or must be ended; the ending is empty in the first case."""
    last_sign = time.monotonic()
    deadline = last_sign + seconds
    last_work = group.work() if alive_limit else None
    next_look = last_sign
    ended_at: float | None = None
    while True:
        for name, chunk in pipes.wait(0.05 if pipes.open else 0.005):
            sinks[name].feed(chunk)
            last_sign = time.monotonic()
        now = time.monotonic()
        if ended_at is None and group.has_ended():
            ended_at = now
        if ended_at is not None:
            if not pipes.open or now - ended_at > PIPE_GRACE:
                return "", ""
            continue
        if now > deadline:
            return "timed-out", f"it did not end within {seconds:g} s"
        if alive_limit and now >= next_look:
            next_look = now + min(1.0, alive_limit / 4)
            work = group.work()
            if work is not None and (last_work is None or work.is_more_than(last_work)):
                last_work, last_sign = work, now
            if now - last_sign > alive_limit:
                return "hung", f"no sign of life for {alive_limit:g} s: no output, no processor time, nothing read"


def _last_words(pipes: "_Pipes", sinks: Mapping[str, "_Sink"]) -> None:
    """What still lies in the pipes once nobody writes any more; bounded, as an escaped grandchild may go on."""
    until = time.monotonic() + 0.2
    while pipes.open and time.monotonic() < until:
        got = False
        for name, chunk in pipes.wait(0.02):
            sinks[name].feed(chunk)
            got = True
        if not got:
            break


class _Sink:
    """Keeps the head and the tail of a stream, and hands on its lines."""

    def __init__(self, limit_bytes: int, on_line: Callable[[str], None] | None = None) -> None:
        self._half = max(1, limit_bytes // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._on_line = on_line
        self._line = bytearray()
        self.dropped = 0

    def feed(self, chunk: bytes) -> None:
        room = self._half - len(self._head)
        self._head += chunk[: max(0, room)]
        self._tail += chunk[max(0, room) :]
        if len(self._tail) > 2 * self._half:
            self._trim()
        if self._on_line:
            self._line += chunk
            if b"\n" in chunk or len(self._line) > _LONGEST_LINE:
                *lines, rest = bytes(self._line).split(b"\n")
                if len(rest) > _LONGEST_LINE:
                    lines, rest = [*lines, rest], b""
                self._line = bytearray(rest)
                for line in lines:
                    self._on_line(decode(line.rstrip(b"\r")))

    def finish(self) -> None:
        """The last line may have no end. Called only when nothing went wrong on our side."""
        if self._on_line and self._line:
            self._on_line(decode(bytes(self._line).rstrip(b"\r")))
            self._line.clear()
        self._trim()

    def _trim(self) -> None:
        surplus = max(0, len(self._tail) - self._half)
        del self._tail[:surplus]
        self.dropped += surplus

    @property
    def text(self) -> str:
        if not self.dropped:
            return decode(bytes(self._head + self._tail))
        # Cut at line ends, so that no character is cut in two.
        head = bytes(self._head[: self._head.rfind(b"\n") + 1] or self._head)
        tail = bytes(self._tail[self._tail.find(b"\n") + 1 :])
        return f"{decode(head)}\n[{self.dropped} bytes left out]\n{decode(tail)}"


class _Pipes(Protocol):
    """The output streams of a child that are still open, by name, and a bounded wait for what they bring."""

    @property
    def open(self) -> bool: ...

    def wait(self, seconds: float) -> Iterator[tuple[str, bytes]]: ...

    def close(self) -> None: ...


class _PolledPipes:
    """One thread, non-blocking pipes: a grandchild that keeps one open costs nothing."""

    def __init__(self, process: "subprocess.Popen[bytes]", data: bytes) -> None:
        import selectors

        assert process.stdout is not None
        assert process.stderr is not None
        self._selector = selectors.DefaultSelector()
        self._read, self._write = selectors.EVENT_READ, selectors.EVENT_WRITE
        self._streams = [process.stdout, process.stderr]
        self._data = memoryview(data)
        for name, stream in (("text", process.stdout), ("errors", process.stderr)):
            _unblock(stream.fileno())
            self._selector.register(stream, self._read, name)
        self._left = 2
        if process.stdin is not None:
            _unblock(process.stdin.fileno())
            self._streams.append(process.stdin)
            self._selector.register(process.stdin, self._write, "")

    @property
    def open(self) -> bool:
        return self._left > 0

    def wait(self, seconds: float) -> Iterator[tuple[str, bytes]]:
        if not self._selector.get_map():
            time.sleep(seconds)
            return
        for key, _ in self._selector.select(seconds):
            if not key.data:
                self._send(key.fd, key.fileobj)
                continue
            try:
                chunk = os.read(key.fd, 65536)
            except BlockingIOError:
                continue
            except OSError:
                chunk = b""
            if chunk:
                yield key.data, chunk
            else:
                self._selector.unregister(key.fileobj)
                self._left -= 1

    def _send(self, descriptor: int, stream: object) -> None:
        try:
            self._data = self._data[os.write(descriptor, self._data[:65536]) :]
        except BlockingIOError:
            return
        except OSError:
            self._data = self._data[:0]
        if not self._data:
            self._selector.unregister(stream)  # type: ignore[arg-type]
            self._streams[-1].close()

    def close(self) -> None:
        self._selector.close()
        for stream in self._streams:
            with contextlib.suppress(OSError):
                stream.close()


def _unblock(descriptor: int) -> None:
    if sys.platform != "win32":
        os.set_blocking(descriptor, False)


class _ThreadedPipes:
    """For Windows, whose pipes cannot be polled: a thread per stream. Those of streams that never end are left."""

    def __init__(self, process: "subprocess.Popen[bytes]", data: bytes) -> None:
        import queue

        assert process.stdout is not None
        assert process.stderr is not None
        self._chunks: queue.Queue[tuple[str, bytes]] = queue.Queue(maxsize=64)
        self._empty = queue.Empty
        self._closed = False
        self._left = 2
        for name, stream in (("text", process.stdout), ("errors", process.stderr)):
            threading.Thread(target=self._pump, args=(name, stream), daemon=True).start()
        if process.stdin is not None:
            threading.Thread(target=self._send, args=(process.stdin, data), daemon=True).start()

    @property
    def open(self) -> bool:
        return self._left > 0

    def _pump(self, name: str, stream: "subprocess.IO[bytes]") -> None:  # type: ignore[name-defined]
        chunk = b" "
        while chunk and not self._closed:
            try:
                chunk = os.read(stream.fileno(), 65536)
            except (OSError, ValueError):
                chunk = b""
            self._chunks.put((name, chunk))
        with contextlib.suppress(OSError):
            stream.close()

    def _send(self, stream: "subprocess.IO[bytes]", data: bytes) -> None:  # type: ignore[name-defined]
        with contextlib.suppress(OSError, ValueError):
            stream.write(data)
        with contextlib.suppress(OSError, ValueError):
            stream.close()

    def wait(self, seconds: float) -> Iterator[tuple[str, bytes]]:
        try:
            name, chunk = self._chunks.get(timeout=seconds)
        except self._empty:
            return
        if chunk:
            yield name, chunk
        else:
            self._left -= 1

    def close(self) -> None:
        self._closed = True
        # A pump may wait for room in the full queue; give it some, so that it sees the end.
        with contextlib.suppress(self._empty):
            while True:
                self._chunks.get_nowait()


class _Work(NamedTuple):
    """What the processes of a group have done so far: seconds of processor time, pages and bytes read."""

    cpu: float
    faults: int = 0
    read: int = 0

    def is_more_than(self, earlier: "_Work") -> bool:
        # A process that waits in a loop of short sleeps uses a little time as well; a twentieth of a second is work.
        return self.cpu - earlier.cpu >= 0.05 or self.faults > earlier.faults or self.read > earlier.read


class _Group:
    """A child and everything that it has started."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._lock = threading.Lock()
        self._job = None
        if sys.platform == "win32":
            from .windows_job import Job

            self._job = Job.around(process)

    def has_ended(self) -> bool:
        # Without WNOWAIT the child is reaped, and its number may name somebody else's group when we end the rest.
        if sys.platform != "win32" and hasattr(os, "waitid") and self._process.returncode is None:
            try:
                flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
                return os.waitid(os.P_PID, self._process.pid, flags) is not None
            except ChildProcessError:
                pass
        return self._process.poll() is not None

    def work(self) -> _Work | None:
        """None where this system does not tell."""
        if sys.platform == "win32":
            figures = self._job.work() if self._job else None
            return _Work(*figures) if figures else None
        if sys.platform == "linux":
            members = _members(self._process.pid)
            cpu, faults = (sum(member[part] for member in members) for part in (1, 2))
            ticks = os.sysconf("SC_CLK_TCK") or 100
            return _Work(cpu / ticks, faults, sum(_bytes_read(member[0]) for member in members))
        return _work_by_ps(self._process.pid)

    def end(self) -> bool:
        """End what is left. True if the child is still there afterwards: it is stuck in the kernel."""
        import subprocess

        with self._lock:
            if sys.platform == "win32":
                self._end_on_windows()
            else:
                self._end_on_posix()
            try:
                self._process.wait(KILL_GRACE)
            except subprocess.TimeoutExpired:
                return True
            return False

    def _end_on_posix(self) -> None:
        if sys.platform == "win32":
            return
        leader = self._process.pid
        if self._process.returncode is not None and not hasattr(os, "waitid"):
            # Already reaped: only a group that still has members keeps its number.
            with contextlib.suppress(OSError):
                os.killpg(leader, signal.SIGKILL)
            return
        if self._process.returncode is not None:
            return
        others = [member[0] for member in _members(leader)] if sys.platform == "linux" else []
        if not self.has_ended():
            with contextlib.suppress(OSError):
                os.killpg(leader, signal.SIGTERM)
            until = time.monotonic() + TERM_GRACE
            while not self.has_ended() and time.monotonic() < until:
                time.sleep(0.01)
            others += [member[0] for member in _members(leader)] if sys.platform == "linux" else []
        with contextlib.suppress(OSError):
            os.killpg(leader, signal.SIGKILL)
        for number in set(others) - {leader}:
            # Those with a group of their own. A setuid program (nvidia-modprobe) is not ours to end.
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)

    def _end_on_windows(self) -> None:
        import subprocess

        if self._job:
            self._job.end()
        elif self._process.poll() is None:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(
                    ["taskkill", "/PID", str(self._process.pid), "/T", "/F"],
                    capture_output=True,
                    timeout=5,
                    check=False,
                )
        with contextlib.suppress(OSError):
            self._process.kill()


def _members(leader: int) -> list[tuple[int, int, int]]:
    """(number, processor ticks, major page faults) of the processes of the leader's session and of its descendants."""
    found: dict[int, tuple[int, int, int, int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read(1024).rpartition(b")")[2].split()
            numbers = [int(field) for field in fields[1:15]]
        except (OSError, ValueError):
            continue
        if len(numbers) == 14:
            parent, session = numbers[0], numbers[2]
            found[int(name)] = (parent, session, sum(numbers[10:14]), sum(numbers[8:10]))
    members = {number for number, (_, session, _, _) in found.items() if leader in (session, number)}
    grown = True
    while grown:
        children = {number for number, fields in found.items() if fields[0] in members} - members
        members |= children
        grown = bool(children)
    return [(number, *found[number][2:]) for number in members if number in found]


def _bytes_read(number: int) -> int:
    try:
        with open(f"/proc/{number}/io", "rb") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith((b"rchar:", b"read_bytes:")))
    except (OSError, ValueError, IndexError):
        return 0


def _work_by_ps(group: int) -> _Work | None:
    """On macOS and the BSDs: processor time of a process group, to the hundredth or the whole second."""
    import subprocess

    try:
        listing = subprocess.run(
            ["/bin/ps", "-A", "-o", "pgid=,time="], capture_output=True, timeout=2, check=True, stdin=subprocess.DEVNULL
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    total = 0.0
    for line in listing.decode("ascii", "replace").splitlines():
        fields = line.split()
        if len(fields) == 2 and fields[0] == str(group):
            seconds = 0.0
            for part in fields[1].replace("-", ":").split(":"):
                with contextlib.suppress(ValueError):
                    # Days count 24 hours, not 60; a program of ours never gets that old.
                    seconds = seconds * 60 + float(part)
            total += seconds
    return _Work(total)

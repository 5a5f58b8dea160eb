"""Windows: a job object holds a program and all that it starts, tells what they did, and ends them together."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _ACCOUNTING_AND_IO = 8
    _LIMITS = 9
    _KILL_ON_CLOSE = 0x2000

    class _Limits(ctypes.Structure):
        """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

        _fields_ = (
            ("process_time", ctypes.c_int64),
            ("job_time", ctypes.c_int64),
            ("flags", wintypes.DWORD),
            ("least_working_set", ctypes.c_size_t),
            ("most_working_set", ctypes.c_size_t),
            ("active_processes", wintypes.DWORD),
            ("affinity", ctypes.c_size_t),
            ("priority", wintypes.DWORD),
            ("scheduling", wintypes.DWORD),
            ("io", ctypes.c_uint64 * 6),
            ("process_memory", ctypes.c_size_t),
            ("job_memory", ctypes.c_size_t),
            ("peak_process_memory", ctypes.c_size_t),
            ("peak_job_memory", ctypes.c_size_t),
        )

    class _Accounting(ctypes.Structure):
        """JOBOBJECT_BASIC_AND_IO_ACCOUNTING_INFORMATION; times in units of 100 ns."""

        _fields_ = (
            ("user_time", ctypes.c_int64),
            ("kernel_time", ctypes.c_int64),
            ("period_user_time", ctypes.c_int64),
            ("period_kernel_time", ctypes.c_int64),
            ("page_faults", wintypes.DWORD),
            ("processes", wintypes.DWORD),
            ("active", wintypes.DWORD),
            ("terminated", wintypes.DWORD),
            ("reads", ctypes.c_uint64),
            ("writes", ctypes.c_uint64),
            ("others", ctypes.c_uint64),
            ("read_bytes", ctypes.c_uint64),
            ("written_bytes", ctypes.c_uint64),
            ("other_bytes", ctypes.c_uint64),
        )

    class Job:
        """Closing the handle, also by our own death, ends what is left in it."""

        def __init__(self, kernel: ctypes.WinDLL, handle: int) -> None:
            self._kernel = kernel
            self._handle = handle

        @classmethod
        def around(cls, process: "subprocess.Popen[bytes]") -> "Job | None":
            """None where Windows refuses (an older one inside a job already)."""
            kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            kernel.CreateJobObjectW.restype = wintypes.HANDLE
            kernel.CreateJobObjectW.argtypes = (wintypes.LPVOID, wintypes.LPCWSTR)
            kernel.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
            kernel.SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD)
            kernel.QueryInformationJobObject.argtypes = (
                wintypes.HANDLE,
                ctypes.c_int,
                wintypes.LPVOID,
                wintypes.DWORD,
                wintypes.LPVOID,
            )
            kernel.TerminateJobObject.argtypes = (wintypes.HANDLE, wintypes.UINT)
            kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
            handle = kernel.CreateJobObjectW(None, None)
            if not handle:
                return None
            limits = _Limits()
            limits.flags = _KILL_ON_CLOSE
            # What the child starts before this call is outside; between the two lie microseconds.
            if kernel.SetInformationJobObject(
                handle, _LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
            ) and kernel.AssignProcessToJobObject(handle, int(process._handle)):  # type: ignore[attr-defined]
                return cls(kernel, handle)
            kernel.CloseHandle(handle)
            return None

        def work(self) -> tuple[float, int, int] | None:
            """Seconds of processor time, page faults (not counted: most are soft) and bytes read, of all together."""
            told = _Accounting()
            size = ctypes.sizeof(told)
            if not self._handle or not self._kernel.QueryInformationJobObject(
                self._handle, _ACCOUNTING_AND_IO, ctypes.byref(told), size, None
            ):
                return None
            return (told.user_time + told.kernel_time) / 1e7, 0, told.read_bytes

        def end(self) -> None:
            if self._handle:
                self._kernel.TerminateJobObject(self._handle, 1)
                self._kernel.CloseHandle(self._handle)
                self._handle = 0

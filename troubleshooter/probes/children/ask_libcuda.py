"""Loads the driver's own CUDA library and starts it; prints what it answers, one JSON object a line.

Runs in a process of its own: the start of CUDA can hang or crash with the driver, and a process that has started it
keeps the GPU awake.
"""

import ctypes
import json
import sys

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


def say(**answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    try:
        # Its functions follow the calling convention of Windows there.
        cuda = getattr(ctypes, "WinDLL", ctypes.CDLL)(LIBRARY)
    except OSError as error:
        say(ask="load", error=str(error))
        return
    say(ask="load", error="", path=loaded_from())
    number = ctypes.c_int()
    code = cuda.cuDriverGetVersion(ctypes.byref(number))
    say(ask="version", code=code, value=number.value)
    say(ask="starting")
    code = cuda.cuInit(0)
    name = ctypes.c_char_p()
    if getattr(cuda, "cuGetErrorName", None):
        cuda.cuGetErrorName(code, ctypes.byref(name))
    say(ask="init", code=code, name=(name.value or b"").decode("ascii", "replace"))
    if code == 0:
        code = cuda.cuDeviceGetCount(ctypes.byref(number))
        say(ask="count", code=code, value=number.value)
    say(ask="end")


def loaded_from() -> str:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return next((line.split(None, 5)[5].strip() for line in maps if "/libcuda.so" in line), "")
    except (OSError, IndexError):
        return ""


if __name__ == "__main__":
    main()

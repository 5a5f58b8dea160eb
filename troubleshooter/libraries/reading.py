"""Opens a library's file and hands it to the reader of its format. Whatever the file holds, the answer is a value."""

import mmap
import os
import stat
import struct
from collections.abc import Callable
from typing import TypeVar

from . import Library, Symbols

Answer = TypeVar("Answer", Library, Symbols)


class Unsound(Exception):
    """The bytes are not what the format promises; the text says where."""


def headers(path: str, real: str) -> Library:
    def read(data: mmap.mmap) -> Library:
        if data[:4] == b"\x7fELF":
            from . import elf

            return elf.headers(path, data)
        if data[:2] == b"MZ":
            from . import pe

            return pe.headers(path, data)
        raise Unsound("it is neither an ELF nor a PE file")

    return _opened(path, real, read, Library)


def symbols(path: str, real: str) -> Symbols:
    def read(data: mmap.mmap) -> Symbols:
        if data[:4] == b"\x7fELF":
            from . import elf

            return elf.symbols(path, data)
        if data[:2] == b"MZ":
            from . import pe

            return pe.symbols(path, data)
        raise Unsound("it is neither an ELF nor a PE file")

    return _opened(path, real, read, Symbols)


def _opened(path: str, real: str, read: Callable[[mmap.mmap], Answer], kind: type[Answer]) -> Answer:
    # Mapped, not read: the libraries of torch have up to a gigabyte, their headers a few kilobytes.
    # Non-blocking: a pipe or a device in the file's place must not hold us.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)
    try:
        descriptor = os.open(real, flags)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return kind(path, "failed", "it is no plain file")
            if found.st_size == 0:
                return kind(path, "failed", "the file is empty")
            with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
                return read(data)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError) as error:
        return kind(path, "missing", error.strerror or str(error))
    except PermissionError as error:
        return kind(path, "denied", error.strerror or str(error))
    except Unsound as error:
        return kind(path, "failed", str(error))
    except (struct.error, IndexError):
        return kind(path, "failed", "the file is cut short")
    except Exception as error:
        return kind(path, "failed", f"its headers cannot be read ({type(error).__name__})")
